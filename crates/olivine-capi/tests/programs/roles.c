// Publishers and subscribers of numbered messages.

#include "numbered.h"

#define BATCH 16

static uint64_t batch(olivine_publisher *publisher, uint64_t number, uint64_t count) {
    static uint8_t bytes[BATCH][LENGTH_MAX];
    olivine_part parts[BATCH];
    size_t published = 0;
    size_t wanted = count - number < BATCH ? (size_t)(count - number) : BATCH;
    for (size_t i = 0; i < wanted; i++) {
        fill(bytes[i], number + i);
        parts[i].data = bytes[i];
        parts[i].length = length_of(number + i);
        parts[i].topic = NULL;
        parts[i].tag = (uint32_t)(number + i);
    }
    WANT_OK(olivine_publisher_publish_batch(publisher, parts, wanted, &published));
    WANT(published == wanted);
    return number + published;
}

// By every means there is: publish URI COUNT. Says "open" once it is.
static int publish(int argc, char **argv) {
    WANT(argc == 3);
    uint64_t count = strtoull(argv[2], NULL, 10);
    olivine_setting settings[] = {{"subscribers", "1"}, {"linger", "1m"}};
    olivine_publisher *publisher = NULL;
    WANT_OK(olivine_publisher_open_with(argv[1], settings, 2, &publisher));
    puts("open");
    fflush(stdout);
    uint64_t number = 0;
    uint64_t before = 0;
    while (number < count) {
        uint8_t bytes[LENGTH_MAX];
        uint64_t position = 0;
        const olivine_label label = {NULL, (uint32_t)number};
        fill(bytes, number);
        if (number % 4 == 0) {
            WANT_OK(olivine_publisher_publish(publisher, bytes, length_of(number), &label,
                &position));
            number++;
        } else if (number % 4 == 1) {
            olivine_status status =
                olivine_publisher_try_publish(publisher, bytes, length_of(number), &label,
                    &position);
            if (status == OLIVINE_STATUS_BACK_PRESSURED) {
                continue;
            }
            WANT_OK(status);
            number++;
        } else if (number % 4 == 2) {
            olivine_claim claim = OLIVINE_CLAIM_INIT;
            WANT_OK(olivine_publisher_claim(publisher, LENGTH_MAX, NULL, &claim));
            memset(claim.data, 0xff, claim.length);
            WANT_OK(olivine_publisher_abort(publisher));
            WANT_OK(olivine_publisher_claim(publisher, length_of(number), &label, &claim));
            WANT(claim.length == length_of(number));
            fill(claim.data, number);
            WANT_OK(olivine_publisher_commit(publisher, &position));
            number++;
        } else {
            number = batch(publisher, number, count);
            WANT_OK(olivine_publisher_cursor(publisher, &position));
        }
        WANT(position > before);
        before = position;
    }
    WANT_OK(olivine_publisher_wait_drained(publisher, -1));
    WANT_OK(olivine_publisher_close(publisher));
    printf("published %llu\n", (unsigned long long)number);
    return 0;
}

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

// Receives numbered messages to the end of the stream, by turns with poll and receive: subscribe
// URI. Says "open" once it is.
static int subscribe(int argc, char **argv) {
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

// Receives numbered messages from FIRST on: receive URI FIRST [STOP]. Without STOP to the end of
// the stream; with it, it fails at message STOP. Says "open" once it is.
static int receive(int argc, char **argv) {
    WANT(argc == 3 || argc == 4);
    uint64_t next = strtoull(argv[2], NULL, 10);
    uint64_t stop = argc == 4 ? strtoull(argv[3], NULL, 10) : UINT64_MAX;
    olivine_subscriber *subscriber = NULL;
    WANT_OK(olivine_subscriber_open(argv[1], &subscriber));
    puts("open");
    fflush(stdout);
    for (;;) {
        olivine_message message = OLIVINE_MESSAGE_INIT;
        olivine_status status = olivine_subscriber_receive(subscriber, &message);
        if (status == OLIVINE_STATUS_END_OF_STREAM) {
            break;
        }
        WANT_OK(status);
        WANT(is_numbered(&message, next));
        if (next == stop) {
            WANT_OK(olivine_subscriber_drop(subscriber));
            puts("failed");
            return 0;
        }
        next++;
    }
    WANT_OK(olivine_subscriber_close(subscriber));
    printf("received to %llu\n", (unsigned long long)next);
    return 0;
}

// The first argument is the role; its other arguments follow.
int main(int argc, char **argv) {
    WANT(argc >= 2);
    if (strcmp(argv[1], "publish") == 0) {
        return publish(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "subscribe") == 0) {
        return subscribe(argc - 1, argv + 1);
    }
    if (strcmp(argv[1], "receive") == 0) {
        return receive(argc - 1, argv + 1);
    }
    WANT(0);
    return 1;
}
