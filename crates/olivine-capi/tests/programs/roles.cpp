// A publisher and a subscriber of numbered messages.

#include "olivine.hpp"

#include "numbered.h"

// Publishes numbered messages: publish URI COUNT. Says "open" once it is.
static int publish(int argc, char **argv) {
    WANT(argc == 3);
    const std::uint64_t count = std::strtoull(argv[2], nullptr, 10);
    olivine::Publisher publisher(argv[1], {{"subscribers", "1"}, {"linger", "1m"}});
    std::puts("open");
    std::fflush(stdout);
    for (std::uint64_t number = 0; number < count; number++) {
        const auto tag = static_cast<std::uint32_t>(number);
        if (number % 2 == 0) {
            auto claim = publisher.claim(length_of(number), tag);
            fill(reinterpret_cast<std::uint8_t *>(claim.data()), number);
            claim.commit();
        } else {
            std::uint8_t bytes[LENGTH_MAX];
            fill(bytes, number);
            publisher.publish(olivine::Bytes(bytes, length_of(number)), tag);
        }
    }
    publisher.close();
    std::printf("published %s\n", argv[2]);
    return 0;
}

// Receives numbered messages from FIRST on: receive URI FIRST [STOP]. Without STOP to the end of
// the stream; with it, it fails at message STOP. Says "open" once it is.
static int receive(int argc, char **argv) {
    WANT(argc == 3 || argc == 4);
    std::uint64_t next = std::strtoull(argv[2], nullptr, 10);
    const std::uint64_t stop = argc == 4 ? std::strtoull(argv[3], nullptr, 10) : UINT64_MAX;
    try {
        olivine::Subscriber subscriber(argv[1]);
        std::puts("open");
        std::fflush(stdout);
        for (const olivine::Message &message : subscriber) {
            WANT(holds(message.data(), message.size(), message.tag(), next));
            if (next == stop) {
                throw std::length_error("in the middle");
            }
            next++;
        }
        subscriber.close();
    } catch (const std::length_error &) {
        std::puts("failed");
        return 0;
    }
    std::printf("received to %llu\n", static_cast<unsigned long long>(next));
    return 0;
}

// The first argument is the role; its other arguments follow.
int main(int argc, char **argv) {
    WANT(argc >= 2);
    if (strcmp(argv[1], "publish") == 0) {
        return publish(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "receive") == 0) {
        return receive(argc - 1, argv + 1);
    }
    WANT(0);
    return 1;
}
