#!/usr/bin/env python3
"""A wire between two network namespaces that delays and loses packets, and can be cut.

    wire.py NAMESPACE ADDRESS NAMESPACE ADDRESS SEED

Makes a device `wire` in each namespace, with the address (such as 10.0.0.1/30), and carries between
the two until its input ends. Says `ready`, and answers each line of its input with one line once it
is done:

    set DELAY_MS LOSS_PERCENT   packets take that long, one way, and so many are lost
    cut SECONDS                 loses every packet for so long, and says how many it lost
"""

import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

CLONE_NEWNET = 0x40000000
TUNSETIFF = 0x400454CA
IFF_TUN, IFF_NO_PI = 0x0001, 0x1000
# Few and large packets: the wire is to be bad, not slow.
MTU = 16000


def device(namespace, address):
    """Opens a device in a namespace; this thread stays in there."""
    with open(f"/run/netns/{namespace}") as handle:
        if ctypes.CDLL(None, use_errno=True).setns(handle.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), f"cannot enter {namespace}")
    opened = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(opened, TUNSETIFF, struct.pack("16sH22x", b"wire", IFF_TUN | IFF_NO_PI))
    for words in (
        ["addr", "add", address, "dev", "wire"],
        ["link", "set", "wire", "mtu", str(MTU), "up"],
        ["link", "set", "lo", "up"],
    ):
        subprocess.run(["ip", *words], check=True)
    return opened


def say(text):
    print(text, flush=True)


def main():
    first, second = (device(*sys.argv[at : at + 2]) for at in (1, 3))
    chance = random.Random(int(sys.argv[5]))
    other = {first: second, second: first}
    delay, loss = 0.0, 0.0
    cut_until, lost = None, 0
    under_way = []
    number = 0
    say("ready")
    while True:
        now = time.monotonic()
        if cut_until is not None and now >= cut_until:
            cut_until = None
            say(f"lost {lost}")
        while under_way and under_way[0][0] <= now:
            _, _, to, packet = heapq.heappop(under_way)
            try:
                os.write(to, packet)
            except OSError:
                pass  # A device takes what it has room for, as any other.
        due = [when for when in (cut_until, under_way[0][0] if under_way else None) if when]
        wait = max(0.0, min(due) - now) if due else None
        readable, _, _ = select.select([0, first, second], [], [], wait)
        for ready in readable:
            if ready == 0:
                order = os.read(0, 4096)
                if not order:
                    return
                words = order.split()
                if not words:
                    continue
                if words[0] == b"set":
                    delay, loss = float(words[1]) / 1000, float(words[2]) / 100
                    say("set")
                elif words[0] == b"cut":
                    cut_until, lost = time.monotonic() + float(words[1]), 0
                continue
            for _ in range(64):
                try:
                    packet = os.read(ready, 65536)
                except BlockingIOError:
                    break
                if cut_until is not None:
                    lost += 1
                elif chance.random() >= loss:
                    number += 1
                    entry = (time.monotonic() + delay, number, other[ready], packet)
                    heapq.heappush(under_way, entry)


main()
