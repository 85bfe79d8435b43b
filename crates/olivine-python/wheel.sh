#!/usr/bin/env bash
# Builds the wheel below target/wheels, and runs the tests of the package in a new environment
# without Rust.
#
# zig links against the C library of manylinux_2_28, so the wheel runs where glibc is 2.28 or later.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"
target=$(cd ../.. && pwd)/target
tools=$target/tools/wheel
if [ ! -x "$tools/bin/maturin" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet 'maturin>=1.9.4,<2' ziglang
fi
rm -f "$target"/wheels/olivine-*-manylinux_2_28_*.whl
PATH=$tools/bin:$PATH VIRTUAL_ENV=$tools maturin build --zig --compatibility manylinux_2_28 \
    --out "$target/wheels"
wheel=$(ls "$target"/wheels/olivine-*-manylinux_2_28_*.whl)

# A new environment: an interpreter, the wheel and nothing else.
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
python3 -m venv "$place/env"
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
echo "$wheel: $(stat -c %s "$wheel") bytes, installed in $(((end - start) / 1000000)) ms"
