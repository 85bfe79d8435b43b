"""`async for message in subscriber`: the loop waits for the subscriber's descriptor."""

import asyncio
from collections import deque

from ._native import EndOfStream

# Messages taken at a time; small, so that other tasks get their turn.
TAKEN_MAX = 64


class Messages:
    """Copies of a subscriber's messages, until the end of the stream. One at a time for each subscriber."""

    def __init__(self, subscriber):
        self._subscriber = subscriber
        self._taken = deque()

    def __aiter__(self):
        return self

    async def __anext__(self):
        while not self._taken:
            try:
                # Finding nothing arms the descriptor.
                descriptor = self._subscriber.event_fd()
                self._taken.extend(self._subscriber.poll(TAKEN_MAX))
            except EndOfStream:
                raise StopAsyncIteration from None
            if self._taken:
                # Somebody else's turn, also where messages never cease.
                await asyncio.sleep(0)
            else:
                await _readable(descriptor)
        return self._taken.popleft()


async def _readable(descriptor):
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_reader(descriptor, lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(descriptor)
