"""`olivine.aio`, and `cancel`: waits that end early lose nothing."""

import asyncio
import contextlib
import ctypes
import signal
import sys
import threading
import unittest
from unittest import mock

import olivine
from case import WATCHDOG, Case
from olivine import aio

try:
    import numpy
except ImportError:
    numpy = None


def run(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, WATCHDOG))


class Ticks:
    """Counts the turns of a task beside others."""

    count = 0

    async def run(self):
        while True:
            self.count += 1
            await asyncio.sleep(0)


class Loop(Case):
    def both(self, **keys):
        uri = f"shm://aio?dir={self.folder}"
        return aio.Subscriber(uri, capacity="4KiB", **keys), aio.Publisher(uri)

    def test_messages_pass_a_full_ring_while_other_tasks_run(self):
        count = 3000
        ticks = Ticks()

        async def publish(publisher):
            async with publisher:
                for n in range(count):
                    await publisher.publish(b"%d" % n, tag=n)

        async def main():
            subscriber, publisher = self.both()
            ticking = asyncio.create_task(ticks.run())
            async with subscriber:
                publishing = asyncio.create_task(publish(publisher))
                got = [(int(bytes(m)), m.tag) async for m in subscriber]
                await publishing
            ticking.cancel()
            return got

        self.assertEqual(run(main()), [(n, n) for n in range(count)])
        self.assertGreater(ticks.count, 10)

    def test_batches_pass_a_full_ring(self):
        async def main():
            subscriber, publisher = self.both()
            async with subscriber, publisher:
                messages = [(bytes([n % 256]), n) for n in range(2000)]
                publishing = asyncio.create_task(publisher.publish_batch(messages))
                got = [await subscriber.receive() for _ in messages]
                self.assertEqual(await publishing, 2000)
                return [message.tag for message in got]

        self.assertEqual(run(main()), list(range(2000)))

    @unittest.skipUnless(numpy, "no numpy")
    def test_arrays_pass_a_full_ring(self):
        rows = numpy.arange(3000, dtype="u8")
        tags = numpy.arange(3000, dtype="u4")

        async def main():
            subscriber, publisher = self.both()
            async with subscriber, publisher:
                publishing = asyncio.create_task(publisher.publish_array(rows, tags))
                got = []
                while sum(len(part) for part, _ in got) < len(rows):
                    got.append(await subscriber.receive_array("u8", details=True))
                self.assertEqual(await publishing, len(rows))
                with self.assertRaisesRegex(ValueError, "2 numbers for 3000 rows"):
                    await publisher.publish_array(rows, tags[:2])
                # An array without an axis is a number.
                await publisher.publish_array(rows[:1], numpy.array(7, "u4"))
                _, last = await subscriber.receive_array("u8", details=True)
                self.assertEqual(last["tag"], [7])
                return [numpy.concatenate(parts) for parts in zip(*got)]

        got, details = run(main())
        numpy.testing.assert_array_equal(got, rows)
        numpy.testing.assert_array_equal(details["tag"], tags)

    @unittest.skipUnless(numpy, "no numpy")
    def test_dates_pass_a_full_ring(self):
        dates = numpy.arange(100).astype("M8[s]").reshape(1, 100)

        async def main():
            subscriber, publisher = self.both()
            async with subscriber, publisher:
                for publish in [
                    lambda: publisher.publish(dates[0]),
                    lambda: publisher.publish_batch([dates[0]]),
                    lambda: publisher.publish_batch([(dates[0], 7)]),
                    lambda: publisher.publish_array(dates[:1]),
                ]:
                    sent = 1
                    while publisher.handle.try_publish(dates[0]) is not None:
                        sent += 1
                    publishing = asyncio.create_task(publish())
                    # It finds no room.
                    await asyncio.sleep(0)
                    for _ in range(sent):
                        got = await subscriber.receive_array(("M8[s]", 100), 1)
                        numpy.testing.assert_array_equal(got, dates[:1])
                    await publishing

        run(main())

    def test_arrays_and_tags_of_ctypes_pass_a_full_ring(self):
        count = 1000
        rows = (ctypes.c_uint64 * count)(*range(count))
        tags = (ctypes.c_uint32 * count)(*range(count))

        async def main():
            subscriber, publisher = self.both()
            async with subscriber, publisher:
                publishing = asyncio.create_task(publisher.publish_array(rows, tags))
                for number in range(count):
                    message = await subscriber.receive()
                    found = int.from_bytes(bytes(message), "little"), message.tag
                    self.assertEqual(found, (number, number))
                self.assertEqual(await publishing, count)

        run(main())

    def test_structures_with_a_field_nbytes_pass_a_full_ring(self):
        class File(ctypes.Structure):
            _fields_ = [("nbytes", ctypes.c_uint64), ("data", ctypes.c_char * 100)]

        class Asked:
            """A handle that keeps the lengths for which it waits."""

            def __init__(self, handle):
                self.handle = handle
                self.lengths = []

            def __getattr__(self, name):
                return getattr(self.handle, name)

            def wait_for_room(self, length, *args, **keys):
                self.lengths.append(length)
                return self.handle.wait_for_room(length, *args, **keys)

        async def pass_a_full_ring(file, publish, subscriber, publisher):
            sent = 1
            while publisher.handle.try_publish(file) is not None:
                sent += 1
            asked = Asked(publisher.handle)
            with mock.patch.object(aio.Publisher, "handle", asked):
                publishing = asyncio.create_task(publish(file))
                # It finds no room.
                await asyncio.sleep(0)
                for _ in range(sent - 1):
                    await subscriber.receive()
                await publishing
            self.assertEqual(bytes(await subscriber.receive()), bytes(file))
            self.assertEqual(set(asked.lengths), {ctypes.sizeof(File)})

        async def main():
            for length in [0, 2**32 - 1]:
                subscriber, publisher = self.both()
                async with subscriber, publisher:
                    for name, publish in {
                        "publish": publisher.publish,
                        "batch": lambda file: publisher.publish_batch([file]),
                        "batch with tags": lambda file: publisher.publish_batch([(file, 7)]),
                    }.items():
                        with self.subTest(name, nbytes=length):
                            file = File(length, b"data")
                            await pass_a_full_ring(file, publish, subscriber, publisher)

        run(main())

    def test_a_cancelled_receive_loses_nothing(self):
        async def main():
            subscriber, publisher = self.both()
            async with subscriber, publisher:
                for n in range(20):
                    with self.assertRaises(asyncio.TimeoutError):
                        await asyncio.wait_for(subscriber.receive(), 0.001)
                    await publisher.publish(b"%d" % n)
                    self.assertEqual(bytes(await subscriber.receive()), b"%d" % n)

        run(main())

    def test_a_cancelled_publish_has_sent_nothing_and_the_publisher_goes_on(self):
        async def main():
            subscriber, publisher = self.both()
            async with subscriber, publisher:
                sent = 0
                while publisher.handle.try_publish(bytes(500)) is not None:
                    sent += 1
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(publisher.publish(bytes(500)), 0.01)
                task = asyncio.create_task(publisher.publish_batch([bytes(500)]))
                await asyncio.sleep(0.01)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError) as raised:
                    await task
                error = raised.exception
                if sys.version_info < (3, 11):
                    # asyncio raises another error in the task that awaits.
                    error = error.__context__
                self.assertEqual(error.published, 0)
                for _ in range(sent):
                    self.assertEqual(len(await subscriber.receive()), 500)
                await publisher.publish(b"next")
                self.assertEqual(bytes(await subscriber.receive()), b"next")

        run(main())

    def test_an_exception_in_the_block_ends_the_stream_as_failed(self):
        async def main():
            subscriber, publisher = self.both()
            async with subscriber:
                with self.assertRaises(ZeroDivisionError):
                    async with publisher:
                        await publisher.publish(b"before")
                        1 / 0
                self.assertEqual(bytes(await subscriber.receive()), b"before")
                with self.assertRaisesRegex(olivine.ReceiveError, "ZeroDivisionError"):
                    await subscriber.receive()

        run(main())

    def test_handles_are_awaited_and_closed(self):
        async def main():
            subscriber, publisher = self.both()
            with self.assertRaisesRegex(olivine.Closed, "not open"):
                publisher.handle
            with self.assertRaisesRegex(olivine.Closed, "not open"):
                subscriber.handle
            subscriber, publisher = await subscriber, await publisher
            await publisher.wait_for_subscribers(1)
            await publisher.publish(b"x")
            self.assertEqual(bytes(await subscriber.receive()), b"x")
            subscriber.handle.release()
            await publisher.wait_drained()
            await publisher.close()
            with self.assertRaises(olivine.EndOfStream):
                await subscriber.receive()
            await subscriber.close()

        run(main())

    def test_a_closed_end_is_not_entered(self):
        async def main():
            for end in self.both():
                async with end:
                    pass
                with self.assertRaisesRegex(olivine.Closed, "open another one"):
                    async with end:
                        self.fail("entered")

        run(main())

    def test_blocks_and_loops_of_the_other_kind_say_what_is_right(self):
        uri = f"shm://aio?dir={self.folder}"

        async def plain():
            for end in [olivine.Publisher(uri), olivine.Subscriber(uri)]:
                with end, self.assertRaisesRegex(TypeError, "olivine.aio.* by `async with`"):
                    async with end:
                        self.fail("entered")

        run(plain())
        for end in self.both():
            with self.assertRaisesRegex(TypeError, "use it by `async with`"):
                with end:
                    self.fail("entered")
        with self.assertRaisesRegex(TypeError, "use it by `async for`"):
            for _ in self.both()[0]:
                self.fail("iterated")

        async def not_open():
            async for _ in self.both()[0]:
                self.fail("iterated")

        with self.assertRaisesRegex(olivine.Closed, "use async with, or await it"):
            run(not_open())

    def test_opening_that_fails_raises(self):
        async def main():
            with self.assertRaises(olivine.UriError):
                async with aio.Publisher("nonsense://x"):
                    pass
            with self.assertRaises(olivine.UriError):
                await aio.Subscriber("shm://x", capacity="1")

        run(main())


class Turns(Case):
    """Calls that need not wait give other tasks a turn, so a loop of them can be ended."""

    # More than a loop makes that is ended at its next turn.
    CALLS = 1000
    # Bytes of a message of 8 bytes with its header.
    FRAME = 16

    def verbs(self, publisher, subscriber):
        """Each verb: the end, and a call that moves one message."""
        loop = aiter(subscriber)
        verbs = {
            "publish": (publisher, lambda: publisher.publish(bytes(8))),
            "publish_batch": (publisher, lambda: publisher.publish_batch([bytes(8)])),
            "receive": (subscriber, subscriber.receive),
            "a loop": (subscriber, lambda: anext(loop)),
            "many loops": (subscriber, lambda: anext(aiter(subscriber))),
            "loops over the handle": (subscriber, lambda: anext(aiter(subscriber.handle))),
        }
        if numpy:
            rows = numpy.zeros(1, "u8")
            verbs["publish_array"] = (publisher, lambda: publisher.publish_array(rows))
            verbs["receive_array"] = (subscriber, lambda: subscriber.receive_array("u8", 1))
        return verbs

    async def with_each(self, check, chosen=None):
        """Runs `check` with each verb, or the chosen one, where nothing waits."""
        uri = f"shm://turns?dir={self.folder}"
        names = []
        async with aio.Publisher(uri, capacity="1MiB") as publisher:
            async with aio.Subscriber(uri) as subscriber:
                for name, (end, call) in self.verbs(publisher, subscriber).items():
                    names.append(name)
                    if chosen not in (None, name):
                        continue
                    for _ in range(2 * self.CALLS):
                        publisher.handle.publish(bytes(8))
                    # A cancellation leaves the block; a subtest would count it as its error.
                    with self.subTest(name) if chosen is None else contextlib.nullcontext():
                        await check(end, call)
                    while subscriber.handle.poll(self.CALLS):
                        pass
                    subscriber.handle.release()
        return names

    def moved(self, end):
        """How many messages an end has moved."""
        if isinstance(end, aio.Publisher):
            return end.handle.cursor // self.FRAME
        end.handle.release()
        return end.handle.position // self.FRAME

    async def ended(self, end, call, when_begun):
        """Runs a loop of calls that `when_begun` ends. No message is moved by an ended call."""
        before, done = self.moved(end), 0
        try:
            for _ in range(self.CALLS):
                await call()
                done += 1
                if done == 1:
                    when_begun()
        finally:
            self.assertGreater(done, 0)
            self.assertEqual(self.moved(end) - before, done)
        self.fail("the loop was not ended")

    def test_other_tasks_run_beside_each_verb(self):
        ticks = Ticks()

        async def check(_, call):
            before = ticks.count
            for _ in range(self.CALLS):
                await call()
            self.assertGreaterEqual(ticks.count - before, self.CALLS // aio.TURN_MAX)

        async def main():
            ticking = asyncio.create_task(ticks.run())
            await asyncio.sleep(0)
            await self.with_each(check)
            ticking.cancel()

        run(main())

    def test_cancel_ends_a_loop_of_each_verb(self):
        async def check(end, call):
            task = None

            def cancel():
                asyncio.get_running_loop().call_soon(task.cancel)

            task = asyncio.create_task(self.ended(end, call, cancel))
            with self.assertRaises(asyncio.CancelledError):
                await task

        run(self.with_each(check))

    @unittest.skipUnless(hasattr(asyncio, "timeout"), "asyncio.timeout came with 3.11")
    def test_a_timeout_ends_a_loop_of_each_verb(self):
        async def check(end, call):
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(None) as timeout:
                    now = asyncio.get_running_loop().time
                    await self.ended(end, call, lambda: timeout.reschedule(now()))

        run(self.with_each(check))

    def test_one_sigint_ends_a_loop_of_each_verb(self):
        # A test that a shell runs in the background starts with the signal ignored.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)

        def interrupt():
            signal.raise_signal(signal.SIGINT)

        async def check(end, call):
            await self.ended(end, call, interrupt)

        async def nothing(end, call):
            pass

        for name in run(self.with_each(nothing)):
            with self.subTest(name), self.assertRaises(KeyboardInterrupt):
                asyncio.run(self.with_each(check, name))

    @unittest.skipUnless(numpy, "no numpy")
    def test_many_rows_count_as_many_calls(self):
        rows = numpy.zeros(aio.TURN_MAX * aio.ROWS_EACH, "u8")
        ticks = Ticks()

        async def main():
            uri = f"shm://rows?dir={self.folder}"
            async with aio.Publisher(uri, capacity="8MiB") as publisher:
                async with aio.Subscriber(uri) as subscriber:
                    ticking = asyncio.create_task(ticks.run())
                    await asyncio.sleep(0)
                    for call in [
                        lambda: publisher.publish_array(rows),
                        lambda: publisher.publish_batch([bytes(8)] * aio.TURN_MAX * aio.BATCH_EACH),
                        lambda: subscriber.receive_array("u8", len(rows)),
                    ]:
                        # As many as two calls receive; there is room for as many.
                        publisher.handle.publish_array(rows)
                        publisher.handle.publish_array(rows)
                        await call()
                        before = ticks.count
                        await call()
                        self.assertGreater(ticks.count, before)
                        while subscriber.handle.poll(len(rows)):
                            pass
                        subscriber.handle.release()
                    ticking.cancel()

        run(main())


class Cancelling(Case):
    def test_cancel_ends_each_wait_once(self):
        publisher, subscriber = self.pair()
        full = olivine.Publisher("inproc://cancelled", capacity="4KiB")
        unread = olivine.Subscriber("inproc://cancelled")
        self.addCleanup(full.close)
        self.addCleanup(unread.close)
        while full.try_publish(bytes(500)) is not None:
            pass
        waits = [
            (subscriber, subscriber.receive),
            (subscriber, lambda: subscriber.receive_timeout(WATCHDOG)),
            (subscriber, subscriber.wait),
            (subscriber, lambda: next(subscriber)),
            (full, lambda: full.publish(bytes(500))),
            (full, lambda: full.claim(500)),
            (full, lambda: full.publish_batch([bytes(500)])),
            (full, lambda: full.wait_for_room(500)),
            (full, full.wait_drained),
            (publisher, lambda: publisher.wait_for_subscribers(9)),
        ]
        if numpy:
            rows = numpy.zeros((1, 500), "u1")
            waits.append((subscriber, lambda: subscriber.receive_array("u8")))
            waits.append((full, lambda: full.publish_array(rows)))
        for handle, wait in waits:
            timer = threading.Timer(0.01, handle.cancel)
            timer.start()
            with self.assertRaisesRegex(olivine.Cancelled, "cancel"):
                wait()
            timer.join()
        self.assertFalse(subscriber.wait(0.001))
        publisher.publish(b"still")
        self.assertEqual(bytes(subscriber.receive()), b"still")

    def test_cancel_before_a_wait_ends_the_next_wait_and_no_other_call(self):
        publisher, subscriber = self.pair()
        subscriber.cancel()
        subscriber.cancel()
        publisher.publish(b"there")
        self.assertEqual(bytes(subscriber.receive()), b"there")
        self.assertIsNone(subscriber.try_receive())
        with self.assertRaises(olivine.Cancelled):
            subscriber.receive()
        self.assertIsNone(subscriber.receive_timeout(0.001))


if __name__ == "__main__":
    unittest.main()
