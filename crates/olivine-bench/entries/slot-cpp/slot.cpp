// One slot in shared memory for each direction: it carries a message and its answer.
#include "olivine_arena.h"
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <new>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

struct Slot {
    alignas(64) std::atomic<std::uint32_t> is_full;
    unsigned char bytes[8192];
};
struct End {
    Slot *to, *from;
    std::size_t size;
};

static Slot *map(const std::string &path) {
    int file = open(path.c_str(), O_RDWR | O_CREAT, 0600);
    if (file < 0 || ftruncate(file, sizeof(Slot)) != 0) return nullptr;
    void *slot = mmap(nullptr, sizeof(Slot), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    return slot == MAP_FAILED ? nullptr : static_cast<Slot *>(slot);
}

extern "C" {
void arena_describe(arena_description *is) {
    *is = {"slot-cpp", "slot with a flag in shared memory, in C++, spinning", "spin",
           "no queue: one message under way, for one reader; a dead side is not noticed", 0};
}
void *arena_open(int which, const char *folder, std::size_t size) {
    if (size > sizeof(Slot::bytes)) return errno = EMSGSIZE, nullptr;
    std::string there = std::string(folder) + "/there", back = std::string(folder) + "/back";
    bool is_client = which == ARENA_CLIENT;
    Slot *to = map(is_client ? there : back), *from = map(is_client ? back : there);
    return to && from ? new (std::nothrow) End{to, from, size} : nullptr;
}
int arena_send(void *opened, const void *message) {
    auto &[to, from, size] = *static_cast<End *>(opened);
    if (to->is_full.load(std::memory_order_acquire)) return ARENA_AGAIN;
    std::memcpy(to->bytes, message, size);
    to->is_full.store(1, std::memory_order_release);
    return ARENA_DONE;
}
int arena_receive(void *opened, void *message) {
    auto &[to, from, size] = *static_cast<End *>(opened);
    if (!from->is_full.load(std::memory_order_acquire)) return ARENA_AGAIN;
    std::memcpy(message, from->bytes, size);
    from->is_full.store(0, std::memory_order_release);
    return ARENA_DONE;
}
void arena_close(void *opened) { delete static_cast<End *>(opened); }
}
