/* What measuring a layer and measuring the whole have in common. Used by measure.c and
 * whole.c only. */
#ifndef PRN_PIPELINE_LAYERS_BENCH_H
#define PRN_PIPELINE_LAYERS_BENCH_H

#include "exec/scratch.h"
#include "measure/backends.h"
#include "pipeline/layers/measure.h"

struct prn_layer_bench {
    const struct prn_layer_job *job;
    struct prn_arena arena;
    struct prn_scratch scratch;
    struct prn_spec *backend;
    struct prn_spec *memory_backend; /* the same on the CPU */
    double canary_best_ns;           /* so far; NAN: not known */
    struct prn_layer_measurement *measurement;
};

/* A layer, or the whole, as a file. */
struct prn_bench_model {
    char path[PATH_MAX], data_path[PATH_MAX]; /* data_path: "" when there is none */
    struct prn_model_file file;
    int64_t bytes;
};

/* Writes layer `index` of the cuts, or the whole. */
PRONY_MUST_CHECK int prn_bench_write(struct prn_layer_bench *b, size_t index,
                                     struct prn_bench_model *ret_model, struct prony_error *err);
/* Writes a model of one node that does nothing. */
PRONY_MUST_CHECK int prn_bench_write_least(struct prn_layer_bench *b,
                                           struct prn_bench_model *ret_model,
                                           struct prony_error *err);
void prn_bench_remove(const struct prn_bench_model *model);

/* What one run of a model gave. */
struct prn_bench_run {
    int64_t growth_bytes; /* of the process, when it loaded the model; -1: not known */
    int64_t load_ns, run_ns;
    struct prn_place *outputs;
    size_t n_outputs;
    int fd; /* of the outputs; -1: none */
};

/* Loads a model in a fresh process and, with `inputs`, runs it once. */
PRONY_MUST_CHECK int prn_bench_run(struct prn_layer_bench *b, const struct prn_spec *backend,
                                   const struct prn_model_file *model,
                                   const struct prn_inputs *inputs, struct prn_bench_run *ret_run,
                                   struct prony_error *err);
void prn_bench_run_release(struct prn_bench_run *run);

/* Copies the outputs of these names: for a layer to be fed with, or to be kept when the others
 * aren't needed. Fails when one isn't there. */
PRONY_MUST_CHECK int prn_bench_copy(struct prn_layer_bench *b, const struct prn_bench_run *run,
                                    const struct prn_cut_tensor *const *tensors, size_t n,
                                    struct prn_inputs *ret_copies, struct prony_error *err);
PRONY_MUST_CHECK int prn_bench_find(const struct prn_bench_run *run, const char *name,
                                    const struct prn_place **ret_place, struct prony_error *err);

/* A profile to measure n models with. */
PRONY_MUST_CHECK int prn_bench_profile(struct prn_layer_bench *b, const char *const *labels,
                                       size_t n, int64_t model_bytes,
                                       struct prn_profile **ret_profile, struct prony_error *err);

/* Measures them: one of `models` and `inputs` for each. */
PRONY_MUST_CHECK int prn_bench_measure(struct prn_layer_bench *b, struct prn_profile *profile,
                                       const struct prn_model_file *models,
                                       const struct prn_inputs *inputs, struct prony_error *err);

/* The figures of a result. The time is a mean, since times are added up: medians of layers don't
 * add up to the median of the whole, in which every disturbance has its share. Fails when the
 * result has failed, or has nothing. */
PRONY_MUST_CHECK int prn_bench_time(const struct prn_layer_bench *b,
                                    const struct prn_result *result, struct prn_whole_time *ret,
                                    struct prony_error *err);

/* ---- The whole ---- */

struct prn_whole;

/* Writes it, and finds out what it computes and how well that is repeated. `inputs` must outlive
 * it. */
PRONY_MUST_CHECK int prn_whole_new(struct prn_layer_bench *b, const struct prn_inputs *inputs,
                                   size_t n_layers, struct prn_whole **ret_whole,
                                   struct prony_error *err);
void prn_whole_free(struct prn_whole *whole);

/* Compares the outputs of a layer that are the model's. */
PRONY_MUST_CHECK int prn_whole_compare(struct prn_whole *whole, const struct prn_layer *layer,
                                       const struct prn_bench_run *run, struct prony_error *err);

/* Measures its share after `done` of the layers to measure. */
PRONY_MUST_CHECK int prn_whole_measure(struct prn_whole *whole, size_t done,
                                       struct prony_error *err);

/* Puts what was found out into the measurement. */
PRONY_MUST_CHECK int prn_whole_finish(struct prn_whole *whole, struct prony_error *err);

#endif
