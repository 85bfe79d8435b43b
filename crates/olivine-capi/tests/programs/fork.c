// What each call answers in a forked child of the process that opened the handle: a line for each
// function, "NAME STATUS". Argument: a channel.

#include "numbered.h"

#include <sys/wait.h>
#include <unistd.h>

static olivine_publisher *publisher;
static olivine_subscriber *subscriber;

// One for each call that takes its handle back.
static olivine_publisher *publishers[2];
static olivine_subscriber *subscribers[3];

static int no_handler(void *context, const olivine_message *message) {
    (void)context;
    (void)message;
    return 0;
}

#define SAY(function, ...)                                                                         \
    printf(#function " %s\n", olivine_status_name(olivine_##function(__VA_ARGS__)))

// A call that is wrong in another way, too.
#define SAY_WRONG(function, ...)                                                                   \
    printf("wrong " #function " %s\n", olivine_status_name(olivine_##function(__VA_ARGS__)))

static olivine_publisher *typed;

static void wrong_in_the_child(void) {
    static const char long_message[8192];
    const olivine_label no_topic = {"no topic", 0};
    const olivine_part too_long = {long_message, sizeof long_message, NULL, 0};
    const olivine_part nothing = {NULL, 1, NULL, 0};
    olivine_claim claim = OLIVINE_CLAIM_INIT;
    olivine_claim no_claim = {0, NULL, 0};
    olivine_message no_message = {0, NULL, 0, 0, NULL, 0, 0, 0};
    olivine_stats no_stats = {0, 0, 0, 0, 0, 0};
    char row[8];
    SAY_WRONG(publisher_try_publish, publisher, long_message, sizeof long_message, NULL, NULL);
    SAY_WRONG(publisher_publish, publisher, "x", 1, &no_topic, NULL);
    SAY_WRONG(publisher_publish_timeout, publisher, NULL, 1, NULL, 1, NULL);
    SAY_WRONG(publisher_publish, typed, "x", 1, NULL, NULL);
    SAY_WRONG(publisher_try_publish_batch, publisher, NULL, 0, NULL);
    SAY_WRONG(publisher_publish_batch, publisher, NULL, 1, NULL);
    SAY_WRONG(publisher_publish_batch_timeout, publisher, &too_long, 1, 1, NULL);
    SAY_WRONG(publisher_publish_batch, publisher, &nothing, 1, NULL);
    SAY_WRONG(publisher_try_claim, publisher, sizeof long_message, NULL, &claim);
    SAY_WRONG(publisher_claim, publisher, 1, NULL, &no_claim);
    SAY_WRONG(publisher_claim_timeout, typed, 1, NULL, 1, &claim);
    SAY_WRONG(publisher_commit, publisher, NULL);
    SAY_WRONG(publisher_wait_for_subscribers, publisher, 0, 0);
    SAY_WRONG(publisher_cursor, publisher, NULL);
    SAY_WRONG(publisher_stats, publisher, &no_stats);
    SAY_WRONG(publisher_link_status, publisher, NULL);
    SAY_WRONG(publisher_close_failed, typed, NULL);
    SAY_WRONG(subscriber_try_receive, subscriber, &no_message);
    SAY_WRONG(subscriber_receive, subscriber, NULL);
    SAY_WRONG(subscriber_poll, subscriber, NULL, NULL, 1, NULL);
    SAY_WRONG(subscriber_poll, subscriber, no_handler, NULL, 0, NULL);
    SAY_WRONG(subscriber_poll_into, subscriber, NULL, 1, 1, NULL, NULL);
    SAY_WRONG(subscriber_poll_into, subscriber, row, 0, 1, NULL, NULL);
    SAY_WRONG(subscriber_poll_into, subscriber, row, 1, 0, NULL, NULL);
    SAY_WRONG(subscriber_wait, subscriber, 0);
    SAY_WRONG(subscriber_position, subscriber, NULL);
    SAY_WRONG(subscriber_durable, subscriber, NULL);
    SAY_WRONG(subscriber_event_fd, subscriber, NULL);
    SAY_WRONG(subscriber_link_status, subscriber, NULL);
}

static void in_the_child(void) {
    olivine_claim claim = OLIVINE_CLAIM_INIT;
    olivine_message message = OLIVINE_MESSAGE_INIT;
    olivine_stats stats = OLIVINE_STATS_INIT;
    olivine_link_status link = OLIVINE_LINK_STATUS_INIT;
    const olivine_part part = {"x", 1, NULL, 0};
    olivine_durable durable;
    uint64_t number;
    size_t size;
    int flag;
    char row[8];
    // First: a claim is open, which the child gives up.
    SAY_WRONG(publisher_publish, publisher, "x", 1, NULL, NULL);
    SAY_WRONG(publisher_try_claim, publisher, 1, NULL, &claim);
    SAY(publisher_commit, publisher, NULL);
    SAY(publisher_abort, publisher);
    SAY(publisher_try_publish, publisher, "x", 1, NULL, NULL);
    SAY(publisher_publish, publisher, "x", 1, NULL, NULL);
    SAY(publisher_publish_timeout, publisher, "x", 1, NULL, 1, NULL);
    SAY(publisher_try_publish_batch, publisher, &part, 1, NULL);
    SAY(publisher_publish_batch, publisher, &part, 1, NULL);
    SAY(publisher_publish_batch_timeout, publisher, &part, 1, 1, NULL);
    SAY(publisher_try_claim, publisher, 1, NULL, &claim);
    SAY(publisher_claim, publisher, 1, NULL, &claim);
    SAY(publisher_claim_timeout, publisher, 1, NULL, 1, &claim);
    SAY(publisher_wait_for_subscribers, publisher, 1, 1);
    SAY(publisher_wait_drained, publisher, 1);
    SAY(publisher_cursor, publisher, &number);
    SAY(publisher_message_max, publisher, &size);
    SAY(publisher_count_subscribers, publisher, &size);
    SAY(publisher_check_unlinked, publisher, &flag);
    SAY(publisher_stats, publisher, &stats);
    SAY(publisher_link_status, publisher, &link);
    SAY(publisher_close, publishers[0]);
    SAY(publisher_close_failed, publishers[1], "forked");
    SAY(subscriber_try_receive, subscriber, &message);
    SAY(subscriber_receive, subscriber, &message);
    SAY(subscriber_receive_timeout, subscriber, 1, &message);
    SAY(subscriber_poll, subscriber, no_handler, NULL, 1, NULL);
    SAY(subscriber_poll_into, subscriber, row, 1, 1, NULL, NULL);
    SAY(subscriber_wait, subscriber, 1);
    SAY(subscriber_release, subscriber);
    SAY(subscriber_position, subscriber, &number);
    SAY(subscriber_lag, subscriber, &number);
    SAY(subscriber_lost_bytes, subscriber, &number);
    SAY(subscriber_durable, subscriber, &durable);
    SAY(subscriber_check_unlinked, subscriber, &flag);
    SAY(subscriber_link_status, subscriber, &link);
    SAY(subscriber_event_fd, subscriber, &flag);
    SAY(subscriber_close, subscribers[0]);
    SAY(subscriber_drop, subscribers[1]);
    SAY(subscriber_unsubscribe, subscribers[2]);
}

int main(int count, char **words) {
    WANT(count == 2);
    olivine_setting name = {"name", "archive"};
    olivine_message message = OLIVINE_MESSAGE_INIT;
    olivine_claim claim = OLIVINE_CLAIM_INIT;
    WANT_OK(olivine_subscriber_open(words[1], &subscriber));
    WANT_OK(olivine_subscriber_open(words[1], &subscribers[0]));
    WANT_OK(olivine_subscriber_open(words[1], &subscribers[1]));
    WANT_OK(olivine_subscriber_open_with(words[1], &name, 1, &subscribers[2]));
    WANT_OK(olivine_publisher_open(words[1], &publisher));
    WANT_OK(olivine_publisher_open(words[1], &publishers[0]));
    WANT_OK(olivine_publisher_open(words[1], &publishers[1]));
    const olivine_type type = {"number", 4, 4, NULL};
    WANT_OK(olivine_publisher_open_typed("inproc://fork", NULL, 0, &type, &typed));
    WANT_OK(olivine_publisher_publish(publisher, "before", 6, NULL, NULL));
    WANT_OK(olivine_subscriber_receive(subscriber, &message));
    WANT_OK(olivine_publisher_claim(publisher, 5, NULL, &claim));
    memcpy(claim.data, "after", 5);
    pid_t child = fork();
    WANT(child >= 0);
    if (child == 0) {
        in_the_child();
        wrong_in_the_child();
        fflush(stdout);
        _exit(0);
    }
    int ended = 1;
    WANT(waitpid(child, &ended, 0) == child && ended == 0);
    // The parent's handles are what they were.
    WANT_OK(olivine_publisher_commit(publisher, NULL));
    for (int at = 0; at < 3; at++) {
        for (const char *text = "before"; text != NULL; text = *text == 'b' ? "after" : NULL) {
            WANT_OK(olivine_subscriber_receive(subscribers[at], &message));
            WANT(message.length == strlen(text) && memcmp(message.data, text, strlen(text)) == 0);
        }
    }
    WANT_OK(olivine_publisher_close(typed));
    WANT_OK(olivine_publisher_close(publishers[0]));
    WANT_OK(olivine_publisher_close(publishers[1]));
    WANT_OK(olivine_publisher_close(publisher));
    WANT_OK(olivine_subscriber_close(subscribers[2]));
    WANT_OK(olivine_subscriber_open_with(words[1], &name, 1, &subscribers[2]));
    olivine_durable durable;
    WANT_OK(olivine_subscriber_durable(subscribers[2], &durable));
    WANT(durable == OLIVINE_DURABLE_RESUMED);
    WANT_OK(olivine_subscriber_unsubscribe(subscribers[2]));
    WANT_OK(olivine_subscriber_close(subscribers[1]));
    WANT_OK(olivine_subscriber_close(subscribers[0]));
    WANT_OK(olivine_subscriber_close(subscriber));
    return 0;
}
