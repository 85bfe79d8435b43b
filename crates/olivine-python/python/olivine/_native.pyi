"""The native part. Lengths are bytes.

Time-outs are seconds from 0. None and infinity wait for as long as it takes. ValueError refuses a
negative number and NaN.
"""

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, Literal, NoReturn, final, overload

import numpy
import numpy.typing

if sys.version_info >= (3, 11):
    from typing import Self
else:
    from typing_extensions import Self

if sys.version_info >= (3, 12):
    from collections.abc import Buffer
else:
    from typing_extensions import Buffer

_Setting = str | int | bool | os.PathLike[str] | None
_Outgoing = Buffer | tuple[Buffer] | tuple[Buffer, int] | tuple[Buffer, int, str | None]

__all__ = [
    "BackPressured",
    "Cancelled",
    "Claim",
    "Closed",
    "Corrupt",
    "DETAILS",
    "EndOfStream",
    "Error",
    "Evicted",
    "Forked",
    "InUse",
    "LinkFailed",
    "Message",
    "NotConnected",
    "NotSent",
    "OpenError",
    "Overrun",
    "Publisher",
    "ReceiveError",
    "Subscriber",
    "TooLong",
    "UriError",
    "VERSION",
    "WrongLength",
    "settings",
]

VERSION: str

# What came with each message, as fields of a structure of numpy:
# `numpy.empty(n, olivine.DETAILS)`.
DETAILS: list[tuple[str, str]]

def settings(key: str | None = None) -> str:
    """What the settings are: every key of URIs, or `key` alone, with values and default.

    The text is for people: `print(olivine.settings())`. KeyError names an unknown key.
    """

class Error(Exception):
    """Whatever goes wrong in Olivine.

    `id` is the name of its kind, such as "journal.damaged": `olivine explain ID` of the tool
    explains it. None where the core has no error, such as for a handle that was closed
    here.
    """

    id: str | None

class UriError(Error): ...
class OpenError(Error):
    # Only where the system refused: its number, as in the module errno.
    errno: int

class Closed(Error): ...
class Forked(Error): ...
class InUse(Error): ...
class Cancelled(Error): ...
class NotSent(Error): ...
class BackPressured(NotSent): ...
class NotConnected(NotSent): ...

class TooLong(NotSent):
    max: int

class LinkFailed(NotSent): ...
class ReceiveError(Error): ...
class EndOfStream(ReceiveError): ...

class Overrun(ReceiveError):
    lost_bytes: int

class Evicted(ReceiveError): ...
class Corrupt(ReceiveError): ...

class WrongLength(ReceiveError):
    length: int
    expected: int

@final
class Publisher:
    """Sends messages into a channel; each publisher has its lane.

    While a call sends bytes, no other thread may write them. numpy, for example, writes without
    holding the interpreter.

    A message is any object whose bytes are in a row: bytes, a bytearray, an array. TypeError
    refuses Python objects and addresses in it, BufferError bytes that are not in a row.

    Keywords are keys of URIs: `print(olivine.settings())` lists them. `type=("quote v1", dtype)`
    states the type of the channel's values, by a dtype of numpy or a structure of ctypes.

    In a forked child every call raises Forked, and closing lets go of the child's copy: see Forked.
    """

    def __new__(
        cls, uri: str, *, type: tuple[str, Any] | None = None, **keys: _Setting
    ) -> Self:
        """Opens the channel, and creates it if necessary.

        Raises UriError or OpenError; nothing stays behind then.

        Waits while others open or close it (10 s at most), and up to 1 s for the first answer of a
        far side.
        """

    # Each verb has three forms: try_x never waits, x waits by the wait strategy, x_timeout waits
    # for a time.
    # `tag` is a number that the program chooses. `topic` is what the message is about; None means
    # the publisher's `topic=`.

    def try_publish(self, message: Buffer, tag: int = 0, topic: str | None = None) -> int | None:
        """Sends a copy. Returns the position behind it, or None without room. Never waits."""

    def publish(self, message: Buffer, tag: int = 0, topic: str | None = None) -> int:
        """Sends a copy, waiting for room. Returns the position behind it, in bytes.

        Raises TooLong, or NotSent where the topic is refused; LinkFailed where the far side is
        gone; Cancelled after `cancel`.
        """

    def publish_timeout(
        self, message: Buffer, timeout: float, tag: int = 0, topic: str | None = None
    ) -> int:
        """As `publish`, but raises BackPressured or NotConnected when the time is over."""

    def try_publish_batch(self, messages: Iterable[_Outgoing]) -> int:
        """Sends copies in one batch as far as there is room; how many were sent. Never waits.

        Each message is bytes, `(message, tag)` or `(message, tag, topic)`.

        What it raises has `published`, how many were sent before: a repetition begins behind those.
        """

    def publish_batch(self, messages: Iterable[_Outgoing]) -> int:
        """As `try_publish_batch`, in batches as large as there is room for; waits for room.

        Raises what `publish` does, with `published`: how many were sent before.
        """

    def publish_batch_timeout(self, messages: Iterable[_Outgoing], timeout: float) -> int:
        """As `publish_batch`; how many were sent when the time for all of them was over."""

    def try_claim(self, length: int, tag: int = 0, topic: str | None = None) -> Claim | None:
        """Reserves a message, to be filled in place, if there is room, or None. Never waits.

        This publisher sends nothing else meanwhile.
        """

    def claim(self, length: int, tag: int = 0, topic: str | None = None) -> Claim:
        """As `try_claim`, waiting for room. Raises what `publish` raises."""

    def claim_timeout(
        self, length: int, timeout: float, tag: int = 0, topic: str | None = None
    ) -> Claim:
        """As `claim`, but raises BackPressured or NotConnected when the time is over."""

    def try_publish_array(
        self, array: Buffer, tag: int | Buffer | None = None, topic: str | None = None
    ) -> int:
        """Sends rows of an array, each as a message, while there is room; how many. Never waits.

        The first axis of the array counts the rows. It is contiguous in C order and of any type
        without Python objects. `tag` is a number for all rows, or an array of 32-bit unsigned
        numbers with one for each.

        With `type=`, TypeError refuses rows with other fields, and ValueError those of another
        length. Rows of bytes ("u1", "S24", "V24") of its length are sent as they are, and so are
        structures that are of neither numpy nor ctypes.

        What it raises has `published`, how many were sent before: a repetition begins behind those.
        """

    def publish_array(
        self, array: Buffer, tag: int | Buffer | None = None, topic: str | None = None
    ) -> int:
        """As `try_publish_array`, in batches as large as there is room for; waits for room.

        Raises what `publish` does, with `published`: how many were sent before.
        """

    def publish_array_timeout(
        self,
        array: Buffer,
        timeout: float,
        tag: int | Buffer | None = None,
        topic: str | None = None,
    ) -> int:
        """As `publish_array`; how many were sent when the time for all of them was over."""

    def wait_for_room(
        self, length: int, topic: str | None = None, timeout: float | None = None
    ) -> bool:
        """Waits until a message of `length` bytes has room; whether it has. Sends nothing.

        `timeout` is in seconds. Raises LinkFailed where the far side is gone, Cancelled after
        `cancel`.
        """

    def cancel(self) -> None:
        """Ends the wait of another thread in a call of this publisher: it raises Cancelled within
        50 ms. If no call waits, the next call that would wait raises it instead, once.

        Any thread may call it. It waits for nothing and sends nothing. It does not end `close`.
        """

    def wait_for_subscribers(self, count: int, timeout: float | None = None) -> bool:
        """Waits until so many reliable subscribers are attached; whether they are.

        `timeout` is in seconds. Raises LinkFailed where the far side is gone, Cancelled after
        `cancel`.
        """

    def wait_drained(self, timeout: float | None = None) -> bool:
        """Waits until every live reliable subscriber has read everything; whether they have.

        `timeout` is in seconds. Raises LinkFailed where the far side is gone, Cancelled after
        `cancel`.
        """

    @property
    def cursor(self) -> int:
        """The position up to which this publisher has published, in bytes.

        A publisher elsewhere with `name=` goes on behind the program that had the name before:
        until it sends, this is the position behind that program's last message. 0 if
        that one has closed with everything delivered, and its ring is gone (`tcp://`).
        """

    @property
    def message_max(self) -> int:
        """The longest message that the ring can hold, in bytes."""

    @property
    def capacity(self) -> int:
        """Bytes of each publisher's ring; 0 until a publisher has fixed it."""

    def check_unlinked(self) -> bool:
        """Whether the channel's files were removed while it was open.

        A program that opens the name now gets a new channel.
        """

    def count_subscribers(self) -> int:
        """Counts the reliable subscribers attached now, by system calls; reclaims the dead."""

    @property
    def topic(self) -> str | None:
        """The topic of messages that are given none (`topic=`), or None."""

    @property
    def uri(self) -> str:
        """The URI of the channel with all settings that differ from their defaults."""

    @property
    def link_status(self) -> dict[str, str | int] | None:
        """State of the link of a channel elsewhere, by name; None for other channels.

        "stage" is its state, and "note" what it waits for or its newest problem. "address" is where
        it waits for far sides, "peers" how many are connected now. "connections" were made so far,
        "failures" broke or could not be made, "refusals" of far sides were refused, and "abandoned"
        far subscribers were given up. "undelivered" messages were not delivered when it ended.
        "messages" arrived; a sending link counts bytes only. "bytes" of frames were carried, and
        "acknowledged_bytes" of them acknowledged. "journal_position" is behind the last message
        that a replay has put into the ring.
        """

    def stats(self) -> dict[str, int]:
        """Counters of this publisher: "back_pressure_count", "back_pressure_ns" (nanoseconds
        waited for room), "wakes" (sleepers woken), "evicted" and "reclaimed" (subscribers).
        """

    def close(self) -> None:
        """Ends the stream, after up to `linger`; raises BackPressured if a subscriber had not read
        everything by then, or a far side had not acknowledged it: the text says how much.

        On a channel elsewhere (tcp://, nats://, file://) it waits until the far side has
        everything. If `linger` is 0, the default, it waits without bound for a far side that is
        connected, and for a full disk: set it for such channels, `linger="5s"`. An absent far side
        of tcp:// or nats:// is given up after `expire`, or 30 s if that is never.

        A publisher that is collected ends its stream in the same way, with a ResourceWarning, which
        `-X dev` shows. `sys.unraisablehook` gets what `close` would have raised, and prints it. If
        the program ends by an exception that nothing handles, it ends as failed.

        Over tcp:// the far side also confirms the end of the stream. If the connection breaks
        before it does, closing waits for it to come back: twice `timeout` plus 1 s, so 11 s by
        default, at least 2 s and at most `expire`. A far side that does not answer adds
        one `timeout`: 16 s in all. Then the end counts as received. `linger` bounds all of that.
        A listening publisher without `name` waits for named subscribers that are away and do
        not have the end: for their `expire` or its own, whichever is shorter. Its own counts as
        30 s if it is never. Then it raises.
        """

    def close_failed(self, reason: str) -> None:
        """As `close`, but ends the stream as failed: after the last message subscribers get
        ReceiveError with `reason` instead of EndOfStream. A journal keeps the reason.

        On a channel elsewhere (tcp://, nats://, file://) it returns once every far side has
        confirmed the reason, if there is one. The reason is awaited as the end of the stream is,
        but does not count as received without a confirmation: BackPressured, whose text calls the
        reason the end of the stream. Raises Closed where the publisher is closed: its stream has
        ended.
        """

    def __enter__(self) -> Self:
        """The publisher. Raises Closed where it is closed."""

    def __aenter__(self) -> NoReturn:
        """Raises TypeError: `olivine.aio.Publisher` is for `async with`."""

    def __aexit__(
        self,
        _exception: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> NoReturn:
        """Raises TypeError, as `__aenter__` does."""

    def __exit__(
        self,
        exception: type[BaseException] | None,
        value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Closes. Closes as failed after an exception, except GeneratorExit and a SystemExit
        without an error.
        """

@final
class Claim:
    """A reserved message. Leaving its block commits it, an exception aborts it.

    A view of it that was taken before a fork shows the parent's message in the child, too: the
    child must not write there.
    """

    def commit(self) -> int:
        """Makes the message visible; returns the position. BufferError while views exist."""

    def abort(self) -> None:
        """Gives the message up. BufferError while its bytes are looked at."""

    def __enter__(self) -> memoryview:
        """A view of the bytes, to be written."""

    def __exit__(
        self,
        exception: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commits; aborts if there is an exception."""

    def __len__(self) -> int: ...
    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The bytes for a library of tensors: a vector of 8-bit unsigned numbers, to be written.

        The tensor is a view, as a memoryview is: the claim is not committed while it exists.
        """

    def __dlpack_device__(self) -> tuple[int, int]:
        """Memory of the CPU: `(1, 0)`."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Message:
    """A received message: bytes, by the buffer protocol and DLPack, and what came with them.

    A view of a message of the ring that was taken before a fork shows the ring in the child, too:
    its bytes change there once the parent goes on. Take copies, by `bytes(message)`, before a fork.
    """

    @property
    def tag(self) -> int:
        """The number that the publisher gave; 0 if none."""

    @property
    def lane(self) -> int:
        """The index of the publisher's lane."""

    @property
    def position(self) -> int:
        """Where its frame begins in its lane, in bytes. Of a message of `file://` it is not what
        `from=position:` takes.
        """

    @property
    def topic(self) -> str:
        """The topic; empty for a message without one."""

    @property
    def alive(self) -> bool:
        """Whether the bytes can be read: copies always, views until the subscriber goes on."""

    def release(self) -> None:
        """Consumes the message and gives its room back now. BufferError while views of it exist.

        Leaving the message's `with` block does the same. After an exception in the block, the
        subscriber's next call consumes it. Once the subscriber has gone on, this does nothing. The
        bytes of a copy stay.
        """

    def __enter__(self) -> Self:
        """The message."""

    def __exit__(
        self,
        exception: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Releases the message, unless there is an exception."""

    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes:
        """A copy of the bytes."""

    def __dlpack__(
        self,
        *,
        stream: None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The bytes for a library of tensors: a read-only vector of 8-bit unsigned numbers.

        `numpy.from_dlpack(message)` calls it. The tensor is a view, as a memoryview is: the
        subscriber does not go on while it exists. A library that asks for a DLPack version
        without read-only tensors is refused with BufferError, unless it asks for a copy.
        """

    def __dlpack_device__(self) -> tuple[int, int]:
        """Memory of the CPU: `(1, 0)`."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Subscriber:
    """Receives messages of a channel from all its publishers, in order for each publisher.

    A durable subscriber (`name=`) consumes a message with the next call that receives or waits,
    with `release`, or with `close`. If it is dropped, dies, or leaves its `with` block by an
    exception, the next subscriber of that name gets its last message again, first; after `poll`
    without a handler, `receive_array` and `poll_into` all messages of the last call.

    Keywords are keys of URIs: `print(olivine.settings())` lists them. `type=("quote v1", dtype)`
    states the type of the channel's values, by a dtype of numpy or a structure of ctypes.

    `for` waits for each message. `async for` does not block the loop, and its messages are copies.
    Both end when the last publisher closes, and a later loop goes on with what comes then.

    In a forked child every call raises Forked, and closing lets go of the child's copy: see Forked.
    """

    def __new__(
        cls, uri: str, *, type: tuple[str, Any] | None = None, **keys: _Setting
    ) -> Self:
        """Opens the channel, and creates it if necessary.

        Raises UriError or OpenError; nothing stays behind then.

        Waits while others open or close it (10 s at most), up to 1 s for the first answer of a far
        side, and up to `timeout` for the publisher of a shm+fd:// channel.
        """

    def try_receive(self) -> Message | None:
        """The next message, or None where there is none. Never waits."""

    def receive_timeout(self, timeout: float) -> Message | None:
        """As `receive`; None when the time is over."""

    def receive(self) -> Message:
        """The next message, a view of the ring; waits for it.

        The message before ends with this call: raises BufferError while a memoryview or an array
        still shows its bytes.

        Raises EndOfStream once every publisher has closed and everything was read. That is not
        final: if a publisher opens later, further calls return its messages. A `for` loop ends.
        """

    @overload
    def poll(self, limit: int = 256, handler: None = None) -> list[Message]:
        """Copies of up to `limit` messages. Never waits. Raises EndOfStream as `receive` does.

        An empty list says that there is nothing to read now. Only every few empty calls check for
        the end of the stream, so a few empty lists may come before it is raised; `wait` checks at
        once.

        An error behind messages (Overrun, Evicted, Corrupt) does not lose them: they are returned,
        and the next call that receives raises the error.

        A durable subscriber (`name=`) consumes all of them with its next call that receives or
        waits, with `release`, or with `close`. If its program is killed before, they come again.
        Until then they hold publishers back, up to a whole ring: before the same thread publishes
        into a channel that may be full, call `release`.

        With a handler it hands out up to `limit` messages, views of the ring, and returns how
        many: also where it cannot go on behind some of them, because of an error or a refusal.
        A handler that raises gets the same message again. Those before it are consumed, and its
        exception has no count: count in the handler. It must not receive: a call of this subscriber
        that would raises InUse.
        """

    @overload
    def poll(self, limit: int = 256, *, handler: Callable[[Message], object]) -> int: ...
    @overload
    def poll(self, limit: int, handler: Callable[[Message], object]) -> int: ...

    @overload
    def receive_array(
        self,
        dtype: numpy.typing.DTypeLike,
        limit: int | None = None,
        timeout: float | None = None,
        *,
        details: Literal[False] = False,
    ) -> numpy.ndarray[Any, Any]:
        """Messages as rows of a new array of numpy, in order; waits for the first one.

        `dtype` is the type of a row, as `numpy.dtype` takes it: numbers, text and bytes with a
        length, structures, or an array such as `("f4", 8)`. Each message has as many bytes as a
        row. A message of another length ends the array before it. The next call raises WrongLength,
        and `receive` returns the message.

        The array has at most `limit` rows; without a limit as many as fit 4 MiB, at least one.
        After `timeout` seconds without a message it is empty; 0 does not wait. Memory is used for
        rows that are filled.

        With `details=True` it returns two arrays: the rows, and what came with them, of the type
        `olivine.DETAILS`: tag, lane and position.

        With `type=`, TypeError refuses a dtype with other fields, and ValueError a row of another
        length. A row of bytes ("u1", "S24", "V24") of its length takes values of every type.

        Errors and durable subscribers are as with `poll`: rows before an error are returned, and a
        durable subscriber consumes the rows with its next call.
        """

    @overload
    def receive_array(
        self,
        dtype: numpy.typing.DTypeLike,
        limit: int | None = None,
        timeout: float | None = None,
        *,
        details: Literal[True],
    ) -> tuple[numpy.ndarray[Any, Any], numpy.ndarray[Any, Any]]: ...
    def poll_into(
        self, array: Buffer, details: numpy.ndarray[Any, Any] | None = None
    ) -> int:
        """Copies messages into rows of `array`, from the first on; how many. Never waits.

        The first axis of the array counts the rows. It can be written, and is contiguous in C order
        and of any type without Python objects. Rows behind the returned number are unchanged.
        `details` is an array of the type `olivine.DETAILS` with one row for each row.

        Lengths, types, errors and durable subscribers are as with `receive_array`.
        """

    def cancel(self) -> None:
        """Ends the wait of another thread in a call of this subscriber: it raises Cancelled within
        50 ms. If no call waits, the next call that would wait raises it instead, once.

        Any thread may call it. No message is lost: the subscriber can be used as before.
        """

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until a poll would find something; whether it would."""

    def release(self) -> None:
        """Gives the room of everything read back now, and consumes the message received last.

        A message whose handler raised, or runs, was not read: release it by `message.release()`.
        """

    @property
    def position(self) -> int:
        """Bytes of frames read so far, over all lanes."""

    @property
    def lag(self) -> int:
        """Bytes of frames that are published and not read yet, over all lanes."""

    @property
    def durable(self) -> str | None:
        """What a name (name=) found when it was opened: "created", "resumed" or "lost place".

        "lost place": it was evicted or expired while it was away; lost_bytes says how much it
        missed. None without a name.
        """

    def check_unlinked(self) -> bool:
        """Whether the channel's files were removed while it was open.

        A program that opens the name now gets a new channel.
        """

    @property
    def lost_bytes(self) -> int:
        """Bytes of frames that this subscriber missed: by overruns, or while its durable name had
        lost its place. 0 for a reliable subscriber that was not evicted.
        """

    @property
    def capacity(self) -> int:
        """Bytes of each publisher's ring; 0 until a participant has named it or a publisher has
        fixed it."""

    @property
    def uri(self) -> str:
        """The URI of the channel with all settings that differ from their defaults."""

    @property
    def link_status(self) -> dict[str, str | int] | None:
        """State of the link of a channel elsewhere, by name; None for other channels.

        "stage" is its state, and "note" what it waits for or its newest problem. "address" is where
        it waits for far sides, "peers" how many are connected now. "connections" were made so far,
        "failures" broke or could not be made, "refusals" of far sides were refused, and "abandoned"
        far subscribers were given up. "undelivered" messages were not delivered when it ended.
        "messages" arrived; a sending link counts bytes only. "bytes" of frames were carried, and
        "acknowledged_bytes" of them acknowledged. "journal_position" is behind the last message
        that a replay has put into the ring.
        """

    def event_fd(self) -> int:
        """Readable when there is something to poll; belongs to the subscriber."""

    def fileno(self) -> int:
        """As `event_fd`, for `select` and `selectors`."""

    def close(self) -> None:
        """Leaves the channel: now, or with the last view of the message received last.

        A durable subscriber keeps its place, behind that message.
        """

    def drop(self) -> None:
        """As `close`, but a durable subscriber keeps its place before the message received last,
        which comes again.

        A subscriber that is collected, or whose `with` block an exception leaves, ends in this way.
        """

    def unsubscribe(self) -> None:
        """Leaves the channel and forgets a durable name.

        Raises Closed, and keeps the name, if it has left.
        """

    def __iter__(self) -> Iterator[Message]: ...
    def __next__(self) -> Message: ...
    def __aiter__(self) -> AsyncIterator[Message]:
        """For `async for`: copies of the messages, without blocking the loop."""
    def __enter__(self) -> Self:
        """The subscriber. Raises Closed where it is closed."""

    def __aenter__(self) -> NoReturn:
        """Raises TypeError: `olivine.aio.Subscriber` is for `async with`."""

    def __aexit__(
        self,
        _exception: type[BaseException] | None,
        _value: BaseException | None,
        _traceback: TracebackType | None,
    ) -> NoReturn:
        """Raises TypeError, as `__aenter__` does."""

    def __exit__(
        self,
        exception: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Closes; drops where there is an exception."""
