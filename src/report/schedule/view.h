/* The figures that follow from a schedule, for all of its reports. Used inside src/report only. */
#ifndef PRN_REPORT_SCHEDULE_VIEW_H
#define PRN_REPORT_SCHEDULE_VIEW_H

#include "base/table.h"
#include "format/json.h"
#include "report/schedule/report.h"

/* A time with half of its 95 % interval; NAN when not known. */
struct prn_timed {
    double s, ci_s;
};

static inline struct prn_timed prn_timed(struct prn_interval i)
{
    return (struct prn_timed){i.estimate, i.high - i.estimate};
}

struct prn_stage_view {
    const char *host, *type;
    size_t first, last; /* layers */
    struct prn_timed time;
    double idle; /* fraction of the period */
    double memory_bytes, available_bytes;
    /* To the next stage; NAN behind the last. */
    double link_bytes, link_mbps, link_s, link_idle;
};

struct prn_schedule_view {
    const struct prn_schedule_report *report;
    struct prn_stage_view *stages;
    struct prn_timed period, latency;
    double throughput, throughput_ci; /* inferences per second; NAN without a schedule */
    double usd_per_hour;              /* NAN when not known */
    size_t bottleneck;                /* stage, or the one before the link */
    bool bottleneck_is_link;
};

PRONY_MUST_CHECK int prn_schedule_view_init(struct prn_schedule_view *view,
                                            const struct prn_schedule_report *report,
                                            struct prony_error *err);
void prn_schedule_view_release(struct prn_schedule_view *view);

/* What every report begins with: what was measured or, if nothing was, what is predicted. */
void prn_schedule_view_verdict(const struct prn_schedule_view *view, struct prn_buffer *out);

/* A new table that is as wide as the report may be. */
struct prn_table *prn_schedule_view_table(const struct prn_schedule_view *view);

/* Hosts of a type that the schedule uses. */
size_t prn_schedule_view_used(const struct prn_schedule_view *view, size_t type);

/* How the objective is called in files: "period_s", "latency_s" or "usd_per_hour". */
const char *prn_schedule_view_figure(const struct prn_schedule_view *view);

/* How the predicted and the measured bottleneck are named: "stage 2 (board-1)", "the link from
 * stage 2 (board-1) to stage 3". */
void prn_schedule_view_place(const struct prn_schedule_view *view, size_t stage, bool is_link,
                             struct prn_buffer *out);

/* A simulation's part of the reports; the report has one. */
void prn_simulation_view_verdict(const struct prn_schedule_view *view, struct prn_buffer *out);
PRONY_MUST_CHECK int prn_simulation_view_text(const struct prn_schedule_view *view,
                                              struct prn_buffer *out, struct prony_error *err);
/* Inferences per second. */
struct prn_timed prn_simulation_view_rate(const struct prn_schedule_view *view);
/* Of the link behind a stage, in units of 2^20 bits per second as the files have it; NAN: nothing
 * was sent, or no network was there. */
double prn_simulation_view_mbps(const struct prn_simulation *s, size_t stage);
void prn_simulation_view_csv_titles(struct prn_table *t);
/* Of a stage, or with `stage` SIZE_MAX of a row that stands for none. */
void prn_simulation_view_csv(const struct prn_schedule_view *view, size_t stage,
                             struct prn_table *t);

/* A stage without its link, and what the whole schedule takes: columns of CSV. */
extern const struct prn_schema prn_stage_schema, prn_totals_schema;

PRONY_MUST_CHECK int prn_schedule_view_json(const struct prn_schedule_view *view,
                                            struct prn_buffer *out, struct prony_error *err);
PRONY_MUST_CHECK int prn_schedule_view_text(const struct prn_schedule_view *view,
                                            struct prn_buffer *out, struct prony_error *err);

/* " ± 1.2", half of the interval of a figure; " (± unknown)" when that is more than the figure. */
void prn_schedule_add_half(double figure, double half, struct prn_buffer *out);

/* The same as a cell: "1.2 ms", "unknown"; "?" when there is no interval. */
void prn_schedule_cell_half(struct prn_table *t, struct prn_timed time);

#endif
