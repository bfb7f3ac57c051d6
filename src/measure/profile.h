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
};

#define PRN_FLAG_MAP(X)                                                    \
    X(UNSTABLE, 1, "times had not settled after ten warm-up windows")      \
    X(NOISY, 2, "other work disturbed this machine while it was measured") \
    X(IMPRECISE, 4, "the wanted precision was not reached")                \
    X(MISMATCH, 8, "outputs differ from the first backend's")              \
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

struct prn_result {
    /* the backend */
    const char *name; /* canonical spec */
    const char *hardware, *software;
    const char *processor; /* NULL when not known */
    double usd_per_hour;
    const char *runtime_version; /* "ONNX Runtime 1.30.0"; NULL when it never started */
    const char *runtime_library; /* file that was loaded */
    /* what was measured */
    size_t n_samples, n_launches, n_outputs;
    struct prn_sample *samples;
    struct prn_launch *launches;
    struct prn_output_check *outputs; /* against the first backend that gave outputs */
    int64_t redone_blocks;            /* repeated because the canary was slow */
    /* what follows from it */
    struct prn_sample_stats stats; /* valid when n_samples > 0 */
    struct prn_interval ratio;     /* of this time to the best one's, paired; NAN for none */
    enum prn_verdict verdict;
    unsigned flags; /* enum prn_flag */
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

struct prn_settings {
    uint64_t seed;
    double precision;           /* 0.01 */
    double smallest_difference; /* 0.005 */
    int64_t launches, repeats;  /* 0: decided while measuring */
    int64_t warmups;            /* runs; -1: until times settle */
    double max_time_s;
};

struct prn_profile {
    struct prn_arena arena;
    const char *prony_version;
    const char *created; /* ISO 8601, UTC */
    /* the model */
    const char *model_path;
    int64_t model_bytes, model_parameters;
    double model_flops; /* NAN when nothing could be counted */
    bool flops_complete;
    int64_t batch; /* requests answered by one run: first dimension of the first input; 1 if none */
    size_t n_inputs, n_results, n_notes;
    struct prn_profile_input *inputs;
    struct prn_settings settings;
    struct prn_environment environment;
    double timer_ns; /* cost of one reading of the clock */
    double canary_best_ns;
    struct prn_result *results; /* in the order asked for */
    const char **notes;         /* sentences for the reader, e.g. on dimensions left open */
};

struct prn_profile *prn_profile_new(void);
void prn_profile_free(struct prn_profile *profile);

#endif
