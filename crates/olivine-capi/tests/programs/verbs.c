// Executes rows of the table of verbs: verbs FILE, of lines "VERB WAIT CHANNEL LABEL". Says the
// result of each.

#include "numbered.h"

#include <pthread.h>

#define SHORT_MS 1
#define FILLER 1
#define CELL 2

// A reader or publisher beside the call that waits.
typedef struct {
    olivine_publisher *publisher;
    olivine_subscriber *subscriber;
    const olivine_label *label;
    char told[64];
} beside;

static olivine_status do_send(olivine_publisher *publisher, const char *verb, const char *wait,
                              const olivine_label *label) {
    const uint64_t mark = CELL;
    const int tries = strcmp(wait, "try") == 0;
    const int waits = strcmp(wait, "wait") == 0;
    WANT(tries || waits || strcmp(wait, "timeout") == 0);
    if (strcmp(verb, "publish") == 0) {
        return tries   ? olivine_publisher_try_publish(publisher, &mark, sizeof mark, label, NULL)
               : waits ? olivine_publisher_publish(publisher, &mark, sizeof mark, label, NULL)
                       : olivine_publisher_publish_timeout(publisher, &mark, sizeof mark, label,
                           SHORT_MS, NULL);
    }
    if (strcmp(verb, "claim") == 0) {
        olivine_claim claim = OLIVINE_CLAIM_INIT;
        const olivine_status status =
            tries   ? olivine_publisher_try_claim(publisher, sizeof mark, label, &claim)
            : waits ? olivine_publisher_claim(publisher, sizeof mark, label, &claim)
                    : olivine_publisher_claim_timeout(publisher, sizeof mark, label, SHORT_MS,
                        &claim);
        if (status == OLIVINE_STATUS_OK) {
            memcpy(claim.data, &mark, sizeof mark);
            WANT_OK(olivine_publisher_commit(publisher, NULL));
        }
        return status;
    }
    WANT(strcmp(verb, "batch") == 0);
    const olivine_part part = {&mark, sizeof mark, label == NULL ? NULL : label->topic, label
        == NULL ? 0 : label->tag};
    const olivine_part parts[] = {part, part};
    size_t published = 9;
    const olivine_status status =
        tries   ? olivine_publisher_try_publish_batch(publisher, parts, 2, &published)
        : waits ? olivine_publisher_publish_batch(publisher, parts, 2, &published)
                : olivine_publisher_publish_batch_timeout(publisher, parts, 2, SHORT_MS,
                    &published);
    WANT(published == (status == OLIVINE_STATUS_OK ? 2 : 0));
    return status;
}

static void tell(char *told, const char *word, const olivine_message *message) {
    snprintf(told, 64, "%s %u %.*s", word, message->tag, message->topic_length == 0 ? 1
        : (int)message->topic_length,
             message->topic_length == 0 ? "-" : message->topic);
}

static uint64_t mark_of(const olivine_message *message) {
    uint64_t mark = 0;
    WANT(message->length == sizeof mark);
    memcpy(&mark, message->data, sizeof mark);
    return mark;
}

static void *await_cell(void *context) {
    beside *given = context;
    olivine_message message = OLIVINE_MESSAGE_INIT;
    do {
        WANT_OK(olivine_subscriber_receive(given->subscriber, &message));
    } while (mark_of(&message) != CELL);
    tell(given->told, "sent", &message);
    return NULL;
}

static void *send_cell(void *context) {
    const beside *given = context;
    WANT_OK(do_send(given->publisher, "publish", "wait", given->label));
    return NULL;
}

static void sending(beside *both, const char *verb, const char *wait, const char *channel) {
    const int full = strcmp(channel, "full") == 0;
    const int apart = full && strcmp(wait, "wait") == 0;
    pthread_t reader;
    if (full) {
        const uint64_t mark = FILLER;
        while (olivine_publisher_try_publish(both->publisher, &mark, sizeof mark, NULL, NULL)
            == OLIVINE_STATUS_OK) {
        }
    }
    if (apart) {
        WANT(pthread_create(&reader, NULL, await_cell, both) == 0);
    }
    const olivine_status status = do_send(both->publisher, verb, wait, both->label);
    if (apart) {
        WANT_OK(status);
        WANT(pthread_join(reader, NULL) == 0);
    } else if (status == OLIVINE_STATUS_OK) {
        await_cell(both);
    } else {
        strcpy(both->told, status == OLIVINE_STATUS_BACK_PRESSURED ? "back_pressured"
                           : status == OLIVINE_STATUS_TOPIC        ? "topic_refused"
                                                                   : olivine_status_name(status));
    }
}

static int keep(void *context, const olivine_message *message) {
    tell(context, "got", message);
    return 0;
}

static olivine_status do_receive(olivine_subscriber *subscriber, const char *verb,
    const char *wait, char *told) {
    olivine_message message = OLIVINE_MESSAGE_INIT;
    if (strcmp(verb, "poll") == 0) {
        size_t count = 0;
        WANT(strcmp(wait, "try") == 0);
        const olivine_status status = olivine_subscriber_poll(subscriber, keep, told, 1, &count);
        return status == OLIVINE_STATUS_OK && count == 0 ? OLIVINE_STATUS_TIMED_OUT : status;
    }
    WANT(strcmp(verb, "receive") == 0);
    const olivine_status status = strcmp(wait, "try") == 0
        ? olivine_subscriber_try_receive(subscriber, &message)
                                  : strcmp(wait, "wait") == 0
                                      ? olivine_subscriber_receive(subscriber, &message)
                                      : olivine_subscriber_receive_timeout(subscriber, SHORT_MS,
                                          &message);
    if (status == OLIVINE_STATUS_OK) {
        tell(told, "got", &message);
    }
    return status;
}

static void receiving(beside *both, const char *verb, const char *wait, const char *channel) {
    const int empty = strcmp(channel, "empty") == 0;
    const int apart = empty && strcmp(wait, "wait") == 0;
    pthread_t sender;
    if (strcmp(channel, "message") == 0) {
        WANT_OK(do_send(both->publisher, "publish", "try", both->label));
    } else if (strcmp(channel, "ended") == 0) {
        WANT_OK(olivine_publisher_close(both->publisher));
        both->publisher = NULL;
    } else if (apart) {
        WANT(pthread_create(&sender, NULL, send_cell, both) == 0);
    }
    olivine_status status;
    do {
        // A few looks may find nothing before the end is seen.
        status = do_receive(both->subscriber, verb, wait, both->told);
    } while (status == OLIVINE_STATUS_TIMED_OUT && !empty);
    if (apart) {
        WANT(pthread_join(sender, NULL) == 0);
    }
    if (status != OLIVINE_STATUS_OK) {
        strcpy(both->told, status == OLIVINE_STATUS_TIMED_OUT       ? "nothing"
                           : status == OLIVINE_STATUS_END_OF_STREAM ? "end_of_stream"
                                                                    : olivine_status_name(status));
    }
}

int main(int argc, char **argv) {
    WANT(argc == 2);
    FILE *rows = fopen(argv[1], "r");
    WANT(rows != NULL);
    char verb[16], wait[16], channel[16], name[16];
    for (int number = 0; fscanf(rows, "%15s %15s %15s %15s", verb, wait, channel, name)
        == 4; number++) {
        olivine_label label = {NULL, 0};
        beside both = {NULL, NULL, strcmp(name, "none") == 0 ? NULL : &label, ""};
        const int has_both = strcmp(name, "both") == 0;
        if (has_both || strcmp(name, "tag") == 0) {
            label.tag = 7;
        }
        if (has_both || strcmp(name, "topic") == 0) {
            label.topic = "a.b";
        } else if (strcmp(name, "bad") == 0) {
            label.topic = "a..b";
        } else {
            WANT(strcmp(name, "none") == 0 || strcmp(name, "tag") == 0);
        }
        char uri[64];
        snprintf(uri, sizeof uri, "inproc://verbs-%d?capacity=4KiB&wait=park", number);
        olivine_setting topic = {"topic", "own"};
        WANT_OK(olivine_subscriber_open(uri, &both.subscriber));
        WANT_OK(olivine_publisher_open_with(uri, &topic, strcmp(channel, "plain") == 0 ? 0 : 1,
            &both.publisher));
        if (strcmp(verb, "receive") == 0 || strcmp(verb, "poll") == 0) {
            receiving(&both, verb, wait, channel);
        } else {
            sending(&both, verb, wait, channel);
        }
        puts(both.told);
        WANT_OK(olivine_subscriber_close(both.subscriber));
        if (both.publisher != NULL) {
            WANT_OK(olivine_publisher_close(both.publisher));
        }
    }
    fclose(rows);
    return 0;
}
