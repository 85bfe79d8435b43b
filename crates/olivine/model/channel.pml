/*
 * Joining, leaving and waiting on one lane: join, gate, evict, reclaim, park. Checked by
 * `cargo xtask model`.
 *
 * One publisher sends N messages through a ring of C. SUBSCRIBERS come at any time, read, and
 * leave. One of them may die at any step. Edges have the names of ring/layout.rs: JOIN, REUSE,
 * OVERRUN, SLEEP, WAKE, ROOM. loom checks a few threads of the real code under the rules of the
 * language. This model checks whole lives, of the protocol alone.
 *
 * Memory: a store goes to a queue of its process, and from there to memory at any time, in order.
 * A load reads memory. A fence waits until its process's queue is empty. The heavy barrier waits
 * until every process's queue was empty. An atomic exchange works like a fence.
 *
 * Claims: a reader finds the messages in order, without a gap, and no message is overwritten while
 * it is read (assertions). Every process ends (no invalid end states). A sleep ends only by a
 * wake-up, so a lost wake-up is found. A death or an eviction wakes no process: these two have a
 * time-out. One nap of each process may end by time. The process then stays armed: flags that are
 * still raised need no second barrier.
 *
 * A variable that is not read again is set to its first value: otherwise states that go on alike
 * would count as different ones.
 *
 * With -DVISITOR a waker comes once, like a publisher that opens, and may die at any step.
 *
 * -DEVICT is a channel that evicts. -DMUTANT_NAME removes a part, which the model must detect.
 */

#ifndef N
#define N 4
#endif
#ifndef C
#define C 2
#endif
#ifndef SUBSCRIBERS
#define SUBSCRIBERS 1
#endif
/* Whether the naps are used up before the start, if there are too many states otherwise. */
#ifndef NAPPED
#define NAPPED false
#endif
#define NONE 255

/* Words of shared memory. */
#define LIMIT 0
#define CURSOR 1
#define ROOM_PARK 2
#define SLEEPERS 3
#define CLOSED 4
#define RING(n) (5 + (n) % C)
#define POSITION(s) (5 + C + (s))
#define GATING(s) (5 + C + SUBSCRIBERS + (s))
#define PARK(s) (5 + C + 2 * SUBSCRIBERS + (s))
#define WORDS (5 + C + 3 * SUBSCRIBERS)

#define PUBLISHER SUBSCRIBERS
#define PROCESSES (SUBSCRIBERS + 1)

byte memory[WORDS];
chan queue[PROCESSES] = [4] of { byte, byte };

/* Locks of the kernel: free after the death of their holder. */
bool slot_lock[SUBSCRIBERS];
byte membership = NONE;
bool attached[SUBSCRIBERS];
bool evicted[SUBSCRIBERS];
byte deaths = 0;

#define store(me, word, value) queue[me] ! word, value
#define fence(me) empty(queue[me])

inline heavy_barrier(me) {
    fence(me);
#ifndef MUTANT_sleep_no_heavy_barrier
    empty(queue[0]);
#if SUBSCRIBERS == 2
    empty(queue[1]);
#endif
    empty(queue[PUBLISHER])
#endif
}

/* Moves a store from a queue to memory, at any time. */
active [PROCESSES] proctype drain() {
    byte word, value;
end:
    do
    :: atomic { queue[_pid] ? word, value -> memory[word] = value; word = 0; value = 0 }
    od
}

/* The slowest gating subscriber; NONE if no subscriber gates. */
inline scan() {
    who = NONE;
    s = 0;
    do
    :: s == SUBSCRIBERS -> break
    :: else ->
        atomic {
            /* REUSE: messages read before the store of the position may be overwritten. */
            if
            :: memory[GATING(s)] == 1 && (who == NONE || memory[POSITION(s)] < slowest) ->
                who = s;
                slowest = memory[POSITION(s)]
            :: else
            fi;
            s++
        }
    od
}

/* The hint: there may be sleepers; a barrier has passed since it was raised; the rest counts
 * sleeps and lowerings. */
#define RAISED 1
#define COVERED 2
#define COUNT 4
#define HINT_MASK 63

/* WAKE: the park words first. Then the hint stays, or is lowered, if no sleeper raised it since. */
inline wake_sleepers() {
    seen = memory[SLEEPERS];
    if
    :: seen & RAISED ->
        wake_words();
        fence(PUBLISHER);
        if
        :: true
        :: lower_hint(seen)
        fi
    :: else
    fi;
    seen = 0
}

inline lower_hint(seen) {
    atomic {
        if
#ifdef MUTANT_wake_lowers_blindly
        :: true -> memory[SLEEPERS] = memory[SLEEPERS] & (HINT_MASK - RAISED - COVERED)
#else
#ifdef MUTANT_wake_lowering_uncounted
        :: memory[SLEEPERS] == seen -> memory[SLEEPERS] = seen & (HINT_MASK - RAISED - COVERED)
#else
        /* Counted: what follows differs from what an earlier sleeper saw. */
        :: memory[SLEEPERS] == seen ->
            memory[SLEEPERS] = (seen + COUNT) & (HINT_MASK - RAISED - COVERED)
#endif
        :: else
#endif
        fi
    }
}

#ifdef VISITOR
/* Wakes like a publisher, and may die before each step. It stores no message. */
proctype visitor() {
    byte s = 0, seen;
    seen = memory[SLEEPERS];
    if
    :: seen & RAISED ->
#ifdef MUTANT_wake_lowers_hint_first
        memory[SLEEPERS] = memory[SLEEPERS] & (HINT_MASK - RAISED - COVERED);
#endif
        do
        :: goto gone
        :: s == SUBSCRIBERS -> break
        :: s < SUBSCRIBERS -> atomic { memory[PARK(s)] = 0; s++ }
        od;
        lower_hint(seen)
    :: else
    fi;
gone:
    skip
}
#endif

inline wake_words() {
    s = 0;
    do
    :: s == SUBSCRIBERS -> break
    :: else ->
        fence(PUBLISHER);
        atomic { memory[PARK(s)] = 0; s++ }
    od
}

proctype publisher() {
    byte n = 1, limit = C, published = C, wanted, slowest, who, s, seen;
    bool armed = false, napped = NAPPED;
    do
    :: n > N -> break
    :: else ->
        do
        :: atomic { n <= limit -> who = NONE; slowest = 0; wanted = 0 }; break
        :: else ->
            scan();
            wanted = (who == NONE -> n : (slowest < n - 1 -> slowest : n - 1) + C);
            if
            :: wanted > published ->
                store(PUBLISHER, LIMIT, wanted);
                published = wanted;
                limit = wanted;
#ifndef MUTANT_join_gate_release_fence
                /* JOIN and OVERRUN. */
                fence(PUBLISHER);
#endif
#ifndef MUTANT_join_gate_no_rescan
                scan();
                if
                :: who != NONE && slowest + C < limit -> limit = slowest + C
                :: else
                fi
#endif
            :: else -> limit = wanted
            fi;
            if
            :: n <= limit
            :: n > limit && who != NONE && !slot_lock[who] ->
                /* Dead: reclaimed. */
                fence(PUBLISHER);
                memory[GATING(who)] = 0
#ifdef MUTANT_reclaim_the_living
            :: n > limit && who != NONE && slot_lock[who] ->
                fence(PUBLISHER);
                memory[GATING(who)] = 0
#endif
#ifdef EVICT
            :: atomic {
                n > limit && who != NONE && slot_lock[who] && attached[who] && membership == NONE ->
                membership = PUBLISHER };
                evicted[who] = true;
                fence(PUBLISHER);
                memory[GATING(who)] = 0;
                membership = NONE
#endif
            :: n > limit && who != NONE && slot_lock[who] ->
                /* ROOM: the park word, a heavy barrier, a second check. */
                if
                :: armed && memory[ROOM_PARK] == 1
                :: else ->
                    store(PUBLISHER, ROOM_PARK, 1);
#ifdef MUTANT_room_armed_again_without_barrier
                    if
                    :: napped
                    :: else -> heavy_barrier(PUBLISHER)
                    fi;
#else
                    heavy_barrier(PUBLISHER);
#endif
                    armed = true
                fi;
                scan();
                if
#ifndef MUTANT_room_no_second_look
                :: who == NONE || n <= slowest + C ->
                    store(PUBLISHER, ROOM_PARK, 0);
                    fence(PUBLISHER);
                    armed = false
                :: else ->
#else
                :: true ->
#endif
                    if
                    :: memory[ROOM_PARK] == 0
                    :: !napped -> napped = true
                    /* A nap ends by time. That matters only if no process would wake it. */
                    :: memory[GATING(0)] == 1 && !slot_lock[0] -> memory[ROOM_PARK] = 0
#if SUBSCRIBERS == 2
                    :: memory[GATING(1)] == 1 && !slot_lock[1] -> memory[ROOM_PARK] = 0
#endif
#ifdef EVICT
                    :: memory[ROOM_PARK] == 1 -> memory[ROOM_PARK] = 0
#endif
                    fi
                fi
            fi
        od;
        store(PUBLISHER, RING(n), n);
        store(PUBLISHER, CURSOR, n);
        /* SLEEP, the light side: no instruction. */
        wake_sleepers();
        n++
    od;
    store(PUBLISHER, CLOSED, 1);
    wake_sleepers()
}

#define may_die(me) \
    if \
    :: skip \
    :: atomic { deaths == 0 -> deaths++; slot_lock[me] = false; \
        if :: membership == me -> membership = NONE :: else fi }; goto gone \
    fi

proctype subscriber(byte me) {
    byte position, header, payload, raised;
    bool armed = false, napped = NAPPED, fresh;
    atomic { membership == NONE -> membership = me };
    slot_lock[me] = true;
    store(me, POSITION(me), 0);
    do
    :: if
        :: position = memory[CURSOR]
        :: position = memory[LIMIT] - C
        fi;
        store(me, POSITION(me), position);
        may_die(me);
        store(me, GATING(me), 1);
#ifndef MUTANT_join_no_fence
        /* JOIN: our position before the limit. */
        fence(me);
#endif
        if
        :: memory[LIMIT] <= position + C -> break
        :: else
        fi
    od;
#ifndef MUTANT_join_no_wake
    /* ROOM: the publisher may sleep because of a position that was proposed and given up. */
    if
    :: memory[ROOM_PARK] != 0 -> fence(me); memory[ROOM_PARK] = 0
    :: else
    fi;
#endif
    attached[me] = true;
    membership = NONE;
    may_die(me);
    do
    :: position == N -> break
    :: else ->
        header = memory[RING(position + 1)];
        if
        :: header > position ->
            payload = memory[RING(position + 1)];
#ifdef EVICT
#ifndef MUTANT_overrun_no_check
            /* OVERRUN: a subscriber that may be evicted copies, and reads the limit afterwards. */
            if
            :: memory[LIMIT] > position + C -> break
            :: else
            fi;
#endif
#endif
            assert(header == position + 1 && payload == position + 1);
            atomic { position++; header = 0; payload = 0 };
            may_die(me);
            store(me, POSITION(me), position);
#ifdef MUTANT_room_no_wake
            skip
#else
            /* ROOM: light side. */
            if
            :: memory[ROOM_PARK] != 0 -> fence(me); memory[ROOM_PARK] = 0
            :: else
            fi
#endif
        :: else ->
            header = 0;
            /* SLEEP: the flags, a heavy barrier, a second check. */
            if
            /* The last nap ended by time, and no waker took the flags. */
            :: armed && memory[PARK(me)] == 1 && (memory[SLEEPERS] & RAISED) -> fresh = false
            :: else ->
                store(me, PARK(me), 1);
                /* WAKE: by read-modify-write, the count first. */
                fence(me);
                atomic {
                    raised = memory[SLEEPERS];
                    memory[SLEEPERS] = (memory[SLEEPERS] + COUNT) & HINT_MASK
                };
                if
#ifdef MUTANT_sleep_stands_uncovered
                :: raised & RAISED
#else
                /* It stands: a barrier has passed since it was raised. */
                :: (raised & (RAISED + COVERED)) == RAISED + COVERED
#endif
                :: else ->
                    atomic {
                        memory[SLEEPERS] = memory[SLEEPERS] | RAISED;
                        raised = memory[SLEEPERS]
                    };
                    may_die(me);
#ifdef MUTANT_sleep_armed_again_without_barrier
                    if
                    :: napped
                    :: else -> heavy_barrier(me)
                    fi;
#else
                    heavy_barrier(me);
#endif
                    atomic {
                        if
                        :: memory[SLEEPERS] == raised -> memory[SLEEPERS] = raised | COVERED
                        :: else
                        fi
                    }
                fi;
                raised = 0;
                armed = true;
                fresh = true
            fi;
            if
#ifndef MUTANT_sleep_no_second_look
            :: memory[RING(position + 1)] > position || evicted[me] ->
                if
                :: fresh -> memory[PARK(me)] = 0; armed = false
                :: else
                fi
            :: else ->
#else
            :: true ->
#endif
                if
                :: memory[PARK(me)] == 0
                :: !napped -> napped = true
#ifdef EVICT
                :: evicted[me] -> memory[PARK(me)] = 0
#endif
                fi
            fi;
            if
            :: evicted[me] && memory[RING(position + 1)] <= position -> break
            :: else
            fi
        fi
    od;
    /* Leaving: everything read is released, and the gating ends. */
    store(me, POSITION(me), NONE);
    fence(me);
    memory[GATING(me)] = 0;
    if
    :: memory[ROOM_PARK] != 0 -> memory[ROOM_PARK] = 0
    :: else
    fi;
    slot_lock[me] = false;
gone:
    atomic { position = 0; header = 0; payload = 0; armed = false; napped = false; fresh = false }
}

init {
    atomic {
        memory[LIMIT] = C;
        run publisher();
        run subscriber(0);
#if SUBSCRIBERS == 2
        run subscriber(1);
#endif
#ifdef VISITOR
        run visitor();
#endif
        skip
    }
}
