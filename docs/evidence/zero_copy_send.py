"""What MSG_ZEROCOPY costs and saves for each size of a send: CPU time of both sides.

    python3 docs/evidence/zero_copy_send.py [SECONDS]

Two processes over the loopback interface, the sender on the first allowed CPU and the receiver on
the last. Each size is measured plainly and with zero copy, in turns. A buffer that was sent with
zero copy may be used again only when the kernel says so on the error queue, which is part of the
cost. COPIED is the share of sends of which the kernel says that it copied all the same.
"""

import os
import socket
import struct
import sys
import time

SO_ZEROCOPY, MSG_ZEROCOPY, COPIED = 60, 0x4000000, 1
SIZES = [4096, 16384, 65536, 262144, 1048576]
ROUNDS = 5


def drain(sock):
    """Receives until the end, into one buffer."""
    buffer = bytearray(1 << 20)
    while sock.recv_into(buffer):
        pass


def reap(sock, state):
    """Reads completions; `state` is [completed sends, of them copied]."""
    while state[0] < state[2]:
        try:
            _, ancillary, _, _ = sock.recvmsg(0, 512, socket.MSG_ERRQUEUE | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        for _, _, data in ancillary:
            _, _, _, code, _, first, last = struct.unpack_from("=IBBBBII", data)
            state[0] += last - first + 1
            state[1] += (last - first + 1) * (code & COPIED)


def measure(size, zero_copy, seconds):
    """CPU nanoseconds of both sides for a send, and the share of sends that was copied."""
    listener = socket.create_server(("127.0.0.1", 0))
    child = os.fork()
    if child == 0:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        drain(listener.accept()[0])
        os._exit(0)
    os.sched_setaffinity(0, {CPUS[0]})
    sock = socket.create_connection(listener.getsockname())
    if zero_copy:
        sock.setsockopt(socket.SOL_SOCKET, SO_ZEROCOPY, 1)
    buffer = memoryview(bytearray(size))
    state = [0, 0, 0]
    sends, end, begin = 0, time.monotonic() + seconds, time.thread_time_ns()
    while sends == 0 or time.monotonic() < end:
        rest = buffer
        while rest:
            rest = rest[sock.send(rest, MSG_ZEROCOPY if zero_copy else 0):]
            state[2] += zero_copy
        if zero_copy:
            reap(sock, state)
        sends += 1
    used = time.thread_time_ns() - begin
    sock.close()
    usage = os.wait4(child, 0)[2]
    other = (usage.ru_utime + usage.ru_stime) * 1e9
    return used / sends, other / sends, state[1] / max(state[0], 1)


CPUS = sorted(os.sched_getaffinity(0))
SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 0.3
print(f"{'SIZE':>8} {'PLAIN us':>19} {'ZERO COPY us':>19} {'RATIO':>6} {'COPIED':>7}")
print(f"{'bytes':>8} {'send':>9} {'receive':>9} {'send':>9} {'receive':>9} {'both':>6}")
for size in SIZES:
    runs = {False: [], True: []}
    for _ in range(ROUNDS):
        for zero_copy, found in runs.items():
            found.append(measure(size, zero_copy, SECONDS))
            os.sched_setaffinity(0, set(CPUS))
    plain, zero = (
        sorted(found, key=lambda run: run[0] + run[1])[ROUNDS // 2] for found in runs.values()
    )
    times = " ".join(f"{value / 1000:>9.2f}" for value in plain[:2] + zero[:2])
    print(f"{size:>8} {times} {sum(zero[:2]) / sum(plain[:2]):>6.2f} {zero[2]:>6.0%}")
