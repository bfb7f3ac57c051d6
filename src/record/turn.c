#include "record/turn.h"

#include "record/region.h"

void prn_turn_release(struct prn_turn *turn)
{
    pthread_cond_destroy(&turn->given);
    pthread_mutex_destroy(&turn->lock);
}

int prn_turn_take(struct prn_turn *turn, struct prony_error *err)
{
    const uint64_t thread = prn_region_thread();
    pthread_mutex_lock(&turn->lock);
    bool own = turn->holder == thread;
    while (!own && turn->holder != 0)
        pthread_cond_wait(&turn->given, &turn->lock);
    if (!own)
        turn->holder = thread;
    pthread_mutex_unlock(&turn->lock);
    return own ? prn_fail(
                     err, PRONY_EUSAGE,
                     "a run that this thread started isn't finished; finish or cancel it first")
               : 0;
}

void prn_turn_give(struct prn_turn *turn)
{
    pthread_mutex_lock(&turn->lock);
    turn->holder = 0;
    pthread_cond_signal(&turn->given);
    pthread_mutex_unlock(&turn->lock);
}
