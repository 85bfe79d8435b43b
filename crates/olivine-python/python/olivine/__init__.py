"""Messages between programs: fast, nothing lost, survives any crash.

A channel is named by a URI. A publisher sends, any number of subscribers receive:

    import olivine

    with olivine.Subscriber("shm://ticks", capacity="4MiB") as subscriber:
        with olivine.Publisher("shm://ticks") as publisher:
            publisher.publish(b"hello")
        for message in subscriber:
            print(bytes(message))

Keywords are the keys of URIs, with the same units, ranges and defaults; `from` is written `from_`.
`receive` and a handler of `poll` get a view of the ring (`memoryview(message)`,
`numpy.frombuffer(message)`); nothing is copied. The subscriber refuses to go on while a view
exists. Code that takes the address of a buffer and releases the buffer is not counted: give
`torch.frombuffer(memoryview(message), ...)` the view, which the tensor keeps, and not the message.
Iterating, and `poll` without a handler, give copies.

`receive_array`, `poll_into` and `publish_array` copy many messages of one length in one call, as
rows of an array of numpy. `olivine.aio` is for asyncio. `olivine.settings()` lists all settings.

Time-outs are seconds from 0; infinity and None wait for as long as it takes. ValueError refuses a
negative number and NaN.

One thread uses a handle at a time. Waits let other threads run. Ctrl-C ends them, and so does
`cancel` of the handle in another thread.

Classes:

    Publisher           sends messages into a channel
    Subscriber          receives messages of a channel
    Message             a received message: a view of the ring, or a copy
    Claim               a reserved message, to be filled in place
    aio.Publisher       a publisher for asyncio
    aio.Subscriber      a subscriber for asyncio

Functions and values:

    settings            what the keys of URIs do
    DETAILS             the dtype of what comes with each row of an array
    __version__         the version of the package

Exceptions, each below its family:

    Error               whatever goes wrong in Olivine
        UriError        the URI or a setting is wrong
        OpenError       the channel could not be opened
        Closed          the handle is closed
        Forked          the handle belongs to the parent process
        InUse           another thread uses the handle, or a handler receives
        Cancelled       another thread called `cancel`
        NotSent         nothing was sent
            BackPressured   there was no room in time
            NotConnected    too few subscribers came in time
            TooLong         the message does not fit the ring
            LinkFailed      the far side cannot be reached any more
        ReceiveError    nothing was received
            EndOfStream     every publisher has closed
            Overrun         messages were overwritten (delivery=latest)
            Evicted         the subscriber lost its place (slow, or its name expired)
            Corrupt         a lane holds what no publisher writes
            WrongLength     the next message does not fit a row
"""

from ._native import (
    DETAILS,
    BackPressured,
    Cancelled,
    Claim,
    Closed,
    Corrupt,
    EndOfStream,
    Error,
    Evicted,
    Forked,
    InUse,
    LinkFailed,
    Message,
    NotConnected,
    NotSent,
    OpenError,
    Overrun,
    Publisher,
    ReceiveError,
    Subscriber,
    TooLong,
    UriError,
    WrongLength,
    settings,
)
from ._native import VERSION as __version__

# Classes, functions and values, exceptions by family.
__all__ = [
    "Publisher",
    "Subscriber",
    "Message",
    "Claim",
    "settings",
    "DETAILS",
    "__version__",
    "Error",
    "UriError",
    "OpenError",
    "Closed",
    "Forked",
    "InUse",
    "Cancelled",
    "NotSent",
    "BackPressured",
    "NotConnected",
    "TooLong",
    "LinkFailed",
    "ReceiveError",
    "EndOfStream",
    "Overrun",
    "Evicted",
    "Corrupt",
    "WrongLength",
]

# `help(olivine)` ends with them.
if __doc__ is not None:
    __doc__ += "\nSettings:\n\n" + settings()
