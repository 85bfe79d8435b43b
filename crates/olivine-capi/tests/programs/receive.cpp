// Receives numbered messages from FIRST on: receive URI FIRST [STOP]. Without STOP to the end of
// the stream; with it, it fails at message STOP. Says "open" once it is.

#include "olivine.hpp"

#include "numbered.h"

int main(int argc, char **argv) {
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
