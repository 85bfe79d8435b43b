// Publishes numbered messages: publish URI COUNT. Says "open" once it is.

#include "olivine.hpp"

#include "numbered.h"

int main(int argc, char **argv) {
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
