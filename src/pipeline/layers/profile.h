/*
 * Results of profiling a model layer by layer: `profiler_results.yml`.
 *
 * Layers are numbered from 1. Entries are kept sorted by layer, each layer at most once; a profile
 * may hold only some of the layers, and is complete when it has as many as its head says. What a
 * file holds besides is kept and written again; comments aren't.
 *
 * To extend a file, or begin one:
 *
 *     struct prn_layer_profile *profile;
 *     int code = prn_layer_profile_open(path, &head, &profile, err);
 *     while (code == 0 && …) {
 *         code = prn_layer_profile_add(profile, &entry, err);
 *         if (code == 0)
 *             code = prn_layer_profile_write(profile, &out, err);
 *         …                                            (prn_output() replaces the file atomically)
 *     }
 *     prn_layer_profile_free(profile);
 */
#ifndef PRN_PIPELINE_LAYERS_PROFILE_H
#define PRN_PIPELINE_LAYERS_PROFILE_H

#include "base/buffer.h"

/* Of a text that prn_layer_profile_write() appends to, at most. */
#define PRN_LAYER_PROFILE_TEXT_MAX ((size_t)64 << 20)

/* Of an entry, at most. */
#define PRN_LAYER_TENSORS_MAX 1024
#define PRN_LAYER_RANK_MAX 64

struct prn_layer_shape {
    const int64_t *dims; /* without the batch */
    size_t rank;
};

struct prn_layer_entry {
    int64_t layer;
    double memory_mb;       /* 10⁶ bytes */
    double memory_fixed_mb; /* of these, what the runtime takes whatever it loads; NAN: not known */
    double time_s;          /* of one batch */
    double time_ci_s;       /* half of the 95 % interval of time_s; NAN when not known */
    const struct prn_layer_shape *in, *out; /* one per tensor */
    size_t n_in, n_out;
};

struct prn_layer_head {
    const char *model_name;
    const char *dtype; /* as PyTorch calls it: "torch.float32" */
    int64_t batch_size;
    int64_t layers;
};

struct prn_layer_profile;

/* Reads a file. */
PRONY_MUST_CHECK int prn_layer_profile_read(const char *path,
                                            struct prn_layer_profile **ret_profile,
                                            struct prony_error *err);

/* Reads a file to be extended: its head must be `head`. A file that doesn't exist is an empty
 * profile. */
PRONY_MUST_CHECK int prn_layer_profile_open(const char *path, const struct prn_layer_head *head,
                                            struct prn_layer_profile **ret_profile,
                                            struct prony_error *err);

/* What its layers are measured with, as one line. Fails when the layers that it has were measured
 * with something else: times of two backends don't belong into one file. */
PRONY_MUST_CHECK int prn_layer_profile_measure_with(struct prn_layer_profile *profile,
                                                    const char *text, struct prony_error *err);

/* An empty profile, of no file; `name` is for errors. */
PRONY_MUST_CHECK int prn_layer_profile_new(const char *name, const struct prn_layer_head *head,
                                           struct prn_layer_profile **ret_profile,
                                           struct prony_error *err);
void prn_layer_profile_free(struct prn_layer_profile *profile);

const struct prn_layer_head *prn_layer_profile_head(const struct prn_layer_profile *profile);
const char *prn_layer_profile_path(const struct prn_layer_profile *profile);
size_t prn_layer_profile_count(const struct prn_layer_profile *profile);

/* Entry `index`, in the order of layers. */
const struct prn_layer_entry *prn_layer_profile_entry(const struct prn_layer_profile *profile,
                                                      size_t index);

/* The entry of a layer; NULL when it isn't there. */
const struct prn_layer_entry *prn_layer_profile_find(const struct prn_layer_profile *profile,
                                                     int64_t layer);

/* Copies the entry into the profile. A layer that is there already is an error. */
PRONY_MUST_CHECK int prn_layer_profile_add(struct prn_layer_profile *profile,
                                           const struct prn_layer_entry *entry,
                                           struct prony_error *err);

/* Fails unless every layer is there, and there is at least one. */
PRONY_MUST_CHECK int prn_layer_profile_complete(const struct prn_layer_profile *profile,
                                                struct prony_error *err);

/* Elements of all these tensors, without the batch. */
PRONY_MUST_CHECK int prn_layer_shapes_count(const struct prn_layer_shape *shapes, size_t n,
                                            double *ret_elements);

/* Appends the file. */
PRONY_MUST_CHECK int prn_layer_profile_write(const struct prn_layer_profile *profile,
                                             struct prn_buffer *out, struct prony_error *err);

#endif
