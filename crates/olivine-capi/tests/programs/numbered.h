// Numbered messages: eight bytes of number, then as many bytes more as the number's last two digits
// say, and some of them are large.

#include "olivine.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LARGE_BYTES 3000
#define LENGTH_MAX (8 + 99 + LARGE_BYTES)

// Ends the program with a line that says where and why.
#define WANT(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,                     \
                    olivine_last_error());                                                         \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define WANT_OK(call) WANT((call) == OLIVINE_STATUS_OK)

static inline size_t length_of(uint64_t number) {
    return 8 + number % 100 + (number % 250 == 249 ? LARGE_BYTES : 0);
}

static inline void fill(uint8_t *to, uint64_t number) {
    memcpy(to, &number, 8);
    memset(to + 8, (int)(number & 0xff), length_of(number) - 8);
}

static inline int holds(const void *data, size_t length, uint32_t tag, uint64_t number) {
    uint8_t wanted[LENGTH_MAX];
    fill(wanted, number);
    return length == length_of(number) && memcmp(data, wanted, length) == 0 &&
           tag == (uint32_t)number;
}

static inline int is_numbered(const olivine_message *message, uint64_t number) {
    return holds(message->data, message->length, message->tag, number);
}
