/*
 * Whose turn it is on a session: one thread's at a time, from taking to giving, which may be in
 * different calls of the library. Taking it twice would wait for ever, and is an error instead.
 */
#ifndef PRN_RECORD_TURN_H
#define PRN_RECORD_TURN_H

#include "base/error.h"

#include <pthread.h>

struct prn_turn {
    pthread_mutex_t lock; /* for `holder` */
    pthread_cond_t given;
    uint64_t holder; /* the thread's number; 0: nobody */
};

#define PRN_TURN_INIT \
    ((struct prn_turn){.lock = PTHREAD_MUTEX_INITIALIZER, .given = PTHREAD_COND_INITIALIZER})
void prn_turn_release(struct prn_turn *turn);

/* Waits for it. PRONY_EUSAGE: this thread has it, for a run that isn't finished. */
PRONY_MUST_CHECK int prn_turn_take(struct prn_turn *turn, struct prony_error *err);
/* By any thread. */
void prn_turn_give(struct prn_turn *turn);

#endif
