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

# The features that packages of the tool have.
features='arrow mcap nats screen tls zstd'

# Sends a message and receives it by `$@ ARGUMENTS…`, the tool in its place; then 1,000, verified.
try_tool() {
    "$@" --version | grep -q "^olivine $version" || fail "$*: another version than $version"
    "$@" --version | grep -q "^features: $features\$" || fail "$*: features"
    "$@" pub shm://hello 'first message' --log-level warn
    [ "$("$@" sub shm://hello --from oldest --once)" = 'first message' ] || fail "$*: no message"
    "$@" pub shm://more --size 32 --count 1000 --log-level warn
    "$@" sub shm://more --from oldest --once --verify 2>&1 | grep -q ': 0 lost, 0 repeated' ||
        fail "$*: no 1,000 messages"
}
