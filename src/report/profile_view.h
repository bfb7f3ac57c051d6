/* What the reports on a profile share: names that tell results apart, and the figures that follow
 * from a result. Used inside src/report only. */
#ifndef PRN_REPORT_PROFILE_VIEW_H
#define PRN_REPORT_PROFILE_VIEW_H

#include "base/buffer.h"
#include "base/table.h"
#include "measure/measure.h"
#include "report/prose.h"
#include "report/sweep_view.h"

struct prn_view {
    const struct prn_profile *profile;
    struct prn_arena arena;
    struct prn_launch_figures *launches; /* one for each result, as are the names */
    const char **names;    /* "local/onnxrt-cpu #2 (batch=4)": numbered where a backend occurs twice
                              at a point, and with the point where there are several */
    const char **backends; /* without the hardware and the point */
    bool *compared;        /* others were measured at the same point */
    bool any_compared;
    size_t n_measured; /* results with times to show */
    struct prn_sweep_view sweep;
};

PRONY_MUST_CHECK int prn_view_init(struct prn_view *view, const struct prn_profile *profile,
                                   struct prony_error *err);
void prn_view_release(struct prn_view *view);

/* Half of the interval of the median, as a fraction of it; NAN when not known. */
double prn_result_half_width(const struct prn_result *r);

double prn_result_rate(const struct prn_profile *p, const struct prn_result *r); /* inferences/s */
double prn_result_gflops(const struct prn_profile *p, const struct prn_result *r);
double prn_result_cost(const struct prn_profile *p, const struct prn_result *r); /* $/million */

/* "0.63 %", "<0.01 %", "?" when not known: a fraction in a cell. */
void prn_view_percent(struct prn_buffer *out, double fraction);

/* A paragraph on when, by what and on which machine it was measured. */
void prn_view_environment(const struct prn_profile *p, struct prn_prose *prose);

/* Appends the names of flags, with spaces between them. */
void prn_flags_text(struct prn_buffer *out, unsigned flags);

/* The table of results. As text it is no wider than `width` where that is possible: the columns
 * that matter least move to further tables below. */
PRONY_MUST_CHECK int prn_view_tables(const struct prn_view *view, enum prn_table_style style,
                                     size_t width, struct prn_buffer *out, struct prony_error *err);

/* One row per result in full precision. */
PRONY_MUST_CHECK int prn_view_csv(const struct prn_view *view, struct prn_buffer *out,
                                  struct prony_error *err);

#endif
