// What is refused, and how: arguments, settings, handles in use, claims, messages of a batch.
// Within one process.

#define _POSIX_C_SOURCE 200809L

#include "numbered.h"

#include <poll.h>

// The latest failure says all of it.
static int is_kind(const char *id) { return strcmp(olivine_last_error_id(), id) == 0; }

static int says(const char *wanted) { return strstr(olivine_last_error(), wanted) != NULL; }

static int never(void *context, const olivine_message *message) {
    (void)context;
    (void)message;
    return 1;
}

static int twice(void *context, const olivine_message *message) {
    (void)message;
    WANT(olivine_subscriber_release(context) == OLIVINE_STATUS_IN_USE);
    WANT(says("the subscriber is in use"));
    WANT(olivine_subscriber_close(context) == OLIVINE_STATUS_IN_USE);
    return 0;
}

static void arguments(void) {
    olivine_publisher *publisher = NULL;
    olivine_subscriber *subscriber = NULL;
    WANT(olivine_last_error()[0] == '\0' && is_kind(""));
    WANT(olivine_publisher_open(NULL, &publisher) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(says("'uri' is NULL") && is_kind(""));
    WANT(olivine_publisher_open("inproc://refuse", NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_publisher_open("inproc://\xff", &publisher) == OLIVINE_STATUS_BAD_ARGUMENT);
    WANT(says("not UTF-8"));
    WANT(olivine_publisher_open("nowhere", &publisher) == OLIVINE_STATUS_URI_NO_SCHEME);
    WANT(olivine_publisher_open("smh://x", &publisher) == OLIVINE_STATUS_URI_UNKNOWN_SCHEME);
    WANT(olivine_publisher_open("shm://a/b", &publisher) == OLIVINE_STATUS_URI_NAME);
    WANT(olivine_publisher_open("shm://x?capacity=1000", &publisher) == OLIVINE_STATUS_URI_VALUE);
    WANT(says("capacity=1000 is not usable: a power of two") && is_kind("uri.value"));
    WANT(olivine_subscriber_open("file:///nowhere/at/all.olv", &subscriber) ==
         OLIVINE_STATUS_OPEN_LINK);
    WANT(is_kind("journal.missing"));
    WANT(olivine_subscriber_open("shm://x?colour=red", &subscriber) ==
         OLIVINE_STATUS_URI_UNKNOWN_KEY);
    WANT(olivine_subscriber_open("shm://x?dir=/nowhere/at/all", &subscriber) / 100 == 3);
    WANT(olivine_subscriber_open_with("inproc://x", NULL, 1, &subscriber) ==
         OLIVINE_STATUS_NULL_ARGUMENT);
    olivine_setting settings[] = {{"wait", "park"}, {"wait", NULL}};
    WANT(olivine_subscriber_open_with("inproc://x", settings, 2, &subscriber) ==
         OLIVINE_STATUS_NULL_ARGUMENT);
    settings[1].value = "spin&capacity=4KiB";
    WANT(olivine_subscriber_open_with("inproc://x", settings, 2, &subscriber) ==
         OLIVINE_STATUS_URI_REPEATED);
    WANT(olivine_subscriber_open_with("inproc://x", settings + 1, 1, &subscriber) ==
         OLIVINE_STATUS_URI_VALUE);
    WANT(publisher == NULL && subscriber == NULL);

    WANT(olivine_publisher_try_publish(NULL, "a", 1, NULL, NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(says("'publisher' is NULL"));
    WANT(olivine_publisher_try_publish_batch(NULL, NULL, 1, NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_publisher_try_claim(NULL, 1, NULL, NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_publisher_commit(NULL, NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_publisher_abort(NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_publisher_wait_drained(NULL, 0) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_publisher_stats(NULL, NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_publisher_close(NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_subscriber_poll(NULL, NULL, NULL, 1, NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_subscriber_poll(NULL, never, NULL, 1, NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_subscriber_try_receive(NULL, NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_subscriber_event_fd(NULL, NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_subscriber_close(NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(strcmp(olivine_status_name(OLIVINE_STATUS_BACK_PRESSURED), "BackPressured") == 0);
    WANT(strcmp(olivine_status_name(77), "unknown") == 0);
    WANT(strcmp(olivine_version(), OLIVINE_VERSION) == 0);
}

static void messages(void) {
    olivine_publisher *publisher = NULL;
    olivine_subscriber *subscriber = NULL;
    olivine_message message = OLIVINE_MESSAGE_INIT;
    size_t count = 9;
    WANT_OK(olivine_subscriber_open("inproc://refuse?capacity=4KiB&topic=>", &subscriber));
    WANT_OK(olivine_publisher_open("inproc://refuse?topic=a.b", &publisher));
    WANT(olivine_subscriber_try_receive(subscriber, &message) == OLIVINE_STATUS_TIMED_OUT);
    WANT(says("0 for a call that never waits"));
    WANT(olivine_subscriber_wait(subscriber, 1) == OLIVINE_STATUS_TIMED_OUT);
    WANT(olivine_publisher_wait_for_subscribers(publisher, 2, 1) == OLIVINE_STATUS_TIMED_OUT);
    WANT(olivine_publisher_try_publish(publisher, NULL, 3, NULL, NULL)
        == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_publisher_try_publish(publisher, "", 1 << 20, NULL, NULL)
        == OLIVINE_STATUS_TOO_LONG);
    WANT(says("the message is too long: it has"));
    for (size_t less = 0; less < 18; less++) {
        olivine_claim impossible = OLIVINE_CLAIM_INIT;
        WANT(olivine_publisher_try_claim(publisher, SIZE_MAX - less, NULL, &impossible)
            == OLIVINE_STATUS_TOO_LONG);
        WANT(olivine_publisher_commit(publisher, NULL) == OLIVINE_STATUS_NO_CLAIM);
    }
    WANT(olivine_publisher_try_publish(publisher, "x", 1, &(olivine_label){"a..b", 0}, NULL)
        == OLIVINE_STATUS_TOPIC);
    WANT(says("given was 'a..b'"));
    olivine_publisher *lonely = NULL;
    WANT_OK(olivine_publisher_open("inproc://refuse-lonely?subscribers=2", &lonely));
    WANT(olivine_publisher_try_publish(lonely, "x", 1, NULL, NULL)
        == OLIVINE_STATUS_NOT_CONNECTED);
    WANT(says("0 of 'subscribers=2' are there"));
    WANT_OK(olivine_publisher_close(lonely));
    const olivine_part refused[][2] = {
        {{"one", 3, NULL, 0}, {"two", 3, "a..b", 0}},
        {{"one", 3, NULL, 0}, {NULL, 3, NULL, 0}},
        {{"one", 3, NULL, 0}, {"", 1 << 20, NULL, 0}},
    };
    const char *why[] = {"given was 'a..b'", "'data' is NULL", "the message is too long"};
    for (size_t at = 0; at < 3; at++) {
        WANT(olivine_publisher_publish_batch(publisher, refused[at], 2, &count)
            != OLIVINE_STATUS_OK);
        WANT(says("message 1 of the batch, counted from 0, was not sent: ") && says(why[at]));
        // What cannot be read is seen before anything is sent.
        WANT(count == (at == 1 ? 0 : 1));
        WANT(count == 0 || olivine_subscriber_try_receive(subscriber, &message)
            == OLIVINE_STATUS_OK);
    }
    WANT_OK(olivine_publisher_try_publish(publisher, NULL, 0, &(olivine_label){NULL, 1}, NULL));
    WANT_OK(olivine_publisher_try_publish(publisher, "two", 3, &(olivine_label){"c", 2}, NULL));

    message.struct_size = 8;
    WANT(olivine_subscriber_try_receive(subscriber, &message) == OLIVINE_STATUS_BAD_ARGUMENT);
    WANT(says("_INIT macro"));
    // A later version's structure: what we do not know of is left alone.
    struct {
        olivine_message known;
        uint64_t newer;
    } larger = {OLIVINE_MESSAGE_INIT, 42};
    larger.known.struct_size = sizeof larger;
    WANT_OK(olivine_subscriber_try_receive(subscriber, &larger.known));
    WANT(larger.known.struct_size == sizeof larger && larger.newer == 42);
    WANT(larger.known.tag == 1 && larger.known.length == 0 && larger.known.data != NULL);
    WANT(larger.known.topic_length == 3 && memcmp(larger.known.topic, "a.b", 3) == 0);

    WANT_OK(olivine_subscriber_poll(subscriber, never, NULL, 8, &count));
    WANT(count == 0);
    WANT_OK(olivine_subscriber_poll(subscriber, twice, subscriber, 8, &count));
    WANT(count == 1);
    WANT_OK(olivine_subscriber_poll(subscriber, never, NULL, 8, &count));
    WANT(count == 0);

    int descriptor = -1;
    WANT_OK(olivine_subscriber_event_fd(subscriber, &descriptor));
    WANT_OK(olivine_publisher_try_publish(publisher, "three", 5, &(olivine_label){"c", 3}, NULL));
    struct pollfd ready = {descriptor, POLLIN, 0};
    WANT(poll(&ready, 1, 60000) == 1);
    message.struct_size = sizeof message;
    WANT_OK(olivine_subscriber_try_receive(subscriber, &message));
    WANT(message.tag == 3 && memcmp(message.data, "three", 5) == 0);
    WANT_OK(olivine_subscriber_close(subscriber));
    WANT_OK(olivine_publisher_close(publisher));
}

// Bytes on a channel of values: their length is compared, of each message of a batch.
static void values(void) {
    const olivine_type type = {"pair v1", 8, 4, "one u32, two u32"};
    const olivine_part parts[] = {{"eight!!!", 8, NULL, 0}, {"seven!!", 7, NULL, 0}};
    olivine_publisher *publisher = NULL;
    olivine_subscriber *subscriber = NULL;
    olivine_message message = OLIVINE_MESSAGE_INIT;
    olivine_claim claim = OLIVINE_CLAIM_INIT;
    size_t count = 9;
    WANT_OK(olivine_subscriber_open_typed("inproc://values", NULL, 0, &type, &subscriber));
    WANT_OK(olivine_publisher_open_typed("inproc://values", NULL, 0, &type, &publisher));
    WANT(olivine_publisher_try_publish(publisher, "seven!!", 7, NULL, NULL)
        == OLIVINE_STATUS_BAD_ARGUMENT);
    WANT(says("is 7, and values of the channel's type have 8 bytes"));
    WANT(olivine_publisher_try_claim(publisher, 7, NULL, &claim) == OLIVINE_STATUS_BAD_ARGUMENT);
    WANT(olivine_publisher_publish_batch(publisher, parts, 2, &count)
        == OLIVINE_STATUS_BAD_ARGUMENT);
    WANT(says("message 1 of the batch, counted from 0, was not sent: argument 'length' is 7"));
    WANT(count == 0);
    WANT(olivine_subscriber_try_receive(subscriber, &message) == OLIVINE_STATUS_TIMED_OUT);
    WANT_OK(olivine_publisher_publish_batch(publisher, parts, 1, &count));
    WANT(count == 1);
    WANT_OK(olivine_publisher_close(publisher));
    WANT_OK(olivine_subscriber_close(subscriber));
}

static void claims(void) {
    olivine_publisher *publisher = NULL;
    olivine_subscriber *subscriber = NULL;
    olivine_claim claim = OLIVINE_CLAIM_INIT;
    olivine_claim second = OLIVINE_CLAIM_INIT;
    olivine_stats stats = OLIVINE_STATS_INIT;
    olivine_message message = OLIVINE_MESSAGE_INIT;
    uint64_t position = 1;
    WANT_OK(olivine_subscriber_open("inproc://claims?capacity=4KiB", &subscriber));
    WANT_OK(olivine_publisher_open("inproc://claims", &publisher));
    WANT(olivine_publisher_commit(publisher, NULL) == OLIVINE_STATUS_NO_CLAIM);
    claim.struct_size = 0;
    WANT(olivine_publisher_try_claim(publisher, 4, NULL, &claim) == OLIVINE_STATUS_BAD_ARGUMENT);
    claim.struct_size = sizeof claim;
    WANT_OK(olivine_publisher_try_claim(publisher, 4, &(olivine_label){NULL, 9}, &claim));
    WANT(olivine_publisher_try_claim(publisher, 4, NULL, &second) == OLIVINE_STATUS_CLAIM_OPEN);
    WANT(second.data == NULL);
    WANT(olivine_publisher_try_publish(publisher, "x", 1, NULL, NULL) == OLIVINE_STATUS_CLAIM_OPEN);
    WANT_OK(olivine_publisher_cursor(publisher, &position));
    WANT(position == 0);
    WANT_OK(olivine_publisher_stats(publisher, &stats));
    memcpy(claim.data, "four", 4);

    WANT_OK(olivine_publisher_commit(publisher, &position));
    WANT(position > 0);
    WANT_OK(olivine_publisher_try_claim(publisher, 4, NULL, &claim));
    WANT_OK(olivine_publisher_close(publisher));
    WANT_OK(olivine_subscriber_receive(subscriber, &message));
    WANT(message.tag == 9 && memcmp(message.data, "four", 4) == 0);
    WANT(olivine_subscriber_receive(subscriber, &message) == OLIVINE_STATUS_END_OF_STREAM);
    WANT(says("end of stream"));
    WANT_OK(olivine_subscriber_unsubscribe(subscriber));
}

int main(void) {
    arguments();
    messages();
    values();
    claims();
    puts("refused");
    return 0;
}
