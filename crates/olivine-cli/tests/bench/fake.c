/* The ring of the example, with a fault. */
#define arena_open honest_open
#define arena_send honest_send
#define arena_receive honest_receive
#define arena_close honest_close
#include "ring.c"
#undef arena_open
#undef arena_send
#undef arena_receive
#undef arena_close
#include <errno.h>

static size_t received;

void *arena_open(int which, const char *folder, size_t size) {
#ifdef LEFTOVER /* a name that a killed process leaves */
    if (which == ARENA_CLIENT && open(LEFTOVER, O_CREAT | O_EXCL, 0600) < 0) return NULL;
#endif
#ifdef REFUSING
    errno = EMSGSIZE;
    if (size != 100) return NULL;
#endif
    return honest_open(which, folder, size);
}

int arena_send(void *opened, const void *message) {
    int sent = honest_send(opened, message);
#ifdef LOSSY /* a full ring drops */
    return ARENA_DONE;
#endif
    return sent;
}

int arena_receive(void *opened, void *message) {
    struct end *end = opened;
#ifdef STALLED
    if (received == 500) return ARENA_AGAIN;
#endif
#ifdef LYING /* the messages follow from their numbers, or so it thinks */
    memset(message, 0, end->size);
    memcpy(message, &received, sizeof received);
    received++;
    return ARENA_DONE;
#endif
    int got = honest_receive(opened, message);
    if (got != ARENA_DONE) return got;
    received++;
#ifdef TORN
    if (received % 300 == 0) memset((char *)message + end->size - 4, 0, 4);
#endif
#ifdef REPEATING
    if (received % 300 == 0) atomic_fetch_sub(&end->from->read, 1);
#endif
#ifdef REORDERING /* if there are two */
    static char later[8192];
    size_t at = atomic_load(&end->from->read);
    if (received % 300 == 0 && atomic_load(&end->from->written) != at) {
        unsigned char *next = end->from->slots + at % SLOTS * end->size;
        memcpy(later, next, end->size);
        memcpy(next, message, end->size);
        memcpy(message, later, end->size);
    }
#endif
#ifdef FAILING
    errno = ECONNRESET;
    if (received == 500) return ARENA_FAILED;
#endif
#ifdef CRASHING
    if (received == 500) abort();
#endif
    return got;
}

void arena_close(void *opened) {
#ifdef LEFTOVER
    unlink(LEFTOVER);
#endif
    honest_close(opened);
}
