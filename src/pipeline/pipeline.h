/*
 * A model in layers, the types of devices there are and their hosts: what a schedule is made for.
 * And the arithmetic that says what a schedule takes, the same for whoever searches, reports or
 * checks one.
 *
 * Layers are numbered from 1. Hosts of a type are interchangeable. Sums are taken layer by layer
 * from left to right in double precision, so that they never shrink when a stage gets longer:
 *
 * - stage time: Σ time_s of its layers;
 * - link time behind layer j between types u and v: bytes out of j, over min(bw_u, bw_v) × 2²⁰ / 8
 *   bytes per second, or the pair's own bandwidth; 0 when there is nothing to send, INFINITY
 * without bandwidth;
 * - memory of a stage: what its process takes for itself once, Σ of what its layers take beyond
 *   that (mem_MB × 2²⁰), and bytes_in × buffers_in unless it is the
 *   first, bytes_out × buffers_out, bytes_in and bytes_out. It fits when the device has more.
 *
 * Sums of decimal times aren't exact, so times and prices that differ by less than a relative
 * PRN_PIPELINE_TOLERANCE are equal, wherever they are compared.
 */
#ifndef PRN_PIPELINE_PIPELINE_H
#define PRN_PIPELINE_PIPELINE_H

#include "base/arena.h"
#include "base/error.h"

#include <stdbool.h>

#define PRN_PIPELINE_TOLERANCE 1e-12

struct prn_pipeline_type {
    const char *name;
    double mem_mb, bw_mbps;  /* × 2²⁰ bytes, and bits per second */
    double usd_per_hour;     /* NAN when not known */
    const double *time_s;    /* per layer */
    const double *time_ci_s; /* half of the 95 % interval of each; NULL when not known */
    const char *const *hosts;
    size_t n_hosts;
};

struct prn_pipeline {
    const char *model_name, *dtype;
    size_t n_layers;
    const double *layer_mem_mb;
    double fixed_mem_mb;     /* that is in each of these, and that a stage has once; 0: not known */
    double bytes_in;         /* of one batch, into layer 1 */
    const double *bytes_out; /* of one batch, out of each layer */
    int64_t batch_size;
    int64_t buffers_in, buffers_out;
    struct prn_pipeline_type *types;
    size_t n_types;
    const double *pair_mbps; /* [u][v]: from one type to another, instead of theirs; or NULL */
    double link_share;       /* of the bytes, that links carry; 0: all */
    const bool *ends;        /* per layer: a stage ends here, and nowhere else; or NULL */
};

double prn_pipeline_stage_time(const struct prn_pipeline *p, size_t type, size_t first,
                               size_t last);

/* Half of the 95 % interval of that time; NAN when not known. */
double prn_pipeline_stage_ci(const struct prn_pipeline *p, size_t type, size_t first, size_t last);

/* Bytes that a stage takes whatever its layers are. */
double prn_pipeline_fixed_memory(const struct prn_pipeline *p);

/* Bytes: of a layer beyond those, of what goes in and out of a stage, and of both for a whole
 * stage.
 */
double prn_pipeline_layer_memory(const struct prn_pipeline *p, size_t layer);
double prn_pipeline_buffer_memory(const struct prn_pipeline *p, size_t first, size_t last);
double prn_pipeline_stage_memory(const struct prn_pipeline *p, size_t first, size_t last);

/* Bytes that a device of the type has. */
double prn_pipeline_type_memory(const struct prn_pipeline *p, size_t type);

/* The most that is equal to a limit or less. */
static inline double prn_pipeline_up_to(double limit)
{
    return limit * (1 + PRN_PIPELINE_TOLERANCE);
}

static inline bool prn_pipeline_less(double a, double b)
{
    return prn_pipeline_up_to(a) < b;
}

/* What a link carries behind a layer, and how fast it is from one type to another. */
double prn_pipeline_link_bytes(const struct prn_pipeline *p, size_t layer);
double prn_pipeline_link_mbps(const struct prn_pipeline *p, size_t u, size_t v);
double prn_pipeline_link_time(const struct prn_pipeline *p, size_t layer, size_t u, size_t v);

#endif
