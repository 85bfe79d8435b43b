"""What is refused, in words that say what to do; and a forked child beside its parent."""

import os
import unittest

import olivine
from case import Case
from olivine import Publisher, Subscriber

try:
    import numpy
except ImportError:
    numpy = None


class Ids(Case):
    def test_errors_have_the_id_that_explain_knows(self):
        self.assertIsNone(olivine.Error("x").id)
        with self.assertRaises(olivine.UriError) as raised:
            olivine.Publisher("nonsense://x")
        self.assertEqual(raised.exception.id, "uri.unknown-scheme")
        with self.assertRaises(olivine.OpenError) as raised:
            olivine.Subscriber(f"file://{self.folder}/missing.olv").receive()
        self.assertEqual(raised.exception.id, "journal.missing")
        publisher, subscriber = self.pair()
        for send in [publisher.publish, lambda message: publisher.publish_batch([message])]:
            with self.assertRaises(olivine.TooLong) as raised:
                send(bytes(5000))
            self.assertEqual(raised.exception.id, "send.too-long")
        publisher.close_failed("on purpose")
        with self.assertRaises(olivine.ReceiveError) as raised:
            subscriber.receive()
        self.assertEqual(raised.exception.id, "link.upstream")

    @unittest.skipUnless(numpy, "no numpy")
    def test_limits_of_arrays_begin_at_one(self):
        _, subscriber = self.pair()
        for limit in [0, -1]:
            with self.assertRaisesRegex(ValueError, f"limit={limit}: .* from 1"):
                subscriber.receive_array("u8", limit=limit)


class Refusing(Case):
    def test_handler_that_cannot_be_called_is_refused_before_a_message_comes(self):
        _publisher, subscriber = self.pair()
        with self.assertRaisesRegex(TypeError, "handler=5: give a function"):
            subscriber.poll(10, 5)

    def test_what_is_wrong_is_named(self):
        for keys, text in [
            ({"capacity": 1000}, "capacity=1000 is not usable"),
            ({"capacity": True}, "capacity=yes"),
            ({"colour": "red"}, "unknown key 'colour'.*olivine.settings"),
            ({"mode": -1}, "mode=-1"),
            ({"wait": "nap"}, "wait=nap is not usable: one of spin"),
            ({"mode": 0o777}, "mode=0777"),
            ({"name": "a&wait=spin"}, "name=a&wait=spin"),
        ]:
            with self.assertRaisesRegex(olivine.UriError, text):
                Subscriber("shm://x", **keys)
        for uri, text in [
            ("x", "not a channel URI"),
            ("smh://x", "unknown scheme 'smh'"),
            ("shm://a/b", "channel name 'a/b'"),
            ("shm://x?wait=park", "'wait' is given twice"),
        ]:
            with self.assertRaisesRegex(olivine.UriError, text):
                Publisher(uri, wait="spin")
        with self.assertRaises(olivine.OpenError):
            Publisher("shm://x", dir="/proc/nowhere")
        with self.assertRaises(TypeError):
            Publisher("shm://x", linger=1.5)
        publisher, subscriber = self.pair(mode=0o600)
        self.assertIn("capacity=4KiB", subscriber.uri)
        with self.assertRaises(TypeError):
            publisher.publish("text")
        with self.assertRaises(TypeError):
            publisher.publish(None)
        with self.assertRaises(BufferError):
            publisher.publish(memoryview(b"abcd")[::2])
        self.assertIsNone(subscriber.receive_timeout(0.001))
        self.assertFalse(subscriber.wait(0))

    def test_numbers_out_of_range_are_named_with_the_range(self):
        publisher, subscriber = self.pair()
        calls = [
            ("tag", lambda tag: publisher.publish(b"x", tag)),
            ("tag", lambda tag: publisher.try_publish(b"x", tag=tag)),
            ("tag", lambda tag: publisher.publish_timeout(b"x", 1, tag)),
            ("tag", lambda tag: publisher.publish_batch([(b"x", tag)])),
            ("tag", lambda tag: publisher.claim(1, tag)),
            ("tag", lambda tag: publisher.try_claim(1, tag)),
            ("tag", lambda tag: publisher.claim_timeout(1, 1, tag)),
            ("length", publisher.claim),
            ("length", publisher.try_claim),
            ("length", lambda length: publisher.claim_timeout(length, 1)),
            ("length", publisher.wait_for_room),
            ("count", publisher.wait_for_subscribers),
            ("limit", subscriber.poll),
        ]
        for name, call in calls:
            for given, error, shown in [
                (-1, ValueError, "-1"),
                (2**64, ValueError, "18446744073709551616"),
                (10**5000, ValueError, ".a number without a text."),
                ("x", TypeError, "'x'"),
                (1.0, TypeError, "1.0"),
            ]:
                refused = f"(^|not sent: ){name}={shown}: give a whole number from 0 to "
                with self.subTest(name), self.assertRaisesRegex(error, refused):
                    call(given)
        with self.assertRaisesRegex(ValueError, "^tag=4294967296: .* 4294967295"):
            publisher.publish(b"x", tag=2**32)
        publisher.publish(b"x", tag=2**32 - 1)
        self.assertEqual([message.tag for message in subscriber.poll()], [2**32 - 1])

    def test_times_that_are_not_times_are_refused_and_nothing_is_taken(self):
        publisher, subscriber = self.pair()
        publisher.publish(b"there")
        cursor = publisher.cursor
        calls = [
            subscriber.receive_timeout,
            subscriber.wait,
            lambda timeout: publisher.publish_timeout(b"x", timeout),
            lambda timeout: publisher.publish_batch_timeout([b"x"], timeout),
            lambda timeout: publisher.publish_array_timeout(memoryview(b"x"), timeout),
            lambda timeout: publisher.claim_timeout(1, timeout),
            lambda timeout: publisher.wait_for_room(1, timeout=timeout),
            lambda timeout: publisher.wait_for_subscribers(1, timeout),
            publisher.wait_drained,
        ]
        if numpy:
            calls.append(lambda timeout: subscriber.receive_array("u1", timeout=timeout))
        nan, infinity = float("nan"), float("inf")
        for call in calls:
            for timeout, error, shown in [
                (-1, ValueError, "-1"),
                (-1e-9, ValueError, "-1e-09"),
                (-infinity, ValueError, "-inf"),
                (nan, ValueError, "nan"),
                (10**400, ValueError, "1000"),
                ("1", TypeError, "'1'"),
            ]:
                refused = f"^timeout={shown}.*: give seconds from 0"
                with self.subTest(timeout), self.assertRaisesRegex(error, refused):
                    call(timeout)
        self.assertEqual(publisher.cursor, cursor)
        # Infinity sets none.
        self.assertEqual(bytes(subscriber.receive_timeout(infinity)), b"there")
        self.assertIsNone(subscriber.receive_timeout(-0.0))
        with self.assertRaisesRegex(TypeError, "timeout=None: .* without '_timeout'"):
            subscriber.receive_timeout(None)

    def test_families(self):
        for narrow, wide in [
            (olivine.UriError, olivine.Error),
            (olivine.BackPressured, olivine.NotSent),
            (olivine.EndOfStream, olivine.ReceiveError),
            (olivine.ReceiveError, olivine.Error),
        ]:
            self.assertTrue(issubclass(narrow, wide))

    def test_a_forked_child_is_refused_and_the_parent_goes_on(self):
        publisher, subscriber = self.pair()
        publisher.publish(b"parent")
        publisher.publish(b"parent, too")
        [copy] = subscriber.poll(1)
        message = subscriber.receive()
        claim = publisher.claim(4)
        child = os.fork()
        if child == 0:
            refused = 0
            try:
                claim.commit()
            except olivine.Forked:
                refused += 1
            looks = [lambda: bytes(message), lambda: memoryview(message), lambda: memoryview(claim)]
            if message.alive or bytes(copy) != b"parent":
                os._exit(100)
            looks.append(subscriber.event_fd)
            publish = lambda: publisher.publish(b"child")
            for call in looks + [publish, subscriber.receive]:
                try:
                    call()
                except olivine.Forked:
                    refused += 1
            os._exit(refused)
        _, status = os.waitpid(child, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 7)
        self.assertEqual(bytes(message), b"parent, too")
        memoryview(claim)[:] = b"four"
        claim.commit()
        self.assertEqual(bytes(subscriber.receive()), b"four")


if __name__ == "__main__":
    unittest.main()
