/*
 * Measures a model layer by layer: each layer as a model of its own, fed with what the layer before
 * gave, by the engine that measures whole models (measure/measure.h).
 *
 * - Layers are measured one after the other, each to the end, and saved. Who interrupts loses the
 *   layer that is being measured.
 * - Memory is what a process grows by when it loads the layer: one process per layer, always on the
 *   CPU.
 * - When all layers are asked for, the whole model is measured too, twice: so that nothing is fused
 *   across the cuts (struct prn_cuts has such a whole), which is what the layers' times should add
 *   up to, and as it is. Its launches are spread over the run, so that a machine that gets slower
 *   gets slower for both. What the layers compute is compared with what the whole does.
 * - A job can be measured elsewhere (struct prn_layer_place); what it is measured into, and how
 * that is saved and reported, stays the same.
 */
#ifndef PRN_PIPELINE_LAYERS_MEASURE_H
#define PRN_PIPELINE_LAYERS_MEASURE_H

#include "measure/measure.h"
#include "model/cut/cut.h"
#include "pipeline/layers/profile.h"

struct prn_layer_job;
struct prn_layer_row;
struct prn_layer_measurement;

/* Where layers are measured instead of on this machine. */
struct prn_layer_place {
    /* Measures the layers that were asked for and that the profile doesn't have, keeps each with
     * prn_layer_keep(), and fills in what the measurement says besides its rows and their sum. */
    int (*measure)(void *context, const struct prn_layer_job *job,
                   struct prn_layer_profile *profile, struct prn_layer_measurement *measurement,
                   struct prony_error *err);
    void *context;
};

struct prn_layer_job {
    const struct prn_model *model;
    const char *shown; /* what reports call it; NULL: its path */
    struct prn_cuts *cuts;
    struct prn_input *inputs;               /* of the model, with all sizes */
    const struct prn_input_source *sources; /* how they are made, where it isn't the default */
    size_t n_sources;
    int64_t batch;
    const char *backend;  /* a spec */
    const char *hardware; /* what this machine is called in specs; NULL: "local" */
    const char *folder;   /* in which layers are written; NULL: TMPDIR, or /tmp */
    size_t first, last;   /* layers to measure, from 1 */
    /* Shapes, without batch, of random inputs of the first one; none: the layers before are run. */
    const struct prn_layer_shape *shapes;
    size_t n_shapes;
    bool resume;         /* layers that the profile has are left as they are */
    const char *options; /* that make a difference to times, as the user gave them; NULL: none */
    struct prn_settings settings;
    double timeout_s;
    const volatile int *cancelled;
    void (*progress)(void *context, const struct prn_progress *progress); /* may be NULL */
    /* Told after each layer, which is the row's. */
    int (*save)(void *context, const struct prn_layer_profile *profile,
                const struct prn_layer_row *row, struct prony_error *err);
    void *context;
    const struct prn_layer_place *place; /* NULL: here */
};

struct prn_layer_row {
    int64_t layer;
    bool measured; /* in this run; otherwise its figures are older */
    int64_t samples, launches;
    unsigned flags; /* enum prn_flag */
};

enum prn_whole_kind {
    PRN_WHOLE_CUT,   /* nothing fused across the cuts */
    PRN_WHOLE_FUSED, /* as it is */
    PRN_WHOLE_KINDS,
};

struct prn_whole_time {
    double time_s, time_ci_s; /* half of the 95 % interval; NAN: not known */
    int64_t samples, launches;
    unsigned flags;
};

/* What the file of results doesn't hold. */
struct prn_layer_measurement {
    struct prn_arena arena;
    const char *model_path;
    const char *backend, *runtime, *cpu;
    size_t n_rows;
    struct prn_layer_row *rows; /* the layers that were asked for */
    double sum_s, sum_ci_s;     /* of their times */
    bool has_whole;             /* the rest is known */
    struct prn_whole_time whole[PRN_WHOLE_KINDS];
    struct prn_interval fused; /* time of the whole as it is over that without fusing, paired */
    /* Largest error of an output, relative to its largest value: of the layers, and of the whole
     * against itself in another process. */
    double difference, repeatability;
    bool mismatch;
};

/* The head of the results: what `batch` is, how many layers there are, the type of most numbers
 * that pass between them. Fails when PyTorch has no such type or there are too many layers. */
PRONY_MUST_CHECK int prn_layer_job_head(const struct prn_layer_job *job, const char *model_name,
                                        struct prn_layer_head *ret_head, struct prony_error *err);

/* Notes in the profile what its layers are measured with, or fails when they were measured with
 * something else. `version` is the runtime's; NULL: not known. */
PRONY_MUST_CHECK int prn_layer_job_begin(const struct prn_layer_job *job, const char *backend,
                                         const char *version, struct prn_layer_profile *profile,
                                         struct prony_error *err);

/* Puts a layer that was measured into the profile and its row, and has it saved. Fails when it
 * isn't one of those to be measured. */
PRONY_MUST_CHECK int
prn_layer_keep(const struct prn_layer_job *job, const struct prn_layer_entry *entry,
               const struct prn_layer_row *row, struct prn_layer_profile *profile,
               struct prn_layer_measurement *measurement, struct prony_error *err);

/* Adds the layers to `profile`. PRONY_ECANCELED after an interruption; the profile has what was
 * measured until then, also after other failures. */
PRONY_MUST_CHECK int prn_layers_measure(const struct prn_layer_job *job,
                                        struct prn_layer_profile *profile,
                                        struct prn_layer_measurement **ret_measurement,
                                        struct prony_error *err);
void prn_layer_measurement_free(struct prn_layer_measurement *measurement);

#endif
