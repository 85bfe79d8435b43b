// Values of one type in C++, alone and in arrays.
#include "olivine_typed.hpp"

#include <cstdio>
#include <cstdlib>

#define WANT(condition)                                                                            \
    if (!(condition)) {                                                                            \
        std::fprintf(stderr, "typed.cpp:%d: %s\n", __LINE__, #condition);                          \
        std::exit(1);                                                                              \
    }

struct Quote {
    static constexpr const char *TYPE_NAME = "quote v1";
    double bid;
    double ask;
    char name[8];
    int levels[3];
};

// What a program in Rust sends.
struct Tick {
    static constexpr const char *TYPE_NAME = "tick v1";
    static constexpr const char *FIELDS = "bid i64, ask i64, sequence u64";
    std::int64_t bid, ask;
    std::uint64_t sequence;
};

// The same values, understood differently.
struct Signed {
    static constexpr const char *TYPE_NAME = "tick v1";
    static constexpr const char *FIELDS = "bid i64, ask i64, sequence i64";
    std::int64_t bid, ask, sequence;
};

struct Wide {
    static constexpr const char *TYPE_NAME = "tick v1";
    Tick tick;
    double more;
};

// A type without a member for the name.
template <> struct olivine::TypeName<double> {
    static constexpr const char *value = "double";
};

// Receives what a program in Rust sends through a channel of the same type.
static int receive(const char *uri) {
    olivine::TypedSubscriber<Tick> subscriber(uri);
#if defined(__cpp_exceptions)
    try {
        olivine::TypedPublisher<Wide> other(uri);
        WANT(false);
    } catch (const olivine::OpenError &error) {
        WANT(error.status() == OLIVINE_STATUS_OPEN_TYPE);
        const std::string said = error.what();
        WANT(said.find("'tick v1 (" + std::to_string(sizeof(Tick)) + " bytes") !=
             std::string::npos);
        WANT(said.find("'tick v1 (" + std::to_string(sizeof(Wide)) + " bytes") !=
             std::string::npos);
    }
    try {
        olivine::TypedSubscriber<Signed> other(uri);
        WANT(false);
    } catch (const olivine::OpenError &error) {
        const std::string said = error.what();
        WANT(said.find("(sequence u64 at byte 16)") != std::string::npos);
        WANT(said.find("(sequence i64 at byte 16)") != std::string::npos);
    }
#endif
    std::puts("open");
    std::fflush(stdout);
    for (std::uint64_t n = 0; n < 1000; ++n) {
        const Tick tick = subscriber.receive();
        WANT(tick.sequence == n && tick.bid == -static_cast<std::int64_t>(n) && tick.ask == 7);
    }
    std::puts("1000 ticks");
    return 0;
}

int main(int argc, char **argv) {
    using namespace std::chrono_literals;
    if (argc == 2) {
        return receive(argv[1]);
    }
    olivine::TypedPublisher<double> prices("inproc://prices");
    WANT(prices.try_publish(1.5).has_value());
    olivine::TypedSubscriber<Quote> subscriber("inproc://typed", {{"capacity", "4KiB"}});
    olivine::TypedPublisher<Quote> publisher("inproc://typed");
    WANT(!subscriber.try_receive());
    WANT(!subscriber.receive_timeout(1ms));
    // Bytes of every type can be read.
    olivine::Subscriber reader("inproc://typed");
    publisher.publish({1.5, 2.5, "EURUSD", {1, 2, 3}}, 7);
    const olivine::Message message = reader.receive();
    WANT(message.size() == sizeof(Quote));
    WANT(message.as<Quote>().ask == 2.5 && message.as<Quote>().levels[1] == 2);
#if defined(__cpp_exceptions)
    try {
        message.as<double>();
        WANT(false);
    } catch (const olivine::UsageError &error) {
        const std::string said = error.what();
        WANT(said == "the message has 40 bytes, and the value has 8");
        WANT(error.status() == OLIVINE_STATUS_BAD_ARGUMENT);
    }
#endif
    reader.close();
    const Quote quote = subscriber.receive();
    WANT(quote.bid == 1.5 && quote.ask == 2.5 && std::string(quote.name) == "EURUSD");
    WANT(quote.levels[0] == 1 && quote.levels[2] == 3);
    WANT(publisher.try_publish(quote).has_value());
    publisher.publish_timeout(quote, 1s);
    std::vector<Quote> several(3, quote);
    several[2].bid = 9;
    WANT(publisher.publish_batch(several.data(), several.size()) == 3);
    WANT(publisher.try_publish_batch(several.data(), 1) == 1);
    WANT(publisher.publish_batch_timeout(several.data(), 1, 1s) == 1);
    Quote found[8];
    olivine_detail details[8];
    WANT(subscriber.poll_into(found, 8, details) == 7);
    WANT(found[4].bid == 9 && details[6].position > details[0].position);
    WANT(subscriber.poll_into(found, 8) == 0);
    // No message of another length is sent.
#if defined(__cpp_exceptions)
    try {
        publisher.publisher().publish("other");
        WANT(false);
    } catch (const olivine::UsageError &error) {
        WANT(std::string(error.what()).find("is 5, and values") != std::string::npos);
    }
    try {
        publisher.publisher().claim(8);
        WANT(false);
    } catch (const olivine::UsageError &) {
    }
    std::size_t sent = 9;
    try {
        publisher.publisher().publish_batch({{{found, sizeof(Quote)}}, {"other"}}, &sent);
        WANT(false);
    } catch (const olivine::UsageError &) {
        WANT(sent == 0);
    }
    // A publisher of bytes is refused.
    try {
        olivine::Publisher bytes("inproc://typed");
        WANT(false);
    } catch (const olivine::OpenError &error) {
        WANT(error.status() == OLIVINE_STATUS_OPEN_TYPE);
    }
#endif
    publisher.close();
#if defined(__cpp_exceptions)
    std::size_t copied = 9;
    try {
        subscriber.receive();
        WANT(false);
    } catch (const olivine::EndOfStream &) {
    }
    try {
        subscriber.poll_into(found, 8, nullptr, &copied);
        WANT(false);
    } catch (const olivine::EndOfStream &) {
        WANT(copied == 0);
    }
#endif
    subscriber.close();
    std::puts("typed");
    return 0;
}
