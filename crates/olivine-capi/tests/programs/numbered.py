"""Numbered messages from Python: numbered.py publish URI COUNT, or receive URI FIRST [STOP].

Prints "open" once the channel is open.
"""

import sys

import olivine


def numbered(number):
    length = number % 100 + (3000 if number % 250 == 249 else 0)
    return number.to_bytes(8, "little") + bytes([number & 0xFF]) * length


def publish(uri, count):
    with olivine.Publisher(uri, subscribers=1, linger="1m") as publisher:
        print("open", flush=True)
        for number in range(count):
            message = numbered(number)
            if number % 2 == 0:
                with publisher.claim(len(message), tag=number) as view:
                    view[:] = message
            else:
                publisher.publish(message, tag=number)
    print("published", count)


def receive(uri, first, stop=None):
    number = first
    try:
        with olivine.Subscriber(uri) as subscriber:
            print("open", flush=True)
            for message in subscriber:
                got = (bytes(message), message.tag)
                assert got == (numbered(number), number), (message, number)
                if number == stop:
                    raise LookupError("in the middle")
                number += 1
    except LookupError:
        print("failed")
        return
    print("received to", number)


role, uri, *numbers = sys.argv[1:]
{"publish": publish, "receive": receive}[role](uri, *map(int, numbers))
