/*
 * What a scheduler knows of device types: `device_types.yml`, a map of type names to memory,
 * bandwidth, price, and times per layer of models.
 */
#ifndef PRN_PIPELINE_DEVICE_TYPES_H
#define PRN_PIPELINE_DEVICE_TYPES_H

#include "base/arena.h"
#include "pipeline/layers/profile.h"

struct prn_device_type {
    const char *name;
    double mem_mb;           /* 2²⁰ bytes, unlike the memory of a layer profile */
    double bw_mbps;          /* 2²⁰ bits per second */
    double usd_per_hour;     /* NAN when not known */
    const double *time_s;    /* per layer; NULL: no profile for the model, dtype and batch size */
    const double *time_ci_s; /* half of the 95 % interval of each, NAN where not known; or NULL */
    bool has_model;          /* there is a profile of the model, with another dtype or batch size */
};

/* Which profiles to read, and how many layers they must have. */
struct prn_device_query {
    const char *model_name, *dtype;
    int64_t batch_size;
    size_t layers;
};

/* Reads all types, in alphabetical order; the array and what it points to live in `arena`. */
PRONY_MUST_CHECK int prn_device_types_read(const char *path, const struct prn_device_query *query,
                                           struct prn_arena *arena,
                                           struct prn_device_type **ret_types, size_t *ret_n,
                                           struct prony_error *err);

/* A type to be made or extended; -1 and NAN: not given. */
struct prn_device_properties {
    const char *name;
    int64_t mem_mb, bw_mbps;
    double usd_per_hour;
};

/* Appends the file at `path` (empty if there is none) with the times of `profile` under a type. A
 * new type needs memory and bandwidth, and what is given of one that is there must be the same. A
 * profile of the same model, dtype and batch size is an error unless `overwrite`, and so is another
 * price; everything else is kept. */
PRONY_MUST_CHECK int prn_device_types_extend(const char *path,
                                             const struct prn_device_properties *properties,
                                             const struct prn_layer_profile *profile,
                                             bool overwrite, struct prn_buffer *out,
                                             struct prony_error *err);

#endif
