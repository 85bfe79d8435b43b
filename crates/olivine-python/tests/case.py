"""What the tests share."""

import os
import shutil
import tempfile
import unittest

from olivine import Publisher, Subscriber

# Longer than anything here takes on a busy machine; only a hang reaches it.
WATCHDOG = 120


class Case(unittest.TestCase):
    def setUp(self):
        memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.folder = tempfile.mkdtemp(prefix="olivine-python-", dir=memory)
        self.addCleanup(shutil.rmtree, self.folder, True)

    def pair(self, **keys):
        keys.setdefault("capacity", "4KiB")
        subscriber = Subscriber("shm://pair", dir=self.folder, **keys)
        publisher = Publisher("shm://pair", dir=self.folder)
        self.addCleanup(publisher.close)
        self.addCleanup(subscriber.close)
        return publisher, subscriber
