// Channels inside the process, made, used and given back: what they held is freed.

#include <string.h>

#include "numbered.h"

static void once(const char *uri) {
    olivine_publisher *publisher = NULL;
    olivine_subscriber *subscriber = NULL;
    olivine_message message = OLIVINE_MESSAGE_INIT;
    WANT(olivine_subscriber_open(uri, &subscriber) == OLIVINE_STATUS_OK);
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

int main(void) {
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
