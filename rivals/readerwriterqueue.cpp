// moodycamel's ReaderWriterQueue for `readerwriterqueue.rs`: a queue for each size, by C functions.
#include <cstddef>
#include <readerwriterqueue/readerwriterqueue.h>

using Fill = void (*)(void *context, unsigned char *place);

// A message, filled in the memory of the queue.
template <std::size_t N> struct Message {
    unsigned char bytes[N];
    Message(Fill fill, void *context) { fill(context, bytes); }
};

// With the largest of the rings in one block: the default is a list of blocks of 512 messages.
template <std::size_t N>
using Queue = moodycamel::ReaderWriterQueue<Message<N>, std::size_t{1} << 18>;

#define FUNCTIONS(N)                                                                               \
    extern "C" Queue<N> *readerwriterqueue_new_##N(std::size_t messages) {                         \
        return new Queue<N>(messages);                                                             \
    }                                                                                              \
    extern "C" bool readerwriterqueue_push_##N(Queue<N> *queue, Fill fill, void *context) {        \
        return queue->try_emplace(fill, context);                                                  \
    }                                                                                              \
    extern "C" const void *readerwriterqueue_peek_##N(const Queue<N> *queue) {                     \
        return queue->peek();                                                                      \
    }                                                                                              \
    extern "C" bool readerwriterqueue_pop_##N(Queue<N> *queue) { return queue->pop(); }            \
    extern "C" void readerwriterqueue_delete_##N(Queue<N> *queue) { delete queue; }

FUNCTIONS(16)
FUNCTIONS(32)
FUNCTIONS(64)
FUNCTIONS(100)
FUNCTIONS(128)
FUNCTIONS(256)
FUNCTIONS(1024)
FUNCTIONS(4096)
FUNCTIONS(8192)
