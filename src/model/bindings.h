/*
 * The texts of --dim and --shape, as `prony model` and `prony profile` take them.
 *
 * A dimension is "NAME=SIZE", a shape "NAME=1x3x224x224" (or "1,3,224,224"), or "NAME=scalar". The
 * last '=' separates, because names of inputs may have one. Sizes are 0 or more: decoders are run
 * with an empty past.
 *
 * Either may be a list, and then it is an axis of a sweep: "batch=1,2,4", "x=1x3,8x3". Commas
 * separate shapes when there is an 'x' and sizes of one shape otherwise; '|' always separates
 * shapes, so that "x=8|16" is a list for an input of rank 1.
 */
#ifndef PRN_MODEL_BINDINGS_H
#define PRN_MODEL_BINDINGS_H

#include "model/model.h"

#include "base/buffer.h"

/* Most points of a sweep: each keeps its inputs, and a descriptor, for the whole measurement. */
#define PRN_SWEEP_POINTS_MAX 256

/* All values of one --dim or --shape. */
struct prn_axis {
    const char *name; /* of the dimension, or of the input */
    size_t n;
    const struct prn_dim_binding *dims;     /* NULL: these are shapes */
    const struct prn_shape_binding *shapes; /* NULL: these are sizes */
};

/* Points are all combinations of values, the last axis changing fastest: dimensions come first,
 * then shapes, each in the order given. */
struct prn_sweep {
    size_t n_axes, n_points; /* one point when no text is a list */
    struct prn_axis *axes;
};

/* Strings and arrays belong to `arena`. Faults are PRONY_EUSAGE and quote the text. */
PRONY_MUST_CHECK int prn_sweep_parse(const char *const *dims, size_t n_dims,
                                     const char *const *shapes, size_t n_shapes,
                                     struct prn_arena *arena, struct prn_sweep *ret_sweep,
                                     struct prony_error *err);

/* Which value of an axis a point has. */
size_t prn_sweep_value(const struct prn_sweep *sweep, size_t point, size_t axis);

PRONY_MUST_CHECK int prn_sweep_bindings(const struct prn_sweep *sweep, size_t point,
                                        struct prn_arena *arena, struct prn_bindings *ret_bindings,
                                        struct prony_error *err);

/* Appends what the lists set at a point: "batch=4, x=8x3"; nothing without lists. */
void prn_sweep_label(const struct prn_sweep *sweep, size_t point, struct prn_buffer *out);

/* The same texts where only one value each makes sense. */
PRONY_MUST_CHECK int prn_bindings_parse(const char *const *dims, size_t n_dims,
                                        const char *const *shapes, size_t n_shapes,
                                        struct prn_arena *arena, struct prn_bindings *ret_bindings,
                                        struct prony_error *err);

#endif
