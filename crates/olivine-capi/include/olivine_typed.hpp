// Olivine for C++17: values of one type, over olivine.hpp.

#ifndef OLIVINE_TYPED_HPP
#define OLIVINE_TYPED_HPP

#include "olivine.hpp"

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
template <class T> class TypedPublisher {
  public:
    // As Publisher's.
    explicit TypedPublisher(const std::string &uri, const Settings &settings = {})
        : publisher_(uri, type_of<T>(), settings) {}

    // As those of Publisher, which say what blocks and what is thrown.
    std::optional<Position> try_publish(const T &value, Label label = {}) {
        return publisher_.try_publish(bytes_of(value), label);
    }
    Position publish(const T &value, Label label = {}) {
        return publisher_.publish(bytes_of(value), label);
    }
    Position publish_timeout(const T &value, Timeout timeout, Label label = {}) {
        return publisher_.publish_timeout(bytes_of(value), timeout, label);
    }
    std::size_t try_publish_batch(const T *values, std::size_t count, std::size_t *sent = nullptr) {
        return publisher_.try_publish_batch(parts(values, count), sent);
    }
    std::size_t publish_batch(const T *values, std::size_t count, std::size_t *sent = nullptr) {
        return publisher_.publish_batch(parts(values, count), sent);
    }
    std::size_t publish_batch_timeout(const T *values, std::size_t count, Timeout timeout,
        std::size_t *sent = nullptr) {
        return publisher_.publish_batch_timeout(parts(values, count), timeout, sent);
    }
    void close() { publisher_.close(); }

    // For everything else.
    Publisher &publisher() noexcept { return publisher_; }

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

    Publisher publisher_;
};

// Receives values of one type, as copies. A value is consumed when a call returns it, also by a
// durable subscriber. Where it must come again if the program dies, receive its message:
// `for (const Message &message : values.subscriber()) { deal_with(message.as<T>()); }`. A message
// of another length, which no typed publisher sends, is not consumed: UsageError says its length.
template <class T> class TypedSubscriber {
    static_assert(std::is_default_constructible_v<T>, "a value is received into a new one");

  public:
    // As Subscriber's.
    explicit TypedSubscriber(const std::string &uri, const Settings &settings = {})
        : subscriber_(uri, type_of<T>(), settings) {}

    // The next value, or nothing where there is none. Never sleeps. Throws EndOfStream.
    std::optional<T> try_receive() {
        T value{};
        return poll_into(&value, 1) == 1 ? std::optional<T>(value) : std::nullopt;
    }
    // The next value; waits for it. Throws EndOfStream.
    T receive() {
        while (true) {
            if (std::optional<T> value = try_receive()) {
                return *value;
            }
            subscriber_.wait();
        }
    }
    // The next value; nothing when the time is over. Throws EndOfStream.
    std::optional<T> receive_timeout(Timeout timeout) {
        using Clock = std::chrono::steady_clock;
        using Milliseconds = std::chrono::duration<std::int64_t, std::milli>;
        const Clock::time_point start = Clock::now();
        while (true) {
            if (std::optional<T> value = try_receive()) {
                return value;
            }
            Timeout left = timeout;
            if (timeout.ms() >= 0) {
                const auto passed = std::chrono::duration_cast<Milliseconds>(Clock::now() - start);
                left = Timeout(Milliseconds(timeout.ms()) - passed);
                if (left.ms() == 0) {
                    return std::nullopt;
                }
            }
            subscriber_.wait(left);
        }
    }
    // Copies up to `count` values into `values`; how many. Never sleeps. Throws EndOfStream.
    // `*copied`, if given, is how many were copied, also where this throws.
    std::size_t poll_into(T *values, std::size_t count, olivine_detail *details = nullptr,
        std::size_t *copied = nullptr) {
        return subscriber_.poll_into(values, sizeof(T), count, details, copied);
    }
    void close() { subscriber_.close(); }

    // For everything else.
    Subscriber &subscriber() noexcept { return subscriber_; }

  private:
    Subscriber subscriber_;
};

} // namespace olivine

#endif // OLIVINE_TYPED_HPP
