# Names and functions of package.sh and try.sh, which set `target` and source this file.

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
triple=$(uname -m)-unknown-linux-musl
debian=$(dpkg --print-architecture 2>/dev/null || uname -m)
out=$target/packages
name=olivine-$version-$(uname -m)-linux
deb=olivine_${version}_$debian.deb

ok() {
    echo "ok: $*"
}

fail() {
    echo "error: $*" >&2
    exit 1
}

missing() {
    echo "missing: $*" >&2
    exit 3
}

# Fails if there is no program $1, which the package $2 has.
need() {
    PATH=$PATH:/usr/sbin command -v "$1" >/dev/null || missing "no $1: apt-get install $2"
}
