/* Why there is no schedule: asks the same questions again, without the limits one after another. */
#include "pipeline/schedule/schedule.h"

#include "base/format.h"
#include "pipeline/schedule/space.h"

#include <math.h>
#include <stdio.h>

static size_t count_hosts(const struct prn_pipeline *p)
{
    size_t hosts = 0;
    for (size_t t = 0; t < p->n_types; t++)
        hosts += p->types[t].n_hosts;
    return hosts;
}

/* The first layer that isn't in any stage that fits on any type; 0: none. */
static size_t first_without_place(const struct prn_space *s)
{
    size_t end = 0; /* layers up to here are in stages that begin with this one or before */
    for (size_t done = 0; done < s->n_layers; done++) {
        for (size_t v = 0; v < s->n_types; v++)
            for (size_t j = done; j < s->n_layers; j++)
                if (prn_space_stage(s, v, done)[j] < INFINITY && j + 1 > end)
                    end = j + 1;
        if (end <= done)
            return done + 1;
    }
    return 0;
}

static size_t largest_type(const struct prn_space *s)
{
    size_t largest = 0;
    for (size_t v = 1; v < s->n_types; v++)
        if (prn_pipeline_type_memory(s->pipeline, s->types[v]) >
            prn_pipeline_type_memory(s->pipeline, s->types[largest]))
            largest = v;
    return s->types[largest];
}

/* The fewest stages if there were as many hosts of every type as layers; 0: not even then. */
static int fewest_stages(const struct prn_space *s, size_t *ret_stages, struct prony_error *err)
{
    struct prn_moves moves;
    int code = prn_moves_init(&moves, s, INFINITY, err);
    if (code < 0)
        return code;
    size_t fewest = 0;
    for (size_t left = 0; left < s->depth && fewest == 0; left++)
        for (size_t v = 0; v < s->n_types; v++)
            for (size_t w = 0; w < moves.words; w++)
                if (prn_moves_next(&moves, v, 0)[w] & prn_moves_finish(&moves, left, v)[w])
                    fewest = left + 1;
    prn_moves_release(&moves);
    *ret_stages = fewest;
    return 0;
}

static void tell_of_memory(const struct prn_space *s, char *text, size_t size)
{
    const struct prn_pipeline *p = s->pipeline;
    char need[PRN_FORMAT_SIZE], have[PRN_FORMAT_SIZE];
    size_t layer = first_without_place(s);
    size_t type = largest_type(s);
    size_t last = layer;
    while (layer > 0 && p->ends && !p->ends[last - 1])
        last++;
    if (last > layer)
        snprintf(text, size,
                 "layers %zu to %zu fit on no device type: they take %s with their buffers, and "
                 "'%s', the largest, has %s",
                 layer, last, prn_format_bytes(need, prn_pipeline_stage_memory(p, layer, last)),
                 p->types[type].name, prn_format_bytes(have, prn_pipeline_type_memory(p, type)));
    else if (layer > 0)
        snprintf(text, size,
                 "layer %zu fits on no device type: alone it takes %s with its buffers, and '%s', "
                 "the largest, has %s",
                 layer, prn_format_bytes(need, prn_pipeline_stage_memory(p, layer, layer)),
                 p->types[type].name, prn_format_bytes(have, prn_pipeline_type_memory(p, type)));
    else
        snprintf(text, size,
                 "every layer fits on some device type, but not in stages that follow one another: "
                 "their buffers take too much memory, or a link has no bandwidth (bw_Mbps)");
}

static int tell_of_hosts(const struct prn_pipeline *p, size_t max_stages, char *text, size_t size,
                         struct prony_error *err)
{
    struct prn_space space;
    size_t fewest;
    size_t hosts = count_hosts(p);
    int code = prn_space_init_unlimited(&space, p, err);
    if (code < 0)
        return code;
    code = fewest_stages(&space, &fewest, err);
    if (code == 0 && fewest == 0)
        tell_of_memory(&space, text, size);
    else if (code == 0 && max_stages > 0 && fewest > max_stages)
        snprintf(text, size, "at least %zu stages are needed, and --max-stages allows %zu", fewest,
                 max_stages);
    else if (code == 0 && fewest > hosts)
        snprintf(text, size, "at least %zu hosts are needed, and there %s %zu", fewest,
                 hosts == 1 ? "is" : "are", hosts);
    else if (code == 0)
        snprintf(text, size,
                 "%zu hosts would be enough if there were more of the types that have the memory "
                 "or bandwidth",
                 fewest);
    prn_space_release(&space);
    return code;
}

/* A figure of so many digits that is no better than the value, so that it can be asked for. */
static double round_to_worse(double value, int digits, bool up)
{
    if (!(value > 0) || isinf(value))
        return value;
    double unit = pow(10, floor(log10(value)) - digits + 1);
    return unit *
           (up ? ceil(value / prn_pipeline_up_to(unit)) : floor(prn_pipeline_up_to(value) / unit));
}

/* What the limits of a cost objective would have to be. */
static int tell_of_limits(const struct prn_pipeline *p, const struct prn_schedule_goal *goal,
                          char *text, size_t size, bool *ret_told, struct prony_error *err)
{
    struct prn_schedule_goal fastest = *goal;
    fastest.objective = PRN_OBJECTIVE_THROUGHPUT;
    struct prn_schedule_goal soonest = *goal;
    soonest.objective = PRN_OBJECTIVE_LATENCY;
    struct prn_schedule a = {0};
    struct prn_schedule b = {0};
    int code = prn_schedule_find(p, &fastest, &a, err);
    if (code == 0)
        code = prn_schedule_find(p, &soonest, &b, err);
    *ret_told = code == 0 && a.n > 0;
    if (*ret_told) {
        char rate[PRN_FORMAT_SIZE], latency[PRN_FORMAT_SIZE];
        double period = prn_schedule_period(p, &a);
        prn_format_significant(rate, round_to_worse((double)p->batch_size / period, 4, false), 4);
        prn_format_duration(latency, 1e9 * round_to_worse(prn_schedule_latency(p, &b), 3, true));
        snprintf(text, size,
                 "no hosts meet the limits: the highest possible throughput is %s per second, the "
                 "lowest latency %s%s",
                 rate, latency,
                 isfinite(goal->max_period_s) && isfinite(goal->max_latency_s)
                     ? ", each at the expense of the other"
                     : "");
    }
    prn_schedule_release(&a);
    prn_schedule_release(&b);
    return code;
}

int prn_schedule_shortage(const struct prn_pipeline *p, const struct prn_schedule_goal *goal,
                          char *text, size_t size, struct prony_error *err)
{
    bool told = false;
    int code = 0;
    if (count_hosts(p) == 0) {
        snprintf(text, size, "none of the hosts has a device type with a profile");
        return 0;
    }
    if (goal->objective == PRN_OBJECTIVE_COST)
        code = tell_of_limits(p, goal, text, size, &told, err);
    if (code < 0 || told)
        return code;
    return tell_of_hosts(p, goal->max_stages, text, size, err);
}
