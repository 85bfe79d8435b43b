"""What a forked child does with its parent's handles: every member refuses, and closing lets go."""

import asyncio
import gc
import inspect
import os
import signal
import threading
import time
import unittest
import weakref

import olivine
from case import WATCHDOG, Case
from olivine import Publisher, Subscriber, aio

try:
    import numpy
except ImportError:
    numpy = None

# Members that neither send nor receive nor look at the channel.
PLAIN = {"tag", "lane", "position", "topic", "alive", "__len__", "__repr__", "__dlpack_device__"}
# Members that end a handle: a child lets go of its copy.
ENDS = {"close", "close_failed", "drop"}
# What a member is called with. Its row is wanted of each member that has parameters.
ARGUMENTS = {
    "publish": (b"x",),
    "try_publish": (b"x",),
    "publish_timeout": (b"x", 1),
    "publish_batch": ([b"x"],),
    "try_publish_batch": ([b"x"],),
    "publish_batch_timeout": ([b"x"], 1),
    "publish_array": (memoryview(b"x"),),
    "try_publish_array": (memoryview(b"x"),),
    "publish_array_timeout": (memoryview(b"x"), 1),
    "claim": (1,),
    "try_claim": (1,),
    "claim_timeout": (1, 1),
    "wait_for_room": (1,),
    "wait_for_subscribers": (9,),
    "close_failed": ("reason",),
    "receive_timeout": (1,),
    "receive_array": ("u1",),
    "poll_into": (memoryview(bytearray(8)),),
}
# Members with two underscores that use a channel.
SPECIAL = {
    Publisher: ["__enter__"],
    Subscriber: ["__enter__", "__iter__", "__next__", "__aiter__"],
    olivine.Claim: ["__enter__", "__dlpack__"],
    olivine.Message: ["__bytes__", "__dlpack__"],
}


def uses(handle):
    """Each member of an object that uses its channel, as a call."""
    cls = type(handle)
    names = [name for name in vars(cls) if not name.startswith("_")] + SPECIAL.get(cls, [])
    for name in names:
        if name in ENDS or name == "handle":
            continue
        if name in PLAIN and cls is olivine.Message:
            continue
        if name == "receive_array" and numpy is None:
            continue
        if isinstance(inspect.getattr_static(cls, name), property) or not callable(
            inspect.getattr_static(cls, name)
        ):
            yield name, lambda name=name: getattr(handle, name)
        else:
            arguments = ARGUMENTS.get(name, ())
            yield name, lambda name=name, arguments=arguments: getattr(handle, name)(*arguments)


def faults(calls):
    """What did not raise Forked."""
    for name, call in calls:
        try:
            result = call()
            if inspect.isawaitable(result):
                result = asyncio.run(asyncio.wait_for(result, WATCHDOG))
            yield f"{name} returned {result!r}"
        except olivine.Forked as error:
            if "after fork" not in str(error):
                yield f"{name}: {error}"
        except BaseException as error:
            yield f"{name} raised {error!r}"


class Fork(Case):
    def child(self, work, parent=lambda: None):
        """Expects no line of `work`, which runs in a forked child, while `parent` runs here."""
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            signal.alarm(WATCHDOG)
            try:
                said = list(work())
            except BaseException as error:
                said = [f"raised {error!r}"]
            os.write(theirs, "\n".join([*said, "done"]).encode())
            os._exit(0)
        os.close(theirs)
        parent()
        with os.fdopen(ours) as pipe:
            self.assertEqual(pipe.read(), "done")
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_every_member_is_refused(self):
        publisher, subscriber = self.pair()
        publisher.publish_batch([b"a", b"b", b"c"])
        [copy] = subscriber.poll(1)
        message = subscriber.receive()
        seen = []

        def work():
            for handle in [publisher, subscriber, message]:
                calls = list(uses(handle))
                seen.extend(calls)
                yield from faults(calls)
            yield from faults([("release of a copy", copy.release)])
            if len(seen) < 45 or bytes(copy) != b"a" or message.alive or message.tag != 0:
                yield f"{len(seen)} members, {copy!r}, {message!r}"
            if "parent" not in repr(publisher) or "parent" not in repr(subscriber):
                yield f"{publisher!r} {subscriber!r}"

        self.child(work)
        self.assertEqual(bytes(message), b"b")
        self.assertEqual(bytes(subscriber.receive()), b"c")

    def test_every_member_is_refused_whatever_the_parent_was_in_the_middle_of(self):
        publisher, subscriber = self.pair()
        failing, cancelled = self.pair(), self.pair()
        publisher.publish(b"a")
        view = memoryview(subscriber.receive())
        claim = publisher.claim(4)
        shown = memoryview(claim)
        failing[0].publish(b"b")
        with self.assertRaises(ZeroDivisionError):
            failing[1].poll(1, lambda message: 1 / 0)
        for handle in cancelled:
            handle.cancel()
        # Another thread of the parent waits with it.
        waiting = Subscriber("shm://pair", dir=self.folder)
        self.addCleanup(waiting.close)
        got = []
        thread = threading.Thread(target=lambda: got.extend(waiting))
        thread.start()
        self.in_use(waiting)
        closed = Subscriber("shm://pair", dir=self.folder)
        closed.close()
        handles = [publisher, subscriber, claim, *failing, *cancelled, waiting, closed]

        def work():
            for handle in handles:
                yield from faults(uses(handle))
            waiting.close()

        self.child(work)
        del view
        self.assertEqual([bytes(m) for m in failing[1].poll()], [b"a", b"b"])
        shown[:] = b"four"
        del shown
        claim.commit()
        self.assertEqual([bytes(m) for m in subscriber.poll()], [b"b", b"four"])
        for end in [publisher, failing[0], cancelled[0]]:
            end.close()
        thread.join()
        self.assertEqual([bytes(m) for m in got], [b"four"])

    def in_use(self, handle):
        """Returns once another thread waits with the handle."""
        while True:
            # CPython 3.10 lets no other thread run where a loop begins with `try`.
            time.sleep(0)
            try:
                handle.uri
            except olivine.InUse:
                return

    def test_a_child_closes_its_copies_and_the_parent_goes_on(self):
        publisher, subscriber = self.pair(name="place")
        claiming, viewing = self.pair()
        claim = claiming.claim(4)
        shown = memoryview(claim)
        claiming_too, _ = self.pair()
        claiming_too.claim(4)
        publisher.publish(b"a")
        view = memoryview(viewing.receive())
        ends = [publisher, subscriber, claiming, viewing, claiming_too]

        def work():
            for end in ends:
                for name in [name for name in vars(type(end)) if name in ENDS]:
                    for _ in range(2):
                        getattr(end, name)(*ARGUMENTS.get(name, ()))
                end.__exit__(None, None, None)
                end.__exit__(ValueError, ValueError("x"), None)
                yield from faults(uses(end))

        self.child(work)
        self.assertEqual(bytes(view), b"a")
        del view
        shown[:] = b"four"
        del shown
        claim.commit()
        publisher.publish(b"b")
        self.assertEqual(sorted(bytes(m) for m in viewing.poll()), [b"b", b"four"])
        self.assertEqual(len(subscriber.poll()), 3)
        subscriber.drop()
        with Subscriber("shm://pair", dir=self.folder, name="place") as again:
            self.assertEqual(again.durable, "resumed")

    def test_a_view_changes_under_a_child_and_a_copy_does_not(self):
        publisher, subscriber = self.pair()
        publisher.publish(b"before")
        view = memoryview(subscriber.receive())
        copy = bytes(view)
        goes_on, went_on = os.pipe()

        def work():
            os.close(went_on)
            # Ends once the parent has gone on.
            os.read(goes_on, 1)
            if bytes(view) == b"before" or copy != b"before":
                yield f"{bytes(view)} {copy}"

        def parent():
            nonlocal view
            del view
            for _ in range(1000):
                publisher.publish(b"behind")
                subscriber.poll()
            os.close(went_on)

        self.child(work, parent)
        os.close(goes_on)
        for cls in [olivine.Message, olivine.Claim]:
            self.assertIn("before a fork", cls.__doc__)

    def test_a_child_may_collect_its_copies(self):
        uri = f"shm://collected?dir={self.folder}"
        holders = [[Publisher(uri)], [Subscriber(uri)], [Publisher(uri, linger="1h")]]
        holders[2][0].publish(b"unread")

        def work():
            for holder in holders:
                gone = weakref.ref(holder.pop())
                gc.collect()
                if gone() is not None:
                    yield f"{gone()} is still there"

        self.child(work)
        [publisher], [subscriber], [lingering] = holders
        publisher.publish(b"goes on")
        self.assertEqual(sorted(bytes(m) for m in subscriber.poll()), [b"goes on", b"unread"])
        for end in [publisher, subscriber, lingering]:
            end.close()

    def test_a_block_around_a_fork_ends_in_both(self):
        publisher, subscriber = self.pair()
        ours, theirs = os.pipe()
        with Publisher("shm://pair", dir=self.folder) as one:
            with Subscriber("shm://pair", dir=self.folder) as other:
                child = os.fork()
        if child == 0:
            os.write(theirs, b"ended")
            os._exit(0)
        os.close(theirs)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual(os.read(ours, 100), b"ended")
        os.close(ours)
        publisher.publish(b"goes on")
        self.assertEqual(bytes(subscriber.receive()), b"goes on")

    def test_a_block_of_a_claim_or_a_message_is_refused_at_its_end(self):
        publisher, subscriber = self.pair()
        publisher.publish(b"a")
        claim, message = publisher.claim(4), subscriber.receive()
        failing = Publisher("shm://pair", dir=self.folder)
        self.addCleanup(failing.close)
        kept, left = claim.__enter__(), failing.claim(4)
        shown = left.__enter__()
        message.__enter__()
        none = (None, None, None)
        error = (ValueError, ValueError("x"), None)

        def work():
            yield from faults([("claim", lambda: claim.__exit__(*none))])
            yield from faults([("message", lambda: message.__exit__(*none))])
            # The exception that leaves the block matters more.
            left.__exit__(*error)
            message.__exit__(*error)
            for view in [kept, shown]:
                try:
                    yield f"{view.tobytes()} is still there"
                except ValueError:
                    pass

        self.child(work)
        kept[:] = b"four"
        claim.__exit__(*none)
        shown[:] = b"five"
        left.__exit__(*none)
        message.__exit__(*none)
        self.assertEqual(sorted(bytes(m) for m in subscriber.poll()), [b"five", b"four"])

    def test_an_end_for_asyncio_that_is_not_open_yet_opens_in_a_child(self):
        refused = aio.Publisher("smh://x")

        async def start():
            with self.assertRaises(olivine.UriError):
                await refused

        asyncio.run(start())

        def work():
            async def again():
                try:
                    await asyncio.wait_for(refused, WATCHDOG)
                    return "it opened"
                except olivine.UriError:
                    return None

            said = asyncio.run(again())
            if said:
                yield said

        self.child(work)

    def test_ends_for_asyncio_are_refused_and_closed(self):
        async def use(end):
            async def loop():
                async for message in end:
                    return message

            await loop()

        uri = f"shm://pair?dir={self.folder}"
        publisher, subscriber = aio.Publisher(uri), aio.Subscriber(uri)

        async def start():
            await subscriber
            await publisher
            # Its thread exists then.
            await publisher.wait_for_subscribers(1)

        asyncio.run(start())

        def work():
            for end in [publisher, subscriber]:
                yield from faults(uses(end))
            yield from faults([("async for", lambda: use(subscriber))])
            for end in [publisher, subscriber]:
                asyncio.run(asyncio.wait_for(end.close(), WATCHDOG))
                asyncio.run(asyncio.wait_for(end.__aexit__(None, None, None), WATCHDOG))

        self.child(work)

        async def end():
            await publisher.publish(b"goes on")
            message = await subscriber.receive()
            await publisher.close()
            await subscriber.close()
            return bytes(message)

        self.assertEqual(asyncio.run(end()), b"goes on")


if __name__ == "__main__":
    unittest.main()
