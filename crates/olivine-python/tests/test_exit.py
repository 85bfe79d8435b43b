"""What becomes of a publisher that is left open: where it is collected, and where Python exits."""

import gc
import re
import socket
import subprocess
import sys
import unittest
import warnings
from contextlib import contextmanager

import olivine
from case import WATCHDOG, Case
from olivine import Publisher, Subscriber

WARNING = "unclosed <olivine.Publisher {}.*>: close it, or use it by 'with'"


@contextmanager
def unraisable():
    """What `sys.unraisablehook` gets, as pairs of the exception and the object."""
    found = []
    before = sys.unraisablehook
    # The exception and the text alone: the rest would keep objects alive.
    sys.unraisablehook = lambda args: found.append((args.exc_value, str(args.object)))
    try:
        yield found
    finally:
        sys.unraisablehook = before


class Collected(Case):
    def uris(self):
        return [f"shm://open?dir={self.folder}", f"file://{self.folder}/open.olv"]

    def test_an_open_publisher_that_is_collected_warns_with_its_uri(self):
        def dropped(uri):
            Publisher(uri)

        def in_a_cycle(uri):
            cycle = [Publisher(uri)]
            cycle.append(cycle)

        def claimed(uri):
            Publisher(uri).claim(4)

        for uri in self.uris():
            for leave in [dropped, in_a_cycle, claimed]:
                with warnings.catch_warnings(record=True) as found:
                    warnings.simplefilter("always")
                    leave(uri)
                    gc.collect()
                [warned] = found
                self.assertIs(warned.category, ResourceWarning)
                self.assertRegex(str(warned.message), WARNING.format(re.escape(uri)))
            with warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                Publisher(uri).close()
                Publisher(uri).close_failed("no") if uri.startswith("shm") else None
                with Publisher(uri):
                    pass
            self.assertEqual(found, [])

    def test_a_warning_that_is_an_error_is_not_raised_and_the_stream_ends(self):
        uri = self.uris()[0]
        subscriber = Subscriber(uri)
        with warnings.catch_warnings(), unraisable() as found:
            warnings.simplefilter("error")
            publisher = Publisher(uri)
            publisher.publish(b"last")
            try:
                raise KeyError("goes on")
            except KeyError as error:
                del publisher
                self.assertIs(sys.exc_info()[1], error)
        [(error, where)] = found
        self.assertIsInstance(error, ResourceWarning)
        self.assertIn("shm://open", where)
        self.assertEqual([bytes(message) for message in subscriber], [b"last"])
        subscriber.close()

    def test_what_was_not_acknowledged_is_reported_with_its_number(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            # It accepts nothing, and so acknowledges nothing.
            uri = f"tcp://127.0.0.1:{server.getsockname()[1]}/lost?role=connect&linger=1ms"
            for explicit in [True, False]:
                publisher = Publisher(uri)
                publisher.publish_batch([b"1", b"2", b"3"])
                with unraisable() as found, warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    if explicit:
                        with self.assertRaisesRegex(olivine.BackPressured, "3 messages"):
                            publisher.close()
                    del publisher
                if explicit:
                    self.assertEqual(found, [])
                    continue
                [(error, where)] = found
                self.assertIsInstance(error, olivine.BackPressured)
                self.assertIn("not acknowledged 3 messages", str(error))
                self.assertIn(f"<olivine.Publisher {uri.partition('?')[0]}", where)


class Exiting(Case):
    def run_python(self, script, *options, code=0, stdin=None):
        """What a program prints as errors. It has `uri`, and the modules `olivine` and `sys`."""
        script = f"import atexit, olivine, sys\nuri = {self.uri!r}\n{script}"
        command = [sys.executable, *options, "-c", script]
        ran = subprocess.run(
            command, stderr=subprocess.PIPE, input=stdin, text=True, timeout=WATCHDOG
        )
        self.assertEqual(ran.returncode, code, ran.stderr)
        self.assertNotIn("panic", ran.stderr)
        return ran.stderr

    def setUp(self):
        super().setUp()
        self.uri = f"shm://exit?dir={self.folder}"

    def end(self, script, *options, **keys):
        """How the stream of a program ends for a subscriber, and what the program prints."""
        with Subscriber(self.uri) as subscriber:
            said = self.run_python(script, *options, **keys)
            try:
                while True:
                    subscriber.receive()
            except olivine.ReceiveError as error:
                return error, said

    def test_a_publisher_that_is_open_at_the_end_closes_in_order_and_warns(self):
        for script in [
            "left = olivine.Publisher(uri)",
            "left = [olivine.Publisher(uri)]; left.append(left)",
            "class Left: publisher = olivine.Publisher(uri)",
            "left = olivine.Publisher(uri); claim = left.claim(4)",
            "left = olivine.Publisher(uri); sys.exit(0)",
        ]:
            for options in [["-X", "dev"], ["-W", "error"], []]:
                with self.subTest(script, options=options):
                    end, said = self.end(script, *options)
                    self.assertIsInstance(end, olivine.EndOfStream)
                    if options:
                        self.assertRegex(said, WARNING.format(re.escape(self.uri)))
                        self.assertIn("ResourceWarning", said)
                    else:
                        self.assertEqual(said, "")
        # Python has put its warnings away before it comes to this one.
        end, _ = self.end("sys.left = olivine.Publisher(uri)")
        self.assertIsInstance(end, olivine.EndOfStream)

    def test_what_is_lost_at_the_end_is_printed_by_default(self):
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.uri = f"tcp://127.0.0.1:{server.getsockname()[1]}/lost?role=connect&linger=1ms"
            script = "left = olivine.Publisher(uri); left.publish(b'1')"
            for more in ["", "\nraise KeyError('no')"]:
                said = self.run_python(script + more, code=1 if more else 0)
                self.assertRegex(said, "BackPressured: .*has not acknowledged 1 message:")
                self.assertIn(f"<olivine.Publisher {self.uri.partition('?')[0]}", said)

    def test_a_program_that_ends_by_an_exception_ends_its_open_streams_as_failed(self):
        for script in [
            "left = olivine.Publisher(uri)\nraise ValueError('no\\n  sensor')",
            "def run():\n left = olivine.Publisher(uri)\n raise ValueError('no sensor')\nrun()",
            "left = [olivine.Publisher(uri)]; left.append(left)\nraise ValueError('no sensor')",
            "left = olivine.Publisher(uri); claim = left.claim(4)\nraise ValueError('no sensor')",
            # Of a hook of the program, too, that says nothing.
            "sys.excepthook = lambda *error: None\nleft = olivine.Publisher(uri)\n"
            "raise ValueError('no sensor')",
        ]:
            for options in [[], ["-X", "dev"], ["-W", "error"]]:
                with self.subTest(script, options=options):
                    end, _ = self.end(script, *options, code=1)
                    self.assertNotIsInstance(end, olivine.EndOfStream)
                    self.assertIn("its program raised ValueError: no sensor", str(end))

    def test_a_journal_of_a_program_that_ends_by_an_exception_has_it(self):
        self.uri = f"file://{self.folder}/exit.olv"
        said = self.run_python(
            "left = olivine.Publisher(uri); left.publish(b'1')\nraise ValueError('no sensor')",
            code=1,
        )
        self.assertNotIn("LinkFailed", said)
        with Subscriber(self.uri) as subscriber:
            self.assertEqual(bytes(subscriber.receive()), b"1")
            with self.assertRaisesRegex(olivine.ReceiveError, "raised ValueError: no sensor"):
                subscriber.receive()

    def test_what_a_program_closes_or_handles_itself_ends_in_order(self):
        for script, options, code in [
            # An exit that the program asked for: nothing says that it failed.
            ("left = olivine.Publisher(uri); sys.exit(3)", [], 3),
            ("left = olivine.Publisher(uri)\natexit.register(left.close)\nraise KeyError", [], 1),
            ("left = olivine.Publisher(uri)\ntry:\n 1 / 0\nexcept ArithmeticError:\n pass", [], 0),
            # A library printed what a callback raised, and the program went on.
            (
                "import code\nleft = olivine.Publisher(uri)\n"
                "code.InteractiveInterpreter(globals()).runsource('1 / 0')\n"
                "assert sys.last_value",
                [],
                0,
            ),
            (
                "left = olivine.Publisher(uri)\ndef call():\n try:\n  1 / 0\n"
                " except ArithmeticError as error:\n  sys.last_value = error\ncall()",
                [],
                0,
            ),
            # An interactive program goes on behind its exceptions.
            ("left = olivine.Publisher(uri)\nraise KeyError('typo')", ["-i"], 0),
        ]:
            with self.subTest(script):
                end, _ = self.end(script, *options, code=code, stdin="")
                self.assertIsInstance(end, olivine.EndOfStream)

    def test_a_block_that_ends_with_the_interpreter_says_what_closing_raises(self):
        self.uri += "&linger=1ms"
        script = (
            "def run():\n"
            " with olivine.Publisher(uri) as publisher:\n"
            "  publisher.publish(b'unread')\n"
            "  yield\n"
            "left = run()\n"
            "next(left)\n"
        )
        _, said = self.end(script)
        self.assertIn("BackPressured", said)


if __name__ == "__main__":
    unittest.main()
