"""`async for message in subscriber`: the loop waits for the subscriber's descriptor."""

import asyncio
import os

from ._native import EndOfStream

# Messages handed out between turns of other tasks.
TURN_MAX = 64


class Messages:
    """Copies of a subscriber's messages, until the end of the stream.

    One at a time for each subscriber.
    """

    def __init__(self, subscriber):
        self._subscriber = subscriber
        self._left = TURN_MAX

    def __aiter__(self):
        return self

    async def __anext__(self):
        while True:
            if self._left == 0:
                # Also where messages never cease.
                self._left = TURN_MAX
                await asyncio.sleep(0)
            try:
                # One: a durable subscriber gets a message again if its program fails at it. Of
                # several it would get the last only. Finding nothing arms the descriptor.
                descriptor = self._subscriber.event_fd()
                taken = self._subscriber.poll(1)
            except EndOfStream:
                raise StopAsyncIteration from None
            if taken:
                self._left -= 1
                return taken[0]
            self._left = TURN_MAX
            await _readable(descriptor)


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
