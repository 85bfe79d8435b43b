"""What the package promises. Run by tests/python.rs, which puts the package on the path."""

import array
import asyncio
import ast
import gc
import inspect
import os
import threading
import time
import unittest
import weakref

import olivine
from case import WATCHDOG, Case
from olivine import Publisher, Subscriber

try:
    import numpy
except ImportError:
    numpy = None


class Sending(Case):
    def test_what_is_sent_arrives_with_what_goes_with_it(self):
        publisher, subscriber = self.pair()
        self.assertEqual(publisher.publish(b"one", tag=7), publisher.cursor)
        self.assertEqual(publisher.try_publish(bytearray(b"two"), 8), publisher.cursor)
        publisher.publish(memoryview(b"-three-")[1:-1])
        publisher.publish(array.array("H", [1, 2]))
        message = subscriber.receive()
        fields = (bytes(message), message.tag, message.lane, message.position)
        self.assertEqual(fields, (b"one", 7, 0, 0))
        self.assertEqual((message.topic, len(message)), ("", 3))
        self.assertGreater(subscriber.lag, 0)
        polled = [bytes(m) for m in subscriber.poll()]
        self.assertEqual(polled, [b"two", b"three", b"\x01\x00\x02\x00"])
        self.assertEqual((subscriber.lag, subscriber.lost_bytes), (0, 0))
        self.assertEqual(subscriber.position, publisher.cursor)
        self.assertEqual(subscriber.poll(), [])
        self.assertEqual(publisher.count_subscribers(), 1)
        self.assertEqual(publisher.stats()["evicted"], 0)

    def test_no_room_is_none_or_an_exception(self):
        publisher, subscriber = self.pair()
        large = bytes(publisher.message_max)
        while publisher.try_publish(large) is not None:
            pass
        with self.assertRaises(olivine.BackPressured):
            publisher.publish_timeout(large, 0.001)
        with self.assertRaises(olivine.BackPressured):
            publisher.claim_timeout(len(large), 0)
        self.assertEqual(publisher.try_publish_batch([large, large]), 0)
        with self.assertRaises(olivine.TooLong) as raised:
            publisher.publish(large + b"x")
        self.assertEqual(raised.exception.max, len(large))
        self.assertGreater(publisher.stats()["back_pressure_count"], 0)
        self.assertFalse(publisher.wait_drained(timeout=0.001))
        self.assertFalse(publisher.wait_for_subscribers(2, timeout=0.001))
        count = len(subscriber.poll())
        self.assertGreater(count, 0)
        subscriber.release()
        self.assertTrue(publisher.wait_drained(timeout=WATCHDOG))

    def test_batches_are_sent_whole_however_long(self):
        publisher, subscriber = self.pair()
        messages = [b"%d" % n for n in range(1000)]
        publish = lambda: self.assertEqual(publisher.publish_batch(messages), 1000)
        thread = threading.Thread(target=publish)
        thread.start()
        got = [bytes(subscriber.receive_timeout(WATCHDOG)) for _ in messages]
        thread.join()
        self.assertEqual(got, messages)

    def test_a_batch_that_stops_says_how_many_were_sent(self):
        publisher, subscriber = self.pair()
        with self.assertRaises(olivine.TooLong) as raised:
            publisher.publish_batch([b"one", b"two", bytes(8 << 20), b"four"])
        self.assertEqual(raised.exception.published, 2)
        self.assertIn("message 2 of the batch, counted from 0, was not", str(raised.exception))
        self.assertEqual([bytes(m) for m in subscriber.poll()], [b"one", b"two"])

    def test_a_generator_that_raises_has_published_nothing_and_says_so(self):
        publisher, subscriber = self.pair()

        def messages():
            yield b"one"
            raise LookupError("no more")

        with self.assertRaises(LookupError) as raised:
            publisher.publish_batch(messages())
        self.assertEqual(raised.exception.published, 0)
        with self.assertRaises(TypeError) as raised:
            publisher.publish_batch([b"one", 2])
        self.assertEqual(raised.exception.published, 0)
        self.assertIn("message 1 of the batch, counted from 0, was not", str(raised.exception))
        self.assertEqual([bytes(m) for m in subscriber.poll()], [])

    def test_a_link_says_what_it_does(self):
        publisher, subscriber = self.pair()
        self.assertEqual((publisher.link_status, subscriber.link_status), (None, None))
        recorder = Publisher(f"file://{self.folder}/journal", linger=f"{WATCHDOG}s")
        recorder.publish(b"recorded")
        while recorder.link_status["acknowledged_bytes"] == 0:
            pass
        self.assertEqual(recorder.link_status["stage"], "connected")
        self.assertEqual(recorder.link_status["undelivered"], 0)
        recorder.close()
        with Subscriber(f"file://{self.folder}/journal") as reader:
            reader.receive()
            while reader.link_status["journal_position"] == 0:
                pass

    def test_a_far_side_that_never_comes_is_named_where_nothing_has_room(self):
        # No program listens at this address.
        uri = "tcp://127.0.0.1:1/nowhere?role=connect&capacity=4KiB&linger=1ms"
        publisher = Publisher(uri)
        said = "no far side has been connected: waiting for 127.0.0.1:1: .*, [0-9]+ tr(y|ies)$"
        with self.assertRaisesRegex(olivine.BackPressured, said):
            while True:
                publisher.publish_timeout(bytes(512), timeout=0.001)
        with self.assertRaises(olivine.NotSent):
            publisher.close()

    def test_topics(self):
        publisher = Publisher("inproc://topics", topic="a.b")
        subscriber = Subscriber("inproc://topics?topic=a.*", from_="oldest")
        self.addCleanup(publisher.close)
        publisher.publish(b"1")
        publisher.publish(b"2", topic="b")
        publisher.publish(b"3", topic="a.c")
        polled = [(m.topic, bytes(m)) for m in subscriber.poll()]
        self.assertEqual(polled, [("a.b", b"1"), ("a.c", b"3")])
        self.assertEqual(publisher.topic, "a.b")
        with self.assertRaisesRegex(olivine.NotSent, "topic is refused: .*; given was 'a..b'"):
            publisher.publish(b"4", topic="a..b")
        plain = Publisher("inproc://no-topics")
        self.addCleanup(plain.close)
        plain.publish(b"4", topic="a")
        with Subscriber("inproc://no-topics", from_="oldest") as reader:
            message = reader.receive()
            self.assertEqual((message.topic, bytes(message)), ("a", b"4"))


class Claims(Case):
    def test_leaving_the_block_commits(self):
        publisher, subscriber = self.pair()
        with publisher.claim(4, tag=9) as view:
            self.assertFalse(view.readonly)
            view[:] = b"four"
            with self.assertRaisesRegex(ValueError, "open claim"):
                publisher.try_publish(b"meanwhile")
            self.assertEqual(subscriber.poll(), [])
        message = subscriber.receive()
        self.assertEqual((bytes(message), message.tag), (b"four", 9))
        with self.assertRaises(ValueError):
            view[0] = 0

    def test_an_exception_aborts(self):
        publisher, subscriber = self.pair()
        with self.assertRaises(ZeroDivisionError):
            with publisher.claim(4) as view:
                view[:] = b"evil"
                1 / 0
        publisher.publish(b"good")
        self.assertEqual(bytes(subscriber.receive()), b"good")

    def test_a_forgotten_claim_is_given_up(self):
        publisher, subscriber = self.pair()
        claim = publisher.claim(4)
        self.assertEqual(len(claim), 4)
        del claim
        claim = publisher.claim(4)
        claim.abort()
        claim.abort()
        with self.assertRaisesRegex(ValueError, "before"):
            claim.commit()
        with self.assertRaises(ValueError):
            memoryview(claim)
        publisher.publish(b"next")
        self.assertEqual(bytes(subscriber.receive()), b"next")

    def test_an_old_claim_does_not_commit_a_newer_one(self):
        publisher, subscriber = self.pair()
        old = publisher.claim(3)
        old.commit()
        new = publisher.claim(3)
        with self.assertRaises(ValueError):
            old.commit()
        memoryview(new)[:] = b"new"
        new.commit()
        self.assertEqual([bytes(m) for m in subscriber.poll()][1:], [b"new"])

    def test_a_view_that_outlives_its_block_keeps_the_claim(self):
        publisher, subscriber = self.pair()
        with self.assertRaises(BufferError):
            with publisher.claim(4) as view:
                outside = view[1:]
        # It still writes into the claim, and into nothing else: the bytes are not reused.
        outside[:] = b"our"
        with self.assertRaisesRegex(ValueError, "open claim"):
            publisher.try_publish(b"x")
        with self.assertRaises(BufferError):
            publisher.close()
        del outside, view
        gc.collect()
        publisher.publish(b"free")
        self.assertEqual(bytes(subscriber.receive()), b"free")

    def test_a_claim_still_looked_at_hides_no_exception(self):
        subscriber = Subscriber("inproc://hidden")
        publisher = Publisher("inproc://hidden")
        kept = []
        with self.assertRaises(ZeroDivisionError):
            with publisher, publisher.claim(4) as view:
                kept.append(view[1:])
                raise ZeroDivisionError
        kept.pop().release()
        # Given up with the last view.
        publisher.publish(b"next")
        self.assertEqual(bytes(subscriber.receive()), b"next")

    @unittest.skipUnless(numpy, "no numpy")
    def test_numpy_fills_in_place(self):
        publisher, subscriber = self.pair()
        with publisher.claim(32) as view:
            numbers = numpy.frombuffer(view, dtype="<f8")
            numbers[:] = [1, 2, 3, 4]
            del numbers
        self.assertEqual(memoryview(subscriber.receive()).cast("d").tolist(), [1, 2, 3, 4])


class Views(Case):
    def test_a_message_is_read_only_and_in_place(self):
        publisher, subscriber = self.pair()
        publisher.publish(b"in place")
        message = subscriber.receive()
        view = memoryview(message)
        self.assertTrue(view.readonly and view.contiguous)
        self.assertEqual((view.tobytes(), view.format, view.nbytes), (b"in place", "B", 8))
        with self.assertRaises(TypeError):
            view[0] = 0

    def test_nothing_goes_on_under_a_view(self):
        publisher, subscriber = self.pair()
        publisher.publish(b"first")
        publisher.publish(b"second")
        message = subscriber.receive()
        view = memoryview(message)
        for going_on in [
            subscriber.receive,
            subscriber.poll,
            lambda: subscriber.poll(1, print),
            subscriber.wait,
            subscriber.release,
            subscriber.unsubscribe,
            message.release,
            lambda: next(subscriber),
        ]:
            with self.assertRaisesRegex(BufferError, "1 view "):
                going_on()
        second = memoryview(message)[1:]
        with self.assertRaisesRegex(BufferError, "2 views"):
            subscriber.receive()
        # Back-pressure instead of bytes that change: the publisher cannot come round to it.
        while publisher.try_publish(bytes(500)) is not None:
            pass
        self.assertEqual(bytes(view), b"first")
        view.release()
        del second
        self.assertEqual(bytes(subscriber.receive()), b"second")
        self.assertFalse(message.alive)
        with self.assertRaisesRegex(ValueError, "gone"):
            memoryview(message)
        with self.assertRaisesRegex(ValueError, "gone"):
            bytes(message)

    def test_a_message_in_a_block_gives_its_room_back(self):
        publisher, subscriber = self.pair()
        publisher.publish(b"first")
        with subscriber.receive() as message:
            self.assertEqual(bytes(message), b"first")
            self.assertTrue(message.alive)
        self.assertFalse(message.alive)
        self.assertTrue(publisher.wait_drained(timeout=WATCHDOG))

    def test_a_view_outlives_names_of_everything_else(self):
        publisher, subscriber = self.pair()
        publisher.publish(b"kept")
        view = memoryview(subscriber.receive())
        self.doCleanups()
        watched = weakref.ref(subscriber)
        publisher.close()
        del publisher, subscriber
        gc.collect()
        self.assertEqual(bytes(view), b"kept")
        self.assertIsNotNone(watched())
        del view
        gc.collect()
        self.assertIsNone(watched())

    def test_closing_waits_for_the_last_view(self):
        publisher, subscriber = self.pair()
        publisher.publish(b"kept")
        with subscriber:
            view = memoryview(subscriber.receive())
        with self.assertRaises(olivine.Closed):
            subscriber.receive()
        self.assertEqual(bytes(view), b"kept")
        self.assertEqual(publisher.count_subscribers(), 1)
        del view
        self.assertEqual(publisher.count_subscribers(), 0)

    def test_the_collector_tracks_no_copy(self):
        publisher, subscriber = self.pair()
        for _ in range(2):
            publisher.publish(b"untracked")
        for copy in [next(subscriber), *subscriber.poll(1)]:
            self.assertFalse(gc.is_tracked(copy))

    def test_copies_live_as_long_as_they_like(self):
        publisher, subscriber = self.pair()
        for n in range(3):
            publisher.publish(b"%d" % n, tag=n)
        copies = subscriber.poll(2) + [next(subscriber)]
        views = [memoryview(copy) for copy in copies]
        self.assertEqual(subscriber.poll(), [])
        subscriber.close()
        del copies
        self.assertEqual([view.tobytes() for view in views], [b"0", b"1", b"2"])

    def test_what_goes_wrong_behind_copies_takes_none_of_them_away(self):
        lapped = Subscriber("shm://pair", dir=self.folder, capacity="4KiB", delivery="latest")
        self.addCleanup(lapped.close)
        first, second = (Publisher("shm://pair", dir=self.folder) for _ in range(2))
        for publisher in (first, second):
            self.addCleanup(publisher.close)

        def lap(receives):
            self.assertEqual(lapped.poll(), [])
            first.publish(b"whole")
            for _ in range(20):
                second.publish(bytes(1000))
            receives()
            self.assertTrue(lapped.wait(timeout=0))
            with self.assertRaises(olivine.Overrun) as raised:
                lapped.try_receive()
            self.assertGreater(raised.exception.lost_bytes, 0)
            lapped.poll()

        lap(lambda: self.assertEqual([bytes(m) for m in lapped.poll()], [b"whole"]))
        seen = []
        lap(lambda: self.assertEqual(lapped.poll(9, lambda m: seen.append(bytes(m))), 1))
        self.assertEqual(seen, [b"whole"])

    def test_a_handler_that_raises_gets_the_message_again(self):
        publisher, subscriber = self.pair()
        for n in range(4):
            publisher.publish(b"%d" % n)
        seen = []

        def picky(message):
            if bytes(message) == b"2" and len(seen) == 2:
                seen.append(None)
                raise LookupError("picky")
            seen.append(bytes(message))

        with self.assertRaisesRegex(LookupError, "picky"):
            subscriber.poll(10, picky)
        self.assertTrue(subscriber.wait(0))
        self.assertEqual(bytes(subscriber.receive()), b"2")
        self.assertEqual(subscriber.poll(10, picky), 1)
        self.assertEqual(seen, [b"0", b"1", None, b"3"])

    def test_a_view_kept_by_a_handler_stops_the_poll(self):
        publisher, subscriber = self.pair()
        publisher.publish(b"a")
        publisher.publish(b"b")
        kept = []

        def keep(message):
            kept.append(memoryview(message))

        self.assertEqual(subscriber.poll(10, keep), 1)
        with self.assertRaises(BufferError):
            subscriber.poll(10, keep)
        self.assertEqual(bytes(kept.pop()), b"a")
        self.assertEqual([bytes(m) for m in subscriber.poll()], [b"b"])

    def test_a_handler_that_receives_is_refused_and_nothing_is_lost(self):
        publisher, subscriber = self.pair()
        calls = [
            subscriber.receive,
            subscriber.try_receive,
            lambda: subscriber.receive_timeout(1),
            subscriber.poll,
            lambda: subscriber.poll(1, print),
            lambda: subscriber.poll_into(memoryview(bytearray(1))),
            subscriber.wait,
            lambda: next(subscriber),
            lambda: next(iter(subscriber)),
        ]
        if numpy:
            calls.append(lambda: subscriber.receive_array("u1"))
        seen = []

        def handler(message):
            seen.append(bytes(message))
            view = memoryview(message) if len(seen) % 2 else None
            for call in calls:
                with self.assertRaisesRegex(olivine.InUse, "a handler of poll must not receive"):
                    call()
            del view
            self.assertEqual(bytes(message), seen[-1])

        for text in (b"a", b"b", b"c"):
            publisher.publish(text)
        self.assertEqual(subscriber.poll(10, handler), 3)
        self.assertEqual(seen, [b"a", b"b", b"c"])
        publisher.publish(b"d")
        self.assertEqual(bytes(subscriber.receive()), b"d")

    def test_a_message_that_another_thread_handles_is_handled_once(self):
        publisher, subscriber = self.pair()
        for text in (b"a", b"b", b"c"):
            publisher.publish(text)
        seen, counts = [], []
        released, begun, ended = (threading.Event() for _ in range(3))

        def first(message):
            seen.append(("first", bytes(message)))
            message.release()
            released.set()
            begun.wait(WATCHDOG)

        def second(message):
            seen.append(("second", bytes(message)))
            begun.set()
            ended.wait(WATCHDOG)

        def other():
            released.wait(WATCHDOG)
            subscriber.poll(1, second)

        def stopped():
            counts.append(subscriber.poll(10, first))

        threads = [threading.Thread(target=stopped), threading.Thread(target=other)]
        for thread in threads:
            thread.start()
        threads[0].join(WATCHDOG)
        # The handler of the other thread has its message still.
        with self.assertRaisesRegex(olivine.InUse, "a handler of poll must not receive"):
            subscriber.poll(1)
        ended.set()
        threads[1].join(WATCHDOG)
        self.assertEqual(seen, [("first", b"a"), ("second", b"b")])
        # It could not go on, and has counted what its handler has read.
        self.assertEqual(counts, [1])
        self.assertEqual([bytes(m) for m in subscriber.poll()], [b"c"])

    def test_the_exception_of_a_handler_is_raised_while_another_thread_receives(self):
        publisher, subscriber = self.pair()
        publisher.publish(b"a")
        got = []
        thread = threading.Thread(target=lambda: got.append(bytes(next(subscriber))))

        def handler(message):
            message.release()
            thread.start()
            while True:
                time.sleep(0)
                try:
                    subscriber.lag
                except olivine.InUse:
                    break
            raise LookupError("on purpose")

        with self.assertRaisesRegex(LookupError, "on purpose"):
            subscriber.poll(1, handler)
        publisher.publish(b"b")
        thread.join(WATCHDOG)
        self.assertEqual(got, [b"b"])
        # No handler runs.
        for text in (b"c", b"d"):
            publisher.publish(text)
        with self.assertRaises(ZeroDivisionError):
            subscriber.poll(1, lambda message: 1 / 0)
        self.assertEqual([bytes(m) for m in subscriber.poll()], [b"c", b"d"])

    def test_a_handler_may_release_its_message_and_close(self):
        publisher, subscriber = self.pair(name="handled")
        for text in (b"a", b"b", b"c"):
            publisher.publish(text)

        def failing(message):
            raise LookupError("on purpose")

        def handler(message):
            message.release()
            # The next one comes again, also behind the handler that released.
            with self.assertRaises(LookupError):
                subscriber.poll(1, failing)

        self.assertEqual(subscriber.poll(1, handler), 1)
        self.assertEqual(subscriber.poll(1, lambda message: subscriber.close()), 1)
        again = Subscriber("shm://pair", dir=self.folder, name="handled")
        self.addCleanup(again.close)
        self.assertEqual([bytes(m) for m in again.poll()], [b"c"])

    def test_release_does_not_consume_the_message_of_a_handler_that_raised(self):
        publisher, subscriber = self.pair()
        for text in (b"a", b"b", b"c"):
            publisher.publish(text)
        kept = []

        def keep(message):
            kept.append(message)
            raise LookupError("kept")

        def release(message):
            subscriber.release()
            # Its handler runs: it is there.
            self.assertTrue(message.alive)
            keep(message)

        for handler in [keep, release]:
            with self.assertRaisesRegex(LookupError, "kept"):
                subscriber.poll(10, handler)
            subscriber.release()
        self.assertEqual(bytes(kept[-1]), b"a")
        # The program says that it was dealt with.
        kept[-1].release()
        self.assertEqual([bytes(m) for m in subscriber.poll()], [b"b", b"c"])
        # Nothing is held.
        publisher.publish(b"d")
        subscriber.poll(0)
        subscriber.release()
        subscriber.release()
        self.assertEqual([bytes(m) for m in subscriber.poll()], [b"d"])

    def test_a_refused_poll_or_release_gives_the_message_of_a_handler_again(self):
        for call in (Subscriber.poll, Subscriber.release):
            with self.subTest(call=call):
                publisher, subscriber = self.pair()
                for text in (b"a", b"b"):
                    publisher.publish(text)
                kept = []

                def keep(message):
                    kept.append(memoryview(message))
                    raise LookupError("kept")

                with self.assertRaisesRegex(LookupError, "kept"):
                    subscriber.poll(10, keep)
                for _ in range(2):
                    with self.assertRaises(BufferError):
                        call(subscriber)
                kept.clear()
                self.assertEqual([bytes(m) for m in subscriber.poll()], [b"a", b"b"])
                subscriber.close()
                publisher.close()

    @unittest.skipUnless(numpy, "no numpy")
    def test_numpy_reads_in_place_and_holds_the_message(self):
        publisher, subscriber = self.pair()
        kind = numpy.dtype([("bid", "<i8"), ("ask", "<i8")])
        quotes = numpy.array([(1, 2), (3, 4)], dtype=kind)
        publisher.publish(quotes)
        publisher.publish(b"next")
        seen = numpy.frombuffer(subscriber.receive(), dtype=kind)
        self.assertEqual(seen["ask"].tolist(), [2, 4])
        self.assertFalse(seen.flags.writeable or seen.flags.owndata)
        with self.assertRaises(BufferError):
            subscriber.receive()
        self.assertEqual(seen["bid"].tolist(), [1, 3])
        del seen
        self.assertEqual(bytes(subscriber.receive()), b"next")


class Durable(Case):
    """A durable name that is opened again: `with` closes, an exception in its block drops."""

    def setUp(self):
        super().setUp()
        self.publisher, self.subscriber = self.pair(name="archive")
        for n in range(5):
            self.publisher.publish(b"%d" % n)

    def again(self):
        self.subscriber = Subscriber("shm://pair", dir=self.folder, name="archive")
        self.addCleanup(self.subscriber.close)
        return self.subscriber

    def first(self):
        return bytes(self.again().try_receive())

    def failing(self, work):
        with self.assertRaisesRegex(LookupError, "in the middle"):
            with self.subscriber:
                work()
                raise LookupError("in the middle")
        with self.assertRaises(olivine.Closed):
            self.subscriber.lag

    def test_an_exception_in_the_block_gives_the_message_again(self):
        self.failing(self.subscriber.receive)
        self.assertEqual(self.first(), b"0")
        self.failing(lambda: None)
        self.again()
        self.failing(lambda: next(self.subscriber))
        self.assertEqual(self.first(), b"0")
        self.subscriber.close()
        self.assertEqual(self.first(), b"1")

    def test_it_says_what_its_name_found(self):
        self.assertEqual(self.subscriber.durable, "created")
        self.subscriber.close()
        self.assertEqual(self.again().durable, "resumed")
        with Subscriber("shm://pair", dir=self.folder) as plain:
            self.assertIsNone(plain.durable)

    def test_a_name_whose_place_was_taken_reports_it(self):
        uri = "shm://short?capacity=4KiB&slow=evict:1ms"
        publisher = Publisher(uri, dir=self.folder)
        self.addCleanup(publisher.close)
        Subscriber(uri, dir=self.folder, name="archive").close()
        for _ in range(100):
            publisher.publish(bytes(512))
        with Subscriber(uri, dir=self.folder, name="archive") as late:
            self.assertEqual(late.durable, "lost place")
            self.assertGreater(late.lost_bytes, 0)

    def test_removed_files_are_reported(self):
        self.assertFalse(self.publisher.check_unlinked() or self.subscriber.check_unlinked())
        os.remove(os.path.join(self.folder, "pair", "control"))
        self.assertTrue(self.publisher.check_unlinked() and self.subscriber.check_unlinked())

    def test_a_block_without_exception_releases_the_message(self):
        with self.subscriber as subscriber:
            subscriber.receive()
        self.assertEqual(self.first(), b"1")

    def test_a_refused_release_does_not_consume_the_message_of_a_handler(self):
        kept = []

        def keep(message):
            kept.append(memoryview(message))
            raise LookupError("kept")

        with self.assertRaisesRegex(LookupError, "kept"):
            self.subscriber.poll(10, keep)
        with self.assertRaises(BufferError):
            self.subscriber.release()
        kept.clear()
        self.subscriber.close()
        self.assertEqual(self.first(), b"0")

    def test_dropping_and_forgetting_give_it_again(self):
        self.subscriber.receive()
        self.subscriber.drop()
        self.subscriber.drop()
        self.assertEqual(self.first(), b"0")
        self.subscriber.drop()
        forgotten = Subscriber("shm://pair", dir=self.folder, name="archive")
        forgotten.receive()
        del forgotten
        gc.collect()
        self.assertEqual(self.first(), b"0")

    def test_a_message_whose_block_fails_comes_again(self):
        def work():
            with self.subscriber.receive() as message:
                self.assertEqual(bytes(message), b"0")
                raise LookupError("in the middle")

        self.failing(work)
        with self.again() as subscriber:
            # A program that catches it goes on with the next: a bad message does not block it.
            with self.assertRaises(LookupError):
                with subscriber.receive() as message:
                    self.assertEqual(bytes(message), b"0")
                    raise LookupError
            self.assertTrue(message.alive)
            self.assertEqual(bytes(subscriber.receive()), b"1")
        self.assertEqual(self.first(), b"2")

    def test_a_copy_whose_block_ends_well_is_consumed(self):
        async def one():
            async for message in self.subscriber:
                return message

        takes = [
            lambda: next(self.subscriber),
            lambda: asyncio.run(asyncio.wait_for(one(), WATCHDOG)),
            lambda: self.subscriber.poll(1)[0],
        ]
        for n, take in enumerate(takes):
            with self.assertRaises(LookupError):
                with take() as message:
                    raise LookupError
            self.subscriber.drop()
            self.again()
            with take() as message:
                self.assertEqual(bytes(message), b"%d" % n)
            self.assertEqual(bytes(message), b"%d" % n)
            self.subscriber.drop()
            message.release()
            self.again()
        self.assertEqual(bytes(self.subscriber.try_receive()), b"3")

    def test_an_older_copy_does_not_release_a_newer_one(self):
        older, newer = self.subscriber.poll(2)
        older.release()
        self.subscriber.drop()
        newer.release()
        _, newer = self.again().poll(2)
        self.assertEqual(bytes(newer), b"1")
        newer.release()
        self.subscriber.drop()
        self.assertEqual([bytes(m) for m in self.again().poll(10)], [b"2", b"3", b"4"])

    def test_a_copy_is_released_while_its_subscriber_waits(self):
        for _ in range(5):
            message = next(self.subscriber)
        got = []
        receive = self.subscriber.receive_timeout
        thread = threading.Thread(target=lambda: got.append(bytes(receive(WATCHDOG))))
        thread.start()
        while "in use" not in repr(self.subscriber):
            pass
        message.release()
        self.publisher.publish(b"5")
        thread.join()
        self.assertEqual(got, [b"5"])

    def test_closing_does_not_release_a_message_whose_handler_raised(self):
        with self.assertRaises(ZeroDivisionError):
            self.subscriber.poll(10, lambda message: 1 / 0)
        self.subscriber.close()
        self.assertEqual(self.first(), b"0")

    def test_the_last_view_ends_it_as_was_said(self):
        views = []
        self.failing(lambda: views.append(memoryview(self.subscriber.receive())))
        views.clear()
        gc.collect()
        self.again()
        with self.subscriber as subscriber:
            view = memoryview(subscriber.receive())
        self.assertEqual(bytes(view), b"0")
        del view
        self.assertEqual(self.first(), b"1")

    def test_a_loop_releases_one_message_at_a_time(self):
        async def fail():
            with self.subscriber:
                async for message in self.subscriber:
                    if bytes(message) == b"1":
                        raise LookupError("in the middle")

        with self.assertRaises(LookupError):
            asyncio.run(asyncio.wait_for(fail(), WATCHDOG))
        self.assertEqual(self.first(), b"1")


class Stubs(unittest.TestCase):
    def test_the_stubs_say_what_is_there(self):
        with open(os.environ["OLIVINE_STUBS"], encoding="utf-8") as file:
            stubs = ast.parse(file.read())
        seen = compared = 0
        for node in stubs.body:
            if not isinstance(node, ast.ClassDef):
                continue
            real = getattr(olivine, node.name)
            said = {f.name for f in node.body if isinstance(f, ast.FunctionDef)}
            there = {name for name, _ in inspect.getmembers(real) if not name.startswith("_")}
            if issubclass(real, Exception):
                there = set()
            self.assertEqual({name for name in said if not name.startswith("_")}, there, node.name)
            seen += 1
            for function in (f for f in node.body if isinstance(f, ast.FunctionDef)):
                if function.name.startswith("_") or function.decorator_list:
                    continue
                names = [argument.arg for argument in function.args.args]
                given = [ast.literal_eval(default) for default in function.args.defaults]
                given = [inspect.Parameter.empty] * (len(names) - len(given)) + given
                made = inspect.signature(getattr(real, function.name)).parameters.values()
                made = [(one.name, one.default) for one in made]
                self.assertEqual(list(zip(names, given)), made, f"{node.name}.{function.name}")
                compared += 1
        self.assertGreaterEqual(compared, 20)
        self.assertGreaterEqual(seen, 20)
        classes = {n.name for n in stubs.body if isinstance(n, ast.ClassDef)}
        others = {"__version__", "DETAILS", "settings"}
        self.assertEqual(set(olivine.__all__) - others, classes)


if __name__ == "__main__":
    unittest.main()
