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
    double bid;
    double ask;
    char name[8];
    int levels[3];
};

int main() {
    using namespace std::chrono_literals;
    olivine::TypedSubscriber<Quote> subscriber("inproc://typed", {{"capacity", "4KiB"}});
    olivine::TypedPublisher<Quote> publisher("inproc://typed");
    WANT(!subscriber.try_receive());
    WANT(!subscriber.receive_timeout(1ms));
    publisher.publish({1.5, 2.5, "EURUSD", {1, 2, 3}}, 7);
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
    // A message of another length stays.
    publisher.publisher().publish("other");
#if defined(__cpp_exceptions)
    try {
        subscriber.receive();
        WANT(false);
    } catch (const olivine::UsageError &error) {
        WANT(std::string(error.what()).find("has 5 bytes") != std::string::npos);
    }
#endif
    WANT(subscriber.subscriber().receive().text() == "other");
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
