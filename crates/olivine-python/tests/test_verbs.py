"""Every verb with every wait and label: the rows of the table that Rust, C and C++ execute too. And
the stubs beside the package as it runs, by mypy's stubtest."""

import importlib.util
import itertools
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

import olivine
from olivine import Publisher, Subscriber

TABLE = pathlib.Path(__file__).parents[2] / "olivine" / "tests" / "verbs" / "table.txt"
SHORT = 0.001
FILLER = bytes([1] * 8)
CELL = bytes([2] * 8)
# Below Python 3.12 no class shows the buffer protocol by name.
ALLOWED = "olivine._native.(Claim|Message).__buffer__\n" if sys.version_info < (3, 12) else ""

LABELS = {
    "none": {},
    "tag": {"tag": 7},
    "topic": {"topic": "a.b"},
    "both": {"tag": 7, "topic": "a.b"},
    "bad": {"topic": "a..b"},
}


def sent(publisher, verb, wait, label):
    """Whether it was sent."""
    if verb == "publish":
        if wait == "try":
            return publisher.try_publish(CELL, **label) is not None
        if wait == "wait":
            publisher.publish(CELL, **label)
        else:
            publisher.publish_timeout(CELL, SHORT, **label)
        return True
    if verb == "claim":
        claims = {
            "try": lambda: publisher.try_claim(8, **label),
            "wait": lambda: publisher.claim(8, **label),
            "timeout": lambda: publisher.claim_timeout(8, SHORT, **label),
        }
        claim = claims[wait]()
        if claim is None:
            return False
        with claim as view:
            view[:] = CELL
        return True
    assert verb == "batch", verb
    message = (CELL, label.get("tag", 0), label.get("topic"))
    batches = {
        "try": lambda: publisher.try_publish_batch([message] * 2),
        "wait": lambda: publisher.publish_batch([message] * 2),
        "timeout": lambda: publisher.publish_batch_timeout([message] * 2, SHORT),
    }
    count = batches[wait]()
    assert count in (0, 2), count
    return count == 2


def told(word, message):
    return f"{word} {message.tag} {message.topic or '-'}"


def await_cell(subscriber):
    while True:
        with subscriber.receive() as message:
            if bytes(message) == CELL:
                return told("sent", message)


def sending(publisher, subscriber, verb, wait, channel, label):
    reader, found = None, []
    if channel == "full":
        while publisher.try_publish(FILLER) is not None:
            pass
        if wait == "wait":
            reader = threading.Thread(target=lambda: found.append(await_cell(subscriber)))
            reader.start()
    try:
        if not sent(publisher, verb, wait, label):
            return "back_pressured"
    except olivine.BackPressured:
        return "back_pressured"
    except olivine.NotSent as error:
        assert "topic is refused" in str(error), error
        return "topic_refused"
    if reader is None:
        return await_cell(subscriber)
    reader.join()
    return found[0]


def received(subscriber, verb, wait):
    if verb == "poll":
        assert wait == "try", wait
        messages = subscriber.poll(1)
        return told("got", messages[0]) if messages else None
    assert verb == "receive", verb
    receives = {
        "try": subscriber.try_receive,
        "wait": subscriber.receive,
        "timeout": lambda: subscriber.receive_timeout(SHORT),
    }
    message = receives[wait]()
    return None if message is None else told("got", message)


def receiving(publisher, subscriber, verb, wait, channel, label):
    sender = None
    if channel == "message":
        assert sent(publisher, "publish", "try", label)
    elif channel == "ended":
        publisher.close()
    elif wait == "wait":
        sender = threading.Thread(target=lambda: sent(publisher, "publish", "wait", label))
        sender.start()
    try:
        # A few looks may find nothing before the end is seen.
        found = received(subscriber, verb, wait)
        while found is None and channel != "empty":
            found = received(subscriber, verb, wait)
    except olivine.EndOfStream:
        found = "end_of_stream"
    if sender is not None:
        sender.join()
    return found or "nothing"


class Verbs(unittest.TestCase):
    def test_every_verb_does_what_the_table_says(self):
        lines = TABLE.read_text().splitlines()
        self.assertIn("kinds python bytes", lines)
        rows = [line.split(" = ") for line in lines if " = " in line and not line.startswith("#")]
        self.assertGreater(len(rows), 90)
        for number, (row, result) in zip(itertools.count(), rows):
            verb, wait, channel, name = row.split()
            uri = f"inproc://verbs-{number}?capacity=4KiB&wait=park"
            own = {} if channel == "plain" else {"topic": "own"}
            does = receiving if verb in ("receive", "poll") else sending
            with self.subTest(row), Subscriber(uri) as subscriber:
                with Publisher(uri, **own) as publisher:
                    found = does(publisher, subscriber, verb, wait, channel, LABELS[name])
                self.assertEqual(found, result)


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
