/*
 * A model that was measured layer by layer, for people and for other programs: what each layer
 * takes, what they add up to beside the whole model, and how far that can be trusted.
 */
#ifndef PRN_REPORT_LAYERS_REPORT_H
#define PRN_REPORT_LAYERS_REPORT_H

#include "pipeline/layer_measure.h"
#include "report/profile_report.h"

/* Sum and whole may differ by this share before the report says that layers don't add up. */
#define PRN_LAYERS_AGREE 0.05

/* `profile` is the file that holds the layers' figures. JSON is "prony.layer-profile/1". */
PRONY_MUST_CHECK int prn_layers_report(const struct prn_layer_measurement *measurement,
                                       const struct prn_layer_profile *profile,
                                       enum prn_report_format format, struct prn_buffer *out,
                                       struct prony_error *err);

#endif
