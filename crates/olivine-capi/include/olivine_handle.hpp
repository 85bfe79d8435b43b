// What the classes of olivine.hpp share: how a call answers, and handles that are closed once.

#ifndef OLIVINE_HANDLE_HPP
#define OLIVINE_HANDLE_HPP

#include "olivine_values.hpp"

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace olivine {

// A value, or the status and the text of a failure.
template <class T> class [[nodiscard]] Result {
  public:
    explicit Result(T value) : value_(std::in_place, std::move(value)) {}
    Result(olivine_status status, const char *text) : status_(status), text_(text) {}

    // Whether there is a value.
    explicit operator bool() const noexcept { return status_ == OLIVINE_STATUS_OK; }
    olivine_status status() const noexcept { return status_; }
    // What failed, with which value, and what to do; empty where there is a value.
    const std::string &text() const noexcept { return text_; }
    // The value; there must be one.
    T &operator*() noexcept { return *value_; }
    const T &operator*() const noexcept { return *value_; }
    T *operator->() noexcept { return &*value_; }
    const T *operator->() const noexcept { return &*value_; }
    // The value; throws the failure where there is none.
    T value() && {
        if (!*this) {
            detail::raise(status_, text_.c_str());
        }
        return std::move(*value_);
    }

  private:
    olivine_status status_ = OLIVINE_STATUS_OK;
    std::string text_;
    std::optional<T> value_;
};

// Done, or the status and the text of a failure.
template <> class [[nodiscard]] Result<void> {
  public:
    Result() = default;
    Result(olivine_status status, const char *text) : status_(status), text_(text) {}

    explicit operator bool() const noexcept { return status_ == OLIVINE_STATUS_OK; }
    olivine_status status() const noexcept { return status_; }
    const std::string &text() const noexcept { return text_; }
    void value() && {
        if (!*this) {
            detail::raise(status_, text_.c_str());
        }
    }

  private:
    olivine_status status_ = OLIVINE_STATUS_OK;
    std::string text_;
};

// How a call answers: by its value, and by an exception where it failed.
struct Throws {
    template <class T> using Answer = T;
    template <class T> static T value(T value) { return value; }
    static void value() noexcept {}
    template <class T = void> [[noreturn]] static T failure(olivine_status status,
        const char *text) {
        detail::raise(status, text);
    }
    // What is for this way alone compiles.
    static constexpr void throws() noexcept {}
};

// How a call answers: by a Result.
struct Results {
    template <class T> using Answer = Result<T>;
    template <class T> static Result<T> value(T value) { return Result<T>(std::move(value)); }
    static Result<void> value() noexcept { return {}; }
    template <class T = void> static Result<T> failure(olivine_status status, const char *text) {
        return {status, text};
    }
    template <class T = void> static constexpr void throws() noexcept {
        static_assert(!std::is_void_v<T>,
            "this throws: open by `open` of the class, such as results::Publisher::open, and "
            "receive instead of a for loop");
    }
};

namespace detail {

// Why a call failed. `gone` is the text for a handle that is not there, if it may be.
inline const char *text_of(olivine_status status, const char *gone) noexcept {
    const bool is_gone = status == OLIVINE_STATUS_NULL_ARGUMENT && gone != nullptr;
    return is_gone ? gone : olivine_last_error();
}

// The answer of a call.
template <class Mode>
typename Mode::template Answer<void> answer(olivine_status status, const char *gone) {
    if (status != OLIVINE_STATUS_OK) {
        return Mode::failure(status, text_of(status, gone));
    }
    return Mode::value();
}
template <class Mode, class T>
typename Mode::template Answer<T> answer(olivine_status status, const char *gone, T value) {
    if (status != OLIVINE_STATUS_OK) {
        return Mode::template failure<T>(status, text_of(status, gone));
    }
    return Mode::value(std::move(value));
}

// The same, of a call that waits for a value: nothing where the time is over.
template <class Mode, class T>
typename Mode::template Answer<std::optional<T>> answer_in_time(olivine_status status,
    const char *gone, T value) {
    using Received = std::optional<T>;
    return status == OLIVINE_STATUS_TIMED_OUT
               ? answer<Mode>(OLIVINE_STATUS_OK, gone, Received())
               : answer<Mode>(status, gone, Received(std::move(value)));
}

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

// What is said of a handle that is gone.
template <class Raw> struct Raws;
template <> struct Raws<olivine_publisher> {
    static constexpr const char *CLOSED = "the publisher is closed: open another one";
    static constexpr const char *MOVED = "the publisher was moved from: use the new one";
};
template <> struct Raws<olivine_subscriber> {
    static constexpr const char *CLOSED = "the subscriber is closed: open another one";
    static constexpr const char *MOVED = "the subscriber was moved from: use the new one";
};

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
    // Why a call has no handle; NULL where it has one.
    const char *gone() const noexcept {
        if (!cell_) {
            return Raws<Raw>::MOVED;
        }
        return cell_->raw == nullptr ? Raws<Raw>::CLOSED : nullptr;
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

    // The same; NULL_ARGUMENT where it is closed or moved from.
    template <class Way> olivine_status give_back_open(Way &&way) noexcept {
        return get() == nullptr ? OLIVINE_STATUS_NULL_ARGUMENT : give_back(way);
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

// Why `text` cannot be handed to C, where it would end at its first NUL; empty if it can.
inline std::string cut(const std::string &what, const std::string &text) {
    const std::size_t at = text.find('\0');
    if (at == std::string::npos) {
        return {};
    }
    return what + " has a NUL at byte " + std::to_string(at) + ", behind '" + text.substr(0, at) +
           "': remove it";
}

// The same, of a URI and settings.
inline std::string cut(const std::string &uri, const Settings &settings) {
    std::string found = cut("the URI", uri);
    for (const auto &[key, value] : settings.pairs()) {
        found = found.empty() ? cut("a key of the settings", key) : found;
        found = found.empty() ? cut("the value of '" + key + "'", value) : found;
    }
    return found;
}

// Opens `handle`; `type` is what `open` takes before the handle, if anything.
template <class Mode, class Opened, class Open, class... Type>
auto opened(Opened &handle, Open open, const std::string &uri, const Settings &settings,
    Type... type) {
    const std::string problem = cut(uri, settings);
    if (!problem.empty()) {
        return Mode::failure(OLIVINE_STATUS_BAD_ARGUMENT, problem.c_str());
    }
    const auto rows = detail::rows(settings);
    const olivine_status status = open(uri.c_str(), rows.data(), rows.size(), type...,
        handle.place());
    return answer<Mode>(status, nullptr);
}

// Makes ends that are not open yet, and reaches the handle inside one.
struct Maker {
    template <class End> static End unopened() { return End(); }
    template <class End> static auto &handle_of(End &end) noexcept { return end.handle(); }
};
// Opens the handle inside a new end.
template <class Mode, class End, class Open, class... Type>
typename Mode::template Answer<End> made(Open open, const std::string &uri,
    const Settings &settings, Type... type) {
    End end = Maker::unopened<End>();
    auto done = opened<Results>(Maker::handle_of(end), open, uri, settings, type...);
    if (!done) {
        return Mode::template failure<End>(done.status(), done.text().c_str());
    }
    return Mode::value(std::move(end));
}

} // namespace detail

} // namespace olivine

#endif // OLIVINE_HANDLE_HPP
