// Executes rows of the table of verbs: verbs FILE, of lines "VERB WAIT CHANNEL LABEL". Says the
// result of each.

#include "olivine.hpp"

#include "numbered.h"

#include <chrono>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>

using namespace olivine;

static constexpr std::chrono::milliseconds SHORT{1};
static constexpr std::uint64_t FILLER = 1;
static constexpr std::uint64_t CELL = 2;

static Bytes bytes_of(const std::uint64_t &mark) { return Bytes(&mark, sizeof mark); }

// Whether it was sent.
static bool send(Publisher &publisher, const std::string &verb, const std::string &wait,
    Label label) {
    WANT(wait == "try" || wait == "wait" || wait == "timeout");
    if (verb == "publish") {
        if (wait == "try") {
            return publisher.try_publish(bytes_of(CELL), label).has_value();
        }
        wait == "wait" ? publisher.publish(bytes_of(CELL), label)
                       : publisher.publish_timeout(bytes_of(CELL), SHORT, label);
        return true;
    }
    if (verb == "claim") {
        const auto commit = [](Claim &&claim) {
            std::memcpy(claim.data(), &CELL, sizeof CELL);
            claim.commit();
            return true;
        };
        if (wait == "try") {
            auto claim = publisher.try_claim(sizeof CELL, label);
            return claim && commit(std::move(*claim));
        }
        return commit(wait == "wait" ? publisher.claim(sizeof CELL, label)
                                     : publisher.claim_timeout(sizeof CELL, SHORT, label));
    }
    WANT(verb == "batch");
    const std::vector<Part> parts(2, Part{bytes_of(CELL), label});
    const std::size_t sent = wait == "try"    ? publisher.try_publish_batch(parts)
                             : wait == "wait" ? publisher.publish_batch(parts)
                                              : publisher.publish_batch_timeout(parts, SHORT);
    WANT(sent == 0 || sent == 2);
    return sent == 2;
}

static std::string told(const char *word, const Message &message) {
    const std::string topic(message.topic());
    return std::string(word) + ' ' + std::to_string(message.tag()) + ' ' + (topic.empty() ? "-"
        : topic);
}

static std::string await_cell(Subscriber &subscriber) {
    while (true) {
        const Message message = subscriber.receive();
        std::uint64_t mark = 0;
        WANT(message.size() == sizeof mark);
        std::memcpy(&mark, message.data(), sizeof mark);
        if (mark == CELL) {
            return told("sent", message);
        }
    }
}

static std::string sending(Publisher &publisher, Subscriber &subscriber, const std::string &verb,
                           const std::string &wait, const std::string &channel, Label label) {
    std::string found;
    std::thread reader;
    if (channel == "full") {
        while (publisher.try_publish(bytes_of(FILLER))) {
        }
        if (wait == "wait") {
            reader = std::thread([&] { found = await_cell(subscriber); });
        }
    }
    try {
        if (!send(publisher, verb, wait, label)) {
            return "back_pressured";
        }
    } catch (const BackPressured &) {
        return "back_pressured";
    } catch (const NotSent &error) {
        return error.status() == OLIVINE_STATUS_TOPIC ? "topic_refused" : error.what();
    }
    if (!reader.joinable()) {
        return await_cell(subscriber);
    }
    reader.join();
    return found;
}

static std::optional<std::string> receive(Subscriber &subscriber, const std::string &verb,
    const std::string &wait) {
    if (verb == "poll") {
        WANT(wait == "try");
        std::optional<std::string> last;
        subscriber.poll([&](const Message &message) { last = told("got", message); }, 1);
        return last;
    }
    WANT(verb == "receive");
    if (wait == "wait") {
        return told("got", subscriber.receive());
    }
    const auto message = wait == "try" ? subscriber.try_receive()
        : subscriber.receive_timeout(SHORT);
    return message ? std::optional(told("got", *message)) : std::nullopt;
}

static std::string receiving(Publisher &publisher, Subscriber &subscriber, const std::string &verb,
                             const std::string &wait, const std::string &channel, Label label) {
    std::thread sender;
    if (channel == "message") {
        WANT(send(publisher, "publish", "try", label));
    } else if (channel == "ended") {
        publisher.close();
    } else if (wait == "wait") {
        sender = std::thread([&] { WANT(send(publisher, "publish", "wait", label)); });
    }
    std::optional<std::string> found;
    try {
        do {
            // A few looks may find nothing before the end is seen.
            found = receive(subscriber, verb, wait);
        } while (!found && channel != "empty");
    } catch (const EndOfStream &) {
        found = "end_of_stream";
    }
    if (sender.joinable()) {
        sender.join();
    }
    return found.value_or("nothing");
}

int main(int argc, char **argv) {
    WANT(argc == 2);
    std::ifstream rows(argv[1]);
    std::string verb, wait, channel, name;
    for (int number = 0; rows >> verb >> wait >> channel >> name; number++) {
        WANT(name == "none" || name == "tag" || name == "topic" || name == "both" || name == "bad");
        Label label(name == "tag" || name == "both" ? 7 : 0);
        if (name == "topic" || name == "both") {
            label.topic = "a.b";
        } else if (name == "bad") {
            label.topic = "a..b";
        }
        const std::string uri = "inproc://verbs-" + std::to_string(number) +
            "?capacity=4KiB&wait=park";
        Subscriber subscriber(uri);
        Publisher publisher(uri + (channel == "plain" ? "" : "&topic=own"));
        const bool receives = verb == "receive" || verb == "poll";
        std::cout << (receives ? receiving(publisher, subscriber, verb, wait, channel, label)
                               : sending(publisher, subscriber, verb, wait, channel, label))
                  << std::endl;
    }
    return 0;
}
