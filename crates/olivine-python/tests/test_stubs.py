"""The stubs beside the package as it runs, by mypy's stubtest."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import olivine

# Below Python 3.12 no class shows the buffer protocol by name.
ALLOWED = "olivine._native.(Claim|Message).__buffer__\n" if sys.version_info < (3, 12) else ""


class Stubtest(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("mypy"), "no mypy")
    def test_the_stubs_differ_in_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            package = os.path.join(folder, "olivine")
            shutil.copytree(olivine.__path__[0], package, symlinks=True)
            shutil.copy(os.environ["OLIVINE_STUBS"], package)
            with open(os.path.join(package, "py.typed"), "w", encoding="utf-8"):
                pass
            allowed = os.path.join(folder, "allowed")
            with open(allowed, "w", encoding="utf-8") as file:
                file.write(ALLOWED)
            found = subprocess.run(
                [sys.executable, "-m", "mypy.stubtest", "olivine", "--concise"]
                + ["--allowlist", allowed],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": folder, "MYPYPATH": folder},
                capture_output=True,
                text=True,
            )
            self.assertEqual((found.returncode, found.stdout), (0, ""), found.stdout + found.stderr)
