#!/usr/bin/env bash
# Builds the site in target/book from SUMMARY.md, and checks its links. Installs mdBook below target
# if it is not on the path in the version below.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
version=0.5.2

export PATH=$PATH:$target/tools/bin
if [ "$(mdbook --version 2>/dev/null)" != "mdbook v$version" ]; then
    echo "installing mdbook $version"
    # It runs for a second: an optimised build would take minutes longer.
    CARGO_TARGET_DIR=$target/tools/build CARGO_PROFILE_DEV_DEBUG=0 cargo install mdbook \
        --quiet --locked --version "$version" --no-default-features --features search \
        --profile dev --force --root "$target/tools" || {
        echo "missing: no mdbook: cargo install mdbook --locked --version $version" >&2
        exit 3
    }
    rm -rf "$target/tools/build"
    export PATH=$target/tools/bin:$PATH
fi

rm -rf "$target/book" "$target/book-source"
python3 docs/book/site.py gather "$target/book-source"
mdbook build --dest-dir "$target/book" "$target/book-source"
python3 docs/book/site.py check "$target/book"
