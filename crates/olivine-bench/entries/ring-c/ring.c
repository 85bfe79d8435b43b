/* A ring in shared memory for each direction. */
#include "olivine_arena.h"
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLOTS = 4096 };
struct ring {
    _Alignas(64) atomic_size_t written;
    _Alignas(64) atomic_size_t read;
    _Alignas(64) unsigned char slots[];
};
struct end { struct ring *to, *from; size_t size; };

void arena_describe(struct arena_description *is) {
    is->name = "ring-c";
    is->about = "ring with two positions in shared memory, in C, spinning";
    is->wait = "spin";
    is->lacks = "fixed size, one reader; a dead side is not noticed";
    is->streams = 1;
}
static struct ring *map(const char *folder, const char *name, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    size_t length = sizeof(struct ring) + SLOTS * size;
    int file = open(path, O_RDWR | O_CREAT, 0600);
    void *ring = MAP_FAILED;
    if (file >= 0 && ftruncate(file, (off_t)length) == 0)
        ring = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return ring == MAP_FAILED ? NULL : ring;
}
void *arena_open(int which, const char *folder, size_t size) {
    struct end *end = malloc(sizeof *end);
    int is_client = which == ARENA_CLIENT;
    end->to = map(folder, is_client ? "there" : "back", size);
    end->from = map(folder, is_client ? "back" : "there", size);
    end->size = size;
    return end->to && end->from ? end : NULL;
}
int arena_send(void *opened, const void *message) {
    struct end *end = opened;
    size_t at = atomic_load_explicit(&end->to->written, memory_order_relaxed);
    size_t read = atomic_load_explicit(&end->to->read, memory_order_acquire);
    if (at - read == SLOTS) return ARENA_AGAIN;
    memcpy(end->to->slots + at % SLOTS * end->size, message, end->size);
    atomic_store_explicit(&end->to->written, at + 1, memory_order_release);
    return ARENA_DONE;
}
int arena_receive(void *opened, void *message) {
    struct end *end = opened;
    size_t at = atomic_load_explicit(&end->from->read, memory_order_relaxed);
    size_t written = atomic_load_explicit(&end->from->written, memory_order_acquire);
    if (at == written) return ARENA_AGAIN;
    memcpy(message, end->from->slots + at % SLOTS * end->size, end->size);
    atomic_store_explicit(&end->from->read, at + 1, memory_order_release);
    return ARENA_DONE;
}
void arena_close(void *opened) { free(opened); }
