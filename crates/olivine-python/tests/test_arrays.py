"""Arrays: many messages of one length in one call, and DLPack."""

import array
import ctypes
import gc
import os
import signal
import subprocess
import sys
import threading
import unittest

import olivine
from case import WATCHDOG, Case
from olivine import Publisher, Subscriber

try:
    import numpy
except ImportError:
    numpy = None

QUOTE = [("bid", "f8"), ("ask", "f8"), ("sequence", "u8"), ("name", "S8")]


class Detail(ctypes.Structure):
    _fields_ = [("number", ctypes.c_uint32)]


def quotes(count):
    made = numpy.zeros(count, QUOTE)
    made["bid"] = numpy.arange(count)
    made["ask"] = made["bid"] + 0.5
    made["sequence"] = numpy.arange(count)
    made["name"] = b"EURUSD"
    return made


@unittest.skipUnless(numpy, "no numpy")
class Receiving(Case):
    def test_rows_of_a_structure_arrive_whole_and_in_order(self):
        publisher, subscriber = self.pair()
        rows = quotes(10_000)
        thread = threading.Thread(target=lambda: publisher.publish_array(rows, tag=7))
        thread.start()
        parts, details = [], []
        while sum(map(len, parts)) < len(rows):
            part, detail = subscriber.receive_array(QUOTE, timeout=WATCHDOG, details=True)
            self.assertGreater(len(part), 0)
            parts.append(part)
            details.append(detail)
        thread.join()
        numpy.testing.assert_array_equal(numpy.concatenate(parts), rows)
        details = numpy.concatenate(details)
        self.assertEqual(set(details["tag"]), {7})
        self.assertEqual(set(details["lane"]), {0})
        self.assertTrue((numpy.diff(details["position"].astype(int)) > 0).all())

    def test_each_kind_of_row_keeps_its_type_and_shape(self):
        publisher, subscriber = self.pair()
        for rows in [
            numpy.arange(6, dtype="i2"),
            numpy.arange(24, dtype=">f4").reshape(2, 3, 4),
            numpy.array(["2026-01-01", "2026-01-02"], "M8[D]"),
            numpy.array([b"one", b"three"]),
            numpy.array([1 + 2j, -1j], "c16"),
            numpy.zeros(2, [("when", "M8[ns]"), ("at", "f4", (2, 2))]),
        ]:
            self.assertEqual(publisher.publish_array(rows), len(rows))
            dtype = (rows.dtype, rows.shape[1:])
            got = subscriber.receive_array(dtype, timeout=WATCHDOG)
            numpy.testing.assert_array_equal(got, rows)
            self.assertEqual(publisher.publish_array(rows), len(rows))
            into = numpy.zeros_like(rows)
            self.assertEqual(subscriber.poll_into(into), len(rows))
            numpy.testing.assert_array_equal(into, rows)

    def test_limit_and_timeout_bound_the_array(self):
        publisher, subscriber = self.pair()
        self.assertEqual(subscriber.receive_array("u8", timeout=0).shape, (0,))
        self.assertEqual(subscriber.receive_array("u8", timeout=0.001).dtype, numpy.uint64)
        publisher.publish_array(numpy.arange(10, dtype="u8"))
        self.assertEqual(list(subscriber.receive_array("u8", 3)), [0, 1, 2])
        # Memory is cut to what was filled.
        rest = subscriber.receive_array("u8", 100_000)
        self.assertEqual((list(rest), rest.base.nbytes), ([3, 4, 5, 6, 7, 8, 9], 56))
        # Without a limit one row fits at least.
        publisher.publish(bytes(1000))
        self.assertEqual(len(subscriber.receive_array("V1000")), 1)

    def test_a_message_of_another_length_is_refused_and_stays(self):
        publisher, subscriber = self.pair()
        publisher.publish_array(numpy.arange(3, dtype="u8"))
        publisher.publish(b"other", tag=9)
        publisher.publish_array(numpy.arange(2, dtype="u8"))
        self.assertEqual(list(subscriber.receive_array("u8")), [0, 1, 2])
        for call in [
            lambda: subscriber.receive_array("u8"),
            lambda: subscriber.poll_into(numpy.zeros(4, "u8")),
        ]:
            wrong = self.assertRaisesRegex(olivine.WrongLength, "5 bytes, and a row .* has 8")
            with wrong as raised:
                call()
            self.assertEqual((raised.exception.length, raised.exception.expected), (5, 8))
        message = subscriber.receive()
        self.assertEqual((bytes(message), message.tag), (b"other", 9))
        del message
        self.assertEqual(list(subscriber.receive_array("u8")), [0, 1])

    def test_a_row_type_that_fits_gets_a_refused_message(self):
        publisher, subscriber = self.pair()
        publisher.publish(b"12345", tag=3)
        with self.assertRaises(olivine.WrongLength):
            subscriber.receive_array("u8")
        rows, details = subscriber.receive_array("S5", details=True)
        self.assertEqual((list(rows), list(details["tag"])), ([b"12345"], [3]))

    def test_arrays_that_cannot_be_filled_are_refused_and_nothing_is_taken(self):
        publisher, subscriber = self.pair()
        publisher.publish(bytes(8))
        fixed = numpy.zeros(4, "u8")
        fixed.flags.writeable = False

        class Pointer(ctypes.Structure):
            _fields_ = [("to", ctypes.POINTER(ctypes.c_int))]

        for error, text, target in [
            (BufferError, "read-only", fixed),
            (BufferError, "contiguous", numpy.zeros((4, 2), "u8")[:, :1]),
            (BufferError, "contiguous", numpy.zeros(8, "u8")[::2]),
            (TypeError, "objects", numpy.zeros(4, "O")),
            (TypeError, "objects", numpy.zeros(4, [("a", "O")])),
            (TypeError, "objects or addresses", (ctypes.py_object * 2)()),
            (TypeError, "addresses", (Pointer * 2)()),
            (TypeError, "no rows", bytearray(64)),
            (TypeError, "not an array", "text"),
            (TypeError, "not an array", None),
            (ValueError, "axis", numpy.zeros((), "u8")),
            (ValueError, "0 bytes", numpy.zeros(2, "V0")),
            (ValueError, "0 bytes", numpy.zeros((2, 0), "u8")),
        ]:
            with self.subTest(target=target), self.assertRaisesRegex(error, text):
                subscriber.poll_into(target)
        for error, text, dtype, limit in [
            (TypeError, "objects", "O", None),
            (ValueError, "0 bytes", "S0", None),
            (ValueError, "limit=0: give a whole number from 1", "u8", 0),
            (ValueError, "fewer", "u8", 2**62),
            ((MemoryError, ValueError), "", "u8", 2**59),
            (TypeError, "", "nonsense", None),
            (ValueError, "^limit=-1: give a whole number from 1 to", "u8", -1),
            (ValueError, "^limit=1180591620717411303424: give", "u8", 2**70),
            (TypeError, "^limit='1': give a whole number", "u8", "1"),
            (TypeError, "^dtype=None: give the type of a row", None, None),
        ]:
            with self.subTest(dtype=dtype, limit=limit), self.assertRaisesRegex(error, text):
                subscriber.receive_array(dtype, limit)
        for details in [numpy.zeros(3, olivine.DETAILS), numpy.zeros(4, "u4"), b"", 7]:
            with self.assertRaisesRegex((TypeError, ValueError), "details"):
                subscriber.poll_into(numpy.zeros(4, "u8"), details)
        self.assertEqual(subscriber.poll_into(numpy.zeros(0, "u8")), 0)
        self.assertEqual(len(subscriber.poll()), 1)

    def test_arrays_of_other_libraries_are_filled(self):
        publisher, subscriber = self.pair()
        publisher.publish_batch([(b"\x01\x00", 5), (b"\x02\x00", 6)])
        target = array.array("H", [0, 0, 9])
        details = numpy.zeros(3, olivine.DETAILS)
        self.assertEqual(subscriber.poll_into(target, details), 2)
        self.assertEqual((list(target), list(details["tag"])), ([1, 2, 9], [5, 6, 0]))
        publisher.publish_array(target)
        target = (ctypes.c_uint16 * 3)()
        self.assertEqual(subscriber.poll_into(target), 3)
        self.assertEqual(list(target), [1, 2, 9])
        view = memoryview(bytearray(6)).cast("H")
        publisher.publish_array(target)
        self.assertEqual((subscriber.poll_into(view), list(view)), (3, [1, 2, 9]))

    def test_a_view_of_the_last_message_refuses_arrays(self):
        publisher, subscriber = self.pair()
        publisher.publish_array(numpy.arange(2, dtype="u8"))
        view = memoryview(subscriber.receive())
        with self.assertRaises(BufferError):
            subscriber.receive_array("u8")
        del view
        self.assertEqual(list(subscriber.receive_array("u8")), [1])

    def test_rows_before_an_error_are_returned_and_the_error_follows(self):
        publisher, subscriber = self.pair()
        publisher.publish_array(numpy.arange(2, dtype="u8"))
        publisher.close_failed("on purpose")
        self.assertEqual(list(subscriber.receive_array("u8", timeout=WATCHDOG)), [0, 1])
        with self.assertRaisesRegex(olivine.ReceiveError, "on purpose"):
            subscriber.receive_array("u8", timeout=WATCHDOG)

    def test_the_end_of_the_stream_is_raised(self):
        publisher, subscriber = self.pair()
        publisher.close()
        with self.assertRaises(olivine.EndOfStream):
            subscriber.receive_array("u8")

    def test_a_killed_durable_subscriber_gets_all_rows_of_its_last_call_again(self):
        publisher, subscriber = self.pair(name="rows")
        subscriber.close()
        script = (
            "import os, signal, sys, numpy, olivine\n"
            "subscriber = olivine.Subscriber('shm://pair', dir=sys.argv[1], name='rows')\n"
            "print(eval(sys.argv[2]), flush=True)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        for call, count in {
            "len(subscriber.receive_array('u8', 5000))": 4,
            "len(subscriber.receive_array('u8', 4))": 4,
            "len(subscriber.receive_array('u8', 3))": 3,
            "len(subscriber.receive_array('u8', 1))": 1,
            "subscriber.poll_into(numpy.zeros(9, 'u8'))": 4,
            "len(subscriber.poll(9))": 4,
            "len(subscriber.poll(4))": 4,
            # The first call is dealt with once there is a second one.
            "[len(subscriber.receive_array('u8', 2)), subscriber.wait(0)]": [2, True],
            "[len(subscriber.receive_array('u8', 2)), subscriber.release()]": [2, None],
        }.items():
            with self.subTest(call):
                publisher.publish_array(numpy.arange(4, dtype="u8"))
                killed = subprocess.run(
                    [sys.executable, "-c", script, self.folder, call],
                    stdout=subprocess.PIPE,
                    text=True,
                    timeout=WATCHDOG,
                )
                self.assertEqual(killed.returncode, -signal.SIGKILL)
                self.assertEqual(killed.stdout, f"{count}\n")
                with Subscriber("shm://pair", dir=self.folder, name="rows") as again:
                    first = 2 if isinstance(count, list) else 0
                    self.assertEqual(again.durable, "resumed")
                    got = list(again.receive_array("u8", timeout=0))
                    self.assertEqual(got, [0, 1, 2, 3][first:])

    def test_rows_of_a_durable_subscriber_end_before_another_length(self):
        publisher, subscriber = self.pair(name="rows")
        publisher.publish_array(numpy.arange(3, dtype="u8"))
        publisher.publish(b"other")
        self.assertEqual(list(subscriber.receive_array("u8")), [0, 1, 2])
        for _ in range(2):
            with self.assertRaises(olivine.WrongLength) as raised:
                subscriber.receive_array("u8")
            self.assertEqual((raised.exception.length, raised.exception.expected), (5, 8))
        self.assertEqual(bytes(subscriber.receive()), b"other")

    def test_a_row_whose_handler_raised_comes_alone_and_is_held(self):
        publisher, subscriber = self.pair(name="rows")
        publisher.publish_array(numpy.arange(3, dtype="u8"))
        with self.assertRaises(ZeroDivisionError):
            subscriber.poll(9, lambda message: 1 / 0)
        self.assertEqual(list(subscriber.receive_array("u8")), [0])
        self.assertEqual(list(subscriber.receive_array("u8")), [1, 2])
        subscriber.drop()
        with Subscriber("shm://pair", dir=self.folder, name="rows") as again:
            self.assertEqual(list(again.receive_array("u8")), [1, 2])

    def test_ctrl_c_ends_the_wait_and_nothing_is_lost(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        publisher, subscriber = self.pair()
        main = threading.main_thread().ident
        timer = threading.Timer(0.01, signal.pthread_kill, [main, signal.SIGINT])
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            subscriber.receive_array("u8")
        timer.join()
        publisher.publish_array(numpy.arange(3, dtype="u8"))
        self.assertEqual(list(subscriber.receive_array("u8")), [0, 1, 2])

    def test_an_array_outlives_its_subscriber_and_the_loop_variable(self):
        publisher, subscriber = self.pair()
        publisher.publish_array(quotes(50))
        rows = subscriber.receive_array(QUOTE)
        subscriber.close()
        del subscriber
        gc.collect()
        numpy.testing.assert_array_equal(rows, quotes(50))

    def test_a_forked_child_is_refused(self):
        publisher, subscriber = self.pair()
        publisher.publish_array(numpy.arange(3, dtype="u8"))
        child = os.fork()
        if child == 0:
            refused = 0
            for call in [
                lambda: subscriber.receive_array("u8"),
                lambda: subscriber.poll_into(numpy.zeros(1, "u8")),
                lambda: publisher.publish_array(numpy.zeros(1, "u8")),
            ]:
                try:
                    call()
                except olivine.Forked:
                    refused += 1
            os._exit(refused)
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 3)
        self.assertEqual(list(subscriber.receive_array("u8")), [0, 1, 2])

    def test_a_million_rows_take_the_memory_of_their_array(self):
        program = (
            "import resource, sys, olivine, numpy\n"
            "subscriber = olivine.Subscriber(sys.argv[1])\n"
            "print(flush=True)\n"
            "subscriber.wait()\n"
            "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "rows, n = numpy.empty((1_000_000, 4)), 0\n"
            "while n < len(rows):\n"
            "    if not (got := subscriber.poll_into(rows[n:])): subscriber.wait()\n"
            "    n += got\n"
            "assert (rows[:, 1] == numpy.arange(len(rows))).all()\n"
            "del subscriber\n"
            "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)\n"
        )
        uri = f"shm://rows?dir={self.folder}&capacity=1MiB"
        command = [sys.executable, "-c", program, uri]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            self.assertEqual(child.stdout.readline(), "\n")
            rows = numpy.zeros((1_000_000, 4))
            rows[:, 1] = numpy.arange(len(rows))
            with Publisher(uri) as publisher:
                self.assertEqual(publisher.publish_array(rows), len(rows))
                grown = int(child.stdout.readline())
        self.assertEqual(child.returncode, 0)
        self.assertLessEqual(grown, 64)


@unittest.skipUnless(numpy, "no numpy")
class Publishing(Case):
    def test_a_tag_for_each_row(self):
        publisher, subscriber = self.pair()
        rows = numpy.arange(3, dtype="u8")
        publisher.publish_array(rows, numpy.array([5, 6, 7], "u4"), topic="a.b")
        got = [(message.tag, message.topic, bytes(message)[0]) for message in subscriber.poll()]
        self.assertEqual(got, [(5, "a.b", 0), (6, "a.b", 1), (7, "a.b", 2)])
        publisher.publish_array(rows, array.array("I", [1, 2, 3]))
        self.assertEqual([message.tag for message in subscriber.poll()], [1, 2, 3])

    def test_no_text_is_made_of_many_tags(self):
        texts = []

        class Loud(numpy.ndarray):
            def __repr__(self):
                # An error that it raises is not seen: a refusal has another text then.
                texts.append(type(self))
                return "a text"

        class Long(list):
            __repr__ = Loud.__repr__

        publisher, subscriber = self.pair()
        rows = numpy.arange(3, dtype="u8")
        publisher.publish_array(rows, numpy.array([5, 6, 7], "u4").view(Loud))
        for one in [numpy.array(8, "u4"), numpy.uint32(8), True]:
            publisher.publish_array(rows[:1], one)
        self.assertEqual([message.tag for message in subscriber.poll()], [5, 6, 7, 8, 8, 1])
        with self.assertRaisesRegex(TypeError, "^tag=.Long of length 1000.: give a whole number"):
            publisher.publish(b"x", Long(range(1000)))
        with self.assertRaisesRegex(TypeError, "^timeout=.str of length 1000.: give seconds"):
            publisher.publish_timeout(b"x", "x" * 1000)
        self.assertEqual(texts, [])

    def test_wrong_tags_and_arrays_publish_nothing_and_say_so(self):
        publisher, subscriber = self.pair()
        rows = numpy.arange(3, dtype="u8")
        for error, text, array_, tag in [
            (ValueError, "2 numbers for 3 rows", rows, numpy.zeros(2, "u4")),
            (TypeError, "32-bit unsigned", rows, numpy.zeros(3, "i4")),
            (TypeError, "32-bit unsigned", rows, numpy.zeros(3, "f4")),
            (TypeError, "32-bit unsigned", rows, numpy.zeros((3, 1), "u4")),
            (TypeError, "byte order", rows, numpy.array([1, 2, 3], ">u4")),
            (TypeError, "byte order", rows, (ctypes.c_uint32.__ctype_be__ * 3)(1, 2, 3)),
            (TypeError, "32-bit unsigned", rows, [1, 2, 3]),
            (ValueError, "^tag=-1: give a whole number from 0 to 4294967295", rows, -1),
            (TypeError, "^tag=1.5: give a whole number", rows, 1.5),
            (BufferError, "ascontiguousarray", numpy.arange(6, dtype="u8")[::2], 0),
            (TypeError, "no rows", b"bytes", 0),
            (TypeError, "objects", numpy.array([None]), 0),
        ]:
            with self.subTest(text=text, tag=tag), self.assertRaisesRegex(error, text) as raised:
                publisher.publish_array(array_, tag)
            self.assertEqual(raised.exception.published, 0)
        self.assertEqual(subscriber.poll(), [])

    def test_objects_and_addresses_are_sent_in_no_way(self):
        publisher, subscriber = self.pair()

        class Pointer(ctypes.Structure):
            _fields_ = [("to", ctypes.POINTER(ctypes.c_int))]

        objects = [
            numpy.array([None]),
            numpy.array(None),
            numpy.zeros(1, [("when", "M8[s]"), ("what", "O")]),
            (ctypes.py_object * 2)(),
            Pointer(),
            memoryview(numpy.array([None])),
        ]
        if hasattr(numpy, "dtypes") and hasattr(numpy.dtypes, "StringDType"):
            objects.append(numpy.array(["x" * 50], numpy.dtypes.StringDType()))
        for given in objects:
            for call in [
                lambda: publisher.publish(given),
                lambda: publisher.publish(given, 7, "topic"),
                lambda: publisher.try_publish(given),
                lambda: publisher.publish_timeout(given, 1),
                lambda: publisher.publish_batch([b"before", given]),
                lambda: publisher.try_publish_batch([(given, 1)]),
                lambda: publisher.publish_batch_timeout([(given, 1, "topic")], 1),
            ]:
                with self.subTest(given), self.assertRaisesRegex(TypeError, "objects or addresses"):
                    call()
        self.assertEqual(subscriber.poll(), [])

    def test_addresses_that_ctypes_hides_in_its_formats_are_sent_in_no_way(self):
        publisher, subscriber = self.pair(capacity="1MiB")

        class Either(ctypes.Union):
            _fields_ = [("number", ctypes.c_uint64), ("text", ctypes.c_char_p)]

        class Packed(ctypes.Structure):
            _pack_ = 1
            _layout_ = "ms"
            _fields_ = [("kind", ctypes.c_uint8), ("to", ctypes.c_void_p)]

        class Whole(ctypes.Structure):
            _fields_ = [("kind", ctypes.c_uint8), ("either", Either)]

        class Base(ctypes.Structure):
            _fields_ = [("to", ctypes.c_void_p)]

        class Derived(Base):
            _fields_ = [("number", ctypes.c_uint64)]

        class Named(ctypes.Structure):
            _fields_ = [("a:b", ctypes.c_uint64), ("to", ctypes.c_void_p)]

        class Plain(ctypes.Structure):
            _fields_ = [("a:O", ctypes.c_uint64), ("P", ctypes.c_uint64)]

        def calls(given):
            yield lambda: publisher.publish(given)
            yield lambda: publisher.publish(given, 7)
            yield lambda: publisher.try_publish(given)
            yield lambda: publisher.publish_timeout(given, 1)
            yield lambda: publisher.publish_batch([b"before", given])
            yield lambda: publisher.try_publish_batch([(given, 1)])
            yield lambda: publisher.publish_batch_timeout([(given, 1, "topic")], 1)
            yield lambda: publisher.publish_array(given)
            yield lambda: publisher.try_publish_array(given)
            yield lambda: publisher.publish_array_timeout(given, 1)
            yield lambda: subscriber.poll_into(given)

        for kind in [Either, Packed, Whole, Derived, Named, Either * 2, Packed * 2]:
            for given in [kind(), (kind * 2)(), memoryview((kind * 2)())]:
                for call in calls(given):
                    refused = self.assertRaisesRegex(TypeError, "objects or addresses")
                    with self.subTest(given), refused:
                        call()
        self.assertEqual(subscriber.poll(), [])
        # No name is an address.
        rows = (Plain * 2)((1, 2), (3, 4))
        self.assertEqual(publisher.publish_array(rows), 2)
        self.assertEqual(b"".join(map(bytes, subscriber.poll())), bytes(rows))

    def test_bytes_that_are_not_in_a_row_are_refused_alike_by_each_call(self):
        publisher, subscriber = self.pair()
        for given in [
            numpy.zeros((2, 2))[:, :1],
            numpy.zeros((2, 3), order="F"),
            numpy.zeros(4, "M8[s]")[::2],
            memoryview(b"abcd")[::2],
        ]:
            for call in [
                lambda: publisher.publish(given),
                lambda: publisher.try_publish(given),
                lambda: publisher.publish_timeout(given, 1),
                lambda: publisher.publish_batch([given]),
                lambda: publisher.publish_array(given),
            ]:
                with self.subTest(given), self.assertRaisesRegex(BufferError, "ascontiguousarray"):
                    call()
        self.assertEqual(subscriber.poll(), [])

    def test_arrays_of_all_other_kinds_are_sent_as_their_bytes(self):
        publisher, subscriber = self.pair()
        for given in [
            numpy.zeros(3, "M8[s]"),
            numpy.array(7, "u8"),
            numpy.zeros(2, [("a", "f4"), ("when", "M8[D]")]),
            numpy.zeros((2, 3), "f2"),
            array.array("d", [1, 2]),
            (ctypes.c_int * 2)(3, 4),
            Detail(5),
        ]:
            publisher.publish(given)
            sent = getattr(given, "tobytes", lambda given=given: bytes(given))()
            self.assertEqual(bytes(subscriber.receive()), sent)

    def test_rows_that_find_no_room_are_counted(self):
        publisher, subscriber = self.pair()
        rows = numpy.arange(1000, dtype="u8")
        sent = publisher.try_publish_array(rows)
        self.assertTrue(0 < sent < len(rows))
        self.assertEqual(publisher.publish_array_timeout(rows[sent:], 0.001), 0)
        numpy.testing.assert_array_equal(subscriber.receive_array("u8"), rows[:sent])
        subscriber.release()
        self.assertGreater(publisher.publish_array_timeout(rows[sent:], WATCHDOG / 1000), 0)

    def test_rows_that_do_not_fit_the_ring_are_refused(self):
        publisher, subscriber = self.pair()
        with self.assertRaises(olivine.TooLong) as raised:
            publisher.publish_array(numpy.zeros((2, 1 << 20)))
        self.assertEqual(raised.exception.published, 0)
        self.assertEqual(subscriber.poll(), [])

    def test_a_read_only_array_is_published(self):
        publisher, subscriber = self.pair()
        rows = numpy.frombuffer(bytes(range(16)), "u8")
        self.assertEqual(publisher.publish_array(rows), 2)
        numpy.testing.assert_array_equal(subscriber.receive_array("u8"), rows)


@unittest.skipUnless(numpy and hasattr(numpy, "from_dlpack"), "no numpy with DLPack")
class Tensors(Case):
    def test_a_tensor_of_a_message_is_a_view_that_holds_the_subscriber(self):
        publisher, subscriber = self.pair()
        publisher.publish_batch([b"first", b"second"])
        message = subscriber.receive()
        self.assertEqual(message.__dlpack_device__(), (1, 0))
        tensor = numpy.from_dlpack(message)
        self.assertEqual(bytes(tensor), b"first")
        self.assertEqual(tensor.ctypes.data, numpy.frombuffer(message, "u1").ctypes.data)
        self.assertFalse(tensor.flags.writeable)
        with self.assertRaises(BufferError):
            subscriber.receive()
        del tensor
        gc.collect()
        self.assertEqual(bytes(numpy.from_dlpack(subscriber.receive())), b"second")

    def test_a_library_that_knows_no_read_only_tensors_gets_a_copy_or_nothing(self):
        publisher, subscriber = self.pair()
        publisher.publish(b"bytes")
        message = subscriber.receive()
        with self.assertRaisesRegex(BufferError, "read-only"):
            message.__dlpack__()
        # A copy does not hold the subscriber.
        copy = message.__dlpack__(copy=True)
        del message
        publisher.publish(b"next")
        self.assertEqual(bytes(subscriber.receive()), b"next")
        del copy

    def test_requests_that_cannot_be_met_are_refused(self):
        publisher, subscriber = self.pair()
        publisher.publish(b"bytes")
        message = subscriber.receive()
        with self.assertRaisesRegex(ValueError, "stream"):
            message.__dlpack__(stream=1)
        with self.assertRaisesRegex(BufferError, "device"):
            message.__dlpack__(max_version=(1, 0), dl_device=(2, 0))
        # What no library has taken is freed, and so is a copy.
        capsules = [
            message.__dlpack__(max_version=(1, 0)),
            message.__dlpack__(copy=True),
            message.__dlpack__(max_version=(1, 0), copy=True),
        ]
        names = [repr(capsule).split('"')[1] for capsule in capsules]
        self.assertEqual(names, ["dltensor_versioned", "dltensor", "dltensor_versioned"])
        del capsules
        subscriber.release()
        with self.assertRaisesRegex(ValueError, "gone"):
            message.__dlpack__(max_version=(1, 0))

    def test_a_tensor_of_a_copy_lives_on(self):
        publisher, subscriber = self.pair()
        for message in [b"", b"small", bytes(100)]:
            publisher.publish(message)
            tensor = numpy.from_dlpack(next(subscriber))
            gc.collect()
            self.assertEqual(bytes(tensor), message)

    def test_a_claim_is_filled_through_a_tensor(self):
        publisher, subscriber = self.pair()
        claim = publisher.claim(4)
        capsule = claim.__dlpack__()
        self.assertEqual(claim.__dlpack_device__(), (1, 0))
        with self.assertRaises(BufferError):
            claim.commit()
        del capsule
        tensor = numpy.frombuffer(claim, "u1")
        tensor[:] = [1, 2, 3, 4]
        del tensor
        claim.commit()
        self.assertEqual(bytes(subscriber.receive()), b"\x01\x02\x03\x04")


if __name__ == "__main__":
    unittest.main()
