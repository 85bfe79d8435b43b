"""How streams end, and what a subscriber gets of it."""

import asyncio
import contextlib
import subprocess
import sys
import threading
import unittest

import olivine
from case import WATCHDOG, Case
from olivine import Publisher, Subscriber, aio


class Ending(Case):
    def test_iterating_ends_with_the_stream(self):
        publisher, subscriber = self.pair()
        count = 5000

        def publish():
            with publisher:
                for n in range(count):
                    publisher.publish(n.to_bytes(4, "little"), tag=n)

        thread = threading.Thread(target=publish)
        thread.start()
        got = [(int.from_bytes(message, "little"), message.tag) for message in subscriber]
        thread.join()
        self.assertEqual(got, [(n, n) for n in range(count)])
        with self.assertRaises(olivine.EndOfStream):
            subscriber.receive()
        with self.assertRaises(olivine.EndOfStream):
            # The end is looked for now and then, not at each look.
            while subscriber.poll() == []:
                pass

    def test_the_end_of_a_stream_is_not_final_and_wait_finds_it_at_once(self):
        publisher, subscriber = self.pair()
        publisher.publish(b"1")
        publisher.close()
        self.assertEqual([bytes(message) for message in subscriber], [b"1"])
        with Publisher("shm://pair", dir=self.folder) as later:
            later.publish(b"2")
            self.assertEqual([bytes(message) for message in subscriber.poll()], [b"2"])
        with self.assertRaises(olivine.EndOfStream):
            subscriber.wait(WATCHDOG) and subscriber.poll()

    def test_a_closed_handle_is_not_entered(self):
        for handle in self.pair():
            with handle:
                pass
            with self.assertRaisesRegex(olivine.Closed, "open another one"):
                with handle:
                    self.fail("entered")

    def test_closed_handles_say_so(self):
        publisher, subscriber = self.pair()
        publisher.close()
        publisher.close()
        subscriber.close()
        subscriber.close()
        for call in [
            lambda: publisher.publish(b"x"),
            lambda: publisher.cursor,
            lambda: publisher.claim(1),
            lambda: subscriber.try_receive(),
            lambda: subscriber.lag,
            subscriber.event_fd,
        ]:
            with self.assertRaises(olivine.Closed):
                call()
        self.assertIn("closed", repr(publisher) + repr(subscriber))
        with self.assertRaises(olivine.Closed):
            subscriber.unsubscribe()

    def test_closing_reports_unread_messages_after_linger(self):
        subscriber = Subscriber("inproc://lingering")
        publisher = Publisher("inproc://lingering", linger="1ms")
        publisher.publish(b"unread")
        with self.assertRaises(olivine.BackPressured):
            publisher.close()
        self.assertEqual([bytes(m) for m in subscriber], [b"unread"])

    def test_collecting_a_publisher_lingers_without_the_interpreter(self):
        subscriber = Subscriber("inproc://collected")
        publisher = Publisher("inproc://collected", linger=f"{WATCHDOG}s")
        publisher.publish(b"unread")
        goes = threading.Event()
        got = []

        def read():
            goes.wait()
            got.extend(bytes(message) for message in subscriber)

        reader = threading.Thread(target=read)
        reader.start()
        goes.set()
        del publisher
        # Read while it lingered, or it would have gone on to the end of its time.
        reader.join()
        self.assertEqual(got, [b"unread"])

    def test_a_killed_publisher_leaves_whole_messages(self):
        _, subscriber = self.pair(publishers_max=2)
        script = (
            "import sys, olivine\n"
            "publisher = olivine.Publisher('shm://pair', dir=sys.argv[1])\n"
            "n = 0\n"
            "while True:\n"
            "    with publisher.claim(8) as view:\n"
            "        view[:] = n.to_bytes(8, 'little')\n"
            "    n += 1\n"
        )
        for _ in range(3):
            child = subprocess.Popen([sys.executable, "-c", script, self.folder])
            for n in range(2000):
                self.assertEqual(int.from_bytes(subscriber.receive_timeout(WATCHDOG), "little"), n)
            child.kill()
            child.wait()
            for n, message in enumerate(subscriber.poll(10**6), 2000):
                self.assertEqual(int.from_bytes(message, "little"), n)

    def test_the_next_program_with_its_name_knows_where_a_killed_publisher_was(self):
        uri = f"file://{self.folder}/named.olv"
        script = (
            "import os, signal, sys, olivine\n"
            "publisher = olivine.Publisher(sys.argv[1], name='me', dir=sys.argv[2])\n"
            "print(publisher.cursor, publisher.publish(b'x' * 32), flush=True)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        end = "0"
        for _ in range(2):
            program = [sys.executable, "-c", script, uri, self.folder]
            begin, end = subprocess.run(program, stdout=subprocess.PIPE).stdout.decode().split()
            with Publisher(uri, name="me", dir=self.folder) as following:
                self.assertEqual(following.cursor, int(end))
        self.assertEqual((begin, end), ("40", "80"))

    def test_an_exception_leaves_a_with_block_unchanged_on_each_transport(self):
        for number, error in enumerate([KeyError("no"), KeyboardInterrupt(), SystemExit(1)]):
            for uri in [f"shm://left-{number}?dir={self.folder}", f"file://{self.folder}/{number}"]:
                with self.subTest(uri), self.assertRaises(type(error)) as raised:
                    with Publisher(uri) as publisher:
                        publisher.publish(b"before")
                        raise error
                self.assertIs(raised.exception, error)

        async def sleeps():
            async with aio.Publisher(f"file://{self.folder}/time") as publisher:
                await publisher.publish(b"before")
                await asyncio.sleep(WATCHDOG)

        with self.assertRaises(asyncio.TimeoutError):
            asyncio.run(asyncio.wait_for(sleeps(), 0.05))

    def test_an_exception_that_leaves_a_with_block_ends_the_stream_as_failed(self):
        def ended(error):
            publisher, subscriber = self.pair()
            with contextlib.suppress(BaseException), publisher:
                publisher.publish(b"before")
                if error is not None:
                    raise error
            self.assertEqual(bytes(subscriber.receive()), b"before")
            with self.assertRaises(olivine.ReceiveError) as raised:
                subscriber.receive()
            subscriber.close()
            return raised.exception

        for error in [RuntimeError("no"), KeyboardInterrupt(), SystemExit(1)]:
            failed = ended(error)
            self.assertNotIsInstance(failed, olivine.EndOfStream)
            self.assertIn(f"its program raised {type(error).__name__}", str(failed))
        for error in [None, SystemExit(), SystemExit(0), GeneratorExit()]:
            self.assertIsInstance(ended(error), olivine.EndOfStream)
        # A view of a claim lives on: the stream ends later, and as failed as well.
        for explicit in [False, True]:
            # Not of `pair`, which keeps the publisher until the test ends.
            subscriber = Subscriber("shm://viewed", dir=self.folder)
            publisher = Publisher("shm://viewed", dir=self.folder)
            claim = publisher.claim(4)
            view = memoryview(claim)
            with contextlib.suppress(RuntimeError), publisher:
                raise RuntimeError("no")
            view.release()
            if explicit:
                publisher.close()
            del view, claim, publisher
            with self.assertRaisesRegex(olivine.ReceiveError, "raised RuntimeError"):
                subscriber.receive()
            subscriber.close()
        publisher, subscriber = self.pair()
        publisher.close_failed("no more ticks")
        with self.assertRaisesRegex(olivine.ReceiveError, "no more ticks"):
            subscriber.receive()
        with self.assertRaisesRegex(olivine.Closed, "the publisher is closed"):
            publisher.close_failed("again")
        publisher.close()
        # A far side, too, has the reason in its own words, once.
        uri = f"file://{self.folder}/failed.olv"
        Publisher(uri).close_failed("")
        with self.assertRaisesRegex(olivine.ReceiveError, "failed: no reason was given"):
            Subscriber(uri).receive()

    def test_the_reason_of_an_exception_is_one_line_of_bounded_length(self):
        class Silent(Exception):
            def __str__(self):
                raise ValueError("has no text")

        for error, text in [
            (RuntimeError("no\n  sensor\x1b[2J"), "raised RuntimeError: no sensor"),
            (RuntimeError(), "raised RuntimeError[^:]*$"),
            (Silent(), "raised Silent[^:]*$"),
            (KeyError("\ud800"), r"raised KeyError: '\\ud800'"),
            (RuntimeError("\ud800"), "raised RuntimeError: \ufffd"),
            (RuntimeError("ä" * 10**6), f"raised RuntimeError: {'ä' * 200} …"),
        ]:
            publisher, subscriber = self.pair()
            with contextlib.suppress(Exception), publisher:
                raise error
            with self.assertRaisesRegex(olivine.ReceiveError, text) as raised:
                subscriber.receive()
            self.assertTrue(str(raised.exception).isprintable())
            subscriber.close()

    def test_a_claim_of_a_closed_publisher_says_so(self):
        publisher, _subscriber = self.pair()
        before = publisher.claim(1)
        before.commit()
        with self.assertRaisesRegex(ValueError, "claim again"):
            before.commit()
        with self.assertRaisesRegex(ValueError, "claim again"):
            memoryview(before)
        claim = publisher.claim(1)
        publisher.close()
        for call in [claim.commit, lambda: memoryview(claim)]:
            with self.assertRaisesRegex(olivine.Closed, "the publisher was closed.*open another"):
                call()
        claim.abort()

    def test_a_stream_whose_end_was_refused_ends_as_failed_later(self):
        for explicit in [False, True]:
            uri = f"shm://{'explicit' if explicit else 'collected'}"
            subscriber = Subscriber(uri, dir=self.folder, capacity="4KiB")
            publisher = Publisher(uri, dir=self.folder)
            last = b"the last of as many bytes as the others"
            while publisher.try_publish(bytes(len(last))) is not None:
                pass
            # Another thread is inside a call: it waits for room.
            thread = threading.Thread(target=publisher.publish, args=(last,))
            thread.start()
            with self.assertRaises(olivine.InUse):
                while True:
                    publisher.check_unlinked()
            with self.assertRaises(olivine.InUse):
                if explicit:
                    publisher.close_failed("its program raised RuntimeError")
                with publisher:
                    raise RuntimeError("no")
            while bytes(subscriber.receive()) != last:
                pass
            thread.join()
            if explicit:
                publisher.close()
            del publisher, thread
            with self.assertRaisesRegex(olivine.ReceiveError, "raised RuntimeError"):
                subscriber.receive()
            subscriber.close()

    def test_a_stream_that_fails_where_no_thread_starts_ends_as_failed(self):
        script = (
            "import os, resource, sys, threading, olivine\n"
            "publisher = olivine.Publisher('shm://pair', dir=sys.argv[1])\n"
            "publisher.publish(b'before')\n"
            "if os.getuid() == 0:\n"
            "    os.setuid(65534)\n"
            "resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))\n"
            "try:\n"
            "    threading.Thread(target=int).start()\n"
            "    sys.exit(3)\n"
            "except RuntimeError:\n"
            "    pass\n"
            "try:\n"
            "    if sys.argv[2] == 'explicit':\n"
            "        publisher.close_failed('its program raised RuntimeError')\n"
            "    with publisher:\n"
            "        raise RuntimeError('no')\n"
            "except olivine.Error as error:\n"
            "    sys.exit(0 if 'cannot start a thread for closing' in str(error) else str(error))\n"
            "sys.exit('nothing was raised')\n"
        )
        for how in ["exception", "explicit"]:
            subscriber = Subscriber("shm://pair", dir=self.folder)
            command = [sys.executable, "-c", script, self.folder, how]
            child = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=WATCHDOG)
            if child.returncode == 3:
                self.skipTest("this user may start any number of threads")
            self.assertEqual(child.returncode, 0, child.stderr)
            self.assertEqual(bytes(subscriber.receive()), b"before")
            with self.assertRaisesRegex(olivine.ReceiveError, "raised RuntimeError"):
                subscriber.receive()
            subscriber.close()


if __name__ == "__main__":
    unittest.main()
