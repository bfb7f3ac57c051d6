/*
 * Standard architectures as ONNX models with random weights, so that anybody can measure without
 * downloads. The same network, options and seed give the same bytes on every machine. Weights are
 * scaled so that activations neither explode nor vanish.
 */
#ifndef PRN_MODEL_SYNTH_H
#define PRN_MODEL_SYNTH_H

#include "base/error.h"

#include <stdbool.h>

#define PRN_SYNTH_DYNAMIC (-1)

/* 0 stands for the network's own default; batch and seq may also be PRN_SYNTH_DYNAMIC. */
struct prn_synth_options {
    int64_t batch;
    int64_t seq;
    int64_t hidden, layers; /* mlp */
    uint64_t seed;
    bool large; /* the file may be over 2 GiB, which few programs but prony read */
};

/* Of a transformer. */
struct prn_synth_shape {
    int blocks;
    int64_t heads, head_width;
    int64_t patch;   /* of images */
    int64_t classes; /* 0: none */
    bool distilled;  /* with a second token and a second head */
    bool plain;      /* of text: nothing is fed but ids, and blocks can be cut at /cut/... */
};

struct prn_synth; /* parts.h */

struct prn_synth_network {
    const char *name;
    const char *summary;
    int64_t default_seq, max_seq; /* 0: takes no sequence */
    bool sized;                   /* takes hidden and layers */
    struct prn_synth_shape shape;
    const char *cuts; /* patterns of the tensors at which it is usually cut; NULL: none */
    void (*build)(struct prn_synth *s);
};

/* All networks, ending in one without name, and the one of a name or NULL. */
extern const struct prn_synth_network prn_synth_networks[];
const struct prn_synth_network *prn_synth_find(const char *name);

/* What a network is, without writing it. */
struct prn_synth_facts {
    uint64_t parameters; /* trainable: running means and variances of BatchNormalization excluded */
    uint64_t file_bytes;
    char inputs[128]; /* "input_ids: int64 1x128, …" */
};
PRONY_MUST_CHECK int prn_synth_describe(const struct prn_synth_network *network,
                                        const struct prn_synth_options *options,
                                        struct prn_synth_facts *ret_facts, struct prony_error *err);

/* PRONY_EUSAGE when the options don't suit the network. */
PRONY_MUST_CHECK int prn_synth_check(const struct prn_synth_network *network,
                                     const struct prn_synth_options *options,
                                     struct prony_error *err);

/* Writes the model to `fd`; `name` is for errors. Memory stays small whatever the model's size. */
PRONY_MUST_CHECK int prn_synth_write(const struct prn_synth_network *network,
                                     const struct prn_synth_options *options, int fd,
                                     const char *name, struct prony_error *err);

#endif
