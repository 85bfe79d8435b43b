// Olivine: messages between programs, fast, nothing lost, survives any crash.
//
// Made by cbindgen from crates/olivine-capi; change it there.
//
// Rules, of every function:
//
// - It returns a status; OLIVINE_STATUS_OK is 0. olivine_last_error() is the text of the calling
//   thread's latest failure. After a failure, values written through pointers are unspecified
//   unless the function says otherwise.
// - A NULL that is not allowed is a status. No panic of the library crosses this border.
// - A handle may move between threads; one thread uses it at a time. Different handles are
//   independent.
// - A handle that was open when a process forked belongs to the parent. In the child each call
//   answers FORKED or RECEIVE_FORKED, whatever else is wrong, also where it closes the child's
//   copy; closing and dropping a subscriber answers OK. The parent's handle goes on in any case.
// - Texts are UTF-8 and end with a NUL, except a message's topic. Lengths are bytes, time-outs
//   milliseconds.
// - Structures that the library fills begin with their size, so that later versions can add fields
//   at the end:
//   olivine_message message = OLIVINE_MESSAGE_INIT;
// - Sending and receiving allocate nothing. They make a system call to wait, and to wake a
//   participant that sleeps. The batch functions allocate a list of their parts, and a handler that
//   stops a poll costs an unwinding.
// - A signal does not end a call that waits: the call goes on waiting once the signal handler has
//   run. A program that must react to signals waits in slices of timeout_ms.
// - Another thread does not end it either: a close is refused (OLIVINE_STATUS_IN_USE), and a thread
//   must not be cancelled in a call (pthread_cancel). To end a wait at once, wait in poll(2) for
//   olivine_subscriber_event_fd and an eventfd that the other thread writes.
// - ThreadSanitizer does not see the library's synchronisation. Where a message hands over memory
//   of the process, say so: __tsan_release before it is sent, __tsan_acquire after it arrived. Its
//   reports inside the shared library end with TSAN_OPTIONS=suppressions=FILE, where FILE has this
//   line: called_from_lib:libolivine.so
//
// Each verb has three forms: try_x never waits, x waits by the channel's wait strategy, x_timeout
// waits for `timeout_ms` milliseconds at most (negative: as long as it takes).
//
// A channel is named by a URI: shm://ticks?capacity=4MiB. Its schemes, keys, units and defaults are
// those of the Rust library and of the tool: docs/uri.md.


#ifndef OLIVINE_H
#define OLIVINE_H

#include <stddef.h>
#include <stdint.h>

// Version of this header; olivine_version() is the library's.
#define OLIVINE_VERSION "0.1.0"

// How structures begin that the library fills.
#define OLIVINE_MESSAGE_INIT { sizeof(olivine_message), NULL, 0, 0, NULL, 0, 0, 0 }
#define OLIVINE_CLAIM_INIT { sizeof(olivine_claim), NULL, 0 }
#define OLIVINE_STATS_INIT { sizeof(olivine_stats), 0, 0, 0, 0, 0 }
#define OLIVINE_LINK_STATUS_INIT \
    { sizeof(olivine_link_status), OLIVINE_LINK_STAGE_NONE, 0, NULL, NULL, 0, 0, 0, 0, 0, 0, \
      0, 0, 0 }


// What a call answers. `status / 100` is the family: 0 nothing is wrong, 1 wrong use of this
// interface, 2 a URI or a setting is wrong, 3 a channel could not be opened, 4 nothing was sent, 5
// nothing was received.
//
// Later versions add values to the families 1 to 5, and none changes: treat one you do not know by
// its family. Family 0 stays as it is: `OK`, and `TIMED_OUT`, with which nothing was received.
enum olivine_status
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // Done.
  OLIVINE_STATUS_OK = 0,
  // What the call waits for did not happen within the time-out; nothing is wrong.
  // `olivine_subscriber_try_receive` has a time-out of 0: it answers this where there is no
  // message. Where no far side of a channel elsewhere is connected, the text of a call that
  // waits says so, and why.
  OLIVINE_STATUS_TIMED_OUT = 1,
  // A pointer that must not be NULL is.
  OLIVINE_STATUS_NULL_ARGUMENT = 101,
  // An argument cannot be what it is: text that is not UTF-8, a structure of another version, a
  // handle that was closed.
  OLIVINE_STATUS_BAD_ARGUMENT = 102,
  // The handle is in use: by the poll whose handler made this call, or by another thread.
  OLIVINE_STATUS_IN_USE = 103,
  // The publisher has an open claim: commit it or abort it first.
  OLIVINE_STATUS_CLAIM_OPEN = 104,
  // There is no open claim to commit.
  OLIVINE_STATUS_NO_CLAIM = 105,
  // The operating system refused.
  OLIVINE_STATUS_SYSTEM = 106,
  // A bug of the library; please report what it printed. The handle can only be closed;
  // it is gone if closing answers this.
  OLIVINE_STATUS_PANICKED = 199,
  // The URI or a setting is wrong, for a reason without a separate status.
  OLIVINE_STATUS_URI = 200,
  // There is no `scheme://` at the start.
  OLIVINE_STATUS_URI_NO_SCHEME = 201,
  // The scheme is not one of ours.
  OLIVINE_STATUS_URI_UNKNOWN_SCHEME = 202,
  // The channel name breaks the grammar.
  OLIVINE_STATUS_URI_NAME = 203,
  // Host and port break the grammar.
  OLIVINE_STATUS_URI_ADDRESS = 204,
  // The path of a file breaks the grammar.
  OLIVINE_STATUS_URI_PATH = 205,
  // The path of a socket breaks the grammar.
  OLIVINE_STATUS_URI_SOCKET = 206,
  // The key is not one of ours.
  OLIVINE_STATUS_URI_UNKNOWN_KEY = 207,
  // A key is given twice.
  OLIVINE_STATUS_URI_REPEATED = 208,
  // A value does not parse or is out of range.
  OLIVINE_STATUS_URI_VALUE = 209,
  // Two settings exclude each other.
  OLIVINE_STATUS_URI_PAIR = 210,
  // The channel could not be opened, for a reason without a separate status.
  OLIVINE_STATUS_OPEN = 300,
  // The operating system refused.
  OLIVINE_STATUS_OPEN_IO = 301,
  // The folder of the channels cannot be trusted.
  OLIVINE_STATUS_OPEN_FOLDER = 302,
  // A file of the channel is not what it should be.
  OLIVINE_STATUS_OPEN_NOT_A_CHANNEL = 303,
  // The channel was made by a build with another memory layout.
  OLIVINE_STATUS_OPEN_LAYOUT = 304,
  // A setting differs from the live channel's.
  OLIVINE_STATUS_OPEN_MISMATCH = 305,
  // The channel carries messages of another type.
  OLIVINE_STATUS_OPEN_TYPE = 306,
  // The channel has no room for another publisher.
  OLIVINE_STATUS_OPEN_PUBLISHERS_FULL = 307,
  // The channel has no room for another subscriber.
  OLIVINE_STATUS_OPEN_SUBSCRIBERS_FULL = 308,
  // A durable name is in use by a live subscriber.
  OLIVINE_STATUS_OPEN_NAME_IN_USE = 309,
  // Shared memory is full.
  OLIVINE_STATUS_OPEN_NO_SPACE = 310,
  // Another process holds the channel's membership lock and does not release it.
  OLIVINE_STATUS_OPEN_BUSY = 311,
  // Each time the channel was found, it was being removed.
  OLIVINE_STATUS_OPEN_RESTLESS = 312,
  // There is no such channel, where a call does not make one. Opening `shm://` and `inproc://`
  // makes it.
  OLIVINE_STATUS_OPEN_MISSING = 313,
  // The thread could not be pinned.
  OLIVINE_STATUS_OPEN_CPU = 314,
  // The far side of a channel elsewhere cannot be reached: no server, no publisher at the
  // socket, no journal at the path. Or it refuses this side: its type, token, channel, settings.
  OLIVINE_STATUS_OPEN_LINK = 315,
  // This build was made without the bridge.
  OLIVINE_STATUS_OPEN_NO_BRIDGE = 316,
  // Large pages were required and cannot be had.
  OLIVINE_STATUS_OPEN_HUGE_PAGES = 317,
  // The channel was made in an earlier boot of the system: only looking from outside answers it,
  // opening makes the channel again.
  OLIVINE_STATUS_OPEN_EARLIER_BOOT = 318,
  // Another bridge carries the same source into the channel.
  OLIVINE_STATUS_OPEN_SOURCE_IN_USE = 319,
  // Nothing was sent, for a reason without a separate status.
  OLIVINE_STATUS_NOT_SENT = 400,
  // The slowest reliable subscriber has not made room yet.
  OLIVINE_STATUS_BACK_PRESSURED = 401,
  // Fewer reliable subscribers are attached than `subscribers=` asks for.
  OLIVINE_STATUS_NOT_CONNECTED = 402,
  // The publisher is closed. No call in C or C++ answers this: a handle is given back when it is
  // closed (`BAD_ARGUMENT` if that is found), and C++ has none then (`NULL_ARGUMENT`).
  OLIVINE_STATUS_CLOSED = 403,
  // The message does not fit the ring at all.
  OLIVINE_STATUS_TOO_LONG = 404,
  // The handle was made before a `fork` and this is the child: open the channel again.
  OLIVINE_STATUS_FORKED = 405,
  // The far side of a channel elsewhere cannot be reached any more.
  OLIVINE_STATUS_LINK_FAILED = 406,
  // The text given as the message's topic is not a topic.
  OLIVINE_STATUS_TOPIC = 407,
  // Nothing was received, for a reason without a separate status.
  OLIVINE_STATUS_NOT_RECEIVED = 500,
  // Every publisher has closed and everything was read. A subscriber that has met no publisher
  // waits for one.
  OLIVINE_STATUS_END_OF_STREAM = 501,
  // Unread messages of a `delivery=latest` subscriber were overwritten. It continues with the
  // next message published.
  OLIVINE_STATUS_OVERRUN = 502,
  // This subscriber lost its place: it held a publisher back for too long, or its name had
  // expired.
  OLIVINE_STATUS_EVICTED = 503,
  // The lane holds something that no publisher of this version writes.
  OLIVINE_STATUS_CORRUPT = 504,
  // The handle was made before a `fork` and this is the child: open the channel again.
  OLIVINE_STATUS_RECEIVE_FORKED = 505,
  // A publisher failed, or the far side of a channel elsewhere cannot be reached any more.
  // Everything before that was read. Messages of other publishers go on: receive again. Once
  // every lane is closed, each call answers this in place of `END_OF_STREAM`, until another
  // publisher opens.
  OLIVINE_STATUS_RECEIVE_LINK = 506,
  // A publisher's lane appeared but could not be mapped. The call may be repeated.
  OLIVINE_STATUS_RECEIVE_LANE = 507,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum olivine_status olivine_status;
#else
typedef int32_t olivine_status;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The state of the bridge behind a handle. Later versions may add values.
enum olivine_link_stage
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // There is no bridge: `shm://` and `inproc://`.
  OLIVINE_LINK_STAGE_NONE = 0,
  // No far side is connected: the bridge waits for one, or tries again.
  OLIVINE_LINK_STAGE_WAITING = 1,
  // A far side is connected.
  OLIVINE_LINK_STAGE_CONNECTED = 2,
  // The far side has ended the channel: a journal, or the source of a bridge that ends with it.
  // A handle of `tcp://` or `nats://` goes on looking for the next publisher: its stage is
  // `CONNECTED` or `WAITING` behind the end of the stream, too.
  OLIVINE_LINK_STAGE_ENDED = 3,
  // It failed; the next call of the handle returns the reason.
  OLIVINE_LINK_STAGE_FAILED = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum olivine_link_stage olivine_link_stage;
#else
typedef int32_t olivine_link_stage;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a durable subscriber found of its name when it was opened. Later versions may add values.
enum olivine_durable
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
  // The subscriber has no name.
  OLIVINE_DURABLE_NONE = 0,
  // The channel did not know the name: it starts where `from=` says.
  OLIVINE_DURABLE_CREATED = 1,
  // It goes on where the name was. Nothing was missed.
  OLIVINE_DURABLE_RESUMED = 2,
  // The place of the name was taken, because it was in the way of a publisher that had no room
  // for longer than `slow=evict:` allows, or was absent for longer than `expire=`. It goes on
  // with the oldest message that is still there; `olivine_subscriber_lost_bytes` says how much
  // it missed, and the first call that receives answers `EVICTED` once, unless the subscriber
  // that lost the place got this report before it left.
  OLIVINE_DURABLE_LOST_PLACE = 3,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum olivine_durable olivine_durable;
#else
typedef int32_t olivine_durable;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Sends messages into a channel.
typedef struct olivine_publisher olivine_publisher;

// Receives messages of a channel from all its publishers, in order for each publisher.
typedef struct olivine_subscriber olivine_subscriber;

// The state of the bridge behind a handle (`tcp://`, `nats://`, `file://`, `shm+fd://`), and its
// counters. Begin with `OLIVINE_LINK_STATUS_INIT`.
//
// `note` and `address` are in buffers of the calling thread: valid until this thread asks for the
// status of a link again, or ends. They are cut at 2047 bytes.
typedef struct olivine_link_status {
  // Bytes of this structure, for later versions of it.
  size_t struct_size;
  // The state; `NONE` if there is no bridge, and then the rest is 0 and empty.
  olivine_link_stage stage;
  // Far sides connected now.
  uint32_t peers;
  // What it waits for, or its newest problem: one line, empty if there is none. Never NULL.
  const char *note;
  // Address on which it waits for far sides, such as `127.0.0.1:4000`; empty if it does not.
  // Never NULL.
  const char *address;
  // Connections made so far.
  uint64_t connections;
  // Connections that broke or could not be made.
  uint64_t failures;
  // Far sides that were refused.
  uint64_t refusals;
  // Far subscribers that were given up without all messages or the end.
  uint64_t abandoned;
  // Messages that were not delivered; known once the bridge has ended.
  uint64_t undelivered;
  // Messages that arrived; a sending bridge counts bytes only.
  uint64_t messages;
  // Bytes of frames carried, headers and padding included.
  uint64_t bytes;
  // Bytes of frames that the far side has acknowledged, or that this side has.
  uint64_t acknowledged_bytes;
  // Position in the journal behind the last message that a replay put into the ring of this
  // handle, ahead of what the program has received; 0 elsewhere.
  uint64_t journal_position;
} olivine_link_status;

// A setting by key and value, as a URI has them: `{"capacity", "4MiB"}`.
typedef struct olivine_setting {
  // The key; never NULL.
  const char *key;
  // Its value; never NULL.
  const char *value;
} olivine_setting;

// The type of a channel's messages. This structure does not change between versions.
//
// A channel compares name, size and alignment: a value that Rust, C++ or Python states alike is of
// the same type (docs/types.md).
typedef struct olivine_type {
  // Name and version of the layout, 1 to 64 bytes: change it when a field changes. Never NULL.
  const char *name;
  // Bytes of a value: `sizeof`. Every message has this length.
  size_t size;
  // `_Alignof`, in C99 the size of the largest member: 1, 2, 4 or 8.
  size_t align;
  // The fields, such as `bid i64, symbol text[8]` (docs/types.md), for openers and tools; NULL
  // if they are not stated.
  const char *fields;
} olivine_type;

// What travels with a message besides its bytes. This structure does not change between versions.
// Where a function takes NULL for it, the tag is 0 and the topic the publisher's own.
typedef struct olivine_label {
  // What the message is about (`orders.eu.created`), on a channel with topics. NULL: the topic
  // that the publisher was opened with (`topic=`), if any; an empty text: none.
  const char *topic;
  // A number that the program chooses.
  uint32_t tag;
} olivine_label;

// A message to publish, one of several. This structure does not change between versions.
typedef struct olivine_part {
  // Its bytes; may be NULL if there are none.
  const void *data;
  // How many.
  size_t length;
  // As in `olivine_label`.
  const char *topic;
  // As in `olivine_label`.
  uint32_t tag;
} olivine_part;

// A message that is being filled in place. Begin with `OLIVINE_CLAIM_INIT`.
//
// `data` may be written until the claim is committed or aborted.
typedef struct olivine_claim {
  // Bytes of this structure, for later versions of it.
  size_t struct_size;
  // Where to write; what it holds at first is unspecified. Never NULL.
  uint8_t *data;
  // How many bytes.
  size_t length;
} olivine_claim;

// Counters of a publisher; the first three include those of its lane's earlier publishers. Begin
// with `OLIVINE_STATS_INIT`.
typedef struct olivine_stats {
  // Bytes of this structure, for later versions of it.
  size_t struct_size;
  // Times it found no room.
  uint64_t back_pressure_count;
  // Nanoseconds it had no room, from finding none to finding some.
  uint64_t back_pressure_ns;
  // Parked subscribers it woke.
  uint64_t wakes;
  // Subscribers it evicted.
  uint64_t evicted;
  // Dead subscribers it reclaimed.
  uint64_t reclaimed;
} olivine_stats;

// A received message: a view of the ring, nothing copied. Begin with `OLIVINE_MESSAGE_INIT`.
//
// `data` and `topic` live until the next call with this subscriber that receives, polls, waits,
// releases or closes; inside a handler, until it returns.
typedef struct olivine_message {
  // Bytes of this structure, for later versions of it.
  size_t struct_size;
  // Its bytes, at an address that is a multiple of 8 where nothing is copied out; never NULL.
  const uint8_t *data;
  // How many.
  size_t length;
  // Where its frame starts in its publisher's lane, in bytes.
  uint64_t position;
  // What it is about; not ended by a NUL. Empty for a message without a topic; never NULL.
  const char *topic;
  // Bytes of the topic.
  size_t topic_length;
  // The number that its publisher gave with it; 0 if none.
  uint32_t tag;
  // Index of its publisher's lane.
  uint32_t lane;
} olivine_message;

// What `olivine_subscriber_poll` hands messages to, one after the other. 0 goes on; anything else
// stops the poll, and the same message comes again first in the next call. It must not throw, jump
// out, or use the subscriber.
typedef int (*olivine_handler)(void *context, const struct olivine_message *message);

// What came with a message that was copied into an array. This structure does not change between
// versions.
typedef struct olivine_detail {
  // The number that its publisher gave with it; 0 if none.
  uint32_t tag;
  // Index of its publisher's lane.
  uint32_t lane;
  // Where its frame starts in its publisher's lane, in bytes.
  uint64_t position;
} olivine_detail;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The version of the library, such as `0.1.0`. Never NULL; lives as long as the program.
//
// Compare it with `OLIVINE_VERSION`, the version of the header.
const char *olivine_version(void);

// Why this thread's latest call that failed did: what, with which value, and what to do, in one
// line of UTF-8. Empty if none has failed. Never NULL.
//
// A call that answers `OLIVINE_STATUS_OK` does not change it; every other answer does, also
// `OLIVINE_STATUS_TIMED_OUT`. The text is in a buffer of the thread, and is valid until the thread
// ends. Only this function changes it, if a call has failed since; texts are cut at 2047 bytes.
const char *olivine_last_error(void);

// The kind of that failure, such as `journal.damaged` or `receive.overrun`: never changed from
// version to version, and listed by `olivine explain`. It tells apart what one status covers, such
// as damage of a journal and an unfinished recording. Empty if no call has failed, and where the
// status is all there is to know: wrong use of this interface, a time-out, an error of the system.
// Never NULL.
//
// It is in a buffer of the thread, as the text of `olivine_last_error` is.
const char *olivine_last_error_id(void);

// Fills `*status` with the state of the bridge behind a publisher: whether a far side is
// connected, and why not. The stage is `NONE` for `shm://` and `inproc://`. Never waits.
//
// # Safety
//
// `publisher` is open; `status` begins with its size.
olivine_status olivine_publisher_link_status(const struct olivine_publisher *publisher,
                                             struct olivine_link_status *status);

// As `olivine_publisher_link_status`, for the bridge behind a subscriber.
//
// # Safety
//
// `subscriber` is open; `status` begins with its size.
olivine_status olivine_subscriber_link_status(const struct olivine_subscriber *subscriber,
                                              struct olivine_link_status *status);

// Opens the channel that `uri` names as a publisher, and creates it if necessary. `*publisher` is
// the new handle; close it with `olivine_publisher_close`. On failure it is unchanged, and nothing
// stays behind.
//
// `uri`: `scheme://[host:port/]channel[?key=value&...]`, such as `shm://ticks?capacity=4MiB`;
// UTF-8.
//
// Blocks while another participant opens or closes the same channel: milliseconds. If that
// participant is stopped meanwhile, opening fails after 10 seconds. A thread of the handle
// connects to a far side (`tcp://`, `nats://`, `file://`); this call waits up to a second for its
// first result. A subscriber of `shm+fd://` waits up to `timeout` for its publisher, then fails.
//
// Families 1, 2 and 3.
//
// # Safety
//
// `uri` is a text, `publisher` may be written.
olivine_status olivine_publisher_open(const char *uri, struct olivine_publisher **publisher);

// As `olivine_publisher_open`, with `count` settings as if they stood at the end of `uri`. The
// keys, their values, ranges, units and defaults are those of URIs; a key that the URI has already
// is refused.
//
// # Safety
//
// As for `olivine_publisher_open`; `settings` has `count` elements with texts, or is NULL where
// that is 0.
olivine_status olivine_publisher_open_with(const char *uri,
                                           const struct olivine_setting *settings,
                                           size_t count,
                                           struct olivine_publisher **publisher);

// As `olivine_publisher_open_with`, for values of `type`: the channel's type. It refuses a message
// or a claim of another length than `type->size`: `BAD_ARGUMENT`.
//
// `BAD_ARGUMENT` for a type that no channel carries; `OPEN_TYPE` if the channel carries another.
// Over `tcp://`, `nats://` and `file://` the far side or the journal refuses it, perhaps later:
// then it is `OPEN_LINK`, or `LINK_FAILED` of a later call. The text names the first different
// field.
//
// # Safety
//
// As for `olivine_publisher_open_with`; `type` may be read, its name is a text.
olivine_status olivine_publisher_open_typed(const char *uri,
                                            const struct olivine_setting *settings,
                                            size_t count,
                                            const struct olivine_type *type,
                                            struct olivine_publisher **publisher);

// Sends a copy of a message if there is room. Never waits. `*position`, if `position` is not NULL,
// is where the publisher is then, in bytes of its lane.
//
// `data` may be NULL if `length` is 0. `label`: the message's tag and topic; NULL where none is
// wanted.
//
// `BACK_PRESSURED` and `NOT_CONNECTED` are everyday outcomes: try again later, or publish, which
// waits. Also `TOO_LONG`, `TOPIC`, `FORKED`, `LINK_FAILED`, and family 1. Nothing was sent then.
//
// # Safety
//
// `publisher` is open; `data` has `length` bytes; `label` may be read or is NULL, and so for its
// topic, a text;
// `position` may be written or is NULL.
olivine_status olivine_publisher_try_publish(struct olivine_publisher *publisher,
                                             const void *data,
                                             size_t length,
                                             const struct olivine_label *label,
                                             uint64_t *position);

// As `olivine_publisher_try_publish`, but waits for room by the channel's wait strategy, as long
// as it takes.
//
// # Safety
//
// As for `olivine_publisher_try_publish`.
olivine_status olivine_publisher_publish(struct olivine_publisher *publisher,
                                         const void *data,
                                         size_t length,
                                         const struct olivine_label *label,
                                         uint64_t *position);

// As `olivine_publisher_publish`, but gives up after `timeout_ms` milliseconds; negative is as
// long as it takes. When
// they are over the answer is `BACK_PRESSURED` or `NOT_CONNECTED`.
//
// # Safety
//
// As for `olivine_publisher_try_publish`.
olivine_status olivine_publisher_publish_timeout(struct olivine_publisher *publisher,
                                                 const void *data,
                                                 size_t length,
                                                 const struct olivine_label *label,
                                                 int64_t timeout_ms,
                                                 uint64_t *position);

// Sends copies of `count` messages in one batch, as far as there is room: those of a batch become
// visible together, at
// the cost of one. Never waits. `*published`, if `published` is not NULL, is how many were sent,
// also where not all were.
//
// Answers as `olivine_publisher_try_publish`, for the first message that was not sent.
//
// # Safety
//
// `publisher` is open; `messages` has `count` elements with their bytes and topics, or is NULL
// where that is 0;
// `published` may be written or is NULL.
olivine_status olivine_publisher_try_publish_batch(struct olivine_publisher *publisher,
                                                   const struct olivine_part *messages,
                                                   size_t count,
                                                   size_t *published);

// As `olivine_publisher_try_publish_batch`, in batches as large as there is room for; waits for
// room by the channel's
// wait strategy, as long as it takes.
//
// # Safety
//
// As for `olivine_publisher_try_publish_batch`.
olivine_status olivine_publisher_publish_batch(struct olivine_publisher *publisher,
                                               const struct olivine_part *messages,
                                               size_t count,
                                               size_t *published);

// As `olivine_publisher_publish_batch`, but gives up after `timeout_ms` milliseconds, for all of
// them together; negative
// is as long as it takes.
//
// # Safety
//
// As for `olivine_publisher_try_publish_batch`.
olivine_status olivine_publisher_publish_batch_timeout(struct olivine_publisher *publisher,
                                                       const struct olivine_part *messages,
                                                       size_t count,
                                                       int64_t timeout_ms,
                                                       size_t *published);

// Reserves a message of `length` bytes, to be filled in place, if there is room: `claim->data`.
// Never waits. It is
// invisible until `olivine_publisher_commit`; `olivine_publisher_abort` gives it up. Until then
// this publisher sends
// nothing else. `label` as for `olivine_publisher_try_publish`.
//
// Answers as `olivine_publisher_try_publish`, and `CLAIM_OPEN` if there is a claim.
//
// # Safety
//
// `publisher` is open; `label` is as for `olivine_publisher_try_publish`; `claim` begins with its
// size.
olivine_status olivine_publisher_try_claim(struct olivine_publisher *publisher,
                                           size_t length,
                                           const struct olivine_label *label,
                                           struct olivine_claim *claim);

// As `olivine_publisher_try_claim`, but waits for room by the channel's wait strategy, as long as
// it takes.
//
// # Safety
//
// As for `olivine_publisher_try_claim`.
olivine_status olivine_publisher_claim(struct olivine_publisher *publisher,
                                       size_t length,
                                       const struct olivine_label *label,
                                       struct olivine_claim *claim);

// As `olivine_publisher_claim`, but gives up after `timeout_ms` milliseconds; negative is as long
// as it takes.
//
// # Safety
//
// As for `olivine_publisher_try_claim`.
olivine_status olivine_publisher_claim_timeout(struct olivine_publisher *publisher,
                                               size_t length,
                                               const struct olivine_label *label,
                                               int64_t timeout_ms,
                                               struct olivine_claim *claim);

// Makes the claimed message visible. Never waits. `*position`, if `position` is not NULL, is where
// the
// publisher is then.
//
// `NO_CLAIM`, `FORKED` (the claim is given up then), and family 1.
//
// # Safety
//
// `publisher` is open; `position` may be written or is NULL. The claim's bytes are not written any
// more.
olivine_status olivine_publisher_commit(struct olivine_publisher *publisher, uint64_t *position);

// Gives the claimed message up; no subscriber sees it. Does nothing without a claim. `FORKED` in a
// forked child, which gives its copy of the claim up.
//
// # Safety
//
// `publisher` is open. The claim's bytes are not written any more.
olivine_status olivine_publisher_abort(struct olivine_publisher *publisher);

// Waits until `count` reliable subscribers are attached; `TIMED_OUT` if `timeout_ms` milliseconds
// (negative: for ever) were not enough. More than `subscribers_max=` never are.
//
// # Safety
//
// `publisher` is open.
olivine_status olivine_publisher_wait_for_subscribers(struct olivine_publisher *publisher,
                                                      size_t count,
                                                      int64_t timeout_ms);

// Waits until every live reliable subscriber has read and released everything published here;
// `TIMED_OUT` if `timeout_ms` milliseconds (negative: for ever) were not enough.
//
// # Safety
//
// `publisher` is open.
olivine_status olivine_publisher_wait_drained(struct olivine_publisher *publisher,
                                              int64_t timeout_ms);

// `*position` is where the publisher is: bytes of its lane, headers and padding included. Never
// waits. A publisher elsewhere with `name=` goes on behind the program that had the name before:
// until it sends, this is the position behind that program's last message. 0 if
// that one has closed with everything delivered, and its ring is gone (`tcp://`).
//
// # Safety
//
// `publisher` is open; `position` may be written.
olivine_status olivine_publisher_cursor(const struct olivine_publisher *publisher,
                                        uint64_t *position);

// `*length` is the longest message in bytes, with the topic that the publisher has now. Never
// waits.
//
// # Safety
//
// `publisher` is open; `length` may be written.
olivine_status olivine_publisher_message_max(const struct olivine_publisher *publisher,
                                             size_t *length);

// `*count` is how many reliable subscribers are attached now. Never waits.
//
// # Safety
//
// `publisher` is open; `count` may be written.
olivine_status olivine_publisher_count_subscribers(const struct olivine_publisher *publisher,
                                                   size_t *count);

// `*is_unlinked` is 1 if the channel's files were removed from their folder while it was open,
// else 0: as for `olivine_subscriber_check_unlinked`.
//
// # Safety
//
// `publisher` is open; `is_unlinked` may be written.
olivine_status olivine_publisher_check_unlinked(const struct olivine_publisher *publisher,
                                                int *is_unlinked);

// Fills `*stats`. Never waits.
//
// # Safety
//
// `publisher` is open; `stats` begins with its size.
olivine_status olivine_publisher_stats(const struct olivine_publisher *publisher,
                                       struct olivine_stats *stats);

// Ends the stream and gives the handle back, whatever it answers, except on
// `NULL_ARGUMENT`, `BAD_ARGUMENT` and `IN_USE`; an open claim is given up. After `PANICKED`, too,
// the handle must not be used again.
//
// Waits up to `linger` (default 0: not at all) for reliable subscribers to read everything:
// `BACK_PRESSURED` if some had not when that was over. Subscribers that are attached lose nothing
// either way.
//
// For a channel elsewhere (`tcp://`, `nats://`, `file://`) it waits until the far side has
// everything. A listening `tcp://` publisher to which no far side has connected does not wait: its
// messages are gone, and the answer is `OK`. Otherwise the default 0 waits without bound for a far
// side that is connected; an absent one of `tcp://` or `nats://` is given up after `expire`, or 30
// s if that is never. `BACK_PRESSURED` if that was over before the far side had everything:
// `olivine_last_error` says how many messages it has not acknowledged. `LINK_FAILED` if the link
// failed; `FORKED` in a forked child, whose parent's publisher goes on.
//
// Over `tcp://` the far side also confirms the end of the stream. If the connection breaks before
// it does, closing waits for it to come back: twice `timeout` plus 1 s, so 11 s by default, at
// least 2 s and at most `expire`. A far side that does not answer adds one `timeout`: 16 s in all.
// Then the end counts as received: `OK`. `linger` bounds all of that.
// A listening publisher without `name` waits for named subscribers that are away and do not have
// the end: for their `expire` or its own, whichever is shorter. Its own counts as 30 s if it is
// never. Then the status is `BACK_PRESSURED`.
//
// # Safety
//
// `publisher` is open, and is not used any more.
olivine_status olivine_publisher_close(struct olivine_publisher *publisher);

// As `olivine_publisher_close`, but ends the stream as failed: after the last message subscribers
// get `RECEIVE_LINK` with `reason` instead of `END_OF_STREAM`.
//
// `reason` is a text of at most 480 bytes; the rest is cut, and a blank one is replaced by "no
// reason was given". On `NULL_ARGUMENT`, `BAD_ARGUMENT` and `IN_USE` the handle is unchanged. For
// a channel elsewhere `OK` says that every far side has confirmed the reason, if there is one: a
// listener to which none has connected does not wait. The reason is awaited as the end of the
// stream is, but does not count as received without a confirmation: `BACK_PRESSURED`, whose text
// calls the reason the end of the stream. A journal keeps the reason. In a forked child the answer
// is `FORKED` and the handle is given back, also if `reason` is NULL.
//
// # Safety
//
// As for `olivine_publisher_close`; `reason` ends with a NUL.
olivine_status olivine_publisher_close_failed(struct olivine_publisher *publisher,
                                              const char *reason);

// The word of a status, such as `BackPressured`; `unknown` for a number that is none. Never NULL;
// lives as long as the program.
const char *olivine_status_name(int32_t status);

// Opens the channel that `uri` names as a subscriber, making it if need be. `*subscriber` is the
// new handle, to be given back to `olivine_subscriber_close`; untouched where this fails, and then
// nothing stays behind.
//
// A reliable subscriber (the default) gets every message published from now until it is closed;
// publishers wait for it. It may be opened before any publisher is, and then waits for one: a
// misspelt name makes a new channel, which stays empty.
//
// `uri`, blocking and answers: as for `olivine_publisher_open`.
//
// # Safety
//
// `uri` is a text, `subscriber` may be written.
olivine_status olivine_subscriber_open(const char *uri, struct olivine_subscriber **subscriber);

// As `olivine_subscriber_open`, with `count` settings as if they stood at the end of `uri`.
//
// # Safety
//
// As for `olivine_subscriber_open`; `settings` has `count` elements with texts, or is NULL where
// that is 0.
olivine_status olivine_subscriber_open_with(const char *uri,
                                            const struct olivine_setting *settings,
                                            size_t count,
                                            struct olivine_subscriber **subscriber);

// As `olivine_subscriber_open_with`, for values of `type`, which is the channel's type. Their
// messages have `type->size` bytes.
//
// `BAD_ARGUMENT` for a type that no channel carries; `OPEN_TYPE` if the channel carries another.
// Over `tcp://`, `nats://` and `file://` the far side or the journal refuses it, perhaps later:
// then it is `OPEN_LINK`, or `RECEIVE_LINK` of a later call. The text names the first different
// field.
//
// # Safety
//
// As for `olivine_subscriber_open_with`; `type` may be read, its name is a text.
olivine_status olivine_subscriber_open_typed(const char *uri,
                                             const struct olivine_setting *settings,
                                             size_t count,
                                             const struct olivine_type *type,
                                             struct olivine_subscriber **subscriber);

// Hands up to `limit` messages to `handler`, each with `context`. Never sleeps. `*count`, if
// `count` is not NULL, is how many were consumed, also where the answer is not `OK`: 0 if there
// was nothing to read.
//
// A message that `handler` returns other than 0 for is not consumed: it comes again first in the
// next call.
//
// Families 1 and 5; `END_OF_STREAM` once every publisher has closed and everything was read. Calls
// look for that at the fourth in a row that finds nothing, `olivine_subscriber_wait` at once. It
// is not final: where a later publisher comes, further calls hand out its messages.
//
// # Safety
//
// `subscriber` is open; `handler` may be called with `context`; `count` may be written or is NULL.
olivine_status olivine_subscriber_poll(struct olivine_subscriber *subscriber,
                                       olivine_handler handler,
                                       void *context,
                                       size_t limit,
                                       size_t *count);

// Copies up to `rows` messages of `row_length` bytes each into `array`, one behind the other, and
// consumes them. Never sleeps. `*count` is how many, also where the answer is not `OK`: 0 if there
// was nothing to read. `details`, if it is not NULL, gets what came with each.
//
// A durable subscriber (`name=`) consumes them with its next call that receives, polls, waits or
// releases, or with `olivine_subscriber_close`. If its program dies before, all come again. Until
// then they hold publishers back, up to a whole ring.
//
// A message of another length ends the array before it and is not consumed. If it is the first,
// the answer is `BAD_ARGUMENT` with its length in the text: receive it by another call.
//
// Families 1 and 5; `END_OF_STREAM` as for `olivine_subscriber_poll`.
//
// # Safety
//
// `subscriber` is open; `array` has room for `rows * row_length` bytes and `details` for `rows`
// elements, or is NULL; `count` may be written or is NULL.
olivine_status olivine_subscriber_poll_into(struct olivine_subscriber *subscriber,
                                            void *array,
                                            size_t row_length,
                                            size_t rows,
                                            struct olivine_detail *details,
                                            size_t *count);

// The next message, if there is one: `*message` is a view of the ring, nothing is copied. Never
// sleeps.
//
// It lives until the next call with this subscriber that receives, polls, waits, releases or
// closes, and holds its place in the ring so long.
//
// `TIMED_OUT` if there is none: its time-out is 0. Families 1 and 5; `END_OF_STREAM` once every
// publisher has closed and everything was read: calls look for that at the fourth in a row that
// finds nothing, `olivine_subscriber_receive` at once.
//
// # Safety
//
// `subscriber` is open; `message` begins with its size.
olivine_status olivine_subscriber_try_receive(struct olivine_subscriber *subscriber,
                                              struct olivine_message *message);

// As `olivine_subscriber_try_receive`, but waits for a message by the subscriber's wait strategy,
// as long as it takes.
//
// # Safety
//
// As for `olivine_subscriber_try_receive`.
olivine_status olivine_subscriber_receive(struct olivine_subscriber *subscriber,
                                          struct olivine_message *message);

// As `olivine_subscriber_receive`, but gives up after `timeout_ms` milliseconds; negative is as
// long as it takes.
// `TIMED_OUT` when they are over.
//
// # Safety
//
// As for `olivine_subscriber_try_receive`.
olivine_status olivine_subscriber_receive_timeout(struct olivine_subscriber *subscriber,
                                                  int64_t timeout_ms,
                                                  struct olivine_message *message);

// Waits until a poll would find something (a message, or the end of the stream). `timeout_ms` as
// for `olivine_subscriber_receive_timeout`; `TIMED_OUT` when it is over. Families 1 and 5.
//
// # Safety
//
// `subscriber` is open.
olivine_status olivine_subscriber_wait(struct olivine_subscriber *subscriber, int64_t timeout_ms);

// Ends the life of the message received last, and gives the room of everything read back to the
// publishers now, rather than in steps of an eighth of the ring. Never waits.
//
// # Safety
//
// `subscriber` is open. The message received last is not looked at any more.
olivine_status olivine_subscriber_release(struct olivine_subscriber *subscriber);

// `*position` is how many bytes of frames were read, over all lanes; with one publisher, where it
// was then. Never waits.
//
// # Safety
//
// `subscriber` is open; `position` may be written.
olivine_status olivine_subscriber_position(const struct olivine_subscriber *subscriber,
                                           uint64_t *position);

// `*lag` is how many bytes of frames are published and not read, over all lanes seen at the last
// call that received. Never waits.
//
// # Safety
//
// `subscriber` is open; `lag` may be written.
olivine_status olivine_subscriber_lag(const struct olivine_subscriber *subscriber, uint64_t *lag);

// `*lost_bytes` is how many bytes of frames this subscriber missed: by overruns and evictions, or
// while its durable name had lost its place; 0 for a reliable subscriber that kept its place.
// Never waits.
//
// # Safety
//
// `subscriber` is open; `lost_bytes` may be written.
olivine_status olivine_subscriber_lost_bytes(const struct olivine_subscriber *subscriber,
                                             uint64_t *lost_bytes);

// `*durable` is what a subscriber with a name (`name=`) found of it when it was opened: `NONE`
// without a name. Never waits.
//
// # Safety
//
// `subscriber` is open; `durable` may be written.
olivine_status olivine_subscriber_durable(const struct olivine_subscriber *subscriber,
                                          olivine_durable *durable);

// `*is_unlinked` is 1 if the channel's files were removed from their folder while it was open (by
// `rm`, by `olivine rm --force`, or by systemd-logind at the last logout of their user), else 0.
//
// Those who have the channel open go on with each other. A program that opens its name now gets
// a new channel: close this subscriber and open it again to join it. Makes one system call.
//
// # Safety
//
// `subscriber` is open; `is_unlinked` may be written.
olivine_status olivine_subscriber_check_unlinked(const struct olivine_subscriber *subscriber,
                                                 int *is_unlinked);

// `*descriptor` becomes readable when there is a message or the end of the stream, and at times
// without either: for `poll`, `epoll` (also edge-triggered) and event loops. It belongs to the
// subscriber: neither read nor close it.
//
// Each time, read until a poll consumes nothing, `olivine_subscriber_try_receive` answers
// `TIMED_OUT`, or the stream has ended: that arms it again. Call no function that waits besides.
// The first call starts a thread that parks on behalf of the loop. `SYSTEM` if there is no
// descriptor or thread left.
//
// # Safety
//
// `subscriber` is open; `descriptor` may be written.
olivine_status olivine_subscriber_event_fd(struct olivine_subscriber *subscriber, int *descriptor);

// Leaves the channel and gives the handle back, whatever it answers, except on
// `NULL_ARGUMENT`, `BAD_ARGUMENT` and `IN_USE`: after `PANICKED`, too, the handle must not be used
// again. `OK` in a forked child, which lets go of its copy: its parent's subscriber goes on.
// A durable subscriber (`name=`) keeps its place, behind the message received last: closing says
// that it was dealt with, as the next call that receives, polls, waits or releases does. A message
// that a handler stopped at was not, and comes again. Closed behind `END_OF_STREAM`, the name has
// read that stream: opened again, it waits for the next publisher.
//
// # Safety
//
// `subscriber` is open, and neither it nor a message of it is used any more.
olivine_status olivine_subscriber_close(struct olivine_subscriber *subscriber);

// As `olivine_subscriber_close`, but a durable subscriber keeps its place before the message
// received last: it was not dealt with, and comes again, first, to the next subscriber of that
// name. For leaving because of an error; a process that dies leaves the channel in the same way.
//
// # Safety
//
// As for `olivine_subscriber_close`.
olivine_status olivine_subscriber_drop(struct olivine_subscriber *subscriber);

// As `olivine_subscriber_close`, and forgets a durable name: publishers no longer wait for it.
// `RECEIVE_FORKED` in a forked child, whose parent keeps the name.
//
// # Safety
//
// As for `olivine_subscriber_close`.
olivine_status olivine_subscriber_unsubscribe(struct olivine_subscriber *subscriber);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* OLIVINE_H */
