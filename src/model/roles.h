/* What the inputs of a model mean: which are ids into a table, and how large that table is; which
 * dimension is the batch. */
#ifndef PRN_MODEL_ROLES_H
#define PRN_MODEL_ROLES_H

#include "model/model.h"

/* Sets `role` and `bound` of the model's inputs, whose names and types are set already. */
PRONY_MUST_CHECK int prn_model_roles(const struct prn_model *model, struct prn_input *inputs,
                                     struct prony_error *err);

/* Whether the model computes with whole numbers of 8 bits or fewer, so that kernels round its
 * values differently. */
bool prn_model_quantised(const struct prn_model *model);

/* Items in one run: the first dimension of the inputs, if they and the outputs all have it and its
 * name doesn't say that it is something else; otherwise 1, one run. 0 when it is empty. */
int64_t prn_model_batch(const struct prn_model *model, const struct prn_input *inputs);

#endif
