/*
 * What the reports on a recorded program share: names of its profiles, its graphs by time, shares
 * and intervals, and the tables. Used inside src/report only.
 *
 * The unit of every interval is a run of the function: the repeats of a graph within a run are
 * alike, and as units of their own they would promise too much.
 */
#ifndef PRN_REPORT_RECORDED_VIEW_H
#define PRN_REPORT_RECORDED_VIEW_H

#include "base/format.h"
#include "report/profile/view.h"
#include "report/recorded/report.h"

#define PRN_RECORDED_NONE SIZE_MAX

/* What a profile is called; texts are safe to show, and long ones are shortened. */
struct prn_recorded_name {
    const char *function;
    const char *label; /* "predict[1/2]" */
    size_t number, of; /* the first of two profiles of the function */
    size_t next;       /* the next one; PRN_RECORDED_NONE: this is the last */
};

struct prn_recorded_view {
    const struct prn_profile *profile;
    struct prn_view backends; /* their names */
    struct prn_arena arena;
    struct prn_recorded_name *names; /* one per profile */
    size_t n_functions;
    const char *local; /* "local python": what runs between the graphs */
};

PRONY_MUST_CHECK int prn_recorded_view_init(struct prn_recorded_view *view,
                                            const struct prn_profile *profile,
                                            struct prony_error *err);
void prn_recorded_view_release(struct prn_recorded_view *view);

/* Graphs that a run of the function calls; each call is a segment. */
size_t prn_recorded_calls(const struct prn_recorded *recorded);

/* A graph in a run, with all its calls together. */
struct prn_subgraph {
    int64_t id;
    size_t calls;
    double time_ns; /* mean over the backends that have a time; -1: none has */
    struct prn_subgraph_time {
        double run_ns; /* NAN when a call has no samples */
        int64_t failed;
    } * times; /* one per backend */
};

/* The distinct graphs of a profile, longest time first, and by id where that is equal. */
PRONY_MUST_CHECK int prn_recorded_subgraphs(const struct prn_profile *profile,
                                            const struct prn_recorded *recorded,
                                            struct prn_arena *arena, size_t *ret_n,
                                            struct prn_subgraph **ret_subgraphs,
                                            struct prony_error *err);

/* Percent of the whole, without the sign: "25.0", "<0.1"; "N/A" when either isn't known. */
const char *prn_recorded_share(char buffer[PRN_FORMAT_SIZE], double part_ns, double whole_ns);

/* Half of the 95 % interval of the mean of a series, as a fraction of it; NAN when fewer than two
 * runs are known. */
double prn_series_half_width(const struct prn_series *series, int64_t runs);
/* The same of the median of a total; NAN when it isn't known. */
double prn_recorded_half_width(const struct prn_recorded_total *total);

/* Tables. `layout` is that of the segments or the classic one. */
PRONY_MUST_CHECK int prn_recorded_summary_table(const struct prn_recorded_view *view,
                                                const struct prn_recorded *recorded,
                                                const struct prn_look *look, struct prn_buffer *out,
                                                struct prony_error *err);
PRONY_MUST_CHECK int prn_recorded_segment_table(const struct prn_recorded_view *view,
                                                const struct prn_recorded *recorded,
                                                enum prn_recorded_layout layout,
                                                const struct prn_look *look, struct prn_buffer *out,
                                                struct prony_error *err);
PRONY_MUST_CHECK int prn_recorded_top_table(const struct prn_recorded_view *view,
                                            const struct prn_recorded *recorded,
                                            const struct prn_look *look, struct prn_buffer *out,
                                            struct prony_error *err);

/* Whether the summary says what runs cost: a price is known, or everything is wanted. */
bool prn_recorded_priced(const struct prn_profile *profile, bool verbose);

/* The segments of one profile and what belongs to them, as text. */
PRONY_MUST_CHECK int prn_recorded_report_one(const struct prn_recorded_view *view, size_t index,
                                             bool verbose, struct prn_buffer *out,
                                             struct prony_error *err);

#endif
