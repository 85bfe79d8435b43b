// A program without exceptions that looks at each answer: it opens, publishes and receives, bytes
// and values, and goes on after each failure.

#include "olivine_typed.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>

#define WANT(condition)                                                                            \
    if (!(condition)) {                                                                            \
        std::fprintf(stderr, "results.cpp:%d: %s\n", __LINE__, #condition);                        \
        std::exit(1);                                                                              \
    }

using namespace olivine::results;
using olivine::Message;

struct Tick {
    static constexpr const char *TYPE_NAME = "tick v1";
    std::uint64_t bid;
};

struct Tock {
    static constexpr const char *TYPE_NAME = "tock v1";
    std::uint64_t bid;
};

// Whether it failed with this status, and says so in words that have `part`.
template <class T>
static bool failed(const olivine::Result<T> &result, olivine_status status, const char *part) {
    if (result || result.status() != status || result.text().find(part) == std::string::npos) {
        std::fprintf(stderr, "status %d: %s\n", static_cast<int>(result.status()),
            result.text().c_str());
        return false;
    }
    return true;
}

static void refusals() {
    WANT(failed(Publisher::open("shm://x?capacity=1"), OLIVINE_STATUS_URI_VALUE, "capacity=1"));
    WANT(failed(Subscriber::open("shm://x", {{"colour", "red"}}), OLIVINE_STATUS_URI_UNKNOWN_KEY,
        "colour"));
    WANT(failed(Publisher::open(std::string("inproc://cut\0here", 17)), OLIVINE_STATUS_BAD_ARGUMENT,
        "the URI has a NUL at byte 12, behind 'inproc://cut'"));
    WANT(failed(Subscriber::open("inproc://cut", {{"name", std::string("a\0b", 3)}}),
        OLIVINE_STATUS_BAD_ARGUMENT, "the value of 'name' has a NUL at byte 1, behind 'a'"));
    WANT(failed(Subscriber::open("inproc://cut", {{std::string("name\0", 5), "a"}}),
        OLIVINE_STATUS_BAD_ARGUMENT, "a key of the settings has a NUL at byte 4"));
    auto typed = Publisher::open("inproc://typed", olivine::type_of<Tick>());
    WANT(typed);
    WANT(failed(typed->publish("short"), OLIVINE_STATUS_BAD_ARGUMENT, "length"));
    auto open = Publisher::open("inproc://open");
    WANT(open && failed(open->publish(olivine::Bytes(nullptr, 5)), OLIVINE_STATUS_NULL_ARGUMENT,
                     "argument 'data' is NULL"));
    auto other = olivine::type_of<Tick>();
    other.name = "tick v2";
    WANT(failed(Subscriber::open("inproc://typed", other), OLIVINE_STATUS_OPEN_TYPE, "tick v2"));
}

static void sending() {
    auto opened = Publisher::open("inproc://results?capacity=4KiB");
    WANT(opened && opened.status() == OLIVINE_STATUS_OK && opened.text().empty());
    Publisher publisher = std::move(*opened);
    auto subscriber = Subscriber::open("inproc://results");
    WANT(subscriber);
    const auto most = publisher.message_max();
    const std::string large(*most, 'x');
    WANT(*publisher.try_publish(large));
    // An everyday outcome, and not a failure.
    auto full = publisher.try_publish(large);
    WANT(full && !*full);
    auto claimed = publisher.try_claim(large.size());
    WANT(claimed && !*claimed);
    const std::chrono::milliseconds soon(1);
    WANT(failed(publisher.publish_timeout(large, soon), OLIVINE_STATUS_BACK_PRESSURED,
        "capacity="));
    WANT(failed(publisher.claim_timeout(large.size(), soon), OLIVINE_STATUS_BACK_PRESSURED,
        "read far enough"));
    WANT(*subscriber->poll([](const Message &) {}, 10) == 1);
    WANT(subscriber->release());
    std::size_t sent = 99;
    const std::string longer(8 << 20, 'x');
    WANT(failed(publisher.publish_batch({{"one"}, {"two"}, {longer}}, &sent),
        OLIVINE_STATUS_TOO_LONG, "message 2 of the batch, counted from 0, was not sent"));
    WANT(sent == 2);
    WANT(failed(publisher.try_publish("about", {0, "a..b"}), OLIVINE_STATUS_TOPIC, "a..b"));
    auto claim = publisher.claim(3);
    WANT(claim && claim->size() == 3);
    WANT(failed(publisher.publish("meanwhile"), OLIVINE_STATUS_CLAIM_OPEN, "open claim"));
    WANT(claim->commit());
    WANT(failed(claim->commit(), OLIVINE_STATUS_NULL_ARGUMENT, "the claim is gone"));
    const auto stats = publisher.stats();
    WANT(stats->evicted == 0 && !*publisher.link_status());
    WANT(publisher.close() && publisher.close());
    WANT(failed(publisher.publish("late"), OLIVINE_STATUS_NULL_ARGUMENT, "publisher is closed"));
    WANT(failed(publisher.close_failed("late"), OLIVINE_STATUS_NULL_ARGUMENT,
        "publisher is closed"));
    WANT(failed(publisher.link_status(), OLIVINE_STATUS_NULL_ARGUMENT, "publisher is closed"));
}

// The whole life of a stream: messages, a failure, the next publisher, the end.
static void receiving(const char *uri) {
    auto opened = Subscriber::open(uri, {{"capacity", "4KiB"}});
    WANT(opened);
    Subscriber &subscriber = *opened;
    auto none = subscriber.try_receive();
    WANT(none && !*none);
    WANT(subscriber.wait(std::chrono::milliseconds(1)) &&
         !*subscriber.wait(std::chrono::milliseconds(1)));
    for (const char *reason : {"no more ticks", static_cast<const char *>(nullptr)}) {
        auto publisher = Publisher::open(uri);
        WANT(publisher && publisher->publish("tick", 7) && publisher->publish("tock", 8));
        WANT(reason == nullptr ? publisher->close() : publisher->close_failed(reason));
        int received = 0;
        olivine_status ended = OLIVINE_STATUS_OK;
        while (ended == OLIVINE_STATUS_OK) {
            auto message = subscriber.receive();
            if (message) {
                WANT(message->text() == (received == 0 ? "tick" : "tock"));
                received++;
            }
            ended = message.status();
            WANT(ended != OLIVINE_STATUS_RECEIVE_LINK || failed(message, ended, reason));
        }
        WANT(received == 2);
        WANT(ended == (reason == nullptr ? OLIVINE_STATUS_END_OF_STREAM
                                         : OLIVINE_STATUS_RECEIVE_LINK));
    }
    WANT(subscriber.unsubscribe());
    WANT(failed(subscriber.receive(), OLIVINE_STATUS_NULL_ARGUMENT, "subscriber is closed"));
    WANT(failed(subscriber.unsubscribe(), OLIVINE_STATUS_NULL_ARGUMENT, "subscriber is closed"));
    Subscriber moved = std::move(subscriber);
    WANT(failed(subscriber.lag(), OLIVINE_STATUS_NULL_ARGUMENT, "subscriber was moved from"));
}

// Values of one type: alone, in arrays, and what is refused.
static void values() {
    using Ticks = TypedSubscriber<Tick>;
    const std::chrono::milliseconds soon(1);
    auto opened = TypedPublisher<Tick>::open("inproc://values?capacity=4KiB");
    WANT(opened && opened.text().empty());
    TypedPublisher<Tick> publisher = std::move(*opened);
    WANT(failed(opened->publish({1}), OLIVINE_STATUS_NULL_ARGUMENT, "publisher was moved from"));
    WANT(failed(TypedPublisher<Tock>::open("inproc://values"), OLIVINE_STATUS_OPEN_TYPE,
        "tock v1"));
    WANT(failed(Ticks::open("inproc://values", {{"colour", "red"}}),
        OLIVINE_STATUS_URI_UNKNOWN_KEY, "colour"));
    auto ticks = Ticks::open("inproc://values");
    WANT(ticks);
    // An everyday outcome, and not a failure.
    auto none = ticks->try_receive();
    WANT(none && !*none);
    auto late = ticks->receive_timeout(soon);
    WANT(late && !*late);
    auto position = publisher.publish({1}, 7);
    WANT(position && *publisher.publisher().cursor() == *position);
    WANT(*publisher.try_publish({2}) && publisher.publish_timeout({3}, soon));
    const std::vector<Tick> several{{4}, {5}, {6}};
    WANT(*publisher.publish_batch(several.data(), 2) == 2);
    WANT(*publisher.try_publish_batch(several.data() + 2, 1) == 1);
    WANT(*publisher.publish_batch_timeout(several.data(), 0, soon) == 0);
    WANT(ticks->receive()->bid == 1);
    WANT((*ticks->try_receive())->bid == 2 && (*ticks->receive_timeout(soon))->bid == 3);
    Tick found[8];
    olivine_detail details[8];
    std::size_t copied = 9;
    auto rows = ticks->poll_into(found, 8, details, &copied);
    WANT(rows && *rows == 3 && copied == 3 && found[2].bid == 6 && details[0].tag == 0);
    // A message of the handle inside: its value is of this length.
    WANT(publisher.publish({7}));
    WANT(ticks->subscriber().receive()->as<Tick>().bid == 7 && ticks->subscriber().release());
    const std::vector<Tick> many(1024);
    std::size_t sent = 0;
    auto full = publisher.publish_batch_timeout(many.data(), many.size(), soon, &sent);
    WANT(full && *full == sent && sent > 0 && sent < many.size());
    auto more = publisher.try_publish({8});
    WANT(more && !*more);
    WANT(failed(publisher.publish_timeout({8}, soon), OLIVINE_STATUS_BACK_PRESSURED, "capacity="));
    for (std::size_t tick = 0; tick < sent; ++tick) {
        WANT(ticks->receive());
    }
    WANT(publisher.close() && publisher.close());
    WANT(failed(publisher.publish({8}), OLIVINE_STATUS_NULL_ARGUMENT, "publisher is closed"));
    WANT(failed(ticks->receive(), OLIVINE_STATUS_END_OF_STREAM, "closed"));
    WANT(failed(ticks->receive_timeout(soon), OLIVINE_STATUS_END_OF_STREAM, "closed"));
    WANT(failed(ticks->poll_into(found, 8, nullptr, &copied), OLIVINE_STATUS_END_OF_STREAM,
        "closed"));
    WANT(copied == 0 && ticks->close());
    WANT(failed(ticks->try_receive(), OLIVINE_STATUS_NULL_ARGUMENT, "subscriber is closed"));
    Ticks moved = std::move(*ticks);
    WANT(failed(ticks->receive(), OLIVINE_STATUS_NULL_ARGUMENT, "subscriber was moved from"));
}

// A value of a failed publisher comes before its reason.
static void failed_values() {
    auto ticks = TypedSubscriber<Tick>::open("inproc://failing");
    auto publisher = TypedPublisher<Tick>::open("inproc://failing");
    WANT(ticks && publisher && publisher->publish({1}));
    WANT(publisher->publisher().close_failed("no more ticks"));
    WANT(ticks->receive()->bid == 1);
    WANT(failed(ticks->receive(), OLIVINE_STATUS_RECEIVE_LINK, "no more ticks"));
}

int main(int count, char **words) {
    WANT(count == 2);
    refusals();
    sending();
    receiving(words[1]);
    values();
    failed_values();
    std::puts("answered");
    return 0;
}
