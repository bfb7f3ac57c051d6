/* The results of one executor: where its outputs lie while somebody sends them, and results that
 * aren't in use, to be used again. For instance.c alone. */
#ifndef PRN_INSTANCE_SHELF_H
#define PRN_INSTANCE_SHELF_H

#include "instance/instance.h"

#include "base/lock.h"

struct prn_shelf_result {
    struct prn_instance_result public;
    struct prn_shelf *shelf;
    struct prn_shelf_result *next; /* of the spare ones */
    bool holds_outputs;
    size_t times_capacity;
    struct prn_arena arena;
};

PRN_LOCK(prn_shelf);

/* Where the outputs of one executor lie, and the results that aren't in use. It lives as long as
 * the instance uses it or somebody holds a result of it. */
struct prn_shelf {
    pthread_mutex_t lock;
    pthread_cond_t released;
    size_t users PRN_GUARDED(prn_shelf);
    bool held PRN_GUARDED(prn_shelf); /* outputs in the map are being sent */
    const unsigned char *map;
    size_t map_bytes;
    struct prn_shelf_result *spare PRN_GUARDED(prn_shelf);
    size_t n_spare PRN_GUARDED(prn_shelf);
};

PRN_LOCK_FUNCTIONS(prn_shelf, struct prn_shelf, lock)

struct prn_shelf *prn_shelf_new(void);
void prn_shelf_leave(struct prn_shelf *shelf); /* NULL does nothing */
void prn_shelf_unmap(struct prn_shelf *shelf);

/* An empty result, given back with prn_instance_result_release(); NULL: out of memory. */
struct prn_shelf_result *prn_shelf_take(struct prn_shelf *shelf);

#endif
