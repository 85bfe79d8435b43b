// Olivine for C++17: classes over olivine.h. Written by hand, header only; link with libolivine.
//
// The names and their meaning are those of Rust and of olivine.h, which says for each call what
// blocks, what it returns and how long a view lives. A failure is an exception of the family its
// status is of; what is an everyday outcome is a value: no room is an empty optional, and so is a
// time-out.
//
// Without exceptions (-fno-exceptions) what would be thrown, also the end of the stream from each
// call, is printed to the standard error, and the program aborts: also where a channel cannot be
// opened. To survive that, call olivine.h. Only `for (... : subscriber)` ends with the stream.
//
// A signal ends no call that waits: wait in slices by a Timeout, and look between them.
//
// Handles are move-only and leave the channel when they are destroyed: a publisher closes, a
// subscriber drops. A publisher that an exception destroys ends its stream as failed. One thread
// uses a handle at a time.

#ifndef OLIVINE_HPP
#define OLIVINE_HPP

#include "olivine_values.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace olivine {

namespace detail {

// They point into `settings`.
inline std::vector<olivine_setting> rows(const Settings &settings) {
    std::vector<olivine_setting> found;
    found.reserve(settings.pairs().size());
    for (const auto &pair : settings.pairs()) {
        found.push_back({pair.first.c_str(), pair.second.c_str()});
    }
    return found;
}

// What a handle shares with the calls that are using it: NULL once it was closed.
template <class Raw> struct Cell {
    Raw *raw = nullptr;
    // The handle is destroyed: the call that is using it closes it.
    bool orphaned = false;
};

// What a handle is called in texts.
inline const char *name_of(const olivine_publisher *) noexcept { return "publisher"; }
inline const char *name_of(const olivine_subscriber *) noexcept { return "subscriber"; }

// A handle that is closed once: with `Destroy` by default, with `Unwind` if an exception that was
// thrown after its construction destroys it.
template <class Raw, olivine_status (*Destroy)(Raw *), olivine_status (*Unwind)(Raw *) = Destroy>
class Handle {
  public:
    Handle() : cell_(std::make_shared<Cell<Raw>>()) {}
    Handle(Handle &&other) noexcept = default;
    Handle &operator=(Handle &&other) noexcept {
        if (this != &other) {
            abandon();
            cell_ = std::move(other.cell_);
            exceptions_ = other.exceptions_;
        }
        return *this;
    }
    Handle(const Handle &) = delete;
    Handle &operator=(const Handle &) = delete;
    ~Handle() { abandon(); }

    // NULL once closed or moved from.
    Raw *get() const noexcept { return cell_ ? cell_->raw : nullptr; }
    // For a call. UsageError once closed or moved from.
    Raw *live() const {
        Raw *raw = get();
        if (raw == nullptr) {
            const std::string what = std::string("the ") + name_of(raw);
            fail<UsageError>(OLIVINE_STATUS_NULL_ARGUMENT, (cell_
                ? what + " is closed: open another one"
                : what + " was moved from: use the new one").c_str());
        }
        return raw;
    }
    // Where opening stores the pointer; for a new handle only.
    Raw **place() noexcept { return &cell_->raw; }
    const std::shared_ptr<Cell<Raw>> &cell() const noexcept { return cell_; }
    // Closes it with `way`; a second call does nothing. A call from its own handler is refused and
    // leaves the handle as it was.
    template <class Way> olivine_status give_back(Way &&way) noexcept {
        Raw *raw = get();
        if (raw == nullptr) {
            return OLIVINE_STATUS_OK;
        }
        const olivine_status status = way(raw);
        if (status != OLIVINE_STATUS_IN_USE && status != OLIVINE_STATUS_BAD_ARGUMENT) {
            cell_->raw = nullptr;
        }
        return status;
    }

    // A call that runs a callback, which may destroy, move or assign the handle meanwhile.
    class Call {
      public:
        explicit Call(const Handle &handle) noexcept : cell_(handle.cell_) {}
        Call(const Call &) = delete;
        Call &operator=(const Call &) = delete;
        ~Call() {
            if (cell_ && cell_->orphaned) {
                // A destructor cannot report an error.
                static_cast<void>(Destroy(std::exchange(cell_->raw, nullptr)));
            }
        }

      private:
        std::shared_ptr<Cell<Raw>> cell_;
    };

  private:
    void abandon() noexcept {
        const bool is_unwound = std::uncaught_exceptions() > exceptions_;
        if (give_back(is_unwound ? Unwind : Destroy) == OLIVINE_STATUS_IN_USE) {
            cell_->orphaned = true;
        }
    }

    std::shared_ptr<Cell<Raw>> cell_;
    // Exceptions in flight when it was made.
    int exceptions_ = std::uncaught_exceptions();
};

inline olivine_status unwind_publisher(olivine_publisher *publisher) {
    return olivine_publisher_close_failed(publisher, "an exception destroyed its publisher");
}

using PublisherHandle = Handle<olivine_publisher, olivine_publisher_close, unwind_publisher>;
using SubscriberHandle = Handle<olivine_subscriber, olivine_subscriber_drop>;

// A handle that `open` makes; `type` is what it takes before the handle, if anything.
template <class Opened, class Open, class... Type>
Opened opened(Open open, const std::string &uri, const Settings &settings, Type... type) {
    const auto rows = detail::rows(settings);
    Opened handle;
    check(open(uri.c_str(), rows.data(), rows.size(), type..., handle.place()));
    return handle;
}

// The state of a link as `ask` fills it; nothing without a bridge.
template <class Raw>
std::optional<LinkStatus> link_status(olivine_status (*ask)(const Raw *, olivine_link_status *),
    const Raw *raw) {
    olivine_link_status status = OLIVINE_LINK_STATUS_INIT;
    check(ask(raw, &status));
    if (status.stage == OLIVINE_LINK_STAGE_NONE) {
        return std::nullopt;
    }
    return LinkStatus(status);
}

} // namespace detail

class Publisher;

// A reserved message: fill it in place, then commit it. Destroyed, it is given up. Its publisher
// may move meanwhile. Where that closes or is destroyed first, the message is given up with it: the
// bytes are gone, and a commit throws.
class Claim {
  public:
    Claim(Claim &&other) noexcept
        : publisher_(std::move(other.publisher_)), data_(other.data_), size_(other.size_) {}
    Claim &operator=(Claim &&) = delete;
    Claim(const Claim &) = delete;
    Claim &operator=(const Claim &) = delete;
    ~Claim() {
        if (olivine_publisher *publisher = let_go()) {
            // A destructor cannot report an error; nothing was sent in either case.
            static_cast<void>(olivine_publisher_abort(publisher));
        }
    }

    std::byte *data() noexcept { return data_; }
    std::size_t size() const noexcept { return size_; }
    std::byte *begin() noexcept { return data_; }
    std::byte *end() noexcept { return data_ + size_; }
    std::byte &operator[](std::size_t index) noexcept { return data_[index]; }

    // Makes the message visible; where the publisher is then.
    Position commit() {
        Position position = 0;
        check(olivine_publisher_commit(last_call(), &position));
        return position;
    }
    // Gives the message up, as destroying it does.
    void abort() { check(olivine_publisher_abort(last_call())); }

  private:
    friend class Publisher;
    using Cell = std::shared_ptr<detail::Cell<olivine_publisher>>;
    Claim(Cell publisher, const olivine_claim &claim) noexcept
        : publisher_(std::move(publisher)), data_(reinterpret_cast<std::byte *>(claim.data)),
          size_(claim.length) {}

    // The publisher, for the last time; NULL where it was closed, or the claim moved from,
    // committed or given up.
    olivine_publisher *let_go() noexcept {
        const Cell publisher = std::move(publisher_);
        return publisher ? publisher->raw : nullptr;
    }

    // The same, for a call. UsageError instead of NULL.
    olivine_publisher *last_call() {
        olivine_publisher *publisher = let_go();
        if (publisher == nullptr) {
            detail::fail<UsageError>(OLIVINE_STATUS_NULL_ARGUMENT,
                "the claim is gone: it was committed, given up or moved from, or its publisher was "
                "closed; claim again");
        }
        return publisher;
    }

    Cell publisher_;
    std::byte *data_;
    std::size_t size_;
};

// What a message carries besides its bytes: a number of the caller, and a topic (a text with a NUL
// at its end). Without a topic, the topic that the publisher was opened with (`topic=`) applies,
// if any; an empty text means no topic.
struct Label {
    constexpr Label(std::uint32_t number = 0, const char *about = nullptr) noexcept : tag(number),
        topic(about) {}
    std::uint32_t tag;
    const char *topic;
};

// One message of several to publish together.
struct Part {
    Bytes bytes;
    Label label = {};
};

// Sends messages into a channel.
class Publisher {
  public:
    // Opens the channel that `uri` names, with settings as if they stood at its end. Throws
    // UriError or OpenError.
    explicit Publisher(const std::string &uri, const Settings &settings = {})
        : handle_(detail::opened<detail::PublisherHandle>(olivine_publisher_open_with, uri,
              settings)) {}
    // The same for values of a type, which is the channel's. OpenError if it carries another.
    Publisher(const std::string &uri, const olivine_type &type, const Settings &settings = {})
        : handle_(detail::opened<detail::PublisherHandle>(olivine_publisher_open_typed, uri,
              settings, &type)) {}

    // Each verb has three forms: try_x never waits, x waits by the wait strategy, x_timeout waits
    // for a time.

    // Sends a copy if there is room; where the publisher is then, or nothing where there is none.
    // Never waits.
    std::optional<Position> try_publish(Bytes message, Label label = {}) {
        Position position = 0;
        const olivine_label with = {label.topic, label.tag};
        return everyday(olivine_publisher_try_publish(handle_.live(), message.data(),
            message.size(), &with, &position))
                   ? std::optional(position)
                   : std::nullopt;
    }
    // Sends a copy, waiting for room.
    Position publish(Bytes message, Label label = {}) {
        Position position = 0;
        const olivine_label with = {label.topic, label.tag};
        check(olivine_publisher_publish(handle_.live(), message.data(), message.size(), &with,
            &position));
        return position;
    }
    // Sends a copy, waiting for room; throws BackPressured when the time is over.
    Position publish_timeout(Bytes message, Timeout timeout, Label label = {}) {
        Position position = 0;
        const olivine_label with = {label.topic, label.tag};
        check(olivine_publisher_publish_timeout(handle_.live(), message.data(), message.size(),
            &with, timeout.ms(),
                                                &position));
        return position;
    }

    // Sends messages in one batch as far as there is room; how many were sent. Never waits.
    // `*sent`, if `sent` is not
    // nullptr, is how many also where this throws: a repetition begins behind those.
    std::size_t try_publish_batch(const std::vector<Part> &messages, std::size_t *sent = nullptr) {
        const std::vector<olivine_part> parts = rows_of(messages);
        std::size_t published = 0;
        const olivine_status status =
            olivine_publisher_try_publish_batch(handle_.live(), parts.data(),
                parts.size(), &published);
        return batch(status, published, sent);
    }
    // Sends messages in batches as large as there is room for, waiting for room; how many: all.
    std::size_t publish_batch(const std::vector<Part> &messages, std::size_t *sent = nullptr) {
        const std::vector<olivine_part> parts = rows_of(messages);
        std::size_t published = 0;
        const olivine_status status =
            olivine_publisher_publish_batch(handle_.live(), parts.data(),
                parts.size(), &published);
        return batch(status, published, sent);
    }
    // As publish_batch; how many were sent when the time, which is for all of them, was over.
    std::size_t publish_batch_timeout(const std::vector<Part> &messages, Timeout timeout,
        std::size_t *sent = nullptr) {
        const std::vector<olivine_part> parts = rows_of(messages);
        std::size_t published = 0;
        const olivine_status status =
            olivine_publisher_publish_batch_timeout(handle_.live(), parts.data(),
                parts.size(), timeout.ms(), &published);
        return batch(status, published, sent);
    }

    // Reserves a message, to be filled in place; nothing where there is no room. Never waits.
    std::optional<Claim> try_claim(std::size_t length, Label label = {}) {
        olivine_claim claim = OLIVINE_CLAIM_INIT;
        const olivine_label with = {label.topic, label.tag};
        if (!everyday(olivine_publisher_try_claim(handle_.live(), length, &with, &claim))) {
            return std::nullopt;
        }
        return Claim(handle_.cell(), claim);
    }
    // Reserves a message, waiting for room.
    Claim claim(std::size_t length, Label label = {}) { return claim_timeout(length, {}, label); }
    // Reserves a message, waiting for room; throws BackPressured when the time is over.
    Claim claim_timeout(std::size_t length, Timeout timeout, Label label = {}) {
        olivine_claim claim = OLIVINE_CLAIM_INIT;
        const olivine_label with = {label.topic, label.tag};
        check(olivine_publisher_claim_timeout(handle_.live(), length, &with, timeout.ms(), &claim));
        return Claim(handle_.cell(), claim);
    }

    // Waits until `count` reliable subscribers are attached; whether they are.
    bool wait_for_subscribers(std::size_t count, Timeout timeout = {}) {
        return in_time(olivine_publisher_wait_for_subscribers(handle_.live(), count, timeout.ms()));
    }
    // Waits until every live reliable subscriber has read everything; whether they have.
    bool wait_drained(Timeout timeout = {}) {
        return in_time(olivine_publisher_wait_drained(handle_.live(), timeout.ms()));
    }

    Position cursor() const {
        Position position = 0;
        check(olivine_publisher_cursor(handle_.live(), &position));
        return position;
    }
    // Longest message in bytes.
    std::size_t message_max() const {
        std::size_t length = 0;
        check(olivine_publisher_message_max(handle_.live(), &length));
        return length;
    }
    // Counts the reliable subscribers attached now, by a system call for each; reclaims those that
    // died.
    std::size_t count_subscribers() const {
        std::size_t count = 0;
        check(olivine_publisher_count_subscribers(handle_.live(), &count));
        return count;
    }
    // Whether the files of the channel were removed while it was open: openers get a new channel.
    bool check_unlinked() const {
        int is_unlinked = 0;
        check(olivine_publisher_check_unlinked(handle_.live(), &is_unlinked));
        return is_unlinked != 0;
    }
    // Whether a far side is connected, and why not; nothing for `shm://` and `inproc://`.
    std::optional<LinkStatus> link_status() const {
        return detail::link_status<olivine_publisher>(olivine_publisher_link_status,
            handle_.live());
    }
    olivine_stats stats() const {
        olivine_stats stats = OLIVINE_STATS_INIT;
        check(olivine_publisher_stats(handle_.live(), &stats));
        return stats;
    }

    // Ends the stream; throws if a subscriber had not read everything when `linger` was over.
    // Destroying does the same without an error. Both wait for `linger`. With the default 0, they
    // wait without bound for the far side of a channel elsewhere (`tcp://`, `nats://`, `file://`)
    // that is connected, and for a full disk: set `linger` for such channels. An absent far side of
    // `tcp://` or `nats://` is given up after `expire`, or 30 s if that is never. Over `tcp://` the
    // far side also confirms the end of the stream. If the connection breaks before it does,
    // closing waits for it to come back: twice `timeout` plus 1 s, so 11 s by default, at least 2 s
    // and at most `expire`. A far side that does not answer adds one `timeout`: 16 s in all. Then
    // the end counts as received. `linger` bounds all of that. A listening publisher without `name`
    // waits for named subscribers that are away and do not have the end: for their `expire` or its
    // own, whichever is shorter. Its own counts as 30 s if it is never. Then it throws.
    void close() { check(handle_.give_back(olivine_publisher_close)); }
    // As `close`, but ends the stream as failed: subscribers get `reason` after the last message.
    // Destroying does this where an exception destroys the publisher: it leaves the scope in which
    // the publisher was made. An exception caught inside that scope changes nothing. Control
    // characters in `reason` arrive as spaces.
    void close_failed(std::string reason) {
        // A NUL would end the text.
        for (char &c : reason) {
            c = c == '\0' ? ' ' : c;
        }
        check(handle_.give_back([&](olivine_publisher *publisher) {
            return olivine_publisher_close_failed(publisher, reason.c_str());
        }));
    }

  private:
    static std::vector<olivine_part> rows_of(const std::vector<Part> &messages) {
        std::vector<olivine_part> parts;
        parts.reserve(messages.size());
        for (const Part &part : messages) {
            parts.push_back({part.bytes.data(), part.bytes.size(), part.label.topic,
                part.label.tag});
        }
        return parts;
    }
    static std::size_t batch(olivine_status status, std::size_t published, std::size_t *sent) {
        if (sent != nullptr) {
            *sent = published;
        }
        everyday(status);
        return published;
    }
    // Whether it was sent; throws where the answer is more than having to wait.
    static bool everyday(olivine_status status) {
        if (status == OLIVINE_STATUS_BACK_PRESSURED || status == OLIVINE_STATUS_NOT_CONNECTED) {
            return false;
        }
        check(status);
        return true;
    }
    static bool in_time(olivine_status status) {
        if (status == OLIVINE_STATUS_TIMED_OUT) {
            return false;
        }
        check(status);
        return true;
    }

    detail::PublisherHandle handle_;
};

// Receives messages of a channel from all its publishers, in order for each publisher. Iterating
// waits for each message and ends with the stream.
class Subscriber {
  public:
    // Opens the channel that `uri` names, with settings as if they stood at its end. Throws
    // UriError or OpenError.
    explicit Subscriber(const std::string &uri, const Settings &settings = {})
        : handle_(detail::opened<detail::SubscriberHandle>(olivine_subscriber_open_with, uri,
              settings)) {}
    // The same for values of a type, which is the channel's. OpenError if it carries another.
    Subscriber(const std::string &uri, const olivine_type &type, const Settings &settings = {})
        : handle_(detail::opened<detail::SubscriberHandle>(olivine_subscriber_open_typed, uri,
              settings, &type)) {}

    // The next message, or nothing where there is none. Never sleeps. Throws EndOfStream.
    std::optional<Message> try_receive() {
        olivine_message message = OLIVINE_MESSAGE_INIT;
        return in_time(olivine_subscriber_try_receive(handle_.live(), &message), message);
    }
    // The next message; waits for it. Throws EndOfStream.
    Message receive() {
        olivine_message message = OLIVINE_MESSAGE_INIT;
        check(olivine_subscriber_receive(handle_.live(), &message));
        return Message(message);
    }
    // The next message; nothing when the time is over. Throws EndOfStream.
    std::optional<Message> receive_timeout(Timeout timeout) {
        olivine_message message = OLIVINE_MESSAGE_INIT;
        return in_time(olivine_subscriber_receive_timeout(handle_.live(), timeout.ms(), &message),
            message);
    }

    // Hands up to `limit` messages to `handler`; how many. Never sleeps. A handler that throws gets
    // the same message again in the next call, and what it threw comes out here. A handler may
    // destroy or assign the subscriber, which then leaves the channel with the end of this call,
    // but neither close it nor call it otherwise: that throws.
    template <class Function> std::size_t poll(Function &&handler, std::size_t limit) {
        struct Context {
            std::remove_reference_t<Function> &handler;
            std::exception_ptr thrown;
        } context{handler, nullptr};
        const olivine_handler hand_over = [](void *pointer, const olivine_message *message) -> int {
            auto &given = *static_cast<Context *>(pointer);
#if defined(__cpp_exceptions)
            try {
                given.handler(Message(*message));
                return 0;
            } catch (...) {
                given.thrown = std::current_exception();
                return 1;
            }
#else
            given.handler(Message(*message));
            return 0;
#endif
        };
        std::size_t count = 0;
        const detail::SubscriberHandle::Call call(handle_);
        const olivine_status status =
            olivine_subscriber_poll(handle_.live(), hand_over, &context, limit, &count);
        if (context.thrown) {
            std::rethrow_exception(context.thrown);
        }
        check(status);
        return count;
    }

    // Copies up to `rows` messages of `row_length` bytes each into `array`, one behind the other,
    // and consumes them; how many. Never sleeps. `details`, if given, has as many elements as the
    // array has rows. A message of another length ends the array before it and stays; if it is the
    // first, UsageError says so. `*copied`, if given, is how many rows were filled, also where this
    // throws: an overrun behind them, for example.
    std::size_t poll_into(void *array, std::size_t row_length, std::size_t rows,
        olivine_detail *details = nullptr, std::size_t *copied = nullptr) {
        std::size_t count = 0;
        const olivine_status status = olivine_subscriber_poll_into(handle_.live(), array,
            row_length, rows, details, &count);
        if (copied != nullptr) {
            *copied = count;
        }
        check(status);
        return count;
    }

    // Waits until a poll would find something; whether it would.
    bool wait(Timeout timeout = {}) {
        const olivine_status status = olivine_subscriber_wait(handle_.live(), timeout.ms());
        if (status == OLIVINE_STATUS_TIMED_OUT) {
            return false;
        }
        check(status);
        return true;
    }
    // Ends the life of the message received last, and gives its room back now.
    void release() { check(olivine_subscriber_release(handle_.live())); }

    Position position() const {
        Position position = 0;
        check(olivine_subscriber_position(handle_.live(), &position));
        return position;
    }
    // Bytes published and not read yet.
    std::uint64_t lag() const {
        std::uint64_t lag = 0;
        check(olivine_subscriber_lag(handle_.live(), &lag));
        return lag;
    }
    // Bytes lost to overruns.
    std::uint64_t lost_bytes() const {
        std::uint64_t lost_bytes = 0;
        check(olivine_subscriber_lost_bytes(handle_.live(), &lost_bytes));
        return lost_bytes;
    }
    // What it found of its name when it was opened; OLIVINE_DURABLE_NONE without a name.
    olivine_durable durable() const {
        olivine_durable durable = OLIVINE_DURABLE_NONE;
        check(olivine_subscriber_durable(handle_.live(), &durable));
        return durable;
    }
    // Whether the files of the channel were removed while it was open: openers get a new channel.
    bool check_unlinked() const {
        int is_unlinked = 0;
        check(olivine_subscriber_check_unlinked(handle_.live(), &is_unlinked));
        return is_unlinked != 0;
    }
    // Whether a far side is connected, and why not; nothing for `shm://` and `inproc://`.
    std::optional<LinkStatus> link_status() const {
        return detail::link_status<olivine_subscriber>(olivine_subscriber_link_status,
            handle_.live());
    }
    // Readable when there is a message or the end of the stream, and at times without either:
    // read until nothing is left, which arms it again. Belongs to the subscriber.
    int event_fd() {
        int descriptor = -1;
        check(olivine_subscriber_event_fd(handle_.live(), &descriptor));
        return descriptor;
    }

    // Leaves the channel. A durable subscriber keeps its place, behind the message received last.
    void close() { check(handle_.give_back(olivine_subscriber_close)); }
    // Leaves the channel, as destroying does. A durable subscriber keeps its place before the
    // message received last, which comes again: a program that ends in good order closes.
    void drop() { check(handle_.give_back(olivine_subscriber_drop)); }
    // Leaves the channel and forgets a durable name. Throws where it has left: the name is kept
    // then.
    void unsubscribe() {
        static_cast<void>(handle_.live());
        check(handle_.give_back(olivine_subscriber_unsubscribe));
    }

    // A message a step. Only one iterator of a subscriber is of use at a time, and a message lives
    // until the next step. It ends when the last publisher closes; where a later one comes, a new
    // loop goes on with its messages.
    class Iterator {
      public:
        using iterator_category = std::input_iterator_tag;
        using value_type = Message;
        using difference_type = std::ptrdiff_t;
        using pointer = const Message *;
        using reference = const Message &;

        explicit Iterator(Subscriber *subscriber) : subscriber_(subscriber) { step(); }
        Iterator() = default;
        reference operator*() const noexcept { return *message_; }
        pointer operator->() const noexcept { return &*message_; }
        Iterator &operator++() {
            step();
            return *this;
        }
        void operator++(int) { step(); }
        // Ends compare equal, and nothing else does.
        friend bool operator==(const Iterator &one, const Iterator &other) noexcept {
            return one.subscriber_ == other.subscriber_;
        }
        friend bool operator!=(const Iterator &one, const Iterator &other) noexcept {
            return !(one == other);
        }

      private:
        void step() {
            olivine_message message = OLIVINE_MESSAGE_INIT;
            const olivine_status status = olivine_subscriber_receive(subscriber_->handle_.live(),
                &message);
            if (status == OLIVINE_STATUS_END_OF_STREAM) {
                subscriber_ = nullptr;
                message_.reset();
                return;
            }
            check(status);
            message_.emplace(message);
        }

        Subscriber *subscriber_ = nullptr;
        std::optional<Message> message_;
    };
    Iterator begin() { return Iterator(this); }
    Iterator end() noexcept { return {}; }

  private:
    static std::optional<Message> in_time(olivine_status status, const olivine_message &message) {
        if (status == OLIVINE_STATUS_TIMED_OUT) {
            return std::nullopt;
        }
        check(status);
        return Message(message);
    }

    detail::SubscriberHandle handle_;
};

} // namespace olivine

#endif // OLIVINE_HPP
