/*
 * The inputs of a measurement: made once, from a seed or from files, into one file of shared memory
 * that every executor reads, so that all backends see the same bytes.
 */
#ifndef PRN_MEASURE_INPUTS_H
#define PRN_MEASURE_INPUTS_H

#include "exec/executor.h"
#include "model/tensor/tensor.h"

/* --input NAME=… */
struct prn_input_source {
    const char *name;
    enum prn_fill fill;
    double number;    /* PRN_FILL_NUMBER */
    const char *file; /* NULL: by `fill` */
};

/* Parses "NAME=ones|zeros|random|NUMBER|@FILE"; PRONY_EUSAGE names the text. The strings belong to
 * `arena`. A name may hold '=': the last one that leaves a valid value counts. */
PRONY_MUST_CHECK int prn_input_source_parse(const char *text, struct prn_arena *arena,
                                            struct prn_input_source *ret_source,
                                            struct prony_error *err);

/* The source that a description in `prn_inputs.sources` tells of, so that an input can be made
 * again as it was; false when it was made by default. The strings are borrowed. */
bool prn_input_source_recall(const char *name, const char *description,
                             struct prn_input_source *ret_source);

struct prn_inputs {
    int fd; /* shared memory; -1: none */
    size_t n;
    struct prn_place *places;
    const char **sources; /* how each was made, for the report */
};

/* Makes all inputs. Dimensions that were left open take a file's, and `inputs` is changed
 * accordingly. `folder`, if given, holds input_0.pb, input_1.pb, … (ONNX test
 * data) for the inputs that no source names. */
PRONY_MUST_CHECK int prn_inputs_make(struct prn_input *inputs, size_t n,
                                     const struct prn_input_source *sources, size_t n_sources,
                                     const char *folder, uint64_t seed, struct prn_arena *arena,
                                     struct prn_inputs *ret_inputs, struct prony_error *err);

/* A tensor in a file of shared memory. */
struct prn_input_copy {
    int fd;
    const struct prn_place *place;
};

/* Makes inputs of tensors that are there already. Names belong to `arena`. */
PRONY_MUST_CHECK int prn_inputs_copy(const struct prn_input_copy *tensors, size_t n,
                                     const char *source, struct prn_arena *arena,
                                     struct prn_inputs *ret_inputs, struct prony_error *err);
void prn_inputs_release(struct prn_inputs *inputs);

#endif
