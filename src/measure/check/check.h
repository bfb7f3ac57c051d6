/*
 * What a check found: the figures of each model's new version beside those of the old one, and
 * whether they keep to the limits.
 *
 * - A limit is broken only when the 95 % interval of the change lies beyond it, and kept only when
 *   the interval lies within it. Everything between is "not shown", and the row says what would
 *   help.
 * - Old and new that took turns (one profile with two models) are compared in pairs. Where the old
 *   one is a saved profile, the rules for two files hold (measure/comparison/comparison.h): nothing
 *   is shown across machines, and what the canary differs by counts for neither side.
 * - A backend on which the new version fails and the old one ran is a regression.
 */
#ifndef PRN_MEASURE_CHECK_CHECK_H
#define PRN_MEASURE_CHECK_CHECK_H

#include "measure/check/config.h"

#define PRN_CHECK_FIGURE_MAP(X) \
    X(TIME, "time")             \
    X(MEMORY, "memory")         \
    X(SIZE, "size")             \
    X(OUTPUTS, "outputs")

enum prn_check_figure {
#define PRN_X(name, text) PRN_CHECK_FIGURE_##name,
    PRN_CHECK_FIGURE_MAP(PRN_X)
#undef PRN_X
};
extern const char *const prn_check_figure_names[];

#define PRN_CHECK_STATUS_MAP(X)                                              \
    X(REGRESSION, "regression") /* beyond the limit, or it fails now */      \
    X(FAILED, "failed")         /* neither version could be measured */      \
    X(NOT_SHOWN, "not shown")   /* the data don't say on which side it is */ \
    X(HOLDS, "holds")                                                        \
    X(UNLIMITED, "no limit")

enum prn_check_status {
#define PRN_X(name, text) PRN_CHECK_STATUS_##name,
    PRN_CHECK_STATUS_MAP(PRN_X)
#undef PRN_X
        PRN_CHECK_STATUS_COUNT,
};
extern const char *const prn_check_status_names[];

struct prn_check_row {
    const char *backend; /* NULL: it is of the model, whatever runs it */
    const char *sizes;   /* label of the point; "" without a sweep */
    enum prn_check_figure figure;
    enum prn_check_status status;
    double limit;              /* as a fraction; NAN: none */
    double before, after;      /* ns or bytes; NAN: not known */
    struct prn_interval ratio; /* after over before; NAN: not known */
    double error;              /* of outputs: the largest, relative to the largest value; or NAN */
    const char *reason;        /* a sentence on why it isn't shown or failed; NULL: none */
};

struct prn_check_result {
    const char *name, *path;
    const char *old; /* a path, "origin/main (abc1234567)", or a saved profile */
    bool saved;      /* the old one is a saved profile */
    struct prn_check_row *rows;
    size_t n_rows;
    const char **notes;
    size_t n_notes;
};

struct prn_check {
    struct prn_arena arena;
    const char *config; /* path */
    const char *created, *prony_version, *cpu;
    int64_t cores;
    bool strict; /* what isn't shown counts as a regression */
    struct prn_check_result *results;
    size_t n_results;
    size_t counts[PRN_CHECK_STATUS_COUNT];
};

/* With room for n models. Free it with prn_check_free(). */
PRONY_MUST_CHECK int prn_check_new(const char *config, size_t n, struct prn_check **ret_check,
                                   struct prony_error *err);
void prn_check_free(struct prn_check *check);

/* Adds a model from a profile of two: the old one and the new one. Outputs that the versions have:
 * as many must correspond. */
struct prn_check_pair {
    const struct prn_check_model *model;
    const char *old;
    size_t outputs_before, outputs_after;
};
PRONY_MUST_CHECK int prn_check_add(struct prn_check *check, const struct prn_check_pair *pair,
                                   const struct prn_profile *profile, struct prony_error *err);

/* Adds a model from a profile of its own and a saved one of its old version, of which the last
 * model counts. `force` judges across machines and states. */
PRONY_MUST_CHECK int prn_check_add_saved(struct prn_check *check, const struct prn_check_pair *pair,
                                         struct prn_profile *before, struct prn_profile *after,
                                         bool force, struct prony_error *err);

/* Whether it is a regression: one was shown or, if that is asked for, couldn't be excluded. */
bool prn_check_regressed(const struct prn_check *check);

#endif
