/*
 * Reports on a recorded program (`profile->recorded`): the summary of each profile, its segments,
 * and the classic layout, as text or Markdown; everything in full precision as CSV. A report
 * computes nothing anew but shares and intervals, so a saved recording gives the same one.
 */
#ifndef PRN_REPORT_RECORDED_REPORT_H
#define PRN_REPORT_RECORDED_REPORT_H

#include "base/buffer.h"
#include "measure/profile.h"
#include "report/look.h"

enum prn_recorded_layout {
    PRN_RECORDED_LAYOUT_SUMMARY,  /* a row per backend: time, total, cost */
    PRN_RECORDED_LAYOUT_SEGMENTS, /* local code and graphs in order, or the top graphs of many */
    PRN_RECORDED_LAYOUT_CLASSIC,  /* segments and totals as octoml-profile 0.1 showed them */
};

/* As options name them, in the order of the enum and ending in NULL. */
extern const char *const prn_recorded_layouts[];

/* A verbose look adds spread and confidence, and shows every segment. */
PRONY_MUST_CHECK int prn_recorded_report(const struct prn_profile *profile,
                                         enum prn_recorded_layout layout,
                                         const struct prn_look *look, struct prn_buffer *out,
                                         struct prony_error *err);

/* One row per profile, segment and backend, and one per profile and backend for the totals. */
PRONY_MUST_CHECK int prn_recorded_csv(const struct prn_profile *profile, struct prn_buffer *out,
                                      struct prony_error *err);

/* Takes the details of one profile, `label` ("predict[1/2]"), for a file called `name`. */
typedef int prn_recorded_detail_taker(const char *name, const char *label,
                                      const struct prn_buffer *text, void *context,
                                      struct prony_error *err);

/* Makes the segments of every profile a text for a file of its own. A name is
 * "<function>_<n>.profile.txt" in letters that lead to no other folder, and no two are the same.
 * Ends when `take` fails. */
PRONY_MUST_CHECK int prn_recorded_details(const struct prn_profile *profile, bool verbose,
                                          prn_recorded_detail_taker *take, void *context,
                                          struct prony_error *err);

#endif
