#!/usr/bin/env bash
# Builds the tool by the profile of a measurement, in target/pgo. First an instrumented tool
# measures round trips, streams and HTTP requests. Then the compiler optimizes for what was counted.
# Exit code 3: the last line says what is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
. packages/paths.sh

host=$(rustc --version --verbose | sed -n 's/^host: //p')
merge=$(rustc --print sysroot)/lib/rustlib/$host/bin/llvm-profdata
[ -x "$merge" ] || rustup component add llvm-tools >/dev/null 2>&1 ||
    missing "no llvm-profdata: rustup component add llvm-tools"
place=$target/pgo
counts=$place/counts
rm -rf "$counts"

# The tool with one more option of the compiler, in a folder: build FOLDER OPTION. Options of
# RUSTFLAGS stay, and a path may have spaces.
read -ra given <<<"${RUSTFLAGS:-}"
build() {
    local IFS=$'\x1f' words=("${given[@]}" "-C$2")
    CARGO_ENCODED_RUSTFLAGS="${words[*]}" cargo build --quiet --locked --release \
        --package olivine-cli --bin olivine --target "$host" --target-dir "$place/$1"
    tool=$place/$1/$host/release/olivine
}

build counting "profile-generate=$counts"
# A file for each process: a process that is killed while it writes spoils only its own.
export LLVM_PROFILE_FILE=$counts/%p.profraw
short='--runs 1 --seconds 0.5'
for scenario in 'pingpong --method olivine-spin,olivine-park,olivine-tcp' throughput \
    'latency --rate 10K,1M' 'mesh --publishers 2 --subscribers 2' http tcp; do
    "$tool" bench $scenario $short >"$place/log" 2>&1 || fail "bench $scenario: $(cat "$place/log")"
done
"$merge" merge --failure-mode=all --output "$place/profile" "$counts"
ran=$("$merge" show "$place/profile" | sed -n 's/^Total functions: //p')
build optimized "profile-use=$place/profile"
[ "$(OLIVINE_DIR=$place "$tool" pub shm://pgo one --log-level warn &&
    OLIVINE_DIR=$place "$tool" sub shm://pgo --from oldest --once)" = one ] || fail 'no message'
ok "$tool, by the profile of $ran functions"
