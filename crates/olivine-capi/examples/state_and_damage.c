// The state of a connection, and a journal with damage: what a program sees and what it may do.
//
//     state_and_damage FOLDER
//
// It makes a journal in FOLDER, which must not have one.

#include <olivine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MESSAGES 40

static void must(olivine_status status) {
    if (status != OLIVINE_STATUS_OK) {
        fprintf(stderr, "%s [%s]\n", olivine_last_error(), olivine_last_error_id());
        exit(1);
    }
}

// Prints the state of the bridge behind a subscriber if it is another one than before.
static void show_state(const olivine_subscriber *subscriber, olivine_link_stage *shown) {
    static const char *const words[] = {"no bridge", "waiting", "connected", "ended", "failed"};
    olivine_link_status status = OLIVINE_LINK_STATUS_INIT;
    must(olivine_subscriber_link_status(subscriber, &status));
    if (status.stage != *shown) {
        *shown = status.stage;
        printf("link: %s\n", words[status.stage]);
        fprintf(stderr, "  %s\n", status.note);    // why it waits, or why it failed
    }
}

// No thread calls back: the loop that receives looks at the state when a wait is over.
static void receive_over_tcp(void) {
    olivine_publisher *publisher;
    olivine_subscriber *subscriber;
    olivine_message message = OLIVINE_MESSAGE_INIT;
    olivine_link_status status = OLIVINE_LINK_STATUS_INIT;
    olivine_link_stage shown = OLIVINE_LINK_STAGE_NONE;
    olivine_status received = OLIVINE_STATUS_TIMED_OUT;
    char uri[128];
    // Another program's publisher. Port 0: the system chooses one. Its first message waits for a
    // far side.
    must(olivine_publisher_open("tcp://127.0.0.1:0/ticks?subscribers=1&linger=1m", &publisher));
    must(olivine_publisher_link_status(publisher, &status));
    snprintf(uri, sizeof uri, "tcp://%s/ticks", status.address);
    must(olivine_subscriber_open(uri, &subscriber));
    show_state(subscriber, &shown);
    must(olivine_publisher_publish(publisher, "hello", 5, NULL, NULL));
    while (received == OLIVINE_STATUS_TIMED_OUT) {
        received = olivine_subscriber_receive_timeout(subscriber, 100, &message);
        show_state(subscriber, &shown);
    }
    must(received);
    printf("%.*s\n", (int)message.length, (const char *)message.data);
    must(olivine_publisher_close(publisher));
    received = olivine_subscriber_receive(subscriber, &message);
    if (received != OLIVINE_STATUS_END_OF_STREAM) must(received);
    must(olivine_subscriber_close(subscriber));

    // No program listens there: opening succeeds, and the state says why nothing comes.
    must(olivine_subscriber_open("tcp://127.0.0.1:1/ticks", &subscriber));
    received = olivine_subscriber_receive_timeout(subscriber, 10, &message);
    if (received != OLIVINE_STATUS_TIMED_OUT) must(received);
    show_state(subscriber, &shown);
    must(olivine_subscriber_close(subscriber));
}

static void record(const char *uri) {
    olivine_publisher *publisher;
    must(olivine_publisher_open(uri, &publisher));
    for (int number = 0; number < MESSAGES; number++) {
        must(olivine_publisher_publish(publisher, &number, sizeof number, NULL, NULL));
        // A block of the journal for each message.
        must(olivine_publisher_wait_drained(publisher, 60000));
    }
    must(olivine_publisher_close(publisher));
}

// Changes a byte in the middle of a file, as a faulty disk does.
static void damage(const char *path) {
    FILE *file = fopen(path, "r+b");
    if (file == NULL || fseek(file, 0, SEEK_END) != 0) exit(1);
    const long middle = ftell(file) / 2;
    fseek(file, middle, SEEK_SET);
    const int byte = fgetc(file);
    fseek(file, middle, SEEK_SET);
    fputc(byte ^ 0xff, file);
    fclose(file);
}

// Reads all that can be read; returns the number of messages.
static int read_all(const char *journal) {
    olivine_subscriber *subscriber;
    olivine_message message = OLIVINE_MESSAGE_INIT;
    olivine_status status;
    char uri[512];
    int count = 0;
    snprintf(uri, sizeof uri, "%s", journal);
    for (;;) {
        must(olivine_subscriber_open(uri, &subscriber));
        while ((status = olivine_subscriber_receive(subscriber, &message)) == OLIVINE_STATUS_OK) {
            count++;
        }
        // Everything before the failure was received. Its kind says what may follow:
        const char *id = olivine_last_error_id();
        const char *next = NULL;
        if (status == OLIVINE_STATUS_END_OF_STREAM) {
            puts("the end");
        } else if (strcmp(id, "journal.damaged") == 0) {
            // Whole blocks follow, if the text says at which position.
            next = strstr(olivine_last_error(), "from=position:");
            puts(next != NULL ? "damaged: going on behind it" : "damaged: nothing behind it");
        } else if (strcmp(id, "journal.unfinished") == 0) {
            puts("its recorder was killed, or is still recording: unfinished=accept takes this as "
                 "the end, follow=yes waits for more");
        } else if (strcmp(id, "journal.hole") == 0) {
            puts("messages were never recorded: unfinished=accept goes on behind them");
        } else if (strcmp(id, "journal.failed") == 0) {
            puts("its recorder failed: unfinished=accept goes on with a later recording");
        } else {
            must(status);    // such as journal.io: the system refused
        }
        if (next != NULL) {
            const long long position = atoll(next + strlen("from=position:"));
            snprintf(uri, sizeof uri, "%s?from=position:%lld", journal, position);
        }
        must(olivine_subscriber_close(subscriber));
        if (next == NULL) return count;
    }
}

int main(int argc, char **argv) {
    char uri[400];
    if (argc != 2) return 2;
    receive_over_tcp();
    snprintf(uri, sizeof uri, "file://%s/ticks.olv", argv[1]);
    record(uri);
    printf("%d messages\n", read_all(uri));
    damage(uri + strlen("file://"));
    const int readable = read_all(uri);
    printf("%s\n", readable == MESSAGES - 1 ? "one is lost" : "not one is lost");
    return 0;
}
