/*
 * A schedule for people and for other programs: the YAML that PipeEdge's runtime reads, and text,
 * JSON and CSV that also say what the schedule takes, what another host would change and, when it
 * was tried out, what it took here.
 */
#ifndef PRN_REPORT_SCHEDULE_REPORT_H
#define PRN_REPORT_SCHEDULE_REPORT_H

#include "base/buffer.h"
#include "pipeline/schedule.h"
#include "pipeline/simulate.h"

enum prn_schedule_format {
    PRN_SCHEDULE_FORMAT_YAML,
    PRN_SCHEDULE_FORMAT_TEXT,
    PRN_SCHEDULE_FORMAT_JSON,
    PRN_SCHEDULE_FORMAT_CSV,
    PRN_SCHEDULE_FORMAT_HTML,
};

/* As options name them, in the order of the enum and ending in NULL. */
extern const char *const prn_schedule_formats[];
extern const char *const prn_objectives[];

struct prn_schedule_report {
    const struct prn_pipeline *pipeline;
    const struct prn_schedule_goal *goal;
    const struct prn_schedule *schedule;
    const double *one_more; /* per type: what the objective would be; not for YAML */
    bool drawing;           /* text: also a drawing of the pipeline */
    const struct prn_simulation *simulation; /* NULL: it wasn't tried out; not for YAML */
};

PRONY_MUST_CHECK int prn_schedule_report(const struct prn_schedule_report *report,
                                         enum prn_schedule_format format, struct prn_buffer *out,
                                         struct prony_error *err);

#endif
