"""What the tests share."""

import fcntl
import glob
import os
import shutil
import tempfile
import unittest

from olivine import Publisher, Subscriber

# Longer than anything here takes on a busy machine; only a hang reaches it.
WATCHDOG = 120


MEMORY = "/dev/shm" if os.path.isdir("/dev/shm") else tempfile.gettempdir()
PREFIX = "olivine-tests-python-"


def locked(folder, how):
    """A descriptor that locks the folder; None if it is gone, or another process has it."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, how)
        # The process that had it may have removed it.
        if os.stat(folder).st_ino == os.fstat(descriptor).st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None


def remove_left_behind():
    """Removes the folders of tests that were killed: the kernel has dropped their locks."""
    for folder in glob.glob(os.path.join(MEMORY, PREFIX + "*")):
        descriptor = locked(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if descriptor is not None:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(descriptor)


def new_folder():
    """A folder in memory, and the descriptor that locks it."""
    while True:
        folder = tempfile.mkdtemp(prefix=PREFIX, dir=MEMORY)
        descriptor = locked(folder, fcntl.LOCK_EX)
        if descriptor is not None:
            return folder, descriptor


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        remove_left_behind()

    def setUp(self):
        self.folder, lock = new_folder()
        self.addCleanup(os.close, lock)
        self.addCleanup(shutil.rmtree, self.folder, True)

    def pair(self, **keys):
        keys.setdefault("capacity", "4KiB")
        subscriber = Subscriber("shm://pair", dir=self.folder, **keys)
        publisher = Publisher("shm://pair", dir=self.folder)
        self.addCleanup(publisher.close)
        self.addCleanup(subscriber.close)
        return publisher, subscriber
