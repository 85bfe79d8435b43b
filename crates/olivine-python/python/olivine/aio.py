"""Publishers and subscribers for asyncio. No call blocks the loop.

    from olivine import aio

    async with aio.Publisher("shm://ticks") as publisher:
        await publisher.publish(b"hello")

    async with aio.Subscriber("shm://ticks") as subscriber:
        async for message in subscriber:
            print(bytes(message))

A subscriber waits for the descriptor of its handle. A publisher without room waits in a thread.
Calls that need not wait also give other tasks a turn: at least each 64th of a handle does, before
it sends or receives. So `asyncio.timeout`, `Task.cancel` and Ctrl-C end a loop of such calls.
A call that is cancelled has sent nothing and has received nothing: no message is lost. Only
`publish_batch` and `publish_array` may have sent a part: `published` of the CancelledError says how
many. Time-outs are those of asyncio:
`async with asyncio.timeout(1): message = await subscriber.receive()`.

Tasks of one loop may share a publisher, and each task opens its own subscriber.

`handle` is the publisher or subscriber of `olivine` behind it, for what does not wait. While a task
waits for room, calls of a publisher's handle raise InUse.
"""

import asyncio
import os
import weakref
from concurrent.futures import ThreadPoolExecutor

from . import _native
from ._native import EndOfStream

__all__ = ["Publisher", "Subscriber"]

# Calls of a handle between turns of other tasks.
TURN_MAX = 64
# So many rows of an array, or messages of a batch, count as one call.
ROWS_EACH = 1024
BATCH_EACH = 64
# Seconds that a thread waits before it looks whether its task was cancelled.
SLICE = 0.05


# Another object in each forked child.
_process = object()


def _fork():
    global _process
    _process = object()


os.register_at_fork(after_in_child=_fork)


class _Turns:
    """Counts the calls of a handle, so that other tasks get a turn where none of them waits."""

    __slots__ = ("left",)

    def __init__(self):
        self.left = TURN_MAX

    async def give(self):
        """Lets other tasks run. Nothing was sent or received: it may be cancelled here."""
        self.left = TURN_MAX
        await asyncio.sleep(0)


# Of each subscriber: loops over it, and its calls, count together.
_subscribers: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def _turns_of(subscriber):
    return _subscribers.setdefault(subscriber, _Turns())


class _End:
    """An end that is opened by `await` or `async with`."""

    def __await__(self):
        return self._open().__await__()

    async def __aenter__(self):
        await self._open()
        # Raises where it is closed.
        self.handle.__enter__()
        return self

    def __enter__(self):
        """Raises TypeError: `async with` is for it."""
        raise TypeError(f"{self._NAME} is for asyncio: use it by `async with`")

    def __exit__(self, exception, value, traceback):
        """Raises TypeError, as `__enter__` does."""
        self.__enter__()


class Publisher(_End):
    """Sends messages. `async with` opens it and closes it; or `await` it, and close it.

    Takes the URI and the keywords of `olivine.Publisher`. Tasks of one loop may share it: a call
    waits until those before it have returned. Another thread opens its own.
    """

    _NAME = "olivine.aio.Publisher"

    def __init__(self, uri, **keys):
        self._opening = (uri, keys)
        self._handle = None
        self._turns = _Turns()
        self._start()

    def _start(self):
        self._process = _process
        self._lock = asyncio.Lock()
        self._thread = None

    def _start_in_child(self):
        if self._process is not _process:
            # A forked child has neither the thread nor the tasks that waited for the lock.
            self._start()

    @property
    def _turn(self):
        self._start_in_child()
        return self._lock

    @property
    def handle(self):
        """The `olivine.Publisher` behind it."""
        if self._handle is None:
            raise _native.Closed("the publisher is not open: use async with, or await it")
        return self._handle

    async def __aexit__(self, exception, value, traceback):
        """Closes. Closes as failed after an exception, as a `with` block of the handle does."""
        async with self._turn:
            await self._aside(self.handle.__exit__, exception, value, traceback)
        self._end_thread()

    async def publish(self, message, tag=0, topic=None):
        """Sends a copy; waits for room. Returns the position behind it."""
        async with self._turn:
            turns = self._turns
            if turns.left <= 0:
                await turns.give()
            turns.left -= 1
            while True:
                position = self.handle.try_publish(message, tag, topic)
                if position is not None:
                    return position
                await self._until(self.handle.wait_for_room, _bytes(message), topic)

    async def publish_batch(self, messages):
        """Sends copies, in batches as large as there is room for; waits for room.

        What it raises has `published`, how many were sent before. So has a CancelledError.
        """
        messages = list(messages)
        publish = self.handle.try_publish_batch

        # All that is left: a wrong message is found before any is sent.
        def send(begin, _end):
            return publish(messages[begin:])

        def room(index):
            return _length(messages[index])

        return await self._all(len(messages), BATCH_EACH, send, room)

    async def publish_array(self, array, tag=None, topic=None):
        """Sends the rows of an array, each as one message; waits for room.

        What it raises has `published`, how many were sent before. So has a CancelledError.
        """
        handle = self.handle
        # An array of numpy without an axis is a number.
        each = hasattr(tag, "__len__") and getattr(tag, "ndim", 1) > 0
        if each and len(tag) != len(array):
            # It says what is wrong.
            return handle.try_publish_array(array, tag, topic)

        def send(begin, end):
            tags = _rows(tag, begin, end) if each else tag
            return handle.try_publish_array(_rows(array, begin, end), tags, topic)

        def room(index):
            return _bytes(_rows(array, index, index + 1)), topic

        return await self._all(len(array), ROWS_EACH, send, room)

    async def wait_for_subscribers(self, count):
        """Waits until so many reliable subscribers are attached."""
        async with self._turn:
            await self._until(self.handle.wait_for_subscribers, count)

    async def wait_drained(self):
        """Waits until every live reliable subscriber has read everything."""
        async with self._turn:
            await self._until(self.handle.wait_drained)

    async def close(self):
        """Ends the stream, as `olivine.Publisher.close` does."""
        async with self._turn:
            await self._aside(self.handle.close)
        self._end_thread()

    async def close_failed(self, reason):
        """Ends the stream as failed, as `olivine.Publisher.close_failed` does."""
        async with self._turn:
            await self._aside(self.handle.close_failed, reason)
        self._end_thread()

    async def _open(self):
        if self._handle is None:
            uri, keys = self._opening
            self._handle = await self._aside(lambda: _native.Publisher(uri, **keys))
        return self

    async def _all(self, count, each, send, room):
        """Sends all of `count` by `send`, which takes where to begin and to end. `each` of them
        count as one call."""
        published = 0
        async with self._turn:
            try:
                turns = self._turns
                while True:
                    if turns.left <= 0:
                        await turns.give()
                    sent = send(published, published + TURN_MAX * each)
                    published += sent
                    turns.left -= 1 + sent // each
                    if published >= count:
                        return published
                    if not sent:
                        await self._until(self.handle.wait_for_room, *room(published))
            except BaseException as error:
                error.published = published + getattr(error, "published", 0)
                raise

    async def _until(self, wait, *args):
        """Waits in a thread, a slice at a time, until `wait` is true."""
        while not await self._aside(lambda: wait(*args, timeout=SLICE)):
            pass

    async def _aside(self, call, *args):
        """Calls in a thread. A cancelled task ends when the thread does not use the handle."""
        self._start_in_child()
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "olivine-aio")
        called = asyncio.get_running_loop().run_in_executor(self._thread, call, *args)
        try:
            return await asyncio.shield(called)
        except asyncio.CancelledError:
            await asyncio.wait([called])
            raise

    def _end_thread(self):
        if self._thread is not None:
            self._thread.shutdown(wait=False)
            self._thread = None


def _length(message):
    """What `wait_for_room` takes for one of several messages."""
    if isinstance(message, tuple):
        topic = message[2] if len(message) > 2 else None
        return _bytes(message[0]), topic
    return _bytes(message), None


def _rows(array, begin, end=None):
    """Rows of an array. A slice of an array of ctypes is a list, so its memory is sliced."""
    rows = memoryview(array) if hasattr(array, "_b_base_") else array
    return rows[begin:end]


def _bytes(message):
    """How many bytes a message has."""
    # A structure of ctypes may have a field `nbytes`: the view decides.
    try:
        return memoryview(message).nbytes
    except (BufferError, ValueError, TypeError):
        # numpy shows no dates in a memoryview.
        return message.nbytes


class Subscriber(_End):
    """Receives messages. `async with` opens it and closes it; or `await` it, and close it.

    Takes the URI and the keywords of `olivine.Subscriber`. One task receives from it: give each
    task its own. Tasks that share one get each message once, in one of them, and a durable
    subscriber consumes the message of one task when another task receives.
    """

    _NAME = "olivine.aio.Subscriber"

    def __init__(self, uri, **keys):
        self._opening = (uri, keys)
        self._handle = None

    @property
    def handle(self):
        """The `olivine.Subscriber` behind it."""
        if self._handle is None:
            raise _native.Closed("the subscriber is not open: use async with, or await it")
        return self._handle

    async def __aexit__(self, exception, value, traceback):
        """Closes; drops where there is an exception."""
        self.handle.__exit__(exception, value, traceback)

    def __aiter__(self):
        """Copies of the messages, until the end of the stream. A later loop goes on."""
        return Messages(self.handle)

    def __iter__(self):
        """Raises TypeError: `async for` is for it."""
        raise TypeError(f"{self._NAME} is for asyncio: use it by `async for`")

    async def receive(self):
        """A copy of the next message; waits for it. Raises EndOfStream as the handle does."""
        handle = self.handle
        return (await _found(handle, self._turns, lambda: handle.poll(1)))[0]

    async def receive_array(self, dtype, limit=None, *, details=False):
        """Messages as rows of a new array; waits for the first one.

        As `olivine.Subscriber.receive_array`, without its `timeout`: use `asyncio.timeout`.
        """

        handle, turns = self.handle, self._turns

        def receive():
            found = handle.receive_array(dtype, limit, 0, details=details)
            count = len(found[0] if details else found)
            turns.left -= count // ROWS_EACH
            return found if count else None

        return await _found(handle, turns, receive)

    async def close(self):
        """Leaves the channel, as `olivine.Subscriber.close` does."""
        self.handle.close()

    async def _open(self):
        if self._handle is None:
            uri, keys = self._opening
            self._handle = await asyncio.to_thread(_native.Subscriber, uri, **keys)
            self._turns = _turns_of(self._handle)
        return self


class Messages:
    """Copies of a subscriber's messages, until the end of the stream.

    One at a time for each subscriber.
    """

    def __init__(self, subscriber):
        self._subscriber = subscriber
        self._turns = _turns_of(subscriber)

    def __aiter__(self):
        """Itself: one loop reads it."""
        return self

    async def __anext__(self):
        """The next message."""
        handle = self._subscriber
        try:
            # One: a durable subscriber gets again only the message at which its program fails.
            return (await _found(handle, self._turns, lambda: handle.poll(1)))[0]
        except EndOfStream:
            raise StopAsyncIteration from None


async def _found(handle, turns, take):
    """What `take` finds. Finding nothing arms the descriptor. No wait follows what was taken."""
    while True:
        if turns.left <= 0:
            # Also where messages never cease.
            await turns.give()
        turns.left -= 1
        descriptor = handle.event_fd()
        taken = take()
        if taken is not None and len(taken):
            return taken
        await _readable(descriptor)
        turns.left = TURN_MAX


async def _readable(descriptor):
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    # A copy: closing the subscriber wakes it and closes the descriptor. Another file may then
    # get the number.
    own = os.dup(descriptor)
    try:
        loop.add_reader(own, lambda: ready.done() or ready.set_result(None))
        try:
            await ready
        finally:
            loop.remove_reader(own)
    finally:
        os.close(own)
