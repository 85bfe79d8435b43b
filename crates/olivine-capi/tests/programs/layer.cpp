// The C++ layer, within one process: values, exceptions, moves, handlers that throw, iteration, and
// how handles end. Argument: a channel that is not there yet.

#include "olivine.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

static void want(bool condition, const char *what, int line) {
    if (!condition) {
        std::fprintf(stderr, "layer.cpp:%d: %s\n", line, what);
        std::exit(1);
    }
}
#define WANT(condition) want((condition), #condition, __LINE__)

// Whether `call` throws a `Thrown` of this status, with a text.
template <class Thrown, class Call> static bool throws(olivine_status status, Call &&call) {
    try {
        call();
    } catch (const Thrown &error) {
        return error.status() == status && std::strlen(error.what()) > 10;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "thrown instead: %s\n", error.what());
    }
    return false;
}

// Whether `call` is refused because the handle is gone or an argument is NULL, in these words.
template <class Call> static bool gone(std::string_view words, Call &&call) {
    try {
        call();
    } catch (const olivine::UsageError &error) {
        return error.status() == OLIVINE_STATUS_NULL_ARGUMENT &&
               std::string_view(error.what()).find(words) == 0;
    }
    return false;
}

static void refusals() {
    using namespace olivine;
    WANT(throws<UriError>(OLIVINE_STATUS_URI_VALUE, [] { Publisher("shm://x?capacity=1"); }));
    WANT(throws<UriError>(OLIVINE_STATUS_URI_UNKNOWN_KEY,
                          [] { Subscriber("shm://x", {{"colour", "red"}}); }));
    const auto open = [] { Publisher("shm://x?dir=/proc/none"); };
    WANT(throws<OpenError>(OLIVINE_STATUS_OPEN_FOLDER, open) ||
         throws<OpenError>(OLIVINE_STATUS_OPEN_IO, open));
    Publisher publisher("inproc://layer?capacity=4KiB");
    WANT(throws<NotSent>(OLIVINE_STATUS_TOO_LONG,
                         [&] { publisher.publish(std::string(1 << 20, 'x')); }));
    // An open handle, and an argument that is NULL.
    WANT(gone("argument 'data' is NULL", [&] { publisher.publish(Bytes(nullptr, 5)); }));
    WANT(gone("message 1 of the batch",
        [&] { publisher.publish_batch({{"one"}, {Bytes(nullptr, 3)}}); }));
    Publisher moved = std::move(publisher);
    WANT(moved.message_max() > 1000);
    WANT(gone("the publisher was moved from", [&] { publisher.try_publish("moved from"); }));
    publisher.close();
    moved.close();
    moved.close();
    WANT(gone("the publisher is closed", [&] { moved.try_publish("closed"); }));
    WANT(gone("the publisher is closed", [&] { moved.claim(1); }));
    WANT(gone("the publisher is closed", [&] { moved.close_failed("late"); }));
    const std::string cut("inproc://layer\0cut", 18);
    WANT(throws<UsageError>(OLIVINE_STATUS_BAD_ARGUMENT, [&] { Publisher{cut}; }));
    WANT(throws<UsageError>(OLIVINE_STATUS_BAD_ARGUMENT,
        [&] { Subscriber("inproc://layer", {{"topic", std::string("a\0b", 3)}}); }));
    Subscriber subscriber("inproc://layer");
    Subscriber other = std::move(subscriber);
    WANT(gone("the subscriber was moved from", [&] { subscriber.try_receive(); }));
    WANT(gone("the subscriber was moved from", [&] { subscriber.begin(); }));
    WANT(gone("argument 'array' is NULL", [&] { other.poll_into(nullptr, 8, 1); }));
    other.close();
    WANT(gone("the subscriber is closed", [&] { other.poll([](const Message &) {}, 1); }));
    WANT(gone("the subscriber is closed", [&] { other.unsubscribe(); }));
    Publisher claiming("inproc://layer");
    Claim claim = claiming.claim(1);
    claiming.close();
    WANT(gone("the claim is gone", [&] { claim.commit(); }));
    WANT(gone("the claim is gone", [&] { claim.abort(); }));
}

static void values() {
    using namespace olivine;
    Subscriber subscriber("inproc://values", {{"capacity", "4KiB"}, {"topic", "a.*"}});
    Publisher publisher("inproc://values?topic=a.b");
    WANT(publisher.wait_for_subscribers(1));
    WANT(!publisher.wait_for_subscribers(2, std::chrono::microseconds(1)));
    WANT(!subscriber.try_receive() && !subscriber.wait(std::chrono::nanoseconds(1)));
    const std::array<std::uint16_t, 2> numbers{0x0102, 0x0304};
    const auto offered = publisher.try_publish(numbers, 7);
    WANT(offered && *offered == publisher.cursor());
    publisher.publish(std::string("text"));
    WANT(publisher.publish_batch({{"one", 1}, {std::string_view("two"), 2}}) == 2);
    {
        auto claim = publisher.try_claim(3);
        WANT(claim && claim->size() == 3);
        std::memcpy(claim->data(), "bad", 3);
    }
    {
        auto claim = publisher.try_claim(3, 3);
        WANT(throws<UsageError>(OLIVINE_STATUS_CLAIM_OPEN,
            [&] { publisher.try_publish("meanwhile"); }));
        std::memcpy(claim->data(), "new", 3);
        Claim other = std::move(*claim);
        const Position committed = other.commit();
        WANT(committed == publisher.cursor());
    }
    publisher.publish("not asked for", {0, "b.c"});

    const auto message = subscriber.receive();
    WANT(message.size() == 4 && message.tag() == 7 && message.topic() == "a.b");
    WANT(message[0] == std::byte{0x02} && subscriber.lag() > 0);
    // Thrown at the second of them: it comes again.
    std::string seen;
    const auto picky = [&](const Message &next) {
        if (next.text() == "one" && seen.size() == 4) {
            seen += '!';
            throw std::length_error("picky");
        }
        seen += next.text();
    };
    bool threw = false;
    try {
        subscriber.poll(picky, 10);
    } catch (const std::length_error &) {
        threw = true;
    }
    WANT(threw && seen == "text!");
    WANT(subscriber.poll(picky, 10) == 3 && seen == "text!onetwonew");
    subscriber.release();
    WANT(subscriber.event_fd() >= 0 && subscriber.lost_bytes() == 0);
    WANT(publisher.stats().evicted == 0 && publisher.count_subscribers() == 1);
    // No room: nothing, or an exception.
    const std::string large(publisher.message_max(), 'x');
    while (publisher.try_publish(large)) {
    }
    WANT(throws<BackPressured>(OLIVINE_STATUS_BACK_PRESSURED,
                               [&] { publisher.publish_timeout(large,
                                   std::chrono::milliseconds(1)); }));
    WANT(!publisher.try_claim(large.size()));
    WANT(throws<BackPressured>(OLIVINE_STATUS_BACK_PRESSURED,
                               [&] { publisher.claim_timeout(large.size(),
                                   std::chrono::milliseconds(1)); }));
    WANT(publisher.try_publish_batch({{large}, {large}}) == 0);
    WANT(publisher.publish_batch_timeout({{large}, {large}}, std::chrono::milliseconds(1)) == 0);
    subscriber.poll([](const Message &) {}, 1000);
    subscriber.release();
    std::size_t sent = 99;
    const std::string longer(8 << 20, 'x');
    WANT(throws<NotSent>(OLIVINE_STATUS_TOO_LONG,
                         [&] { publisher.publish_batch({{"one"}, {"two"}, {longer}, {"four"}},
                             &sent); }));
    WANT(sent == 2);
}

// A claim that is there when its publisher closes, dies or is another one from now on.
static void claims() {
    using namespace olivine;
    Subscriber subscriber("inproc://claims?capacity=4KiB");
    Publisher publisher("inproc://claims");
    {
        auto claim = publisher.try_claim(3);
        publisher.close();
        WANT(throws<UsageError>(OLIVINE_STATUS_NULL_ARGUMENT, [&] { claim->commit(); }));
    }
    publisher = Publisher("inproc://claims");
    {
        auto outlived = publisher.try_claim(3);
        publisher = Publisher("inproc://claims");
        // The publisher's own from now on, which the older one must not give up.
        auto claim = publisher.try_claim(3);
        outlived.reset();
        std::memcpy(claim->data(), "two", 3);
        Publisher moved = std::move(publisher);
        claim->commit();
        publisher = std::move(moved);
    }
    std::optional<Claim> widow;
    {
        Publisher dies("inproc://claims");
        auto claim = dies.try_claim(3);
        widow.emplace(std::move(*claim));
    }
    WANT(throws<UsageError>(OLIVINE_STATUS_NULL_ARGUMENT, [&] { widow->abort(); }));
    const auto message = subscriber.receive();
    WANT(message.text() == "two");
    WANT(!subscriber.try_receive());
}

// A handler that ends its own subscriber: that leaves the channel with the end of the poll at the
// latest.
static void ending() {
    using namespace olivine;
    const char *uri = "inproc://ending?capacity=4KiB";
    Publisher publisher(uri);
    std::optional<Subscriber> subscriber;
    const auto polled = [&](auto &&end) {
        subscriber.emplace(uri);
        publisher.publish("one");
        publisher.publish("two");
        WANT(publisher.count_subscribers() == 1);
        return subscriber->poll(end, 1);
    };
    WANT(polled([&](const Message &) { subscriber.reset(); }) == 1);
    WANT(!subscriber && publisher.count_subscribers() == 0);
    WANT(polled([&](const Message &) { *subscriber = Subscriber("inproc://other"); }) == 1);
    WANT(publisher.count_subscribers() == 0 && subscriber->lag() == 0);
    WANT(throws<UsageError>(OLIVINE_STATUS_IN_USE, [&] {
        polled([&](const Message &) { subscriber->close(); });
    }));
    // It is still what it was, and so is the message.
    WANT(publisher.count_subscribers() == 1 && subscriber->receive().text() == "one");
    subscriber->close();
    WANT(publisher.count_subscribers() == 0);
}

static void stream() {
    olivine::Subscriber subscriber("inproc://stream?capacity=4KiB");
    olivine::Publisher publisher("inproc://stream");
    constexpr std::uint32_t count = 10000;
    std::thread thread([publisher = std::move(publisher)]() mutable {
        for (std::uint32_t n = 0; n < count; n++) {
            publisher.publish(olivine::Bytes(&n, sizeof n), n);
        }
        publisher.close();
    });
    std::uint32_t next = 0;
    for (const olivine::Message &message : subscriber) {
        WANT(message.size() == sizeof next && std::memcmp(message.data(), &next, sizeof next) == 0);
        WANT(message.tag() == next);
        next++;
    }
    thread.join();
    WANT(next == count);
    WANT(throws<olivine::EndOfStream>(OLIVINE_STATUS_END_OF_STREAM, [&] { subscriber.receive(); }));
}

// An exception that destroys a publisher does not end the stream.
static void unwinding() {
    const auto reason_of = [](auto &&use) {
        olivine::Subscriber subscriber("inproc://unwound?capacity=4KiB");
        try {
            olivine::Publisher publisher("inproc://unwound");
            publisher.publish("before");
            use(publisher);
        } catch (const std::length_error &) {
        }
        WANT(subscriber.receive().text() == "before");
        try {
            subscriber.receive();
        } catch (const olivine::ReceiveError &error) {
            return std::string(error.what());
        }
        return std::string();
    };
    const auto has = [](const std::string &text, const char *part) {
        return text.find(part) != std::string::npos;
    };
    const std::string thrown =
        reason_of([](olivine::Publisher &) { throw std::length_error("in the middle"); });
    WANT(has(thrown, "an exception destroyed its publisher"));
    const std::string reason("no\0more ticks", 13);
    const std::string told =
        reason_of([&](olivine::Publisher &publisher) { publisher.close_failed(reason); });
    WANT(has(told, "no more ticks"));
    const std::string ended = reason_of([](olivine::Publisher &) {});
    WANT(!ended.empty() && !has(ended, "failed"));
}

// The next message of a durable name; what becomes of it is for `use` to say.
template <class Use> static char next_of(const char *uri, Use &&use) {
    olivine::Subscriber subscriber(uri, {{"name", "archive"}});
    const auto message = subscriber.try_receive();
    WANT(message && message->size() == 1);
    const char first = message->text()[0];
    use(subscriber);
    return first;
}

// Destroying is what drop is elsewhere: the message that was being worked on comes again.
static void durable(const char *uri) {
    using olivine::Subscriber;
    {
        Subscriber created(uri, {{"name", "archive"}});
        WANT(created.durable() == OLIVINE_DURABLE_CREATED && !created.check_unlinked());
        created.close();
    }
    {
        Subscriber resumed(uri, {{"name", "archive"}});
        WANT(resumed.durable() == OLIVINE_DURABLE_RESUMED);
        resumed.close();
        WANT(Subscriber(uri).durable() == OLIVINE_DURABLE_NONE);
    }
    olivine::Publisher publisher(uri);
    for (const char *text : {"0", "1", "2", "3", "4"}) {
        publisher.publish(text);
    }
    bool unwound = false;
    try {
        next_of(uri, [](Subscriber &) { throw std::length_error("in the middle"); });
    } catch (const std::length_error &) {
        unwound = true;
    }
    WANT(unwound);
    WANT(next_of(uri, [](Subscriber &) {}) == '0');
    WANT(next_of(uri, [](Subscriber &subscriber) { subscriber.drop(); }) == '0');
    WANT(next_of(uri, [](Subscriber &subscriber) { subscriber.close(); }) == '0');
    WANT(next_of(uri, [](Subscriber &subscriber) { subscriber.release(); }) == '1');
    // Given to another handle: what that held comes again as well.
    const auto replace = [](Subscriber &subscriber) { subscriber = Subscriber("inproc://other"); };
    WANT(next_of(uri, replace) == '2');
    const auto forget = [](Subscriber &subscriber) {
        subscriber.unsubscribe();
        WANT(throws<olivine::UsageError>(OLIVINE_STATUS_NULL_ARGUMENT,
                                         [&] { subscriber.unsubscribe(); }));
    };
    WANT(next_of(uri, forget) == '2');
}

static void links() {
    using namespace olivine;
    const Publisher inside("inproc://links");
    WANT(!inside.link_status());
    // No program listens at this address.
    Subscriber subscriber("tcp://127.0.0.1:1/links");
    WANT(!subscriber.wait(std::chrono::milliseconds(1)));
    WANT(std::string_view(olivine_last_error()).find("no far side") != std::string_view::npos);
    const auto away = subscriber.link_status();
    WANT(away && away->stage == OLIVINE_LINK_STAGE_WAITING && away->failures > 0);
    const Publisher publisher("tcp://127.0.0.1:0/links?linger=1ms");
    const auto listening = publisher.link_status();
    WANT(listening && listening->address.find("127.0.0.1:") == 0 && listening->connections == 0);
    // Its texts are copies.
    WANT(away->note.find("127.0.0.1:1") != std::string::npos && away->address.empty());
}

int main(int count, char **words) {
    WANT(count == 2);
    refusals();
    values();
    claims();
    ending();
    stream();
    unwinding();
    durable(words[1]);
    links();
    std::puts("layered");
    return 0;
}
