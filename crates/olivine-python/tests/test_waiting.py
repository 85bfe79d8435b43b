"""Waits: other threads run meanwhile, signals end them, event loops have a descriptor."""

import asyncio
import os
import signal
import threading
import time
import unittest

import olivine
from case import WATCHDOG, Case
from olivine import Publisher, Subscriber


class Waiting(Case):
    def test_another_thread_runs_and_is_refused_the_handle_meanwhile(self):
        publisher, subscriber = self.pair()
        got = []
        receive = subscriber.receive_timeout
        thread = threading.Thread(target=lambda: got.append(bytes(receive(WATCHDOG))))
        thread.start()
        # It waits without the interpreter, or this loop would never see it in use.
        while True:
            try:
                subscriber.lag
            except olivine.InUse as error:
                self.assertIn("open one for each thread, or end that call by cancel()", str(error))
                break
        publisher.publish(b"woken")
        thread.join()
        self.assertEqual(got, [b"woken"])

    def test_ctrl_c_ends_every_wait(self):
        # A shell that starts the test in the background makes it ignore SIGINT.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        publisher, subscriber = self.pair()
        full = Publisher("inproc://full", capacity="4KiB")
        unread = Subscriber("inproc://full")
        while full.try_publish(bytes(500)) is not None:
            pass
        lingering = Publisher("inproc://full", linger="1h")
        lingering.publish(b"unread")
        collected = [Publisher("inproc://full", linger="1h")]
        collected[0].publish(b"unread")

        def collect():
            collected.clear()
            # The interrupt is raised once Python runs again.
            while True:
                pass

        for wait in [
            subscriber.receive,
            subscriber.wait,
            lambda: next(subscriber),
            lambda: full.publish(bytes(500)),
            lambda: full.claim(500),
            lambda: full.publish_batch([bytes(500)]),
            full.wait_drained,
            lambda: publisher.wait_for_subscribers(9),
            lingering.close,
            collect,
        ]:
            main = threading.main_thread().ident
            timer = threading.Timer(0.01, signal.pthread_kill, [main, signal.SIGINT])
            with self.assertRaises(KeyboardInterrupt):
                timer.start()
                wait()
            timer.join()
        publisher.publish(b"still")
        self.assertEqual(bytes(subscriber.receive()), b"still")
        self.assertGreater(len(unread.poll()), 0)

    def test_ctrl_c_ends_a_wait_in_which_something_always_arrives(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        subscriber = Subscriber("inproc://busy", topic="wanted", capacity="4KiB")
        # The stream does not end between two rounds.
        stays = Publisher("inproc://busy", topic="other")
        self.addCleanup(stays.close)
        stop = threading.Event()

        def publish():
            with Publisher("inproc://busy", topic="other", linger=0) as publisher:
                while not stop.is_set():
                    publisher.try_publish(bytes(100))

        def interrupt():
            # Once the wait is under way.
            while True:
                # CPython 3.10 lets no other thread run where a loop begins with `try`.
                time.sleep(0)
                try:
                    subscriber.lag
                except olivine.InUse:
                    break
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

        for wait in [subscriber.receive, lambda: next(subscriber)]:
            stop.clear()
            targets = (publish, interrupt)
            threads = [threading.Thread(target=target, daemon=True) for target in targets]
            try:
                with self.assertRaises(KeyboardInterrupt):
                    for thread in threads:
                        thread.start()
                    wait()
            finally:
                stop.set()
            for thread in threads:
                thread.join()

    def test_ctrl_c_ends_opening(self):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        main = threading.main_thread().ident
        timer = threading.Timer(0.01, signal.pthread_kill, [main, signal.SIGINT])
        with self.assertRaises(KeyboardInterrupt):
            timer.start()
            # No publisher hands out descriptors there: opening waits.
            Subscriber(f"shm+fd://{self.folder}/absent", timeout="1h")
        timer.join()

    def test_a_loop_waits_for_the_descriptor(self):
        publisher, subscriber = self.pair()
        other = Subscriber("shm://pair", dir=self.folder)
        self.addCleanup(other.close)
        self.assertEqual(subscriber.fileno(), subscriber.event_fd())
        count = 2000

        async def publish():
            for n in range(count):
                while publisher.try_publish(b"%d" % n) is None:
                    await asyncio.sleep(0)
                if n % 100 == 0:
                    await asyncio.sleep(0)
            publisher.close()

        async def read(subscriber):
            return [int(bytes(message)) async for message in subscriber]

        async def run():
            all_three = asyncio.gather(read(subscriber), read(other), publish())
            return await asyncio.wait_for(all_three, WATCHDOG)

        first, second, _ = asyncio.run(run())
        self.assertEqual((first, second), (list(range(count)), list(range(count))))

    def test_closing_ends_a_loop_that_waits(self):
        _, subscriber = self.pair()

        async def read():
            async for _ in subscriber:
                pass

        async def run():
            task = asyncio.create_task(read())
            # One turn, and it waits for the descriptor.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            subscriber.close()
            with self.assertRaises(olivine.Closed):
                await asyncio.wait_for(task, WATCHDOG)
            # The number of its descriptor is free for other files.
            ours, theirs = os.pipe()
            self.addCleanup(os.close, theirs)
            self.addCleanup(os.close, ours)
            heard = asyncio.get_running_loop().create_future()
            hear = lambda: heard.done() or heard.set_result(None)
            asyncio.get_running_loop().add_reader(ours, hear)
            os.write(theirs, b"x")
            await asyncio.wait_for(heard, WATCHDOG)
            asyncio.get_running_loop().remove_reader(ours)

        asyncio.run(run())

    def test_a_cancelled_loop_can_go_on(self):
        publisher, subscriber = self.pair()

        async def run():
            messages = aiter(subscriber)
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(messages), 0.01)
            publisher.publish(b"later")
            return await asyncio.wait_for(anext(messages), WATCHDOG)

        self.assertEqual(bytes(asyncio.run(run())), b"later")


if __name__ == "__main__":
    unittest.main()
