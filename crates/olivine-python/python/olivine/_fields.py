"""The fields of a dtype of numpy or a structure of ctypes, as text for a channel."""

import ctypes
import math
import re
import sys

# Structures in an array are stated one by one up to this many.
_ELEMENTS_MAX = 64


def stated(kind):
    """Size, alignment and fields of a stated type. The path of a field that is an object or an
    address, if there is one.
    """
    if isinstance(kind, type) and _is_of_ctypes(kind):
        return address(kind) or (ctypes.sizeof(kind), ctypes.alignment(kind), text(kind))
    dtype = _dtype(kind)
    return address(dtype) or (dtype.itemsize, dtype.alignment, text(dtype))


def _dtype(kind):
    try:
        import numpy
    except ImportError as error:
        problem = (
            f"type: {kind!r} is not a structure or number of ctypes, and all else needs numpy: "
            "pip install numpy"
        )
        raise ImportError(problem) from error
    # numpy takes None for f8 and most classes for objects.
    is_scalar = isinstance(kind, type) and issubclass(kind, numpy.generic)
    if kind is None or _is_of_ctypes(kind) or isinstance(kind, type) and not is_scalar:
        raise TypeError(
            f"type: {kind!r} has no layout in memory: give a dtype of numpy, such as 'f8', or a "
            "structure or number of ctypes"
        )
    try:
        return numpy.dtype(kind)
    except (TypeError, ValueError) as error:
        problem = f"type: {kind!r} is not a dtype of numpy or a type of ctypes: {error}"
        raise TypeError(problem) from error


def _is_of_ctypes(kind):
    try:
        ctypes.sizeof(kind)
    except TypeError:
        return False
    return True


def address(kind, name=""):
    """The path of the first field of `kind` that is an address or a Python object: `order.price`.

    `value` in what is not a structure. None where there is none.
    """
    if not isinstance(kind, type):  # A dtype of numpy is an object.
        base, parts = kind.base, []
        if base.names is not None:
            parts = [(part, base.fields[part][0]) for part in base.names]
        is_address = base.hasobject and not parts
    elif issubclass(kind, ctypes.Array):
        return address(kind._type_, name)
    elif issubclass(kind, (ctypes.Structure, ctypes.Union)):
        bases = reversed(kind.__mro__)
        parts = [field[:2] for base in bases for field in base.__dict__.get("_fields_", ())]
        is_address = False
    else:
        code, parts = getattr(kind, "_type_", None), []
        # All others are pointers and functions.
        is_address = not isinstance(code, str) or code in "OPXZz"
    if is_address:
        return name or "value"
    found = (address(part, f"{name}.{own}" if name else own) for own, part in parts)
    return next(filter(None, found), None)


def text(kind):
    """The fields of `kind`: `bid f64, ask f64`. Empty if it has none, or some overlap.

    What is not a structure is one field, `value`. What has no word is stated as bytes.
    """
    is_of_ctypes = isinstance(kind, type)  # A dtype of numpy is an object.
    if is_of_ctypes:
        walk, is_structure = _of_ctypes, issubclass(kind, ctypes.Structure)
    else:
        walk, is_structure = _of_numpy, kind.names is not None
    fields = sorted(walk(kind, "" if is_structure else "value", 0), key=lambda field: field[2])
    plain = all(name.isprintable() and not set(name) & set(' ,@[]"\\') for name, *_ in fields)
    ends = [offset + size for _, _, offset, size in fields]
    if not plain or any(field[2] < end for field, end in zip(fields[1:], ends)):
        return ""
    return ", ".join(f"{name} {word} @{offset}" for name, word, offset, _ in fields)


def rows(given):
    """The fields of a row of an array, or of a dtype of rows, in each form that they may have.

    Empty for rows of bytes, and for views with a format of several letters whose object does not
    say its fields. They are not compared.
    """
    # An array of records has its fields as attributes: they say nothing about its class.
    numpy = sys.modules.get("numpy")
    dtype = given if numpy and isinstance(given, numpy.dtype) else None
    if dtype is None and hasattr(given, "dtype"):
        if not numpy or not isinstance(given.dtype, numpy.dtype):
            return []
        dtype = numpy.dtype((given.dtype, tuple(given.shape)[1:]))
    if dtype is not None:
        base = dtype.base
        is_bytes = base.kind in "SV" and base.names is None or base.str == "|u1"
        return [] if is_bytes else _forms(text(dtype))
    if isinstance(given, ctypes.Array):
        part = given._type_
        base = part
        while issubclass(base, ctypes.Array):
            base = base._type_
        is_bytes = base in (ctypes.c_char, ctypes.c_uint8)
        return [] if is_bytes else _forms(text(part))
    view = _view(given)
    if view is None:
        return []
    shown = view.obj
    whole = None if shown is None or shown is given else _view(shown)
    if whole is not None and _elements(whole) == _elements(view):
        # Its elements are those of the object that it shows, which says more than a format.
        return rows(shown)
    order, letter = view.format[:-1], view.format[-1:]
    letters = {**dict.fromkeys("bhilqn", "i"), **dict.fromkeys("HILQN", "u"), "f": "f", "d": "f"}
    letter = {**letters, "?": "b"}.get(letter)
    word = letter and order in _ORDERS and _number(letter, view.itemsize)
    if not word:
        return []
    count = None if view.ndim == 1 else math.prod(view.shape[1:])
    if _ORDERS[order] != sys.byteorder and view.itemsize > 1:
        # A number of the other byte order has no word.
        word, count = "u8", view.itemsize * (count or 1)
    _, kind, *_ = _leaf("value", word, count, 0, view.itemsize)
    return _forms(f"value {kind} @0")


# What stands before the letter of a number in a format, as the byte order that it says.
_ORDERS = dict.fromkeys(["", "@", "="], sys.byteorder) | {"<": "little", ">": "big", "!": "big"}


def _view(given):
    """A view of an object; None where it shows none with a format."""
    try:
        return memoryview(given)
    except (BufferError, TypeError, ValueError):
        return None


def _elements(view):
    """What the elements of a view of an array are, and how many are in a row."""
    return view.format, view.itemsize, view.shape[1:]


def _forms(fields):
    """A single value with and without its count: `value f64[1]`, `value f64`."""
    single = re.fullmatch(r"value (\w+)(?:\[1\])? @0", fields)
    return [f"value {single[1]} @0", f"value {single[1]}[1] @0"] if single else [fields]


def _number(code, size):
    """The word of a number: the letter of numpy for its kind, and its bytes."""
    if code == "b":
        return "bool"
    letter = {"i": "i", "u": "u", "f": "f", "m": "i", "M": "i"}.get(code)
    sizes = (4, 8) if letter == "f" else (1, 2, 4, 8)
    return f"{letter}{size * 8}" if letter and size in sizes else None


def _leaf(name, word, count, offset, size):
    return (name, word if count is None else f"{word}[{count}]", offset, size)


def _of_numpy(kind, name, offset):
    count = None
    if kind.subdtype is not None:
        (base, shape), count = kind.subdtype, 1
        for length in shape:
            count *= length
    else:
        base = kind
    size = kind.itemsize
    if base.names is not None:
        if count is None:
            for inner in base.names:
                part, at = base.fields[inner][:2]
                yield from _of_numpy(part, f"{name}.{inner}" if name else inner, offset + at)
            return
        if count <= _ELEMENTS_MAX:
            for index in range(count):
                yield from _of_numpy(base, f"{name}.{index}", offset + index * base.itemsize)
            return
    elif not name or not size:
        return
    elif base.isnative:
        word = _number(base.kind, base.itemsize)
        if base.kind == "S" and count is None:
            word, count = "text", size
        elif base.kind == "c" and base.itemsize in (8, 16):
            word, count = f"f{base.itemsize * 4}", 2 * (count or 1)
        elif base.kind == "U":
            word, count = "u32", size // 4
        if word:
            yield _leaf(name, word, count, offset, size)
            return
    yield _leaf(name, "u8", size, offset, size)


def _of_ctypes(kind, name, offset):
    size = ctypes.sizeof(kind)
    if issubclass(kind, ctypes.Structure):
        for parent in reversed(kind.__mro__):
            for inner, part, *bits in parent.__dict__.get("_fields_", ()):
                if not bits:
                    at = offset + getattr(kind, inner).offset
                    yield from _of_ctypes(part, f"{name}.{inner}" if name else inner, at)
        return
    if not name or not size:
        return
    if issubclass(kind, ctypes.Array):
        part, count = kind._type_, kind._length_
        if part is ctypes.c_char:
            yield _leaf(name, "text", count, offset, size)
            return
        # As numpy: all axes of an array are one, and texts in it are bytes.
        while issubclass(part, ctypes.Array) and part._type_ is not ctypes.c_char:
            part, count = part._type_, count * part._length_
        if issubclass(part, ctypes.Structure) and count <= _ELEMENTS_MAX:
            for index in range(count):
                at = offset + index * ctypes.sizeof(part)
                yield from _of_ctypes(part, f"{name}.{index}", at)
            return
    else:
        part, count = kind, None
    code = getattr(part, "_type_", None)
    if part is ctypes.c_wchar:
        yield _leaf(name, f"u{ctypes.sizeof(part) * 8}", count or 1, offset, size)
        return
    letters = {**dict.fromkeys("bhilq", "i"), **dict.fromkeys("BHILQ", "u"), "f": "f", "d": "f"}
    # A number of the other byte order has no word.
    if isinstance(code, str) and getattr(part, "__ctype_le__", part) is part:
        letter = "b" if code == "?" else letters.get(code)
        word = letter and _number(letter, ctypes.sizeof(part))
        if word:
            yield _leaf(name, word, count, offset, size)
            return
    yield _leaf(name, "u8", size, offset, size)
