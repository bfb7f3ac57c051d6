/* The part of a report that says how backends behave under load. Used inside src/report only. */
#ifndef PRN_REPORT_LOAD_REPORT_H
#define PRN_REPORT_LOAD_REPORT_H

#include "base/format.h"
#include "measure/load/load.h"
#include "report/profile/view.h"
#include "report/prose.h"

/* Whether any result was put under load. */
bool prn_load_present(const struct prn_profile *profile);

/* Appends the highest rate that each backend holds, and what limits it. */
void prn_load_verdict(const struct prn_view *view, struct prn_buffer *out);

/* The section of a text or Markdown report: tables, and what a reader must know about them. */
PRONY_MUST_CHECK int prn_load_section(const struct prn_view *view, struct prn_prose *prose,
                                      struct prony_error *err);

/* One row for each load; as CSV, without a look, in full precision. Nothing is written where there
 * is none, but for the titles of CSV. */
PRONY_MUST_CHECK int prn_load_table(const struct prn_view *view, enum prn_table_style style,
                                    const struct prn_look *look, struct prn_buffer *out,
                                    struct prony_error *err);

/* What a limit on latency allows: one row for each backend. Not for CSV. */
PRONY_MUST_CHECK int prn_slo_table(const struct prn_view *view, enum prn_table_style style,
                                   const struct prn_look *look, struct prn_buffer *out,
                                   struct prony_error *err);

/* Every rate that was tried for it, as CSV. */
PRONY_MUST_CHECK int prn_slo_trials_csv(const struct prn_view *view, struct prn_buffer *out,
                                        struct prony_error *err);

/* "41.3/s", and "closed loop" for NAN. */
const char *prn_load_rate_text(char buffer[PRN_FORMAT_SIZE], double rate_per_s);

/* "p99 ≤ 20.0 ms". */
void prn_slo_limit_text(const struct prn_slo *slo, struct prn_buffer *out);

/* Dollars for a million inferences at a rate of requests, from a result's price and batch. */
double prn_load_cost(const struct prn_profile *profile, const struct prn_result *result,
                     double rate_per_s);

#endif
