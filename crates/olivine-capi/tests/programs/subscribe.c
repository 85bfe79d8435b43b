// Receives numbered messages to the end of the stream, by turns with poll and receive: subscribe
// URI. Says "open" once it is.

#include "numbered.h"

struct counted {
    uint64_t next;
    int refuse;
};

static int take(void *context, const olivine_message *message) {
    struct counted *counted = context;
    if (counted->refuse) {
        counted->refuse = 0;
        return 1;
    }
    WANT(is_numbered(message, counted->next));
    counted->next++;
    return 0;
}

int main(int argc, char **argv) {
    WANT(argc == 2);
    olivine_subscriber *subscriber = NULL;
    WANT_OK(olivine_subscriber_open(argv[1], &subscriber));
    puts("open");
    fflush(stdout);
    struct counted counted = {0, 0};
    for (;;) {
        olivine_message message = OLIVINE_MESSAGE_INIT;
        olivine_status status = counted.next % 2 == 0
                                    ? olivine_subscriber_receive(subscriber, &message)
                                    : olivine_subscriber_receive_timeout(subscriber, 1000,
                                        &message);
        if (status == OLIVINE_STATUS_END_OF_STREAM) {
            break;
        }
        if (status == OLIVINE_STATUS_TIMED_OUT) {
            WANT(message.data == NULL);
            continue;
        }
        WANT_OK(status);
        WANT(is_numbered(&message, counted.next));
        counted.next++;
        if (counted.next % 1000 == 0) {
            WANT_OK(olivine_subscriber_release(subscriber));
        }
        size_t count = 0;
        // Refused, a message comes again.
        counted.refuse = counted.next % 7 == 0;
        status = olivine_subscriber_poll(subscriber, take, &counted, 32, &count);
        if (status == OLIVINE_STATUS_END_OF_STREAM) {
            break;
        }
        WANT_OK(status);
        WANT(count <= 32);
    }
    uint64_t position = 0, lag = 1, lost = 1;
    WANT_OK(olivine_subscriber_position(subscriber, &position));
    WANT_OK(olivine_subscriber_lag(subscriber, &lag));
    WANT_OK(olivine_subscriber_lost_bytes(subscriber, &lost));
    WANT(position > 0 && lag == 0 && lost == 0);
    WANT_OK(olivine_subscriber_close(subscriber));
    printf("received %llu\n", (unsigned long long)counted.next);
    return 0;
}
