#!/usr/bin/env bash
# Installs each package of target/packages in a clean place and runs what it contains: the archive
# in an empty root, the package of Debian in a new system, the image in a container.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
. packages/paths.sh

[ "$(id -u)" = 0 ] || missing "clean places need root"
for pair in debootstrap:debootstrap buildah:buildah cc:gcc; do
    need "${pair%:*}" "${pair#*:}"
done
[ -f "$out/SHA256SUMS" ] || fail "no packages in $out: run packages/package.sh"
(cd "$out" && sha256sum --check --quiet SHA256SUMS)
ok "checksums"

place=$(mktemp -d)
mounted=()
clean() {
    for folder in "${mounted[@]}"; do umount "$folder"; done
    rm -rf --one-file-system "$place"
}
trap clean EXIT

# Gives a root memory to share and a view of processes.
mount_in() {
    mkdir -p "$1/dev/shm" "$1/proc"
    mount -t tmpfs -o size=64m tmpfs "$1/dev/shm"
    mounted+=("$1/dev/shm")
    mount -t proc proc "$1/proc"
    mounted+=("$1/proc")
}

# The archive, in a root that has nothing else.
root=$place/empty
mkdir "$root"
mount_in "$root"
tar --extract --gzip --file "$out/$name.tar.gz" --strip-components 1 --directory "$root"
try_tool chroot "$root" /bin/olivine
for file in share/man/man1/olivine.1 share/man/man1/olivine-bench-pingpong.1 \
    share/bash-completion/completions/olivine share/zsh/site-functions/_olivine \
    share/fish/vendor_completions.d/olivine.fish share/doc/olivine/LICENSE-MIT; do
    [ -s "$root/$file" ] || fail "the archive has no $file"
done
ok "$name.tar.gz in an empty root"

# The package of Debian, in a new system of the release of this machine. It is kept as an archive.
release=$(. /etc/os-release && echo "$VERSION_CODENAME")
system=$target/tools/$release-$debian.tar
if [ ! -f "$system" ]; then
    mkdir -p "$target/tools"
    debootstrap --variant=minbase --include=man-db,bash-completion "$release" "$place/new" \
        >"$place/debootstrap.log" 2>&1 ||
        missing "debootstrap $release: $(tail -n 1 "$place/debootstrap.log")"
    tar --create --one-file-system --file "$system.part" --directory "$place/new" .
    mv "$system.part" "$system"
    rm -rf --one-file-system "$place/new"
fi
root=$place/system
mkdir "$root"
tar --extract --file "$system" --directory "$root"
mount_in "$root"
before=$(cd "$root" && find usr etc -type f | sort)
cp "$out/$deb" "$root/tmp"
start=$(date +%s%N)
chroot "$root" dpkg --install "/tmp/$deb" >"$place/dpkg.log" 2>&1 || fail "$(cat "$place/dpkg.log")"
chroot "$root" olivine pub shm://first 'a message' --log-level warn
chroot "$root" olivine sub shm://first --from oldest --once >/dev/null
ok "$deb: first message $((($(date +%s%N) - start) / 1000000)) ms after the start of dpkg"
try_tool chroot "$root" olivine
chroot "$root" man --path olivine-sub | grep -q olivine-sub.1.gz || fail "man finds no page"
chroot "$root" bash -c '. /usr/share/bash-completion/bash_completion
    _completion_loader olivine; complete -p olivine' | grep -q olivine || fail "no completion"
for file in usr/lib/systemd/system/olivine-bridge.service \
    usr/share/zsh/vendor-completions/_olivine \
    usr/share/fish/vendor_completions.d/olivine.fish usr/share/doc/olivine/copyright; do
    [ -s "$root/$file" ] || fail "the package has no $file"
done
# A program of C, linked with what the package has, and started where there is no compiler.
cat >"$place/hello.c" <<'PROGRAM'
#include <olivine.h>
#include <stdio.h>

int main(void) {
    olivine_publisher *publisher;
    if (olivine_publisher_open("shm://from-c", &publisher) != OLIVINE_STATUS_OK ||
        olivine_publisher_publish(publisher, "hello", 5, NULL, NULL) != OLIVINE_STATUS_OK) {
        fprintf(stderr, "%s\n", olivine_last_error());
        return 1;
    }
    olivine_publisher_close(publisher);
}
PROGRAM
cc -I "$root/usr/include" "$place/hello.c" -L "$root/usr/lib" -lolivine -o "$root/tmp/hello"
chroot "$root" /tmp/hello
received=$(chroot "$root" olivine sub shm://from-c --from oldest --once)
[ "$received" = hello ] || fail "no message of C"
ok "$deb: tool, man pages, completions, library"
chroot "$root" dpkg --purge olivine >"$place/dpkg.log" 2>&1 || fail "$(cat "$place/dpkg.log")"
left=$(cd "$root" && comm -13 <(echo "$before") <(find usr etc -type f | sort))
[ -z "$left" ] || fail "dpkg --purge left $left"
ok "$deb: removed without a trace"

# The image, made from the archive.
mkdir "$place/containers"
container() {
    buildah --root "$place/containers" --runroot "$place/containers/run" --storage-driver vfs "$@"
}
tar --extract --gzip --file "$out/$name.tar.gz" --directory "$place"
container build --quiet --isolation chroot --file packages/Containerfile --tag olivine \
    "$place/$name" >/dev/null
made=$(container from olivine)
try_tool container run --isolation chroot --volume "$root/dev/shm:/dev/shm" "$made" -- /bin/olivine
entry=$(container inspect --format '{{.OCIv1.Config.Entrypoint}}' "$made")
[ "$entry" = '[/bin/olivine]' ] || fail "the image starts $entry"
ok "the image"
