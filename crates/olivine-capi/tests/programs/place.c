// What a durable name found, and files that were removed under both ends. Arguments: the channel,
// as it is and with a name.

#include <string.h>

#include "numbered.h"

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

int main(int count, char **words) {
    WANT(count == 3);
    const char *named = words[2];
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
