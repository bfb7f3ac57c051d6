/*
 * Measures a model on backends of this machine, honestly:
 *
 * - Each backend runs in several fresh processes (launches), because two processes with the same
 *   model differ for their whole life. In a launch, all backends are loaded, warmed up until three
 *   windows agree, and then run block by block in random order; whoever isn't timed is stopped.
 * - A canary runs around each block. A disturbed block is redone, up to three times.
 * - Launches go on until the 95 % interval of the median is narrow enough, or time is up.
 * - Comparisons are paired block by block, and the unit of their interval is the launch.
 *
 * Several models are measured as backends are: model and backend together are a row. So are the
 * rows of a sweep, all interleaved, but only rows of one cohort, which were fed the same sizes, are
 * compared. A cohort that is known well enough is done and takes no further part. Outputs of the
 * backends of a model must agree; how those of the models differ is noted. Rows that don't fit into
 * memory together take turns in groups.
 */
#ifndef PRN_MEASURE_MEASURE_H
#define PRN_MEASURE_MEASURE_H

#include "measure/inputs.h"
#include "measure/profile.h"
#include "spec/spec.h"

/* Launches by default, and how many times more when precision asks for them. */
#define PRN_LAUNCHES_DEFAULT 5
#define PRN_LAUNCHES_FACTOR 4
#define PRN_SAMPLES_MIN 30

struct prn_progress {
    const char *backend;
    const char *point; /* label; "" without a sweep */
    const char *phase; /* "loading", "warming up", "measuring" */
    size_t row, rows;  /* which result, from 1, of how many */
    int64_t launch, launches;
    int64_t samples;
    double median_ns, half_width; /* NAN as long as they aren't known */
    double elapsed_s, allowed_s;  /* allowed_s: 0 when not known */
};

/* Told after each round of launches, as long as more are to come. What the profile holds then could
 * be reported; what isn't finished is flagged as interrupted. */
typedef void prn_checkpoint(void *context, const struct prn_profile *profile);

struct prn_model_file {
    const char *path;   /* absolute */
    const char *folder; /* NULL: the model keeps nothing beside its file */
};

struct prn_measure_request {
    const struct prn_model_file *models; /* one for each point of the profile */
    const struct prn_spec *backends;     /* one for each result of the profile */
    const char *program;                 /* of the executor; NULL: this one */
    const struct prn_inputs *inputs;     /* one for each point of the profile */
    double timeout_s;
    const volatile int *cancelled;
    void (*progress)(void *context, const struct prn_progress *progress); /* may be NULL */
    prn_checkpoint *checkpoint;                                           /* may be NULL */
    void *context;
};

/* Measures, filling the profile's results (samples, launches, outputs, errors, flags), whose
 * backends and settings are set already; results that hold samples are gone on with. A backend's
 * failure is its own result's error; the call itself fails only when nothing can be measured at
 * all, or when a runtime isn't the one whose samples are there. */
PRONY_MUST_CHECK int prn_measure(const struct prn_measure_request *request,
                                 struct prn_profile *profile, struct prony_error *err);

/* Computes statistics, intervals, ratios and verdicts from the samples. */
PRONY_MUST_CHECK int prn_summarise(struct prn_profile *profile, struct prony_error *err);

/* 95 % interval of one result's median, in ns; estimate is NAN without samples. */
struct prn_interval prn_median_interval(const struct prn_sample *samples, size_t n);

/* The same of the mean: of times that will be added up, since medians of parts don't add up to the
 * median of the whole. */
struct prn_interval prn_mean_interval(const struct prn_sample *samples, size_t n);

/* Standard error of the logarithm of a median, over launches; NAN with fewer than PRN_UNITS_MIN. */
double prn_median_log_error(const struct prn_sample *samples, size_t n);

/* 95 % interval of a's time over b's, paired by block; estimate is NAN when no block has both. */
struct prn_interval prn_ratio_interval(const struct prn_sample *a, size_t n_a,
                                       const struct prn_sample *b, size_t n_b);

/* Two sides that were measured at different times, so that nothing pairs them. */
struct prn_unpaired {
    double a, b; /* the figures: for times, medians of all; NAN: not known */
    struct prn_interval
        ratio;     /* a / b, 95 %; low is 0 and high infinite when nothing can be told */
    double p;      /* two-sided, of there being no difference; NAN: can't be told */
    bool by_block; /* a side has one launch, and its blocks had to be the units */
};

/* From the figures and the logarithms of the units of both sides: Welch's t on the logarithms. The
 * interval holds the ratio of the figures, which is what a reader sees. */
struct prn_unpaired prn_unpaired_of(double a, const double *logs_a, size_t n_a, double b,
                                    const double *logs_b, size_t n_b);

/* a's time over b's; units are launches. Returns 0 or PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_ratio_unpaired(const struct prn_sample *a, size_t n_a,
                                        const struct prn_sample *b, size_t n_b,
                                        struct prn_unpaired *ret_ratio);

/* The same for what a launch has one of, the field of struct prn_launch at `offset`. The figures
 * are those that are shown for it (prn_launch_figures); -1: not known. */
PRONY_MUST_CHECK int prn_launch_ratio(const struct prn_result *a, int64_t figure_a,
                                      const struct prn_result *b, int64_t figure_b, size_t offset,
                                      struct prn_unpaired *ret_ratio);

/* What the launches of a result say together: medians, and the largest peak. -1: not known. */
struct prn_launch_figures {
    int64_t load_ns, first_run_ns, baseline_bytes, peak_bytes;
};
PRONY_MUST_CHECK int prn_launch_figures(const struct prn_result *result,
                                        struct prn_launch_figures *ret_figures);

/* SLOWER or FASTER when the interval clears the smallest difference that counts. */
enum prn_verdict prn_verdict_of(struct prn_interval ratio, double smallest_difference);

/* Outputs that lie in a file of shared memory. */
struct prn_outputs {
    int fd;
    const struct prn_place *places;
    size_t n;
};

/* Leaves of both what corresponds, in the same order: outputs of the same name, and of the others
 * those that come first on either side. */
PRONY_MUST_CHECK int prn_outputs_match(struct prn_outputs *a, struct prn_outputs *b,
                                       struct prn_arena *arena, struct prony_error *err);

/* Compares outputs that lie in two files of shared memory. `ret_checks` has n entries. */
PRONY_MUST_CHECK int prn_outputs_compare(int reference_fd, const struct prn_place *reference,
                                         int fd, const struct prn_place *outputs, size_t n,
                                         struct prn_arena *arena,
                                         struct prn_output_check **ret_checks,
                                         struct prony_error *err);
#define PRN_TOLERANCE_DEFAULT 1e-3
#define PRN_TOLERANCE_QUANTISED 5e-2 /* of a model that computes with 8 bits: kernels round it */

/* The largest value of the inputs that are floating-point numbers; 1 when there are none. */
double prn_inputs_scale(int fd, const struct prn_place *inputs, size_t n);

/* Sets what passes for rounding in outputs of a model whose inputs are as large as `scale`: a few
 * units in the last place of those, or, if it is quantised, a step of an output of 8 bits. */
void prn_outputs_allow(struct prn_output_check *checks, const struct prn_place *outputs, size_t n,
                       double scale, bool quantised);

/* An error beyond the tolerance, unless it is within the floor and the tensors point the same way.
 */
bool prn_output_differs(const struct prn_output_check *check, double tolerance);

/* The machine; 0 or PRONY_ENOMEM. */
PRONY_MUST_CHECK int prn_environment_read(struct prn_environment *environment,
                                          struct prn_arena *arena);
int64_t prn_memory_available(void);

#endif
