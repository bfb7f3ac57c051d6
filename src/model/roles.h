/* What the inputs of a model mean: which are ids into a table, and how large that table is. */
#ifndef PRN_MODEL_ROLES_H
#define PRN_MODEL_ROLES_H

#include "model/model.h"

/* Sets `role` and `bound` of the model's inputs, whose names and types are set already. */
PRONY_MUST_CHECK int prn_model_roles(const struct prn_model *model, struct prn_input *inputs,
                                     struct prony_error *err);

#endif
