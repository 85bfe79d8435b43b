// Receives numbered messages from FIRST on: receive URI FIRST [STOP]. Without STOP to the end of
// the stream; with it, it fails at message STOP. Says "open" once it is.

#include "numbered.h"

int main(int argc, char **argv) {
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
