// Olivine for C++17: values of one type, over olivine.hpp.
//
// Calls of `TypedPublisher<T>` and `TypedSubscriber<T>` throw as those of `Publisher` and
// `Subscriber`. Calls of `results::TypedPublisher<T>` and `results::TypedSubscriber<T>` answer a
// `Result`, for programs without exceptions:
//
//     auto quotes = olivine::results::TypedSubscriber<Quote>::open("shm://quotes");
//     if (!quotes) return failed(quotes.text());      // a std::string
//     auto quote = quotes->receive();                 // a Result<Quote>
//     if (quote) deal_with(*quote);
//     else if (quote.status() != OLIVINE_STATUS_END_OF_STREAM) return failed(quote.text());

#ifndef OLIVINE_TYPED_HPP
#define OLIVINE_TYPED_HPP

#include "olivine.hpp"

#include <chrono>
#include <cstdint>
#include <cstring>

namespace olivine {

// Name and version of the layout of `T`, 1 to 64 bytes; change it when a field changes. `T` has it
// as `static constexpr const char *TYPE_NAME`, or the program specializes this structure.
template <class T> struct TypeName {
    static constexpr const char *value = T::TYPE_NAME;
};

// The fields of `T`, such as `"bid i64, symbol text[8]"` (docs/types.md); not stated without
// `static constexpr const char *FIELDS` in `T`, or a specialization.
template <class T, class = void> struct TypeFields {
    static constexpr const char *value = nullptr;
};
template <class T> struct TypeFields<T, std::void_t<decltype(T::FIELDS)>> {
    static constexpr const char *value = T::FIELDS;
};

// What a channel compares: name, size, alignment and fields, as Rust, C and Python state them.
template <class T> constexpr olivine_type type_of() noexcept {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>,
        "a value travels as its bytes: use a type without pointers and virtual functions");
    static_assert(alignof(T) <= 8, "messages start on 8-byte boundaries");
    return {TypeName<T>::value, sizeof(T), alignof(T), TypeFields<T>::value};
}

template <class T> T Message::as() const {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>,
        "a value travels as its bytes: use a type without pointers and virtual functions");
    static_assert(std::is_default_constructible_v<T>, "a value is received into a new one");
    if (size() != sizeof(T)) {
        const std::string text = "the message has " + std::to_string(size()) +
                                 " bytes, and the value has " + std::to_string(sizeof(T));
        detail::fail<UsageError>(OLIVINE_STATUS_BAD_ARGUMENT, text.c_str());
    }
    T value{};
    std::memcpy(&value, data(), sizeof(T));
    return value;
}

// Sends values of one type, each as the bytes that it has in memory, padding included. `T` is
// trivially copyable, and the channel's type: OpenError where it carries another.
template <class T, class Mode> class BasicTypedPublisher {
    template <class Value> using Answer = typename Mode::template Answer<Value>;

  public:
    // As Publisher's.
    explicit BasicTypedPublisher(const std::string &uri, const Settings &settings = {})
        : publisher_(uri, type_of<T>(), settings) {}
    // What the constructor does, for `results::TypedPublisher`.
    static Answer<BasicTypedPublisher> open(const std::string &uri, const Settings &settings = {}) {
        const olivine_type type = type_of<T>();
        return detail::made<Mode, BasicTypedPublisher>(olivine_publisher_open_typed, uri, settings,
            &type);
    }

    // As those of Publisher, which say what blocks and what is thrown.
    Answer<std::optional<Position>> try_publish(const T &value, Label label = {}) {
        return publisher_.try_publish(bytes_of(value), label);
    }
    Answer<Position> publish(const T &value, Label label = {}) {
        return publisher_.publish(bytes_of(value), label);
    }
    Answer<Position> publish_timeout(const T &value, Timeout timeout, Label label = {}) {
        return publisher_.publish_timeout(bytes_of(value), timeout, label);
    }
    Answer<std::size_t> try_publish_batch(const T *values, std::size_t count,
        std::size_t *sent = nullptr) {
        return publisher_.try_publish_batch(parts(values, count), sent);
    }
    Answer<std::size_t> publish_batch(const T *values, std::size_t count,
        std::size_t *sent = nullptr) {
        return publisher_.publish_batch(parts(values, count), sent);
    }
    Answer<std::size_t> publish_batch_timeout(const T *values, std::size_t count, Timeout timeout,
        std::size_t *sent = nullptr) {
        return publisher_.publish_batch_timeout(parts(values, count), timeout, sent);
    }
    Answer<void> close() { return publisher_.close(); }

    // For everything else.
    BasicPublisher<Mode> &publisher() noexcept { return publisher_; }

  private:
    static Bytes bytes_of(const T &value) noexcept { return Bytes(&value, sizeof(T)); }
    static std::vector<Part> parts(const T *values, std::size_t count) {
        std::vector<Part> made;
        made.reserve(count);
        for (std::size_t index = 0; index < count; ++index) {
            made.push_back({bytes_of(values[index])});
        }
        return made;
    }

    friend detail::Maker;
    BasicTypedPublisher() : publisher_(detail::Maker::unopened<BasicPublisher<Mode>>()) {}
    detail::PublisherHandle &handle() noexcept { return detail::Maker::handle_of(publisher_); }

    BasicPublisher<Mode> publisher_;
};

// Receives values of one type, as copies. A value is consumed when a call returns it, also by a
// durable subscriber. Where it must come again if the program dies, receive its message:
// `for (const Message &message : values.subscriber()) { deal_with(message.as<T>()); }`. A message
// of another length, which no typed publisher sends, is not consumed: UsageError says its length.
template <class T, class Mode> class BasicTypedSubscriber {
    static_assert(std::is_default_constructible_v<T>, "a value is received into a new one");
    template <class Value> using Answer = typename Mode::template Answer<Value>;

  public:
    // As Subscriber's.
    explicit BasicTypedSubscriber(const std::string &uri, const Settings &settings = {})
        : subscriber_(uri, type_of<T>(), settings) {}
    // What the constructor does, for `results::TypedSubscriber`.
    static Answer<BasicTypedSubscriber> open(const std::string &uri,
        const Settings &settings = {}) {
        const olivine_type type = type_of<T>();
        return detail::made<Mode, BasicTypedSubscriber>(olivine_subscriber_open_typed, uri,
            settings, &type);
    }

    // The next value, or nothing where there is none. Never sleeps. Throws EndOfStream.
    Answer<std::optional<T>> try_receive() {
        T value{};
        const olivine_status status = try_next(value);
        return detail::answer_in_time<Mode>(status, handle().gone(), value);
    }
    // The next value; waits for it. Throws EndOfStream.
    Answer<T> receive() {
        T value{};
        const olivine_status status = next(value, {});
        return detail::answer<Mode>(status, handle().gone(), value);
    }
    // The next value; nothing when the time is over. Throws EndOfStream.
    Answer<std::optional<T>> receive_timeout(Timeout timeout) {
        T value{};
        const olivine_status status = next(value, timeout);
        return detail::answer_in_time<Mode>(status, handle().gone(), value);
    }
    // Copies up to `count` values into `values`; how many. Never sleeps. Throws EndOfStream.
    // `*copied`, if given, is how many were copied, also where this throws.
    Answer<std::size_t> poll_into(T *values, std::size_t count, olivine_detail *details = nullptr,
        std::size_t *copied = nullptr) {
        return subscriber_.poll_into(values, sizeof(T), count, details, copied);
    }
    Answer<void> close() { return subscriber_.close(); }

    // For everything else.
    BasicSubscriber<Mode> &subscriber() noexcept { return subscriber_; }

  private:
    // Copies the next value; TIMED_OUT where there is none.
    olivine_status try_next(T &value) {
        std::size_t count = 0;
        const olivine_status status = olivine_subscriber_poll_into(handle().get(), &value,
            sizeof(T), 1, nullptr, &count);
        return status == OLIVINE_STATUS_OK && count == 0 ? OLIVINE_STATUS_TIMED_OUT : status;
    }
    // Copies the next value; TIMED_OUT when the time is over.
    olivine_status next(T &value, Timeout timeout) {
        using Clock = std::chrono::steady_clock;
        using Milliseconds = std::chrono::duration<std::int64_t, std::milli>;
        const bool is_bounded = timeout.ms() >= 0;
        const Clock::time_point start = is_bounded ? Clock::now() : Clock::time_point();
        while (true) {
            olivine_status status = try_next(value);
            if (status != OLIVINE_STATUS_TIMED_OUT) {
                return status;
            }
            Timeout left = timeout;
            if (is_bounded) {
                const auto passed = std::chrono::duration_cast<Milliseconds>(Clock::now() - start);
                left = Timeout(Milliseconds(timeout.ms()) - passed);
                if (left.ms() == 0) {
                    return status;
                }
            }
            status = olivine_subscriber_wait(handle().get(), left.ms());
            if (status != OLIVINE_STATUS_OK && status != OLIVINE_STATUS_TIMED_OUT) {
                return status;
            }
        }
    }

    friend detail::Maker;
    BasicTypedSubscriber() : subscriber_(detail::Maker::unopened<BasicSubscriber<Mode>>()) {}
    detail::SubscriberHandle &handle() noexcept { return detail::Maker::handle_of(subscriber_); }

    BasicSubscriber<Mode> subscriber_;
};

template <class T> using TypedPublisher = BasicTypedPublisher<T, Throws>;
template <class T> using TypedSubscriber = BasicTypedSubscriber<T, Throws>;

// The same, for programs that look at each answer: as `results` in olivine.hpp says.
namespace results {

template <class T> using TypedPublisher = BasicTypedPublisher<T, Results>;
template <class T> using TypedSubscriber = BasicTypedSubscriber<T, Results>;

} // namespace results

} // namespace olivine

#endif // OLIVINE_TYPED_HPP
