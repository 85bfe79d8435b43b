// Channels inside the process; what a durable name keeps and found; removed files.

#include "numbered.h"

static void once(const char *uri) {
    olivine_publisher *publisher = NULL;
    olivine_subscriber *subscriber = NULL;
    olivine_message message = OLIVINE_MESSAGE_INIT;
    int descriptor = -1;
    WANT(olivine_subscriber_open(uri, &subscriber) == OLIVINE_STATUS_OK);
    // Its thread ends with the subscriber.
    WANT(olivine_subscriber_event_fd(subscriber, &descriptor) == OLIVINE_STATUS_OK);
    WANT(olivine_publisher_open(uri, &publisher) == OLIVINE_STATUS_OK);
    for (uint32_t number = 0; number < 1000; number++) {
        const olivine_label label = {NULL, number};
        WANT(olivine_publisher_try_publish(publisher, &number, sizeof number, &label, NULL)
            == OLIVINE_STATUS_OK);
        WANT(olivine_subscriber_try_receive(subscriber, &message) == OLIVINE_STATUS_OK);
        WANT(message.length == sizeof number && memcmp(message.data, &number, sizeof number) == 0);
    }
    WANT(olivine_subscriber_close(subscriber) == OLIVINE_STATUS_OK);
    WANT(olivine_publisher_close(publisher) == OLIVINE_STATUS_OK);
}

// Channels inside the process, made, used and given back: what they held is freed.
static int inproc(int argc, char **argv) {
    (void)argv;
    WANT(argc == 1);
    once("inproc://first?capacity=4KiB");
    once("inproc://second?capacity=4KiB");
    // What went wrong is said in a buffer of the thread.
    olivine_publisher *publisher = NULL;
    WANT(olivine_publisher_open("inproc://first?colour=red", &publisher) ==
         OLIVINE_STATUS_URI_UNKNOWN_KEY);
    WANT(strstr(olivine_last_error(), "colour") != NULL);
    puts("inside");
    return 0;
}

static int stop(void *context, const olivine_message *message) {
    (void)message;
    *(int *)context += 1;
    return 1;
}

static const char *named;

// Opens the name, and receives the message `number`.
static olivine_subscriber *received(char number) {
    olivine_subscriber *subscriber = NULL;
    olivine_message message = OLIVINE_MESSAGE_INIT;
    WANT(olivine_subscriber_open(named, &subscriber) == OLIVINE_STATUS_OK);
    WANT(olivine_subscriber_try_receive(subscriber, &message) == OLIVINE_STATUS_OK);
    WANT(message.length == 1 && *message.data == (uint8_t)number);
    return subscriber;
}

// A durable subscriber: closing consumes the message it received last, dropping does not.
// Arguments: the channel, once as it is and once with a name.
static int durable(int count, char **words) {
    WANT(count == 3);
    named = words[2];
    olivine_subscriber *subscriber = NULL;
    olivine_publisher *publisher = NULL;
    WANT(olivine_subscriber_open(named, &subscriber) == OLIVINE_STATUS_OK);
    WANT(olivine_publisher_open(words[1], &publisher) == OLIVINE_STATUS_OK);
    for (char number = '0'; number < '5'; number++) {
        WANT(olivine_publisher_try_publish(publisher, &number, 1, NULL, NULL) == OLIVINE_STATUS_OK);
    }
    // A message that was not received stays, however the subscriber ends.
    WANT(olivine_subscriber_drop(subscriber) == OLIVINE_STATUS_OK);
    WANT(olivine_subscriber_drop(received('0')) == OLIVINE_STATUS_OK);
    WANT(olivine_subscriber_close(received('0')) == OLIVINE_STATUS_OK);
    // The call after the receiving call consumes the message.
    subscriber = received('1');
    WANT(olivine_subscriber_release(subscriber) == OLIVINE_STATUS_OK);
    WANT(olivine_subscriber_drop(subscriber) == OLIVINE_STATUS_OK);
    // A handler that stops has not dealt with its message, and closing does not say so either.
    subscriber = received('2');
    int stopped = 0;
    WANT(olivine_subscriber_poll(subscriber, stop, &stopped, 10, NULL) == OLIVINE_STATUS_OK);
    WANT(stopped == 1);
    WANT(olivine_subscriber_close(subscriber) == OLIVINE_STATUS_OK);
    WANT(olivine_subscriber_unsubscribe(received('3')) == OLIVINE_STATUS_OK);
    WANT(olivine_subscriber_drop(NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_publisher_close(publisher) == OLIVINE_STATUS_OK);
    puts("kept");
    return 0;
}

// Opens the name, which finds this.
static olivine_subscriber *opened(const char *uri, olivine_durable expected) {
    olivine_subscriber *subscriber = NULL;
    olivine_durable found = OLIVINE_DURABLE_NONE;
    WANT(olivine_subscriber_open(uri, &subscriber) == OLIVINE_STATUS_OK);
    WANT(olivine_subscriber_durable(subscriber, &found) == OLIVINE_STATUS_OK && found == expected);
    return subscriber;
}

// Removes the control file of channel capi in the folder that the URI names.
static void remove_control(const char *uri) {
    char path[4096];
    const char *folder = strstr(uri, "dir=") + 4;
    snprintf(path, sizeof path, "%.*s/capi/control", (int)strcspn(folder, "&"), folder);
    WANT(remove(path) == 0);
}

// What a durable name found, and files that were removed under both ends. Arguments: the channel,
// as it is and with a name.
static int place(int count, char **words) {
    WANT(count == 3);
    named = words[2];
    olivine_publisher *publisher = NULL;
    WANT(olivine_publisher_open(words[1], &publisher) == OLIVINE_STATUS_OK);
    olivine_subscriber *plain = opened(words[1], OLIVINE_DURABLE_NONE);
    WANT(olivine_subscriber_close(plain) == OLIVINE_STATUS_OK);
    WANT(olivine_subscriber_close(opened(named, OLIVINE_DURABLE_CREATED)) == OLIVINE_STATUS_OK);
    WANT(olivine_subscriber_close(opened(named, OLIVINE_DURABLE_RESUMED)) == OLIVINE_STATUS_OK);
    // The ring fills several times, and the channel evicts slow subscribers early.
    char bytes[512] = {0};
    for (int number = 0; number < 100; number++) {
        WANT(olivine_publisher_publish(publisher, bytes, sizeof bytes, NULL, NULL)
            == OLIVINE_STATUS_OK);
    }
    olivine_subscriber *late = opened(named, OLIVINE_DURABLE_LOST_PLACE);
    uint64_t lost = 0;
    WANT(olivine_subscriber_lost_bytes(late, &lost) == OLIVINE_STATUS_OK && lost > 0);
    WANT(olivine_subscriber_durable(late, NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    int gone = -1;
    WANT(olivine_publisher_check_unlinked(publisher, &gone) == OLIVINE_STATUS_OK && gone == 0);
    WANT(olivine_subscriber_check_unlinked(late, &gone) == OLIVINE_STATUS_OK && gone == 0);
    remove_control(words[1]);
    WANT(olivine_publisher_check_unlinked(publisher, &gone) == OLIVINE_STATUS_OK && gone == 1);
    WANT(olivine_subscriber_check_unlinked(late, &gone) == OLIVINE_STATUS_OK && gone == 1);
    WANT(olivine_publisher_check_unlinked(publisher, NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_subscriber_unsubscribe(late) == OLIVINE_STATUS_OK);
    WANT(olivine_publisher_close(publisher) == OLIVINE_STATUS_OK);
    puts("found");
    return 0;
}

// The first argument is the role; its other arguments follow.
int main(int argc, char **argv) {
    WANT(argc >= 2);
    if (strcmp(argv[1], "inproc") == 0) {
        return inproc(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "durable") == 0) {
        return durable(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "place") == 0) {
        return place(argc - 1, argv + 1);
    }
    WANT(0);
    return 1;
}
