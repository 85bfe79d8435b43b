// Olivine for C++17: what the classes of olivine.hpp take and hand over. That header includes this
// one, and says the rules.

#ifndef OLIVINE_VALUES_HPP
#define OLIVINE_VALUES_HPP

#include "olivine.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace olivine {

using Position = std::uint64_t;

// Why a call failed. what() says what, with which value, and what to do.
class Error : public std::runtime_error {
  public:
    Error(olivine_status status, const char *text) : std::runtime_error(text), status_(status) {}
    // What olivine.h answered.
    olivine_status status() const noexcept { return status_; }

  private:
    olivine_status status_;
};

// Wrong use of the interface.
class UsageError : public Error {
    using Error::Error;
};
// The URI or a setting is wrong.
class UriError : public Error {
    using Error::Error;
};
// The channel could not be opened.
class OpenError : public Error {
    using Error::Error;
};
// Nothing was sent.
class NotSent : public Error {
    using Error::Error;
};
// The time-out of a publish is over, and there is no room or no subscriber.
class BackPressured : public NotSent {
    using NotSent::NotSent;
};
// Nothing was received.
class ReceiveError : public Error {
    using Error::Error;
};
// Every publisher has closed and everything was read.
class EndOfStream : public ReceiveError {
    using ReceiveError::ReceiveError;
};

namespace detail {

// Throws `Failure`, or ends the program where there are no exceptions.
template <class Failure> [[noreturn]] inline void fail(olivine_status status, const char *text) {
#if defined(__cpp_exceptions)
    throw Failure(status, text);
#else
    std::fprintf(stderr, "olivine: %s (status %d)\n", text, static_cast<int>(status));
    std::abort();
#endif
}

// Throws the exception of `status`.
[[noreturn]] inline void raise(olivine_status status, const char *text) {
    switch (static_cast<int>(status) / 100) {
    case 2:
        fail<UriError>(status, text);
    case 3:
        fail<OpenError>(status, text);
    case 4:
        if (status == OLIVINE_STATUS_BACK_PRESSURED || status == OLIVINE_STATUS_NOT_CONNECTED) {
            fail<BackPressured>(status, text);
        }
        fail<NotSent>(status, text);
    case 5:
        if (status == OLIVINE_STATUS_END_OF_STREAM) {
            fail<EndOfStream>(status, text);
        }
        fail<ReceiveError>(status, text);
    default:
        fail<UsageError>(status, text);
    }
}

} // namespace detail

// Throws the exception of `status`; returns if it is OK.
inline void check(olivine_status status) {
    if (status != OLIVINE_STATUS_OK) {
        detail::raise(status, olivine_last_error());
    }
}

// How long to wait: a duration, or for as long as it takes.
class Timeout {
    using Milliseconds = std::chrono::duration<std::int64_t, std::milli>;

  public:
    // For as long as it takes.
    constexpr Timeout() noexcept = default;
    // Rounded up to milliseconds, so that a short wait is one; 0 and less do not wait.
    template <class Rep, class Period>
    constexpr Timeout(std::chrono::duration<Rep, Period> duration) noexcept
        : ms_(duration.count() <= 0 ? 0 : std::chrono::ceil<Milliseconds>(duration).count()) {}
    constexpr std::int64_t ms() const noexcept { return ms_; }

  private:
    std::int64_t ms_ = -1;
};

// A view of the caller's bytes: a pointer and a length. Made of text, a vector, an array, or any
// other container with data() and size(). A literal ("text") is text without its NUL; of a char
// array that can be written, all bytes count.
class Bytes {
  public:
    constexpr Bytes() noexcept = default;
    constexpr Bytes(const void *data, std::size_t size) noexcept : data_(data), size_(size) {}
    constexpr Bytes(const char *text) noexcept : Bytes(std::string_view(text)) {}
    template <std::size_t Count>
    constexpr Bytes(char (&row)[Count]) noexcept : data_(row), size_(Count) {}
    template <class Value, std::size_t Count,
              class = std::enable_if_t<std::is_trivially_copyable_v<Value> &&
                                       !std::is_same_v<Value, char>>>
    constexpr Bytes(const Value (&row)[Count]) noexcept : data_(row), size_(sizeof(row)) {}
    constexpr Bytes(std::string_view text) noexcept : data_(text.data()), size_(text.size()) {}
    template <class Row,
              class Value = std::remove_pointer_t<decltype(std::declval<const Row &>().data())>,
              class = std::enable_if_t<std::is_trivially_copyable_v<Value> &&
                                       !std::is_same_v<std::decay_t<Row>, Bytes>>>
    constexpr Bytes(const Row &row) noexcept
        : data_(row.data()), size_(row.size() * sizeof(Value)) {}

    const std::byte *data() const noexcept { return static_cast<const std::byte *>(data_); }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    const std::byte *begin() const noexcept { return data(); }
    const std::byte *end() const noexcept { return data() + size_; }
    std::byte operator[](std::size_t index) const noexcept { return data()[index]; }
    // The bytes as text, nothing copied.
    std::string_view text() const noexcept { return {static_cast<const char *>(data_), size_}; }

  private:
    const void *data_ = nullptr;
    std::size_t size_ = 0;
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

// A received message: a view of the ring, nothing copied. It lives until its subscriber receives,
// polls, waits, releases or closes; in a handler, until that returns. Copy bytes out to keep them.
class Message : public Bytes {
  public:
    explicit Message(const olivine_message &message) noexcept
        : Bytes(message.data, message.length), message_(message) {}
    // The number that its publisher gave with it; 0 if none.
    std::uint32_t tag() const noexcept { return message_.tag; }
    // Index of its publisher's lane.
    std::uint32_t lane() const noexcept { return message_.lane; }
    // Where its frame starts in that lane, in bytes.
    Position position() const noexcept { return message_.position; }
    // What it is about; empty for a message without a topic.
    std::string_view topic() const noexcept { return {message_.topic, message_.topic_length}; }
    // A copy of the value that it carries. UsageError if `T` has another size. Defined in
    // olivine_typed.hpp, whose handles check the type.
    template <class T> T as() const;

  private:
    olivine_message message_;
};

// The state of the bridge behind a handle (`tcp://`, `nats://`, `file://`, `shm+fd://`), and its
// counters: as olivine_link_status, which explains each. The texts are copies.
struct LinkStatus {
    explicit LinkStatus(const olivine_link_status &status)
        : stage(status.stage), peers(status.peers), note(status.note), address(status.address),
          connections(status.connections), failures(status.failures), refusals(status.refusals),
          abandoned(status.abandoned), undelivered(status.undelivered), messages(status.messages),
          bytes(status.bytes), acknowledged_bytes(status.acknowledged_bytes),
          journal_position(status.journal_position) {}

    // Nothing without a bridge.
    static std::optional<LinkStatus> of(const olivine_link_status &status) {
        const bool is_there = status.stage != OLIVINE_LINK_STAGE_NONE;
        return is_there ? std::optional<LinkStatus>(LinkStatus(status)) : std::nullopt;
    }

    olivine_link_stage stage;
    std::uint32_t peers;
    std::string note;
    std::string address;
    std::uint64_t connections;
    std::uint64_t failures;
    std::uint64_t refusals;
    std::uint64_t abandoned;
    std::uint64_t undelivered;
    std::uint64_t messages;
    std::uint64_t bytes;
    std::uint64_t acknowledged_bytes;
    std::uint64_t journal_position;
};

// Settings by key and value, as a URI has them: {{"capacity", "4MiB"}}. Also made of a map, a
// vector of pairs, or anything else that goes over pairs of text, and added to at run time.
class Settings {
  public:
    using Pair = std::pair<std::string, std::string>;

    Settings() = default;
    Settings(std::initializer_list<Pair> pairs) : pairs_(pairs) {}
    template <class Pairs, class = decltype(std::begin(std::declval<const Pairs &>())->second),
              class = std::enable_if_t<!std::is_same_v<std::decay_t<Pairs>, Settings>>>
    Settings(const Pairs &pairs) {
        for (const auto &[key, value] : pairs) {
            add(std::string(key), std::string(value));
        }
    }
    Settings &add(std::string key, std::string value) {
        pairs_.emplace_back(std::move(key), std::move(value));
        return *this;
    }
    const std::vector<Pair> &pairs() const noexcept { return pairs_; }

  private:
    std::vector<Pair> pairs_;
};

} // namespace olivine

#endif // OLIVINE_VALUES_HPP
