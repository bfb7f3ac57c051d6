#include "record/region.h"

#include "base/clock.h"
#include "exec/executor.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct prn_region {
    struct prn_region *next;
    uint64_t thread;
    uint64_t number; /* 0: it isn't open */
    struct prn_call *call;
    unsigned paused;            /* how often */
    int64_t since_ns;           /* when the clock was started */
    int64_t local_ns;           /* of the present piece of local code, up to then */
    struct prony_error spoiled; /* code 0: it isn't */
};

/* The system's own numbers are used again, and a region that a thread left open must not become
 * another thread's. */
uint64_t prn_region_thread(void)
{
    static atomic_uint_fast64_t last;
    static _Thread_local uint64_t number;
    if (number == 0)
        number = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    return number;
}

static void free_list(struct prn_region *region)
{
    while (region) {
        struct prn_region *next = region->next;
        free(region);
        region = next;
    }
}

void prn_regions_release(struct prn_regions *regions)
{
    for (struct prn_region *region = regions->open; region; region = region->next)
        prn_recorder_cancel(&regions->recorder, region->call);
    free_list(regions->open);
    free_list(regions->idle);
    prn_recorder_release(&regions->recorder);
    pthread_mutex_destroy(&regions->lock);
}

int prn_regions_restart(struct prn_regions *regions, int64_t repeats, struct prony_error *err)
{
    int code = 0;
    pthread_mutex_lock(&regions->lock);
    if (regions->open) {
        code = prn_fail(err, PRONY_EUSAGE, "region '%s' is open, so recording cannot start over",
                        prn_call_function(regions->open->call));
    } else {
        const size_t n_backends = regions->recorder.n_backends;
        prn_recorder_release(&regions->recorder);
        regions->recorder = PRN_RECORDER_INIT(n_backends, repeats);
    }
    pthread_mutex_unlock(&regions->lock);
    return code;
}

/* Where the list of open regions points to this thread's one, or to NULL at its end. */
static struct prn_region **find_open(struct prn_regions *regions)
{
    const uint64_t thread = prn_region_thread();
    struct prn_region **at = &regions->open;
    while (*at && (*at)->thread != thread)
        at = &(*at)->next;
    return at;
}

/* Takes this thread's region out of the list; NULL when there is none. */
static struct prn_region *close_own(struct prn_regions *regions)
{
    struct prn_region **at = find_open(regions);
    struct prn_region *region = *at;
    if (region) {
        *at = region->next;
        region->next = regions->idle;
        regions->idle = region;
        region->number = 0;
    }
    return region;
}

static int open_own(struct prn_regions *regions, const char *name, struct prn_region **ret_region,
                    struct prony_error *err)
{
    struct prn_region *region = *find_open(regions);
    if (region)
        return prn_fail(err, PRONY_EUSAGE,
                        "region '%s' begins while '%s' is open in the same thread; regions don't "
                        "nest",
                        name, prn_call_function(region->call));
    region = regions->idle ? regions->idle : calloc(1, sizeof *region);
    if (!region)
        return prn_fail_memory(err);
    struct prn_region *rest = regions->idle ? region->next : NULL;
    int code = prn_recorder_begin(&regions->recorder, name, &region->call, err);
    if (code < 0) {
        region->next = rest;
        regions->idle = region;
        return code;
    }
    regions->idle = rest;
    region->next = regions->open;
    regions->open = region;
    region->thread = prn_region_thread();
    region->number = ++regions->last;
    region->paused = 0;
    region->local_ns = 0;
    region->spoiled.code = 0;
    *ret_region = region;
    return 0;
}

int prn_region_begin(struct prn_regions *regions, const char *name, struct prony_error *err)
{
    struct prn_region *region = NULL;
    pthread_mutex_lock(&regions->lock);
    int code = open_own(regions, name, &region, err);
    pthread_mutex_unlock(&regions->lock);
    if (code == 0)
        region->since_ns = prn_clock_ns();
    return code;
}

static int end_own(struct prn_regions *regions, int64_t now_ns, struct prony_error *err)
{
    struct prn_region *region = close_own(regions);
    if (!region)
        return prn_fail(err, PRONY_EUSAGE, "no region is open in this thread");
    if (region->paused && region->spoiled.code == 0)
        prn_fail(&region->spoiled, PRONY_EUSAGE, "a run of a graph isn't finished");
    if (region->spoiled.code == 0)
        return prn_recorder_end(&regions->recorder, region->call,
                                region->local_ns + now_ns - region->since_ns, err);
    int code = prn_fail(err, region->spoiled.code, "%s", region->spoiled.text);
    code = prn_fail_in(err, code, "region '%s' is not recorded", prn_call_function(region->call));
    prn_recorder_cancel(&regions->recorder, region->call);
    return code;
}

int prn_region_end(struct prn_regions *regions, struct prony_error *err)
{
    int64_t now_ns = prn_clock_ns();
    pthread_mutex_lock(&regions->lock);
    int code = end_own(regions, now_ns, err);
    pthread_mutex_unlock(&regions->lock);
    return code;
}

void prn_region_cancel(struct prn_regions *regions)
{
    pthread_mutex_lock(&regions->lock);
    struct prn_region *region = close_own(regions);
    if (region)
        prn_recorder_cancel(&regions->recorder, region->call);
    pthread_mutex_unlock(&regions->lock);
}

struct prn_region *prn_region_pause(struct prn_regions *regions)
{
    int64_t now_ns = prn_clock_ns();
    pthread_mutex_lock(&regions->lock);
    struct prn_region *region = *find_open(regions);
    pthread_mutex_unlock(&regions->lock);
    if (region && region->paused++ == 0)
        region->local_ns += now_ns - region->since_ns;
    return region;
}

void prn_region_resume(struct prn_region *region)
{
    if (region && --region->paused == 0)
        region->since_ns = prn_clock_ns();
}

uint64_t prn_region_number(const struct prn_region *region)
{
    return region ? region->number : 0;
}

struct prn_region *prn_region_if(struct prn_region *region, uint64_t number)
{
    return region && region->number == number ? region : NULL;
}

void prn_region_compiled(struct prn_region *region)
{
    if (region)
        prn_call_compiled(region->call);
}

void prn_region_spoil(struct prn_region *region, const struct prony_error *reason)
{
    if (region && region->spoiled.code == 0)
        region->spoiled = *reason;
}

int prn_region_check(struct prn_region *region, struct prony_error *err)
{
    struct prony_error reason = {0};
    int code = region ? prn_call_check(region->call, &reason) : 0;
    if (code < 0) {
        prn_region_spoil(region, &reason);
        prn_fail(err, code, "%s", reason.text);
    }
    return code;
}

int prn_region_graph(struct prn_region *region, int64_t graph, int64_t own_ns,
                     const struct prn_graph_outcome *outcomes, struct prony_error *err)
{
    if (!region)
        return 0;
    struct prony_error reason = {0};
    int code = prn_call_graph(region->call, region->local_ns, graph, own_ns, outcomes, &reason);
    region->local_ns = 0;
    if (code < 0) {
        prn_region_spoil(region, &reason);
        prn_fail(err, code, "%s", reason.text);
    }
    return code;
}

int prn_regions_fill(struct prn_regions *regions, struct prn_profile *profile,
                     struct prony_error *err)
{
    pthread_mutex_lock(&regions->lock);
    int code = prn_recorder_fill(&regions->recorder, profile, err);
    pthread_mutex_unlock(&regions->lock);
    return code;
}
