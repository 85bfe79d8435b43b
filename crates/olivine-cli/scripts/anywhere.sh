#!/usr/bin/env bash
# Carries a shell pipe from one network namespace to another, into a NATS server, and back out of a
# journal, and compares checksums.
#
#   anywhere.sh [FILE]      FILE is carried line by line; without one, the numbers from 1 to 200000
#
# Needs `olivine` ($OLIVINE, else on the path). As root with `ip`, each end has a namespace; else
# both are on loopback. With `nats-server` ($NATS_SERVER, else on the path) the pipe goes through a
# stream.
set -euo pipefail

olivine=${OLIVINE:-olivine}
work=$(mktemp -d)
export OLIVINE_DIR=$work/channels
here=() there=() address=127.0.0.1
running=()

clean_up() {
    for process in "${running[@]}"; do
        kill "$process" 2>/dev/null || true
    done
    wait 2>/dev/null || true
    if ((${#here[@]})); then
        ip netns del "$near" || true
        ip netns del "$far" || true
    fi
    rm -rf "$work"
}
trap clean_up EXIT

# A free port.
free_port() {
    python3 -c '
import socket
s = socket.socket()
s.bind(("127.0.0.1", 0))
print(s.getsockname()[1])'
}

# Starts a program that ends when the stream does, and remembers it.
follow() {
    "$@" >>"$work/log" 2>&1 &
    followers+=($!)
    running+=($!)
}

near=anywhere-$$-a far=anywhere-$$-b
if ip netns add "$near" 2>/dev/null; then
    ip netns add "$far"
    here=(ip netns exec "$near") there=(ip netns exec "$far") address=10.79.0.1
    ip link add anywhere netns "$near" type veth peer name anywhere netns "$far"
    ip -n "$near" address add 10.79.0.1/30 dev anywhere
    ip -n "$far" address add 10.79.0.2/30 dev anywhere
    for namespace in "$near" "$far"; do
        ip -n "$namespace" link set lo up
        ip -n "$namespace" link set anywhere up
    done
    echo "from namespace $near to namespace $far"
else
    echo "no network namespaces (that needs root): both ends on loopback"
fi

input=${1:-$work/numbers}
if (($# == 0)); then
    seq 200000 >"$input"
fi
tcp=tcp://$address:$(free_port)/lines
followers=()

# The farthest end first: each channel then has its reader before its first message.
follow "${there[@]}" "$olivine" bridge shm://out "file://$work/lines.olv"
server=
if [[ $("$olivine" --version) == *' nats'* ]]; then
    server=$(command -v "${NATS_SERVER:-nats-server}" || true)
fi
if [[ $server ]]; then
    port=$(free_port)
    "${there[@]}" "$server" --addr 127.0.0.1 --port "$port" --jetstream \
        --store_dir "$work/nats" >>"$work/log" 2>&1 &
    running+=($!)
    nats=nats://127.0.0.1:$port/lines
    follow "${there[@]}" "$olivine" bridge "$nats?from=oldest" shm://out
    follow "${there[@]}" "$olivine" bridge shm://in "$nats"
    echo "through $server"
else
    follow "${there[@]}" "$olivine" bridge shm://in shm://out
    echo "without NATS: no nats-server, or a tool without the feature 'nats'"
fi
follow "${there[@]}" "$olivine" bridge "$tcp" shm://in

"${here[@]}" "$olivine" pub "$tcp?subscribers=1" --stdin lines <"$input"
for process in "${followers[@]}"; do
    wait "$process" || { cat "$work/log" >&2; exit 1; }
done

sent=$(sha256sum <"$input")
came=$("$olivine" sub "file://$work/lines.olv" | sha256sum)
echo "sent ${sent%% *}"
echo "came ${came%% *}"
[[ $sent == "$came" ]]
