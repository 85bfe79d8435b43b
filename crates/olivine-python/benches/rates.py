"""Rates between two Python programs: messages of 32 bytes, one by one and as arrays.

    python3 crates/olivine-python/benches/rates.py

Prints one line for each way: millions of messages a second, the median and the best of five runs.
It compares with pyzmq in the same run if that is installed, in the ways of it that are fastest:
PUSH to PULL over ipc and over tcp, both with copies (which are faster at this length), and `recv`
with and without DONTWAIT. The last lines are the ratios of our medians to its best one. Build the
package with the profile `dist` before: `pip install crates/olivine-python` does.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import numpy
import olivine

try:
    import zmq
except ImportError:
    zmq = None

LENGTH = 32
RUNS = 5


def rows(count):
    made = numpy.zeros((count, LENGTH // 8), "u8")
    made[:, 0] = numpy.arange(count)
    return made


def publish(way, count, place):
    """The other process."""
    if way.startswith("pyzmq"):
        socket = zmq.Context().socket(zmq.PUSH)
        socket.setsockopt(zmq.SNDHWM, 100_000)
        with open(f"{place}/address") as address:
            socket.connect(address.read())
        message = bytes(LENGTH)
        send = socket.send
        for _ in range(count):
            send(message)
        socket.close(linger=-1)
        return
    with olivine.Publisher("shm://rates", dir=place, linger="60s") as publisher:
        publisher.wait_for_subscribers(1)
        if way == "publish and iterate":
            message = bytes(LENGTH)
            send = publisher.publish
            for _ in range(count):
                send(message)
        else:
            publisher.publish_array(rows(count))


def receive(way, count, place):
    """Seconds from the first message to the last."""
    command = [sys.executable, __file__, "--publish", way, str(count), place]
    if way.startswith("pyzmq"):
        socket = zmq.Context().socket(zmq.PULL)
        socket.setsockopt(zmq.RCVHWM, 100_000)
        socket.bind("tcp://127.0.0.1:*" if "tcp" in way else f"ipc://{place}/zmq")
        with open(f"{place}/address", "w") as address:
            address.write(socket.getsockopt(zmq.LAST_ENDPOINT).decode())
        with subprocess.Popen(command):
            receive = socket.recv
            receive()
            start = time.perf_counter()
            found = 1
            if "DONTWAIT" in way:
                while found < count:
                    try:
                        receive(zmq.DONTWAIT)
                        found += 1
                    except zmq.Again:
                        socket.poll()
            else:
                for _ in range(count - 1):
                    receive()
            taken = time.perf_counter() - start
        socket.close()
        return taken
    with olivine.Subscriber("shm://rates", dir=place, capacity="4MiB") as subscriber:
        with subprocess.Popen(command):
            subscriber.wait()
            start = time.perf_counter()
            if way.endswith("iterate"):
                # As the loop over pyzmq, it does nothing else: it counts no messages.
                for message in subscriber:
                    pass
                found = count if subscriber.position % count == 0 and len(message) == LENGTH else 0
            elif way == "arrays":
                into, found = numpy.empty((1 << 14, LENGTH // 8), "u8"), 0
                while found < count:
                    got = subscriber.poll_into(into)
                    if got == 0:
                        subscriber.wait()
                    found += got
            else:
                into, found = numpy.empty((count, LENGTH // 8), "u8"), 0
                while found < count:
                    got = subscriber.poll_into(into[found:])
                    if got == 0:
                        subscriber.wait()
                    found += got
                assert (into[:, 0] == numpy.arange(count)).all()
            taken = time.perf_counter() - start
            assert found == count, (found, count)
            # The publisher waits until everything was read.
            subscriber.release()
    return taken


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--publish", nargs=3, help=argparse.SUPPRESS)
    options.add_argument("--scale", type=float, default=1, help="of the numbers of messages")
    options = options.parse_args()
    if options.publish:
        way, count, place = options.publish
        publish(way, int(count), place)
        return
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    ways = [
        ("arrays", 20_000_000),
        ("rows and iterate", 4_000_000),
        ("publish and iterate", 4_000_000),
        ("record a million rows", 1_000_000),
    ]
    if zmq:
        ways += [(f"pyzmq {how}", 400_000) for how in ("ipc", "ipc, DONTWAIT", "tcp")]
    medians = {}
    for way, count in ways:
        count = int(count * options.scale)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        taken = []
        for _ in range(RUNS):
            with tempfile.TemporaryDirectory(prefix="olivine-rates-", dir=memory) as place:
                taken.append(receive(way, count, place))
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
        rates = [count / seconds / 1e6 for seconds in taken]
        median, best = statistics.median(rates), max(rates)
        medians[way] = median
        print(f"{way:24} {median:8.2f} M/s, best {best:8.2f} M/s", end="")
        if way.startswith("record"):
            print(f", {min(taken) * 1e3:.0f} ms, {grown:.0f} MiB more", end="")
        print(flush=True)
    others = [median for way, median in medians.items() if way.startswith("pyzmq")]
    if others:
        for way, _ in ways[:3]:
            print(f"{way:24} {medians[way] / max(others):8.1f} x pyzmq")


if __name__ == "__main__":
    main()
