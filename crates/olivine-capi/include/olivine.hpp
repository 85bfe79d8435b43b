// Olivine for C++17: classes over olivine.h. Written by hand, header only; link with libolivine.
//
// The names and their meaning are those of Rust and of olivine.h, which says for each call what
// blocks, what it returns and how long a view lives. What is an everyday outcome is a value: no
// room is an empty optional, and so is a time-out. A failure depends on the class:
//
// - A call of `Publisher`, `Subscriber` and `Claim` throws an exception of the family its status is
//   of. Where the text below says that a call throws, it is of these.
// - A call of `results::Publisher`, `results::Subscriber` and `results::Claim` answers a `Result`:
//   a value, or the status and the text of the failure. They are for programs without exceptions
//   (-fno-exceptions). `results::Publisher::open` and `results::Subscriber::open` open.
//
// A call of an object that was closed or moved from fails with NULL_ARGUMENT, a UsageError: it has
// no handle. Closing it again does nothing.
//
// Without exceptions, what the first ones would throw, also the end of the stream from each call,
// is printed to the standard error, and the program aborts. Only `for (... : subscriber)` ends with
// the stream. All files of a program that include this one are compiled with exceptions, or all
// without: the linker keeps one copy of each function.
//
// A signal ends no call that waits: wait in slices by a Timeout, and look between them.
//
// Handles are move-only and leave the channel when they are destroyed: a publisher closes, a
// subscriber drops. A publisher that an exception destroys ends its stream as failed. One thread
// uses a handle at a time.

#ifndef OLIVINE_HPP
#define OLIVINE_HPP

#include "olivine_handle.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace olivine {

template <class Mode> class BasicPublisher;

// A reserved message: fill it in place, then commit it. Destroyed, it is given up. Its publisher
// may move meanwhile. Where that closes or is destroyed first, the message is given up with it: the
// bytes are gone, and a commit throws.
template <class Mode> class BasicClaim {
    template <class T> using Answer = typename Mode::template Answer<T>;

  public:
    BasicClaim(BasicClaim &&other) noexcept
        : publisher_(std::move(other.publisher_)), data_(other.data_), size_(other.size_) {}
    BasicClaim &operator=(BasicClaim &&) = delete;
    BasicClaim(const BasicClaim &) = delete;
    BasicClaim &operator=(const BasicClaim &) = delete;
    ~BasicClaim() {
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
    Answer<Position> commit() {
        Position position = 0;
        const auto commit = [&](olivine_publisher *publisher) {
            return olivine_publisher_commit(publisher, &position);
        };
        const olivine_status status = last_call(commit);
        return detail::answer<Mode>(status, GONE, position);
    }
    // Gives the message up, as destroying it does.
    Answer<void> abort() {
        return detail::answer<Mode>(last_call(olivine_publisher_abort), GONE);
    }

  private:
    friend class BasicPublisher<Mode>;
    using Cell = std::shared_ptr<detail::Cell<olivine_publisher>>;
    static constexpr const char *GONE =
        "the claim is gone: it was committed, given up or moved from, or its publisher was closed; "
        "claim again";
    BasicClaim(Cell publisher, const olivine_claim &claim) noexcept
        : publisher_(std::move(publisher)), data_(reinterpret_cast<std::byte *>(claim.data)),
          size_(claim.length) {}

    // The publisher, for the last time; NULL where it was closed, or the claim moved from,
    // committed or given up.
    olivine_publisher *let_go() noexcept {
        const Cell publisher = std::move(publisher_);
        return publisher ? publisher->raw : nullptr;
    }

    // Makes a call with the publisher, for the last time; NULL_ARGUMENT where it is gone.
    template <class Call> olivine_status last_call(Call &&call) {
        olivine_publisher *publisher = let_go();
        return publisher == nullptr ? OLIVINE_STATUS_NULL_ARGUMENT : call(publisher);
    }

    Cell publisher_;
    std::byte *data_;
    std::size_t size_;
};

// Sends messages into a channel.
template <class Mode> class BasicPublisher {
    template <class T> using Answer = typename Mode::template Answer<T>;

  public:
    using Claim = BasicClaim<Mode>;

    // Opens the channel that `uri` names, with settings as if they stood at its end. Throws
    // UriError or OpenError; UsageError for a text with a NUL inside.
    explicit BasicPublisher(const std::string &uri, const Settings &settings = {}) {
        Mode::throws();
        detail::opened<Mode>(handle_, olivine_publisher_open_with, uri, settings);
    }
    // The same for values of a type, which is the channel's. OpenError if it carries another.
    BasicPublisher(const std::string &uri, const olivine_type &type,
        const Settings &settings = {}) {
        Mode::throws();
        detail::opened<Mode>(handle_, olivine_publisher_open_typed, uri, settings, &type);
    }
    // What the constructors do, for `results::Publisher`.
    static Answer<BasicPublisher> open(const std::string &uri, const Settings &settings = {}) {
        return detail::made<Mode, BasicPublisher>(olivine_publisher_open_with, uri, settings);
    }
    static Answer<BasicPublisher> open(const std::string &uri, const olivine_type &type,
        const Settings &settings = {}) {
        return detail::made<Mode, BasicPublisher>(olivine_publisher_open_typed, uri, settings,
            &type);
    }

    // Each verb has three forms: try_x never waits, x waits by the wait strategy, x_timeout waits
    // for a time.

    // Sends a copy if there is room; where the publisher is then, or nothing where there is none.
    // Never waits.
    Answer<std::optional<Position>> try_publish(Bytes message, Label label = {}) {
        Position position = 0;
        const olivine_label with = {label.topic, label.tag};
        const olivine_status status = olivine_publisher_try_publish(handle_.get(), message.data(),
            message.size(), &with, &position);
        using Sent = std::optional<Position>;
        return everyday(status) ? answer(OLIVINE_STATUS_OK, Sent())
                                : answer(status, Sent(position));
    }
    // Sends a copy, waiting for room.
    Answer<Position> publish(Bytes message, Label label = {}) {
        Position position = 0;
        const olivine_label with = {label.topic, label.tag};
        const olivine_status status = olivine_publisher_publish(handle_.get(), message.data(),
            message.size(), &with, &position);
        return answer(status, position);
    }
    // Sends a copy, waiting for room; throws BackPressured when the time is over.
    Answer<Position> publish_timeout(Bytes message, Timeout timeout, Label label = {}) {
        Position position = 0;
        const olivine_label with = {label.topic, label.tag};
        const olivine_status status = olivine_publisher_publish_timeout(handle_.get(),
            message.data(), message.size(), &with, timeout.ms(), &position);
        return answer(status, position);
    }

    // Sends messages in one batch as far as there is room; how many were sent. Never waits.
    // `*sent`, if `sent` is not nullptr, is how many also where this throws: the index of the first
    // that was not sent, where a repetition begins.
    Answer<std::size_t> try_publish_batch(const std::vector<Part> &messages,
        std::size_t *sent = nullptr) {
        const std::vector<olivine_part> parts = rows_of(messages);
        std::size_t published = 0;
        const olivine_status status =
            olivine_publisher_try_publish_batch(handle_.get(), parts.data(),
                parts.size(), &published);
        return batch(status, published, sent);
    }
    // Sends messages in batches as large as there is room for, waiting for room; how many: all.
    Answer<std::size_t> publish_batch(const std::vector<Part> &messages,
        std::size_t *sent = nullptr) {
        const std::vector<olivine_part> parts = rows_of(messages);
        std::size_t published = 0;
        const olivine_status status =
            olivine_publisher_publish_batch(handle_.get(), parts.data(),
                parts.size(), &published);
        return batch(status, published, sent);
    }
    // As publish_batch; how many were sent when the time, which is for all of them, was over.
    Answer<std::size_t> publish_batch_timeout(const std::vector<Part> &messages, Timeout timeout,
        std::size_t *sent = nullptr) {
        const std::vector<olivine_part> parts = rows_of(messages);
        std::size_t published = 0;
        const olivine_status status =
            olivine_publisher_publish_batch_timeout(handle_.get(), parts.data(),
                parts.size(), timeout.ms(), &published);
        return batch(status, published, sent);
    }

    // Reserves a message, to be filled in place; nothing where there is no room. Never waits.
    Answer<std::optional<Claim>> try_claim(std::size_t length, Label label = {}) {
        olivine_claim claim = OLIVINE_CLAIM_INIT;
        const olivine_label with = {label.topic, label.tag};
        const olivine_status status =
            olivine_publisher_try_claim(handle_.get(), length, &with, &claim);
        std::optional<Claim> reserved;
        if (status == OLIVINE_STATUS_OK) {
            reserved.emplace(Claim(handle_.cell(), claim));
        }
        return answer(everyday(status) ? OLIVINE_STATUS_OK : status, std::move(reserved));
    }
    // Reserves a message, waiting for room.
    Answer<Claim> claim(std::size_t length, Label label = {}) {
        return claim_timeout(length, {}, label);
    }
    // Reserves a message, waiting for room; throws BackPressured when the time is over.
    Answer<Claim> claim_timeout(std::size_t length, Timeout timeout, Label label = {}) {
        olivine_claim claim = OLIVINE_CLAIM_INIT;
        const olivine_label with = {label.topic, label.tag};
        const olivine_status status =
            olivine_publisher_claim_timeout(handle_.get(), length, &with, timeout.ms(), &claim);
        const bool reserved = status == OLIVINE_STATUS_OK;
        return answer(status, Claim(reserved ? handle_.cell() : nullptr, claim));
    }

    // Waits until `count` reliable subscribers are attached; whether they are.
    Answer<bool> wait_for_subscribers(std::size_t count, Timeout timeout = {}) {
        return in_time(olivine_publisher_wait_for_subscribers(handle_.get(), count, timeout.ms()));
    }
    // Waits until every live reliable subscriber has read everything; whether they have.
    Answer<bool> wait_drained(Timeout timeout = {}) {
        return in_time(olivine_publisher_wait_drained(handle_.get(), timeout.ms()));
    }

    Answer<Position> cursor() const {
        Position position = 0;
        const olivine_status status = olivine_publisher_cursor(handle_.get(), &position);
        return answer(status, position);
    }
    // Longest message in bytes.
    Answer<std::size_t> message_max() const {
        std::size_t length = 0;
        const olivine_status status = olivine_publisher_message_max(handle_.get(), &length);
        return answer(status, length);
    }
    // Counts the reliable subscribers attached now, by a system call for each; reclaims those that
    // died.
    Answer<std::size_t> count_subscribers() const {
        std::size_t count = 0;
        const olivine_status status = olivine_publisher_count_subscribers(handle_.get(), &count);
        return answer(status, count);
    }
    // Whether the files of the channel were removed while it was open: openers get a new channel.
    Answer<bool> check_unlinked() const {
        int is_unlinked = 0;
        const olivine_status status = olivine_publisher_check_unlinked(handle_.get(), &is_unlinked);
        return answer(status, is_unlinked != 0);
    }
    // Whether a far side is connected, and why not; nothing for `shm://` and `inproc://`.
    Answer<std::optional<LinkStatus>> link_status() const {
        olivine_link_status now = OLIVINE_LINK_STATUS_INIT;
        const olivine_status status = olivine_publisher_link_status(handle_.get(), &now);
        return answer(status, LinkStatus::of(now));
    }
    Answer<olivine_stats> stats() const {
        olivine_stats stats = OLIVINE_STATS_INIT;
        const olivine_status status = olivine_publisher_stats(handle_.get(), &stats);
        return answer(status, stats);
    }

    // Ends the stream; throws if a subscriber had not read everything when `linger` was over.
    // Destroying does the same without an error. Both wait for `linger`. With the default 0, they
    // wait without bound for the far side of a channel elsewhere (`tcp://`, `nats://`, `file://`)
    // that is connected, and for a full disk: set `linger` for such channels. A listening `tcp://`
    // publisher to which no far side has connected does not wait: its messages are gone. An absent
    // far side of `tcp://` or `nats://` is given up after `expire`, or 30 s if that is never. Over
    // `tcp://` the far side also confirms the end of the stream. If the connection breaks before it
    // does, closing waits for it to come back: twice `timeout` plus 1 s, so 11 s by default, at
    // least 2 s and at most `expire`. A far side that does not answer adds one `timeout`: 16 s in
    // all. Then the end counts as received. `linger` bounds all of that. A listening publisher
    // without `name` waits for named subscribers that are away and do not have the end: for their
    // `expire` or its own, whichever is shorter. Its own counts as 30 s if it is never. Then it
    // throws.
    Answer<void> close() { return answer(handle_.give_back(olivine_publisher_close)); }
    // As `close`, but ends the stream as failed: subscribers get `reason` after the last message.
    // Without a confirmation the reason does not count as received: then it throws.
    // Destroying does this where an exception destroys the publisher: it leaves the scope in which
    // the publisher was made. An exception caught inside that scope changes nothing. Control
    // characters in `reason` arrive as spaces. Throws UsageError where the publisher is closed: its
    // stream has ended.
    Answer<void> close_failed(std::string reason) {
        // A NUL would end the text.
        for (char &c : reason) {
            c = c == '\0' ? ' ' : c;
        }
        return answer(handle_.give_back_open([&](olivine_publisher *publisher) {
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
    Answer<std::size_t> batch(olivine_status status, std::size_t published,
        std::size_t *sent) const {
        if (sent != nullptr) {
            *sent = published;
        }
        return answer(everyday(status) ? OLIVINE_STATUS_OK : status, published);
    }
    // Whether nothing is wrong, and the caller has to wait.
    static bool everyday(olivine_status status) noexcept {
        return status == OLIVINE_STATUS_BACK_PRESSURED || status == OLIVINE_STATUS_NOT_CONNECTED;
    }
    Answer<bool> in_time(olivine_status status) const {
        const bool over = status == OLIVINE_STATUS_TIMED_OUT;
        return answer(over ? OLIVINE_STATUS_OK : status, !over);
    }
    template <class... T> auto answer(olivine_status status, T... value) const {
        return detail::answer<Mode>(status, handle_.gone(), std::move(value)...);
    }

    friend detail::Maker;
    BasicPublisher() = default;
    detail::PublisherHandle &handle() noexcept { return handle_; }

    detail::PublisherHandle handle_;
};

// Receives messages of a channel from all its publishers, in order for each publisher. Iterating
// waits for each message and ends with the stream.
template <class Mode> class BasicSubscriber {
    template <class T> using Answer = typename Mode::template Answer<T>;

  public:
    // Opens the channel that `uri` names, with settings as if they stood at its end. Throws
    // UriError or OpenError; UsageError for a text with a NUL inside.
    explicit BasicSubscriber(const std::string &uri, const Settings &settings = {}) {
        Mode::throws();
        detail::opened<Mode>(handle_, olivine_subscriber_open_with, uri, settings);
    }
    // The same for values of a type, which is the channel's. OpenError if it carries another.
    BasicSubscriber(const std::string &uri, const olivine_type &type,
        const Settings &settings = {}) {
        Mode::throws();
        detail::opened<Mode>(handle_, olivine_subscriber_open_typed, uri, settings, &type);
    }
    // What the constructors do, for `results::Subscriber`.
    static Answer<BasicSubscriber> open(const std::string &uri, const Settings &settings = {}) {
        return detail::made<Mode, BasicSubscriber>(olivine_subscriber_open_with, uri, settings);
    }
    static Answer<BasicSubscriber> open(const std::string &uri, const olivine_type &type,
        const Settings &settings = {}) {
        return detail::made<Mode, BasicSubscriber>(olivine_subscriber_open_typed, uri, settings,
            &type);
    }

    // The next message, or nothing where there is none. Never sleeps. Throws EndOfStream.
    Answer<std::optional<Message>> try_receive() {
        olivine_message message = OLIVINE_MESSAGE_INIT;
        return in_time(olivine_subscriber_try_receive(handle_.get(), &message), message);
    }
    // The next message; waits for it. Throws EndOfStream.
    Answer<Message> receive() {
        olivine_message message = OLIVINE_MESSAGE_INIT;
        const olivine_status status = olivine_subscriber_receive(handle_.get(), &message);
        return answer(status, Message(message));
    }
    // The next message; nothing when the time is over. Throws EndOfStream.
    Answer<std::optional<Message>> receive_timeout(Timeout timeout) {
        olivine_message message = OLIVINE_MESSAGE_INIT;
        return in_time(olivine_subscriber_receive_timeout(handle_.get(), timeout.ms(), &message),
            message);
    }

    // Hands up to `limit` messages to `handler`; how many. Never sleeps. A handler that throws gets
    // the same message again in the next call, and what it threw comes out here. A handler may
    // destroy or assign the subscriber, which then leaves the channel with the end of this call,
    // but neither close it nor call it otherwise: that throws.
    // `*consumed`, if `consumed` is not nullptr, is how many also where this throws.
    template <class Function>
    Answer<std::size_t> poll(Function &&handler, std::size_t limit,
        std::size_t *consumed = nullptr) {
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
        const char *gone = handle_.gone();
        const olivine_status status =
            olivine_subscriber_poll(handle_.get(), hand_over, &context, limit, &count);
        if (consumed != nullptr) {
            *consumed = count;
        }
        if (context.thrown) {
            std::rethrow_exception(context.thrown);
        }
        // The handler may have destroyed this object.
        return detail::answer<Mode>(status, gone, count);
    }

    // Copies up to `rows` messages of `row_length` bytes each into `array`, one behind the other,
    // and consumes them, a durable subscriber with its next call that receives, polls, waits,
    // releases or closes; how many. Never sleeps. `details`, if given, has as many elements as the
    // array has rows. A message of another length ends the array before it and stays; if it is the
    // first, UsageError says so. `*copied`, if given, is how many rows were filled, also where this
    // throws: an overrun behind them, for example.
    Answer<std::size_t> poll_into(void *array, std::size_t row_length, std::size_t rows,
        olivine_detail *details = nullptr, std::size_t *copied = nullptr) {
        std::size_t count = 0;
        const olivine_status status = olivine_subscriber_poll_into(handle_.get(), array,
            row_length, rows, details, &count);
        if (copied != nullptr) {
            *copied = count;
        }
        return answer(status, count);
    }

    // Waits until a poll would find something; whether it would.
    Answer<bool> wait(Timeout timeout = {}) {
        const olivine_status status = olivine_subscriber_wait(handle_.get(), timeout.ms());
        const bool over = status == OLIVINE_STATUS_TIMED_OUT;
        return answer(over ? OLIVINE_STATUS_OK : status, !over);
    }
    // Ends the life of the message received last, and gives its room back now.
    Answer<void> release() { return answer(olivine_subscriber_release(handle_.get())); }

    Answer<Position> position() const {
        Position position = 0;
        const olivine_status status = olivine_subscriber_position(handle_.get(), &position);
        return answer(status, position);
    }
    // Bytes published and not read yet.
    Answer<std::uint64_t> lag() const {
        std::uint64_t lag = 0;
        const olivine_status status = olivine_subscriber_lag(handle_.get(), &lag);
        return answer(status, lag);
    }
    // Bytes of frames missed: by overruns and evictions, or while the name had lost its place.
    Answer<std::uint64_t> lost_bytes() const {
        std::uint64_t lost_bytes = 0;
        const olivine_status status = olivine_subscriber_lost_bytes(handle_.get(), &lost_bytes);
        return answer(status, lost_bytes);
    }
    // What it found of its name when it was opened; OLIVINE_DURABLE_NONE without a name.
    Answer<olivine_durable> durable() const {
        olivine_durable durable = OLIVINE_DURABLE_NONE;
        const olivine_status status = olivine_subscriber_durable(handle_.get(), &durable);
        return answer(status, durable);
    }
    // Whether the files of the channel were removed while it was open: openers get a new channel.
    Answer<bool> check_unlinked() const {
        int is_unlinked = 0;
        const olivine_status status =
            olivine_subscriber_check_unlinked(handle_.get(), &is_unlinked);
        return answer(status, is_unlinked != 0);
    }
    // Whether a far side is connected, and why not; nothing for `shm://` and `inproc://`.
    Answer<std::optional<LinkStatus>> link_status() const {
        olivine_link_status now = OLIVINE_LINK_STATUS_INIT;
        const olivine_status status = olivine_subscriber_link_status(handle_.get(), &now);
        return answer(status, LinkStatus::of(now));
    }
    // Readable when there is a message or the end of the stream, and at times without either:
    // read until nothing is left, which arms it again. Belongs to the subscriber.
    Answer<int> event_fd() {
        int descriptor = -1;
        const olivine_status status = olivine_subscriber_event_fd(handle_.get(), &descriptor);
        return answer(status, descriptor);
    }

    // Leaves the channel. A durable subscriber keeps its place, behind the message received last.
    Answer<void> close() { return answer(handle_.give_back(olivine_subscriber_close)); }
    // Leaves the channel, as destroying does. A durable subscriber keeps its place before the
    // message received last, which comes again: a program that ends in good order closes.
    Answer<void> drop() { return answer(handle_.give_back(olivine_subscriber_drop)); }
    // Leaves the channel and forgets a durable name. Throws where it has left: the name is kept
    // then.
    Answer<void> unsubscribe() {
        return answer(handle_.give_back_open(olivine_subscriber_unsubscribe));
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

        explicit Iterator(BasicSubscriber *subscriber) : subscriber_(subscriber) { step(); }
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
            const olivine_status status = olivine_subscriber_receive(subscriber_->handle_.get(),
                &message);
            if (status == OLIVINE_STATUS_END_OF_STREAM) {
                subscriber_ = nullptr;
                message_.reset();
                return;
            }
            subscriber_->answer(status);
            message_.emplace(message);
        }

        BasicSubscriber *subscriber_ = nullptr;
        std::optional<Message> message_;
    };
    Iterator begin() {
        Mode::throws();
        return Iterator(this);
    }
    Iterator end() noexcept { return {}; }

  private:
    Answer<std::optional<Message>> in_time(olivine_status status,
        const olivine_message &message) const {
        return detail::answer_in_time<Mode>(status, handle_.gone(), Message(message));
    }
    template <class... T> auto answer(olivine_status status, T... value) const {
        return detail::answer<Mode>(status, handle_.gone(), std::move(value)...);
    }

    friend detail::Maker;
    BasicSubscriber() = default;
    detail::SubscriberHandle &handle() noexcept { return handle_; }

    detail::SubscriberHandle handle_;
};

using Publisher = BasicPublisher<Throws>;
using Claim = BasicClaim<Throws>;
using Subscriber = BasicSubscriber<Throws>;

// The same, for programs that look at each answer: a failure is one. What a handler of `poll`
// throws comes out. Memory that is used up throws std::bad_alloc. `Message::as` throws where the
// length is another one. olivine_typed.hpp has these classes for values of one type, too.
namespace results {

using Publisher = BasicPublisher<Results>;
using Claim = BasicClaim<Results>;
using Subscriber = BasicSubscriber<Results>;

} // namespace results

} // namespace olivine

#endif // OLIVINE_HPP
