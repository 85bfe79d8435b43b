// Many messages into an array in one call.

#include "numbered.h"

// Rows that were copied before an error are counted: one lane has a message, another an overrun.
static void overrun(void) {
    const char *uri = "inproc://lossy?delivery=latest";
    olivine_publisher *quiet, *loud;
    olivine_subscriber *subscriber;
    uint64_t value = 7, rows[8] = {0};
    size_t count = 0;
    WANT_OK(olivine_publisher_open("inproc://lossy?capacity=4KiB", &quiet));
    WANT_OK(olivine_publisher_open("inproc://lossy", &loud));
    WANT_OK(olivine_subscriber_open(uri, &subscriber));
    WANT_OK(olivine_publisher_publish(quiet, &value, sizeof value, NULL, NULL));
    for (value = 0; value < 1000; ++value) {
        WANT_OK(olivine_publisher_publish(loud, &value, sizeof value, NULL, NULL));
    }
    WANT(olivine_subscriber_poll_into(subscriber, rows, 8, 8, NULL, &count) ==
         OLIVINE_STATUS_OVERRUN);
    WANT(count == 1 && rows[0] == 7 && rows[1] == 0);
    WANT_OK(olivine_subscriber_close(subscriber));
    WANT_OK(olivine_publisher_close(quiet));
    WANT_OK(olivine_publisher_close(loud));
}

int main(void) {
    olivine_publisher *publisher;
    olivine_subscriber *subscriber;
    olivine_message message = OLIVINE_MESSAGE_INIT;
    olivine_detail details[8];
    uint64_t rows[8] = {0};
    size_t count = 9;
    WANT(olivine_subscriber_open("inproc://arrays", &subscriber) == OLIVINE_STATUS_OK);
    WANT(olivine_publisher_open("inproc://arrays", &publisher) == OLIVINE_STATUS_OK);
    for (uint32_t n = 0; n < 5; ++n) {
        const uint64_t value = 100 + n;
        const olivine_label label = {NULL, n};
        WANT(olivine_publisher_publish(publisher, &value, sizeof value, &label, NULL) == 0);
    }
    WANT(olivine_publisher_publish(publisher, "other", 5, NULL, NULL) == 0);
    WANT(olivine_publisher_publish(publisher, rows, 8, NULL, NULL) == 0);
    // Refused before anything is taken.
    WANT(olivine_subscriber_poll_into(NULL, rows, 8, 8, NULL, &count) ==
         OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(count == 0);
    WANT(olivine_subscriber_poll_into(subscriber, NULL, 8, 8, NULL, &count) ==
         OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_subscriber_poll_into(subscriber, rows, 0, 8, NULL, &count) ==
         OLIVINE_STATUS_BAD_ARGUMENT);
    WANT(olivine_subscriber_poll_into(subscriber, rows, (size_t)-1, 8, NULL, &count) ==
         OLIVINE_STATUS_BAD_ARGUMENT);
    WANT(olivine_subscriber_poll_into(subscriber, rows, 8, 8,
             (olivine_detail *)((char *)details + 1), &count) == OLIVINE_STATUS_BAD_ARGUMENT);
    WANT(olivine_subscriber_poll_into(subscriber, rows, 8, 0, NULL, &count) == OLIVINE_STATUS_OK);
    WANT(count == 0);
    // Two, then the rest before the message of another length, which stays.
    WANT(olivine_subscriber_poll_into(subscriber, rows, 8, 2, details, &count) == 0);
    WANT(count == 2 && rows[0] == 100 && rows[1] == 101 && rows[2] == 0);
    WANT(details[1].tag == 1 && details[1].lane == 0 && details[1].position == 16);
    WANT(olivine_subscriber_poll_into(subscriber, rows, 8, 8, details, &count) == 0);
    WANT(count == 3 && rows[2] == 104 && details[2].tag == 4 && rows[3] == 0);
    for (int again = 0; again < 2; ++again) {
        WANT(olivine_subscriber_poll_into(subscriber, rows, 8, 8, NULL, &count) ==
             OLIVINE_STATUS_BAD_ARGUMENT);
        WANT(count == 0 && strstr(olivine_last_error(), "has 5 bytes") != NULL);
    }
    WANT(olivine_subscriber_try_receive(subscriber, &message) == OLIVINE_STATUS_OK);
    WANT(message.length == 5 && memcmp(message.data, "other", 5) == 0);
    WANT(olivine_subscriber_poll_into(subscriber, rows, 8, 8, NULL, NULL) == OLIVINE_STATUS_OK);
    WANT(rows[0] == 0);
    WANT(olivine_publisher_close(publisher) == OLIVINE_STATUS_OK);
    WANT(olivine_subscriber_wait(subscriber, -1) == OLIVINE_STATUS_OK);
    WANT(olivine_subscriber_poll_into(subscriber, rows, 8, 8, NULL, &count) ==
         OLIVINE_STATUS_END_OF_STREAM);
    WANT(count == 0);
    WANT(olivine_subscriber_close(subscriber) == OLIVINE_STATUS_OK);
    overrun();
    puts("arrays");
    return 0;
}
