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
 *   bytes per second; 0 when there is nothing to send, INFINITY without bandwidth;
 * - memory of a stage: Σ mem_MB × 2²⁰ of its layers, and bytes_in × buffers_in unless it is the
 *   first, bytes_out × buffers_out, bytes_in and bytes_out. It fits when the device has more.
 */
#ifndef PRN_PIPELINE_PIPELINE_H
#define PRN_PIPELINE_PIPELINE_H

#include "base/arena.h"
#include "base/error.h"

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
    double bytes_in;         /* of one batch, into layer 1 */
    const double *bytes_out; /* of one batch, out of each layer */
    int64_t batch_size;
    int64_t buffers_in, buffers_out;
    struct prn_pipeline_type *types;
    size_t n_types;
};

double prn_pipeline_stage_time(const struct prn_pipeline *p, size_t type, size_t first,
                               size_t last);

/* Half of the 95 % interval of that time; NAN when not known. */
double prn_pipeline_stage_ci(const struct prn_pipeline *p, size_t type, size_t first, size_t last);

/* Bytes: of a layer's weights, of what goes in and out of a stage, and of both for a whole stage.
 */
double prn_pipeline_layer_memory(const struct prn_pipeline *p, size_t layer);
double prn_pipeline_buffer_memory(const struct prn_pipeline *p, size_t first, size_t last);
double prn_pipeline_stage_memory(const struct prn_pipeline *p, size_t first, size_t last);

/* Bytes that a device of the type has. */
double prn_pipeline_type_memory(const struct prn_pipeline *p, size_t type);

double prn_pipeline_link_time(const struct prn_pipeline *p, size_t layer, size_t u, size_t v);

#endif
