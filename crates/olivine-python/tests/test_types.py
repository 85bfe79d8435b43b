"""Types of messages, stated as other languages state them."""

import array
import ctypes
import subprocess
import sys
import unittest
from unittest import mock

import olivine
from case import WATCHDOG, Case
from olivine import Publisher, Subscriber, _fields

try:
    import numpy
except ImportError:
    numpy = None


class Quote(ctypes.Structure):
    _fields_ = [("bid", ctypes.c_double), ("ask", ctypes.c_double), ("sequence", ctypes.c_uint32)]


class Types(Case):
    def typed(self, kind, name="quote v1"):
        subscriber = Subscriber("shm://typed", dir=self.folder, type=(name, kind))
        publisher = Publisher("shm://typed", dir=self.folder, type=(name, kind))
        self.addCleanup(publisher.close)
        self.addCleanup(subscriber.close)
        return publisher, subscriber

    def test_values_of_a_structure_arrive_and_no_other_lengths_are_sent(self):
        publisher, subscriber = self.typed(Quote)
        publisher.publish(bytes(Quote(1.5, 2.5, 7)))
        self.assertEqual(Quote.from_buffer_copy(bytes(subscriber.receive())).sequence, 7)
        for call in [
            lambda: publisher.publish(b"other"),
            lambda: publisher.try_publish(b"other"),
            lambda: publisher.publish_timeout(b"other", 1),
            lambda: publisher.claim(8),
            lambda: publisher.try_claim(8),
            lambda: publisher.claim_timeout(8, 1),
        ]:
            with self.assertRaisesRegex(ValueError, "values of the channel's type have 24"):
                call()
        with self.assertRaises(ValueError) as raised:
            publisher.publish_batch([bytes(24), b"other"])
        self.assertEqual(raised.exception.published, 0)
        self.assertIsNone(subscriber.try_receive())
        # Nothing but the length of bytes is compared.
        self.assertEqual(publisher.publish_batch([bytes(24), (ctypes.c_int * 6)()]), 2)

    def test_another_type_and_a_publisher_of_bytes_are_refused(self):
        self.typed(Quote)
        for stated in [("quote v2", Quote), ("quote v1", ctypes.c_double), None]:
            with self.assertRaisesRegex(olivine.OpenError, "carries 'quote v1"):
                Publisher("shm://typed", dir=self.folder, type=stated)
        # Bytes of every type can be read.
        Subscriber("shm://typed", dir=self.folder).close()

    def test_another_field_is_refused_by_its_name(self):
        class Other(ctypes.Structure):
            _fields_ = [
                ("bid", ctypes.c_double),
                ("offer", ctypes.c_double),
                ("sequence", ctypes.c_uint32),
            ]

        self.typed(Quote)
        with self.assertRaisesRegex(
            olivine.OpenError, r"\(ask f64 at byte 8\)', .* 'quote v1 \(offer f64 at byte 8\)'"
        ):
            Publisher("shm://typed", dir=self.folder, type=("quote v1", Other))

    def test_fields_of_ctypes_are_stated(self):
        class Part(ctypes.Structure):
            _fields_ = [("x", ctypes.c_float), ("y", ctypes.c_int8 * 3)]

        class Swapped(ctypes.BigEndianStructure):
            _fields_ = [("n", ctypes.c_uint32)]

        class Either(ctypes.Union):
            _fields_ = [("n", ctypes.c_uint32), ("m", ctypes.c_uint16)]

        class Whole(Part):
            _fields_ = [
                ("parts", Part * 2),
                ("swapped", Swapped),
                ("name", ctypes.c_char * 6),
                ("on", ctypes.c_bool),
                ("either", Either),
                ("bits", ctypes.c_int, 3),
                ("levels", ctypes.c_double * 2),
            ]

        self.assertEqual(
            _fields.text(Whole),
            "x f32 @0, y i8[3] @4, parts.0.x f32 @8, parts.0.y i8[3] @12, parts.1.x f32 @16, "
            "parts.1.y i8[3] @20, swapped.n u8[4] @24, name text[6] @28, on bool @34, "
            "either u8[4] @36, levels f64[2] @48",
        )
        self.assertEqual(_fields.text(ctypes.c_double), "value f64 @0")
        self.assertEqual(_fields.text(ctypes.c_char * 6), "value text[6] @0")
        self.assertEqual(_fields.text(Either), "value u8[4] @0")
        self.assertEqual(_fields.text(Swapped * 2), "value.0.n u8[4] @0, value.1.n u8[4] @4")

    @unittest.skipUnless(numpy, "no numpy")
    def test_an_array_of_ctypes_is_stated_as_that_of_numpy(self):
        class Part(ctypes.Structure):
            _fields_ = [("x", ctypes.c_float), ("names", (ctypes.c_wchar * 3) * 2)]

        part = numpy.dtype([("x", "f4"), ("names", "U3", 2)])
        for kind, same in [
            ((ctypes.c_double * 3) * 2, ("f8", (2, 3))),
            (((ctypes.c_uint8 * 4) * 3) * 2, ("u1", (2, 3, 4))),
            (ctypes.c_wchar, "U1"),
            (ctypes.c_wchar * 3, "U3"),
            ((ctypes.c_wchar * 3) * 2, ("U3", 2)),
            ((ctypes.c_char * 3) * 2, ("S3", 2)),
            (((ctypes.c_char * 3) * 2) * 2, ("S3", (2, 2))),
            (Part, part),
            ((Part * 2) * 2, (part, (2, 2))),
        ]:
            with self.subTest(kind):
                self.assertEqual(_fields.text(kind), _fields.text(numpy.dtype(same)))
                self.assertNotEqual(_fields.text(kind), "")
        publisher, subscriber = self.typed(("f8", (2, 3)))
        self.assertEqual(publisher.publish_array((((ctypes.c_double * 3) * 2) * 4)()), 4)
        self.assertEqual(subscriber.poll_into((((ctypes.c_double * 3) * 2) * 4)()), 4)

    @unittest.skipUnless(numpy, "no numpy")
    def test_fields_of_a_dtype_are_stated(self):
        kind = numpy.dtype(
            [
                ("bid", "f8"),
                ("name", "S6"),
                ("pair", "c16"),
                ("when", "M8[ns]"),
                ("parts", [("a", "i2"), ("b", "u1", (2, 3))], (2,)),
                ("swapped", ">i4"),
                ("half", "f2"),
                ("word", "U3"),
                ("on", "?"),
            ],
            align=True,
        )
        self.assertEqual(
            _fields.text(kind),
            "bid f64 @0, name text[6] @8, pair f64[2] @16, when i64 @32, parts.0.a i16 @40, "
            "parts.0.b u8[6] @42, parts.1.a i16 @48, parts.1.b u8[6] @50, swapped u8[4] @56, "
            "half u8[2] @60, word u32[3] @64, on bool @76",
        )
        overlap = {"names": ["a", "b"], "formats": ["u4", "u2"], "offsets": [0, 2]}
        for none in [overlap, [("a b", "u4")], "V0"]:
            self.assertEqual(_fields.text(numpy.dtype(none)), "")
        for plain, fields in [
            ("f8", "value f64 @0"),
            (("i4", (2, 3)), "value i32[6] @0"),
            ("S6", "value text[6] @0"),
            (">f8", "value u8[8] @0"),
            (([("x", "f4")], 2), "value.0.x f32 @0, value.1.x f32 @4"),
        ]:
            self.assertEqual(_fields.text(numpy.dtype(plain)), fields)

    @unittest.skipUnless(numpy, "no numpy")
    def test_plain_numbers_and_arrays_of_another_kind_are_refused(self):
        class Structure(ctypes.Structure):
            _fields_ = [("value", ctypes.c_double)]

        self.typed("f8", "number v1")
        # Other languages state a structure with one field.
        for same in [ctypes.c_double, Structure, numpy.float64]:
            Publisher("shm://typed", dir=self.folder, type=("number v1", same)).close()
        refused = r"\(value f64 at byte 0\)', .* 'number v1 \(value "
        for kind, word in [("i8", "i64 "), (ctypes.c_uint64, "u64 "), (("f4", 2), "f32.2. ")]:
            with self.subTest(kind), self.assertRaisesRegex(olivine.OpenError, refused + word):
                Publisher("shm://typed", dir=self.folder, type=("number v1", kind))

    def test_bad_types_are_refused_in_words(self):
        for stated, error, words in [
            ("quote v1", TypeError, "is not .name, kind."),
            (("", Quote), ValueError, "0 bytes"),
            (("q" * 65, Quote), ValueError, "65 bytes"),
            (("q", ctypes.c_longdouble), ValueError, "1, 2, 4 or 8"),
        ]:
            with self.assertRaisesRegex(error, words):
                Publisher("inproc://refused", type=stated)

    def test_addresses_are_refused_as_a_type(self):
        class Node(ctypes.Structure):
            pass

        class Either(ctypes.Union):
            _fields_ = [("number", ctypes.c_uint64), ("text", ctypes.c_char_p)]

        class Whole(ctypes.Structure):
            _fields_ = [("either", Either * 2)]

        Node._fields_ = [("next", ctypes.POINTER(Node))]
        function = ctypes.CFUNCTYPE(None)
        class Outer(ctypes.Structure):
            _fields_ = [("id", ctypes.c_int), ("whole", Whole)]

        for kind, field in [
            (Node, "next"),
            (Either, "text"),
            (Whole, "either.text"),
            (Outer, "whole.either.text"),
            (Outer * 2, "whole.either.text"),
            (ctypes.py_object, None),
            (ctypes.c_void_p * 2, None),
            (function, None),
        ]:
            said = f"process: field '{field}' is one; use" if field else "process: use"
            with self.subTest(kind), self.assertRaisesRegex(TypeError, said):
                Publisher("inproc://refused", type=("q", kind))
            with self.subTest(kind), self.assertRaisesRegex(TypeError, said):
                Publisher("inproc://arrays").publish_array((kind * 2)())

    @unittest.skipUnless(numpy, "no numpy")
    def test_classes_and_objects_of_python_are_refused_as_a_type(self):
        class Plain:
            pass

        for kind in [int, float, bool, str, dict, object, Plain, None, ctypes.Structure, Quote()]:
            with self.subTest(kind), self.assertRaisesRegex(TypeError, "no layout in memory"):
                Publisher("inproc://refused", type=("q", kind))
        for kind, field in [
            ("O", None),
            (numpy.object_, None),
            ([("a", "f8"), ("b", "O")], "b"),
            ([("a", "f8"), ("b", [("c", "O"), ("d", "O")], 2)], "b.c"),
            (("O", 2), None),
        ]:
            said = f"process: field '{field}' is one; use" if field else "process: use"
            with self.subTest(kind), self.assertRaisesRegex(TypeError, said):
                Publisher("inproc://refused", type=("q", kind))
            with self.subTest(kind), self.assertRaisesRegex(TypeError, said):
                Subscriber("inproc://arrays").receive_array(kind)
            with self.subTest(kind), self.assertRaisesRegex(TypeError, said):
                Publisher("inproc://arrays").publish_array(numpy.zeros(2, dtype=kind))
        for kind in ["nonsense", 7]:
            with self.subTest(kind), self.assertRaisesRegex(TypeError, "not a dtype of numpy"):
                Publisher("inproc://refused", type=("q", kind))
        with Publisher("inproc://taken", type=("q", numpy.float64)) as publisher:
            publisher.publish(bytes(8))

    @unittest.skipUnless(numpy, "no numpy")
    def test_rows_with_another_field_are_refused_by_its_name(self):
        publisher, subscriber = self.typed(Quote)
        same = numpy.dtype([("bid", "f8"), ("ask", "f8"), ("sequence", "u4")], align=True)
        other = numpy.dtype([("bid", "f8"), ("offer", "f8"), ("sequence", "u4")], align=True)
        swapped = numpy.dtype([("bid", "f8"), ("ask", ">f8"), ("sequence", "u4")], align=True)
        wide = numpy.dtype([("bid", "f8"), ("ask", "f8"), ("sequence", "u8")])

        class Order(ctypes.Structure):
            _fields_ = [("price", ctypes.c_double), ("size", ctypes.c_uint64 * 2)]

        def calls(rows):
            yield lambda: publisher.publish_array(rows)
            yield lambda: publisher.try_publish_array(rows)
            yield lambda: publisher.publish_array_timeout(rows, 1)
            yield lambda: subscriber.poll_into(rows)
            if hasattr(rows, "dtype"):
                dtype = (rows.dtype, rows.shape[1:])
                yield lambda: subscriber.receive_array(dtype, timeout=0)

        for rows, theirs in [
            (numpy.zeros(2, other), "offer f64 at byte 8"),
            (numpy.zeros(2, swapped), "ask u8.8. at byte 8"),
            (numpy.zeros(2, wide), "sequence u64 at byte 16"),
            (numpy.zeros((2, 3), "i8"), "value i64.3. at byte 0"),
            (numpy.zeros((2, 3), "M8[s]"), "value i64.3. at byte 0"),
            ((Order * 2)(), "price f64 at byte 0"),
            (memoryview(bytearray(48)).cast("d", [2, 3]), "value f64.3. at byte 0"),
        ]:
            # Also after a dtype that fits.
            publisher.publish_array(numpy.zeros(1, same))
            for call in calls(rows):
                refused = f"carries 'quote v1 .*, and a row of the array .*{theirs}"
                with self.subTest(theirs), self.assertRaisesRegex(TypeError, refused) as raised:
                    call()
        with self.assertRaises(TypeError) as raised:
            publisher.publish_array(numpy.zeros(2, other))
        self.assertEqual(raised.exception.published, 0)
        for rows in [numpy.zeros(2, same)[:0], numpy.zeros(2, "S24"), numpy.zeros(2, "V24"),
                     numpy.zeros((2, 24), "u1"), (Quote * 2)(),
                     memoryview(bytearray(48)).cast("B", [2, 24])]:
            self.assertEqual(publisher.publish_array(rows), len(rows))
            self.assertEqual(subscriber.poll_into(rows), len(rows))
        for call in calls(numpy.zeros((2, 2))):
            with self.assertRaisesRegex(ValueError, "^a row of the array has 16 bytes, .* have 24"):
                call()

    @unittest.skipUnless(numpy, "no numpy")
    def test_records_with_fields_of_any_name_are_compared(self):
        kind = [("kind", "f8"), ("dtype", "f8"), ("itemsize", "f8"), ("shape", "f8")]
        publisher, subscriber = self.typed(kind)
        rows = numpy.zeros(2, kind).view(numpy.recarray)
        self.assertEqual(publisher.publish_array(rows), 2)
        self.assertEqual(subscriber.poll_into(rows), 2)
        other = numpy.zeros(2, [("kind", "f8"), *[(name, "i8") for name, _ in kind[1:]]])
        with self.assertRaisesRegex(TypeError, "dtype i64 at byte 8"):
            publisher.publish_array(other.view(numpy.recarray))

    @unittest.skipUnless(numpy, "no numpy")
    def test_rows_of_plain_numbers_are_compared(self):
        publisher, subscriber = self.typed("f8", "number v1")
        for rows in [numpy.zeros(2), numpy.zeros((2, 1)), (ctypes.c_double * 2)(),
                     array.array("d", [1, 2]), memoryview(array.array("d", [1, 2]))]:
            self.assertEqual(publisher.publish_array(rows), 2)
            self.assertEqual(subscriber.poll_into(rows), 2)
        for rows in [numpy.zeros(2, "i8"), (ctypes.c_uint64 * 2)(), array.array("q", [1, 2]),
                     numpy.zeros((2, 2), "f4"), numpy.zeros(2, ">f8")]:
            with self.subTest(rows), self.assertRaisesRegex(TypeError, "value f64 at byte 0"):
                publisher.publish_array(rows)

    @unittest.skipUnless(numpy, "no numpy")
    def test_rows_behind_a_memoryview_are_compared(self):
        class Order(ctypes.Structure):
            _fields_ = [("price", ctypes.c_double), ("size", ctypes.c_uint64 * 2)]

        kind = numpy.dtype([("bid", "f8"), ("ask", "f8"), ("sequence", "u4")], align=True)
        other = numpy.dtype([("bid", "f8"), ("offer", "f8"), ("sequence", "u4")], align=True)
        publisher, subscriber = self.typed(Quote)
        for same in [numpy.zeros(3, kind), (Quote * 3)(), numpy.zeros((3, 24), "u1")]:
            for rows in [memoryview(same), memoryview(same)[1:], memoryview(memoryview(same))]:
                self.assertEqual(publisher.publish_array(rows), len(rows))
                self.assertEqual(subscriber.poll_into(rows), len(rows))
        # A cast says that the rows are bytes.
        rows = memoryview((Order * 2)()).cast("B").cast("B", [2, 24])
        self.assertEqual(publisher.publish_array(rows), 2)
        self.assertEqual(subscriber.poll_into(rows), 2)
        for given, theirs in [
            (numpy.zeros(3, other), "offer f64 at byte 8"),
            ((Order * 3)(), "price f64 at byte 0"),
            (((ctypes.c_int * 6) * 3)(), "value i32.6. at byte 0"),
            (numpy.zeros((3, 3), ">f8"), "value u8.24. at byte 0"),
            (numpy.zeros((3, 6), "f4"), "value f32.6. at byte 0"),
        ]:
            for rows in [memoryview(given), memoryview(given)[1:]]:
                for call in [publisher.publish_array, subscriber.poll_into]:
                    with self.subTest(theirs), self.assertRaisesRegex(TypeError, theirs):
                        call(rows)

    def test_formats_of_one_number_are_compared(self):
        class Shown:
            """What shows a format without a class that says the fields."""

            def __init__(self, format, itemsize, shape=(2,)):
                self.format, self.itemsize, self.shape = format, itemsize, shape
                self.ndim, self.obj = len(shape), None

        def view(given):
            if isinstance(given, Shown):
                return given
            raise TypeError("no bytes")

        for given, fields in [
            (Shown("<i", 4), "value i32 @0"),
            (Shown("=l", 4), "value i32 @0"),
            (Shown("@d", 8), "value f64 @0"),
            (Shown(">d", 8), "value u8[8] @0"),
            (Shown("!H", 2, (2, 3)), "value u8[6] @0"),
            (Shown("<d", 8, (2, 3)), "value f64[3] @0"),
            (Shown(">b", 1), "value i8 @0"),
            (Shown("<B", 1), None),
            (Shown("T{<d:a:}", 8), None),
            (b"bytes", None),
        ]:
            with self.subTest(fields), mock.patch.object(_fields, "memoryview", view, create=True):
                forms = _fields.rows(given)
                self.assertEqual(forms[0] if forms else None, fields)

    def test_rows_of_one_kind_are_compared_once(self):
        class Other(ctypes.Structure):
            _fields_ = [("bid", ctypes.c_double), ("offer", ctypes.c_double), ("n", ctypes.c_long)]

        publisher, _ = self.typed(Quote)
        with mock.patch.object(_fields, "rows", wraps=_fields.rows) as compared:
            for count in range(1, 4):
                publisher.publish_array((Quote * count)())
            self.assertEqual(compared.call_count, 1)
            with self.assertRaisesRegex(TypeError, "offer f64 at byte 8"):
                publisher.publish_array((Other * 2)())
        with Publisher("shm://numbers", dir=self.folder, type=("number v1", ctypes.c_double)) as to:
            with mock.patch.object(_fields, "rows", wraps=_fields.rows) as compared:
                for count in range(1, 4):
                    to.publish_array(array.array("d", [1] * count))
                self.assertEqual(compared.call_count, 1)
                for other in [array.array("q", [1]), memoryview(array.array("q", [1]))]:
                    with self.assertRaisesRegex(TypeError, "value i64 at byte 0"):
                        to.publish_array(other)

    @unittest.skipUnless(numpy, "no numpy")
    def test_what_a_dtype_holds_may_publish_when_it_is_collected(self):
        program = (
            "import sys, numpy, olivine\n"
            "class Last:\n"
            "    def __del__(self):\n"
            "        print(publisher.publish_array(numpy.zeros(1)))\n"
            "publisher = olivine.Publisher(sys.argv[1], type=('number v1', 'f8'))\n"
            "kind = numpy.dtype('f8', metadata={'last': Last()})\n"
            "publisher.publish_array(numpy.zeros(1, kind))\n"
            "del kind\n"
            "publisher.publish_array(numpy.zeros((1, 1)))\n"
            "publisher.close()\n"
        )
        command = [sys.executable, "-c", program, f"shm://last?dir={self.folder}"]
        # It waits for itself without end where it is wrong.
        ran = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=WATCHDOG)
        self.assertEqual((ran.returncode, ran.stdout), (0, "1\n"))

    @unittest.skipUnless(numpy, "no numpy")
    def test_a_dtype_and_a_structure_of_the_same_layout_are_one_type(self):
        publisher, subscriber = self.typed(Quote)
        kind = numpy.dtype([("bid", "f8"), ("ask", "f8"), ("sequence", "u4")], align=True)
        rows = numpy.zeros(3, kind)
        with Publisher("shm://typed", dir=self.folder, type=("quote v1", kind)) as other:
            self.assertEqual(other.publish_array(rows), 3)
            with self.assertRaises(ValueError) as raised:
                other.publish_array(numpy.zeros(3))
            self.assertEqual(raised.exception.published, 0)
        self.assertEqual(len(subscriber.receive_array(kind)), 3)
        publisher.publish(rows[0].tobytes())


if __name__ == "__main__":
    unittest.main()
