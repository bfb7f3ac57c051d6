/* What the reports on a profile share: names that tell results apart, and the figures that follow
 * from a result. Used inside src/report only. */
#ifndef PRN_REPORT_PROFILE_VIEW_H
#define PRN_REPORT_PROFILE_VIEW_H

#include "base/buffer.h"
#include "base/table.h"
#include "measure/measure.h"
#include "report/prose.h"
#include "report/profile/sweep.h"

struct prn_view {
    const struct prn_profile *profile;
    struct prn_arena arena;
    struct prn_launch_figures *launches; /* one for each result, as are the names */
    const char **names;    /* "local/onnxrt-cpu #2 (batch=4)": numbered where a backend occurs twice
                              at a point, and with the point where there are several */
    const char **backends; /* without the hardware and the point */
    const char **fulls;    /* without "local/" if all have it, and without the point */
    const char **calls;    /* as sentences call them: the same, shortened where it is long, and with
                              the point */
    bool *compared;        /* others were measured at the same point */
    bool any_compared;
    size_t n_measured; /* results with times to show */
    struct prn_sweep_view sweep;
};

PRONY_MUST_CHECK int prn_view_init(struct prn_view *view, const struct prn_profile *profile,
                                   struct prony_error *err);
void prn_view_release(struct prn_view *view);

/* Half of the interval of the median, as a fraction of it; NAN when not known, and with fewer than
 * PRN_UNITS_MIN launches. */
double prn_result_half_width(const struct prn_result *r);

/* What gives an interval where only `launches` processes were measured: "--launches 5". Not that,
 * when the time was up before as many as asked for were started. */
const char *prn_view_launches_cure(const struct prn_profile *p, size_t launches);

double prn_result_rate(const struct prn_profile *p, const struct prn_result *r); /* inferences/s */
double prn_result_gflops(const struct prn_profile *p, const struct prn_result *r);
double prn_result_cost(const struct prn_profile *p, const struct prn_result *r); /* $/million */

/* "0.63 %", "<0.01 %", "?" when not known: a fraction in a cell. */
void prn_view_percent(struct prn_buffer *out, double fraction);

/* The same of half an interval; "unknown" when that is more than the figure itself. */
void prn_view_half_width(struct prn_buffer *out, double fraction);

/* Appends the runtimes that were measured, `before` before the first. */
void prn_view_runtimes(const struct prn_profile *p, const char *before, struct prn_buffer *out);

/* What backends are that the user gave names to: "new is onnxrt-cpu[threads=2]; …". */
void prn_view_specs(const struct prn_profile *p, struct prn_prose *prose);

/* A paragraph on when, by what and on which machine it was measured. */
void prn_view_environment(const struct prn_profile *p, struct prn_prose *prose);

/* What limits trust and what to do about it: a line for each, which begins with "! ". */
void prn_view_warnings(const struct prn_view *view, struct prn_buffer *out);

/* Appends how the output that differs most does: "; 'prob' by up to …". NULL without outputs. */
const struct prn_output_check *
prn_view_difference(struct prn_buffer *out, const struct prn_output_check *outputs, size_t n);

/* Appends the names of flags, with spaces between them. */
void prn_flags_text(struct prn_buffer *out, unsigned flags);

/* The table of results, no wider than the look. Names that are too long are shortened, and stand in
 * full below it; the columns that matter least are left out or, if all are wanted, move to further
 * tables below. */
PRONY_MUST_CHECK int prn_view_tables(const struct prn_view *view, const struct prn_look *look,
                                     struct prn_buffer *out, struct prony_error *err);

/* Whether every backend is of this machine. */
bool prn_view_all_local(const struct prn_profile *p);

/* Whether all others of its point are known to be slower. */
bool prn_view_is_fastest(const struct prn_view *view, size_t result);

/* One row per result in full precision. */
PRONY_MUST_CHECK int prn_view_csv(const struct prn_view *view, struct prn_buffer *out,
                                  struct prony_error *err);

#endif
