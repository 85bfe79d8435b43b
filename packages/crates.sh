#!/usr/bin/env bash
# Packs the crates as a registry gets them, and installs the tool from those packages in a clean
# place: `cargo install olivine-cli --locked`, first without features and then with all.
#
# The registry is a folder with our packages and, from Cargo's own registry, all they depend on.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
. packages/paths.sh

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# The step `publish` of the deep tests builds each from its package alone.
CARGO_TARGET_DIR=$place/packed cargo package --quiet --locked --workspace --no-verify \
    --allow-dirty 2>"$place/package.log" || fail "$(cat "$place/package.log")"
cargo vendor --quiet --locked --versioned-dirs "$place/registry" >/dev/null 2>"$place/vendor.log" ||
    fail "$(cat "$place/vendor.log")"
for crate in "$place"/packed/package/*.crate; do
    tar --extract --gzip --file "$crate" --directory "$place/registry"
    sum=$(sha256sum "$crate" | cut -d ' ' -f 1)
    echo "{\"files\":{},\"package\":\"$sum\"}" \
        >"$place/registry/$(basename "$crate" .crate)/.cargo-checksum.json"
done
mkdir -p "$place/home" "$place/empty"
cat >"$place/home/config.toml" <<CONFIG
[source.crates-io]
replace-with = "packages"
[source.packages]
directory = "$place/registry"
CONFIG

commit=$(git rev-parse --short=12 HEAD)

# Installs the tool with `$features` in an empty folder, and tries it.
try_crate() {
    local start
    start=$(date +%s)
    (cd "$place/empty" && CARGO_HOME=$place/home CARGO_TARGET_DIR=$place/build \
        cargo install olivine-cli --quiet --offline --locked --force --root "$place/installed" \
        --features "$features" 2>"$place/install.log") || fail "$(cat "$place/install.log")"
    OLIVINE_DIR=$place try_tool "$place/installed/bin/olivine"
    "$place/installed/bin/olivine" --version | grep -q "^commit: $commit$" || fail "another commit"
    ok "cargo install olivine-cli --features '$features': $(($(date +%s) - start)) s"
}
features='' try_crate
try_crate
