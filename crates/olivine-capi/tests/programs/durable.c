// A durable subscriber: closing consumes the message it received last, dropping does not.
// Arguments: the channel, once as it is and once with a name.

#include "numbered.h"

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

int main(int count, char **words) {
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
