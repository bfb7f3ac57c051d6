/*
 * A model that was measured layer by layer, for people and for other programs: what each layer
 * takes, what they add up to beside the whole model, and how far that can be trusted.
 */
#ifndef PRN_REPORT_LAYERS_REPORT_H
#define PRN_REPORT_LAYERS_REPORT_H

#include "pipeline/layers/measure.h"
#include "report/profile/report.h"

/* Sum and whole may differ by this share before the report says that layers don't add up. */
#define PRN_LAYERS_AGREE 0.05

/* What every report begins with, as one sentence or two. */
void prn_layers_verdict(const struct prn_layer_measurement *measurement,
                        const struct prn_layer_profile *profile, struct prn_buffer *out);

/* `profile` is the file that holds the layers' figures. JSON is "prony.layer-profile/1". */
PRONY_MUST_CHECK int prn_layers_report(const struct prn_layer_measurement *measurement,
                                       const struct prn_layer_profile *profile,
                                       enum prn_report_format format, const struct prn_look *look,
                                       struct prn_buffer *out, struct prony_error *err);

#endif
