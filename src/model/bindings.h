/*
 * The texts of --dim and --shape, as `prony model` and `prony profile` take them.
 *
 * A dimension is "NAME=SIZE", a shape "NAME=1x3x224x224" (also with commas), or "NAME=scalar". The
 * last '=' separates, because names of inputs may have one. Sizes are 0 or more: decoders are run
 * with an empty past.
 */
#ifndef PRN_MODEL_BINDINGS_H
#define PRN_MODEL_BINDINGS_H

#include "model/model.h"

/* Strings and arrays belong to `arena`. Faults are PRONY_EUSAGE and quote the text. */
PRONY_MUST_CHECK int prn_bindings_parse(const char *const *dims, size_t n_dims,
                                        const char *const *shapes, size_t n_shapes,
                                        struct prn_arena *arena, struct prn_bindings *ret_bindings,
                                        struct prony_error *err);

#endif
