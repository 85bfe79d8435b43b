// Publishes numbered messages by every means there is: publish URI COUNT. Says "open" once it is.

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

int main(int argc, char **argv) {
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
