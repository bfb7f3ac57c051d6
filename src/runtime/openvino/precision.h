/* Whether OpenVINO really computes in a precision on this machine. */
#ifndef PRN_RUNTIME_OPENVINO_PRECISION_H
#define PRN_RUNTIME_OPENVINO_PRECISION_H

#include "runtime/openvino/api.h"

/* Multiplies two small matrices in f32 and in `precision` ("bf16", "f16"): products to the last bit
 * alike mean that the hint was ignored. PRONY_EUNAVAILABLE then, with what the processor can do. */
PRONY_MUST_CHECK int ov_precision_prove(const struct ov_api *api, const ov_core_t *core,
                                        const char *precision, struct prony_error *err);

#endif
