/*
 * A schedule for people and for other programs: the YAML that PipeEdge's runtime reads, and text,
 * JSON and CSV that also say what the schedule takes, what another host would change and, when it
 * was tried out, what it took here.
 */
#ifndef PRN_REPORT_SCHEDULE_REPORT_H
#define PRN_REPORT_SCHEDULE_REPORT_H

#include "base/format.h"
#include "format/schema.h"
#include "pipeline/schedule/schedule.h"
#include "pipeline/simulate/simulate.h"
#include "report/look.h"

#define PRN_SCHEDULE_SCHEMA "prony.schedule/1"

extern const struct prn_schema prn_schedule_schema;

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
    double bound;           /* no schedule has a smaller figure than that; NAN: this is the best */
    const double *one_more; /* per type: what the objective would be; not for YAML */
    const char *shortage;   /* why there is no schedule; NULL when there is one */
    bool drawing;           /* text: also a drawing of the pipeline */
    const struct prn_simulation *simulation; /* NULL: it wasn't tried out; not for YAML */
    struct prn_look look;                    /* of text */
};

/* What lies in a folder with the stages as models: YAML that says which model goes to which host,
 * what it takes and gives, and to whom. */
PRONY_MUST_CHECK int prn_schedule_plan(const struct prn_pipeline *pipeline,
                                       const struct prn_schedule *schedule,
                                       const struct prn_stage_models *models,
                                       struct prn_buffer *out, struct prony_error *err);

/* "at most 1.2 %": how far a schedule can be from the best, by its figure over the bound's. */
const char *prn_schedule_gap(char buffer[PRN_FORMAT_SIZE], double ratio);

PRONY_MUST_CHECK int prn_schedule_report(const struct prn_schedule_report *report,
                                         enum prn_schedule_format format, struct prn_buffer *out,
                                         struct prony_error *err);

#endif
