/* What a library implements to be measured by `olivine bench arena FOLDER`. C11 and C++.
 *
 * Two processes load the entry, one for each end. Each end is used by one thread. The benchmark
 * fills every message, checks every byte, keeps the time, and ends what hangs: an entry may wait
 * without a limit. docs/arena.md has the manifest and an example. */
#ifndef OLIVINE_ARENA_H
#define OLIVINE_ARENA_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Results of arena_send and arena_receive. */
enum {
    ARENA_DONE = 0,
    ARENA_AGAIN = 1,  /* not now: the same call comes again at once */
    ARENA_FAILED = -1 /* errno says why; there is no figure */
};

/* The two ends. The client's arena_open has returned when the server's is called. */
enum { ARENA_CLIENT = 0, ARENA_SERVER = 1 };

struct arena_description {
    const char *name;  /* of the method in tables: letters, digits and '-' */
    const char *about; /* what it is, in one line */
    const char *wait;  /* how an end waits: "spin" or "block" */
    const char *lacks; /* what a channel of Olivine has and this has not, or NULL */
    int streams;       /* 1: many messages may be sent without replies, and none is lost */
};

/* Describes the entry. The strings live as long as the process. */
void arena_describe(struct arena_description *description);

/* Opens an end for messages of exactly size_bytes, in both directions. Both ends get the same
 * folder: an empty one in shared memory, removed afterwards with all that is in it. Returns NULL
 * with errno on failure: EMSGSIZE if it does not carry this size. */
void *arena_open(int end, const char *folder, size_t size_bytes);

/* Sends the message of size_bytes. */
int arena_send(void *opened, const void *message);

/* Receives the next message into room for size_bytes. */
int arena_receive(void *opened, void *message);

/* Closes an end. The other one may be closed already. */
void arena_close(void *opened);

#ifdef __cplusplus
}
#endif
#endif
