/*
 * Histories for people and for other programs: how a model's times changed (schema
 * prony.history/1), what a history holds (prony.history-list/1), what was removed from it
 * (prony.history-prune/1). docs/history.md explains the fields.
 */
#ifndef PRN_REPORT_TREND_REPORT_H
#define PRN_REPORT_TREND_REPORT_H

#include "format/schema.h"
#include "measure/trend/trend.h"
#include "report/profile/report.h"

#define PRN_TREND_SCHEMA "prony.history/1"
#define PRN_TREND_LIST_SCHEMA "prony.history-list/1"
#define PRN_PRUNED_SCHEMA "prony.history-prune/1"

PRONY_MUST_CHECK int prn_trend_report(const struct prn_trend *trend, enum prn_report_format format,
                                      const struct prn_look *look, struct prn_buffer *out,
                                      struct prony_error *err);

/* These have no page: HTML is text. */
PRONY_MUST_CHECK int prn_trend_list_report(const struct prn_trend_list *list,
                                           enum prn_report_format format,
                                           const struct prn_look *look, struct prn_buffer *out,
                                           struct prony_error *err);
PRONY_MUST_CHECK int prn_pruned_report(const struct prn_pruned *pruned,
                                       enum prn_report_format format, struct prn_buffer *out,
                                       struct prony_error *err);

/* Their tables, from which come docs/prony.history*.schema.json. */
extern const struct prn_schema prn_trend_schema, prn_trend_list_schema, prn_pruned_schema;

/* ---- Used inside src/report/trend only ---- */

/* The first sentence of all: what changed last, or that nothing is shown to have. */
void prn_trend_verdict(const struct prn_trend *trend, struct prn_buffer *out);

/* Without the hardware, where it is this machine. */
const char *prn_trend_backend(const char *backend);

/* "onnxrt-cpu at 1x100 of Example CPU, 2 cores": as much as tells series apart. */
void prn_trend_series_text(const struct prn_trend *trend, const struct prn_trend_series *series,
                           struct prn_buffer *out);

#define PRN_COMMIT_SHOWN 7

PRONY_MUST_CHECK int prn_trend_text(const struct prn_trend *trend, const struct prn_look *look,
                                    struct prn_buffer *out, struct prony_error *err);
PRONY_MUST_CHECK int prn_trend_list_text(const struct prn_trend_list *list,
                                         const struct prn_look *look, struct prn_buffer *out,
                                         struct prony_error *err);
PRONY_MUST_CHECK int prn_trend_csv(const struct prn_trend *trend, struct prn_buffer *out,
                                   struct prony_error *err);

#endif
