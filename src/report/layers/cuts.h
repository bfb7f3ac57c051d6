/*
 * The layers that a model is cut into, for people and for other programs: what each takes and hands
 * on, its parameters and its work. Nothing here is measured.
 */
#ifndef PRN_REPORT_LAYERS_CUTS_H
#define PRN_REPORT_LAYERS_CUTS_H

#include "model/cut/cut.h"
#include "report/profile/report.h"

/* JSON is "prony.layers/1" (docs/layers.md). */
PRONY_MUST_CHECK int prn_cuts_report(const struct prn_model *model, const struct prn_cuts *cuts,
                                     enum prn_report_format format, const struct prn_look *look,
                                     struct prn_buffer *out, struct prony_error *err);

#endif
