#!/bin/sh
# Runs the example hello_http under each allocator that can be preloaded, and loads it: does the allocator
# matter? It should not, because no request allocates.
#
#   crates/olivine-net/scripts/allocators.sh [SECONDS [RUNS]]
#
# apt-get install libtcmalloc-minimal4 libjemalloc2 libmimalloc2.0; one that is not there is named and left out.
set -eu
cd "$(dirname "$0")/../../.."
[ "${SKIP_BUILD:-no}" = yes ] || cargo build --quiet --release --package olivine-net --example hello_http
[ "${SKIP_BUILD:-no}" = yes ] || cargo build --quiet --release --package olivine-cli
olivine=${OLIVINE:-target/release/olivine}
folder=$(mktemp --directory)
for allocator in system libtcmalloc_minimal.so.4 libjemalloc.so.2 libmimalloc.so.2; do
    : > "$folder/server"
    preload=
    if [ "$allocator" != system ]; then
        preload=$(ldconfig --print-cache | sed --quiet "s/.*$allocator .* => //p" | head --lines 1)
        [ -n "$preload" ] || preload=$(find /usr/lib -name "$allocator*" 2> /dev/null | head --lines 1)
        if [ -z "$preload" ]; then
            echo "$allocator is left out: it is not installed"
            continue
        fi
    fi
    LD_PRELOAD=$preload target/release/examples/hello_http --listen 127.0.0.1:0 --threads 1 --wait block \
        > "$folder/server" &
    server=$!
    trap 'kill "$server" 2> /dev/null; rm -rf "$folder"' EXIT
    until grep --quiet listening "$folder/server"; do
        kill -0 "$server"
    done
    if [ -n "$preload" ] && ! grep --quiet "$allocator" "/proc/$server/maps"; then
        echo "$allocator was not taken"
        exit 1
    fi
    url="http://$(sed 's/listening on \([^,]*\),.*/\1/' "$folder/server")/plaintext"
    echo "== $allocator"
    "$olivine" bench http "$url" --depth 1,16 --seconds "${1:-5}" --runs "${2:-5}" | grep -E "SERVER|127.0.0.1"
    kill -TERM "$server"
    wait "$server"
done
