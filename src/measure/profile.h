/*
 * A profile: everything that one measurement found out. Written by src/measure, read by every
 * report, saved as JSON under the schema prony.profile/1 (src/report/profile_json.h,
 * docs/prony.profile.schema.json). Plain data; all memory belongs to its arena. Numbers that aren't
 * known are NAN, or -1 where they are integers.
 */
#ifndef PRN_MEASURE_PROFILE_H
#define PRN_MEASURE_PROFILE_H

#include "base/arena.h"
#include "base/stats.h"
#include "model/model.h"

/* Most results of a profile. */
#define PRN_RESULTS_MAX 1000

struct prn_sample {
    int64_t ns;
    int32_t launch; /* which process of this backend, from 0 */
    int32_t block;  /* which block, from 0, counted over the whole measurement in time order:
                       all backends share the numbering, so equal numbers are paired */
};

/* One process that ran a backend. */
struct prn_launch {
    int64_t load_ns; /* opening the model */
    int64_t first_run_ns;
    int64_t baseline_bytes; /* resident before the model was loaded, runtime included */
    int64_t peak_bytes;     /* most that was resident */
    int32_t warmup_runs;
    bool settled; /* warm-up windows agreed */
};

struct prn_output_check {
    const char *name;
    bool same_shape; /* also: same type */
    double max_abs;
    double max_rel;
    double cosine;
    bool whole; /* whole numbers, of which any difference counts; known while measuring only */
};

#define PRN_FLAG_MAP(X)                                                    \
    X(UNSTABLE, 1, "times had not settled after ten warm-up windows")      \
    X(NOISY, 2, "other work disturbed this machine while it was measured") \
    X(IMPRECISE, 4, "the wanted precision was not reached")                \
    X(MISMATCH, 8, "outputs differ from the reference's")                  \
    X(INTERRUPTED, 16, "measuring was interrupted")

enum prn_flag {
#define PRN_X(name, bit, text) PRN_FLAG_##name = bit,
    PRN_FLAG_MAP(PRN_X)
#undef PRN_X
};

/* Percentiles that a report may show, of all samples. NAN: too few samples. */
#define PRN_PERCENTILE_MAP(X) \
    X(p90, 0.90)              \
    X(p95, 0.95)              \
    X(p99, 0.99)              \
    X(p999, 0.999)

struct prn_sample_stats {
    double median_ns, low_ns, high_ns; /* 95 % interval of the median, over launches and blocks */
    double mean_ns, sd_ns, min_ns, max_ns;
#define PRN_X(name, p) double name##_ns;
    PRN_PERCENTILE_MAP(PRN_X)
#undef PRN_X
    double spread;    /* interquartile range over the median */
    int64_t outliers; /* beyond 3 interquartile ranges from the quartiles; kept, only counted */
};

enum prn_verdict {
    PRN_VERDICT_NONE,   /* nothing to compare */
    PRN_VERDICT_SAME,   /* interval inside the smallest difference that counts */
    PRN_VERDICT_FASTER, /* than the best: can't be, kept for other baselines */
    PRN_VERDICT_SLOWER, /* interval clears the smallest difference that counts */
    PRN_VERDICT_UNSURE, /* more launches or time would tell */
};

struct prn_ops;  /* measure/ops.h */
struct prn_load; /* measure/load.h */

struct prn_result {
    /* the backend */
    const char *name; /* canonical spec */
    const char *hardware, *software;
    const char *processor; /* NULL when not known */
    double usd_per_hour;
    size_t point;                /* which of the profile's points it was fed */
    const char *runtime_version; /* "ONNX Runtime 1.30.0"; NULL when it never started */
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
    unsigned flags;        /* enum prn_flag */
    struct prn_ops *ops;   /* where the time goes; NULL: not asked for */
    struct prn_load *load; /* how it behaves under load; NULL: not asked for */
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

/* What one result was fed: the sizes of a sweep make several of these, otherwise there is one. */
struct prn_point {
    const char *label; /* "batch=4, seq=128": what the sweep set; "" without one */
    size_t n_swept;    /* the same in parts; all points of a profile have the same names */
    struct prn_swept *swept;
    int64_t batch; /* requests answered by one run: first dimension of the first input; 1 if none */
    double flops;  /* of one run; NAN when nothing could be counted */
    bool flops_complete;
    size_t n_inputs;
    struct prn_profile_input *inputs;
};

struct prn_environment {
    const char *cpu;
    int64_t cores;
    double mhz; /* NAN */
    const char *kernel;
    const char *os;
    int64_t memory_bytes;
    double load_before, load_after; /* one-minute load average */
    const char *sandbox;            /* what the executors were confined by */
};

/* A machine other than the one that asked: what was measured there has its hardware. */
struct prn_profile_host {
    const char *hardware;
    struct prn_environment environment;
    double timer_ns, canary_best_ns;
};

struct prn_settings {
    uint64_t seed;
    double precision;           /* 0.01 */
    double smallest_difference; /* 0.005 */
    int64_t launches, repeats;  /* 0: decided while measuring */
    int64_t warmups;            /* runs; -1: until times settle */
    double max_time_s;
    /* Largest error of an output, relative to the reference's largest value, that passes for
     * rounding. */
    double tolerance;
    const char
        *reference; /* the backend whose outputs are believed; NULL: the first that gives any */
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
    int64_t graph;                      /* id from 1; 0: local code */
    struct prn_series local;            /* of local code: one sample per run; of a graph: its local
                                           runs when it ran locally, otherwise empty */
    struct prn_segment_result *results; /* of a graph: one per result (backend) of the profile */
};

/* A graph of the program. */
struct prn_recorded_graph {
    int64_t id;
    const char *name;         /* where it came from: "encoder.onnx" */
    const char *local_reason; /* why it ran locally instead of on the backends; NULL: it didn't */
};

/* What the runs of one backend come to. */
struct prn_recorded_total {
    double backend_ns;      /* sum of the means of its graphs; NAN when one of them has none */
    double total_ns;        /* with the local code; NAN when compiled, fallen back or failed */
    double usd_per_million; /* of total_ns; NAN also without a price */
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
    struct prn_segment *segments;      /* local, graph, local, … local: the footprint */
    double local_ns;                   /* sum of the means of local code */
    struct prn_recorded_total *totals; /* one per result of the profile */
};

struct prn_profile {
    struct prn_arena arena;
    const char *prony_version;
    const char *created; /* ISO 8601, UTC */
    /* the model */
    const char *model_path;
    int64_t model_bytes, model_parameters;
    const char *model_fingerprint; /* prn_model_fingerprint(); NULL: not known */
    size_t n_points, n_results, n_notes;
    struct prn_point *points; /* at least one when a model was measured */
    struct prn_settings settings;
    struct prn_environment environment; /* of the first host, where there are hosts */
    double timer_ns;                    /* cost of one reading of the clock */
    double canary_best_ns;
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

/* What a result was fed; never NULL. */
const struct prn_point *prn_result_point(const struct prn_profile *profile,
                                         const struct prn_result *result);

/* It didn't fail and has samples. */
bool prn_result_measured(const struct prn_result *r);

#endif
