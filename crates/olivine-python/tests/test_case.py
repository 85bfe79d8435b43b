"""The folder of each test."""

import os
import subprocess
import sys
import unittest

from case import PREFIX, WATCHDOG, Case, remove_left_behind


class FolderTests(Case):
    def test_folder_of_a_killed_test_is_removed_and_no_other(self):
        code = (
            "import os, signal, case\n"
            "folder, lock = case.new_folder()\n"
            "open(os.path.join(folder, 'file'), 'w').close()\n"
            "print(folder, flush=True)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        ended = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            cwd=os.path.dirname(os.path.abspath(__file__)),
            text=True,
            timeout=WATCHDOG,
        )
        left = ended.stdout.strip()
        self.assertTrue(os.path.basename(left).startswith(PREFIX), ended)
        remove_left_behind()
        self.assertFalse(os.path.exists(left))
        self.assertTrue(os.path.isdir(self.folder))


if __name__ == "__main__":
    unittest.main()
