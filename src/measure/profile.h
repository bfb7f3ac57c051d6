/*
 * A profile: everything that one measurement found out. Written by src/measure, read by every
 * report, saved as JSON under the schema prony.profile/1 (src/report/profile/json.h,
 * docs/prony.profile.schema.json). Plain data; all memory belongs to its arena. Numbers that aren't
 * known are NAN, or -1 where they are integers.
 *
 * Structs of figures are made of lists (format/schema.h): a row there is the member, its place in
 * JSON and CSV, and the sentence that documents it.
 */
#ifndef PRN_MEASURE_PROFILE_H
#define PRN_MEASURE_PROFILE_H

#include "base/arena.h"
#include "base/stats.h"
#include "format/schema.h"
#include "model/model.h"

/* Most results of a profile. */
#define PRN_RESULTS_MAX 1000
/* Most models of a profile. */
#define PRN_MODELS_MAX 16

struct prn_sample {
    int64_t ns;
    int32_t launch; /* which process of this backend, from 0 */
    int32_t block;  /* which block, from 0, counted over the whole measurement in time order:
                       all backends share the numbering, so equal numbers are paired */
};

/* One process that ran a backend. */
#define PRN_LAUNCH_LIST(X)                                                                    \
    X(INTEGER, load_ns, "Opening the model.", .flags = PRN_NULL)                              \
    X(INTEGER, first_run_ns, "The first run, which also allocates and warms up.",             \
      .flags = PRN_NULL)                                                                      \
    X(INTEGER, baseline_bytes, "Resident before the model was loaded, the runtime included.", \
      .flags = PRN_NULL)                                                                      \
    X(INTEGER, peak_bytes, "Most that was resident.", .flags = PRN_NULL)                      \
    X(INT32, warmup_runs, "Runs before the timed ones.")                                      \
    X(BOOL, settled, "The warm-up windows agreed.")

struct prn_launch {
    PRN_LAUNCH_LIST(PRN_DECLARE)
};

/* An output against the reference's. */
#define PRN_OUTPUT_LIST(X)                                                                        \
    X(TEXT, name, "Its name in the model.")                                                       \
    X(BOOL, same_shape, "The same shape and type.")                                               \
    X(NUMBER, max_abs, "Largest absolute difference; null when it isn't finite.")                 \
    X(NUMBER, max_rel, "The same, relative to the largest value.")                                \
    X(NUMBER, cosine, "Cosine similarity.", .min = -2)                                            \
    X(INTEGER, both_nan,                                                                          \
      "Elements that are NaN on both sides, so whether they agree is unknown; absent when there " \
      "are none.",                                                                                \
      .min = 1, .flags = PRN_OMIT)

struct prn_output_check {
    PRN_OUTPUT_LIST(PRN_DECLARE)
    bool whole;   /* whole numbers, of which any difference counts; known while measuring only */
    double floor; /* an error up to this passes for rounding; known while measuring only */
};

#define PRN_FLAG_MAP(X)                                                    \
    X(UNSTABLE, 1, "times had not settled when warm-up ended")             \
    X(NOISY, 2, "other work disturbed this machine while it was measured") \
    X(IMPRECISE, 4, "the wanted precision was not reached")                \
    X(MISMATCH, 8, "outputs differ from the reference's")                  \
    X(INTERRUPTED, 16, "measuring was interrupted")                        \
    X(PARTIAL, 32, "not every graph ran there; local time counts for the others")

enum prn_flag {
#define PRN_X(name, bit, text) PRN_FLAG_##name = bit,
    PRN_FLAG_MAP(PRN_X)
#undef PRN_X
};

/* Percentiles are of all samples. NAN: too few samples. */
#define PRN_PERCENTILE_MAP(X) \
    X(p90, 0.90)              \
    X(p95, 0.95)              \
    X(p99, 0.99)              \
    X(p999, 0.999)

#define PRN_STATS_LIST(X)                                                             \
    X(NUMBER, median_ns, "Median.")                                                   \
    X(NUMBER, low_ns, "Lower end of the 95 % interval of the median, over launches.") \
    X(NUMBER, high_ns, "Upper end.")                                                  \
    X(NUMBER, mean_ns, "Mean.")                                                       \
    X(NUMBER, sd_ns, "Sample standard deviation.")                                    \
    X(NUMBER, min_ns, "Shortest.")                                                    \
    X(NUMBER, max_ns, "Longest.")                                                     \
    X(NUMBER, p90_ns, "90th percentile; null with fewer than 64 samples.")            \
    X(NUMBER, p95_ns, "95th percentile; null with fewer than 130 samples.")           \
    X(NUMBER, p99_ns, "99th percentile; null with fewer than 662 samples.")           \
    X(NUMBER, p999_ns, "99.9th percentile; null with fewer than 6,636 samples.")      \
    X(NUMBER, spread, "Interquartile range over the median.")                         \
    X(INTEGER, outliers, "Samples beyond 3 interquartile ranges from the quartiles; they are kept.")

struct prn_sample_stats {
    PRN_STATS_LIST(PRN_DECLARE)
};

enum prn_verdict {
    PRN_VERDICT_NONE,   /* nothing to compare */
    PRN_VERDICT_SAME,   /* interval inside the smallest difference that counts */
    PRN_VERDICT_FASTER, /* than the best: can't be, kept for other baselines */
    PRN_VERDICT_SLOWER, /* interval clears the smallest difference that counts */
    PRN_VERDICT_UNSURE, /* more launches or time would tell */
};

struct prn_ops;     /* measure/ops/ops.h */
struct prn_load;    /* measure/load/load.h */
struct prn_memory;  /* measure/memory/memory.h */
struct prn_machine; /* measure/machine/machine.h */

struct prn_result {
    /* the backend */
    const char *name; /* in reports: the one that the user gave, or the canonical spec */
    const char *spec; /* canonical, where the user gave a name; NULL: it is `name` */
    const char *hardware, *software;
    const char *processor; /* NULL when not known */
    double usd_per_hour;
    size_t point;                /* which of the profile's points it was fed */
    const char *runtime_version; /* "ONNX Runtime 1.31.1"; NULL when it never started */
    const char *runtime_library; /* file that was loaded */
    /* what was measured */
    size_t n_samples, n_launches, n_outputs;
    struct prn_sample *samples;
    struct prn_launch *launches;
    struct prn_output_check *outputs; /* against the reference of its point */
    int64_t redone_blocks;            /* repeated because the canary was slow */
    /* what follows from it */
    struct prn_sample_stats stats; /* valid when n_samples > 0 */
    struct prn_interval ratio;     /* of this time to the best one's, paired; NAN for none */
    enum prn_verdict verdict;
    /* of this time to the first model's on the same backend, paired; NAN: it is the first's */
    struct prn_interval model_ratio;
    enum prn_verdict model_verdict;
    unsigned flags;            /* enum prn_flag */
    struct prn_ops *ops;       /* where the time goes; NULL: not asked for */
    struct prn_memory *memory; /* where the memory goes; NULL: not asked for */
    struct prn_load *load;     /* how it behaves under load; NULL: not asked for */
    /* failure */
    int error_code; /* 0, or PRONY_E… */
    const char *error;
};

struct prn_profile_input {
    const char *name;
    int dtype;
    size_t rank;
    const int64_t *dims;
    const char *source; /* "random, seed 0", "ones", "@file.npy" */
};

/* What a sweep set at a point: the size of a dimension, or the shape of an input. */
struct prn_swept {
    const char *name;
    int64_t size; /* -1: it is the shape of the input of that name */
};

/* A node of a model's graph, whose order is the model's. */
struct prn_profile_node {
    const char *name, *op; /* the name may be "" */
    size_t n_inputs;
    int64_t *inputs;     /* the nodes that give its inputs, each once */
    int64_t value_bytes; /* of what it gives; -1: not known */
    int64_t weight_bytes;
};

/* Graphs with more nodes are left out of profiles. */
#define PRN_GRAPH_NODES_MAX 50000

/* A model that was measured. */
struct prn_profile_model {
    const char *name; /* in tables, where there are several: given, or what tells the files apart */
    const char *path;
    int64_t bytes, parameters;
    bool quantised;          /* it computes with 8 bits or fewer; known while measuring only */
    const char *fingerprint; /* prn_model_fingerprint(); NULL: not known */
    size_t n_graph;          /* 0: operators weren't asked about */
    struct prn_profile_node *graph;
};

/* What one result was fed: a model at the sizes of a sweep. Points come in cohorts, one for each
 * combination of sizes, with a point for each model in it; results of one cohort are compared. */
struct prn_point {
    const char *label; /* "batch=4, seq=128": what the sweep set; "" without one */
    size_t n_swept;    /* the same in parts; all points of a profile have the same names */
    struct prn_swept *swept;
    int64_t batch; /* items in one run (prn_model_batch()); 1 if no dimension is the batch, 0: none,
                      and then there are no figures per item */
    double flops;  /* of one run; NAN when nothing could be counted */
    bool flops_complete;
    size_t n_inputs;
    struct prn_profile_input *inputs;
    /* What this model gives, compared with what the first one gives at the same sizes: outputs of
     * the same name, and otherwise in their order. */
    size_t n_outputs;
    struct prn_output_check *outputs;
    int64_t outputs_differing; /* how many of them do by more than rounding */
};

#define PRN_ENVIRONMENT_LIST(X)                                            \
    X(TEXT, cpu, "Its processor.", .flags = PRN_NULL)                      \
    X(INTEGER, cores, "Processors that could be used.", .flags = PRN_NULL) \
    X(NUMBER, mhz, "Clock frequency at the start.")                        \
    X(INTEGER, memory_bytes, "Main memory.", .flags = PRN_NULL)            \
    X(TEXT, os, "Operating system.", .flags = PRN_NULL)                    \
    X(TEXT, kernel, "Its kernel.", .flags = PRN_NULL)                      \
    X(NUMBER, load_before, "One-minute load average before.")              \
    X(NUMBER, load_after, "And after.")                                    \
    X(TEXT, sandbox, "What the executor processes were confined by.", .flags = PRN_NULL)

struct prn_environment {
    PRN_ENVIRONMENT_LIST(PRN_DECLARE)
};

/* A machine other than the one that asked: what was measured there has its hardware. */
struct prn_profile_host {
    const char *hardware;
    struct prn_environment environment;
    double timer_ns, canary_best_ns;
};

#define PRN_SETTINGS_LIST(X)                                                                      \
    X(UINT64, seed, "Of inputs and order: 64 bits as a signed number.")                           \
    X(NUMBER, precision, "Wanted half-width of the interval of the median, as a fraction.")       \
    X(NUMBER, smallest_difference, "Smallest difference that counts, as a fraction.")             \
    X(INTEGER, launches, "Processes per backend; 0: decided while measuring.")                    \
    X(INTEGER, repeats, "Timed runs per launch; 0: decided while measuring.")                     \
    X(INTEGER, warmups, "Untimed runs per launch; -1: until times settle.", .min = -1)            \
    X(NUMBER, max_time_s, "Limit on the time per backend.")                                       \
    X(NUMBER, tolerance,                                                                          \
      "Error of an output, relative to the reference's largest value, that passes for "           \
      "rounding.")                                                                                \
    X(TEXT, reference, "The backend whose outputs were believed; null: the first that gave any.", \
      .flags = PRN_NULL)

struct prn_settings {
    PRN_SETTINGS_LIST(PRN_DECLARE)
};

/* ---- Recorded programs ---- */

/* Times of something that happened many times. All of them are in the sums; the samples are all of
 * them too, or an even selection when there were more than PRN_SERIES_MAX. */
#define PRN_SERIES_MAX 65536

struct prn_series {
    int64_t count;
    double mean_ns, sd_ns, min_ns, max_ns; /* NAN when count is 0 */
    size_t n_samples;
    int64_t *samples_ns; /* in time order */
};

struct prn_failure {
    const char *message;
    int64_t count; /* samples that it cost */
};

/* A graph segment on one backend. */
struct prn_segment_result {
    struct prn_series times;
    int64_t failed; /* sum of the counts */
    size_t n_failures;
    struct prn_failure *failures; /* distinct messages */
};

struct prn_segment {
    int64_t graph;           /* id from 1; 0: local code */
    struct prn_series local; /* of local code: one sample per run; of a graph: what the
                                program took to compute it, or empty */
    size_t n_results;
    struct prn_segment_result *results; /* of a graph: one per result (backend) of the profile */
};

/* What a graph gave on one backend, compared with what the program computed itself. */
struct prn_graph_check {
    bool compared;
    bool mismatch;       /* an output differs by more than rounding */
    const char *failure; /* why they couldn't be compared; NULL: they could */
    size_t n_outputs;
    struct prn_output_check *outputs;
};

/* Where the time of a graph's first call went; -1 where it isn't known. */
struct prn_graph_start {
    int64_t capture_ns, lower_ns, export_ns; /* what a front end did */
    int64_t upload_ns;
    int64_t load_ns; /* on all backends, and what was left of their start */
    size_t n_launches;
    struct prn_graph_launch {
        int64_t load_ns, prepare_ns;
    } * launches; /* one per result of the profile; none: nothing is known */
};

/* A graph of the program. */
struct prn_recorded_graph {
    int64_t id;
    const char *name;         /* where it came from: "encoder.onnx" */
    const char *local_reason; /* why it ran locally instead of on the backends; NULL: it didn't */
    size_t n_checks;
    struct prn_graph_check *checks; /* one per result of the profile; NULL: nothing was compared */
    struct prn_graph_start start;
};

/* What the runs of one backend come to. A graph that has no times there counts with what the
 * program took to compute it. What is PRN_OLD follows from the samples (prn_recorded_summarise). */
#define PRN_TOTAL_LIST(X)                                                                      \
    X(NUMBER, backend_ns, "Sum of the means of its graphs; null when none of them ran there.") \
    X(NUMBER, local_graphs_ns,                                                                 \
      "Sum of the means of what the program took for graphs that didn't run there; null "      \
      "when that isn't known. Missing in files of earlier versions.",                          \
      .flags = PRN_OLD)                                                                        \
    X(NUMBER, total_ns,                                                                        \
      "backend_ns, local_graphs_ns and local_ns together; null when compiled, or when one "    \
      "of them is.")                                                                           \
    X(NUMBER, usd_per_million, "Cost of a million runs; null without total_ns or price.")      \
    X(NUMBER, backend_median_ns,                                                               \
      "Median over runs of the time of its graphs. Computed from the samples, as are the "     \
      "others below.",                                                                         \
      .flags = PRN_OLD)                                                                        \
    X(NUMBER, local_graphs_median_ns,                                                          \
      "Median over runs of what the program took for graphs that didn't run there.",           \
      .flags = PRN_OLD)                                                                        \
    X(NUMBER, median_ns, "Median over runs of the total time; null when it isn't known.",      \
      .flags = PRN_OLD)                                                                        \
    X(NUMBER, low_ns, "Lower end of its 95 % interval; null with fewer than 6 runs.",          \
      .flags = PRN_OLD)                                                                        \
    X(NUMBER, high_ns, "Upper end.", .flags = PRN_OLD)                                         \
    X(FLAGS, flags, prn_flag_names, "What to know about it: IMPRECISE, MISMATCH, PARTIAL.",    \
      .flags = PRN_OLD)

struct prn_recorded_total {
    PRN_TOTAL_LIST(PRN_DECLARE)
};

/* What the recorded program is written in; reports call its own code by it. */
#define PRN_LANGUAGE_MAP(X) \
    X(C, "c")               \
    X(PYTHON, "python")

enum prn_language {
#define PRN_X(symbol, name) PRN_LANGUAGE_##symbol,
    PRN_LANGUAGE_MAP(PRN_X)
#undef PRN_X
};

/* The runs of one function that had the same footprint: "Profile predict[1/2]" in reports. */
struct prn_recorded {
    const char *function;
    int64_t runs;      /* that count */
    int64_t discarded; /* runs left out because compilation happened in them */
    int64_t repeats;   /* timed runs of a graph per call */
    bool compiled;     /* every run compiled: these are such runs, and there are no totals */
    size_t n_segments;
    struct prn_segment *segments; /* local, graph, local, … local: the footprint */
    double local_ns;              /* sum of the means of local code */
    double local_median_ns;       /* of its sum, over runs */
    size_t n_totals;
    struct prn_recorded_total *totals; /* one per result of the profile */
};

struct prn_profile {
    struct prn_arena arena;
    const char *prony_version;
    const char *created;              /* ISO 8601, UTC */
    struct prn_profile_model *models; /* at least one; without a path when none was measured */
    size_t n_models, n_points, n_results, n_notes;
    struct prn_point *points; /* cohort by cohort; at least one when a model was measured */
    struct prn_settings settings;
    struct prn_environment environment; /* of the first host, where there are hosts */
    double timer_ns;                    /* cost of one reading of the clock */
    double canary_best_ns;
    struct prn_machine *machine; /* what it can do; NULL: nobody measured that */
    size_t n_hosts;
    struct prn_profile_host *hosts; /* of a service, in the order of the backends; none: here */
    struct prn_result *results;     /* in the order asked for */
    const char **notes;             /* sentences for the reader, e.g. on dimensions left open */
    /* of a recorded program; then there is no model, and results say what the backends are */
    bool recorded;
    enum prn_language language;
    size_t n_profiles, n_graphs;
    struct prn_recorded *profiles;
    struct prn_recorded_graph *graphs; /* ids ascending */
};

struct prn_profile *prn_profile_new(void);
void prn_profile_free(struct prn_profile *profile);

/* A graph of a recorded program by its id; NULL when there is none. */
const struct prn_recorded_graph *prn_profile_graph(const struct prn_profile *profile, int64_t id);

/* Adds a sentence for the reader, unless it is there already. */
PRONY_MUST_CHECK int prn_profile_note(struct prn_profile *profile, const char *text,
                                      struct prony_error *err);

/* Leaves in a profile only what was measured on one of several hosts. */
void prn_profile_keep_host(struct prn_profile *profile, const char *hardware);

/* The canonical spec of its backend. */
const char *prn_result_spec(const struct prn_result *result);

/* Leaves in a profile of several models only one of them. */
void prn_profile_keep_model(struct prn_profile *profile, size_t model);

/* What a result was fed; never NULL. */
const struct prn_point *prn_result_point(const struct prn_profile *profile,
                                         const struct prn_result *result);

/* Appends its sizes as people are told them: its label or, without a sweep, its first shape. */
void prn_point_text(const struct prn_point *point, struct prn_buffer *out);

/* Which cohort a result belongs to, and which model it is of. */
size_t prn_result_cohort(const struct prn_profile *profile, const struct prn_result *result);
const struct prn_profile_model *prn_result_model(const struct prn_profile *profile,
                                                 const struct prn_result *result);

/* The first model's result on the same backend; NULL when this is the first model's. Every point
 * has the same backends in the same order, and nothing is found where a file says otherwise. */
const struct prn_result *prn_result_first_model(const struct prn_profile *profile,
                                                const struct prn_result *result);

/* It didn't fail and has samples. */
bool prn_result_measured(const struct prn_result *r);

#endif
