#!/usr/bin/env bash
# Serves the same load under each allocator that is found, by LD_PRELOAD, in turn and several times.
# Since nothing is allocated per request, the allocator must not matter: compare the lines.
#
# Usage, after `cargo build --release --package olivine-net --examples`:
#   crates/olivine-net/tests/allocators.sh [FOLDER_OF_EXAMPLES [FOLDER_OF_LIBRARIES]]
#
# Fails if no allocator but the system's is found, or if a server answers nothing.
set -o errexit -o nounset -o pipefail

examples=${1:-target/release/examples}
libraries=${2:-/usr/lib}
port=${PORT:-8137}
passes=${PASSES:-3}
log=$(mktemp)
trap 'rm --force "$log"' EXIT

declare -A found=([system]="")
for name in tcmalloc_minimal jemalloc mimalloc; do
    path=$(find "$libraries" -name "lib$name.so*" -print -quit 2>/dev/null || true)
    if [[ -n $path ]]; then found[$name]=$path; else echo "$name: not found, left out"; fi
done
if [[ ${#found[@]} -lt 2 ]]; then
    echo "no allocator to compare with was found under $libraries" >&2
    exit 1
fi

checked=0
for ((pass = 1; pass <= passes; pass++)); do
    for name in "${!found[@]}"; do
        LD_PRELOAD=${found[$name]} "$examples/hello_http" --listen "127.0.0.1:$port" --cpus 0 >"$log" &
        server=$!
        for ((attempt = 0; attempt < 1000; attempt++)); do
            if grep --quiet listening "$log"; then break; fi
            read -r -t 0.01 <> <(:) || true
        done
        line=$("$examples/load" "127.0.0.1:$port" --cpu 1 --duration 1 --pid "$server")
        kill -TERM "$server"
        wait "$server"
        [[ $line == *requests/s* && $line != 0\ * ]]
        echo "pass $pass, $name: $line"
        checked=$((checked + 1))
    done
done
echo "$checked runs under ${#found[@]} allocators"
