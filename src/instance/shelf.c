#include "instance/shelf.h"

#include "base/clock.h"

#include <stdlib.h>
#include <sys/mman.h>

#define RESULT_ARENA_BYTES ((size_t)16 << 20)
#define SPARE_RESULTS_MAX 4

struct prn_shelf *prn_shelf_new(void) PRN_ALONE
{
    struct prn_shelf *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    pthread_mutex_init(&s->lock, NULL);
    prn_condition_init(&s->released);
    s->users = 1;
    return s;
}

static void result_free(struct prn_shelf_result *r)
{
    prn_arena_release(&r->arena);
    free(r->public.times_ns);
    free(r);
}

void prn_shelf_unmap(struct prn_shelf *s)
{
    if (s->map)
        munmap((void *)(uintptr_t)s->map, s->map_bytes);
    s->map = NULL;
    s->map_bytes = 0;
}

static void shelf_free(struct prn_shelf *s) PRN_ALONE
{
    for (struct prn_shelf_result *r = s->spare; r;) {
        struct prn_shelf_result *next = r->next;
        result_free(r);
        r = next;
    }
    prn_shelf_unmap(s);
    pthread_cond_destroy(&s->released);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void prn_shelf_leave(struct prn_shelf *s)
{
    if (!s)
        return;
    prn_shelf_lock(s);
    size_t left = --s->users;
    prn_shelf_unlock(s);
    if (left == 0)
        shelf_free(s);
}

struct prn_shelf_result *prn_shelf_take(struct prn_shelf *s)
{
    prn_shelf_lock(s);
    struct prn_shelf_result *r = s->spare;
    if (r) {
        s->spare = r->next;
        s->n_spare--;
    }
    s->users++;
    prn_shelf_unlock(s);
    if (!r)
        r = calloc(1, sizeof *r);
    if (!r) {
        prn_shelf_leave(s);
        return NULL;
    }
    r->shelf = s;
    r->arena = PRN_ARENA_INIT(RESULT_ARENA_BYTES);
    r->holds_outputs = false;
    r->public.n_times = 0;
    r->public.prepare_ns = 0;
    r->public.n_outputs = 0;
    r->public.outputs = NULL;
    r->public.names = NULL;
    return r;
}

void prn_instance_result_release(void *result)
{
    struct prn_shelf_result *r = result;
    if (!r)
        return;
    struct prn_shelf *s = r->shelf;
    prn_arena_release(&r->arena);
    prn_shelf_lock(s);
    if (r->holds_outputs) {
        s->held = false;
        pthread_cond_signal(&s->released);
    }
    bool kept = s->n_spare < SPARE_RESULTS_MAX;
    if (kept) {
        r->next = s->spare;
        s->spare = r;
        s->n_spare++;
    }
    prn_shelf_unlock(s);
    if (!kept)
        result_free(r);
    prn_shelf_leave(s);
}
