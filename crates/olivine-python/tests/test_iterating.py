"""A loop over a subscriber, which uses objects of messages again that the program has not kept."""

import inspect
import unittest
import weakref

from case import Case
from olivine import Publisher, Subscriber


class Iterating(Case):
    def filled(self, count=6):
        publisher, subscriber = self.pair()
        for n in range(count):
            publisher.publish(bytes([n]) * (n + 1), tag=n)
        publisher.close()
        return subscriber

    def test_messages_that_the_program_keeps_stay_as_they_are(self):
        kept = list(self.filled())
        self.assertEqual([bytes(m) for m in kept], [bytes([n]) * (n + 1) for n in range(6)])
        self.assertEqual([m.tag for m in kept], list(range(6)))
        self.assertEqual(len({m.position for m in kept}), 6)
        self.assertEqual(len({id(m) for m in kept}), 6)

    def test_a_view_and_a_weak_reference_keep_a_message_as_it_is(self):
        views, watched, gone = [], [], []
        for message in self.filled():
            if message.tag % 2:
                views.append(memoryview(message))
            else:
                watched.append(weakref.ref(message, gone.append))
        del message
        self.assertEqual([bytes(view) for view in views], [bytes([n]) * (n + 1) for n in (1, 3, 5)])
        self.assertEqual([watch() for watch in watched], [None] * 3)
        self.assertEqual(len(gone), 3)

    def test_a_loop_makes_few_objects(self):
        subscriber = self.filled(count=20)
        self.assertLessEqual(len({id(message) for message in subscriber}), 3)

    def test_long_messages_and_messages_with_a_topic_come_between_short_ones(self):
        publisher, subscriber = self.pair()
        sent = [(b"a", None), (b"b" * 65, None), (b"c", "t"), (b"d" * 64, None), (b"", None)] * 3
        for message, topic in sent:
            publisher.publish(message, topic=topic)
        publisher.close()
        got = []
        for message in subscriber:
            got.append((bytes(message), message.topic or None))
        self.assertEqual(got, sent)

    def test_two_loops_and_next_share_the_subscriber(self):
        subscriber = self.filled()
        one, two = iter(subscriber), iter(subscriber)
        got = [next(one), next(two), next(subscriber), next(one), next(two), next(one)]
        self.assertEqual([message.tag for message in got], list(range(6)))
        self.assertEqual(list(one), [])
        self.assertIs(iter(one), one)

    def test_a_weak_reference_may_use_the_subscriber(self):
        subscriber, lags = self.filled(), []
        watches = []
        for message in subscriber:
            watches.append(weakref.ref(message, lambda _: lags.append(subscriber.lag)))
        del message
        self.assertEqual(len(lags), 6)

    def test_a_loop_that_is_left_keeps_nothing(self):
        subscriber = self.filled()
        watch = weakref.ref(subscriber)
        for message in subscriber:
            break
        self._cleanups = [kept for kept in self._cleanups if kept[0] != subscriber.close]
        del subscriber, message
        self.assertIsNone(watch())


class Publishing(Case):
    def test_every_way_to_call_publish_sends_the_same(self):
        class Bytes(bytes):
            pass

        publisher, subscriber = self.pair(capacity="64KiB")
        publish = publisher.publish
        ends = [
            publish(b"x"),
            publish(message=b"x"),
            Publisher.publish(publisher, b"x"),
            publish(Bytes(b"x")),
            publish(bytearray(b"x")),
            publish(b"x", 0),
            publish(b"x", tag=0, topic=None),
        ]
        self.assertEqual(ends, sorted(set(ends)))
        self.assertEqual(ends[-1], publisher.cursor)
        got = subscriber.poll()
        self.assertEqual([(bytes(m), m.tag, m.topic) for m in got], [(b"x", 0, "")] * 7)

    def test_publish_refuses_wrong_arguments(self):
        publisher, _ = self.pair()
        for arguments, keys in [((), {}), ((1,), {}), ((b"x",), {"message": b"x"}), (("x",), {}),
                                ((b"x", 0, None, 1), {}), ((b"x",), {"label": 1})]:
            with self.assertRaises(TypeError):
                publisher.publish(*arguments, **keys)
        with self.assertRaises(TypeError):
            Publisher.publish(object(), b"x")
        with self.assertRaises(TypeError):
            Publisher.publish()
        self.assertEqual(publisher.cursor, 0)

    def test_publish_has_its_text_and_signature(self):
        signature = "(self, /, message, tag=0, topic=None)"
        self.assertEqual(str(inspect.signature(Publisher.publish)), signature)
        self.assertIn("waiting for room", Publisher.publish.__doc__)
        self.assertEqual(Publisher.publish.__qualname__, "Publisher.publish")

    def test_a_value_of_another_length_is_refused(self):
        import ctypes

        class Value(ctypes.Structure):
            _fields_ = [("number", ctypes.c_uint32)]

        stated = {"type": ("value v1", Value), "dir": self.folder}
        with Subscriber("shm://typed", capacity="4KiB", **stated) as subscriber:
            with Publisher("shm://typed", **stated) as publisher:
                publisher.publish(b"1234")
                with self.assertRaisesRegex(ValueError, "has 5 bytes"):
                    publisher.publish(b"12345")
            self.assertEqual([bytes(message) for message in subscriber], [b"1234"])


if __name__ == "__main__":
    unittest.main()
