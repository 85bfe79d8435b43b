#!/usr/bin/env bash
# Builds the packages in target/packages, installs each in a clean place, and runs what it contains:
#
#   olivine-VERSION-ARCH-linux.tar.gz   the tool as a static program, man pages, completions
#   olivine_VERSION_ARCH.deb            the same, the library for C and C++, and a unit for systemd
#   SHA256SUMS                          their checksums
#
# and an image of the tool, from the Containerfile. `--build` builds and tries nothing. It needs
# Debian or Ubuntu; the clean places need root. Exit code 3: the last line says what is missing.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
places=packages
. "$places/paths.sh"

for pair in musl-gcc:musl-tools dpkg-deb:dpkg strip:binutils rustup:rustup; do
    need "${pair%:*}" "${pair#*:}"
done
rustup target add "$triple" >"$target/rustup.log" 2>&1 ||
    missing "no standard library for $triple: $(tail -n 1 "$target/rustup.log")"
# The dates of all files are that of the commit, so that two builds of it are equal.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export SOURCE_DATE_EPOCH

# lld, which the toolchain contains, leaves out equal functions and packs relocations: half a MB.
host=$(rustc --version --verbose | sed -n 's/^host: //p')
lld=$(rustc --print sysroot)/lib/rustlib/$host/bin/gcc-ld
export "CC_${triple//-/_}=musl-gcc"
cargo rustc --quiet --locked --profile tool --package olivine-cli --bin olivine --target "$triple" \
    --features "${features// /,}" -- -C link-arg="-B$lld" -C link-arg=-fuse-ld=lld \
    -C link-arg=-Wl,--icf=all,--pack-dyn-relocs=relr,--strip-all
tool=$target/$triple/tool/olivine
size=$(stat -c %s "$tool")
[ "$size" -le 12000000 ] || fail "the tool has $size bytes, more than 12 MB"
if readelf --wide --program-headers --dynamic "$tool" | grep -E 'INTERP|NEEDED'; then
    fail "the tool is not static"
fi
ok "the tool is static and has $size bytes"

rm -rf "$out"
mkdir -p "$out"

# Man pages of a command and of those below it. Each page lists the latter.
pages() {
    local name=olivine word
    for word in "$@"; do name=$name-$word; done
    "$tool" man "$@" >"$man/$name.1"
    sed 's/\\-/-/g' "$man/$name.1" | sed -n "s/^$name-\(.*\)(1)$/\1/p" |
        while read -r word; do
            [ "$word" = help ] || pages "$@" "$word"
        done
}

# The tool and what describes it, below the folders of a prefix: tool PREFIX ZSH FISH.
tool_in() {
    man=$1/share/man/man1
    mkdir -p "$1/bin" "$man" "$1/share/bash-completion/completions" "$1/$2" "$1/$3" \
        "$1/share/doc/olivine"
    cp "$tool" "$1/bin/olivine"
    pages
    "$tool" completions bash >"$1/share/bash-completion/completions/olivine"
    "$tool" completions zsh >"$1/$2/_olivine"
    "$tool" completions fish >"$1/$3/olivine.fish"
    cp LICENSE-MIT LICENSE-APACHE "$1/share/doc/olivine"
    cp crates/olivine-cli/README.md docs/seccomp.json "$1/share/doc/olivine"
}

tool_in "$out/$name" share/zsh/site-functions share/fish/vendor_completions.d
tar --create --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u+rw,go+r-w,a+X --directory "$out" "$name" | gzip --best --no-name >"$out/$name.tar.gz"
ok "$name.tar.gz has $(stat -c %s "$out/$name.tar.gz") bytes, $(ls "$man" | wc -l) man pages"

# The package of Debian.
root=$out/debian
tool_in "$root/usr" share/zsh/vendor-completions share/fish/vendor_completions.d
gzip --best --no-name "$man"/*.1
cargo xtask capi --prefix "$root/usr" >"$target/capi.log" 2>&1 || fail "$(cat "$target/capi.log")"
so=$root/usr/lib/libolivine.so.$version
strip "$so"
size=$(stat -c %s "$so")
[ "$size" -le 2000000 ] || fail "the library has $size bytes, more than 2 MB"
mkdir -p "$root/usr/lib/systemd/system" "$root/usr/lib/sysusers.d" "$root/DEBIAN"
sed 's|/usr/local/bin|/usr/bin|; s|: copy to /etc/systemd/system, name| (package olivine): name|' \
    docs/systemd/olivine-bridge.service >"$root/usr/lib/systemd/system/olivine-bridge.service"
cp docs/systemd/olivine.conf "$root/usr/lib/sysusers.d/olivine.conf"
{
    echo "Olivine, under the MIT or the Apache-2.0 licence, as you choose."
    echo
    cat LICENSE-MIT
    echo
    cat LICENSE-APACHE
} >"$root/usr/share/doc/olivine/copyright"
rm "$root/usr/share/doc/olivine"/LICENSE-*
gzip --best --no-name --stdout CHANGELOG.md >"$root/usr/share/doc/olivine/changelog.gz"
# The library is linked with the C library of this machine; the tool needs none.
libc=$(readelf --wide --version-info "$so" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
cat >"$root/DEBIAN/control" <<CONTROL
Package: olivine
Version: $version
Architecture: $debian
Maintainer: The Olivine developers
Section: net
Priority: optional
Depends: libc6 (>= ${libc#GLIBC_}), libgcc-s1
Installed-Size: $(du --apparent-size -sk "$root/usr" | cut -f 1)
Description: messages between programs: fast, nothing lost, survives any crash
 Sends messages through shared memory, TCP, NATS or a file. Contains the tool, the library with
 headers for C and C++, man pages, completions for bash, zsh and fish, and a unit for systemd.
CONTROL
echo 'activate-noawait ldconfig' >"$root/DEBIAN/triggers"
cat >"$root/DEBIAN/postinst" <<'SCRIPT'
#!/bin/sh
# The user of olivine-bridge.service, where there is systemd.
set -e
if [ "$1" = configure ] && command -v systemd-sysusers >/dev/null; then
    systemd-sysusers olivine.conf
fi
SCRIPT
chmod -R u=rwX,go=rX "$root"
chmod 755 "$root/DEBIAN/postinst"
dpkg-deb --root-owner-group -Zxz --build "$root" "$out/$deb" >/dev/null
ok "$deb has $(stat -c %s "$out/$deb") bytes, the library $size; it needs $libc"

rm -r "$root"
(cd "$out" && sha256sum "$name.tar.gz" "$deb" >SHA256SUMS)
[ "${1:-}" = --build ] || exec "$places/try.sh"
