// What a handle of a channel elsewhere reports of a far side that never comes, and of a connection.

#include "numbered.h"

// No program listens at this address.
#define NOWHERE "tcp://127.0.0.1:1/links?capacity=4KiB"

// The latest failure says that no far side is at NOWHERE, why, and how often it was tried.
static int says_why(void) {
    const char *text = olivine_last_error();
    return strstr(text, "no far side has been connected: waiting for 127.0.0.1:1") != NULL &&
           strstr(text, "refused") != NULL && strstr(text, " tr") != NULL;
}

static olivine_link_status of_publisher(const olivine_publisher *publisher) {
    olivine_link_status status = OLIVINE_LINK_STATUS_INIT;
    WANT_OK(olivine_publisher_link_status(publisher, &status));
    WANT(status.struct_size == sizeof status && status.note != NULL && status.address != NULL);
    return status;
}

static olivine_link_status of_subscriber(const olivine_subscriber *subscriber) {
    olivine_link_status status = OLIVINE_LINK_STATUS_INIT;
    WANT_OK(olivine_subscriber_link_status(subscriber, &status));
    WANT(status.struct_size == sizeof status && status.note != NULL && status.address != NULL);
    return status;
}

static void subscriber_without_a_far_side(void) {
    olivine_subscriber *subscriber = NULL;
    olivine_message message = OLIVINE_MESSAGE_INIT;
    WANT_OK(olivine_subscriber_open(NOWHERE, &subscriber));
    WANT(olivine_subscriber_wait(subscriber, 1) == OLIVINE_STATUS_TIMED_OUT && says_why());
    WANT(olivine_subscriber_try_receive(subscriber, &message) == OLIVINE_STATUS_TIMED_OUT);
    WANT(!says_why());
    WANT(olivine_subscriber_receive_timeout(subscriber, 1, &message) == OLIVINE_STATUS_TIMED_OUT);
    WANT(says_why());
    const olivine_link_status status = of_subscriber(subscriber);
    WANT(status.stage == OLIVINE_LINK_STAGE_WAITING && status.peers == 0);
    WANT(status.connections == 0 && status.failures > 0 && status.address[0] == '\0');
    WANT(strstr(status.note, "127.0.0.1:1") != NULL);
    WANT_OK(olivine_subscriber_close(subscriber));
}

static void publisher_without_a_far_side(void) {
    olivine_publisher *publisher = NULL;
    olivine_claim claim = OLIVINE_CLAIM_INIT;
    const char bytes[512] = {0};
    const olivine_part part = {bytes, sizeof bytes, NULL, 0};
    WANT_OK(olivine_publisher_open(NOWHERE "&role=connect&linger=1ms", &publisher));
    WANT_OK(olivine_publisher_publish(publisher, bytes, sizeof bytes, NULL, NULL));
    WANT(olivine_publisher_wait_drained(publisher, 1) == OLIVINE_STATUS_TIMED_OUT && says_why());
    olivine_status status = OLIVINE_STATUS_OK;
    while (status == OLIVINE_STATUS_OK) {
        status = olivine_publisher_publish_timeout(publisher, bytes, sizeof bytes, NULL, 1, NULL);
    }
    WANT(status == OLIVINE_STATUS_BACK_PRESSURED && says_why());
    WANT(olivine_publisher_try_publish(publisher, bytes, sizeof bytes, NULL, NULL)
        == OLIVINE_STATUS_BACK_PRESSURED);
    WANT(!says_why());
    WANT(olivine_publisher_publish_batch_timeout(publisher, &part, 1, 1, NULL)
        == OLIVINE_STATUS_BACK_PRESSURED);
    WANT(says_why());
    WANT(olivine_publisher_try_publish_batch(publisher, &part, 1, NULL)
        == OLIVINE_STATUS_BACK_PRESSURED);
    WANT(!says_why());
    WANT(olivine_publisher_claim_timeout(publisher, sizeof bytes, NULL, 1, &claim)
        == OLIVINE_STATUS_BACK_PRESSURED);
    WANT(says_why());
    WANT(of_publisher(publisher).stage == OLIVINE_LINK_STAGE_WAITING);
    WANT(olivine_publisher_close(publisher) != OLIVINE_STATUS_OK);
}

// A connection: its counters, and a text of a time-out without a reason.
static void connected(void) {
    olivine_publisher *publisher = NULL;
    olivine_subscriber *subscriber = NULL;
    olivine_message message = OLIVINE_MESSAGE_INIT;
    char uri[256];
    WANT_OK(olivine_publisher_open("tcp://127.0.0.1:0/links?linger=1m", &publisher));
    const olivine_link_status alone = of_publisher(publisher);
    WANT(alone.stage == OLIVINE_LINK_STAGE_WAITING && alone.connections == 0);
    snprintf(uri, sizeof uri, "tcp://%s/links", alone.address);
    WANT_OK(olivine_subscriber_open(uri, &subscriber));
    while (of_publisher(publisher).stage != OLIVINE_LINK_STAGE_CONNECTED ||
           of_subscriber(subscriber).stage != OLIVINE_LINK_STAGE_CONNECTED) {
    }
    WANT_OK(olivine_publisher_publish(publisher, "four", 4, NULL, NULL));
    WANT_OK(olivine_subscriber_receive(subscriber, &message));
    // A bridge counts a message after it has handed it out.
    olivine_link_status there = of_subscriber(subscriber);
    while (there.messages == 0 || there.bytes == 0) {
        there = of_subscriber(subscriber);
    }
    WANT(there.connections == 1 && there.messages == 1);
    WANT(there.refusals == 0 && there.abandoned == 0 && there.undelivered == 0);
    while (of_publisher(publisher).bytes != there.bytes) {
    }
    const olivine_link_status here = of_publisher(publisher);
    WANT(here.peers == 1 && here.connections == 1);
    WANT(olivine_subscriber_wait(subscriber, 1) == OLIVINE_STATUS_TIMED_OUT);
    WANT(strstr(olivine_last_error(), "no far side") == NULL);
    WANT_OK(olivine_subscriber_close(subscriber));
    WANT_OK(olivine_publisher_close(publisher));
}

// The stage without a bridge, and arguments that are refused.
static void inside(void) {
    olivine_publisher *publisher = NULL;
    olivine_subscriber *subscriber = NULL;
    olivine_link_status status = OLIVINE_LINK_STATUS_INIT;
    WANT_OK(olivine_publisher_open("inproc://links", &publisher));
    WANT_OK(olivine_subscriber_open("inproc://links", &subscriber));
    status.stage = OLIVINE_LINK_STAGE_FAILED;
    WANT_OK(olivine_publisher_link_status(publisher, &status));
    WANT(status.stage == OLIVINE_LINK_STAGE_NONE && status.note[0] == '\0');
    WANT(of_subscriber(subscriber).stage == OLIVINE_LINK_STAGE_NONE);
    WANT(olivine_publisher_link_status(publisher, NULL) == OLIVINE_STATUS_NULL_ARGUMENT);
    WANT(olivine_subscriber_link_status(NULL, &status) == OLIVINE_STATUS_NULL_ARGUMENT);
    status.struct_size = 8;
    WANT(olivine_subscriber_link_status(subscriber, &status) == OLIVINE_STATUS_BAD_ARGUMENT);
    WANT_OK(olivine_subscriber_close(subscriber));
    WANT_OK(olivine_publisher_close(publisher));
}

int main(void) {
    subscriber_without_a_far_side();
    publisher_without_a_far_side();
    connected();
    inside();
    puts("linked");
    return 0;
}
