// What the layer takes for bytes and for settings, and that it does without exceptions.
#include "olivine.hpp"

#include <cstdio>
#include <cstdlib>
#include <map>

#define WANT(condition)                                                                            \
    if (!(condition)) {                                                                            \
        std::fprintf(stderr, "plain.cpp:%d: %s\n", __LINE__, #condition);                          \
        std::exit(1);                                                                              \
    }

static std::size_t sent(olivine::Publisher &publisher, olivine::Subscriber &subscriber,
                        olivine::Bytes bytes) {
    publisher.publish(bytes);
    return subscriber.receive().size();
}

int main() {
    using olivine::Bytes;
    // Settings that are known only at run time, from whatever holds pairs of text.
    const std::map<std::string, std::string> map{{"capacity", "4KiB"}, {"align", "64"}};
    const std::vector<std::pair<const char *, std::string>> rows{
        {"capacity", std::to_string(4096)}};
    olivine::Settings settings{{"wait", "park"}};
    settings.add("capacity", "4KiB").add("align", "64");
    olivine::Publisher publisher("inproc://plain", map);
    olivine::Publisher second("inproc://plain", rows);
    olivine::Subscriber subscriber("inproc://plain", settings);
    olivine::Subscriber third("inproc://plain", {{"capacity", "4KiB"}});
    // A buffer is all its bytes, whatever they are; a literal ends before its NUL.
    char buffer[64] = {};
    const int numbers[3] = {1, 2, 3};
    unsigned char raw[5] = {};
    const char *text = "text";
    WANT(sent(publisher, subscriber, buffer) == 64);
    WANT(sent(publisher, subscriber, numbers) == 3 * sizeof(int));
    WANT(sent(publisher, subscriber, raw) == 5);
    WANT(sent(publisher, subscriber, "literal") == 7);
    WANT(sent(publisher, subscriber, text) == 4);
    WANT(sent(publisher, subscriber, {buffer, 3}) == 3);
    WANT(sent(publisher, subscriber, std::vector<short>(3)) == 6);
    WANT(publisher.publish_batch({{"one"}, {buffer}}) == 2);
    WANT(subscriber.poll([](const olivine::Message &) {}, 2) == 2);
    subscriber.unsubscribe();
    std::puts("plain");
    return 0;
}
