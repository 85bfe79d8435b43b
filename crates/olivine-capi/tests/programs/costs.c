// Sends messages of 32 bytes, by publish or by claim and commit, for a test that counts the
// instructions. There is no subscriber, and they fit the ring: nothing waits.

#include "olivine.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH = 32 };

static void must(olivine_status status) {
    if (status != OLIVINE_STATUS_OK) {
        fprintf(stderr, "%s\n", olivine_last_error());
        exit(1);
    }
}

static void publish(olivine_publisher *publisher, long count) {
    unsigned char message[LENGTH];
    memset(message, 7, sizeof message);
    for (long n = 0; n < count; n++) {
        must(olivine_publisher_publish(publisher, message, sizeof message, NULL, NULL));
    }
}

static void claim(olivine_publisher *publisher, long count) {
    for (long n = 0; n < count; n++) {
        olivine_claim claim = OLIVINE_CLAIM_INIT;
        must(olivine_publisher_claim(publisher, LENGTH, NULL, &claim));
        memset(claim.data, 7, LENGTH);
        must(olivine_publisher_commit(publisher, NULL));
    }
}

int main(int count, char **words) {
    olivine_publisher *publisher;
    uint64_t position;
    if (count != 3) {
        return 2;
    }
    must(olivine_publisher_open("inproc://counted?capacity=16MiB", &publisher));
    if (strcmp(words[1], "claim") == 0) {
        claim(publisher, atol(words[2]));
    } else {
        publish(publisher, atol(words[2]));
    }
    must(olivine_publisher_cursor(publisher, &position));
    must(olivine_publisher_close(publisher));
    printf("%lu\n", (unsigned long)position);
    return 0;
}
