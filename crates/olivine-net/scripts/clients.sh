#!/bin/sh
# Has other people's clients talk to the example hello_http: curl, wrk and a browser without a screen.
# Ends with the number of checks that passed and failed; a client that is not there is named and left out.
#
#   crates/olivine-net/scripts/clients.sh          (apt-get install curl wrk chromium)
set -eu
cd "$(dirname "$0")/../../.."
cargo build --quiet --release --package olivine-net --example hello_http
folder=$(mktemp --directory)
passed=0
failed=0
check() { # name, expected text, file
    if grep --quiet --fixed-strings -- "$2" "$3"; then
        passed=$((passed + 1))
        echo "ok    $1"
    else
        failed=$((failed + 1))
        echo "FAIL  $1: no \"$2\" in:"
        cat "$3"
    fi
}
for backend in mio auto; do
    : > "$folder/server"
    target/release/examples/hello_http --listen 127.0.0.1:0 --backend "$backend" > "$folder/server" &
    server=$!
    trap 'kill "$server" 2> /dev/null; rm -rf "$folder"' EXIT
    until grep --quiet listening "$folder/server"; do
        kill -0 "$server"
    done
    url="http://$(sed 's/listening on \([^,]*\),.*/\1/' "$folder/server")/"
    if command -v curl > /dev/null; then
        curl --silent --show-error --include "$url" "$url" > "$folder/curl" 2>&1 || true
        check "curl, $backend" "Hello, World!" "$folder/curl"
        curl --silent --head --http1.0 "$url" > "$folder/curl" 2>&1 || true
        check "curl --head --http1.0, $backend" "Content-Length: 13" "$folder/curl"
        head --bytes 300000 /dev/zero |
            curl --silent --include --data-binary @- "${url}nothing" > "$folder/curl" 2>&1 || true
        check "curl, 300 kB to a page that is not there, $backend" "404 Not Found" "$folder/curl"
    else
        echo "curl is left out: it is not installed"
    fi
    if command -v wrk > /dev/null; then
        wrk --threads 2 --connections 32 --duration 2s "$url" > "$folder/wrk" 2>&1 || true
        check "wrk, $backend" "Requests/sec" "$folder/wrk"
        if grep --quiet --extended-regexp "Non-2xx|(connect|read|write) [1-9]" "$folder/wrk"; then
            failed=$((failed + 1))
            echo "FAIL  wrk saw errors:" # a time-out is the machine's, not an error of the server
            cat "$folder/wrk"
        fi
    else
        echo "wrk is left out: it is not installed"
    fi
    if command -v chromium > /dev/null; then
        timeout 60 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$folder/profile" \
            --dump-dom "$url" > "$folder/browser" 2> "$folder/browser.log" || true
        check "chromium, $backend" "Hello, World!" "$folder/browser"
    else
        echo "chromium is left out: it is not installed"
    fi
    kill -TERM "$server"
    wait "$server" || failed=$((failed + 1))
    check "stopped, $backend" " 0 cut" "$folder/server"
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
