#!/usr/bin/env bash
# Builds the wheels below target/wheels: one for this machine, and on x86-64 one for aarch64. Runs
# the tests of the package with the former in a new environment without Rust. The other is not run.
#
# `wheel.sh python3.10` builds and tests one for that interpreter alone, for each that it is given:
# versions before 3.11 need one.
#
# zig links against the C library of manylinux_2_28, so the wheels run where glibc is 2.28 or later.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
target=$(realpath -m "${CARGO_TARGET_DIR:-../../target}")
tools=$target/tools/wheel
arch=$(uname -m)
if [ ! -x "$tools/bin/maturin" ]; then
    rm -rf "$tools"
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet 'maturin>=1.9.4,<2' ziglang
fi
if [ $# = 0 ]; then rm -f "$target"/wheels/olivine-*-abi3-manylinux_2_28_*.whl; fi

# build ARCH OPTION…: the wheel's path.
build() {
    rm -rf "$target/wheels/new"
    PATH=$tools/bin:$PATH VIRTUAL_ENV=$tools CARGO_TARGET_DIR=$target maturin build --zig \
        --compatibility manylinux_2_28 --target "$1-unknown-linux-gnu" \
        --out "$target/wheels/new" "${@:2}" >&2
    mv "$target/wheels/new"/*.whl "$target/wheels"
    ls -t "$target"/wheels/olivine-*-manylinux_2_28_"$1".whl | head -n 1
}

place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT

# try_wheel WHEEL PYTHON: in a new environment, an interpreter, the wheel and nothing else.
try_wheel() {
    local wheel=$1 start end stubs
    rm -rf "$place/env"
    "$2" -m venv "$place/env"
    start=$(date +%s%N)
    env -i HOME="$place" PATH=/usr/bin:/bin "$place/env/bin/pip" install --quiet --no-index \
        --disable-pip-version-check "$wheel"
    end=$(date +%s%N)
    env -i HOME="$place" OLIVINE_DIR="$place" "$place/env/bin/python" - <<'PROGRAM'
import importlib.metadata
import olivine

files = [str(file) for file in importlib.metadata.files("olivine")]
assert any(file.endswith("LICENSE-MIT") for file in files), files
assert any(file.endswith("LICENSE-APACHE") for file in files), files
assert "olivine for Python" in importlib.metadata.metadata("olivine").get_payload()
with olivine.Subscriber("shm://wheel", capacity="1MiB") as subscriber:
    with olivine.Publisher("shm://wheel") as publisher:
        publisher.publish(b"hello")
    assert [bytes(message) for message in subscriber] == [b"hello"]
PROGRAM
    stubs=$(echo "$place"/env/lib/python3*/site-packages/olivine/_native.pyi)
    env -i HOME="$place" PATH=/usr/bin:/bin OLIVINE_DIR="$place" OLIVINE_STUBS="$stubs" \
        "$place/env/bin/python" -B -m unittest discover -s tests
    echo "ok: $wheel: $(stat -c %s "$wheel") bytes, tested; installed in \
$(((end - start) / 1000000)) ms"
}

# Versions before 3.11 one by one. Their interpreter is described here: .cargo/config.toml says that
# none is asked.
if [ $# -gt 0 ]; then
    for python in "$@"; do
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        # Their objects have another layout than the description below says.
        other='import sys, sysconfig
sys.exit(any(map(sysconfig.get_config_var, ["Py_GIL_DISABLED", "Py_DEBUG"])))'
        "$python" -c "$other" || {
            echo "$python is free-threaded or has checks built in: refused" >&2
            exit 1
        }
        printf '%s\n' implementation=CPython "version=$version" shared=true pointer_width=64 \
            suppress_build_script_link_lines=true >"$place/interpreter"
        wheel=$(PYO3_CONFIG_FILE=$place/interpreter build "$arch" --no-default-features \
            --interpreter "$python")
        try_wheel "$wheel" "$python"
    done
    exit
fi

wheel=$(build "$arch")
if [ "$arch" = x86_64 ]; then
    rustup target add aarch64-unknown-linux-gnu 2>"$target/rustup.log" || {
        cat "$target/rustup.log" >&2
        exit 1
    }
    other=$(build aarch64)
    # An ELF file for aarch64 is in it.
    machine=$(python3 -c 'import struct, sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1])
name = [name for name in wheel.namelist() if name.endswith(".so")]
print(struct.unpack_from("<H", wheel.read(name[0]), 18)[0], *name[1:])' "$other")
    [ "$machine" = 183 ] || {
        echo "$other has a library for machine $machine of ELF, not for aarch64 (183)" >&2
        exit 1
    }
    echo "ok: $other: $(stat -c %s "$other") bytes, built and not run"
fi

try_wheel "$wheel" python3
