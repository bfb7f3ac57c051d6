/*
 * Output shapes of operators that work element by element, reduce, or move data. Each function
 * follows the operator's definition over all its versions: where a list moved from an attribute to
 * an input, either is taken. Unknown dimensions (-1) pass through as far as they can.
 */
#include "model/infer/infer.h"

#include <math.h>
#include <string.h>

/* Of output 0 only the rank is known. */
static int set_rank(struct prn_infer_call *c, size_t rank, int dtype)
{
    int64_t dims[PRN_RANK_MAX];
    for (size_t i = 0; i < rank; i++)
        dims[i] = -1;
    return prn_set_out(c, 0, dtype, rank, dims);
}

int prn_shape_same(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    if (!x)
        return PRN_REASON_INPUT;
    prn_set_out_like(c, 0, prn_row_dtype(c), x);
    return 0;
}

int prn_shape_cast(struct prn_infer_call *c)
{
    int64_t to = prn_attr_int(c, "to", PRN_DTYPE_UNDEFINED);
    const struct prn_known *x = prn_in_ranked(c, 0);
    if (to <= 0 || to > INT32_MAX)
        return PRN_REASON_MALFORMED;
    prn_set_out_like(c, 0, (int)to, x);
    return x ? 0 : PRN_REASON_INPUT;
}

int prn_shape_dropout(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    prn_set_out_like(c, 1, PRN_DTYPE_BOOL, x);
    return prn_shape_same(c);
}

/* Before opset 7 the second operand was stretched to the first on demand. */
static bool is_legacy_broadcast(const struct prn_infer_call *c)
{
    return prn_attr_int(c, "broadcast", 0) == 1;
}

int prn_shape_broadcast(struct prn_infer_call *c)
{
    int64_t dims[PRN_RANK_MAX];
    size_t rank = 0;
    if (is_legacy_broadcast(c))
        return prn_shape_same(c);
    if (c->n_in == 0)
        return PRN_REASON_MALFORMED;
    for (size_t i = 0; i < c->n_in; i++) {
        if (!prn_in(c, i))
            continue;
        const struct prn_known *x = prn_in_ranked(c, i);
        if (!x)
            return PRN_REASON_INPUT;
        if (!prn_broadcast(dims, &rank, x))
            return PRN_REASON_MALFORMED;
    }
    return prn_set_out(c, 0, prn_row_dtype(c), rank, dims);
}

int prn_reduce_read(const struct prn_infer_call *c, bool reduced[PRN_RANK_MAX])
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    size_t n = 0;
    bool given;
    const int64_t *axes = prn_attr_or_input(c, "axes", 1, &n, &given);
    if (!x || (given && !axes))
        return PRN_REASON_INPUT;
    if (n > (size_t)x->rank)
        return PRN_REASON_MALFORMED;
    bool all = n == 0 && prn_attr_int(c, "noop_with_empty_axes", 0) == 0;
    for (int i = 0; i < x->rank; i++)
        reduced[i] = all;
    for (size_t i = 0; i < n; i++) {
        size_t axis;
        if (!prn_axis(axes[i], (size_t)x->rank, &axis))
            return PRN_REASON_MALFORMED;
        reduced[axis] = true;
    }
    return 0;
}

static int set_reduced(struct prn_infer_call *c, const struct prn_known *x, const bool *reduced)
{
    int64_t dims[PRN_RANK_MAX];
    bool keep = prn_attr_int(c, "keepdims", 1) != 0;
    size_t rank = 0;
    for (int i = 0; i < x->rank; i++) {
        if (!reduced[i])
            dims[rank++] = x->dims[i];
        else if (keep)
            dims[rank++] = 1;
    }
    return prn_set_out(c, 0, prn_row_dtype(c), rank, dims);
}

int prn_shape_reduce(struct prn_infer_call *c)
{
    bool reduced[PRN_RANK_MAX];
    const struct prn_known *x = prn_in_ranked(c, 0);
    int r = prn_reduce_read(c, reduced);
    if (r == PRN_REASON_INPUT && x && prn_attr_int(c, "keepdims", 1) != 0)
        return set_rank(c, (size_t)x->rank, prn_row_dtype(c));
    return r ? r : set_reduced(c, x, reduced);
}

int prn_shape_arg_reduce(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    bool reduced[PRN_RANK_MAX] = {0};
    size_t axis;
    if (!x)
        return PRN_REASON_INPUT;
    if (!prn_axis(prn_attr_int(c, "axis", 0), (size_t)x->rank, &axis))
        return PRN_REASON_MALFORMED;
    reduced[axis] = true;
    return set_reduced(c, x, reduced);
}

int prn_shape_top_k(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX];
    size_t axis;
    if (!x)
        return PRN_REASON_INPUT;
    int64_t k = prn_attr_int(c, "k", -1);
    if (!prn_axis(prn_attr_int(c, "axis", -1), (size_t)x->rank, &axis) ||
        ((prn_in_int(c, 1, &k) || k != -1) && k < 0))
        return PRN_REASON_MALFORMED;
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    dims[axis] = k;
    int r = prn_set_out(c, 0, x->dtype, (size_t)x->rank, dims);
    return r ? r : prn_set_out(c, 1, PRN_DTYPE_INT64, (size_t)x->rank, dims);
}

int prn_shape_gather(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    const struct prn_known *index = prn_in_ranked(c, 1);
    int64_t dims[2 * PRN_RANK_MAX];
    size_t axis;
    size_t rank = 0;
    if (!x || !index)
        return PRN_REASON_INPUT;
    if (!prn_axis(prn_attr_int(c, "axis", 0), (size_t)x->rank, &axis))
        return PRN_REASON_MALFORMED;
    for (size_t i = 0; i < (size_t)x->rank; i++) {
        if (i != axis)
            dims[rank++] = x->dims[i];
        for (int k = 0; i == axis && k < index->rank; k++)
            dims[rank++] = index->dims[k];
    }
    return prn_set_out(c, 0, x->dtype, rank, dims);
}

int prn_shape_gather_elements(struct prn_infer_call *c)
{
    const struct prn_known *index = prn_in_ranked(c, 1);
    prn_set_out_like(c, 0, prn_row_dtype(c), index);
    return index ? 0 : PRN_REASON_INPUT;
}

int prn_shape_gather_nd(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    const struct prn_known *index = prn_in_ranked(c, 1);
    int64_t dims[2 * PRN_RANK_MAX];
    size_t rank = 0;
    if (!x || !index || (index->rank > 0 && index->dims[index->rank - 1] < 0))
        return PRN_REASON_INPUT;
    int64_t batch = prn_attr_int(c, "batch_dims", 0);
    if (index->rank == 0 || batch < 0 || batch >= index->rank ||
        index->dims[index->rank - 1] > x->rank - batch)
        return PRN_REASON_MALFORMED;
    for (int i = 0; i < index->rank - 1; i++)
        dims[rank++] = index->dims[i];
    for (int64_t i = batch + index->dims[index->rank - 1]; i < x->rank; i++)
        dims[rank++] = x->dims[i];
    return prn_set_out(c, 0, x->dtype, rank, dims);
}

/* One axis of Slice, with the clamping of its definition. */
static bool slice_axis(int64_t dim, int64_t start, int64_t end, int64_t step, int64_t *ret_start,
                       int64_t *ret_count)
{
    if (step == 0)
        return false;
    if (start < 0)
        start += dim;
    if (end < 0)
        end = end < -dim ? -1 : end + dim;
    int64_t low = 0;
    int64_t high = step > 0 ? dim : dim - 1;
    start = start < low ? low : start > high ? high : start;
    low = step > 0 ? 0 : -1;
    end = end < low ? low : end > dim ? dim : end;
    int64_t span = step > 0 ? end - start : start - end;
    uint64_t stride = step > 0 ? (uint64_t)step : -(uint64_t)step;
    *ret_start = start;
    *ret_count = span > 0 ? (int64_t)(((uint64_t)span - 1) / stride) + 1 : 0;
    return true;
}

int prn_slice_read(struct prn_infer_call *c, struct prn_slice *ret_slice)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    size_t n = 0;
    size_t n_ends = 0;
    size_t n_axes = 0;
    size_t n_steps = 0;
    bool given;
    bool has_axes;
    bool has_steps;
    const int64_t *starts = prn_attr_or_input(c, "starts", 1, &n, &given);
    const int64_t *ends = prn_attr_or_input(c, "ends", 2, &n_ends, &given);
    const int64_t *axes = prn_attr_or_input(c, "axes", 3, &n_axes, &has_axes);
    const int64_t *steps = prn_attr_or_input(c, "steps", 4, &n_steps, &has_steps);
    if (!x)
        return PRN_REASON_INPUT;
    for (int i = 0; i < x->rank; i++) {
        ret_slice->start[i] = 0;
        ret_slice->step[i] = 1;
        ret_slice->count[i] = has_axes && !axes ? -1 : x->dims[i];
    }
    if (has_axes && !axes)
        return 0;
    bool known = starts && ends && (steps || !has_steps);
    size_t n_sliced = axes ? n_axes : starts ? n : ends ? n_ends : (size_t)x->rank;
    if ((starts && n != n_sliced) || (ends && n_ends != n_sliced) || n_sliced > PRN_RANK_MAX ||
        (steps && n_steps != n_sliced))
        return PRN_REASON_MALFORMED;
    for (size_t i = 0; i < n_sliced; i++) {
        size_t axis;
        if (!prn_axis(axes ? axes[i] : (int64_t)i, (size_t)x->rank, &axis))
            return PRN_REASON_MALFORMED;
        ret_slice->count[axis] = -1;
        if (!known || x->dims[axis] < 0)
            continue;
        ret_slice->step[axis] = steps ? steps[i] : 1;
        if (!slice_axis(x->dims[axis], starts[i], ends[i], ret_slice->step[axis],
                        &ret_slice->start[axis], &ret_slice->count[axis]))
            return PRN_REASON_MALFORMED;
    }
    return 0;
}

int prn_shape_slice(struct prn_infer_call *c)
{
    struct prn_slice slice;
    int r = prn_slice_read(c, &slice);
    return r ? r : prn_set_out(c, 0, prn_row_dtype(c), (size_t)c->in[0]->rank, slice.count);
}

int prn_shape_split(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX];
    size_t axis;
    size_t n = 0;
    bool given;
    if (!x)
        return PRN_REASON_INPUT;
    const int64_t *sizes = prn_attr_or_input(c, "split", 1, &n, &given);
    if (!prn_axis(prn_attr_int(c, "axis", 0), (size_t)x->rank, &axis) || (sizes && n < c->n_out))
        return PRN_REASON_MALFORMED;
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    int64_t whole = dims[axis];
    int64_t chunk = whole < 0 || !c->n_out ? -1 : (whole - 1) / (int64_t)c->n_out + 1;
    for (size_t i = 0; i < c->n_out; i++) {
        int64_t left = whole - (int64_t)i * chunk;
        dims[axis] = sizes                ? sizes[i]
                     : given || whole < 0 ? -1
                     : left < 0           ? 0
                     : left < chunk       ? left
                                          : chunk;
        int r = prn_set_out(c, i, x->dtype, (size_t)x->rank, dims);
        if (r)
            return r;
    }
    return 0;
}

/* `arg` is the first input of data, `arg2` the distance to the next. */
int prn_shape_concat(struct prn_infer_call *c)
{
    size_t step = (size_t)c->op->arg2;
    const struct prn_known *first = prn_in_ranked(c, (size_t)c->op->arg);
    int64_t dims[PRN_RANK_MAX];
    size_t axis;
    if (!first)
        return PRN_REASON_INPUT;
    size_t rank = (size_t)first->rank;
    /* Opset 1 had 1 for a default. */
    if (!prn_axis(prn_attr_int(c, "axis", 1), rank, &axis))
        return PRN_REASON_MALFORMED;
    memcpy(dims, first->dims, rank * sizeof *dims);
    for (size_t i = (size_t)c->op->arg + step; i < c->n_in; i += step) {
        const struct prn_known *x = prn_in_ranked(c, i);
        if (!x)
            return PRN_REASON_INPUT;
        if ((size_t)x->rank != rank)
            return PRN_REASON_MALFORMED;
        for (size_t k = 0; k < rank; k++) {
            if (k == axis)
                dims[k] = dims[k] < 0 || x->dims[k] < 0 ? -1 : dims[k] + x->dims[k];
            else if (dims[k] < 0)
                dims[k] = x->dims[k];
            else if (x->dims[k] >= 0 && x->dims[k] != dims[k])
                return PRN_REASON_MALFORMED;
        }
        if (dims[axis] > PRN_DIM_MAX)
            return PRN_REASON_SIZE;
    }
    return prn_set_out(c, 0, first->dtype, rank, dims);
}

/* A target of which only the length is known gives the rank. */
static int set_rank_of_target(struct prn_infer_call *c, const struct prn_known *target, int dtype)
{
    if (!target || target->rank != 1 || target->dims[0] < 0 || target->dims[0] > PRN_RANK_MAX)
        return PRN_REASON_INPUT;
    return set_rank(c, (size_t)target->dims[0], dtype);
}

int prn_shape_reshape(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX];
    size_t rank = 0;
    bool given;
    const int64_t *target = prn_attr_or_input(c, "shape", 1, &rank, &given);
    bool allow_zero = prn_attr_int(c, "allowzero", 0) != 0;
    if (!target)
        return set_rank_of_target(c, prn_in(c, 1), prn_row_dtype(c));
    if (rank > PRN_RANK_MAX)
        return PRN_REASON_MALFORMED;
    int64_t elements = prn_known_elements(x);
    int64_t others = 1;
    size_t open = rank;
    for (size_t i = 0; i < rank; i++) {
        dims[i] = target[i];
        if (target[i] == 0 && !allow_zero)
            dims[i] = x && i < (size_t)x->rank ? x->dims[i] : -1;
        if (target[i] == -1) {
            if (open < rank)
                return PRN_REASON_MALFORMED;
            open = i;
        } else if (dims[i] < 0) {
            elements = -1;
        } else if (__builtin_mul_overflow(others, dims[i], &others)) {
            return PRN_REASON_SIZE;
        }
    }
    if (open < rank && elements >= 0) {
        if (others ? elements % others != 0 : elements != 0)
            return PRN_REASON_MALFORMED;
        dims[open] = others ? elements / others : 0;
    } else if (elements >= 0 && elements != others) {
        return PRN_REASON_MALFORMED;
    }
    return prn_set_out(c, 0, prn_row_dtype(c), rank, dims);
}

int prn_shape_flatten(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    if (!x)
        return PRN_REASON_INPUT;
    int64_t axis = prn_attr_int(c, "axis", 1);
    if (axis < 0)
        axis += x->rank;
    if (axis < 0 || axis > x->rank)
        return PRN_REASON_MALFORMED;
    int64_t dims[2] = {1, 1};
    for (int i = 0; i < x->rank; i++) {
        int64_t *side = &dims[i >= axis];
        if (*side < 0 || x->dims[i] < 0)
            *side = -1;
        else if (__builtin_mul_overflow(*side, x->dims[i], side))
            return PRN_REASON_SIZE;
    }
    return prn_set_out(c, 0, x->dtype, 2, dims);
}

int prn_shape_squeeze(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX];
    bool gone[PRN_RANK_MAX] = {0};
    size_t n = 0;
    bool given;
    const int64_t *axes = prn_attr_or_input(c, "axes", 1, &n, &given);
    if (!x || (given && !axes))
        return PRN_REASON_INPUT;
    for (size_t i = 0; i < n; i++) {
        size_t axis;
        if (n > (size_t)x->rank || !prn_axis(axes[i], (size_t)x->rank, &axis) || x->dims[axis] > 1)
            return PRN_REASON_MALFORMED;
        gone[axis] = true;
    }
    size_t rank = 0;
    for (int i = 0; i < x->rank; i++) {
        if (!given && x->dims[i] < 0)
            return PRN_REASON_INPUT;
        if (given ? !gone[i] : x->dims[i] != 1)
            dims[rank++] = x->dims[i];
    }
    return prn_set_out(c, 0, x->dtype, rank, dims);
}

int prn_shape_unsqueeze(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX];
    bool fresh[PRN_RANK_MAX] = {0};
    size_t n = 0;
    bool given;
    const int64_t *axes = prn_attr_or_input(c, "axes", 1, &n, &given);
    if (!x || !axes)
        return PRN_REASON_INPUT;
    if (n > (size_t)(PRN_RANK_MAX - x->rank))
        return PRN_REASON_MALFORMED;
    size_t rank = (size_t)x->rank + n;
    for (size_t i = 0; i < n; i++) {
        size_t axis;
        if (!prn_axis(axes[i], rank, &axis) || fresh[axis])
            return PRN_REASON_MALFORMED;
        fresh[axis] = true;
    }
    for (size_t i = 0, k = 0; i < rank; i++)
        dims[i] = fresh[i] ? 1 : x->dims[k++];
    return prn_set_out(c, 0, x->dtype, rank, dims);
}

int prn_shape_transpose(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX];
    size_t n = 0;
    if (!x)
        return PRN_REASON_INPUT;
    size_t rank = (size_t)x->rank;
    const int64_t *perm = prn_attr_ints(c, "perm", &n);
    if (perm && n != rank)
        return PRN_REASON_MALFORMED;
    for (size_t i = 0; i < rank; i++) {
        size_t axis = rank - 1 - i;
        if (perm && !prn_axis(perm[i], rank, &axis))
            return PRN_REASON_MALFORMED;
        dims[i] = x->dims[axis];
    }
    return prn_set_out(c, 0, x->dtype, rank, dims);
}

int prn_shape_expand(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX];
    size_t rank = 0;
    const int64_t *target = prn_in_ints(c, 1, &rank);
    if (!target)
        return set_rank_of_target(c, prn_in(c, 1), prn_row_dtype(c));
    if (!x)
        return PRN_REASON_INPUT;
    if (rank > PRN_RANK_MAX)
        return PRN_REASON_MALFORMED;
    for (size_t i = 0; i < rank; i++) {
        if (target[i] < 0)
            return PRN_REASON_MALFORMED;
        dims[i] = target[i];
    }
    if (!prn_broadcast(dims, &rank, x))
        return PRN_REASON_MALFORMED;
    return prn_set_out(c, 0, x->dtype, rank, dims);
}

int prn_shape_tile(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX];
    size_t n = 0;
    if (!x)
        return PRN_REASON_INPUT;
    const int64_t *repeats = prn_in_ints(c, 1, &n);
    if (repeats && n != (size_t)x->rank)
        return PRN_REASON_MALFORMED;
    for (int i = 0; i < x->rank; i++) {
        dims[i] = repeats && x->dims[i] >= 0 ? 0 : -1;
        if (dims[i] == 0 &&
            (repeats[i] < 0 || __builtin_mul_overflow(x->dims[i], repeats[i], &dims[i])))
            return PRN_REASON_MALFORMED;
    }
    return prn_set_out(c, 0, x->dtype, (size_t)x->rank, dims);
}

int prn_shape_pad(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX];
    size_t n = 0;
    size_t n_axes = 0;
    bool given;
    if (!x)
        return PRN_REASON_INPUT;
    const int64_t *pads = prn_attr_ints(c, "paddings", &n);
    if (!pads)
        pads = prn_attr_or_input(c, "pads", 1, &n, &given);
    const int64_t *axes = prn_in_ints(c, 3, &n_axes);
    bool known = pads && (axes || !prn_in(c, 3));
    for (int i = 0; i < x->rank; i++)
        dims[i] = known ? x->dims[i] : -1;
    size_t n_padded = axes ? n_axes : (size_t)x->rank;
    if (known && (n_padded > PRN_RANK_MAX || n != 2 * n_padded))
        return PRN_REASON_MALFORMED;
    for (size_t i = 0; known && i < n_padded; i++) {
        size_t axis;
        if (!prn_axis(axes ? axes[i] : (int64_t)i, (size_t)x->rank, &axis))
            return PRN_REASON_MALFORMED;
        if (dims[axis] >= 0 &&
            (__builtin_add_overflow(dims[axis], pads[i], &dims[axis]) ||
             __builtin_add_overflow(dims[axis], pads[n_padded + i], &dims[axis]) || dims[axis] < 0))
            return PRN_REASON_MALFORMED;
    }
    return prn_set_out(c, 0, x->dtype, (size_t)x->rank, dims);
}

/* The definition computes in single precision: 10 × 0.6 is 6, not 5. */
static int64_t scaled(int64_t dim, double scale)
{
    float size = floorf((float)dim * (float)scale);
    return dim < 0 ? -1 : size >= 0 && size <= (float)PRN_DIM_MAX ? (int64_t)size : -2;
}

/* Scales per axis of the result: an attribute in old Upsample, an input since. */
static int set_scaled(struct prn_infer_call *c, size_t scales_input, const int64_t *axes,
                      size_t n_axes)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    const struct prn_attribute *a = prn_attr(c, "scales");
    struct prn_known *scales = prn_in(c, scales_input);
    const union prn_item *items = prn_known_items(c->infer, scales);
    int64_t dims[PRN_RANK_MAX];
    bool is_attribute = a && a->kind == PRN_ATTRIBUTE_FLOATS;
    size_t n = is_attribute ? a->n : items ? (size_t)prn_known_elements(scales) : 0;
    bool known = is_attribute || (items && prn_dtype_is_float(scales->dtype));
    if (known && n != (axes ? n_axes : (size_t)x->rank))
        return PRN_REASON_MALFORMED;
    for (int i = 0; i < x->rank; i++)
        dims[i] = known ? x->dims[i] : -1;
    for (size_t i = 0; i < n && known; i++) {
        size_t axis;
        if (!prn_axis(axes ? axes[i] : (int64_t)i, (size_t)x->rank, &axis))
            return PRN_REASON_MALFORMED;
        dims[axis] = scaled(x->dims[axis], is_attribute ? (double)a->floats[i] : items[i].f);
    }
    return prn_set_out(c, 0, x->dtype, (size_t)x->rank, dims);
}

int prn_shape_upsample(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    const struct prn_attribute *height = prn_attr(c, "height_scale");
    const struct prn_attribute *width = prn_attr(c, "width_scale");
    if (!x)
        return PRN_REASON_INPUT;
    if (!height || !width)
        return set_scaled(c, 1, NULL, 0);
    if (x->rank != 4 || height->kind != PRN_ATTRIBUTE_FLOAT || width->kind != PRN_ATTRIBUTE_FLOAT)
        return PRN_REASON_MALFORMED;
    int64_t dims[4] = {x->dims[0], x->dims[1], scaled(x->dims[2], (double)height->floats[0]),
                       scaled(x->dims[3], (double)width->floats[0])};
    return prn_set_out(c, 0, x->dtype, 4, dims);
}

/* Resize to `sizes` along `axes`, where a policy may keep the ratio of the sides. */
static int set_resized(struct prn_infer_call *c, const int64_t *sizes, const int64_t *axes,
                       size_t n)
{
    const struct prn_known *x = prn_in(c, 0);
    const char *policy = prn_attr_string(c, "keep_aspect_ratio_policy", "stretch");
    bool stretch = strcmp(policy, "stretch") == 0;
    bool smallest = strcmp(policy, "not_larger") == 0;
    int64_t dims[PRN_RANK_MAX];
    double scale = smallest ? INFINITY : 0;
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    for (int pass = stretch; pass < 2; pass++) {
        for (size_t i = 0; i < n; i++) {
            size_t axis;
            if (!prn_axis(axes ? axes[i] : (int64_t)i, (size_t)x->rank, &axis) || sizes[i] < 0 ||
                sizes[i] > PRN_DIM_MAX)
                return PRN_REASON_MALFORMED;
            double ratio = x->dims[axis] > 0 ? (double)sizes[i] / (double)x->dims[axis] : 1;
            if (pass == 0)
                scale = smallest ? fmin(scale, ratio) : fmax(scale, ratio);
            else if (stretch)
                dims[axis] = sizes[i];
            else if (dims[axis] >= 0)
                dims[axis] = (int64_t)fmin(round(scale * (double)dims[axis]), 0x1p41);
        }
    }
    return prn_set_out(c, 0, x->dtype, (size_t)x->rank, dims);
}

int prn_shape_resize(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    size_t n = 0;
    size_t n_axes = 0;
    if (!x)
        return PRN_REASON_INPUT;
    const int64_t *axes = prn_attr_ints(c, "axes", &n_axes);
    /* Opset 10 had the scales where later versions have the region. */
    if (c->n_in == 2)
        return set_scaled(c, 1, NULL, 0);
    const struct prn_known *scales = prn_in(c, 2);
    if (!prn_in(c, 3) || (scales && prn_known_elements(scales) > 0))
        return set_scaled(c, 2, axes, n_axes);
    const int64_t *sizes = prn_in_ints(c, 3, &n);
    if (!sizes)
        return set_scaled(c, 2, axes, n_axes);
    if (n != (axes ? n_axes : (size_t)x->rank) || n > PRN_RANK_MAX)
        return PRN_REASON_MALFORMED;
    return set_resized(c, sizes, axes, n);
}

int prn_shape_depth_to_space(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t block = prn_attr_int(c, "blocksize", 0);
    bool back = c->op->arg != 0; /* SpaceToDepth */
    if (!x)
        return PRN_REASON_INPUT;
    if (x->rank != 4 || block < 1 || block > PRN_WINDOW_MAX)
        return PRN_REASON_MALFORMED;
    int64_t dims[4] = {x->dims[0], -1, -1, -1};
    for (int i = 1; i < 4; i++) {
        int64_t factor = i == 1 ? block * block : block;
        bool grows = (i != 1) != back;
        if (x->dims[i] < 0)
            continue;
        if (grows ? __builtin_mul_overflow(x->dims[i], factor, &dims[i]) : x->dims[i] % factor)
            return PRN_REASON_MALFORMED;
        if (!grows)
            dims[i] = x->dims[i] / factor;
    }
    return prn_set_out(c, 0, x->dtype, 4, dims);
}

int prn_shape_one_hot(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX + 1];
    double depth = -1;
    size_t axis;
    if (!x)
        return PRN_REASON_INPUT;
    size_t rank = (size_t)x->rank + 1;
    if (!prn_axis(prn_attr_int(c, "axis", -1), rank, &axis) ||
        (prn_in_number(c, 1, &depth) && !(depth >= 0 && depth <= (double)PRN_DIM_MAX)))
        return PRN_REASON_MALFORMED;
    for (size_t i = 0, k = 0; i < rank; i++)
        dims[i] = i == axis ? (int64_t)depth : x->dims[k++];
    return prn_set_out(c, 0, prn_row_dtype(c), rank, dims);
}

static size_t count_true(const union prn_item *items, size_t n, bool is_float)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        count += is_float ? items[i].f != 0 : items[i].i != 0;
    return count;
}

int prn_shape_non_zero(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    if (!x)
        return PRN_REASON_INPUT;
    const union prn_item *items = prn_known_items(c->infer, prn_in(c, 0));
    int64_t dims[2] = {x->rank ? x->rank : 1, -1};
    if (items)
        dims[1] =
            (int64_t)count_true(items, (size_t)prn_known_elements(x), prn_dtype_is_float(x->dtype));
    return prn_set_out(c, 0, PRN_DTYPE_INT64, 2, dims);
}

int prn_shape_compress(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    const struct prn_attribute *a = prn_attr(c, "axis");
    int64_t dims[PRN_RANK_MAX] = {-1};
    size_t n = 0;
    size_t axis = 0;
    if (!x)
        return PRN_REASON_INPUT;
    if (a && !prn_axis(prn_attr_int(c, "axis", 0), (size_t)x->rank, &axis))
        return PRN_REASON_MALFORMED;
    if (a)
        memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    const int64_t *condition = prn_in_ints(c, 1, &n);
    dims[axis] = condition ? 0 : -1;
    for (size_t i = 0; condition && i < n; i++)
        dims[axis] += condition[i] != 0;
    return prn_set_out(c, 0, x->dtype, a ? (size_t)x->rank : 1, dims);
}

int prn_shape_unique(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX] = {-1};
    size_t axis = 0;
    for (size_t i = 1; i < 4; i++) {
        int r = prn_set_out(c, i, PRN_DTYPE_INT64, 1, dims);
        if (r)
            return r;
    }
    bool flat = !prn_attr(c, "axis");
    if (!x)
        return PRN_REASON_INPUT;
    if (!flat && !prn_axis(prn_attr_int(c, "axis", 0), (size_t)x->rank, &axis))
        return PRN_REASON_MALFORMED;
    if (!flat)
        memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    dims[axis] = -1;
    return prn_set_out(c, 0, x->dtype, flat ? 1 : (size_t)x->rank, dims);
}

int prn_shape_nms(struct prn_infer_call *c)
{
    return prn_set_out(c, 0, PRN_DTYPE_INT64, 2, (const int64_t[]){-1, 3});
}

static int64_t range_count(double start, double limit, double delta)
{
    double n = ceil((limit - start) / delta);
    return !(n > 0) ? 0 : n <= (double)PRN_DIM_MAX ? (int64_t)n : -2;
}

int prn_shape_range(struct prn_infer_call *c)
{
    int64_t dim = -1;
    double start;
    double limit;
    double delta;
    if (prn_in_number(c, 0, &start) && prn_in_number(c, 1, &limit) && prn_in_number(c, 2, &delta)) {
        if (delta == 0)
            return PRN_REASON_MALFORMED;
        dim = range_count(start, limit, delta);
    }
    return prn_set_out(c, 0, prn_row_dtype(c), 1, &dim);
}

int prn_shape_shape(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    if (!x)
        return PRN_REASON_INPUT;
    int64_t bounds[2] = {prn_attr_int(c, "start", 0), prn_attr_int(c, "end", x->rank)};
    for (int i = 0; i < 2; i++) {
        bounds[i] += bounds[i] < 0 ? x->rank : 0;
        bounds[i] = bounds[i] < 0 ? 0 : bounds[i] > x->rank ? x->rank : bounds[i];
    }
    int64_t dim = bounds[1] > bounds[0] ? bounds[1] - bounds[0] : 0;
    int r = prn_set_out(c, 0, PRN_DTYPE_INT64, 1, &dim);
    if (r || prn_known_elements(x) < 0)
        return r;
    union prn_item *items = prn_fold_out(c, 0);
    for (int64_t i = 0; items && i < dim; i++)
        items[i].i = x->dims[bounds[0] + i];
    return 0;
}

int prn_shape_scalar(struct prn_infer_call *c)
{
    return prn_set_out(c, 0, prn_row_dtype(c), 0, NULL);
}

int prn_shape_size(struct prn_infer_call *c)
{
    int64_t elements = prn_known_elements(prn_in_ranked(c, 0));
    int r = prn_set_out(c, 0, PRN_DTYPE_INT64, 0, NULL);
    union prn_item *items = !r && elements >= 0 ? prn_fold_out(c, 0) : NULL;
    if (items)
        items[0].i = elements;
    return r;
}

/* Constant's value_int(s) and value_float(s): contents from the attribute itself. */
static int constant_list(struct prn_infer_call *c, const struct prn_attribute *a)
{
    bool is_list = a->kind == PRN_ATTRIBUTE_INTS || a->kind == PRN_ATTRIBUTE_FLOATS ||
                   a->kind == PRN_ATTRIBUTE_STRINGS;
    int dtype = a->floats ? PRN_DTYPE_FLOAT : a->ints ? PRN_DTYPE_INT64 : PRN_DTYPE_STRING;
    if (a->n == 0)
        dtype = a->kind == PRN_ATTRIBUTE_INTS     ? PRN_DTYPE_INT64
                : a->kind == PRN_ATTRIBUTE_FLOATS ? PRN_DTYPE_FLOAT
                                                  : PRN_DTYPE_STRING;
    int64_t dim = (int64_t)a->n;
    int r = prn_set_out(c, 0, dtype, is_list, &dim);
    if (r || dtype == PRN_DTYPE_STRING)
        return r;
    union prn_item *items = prn_fold_out(c, 0);
    for (int64_t i = 0; items && i < dim; i++) {
        if (a->floats)
            items[i].f = (double)a->floats[i];
        else
            items[i].i = a->ints[i];
    }
    return 0;
}

int prn_shape_constant(struct prn_infer_call *c)
{
    static const char *const names[] = {"value_int",    "value_ints",   "value_float",
                                        "value_floats", "value_string", "value_strings"};
    const struct prn_attribute *value = prn_attr(c, "value");
    if (value && value->kind == PRN_ATTRIBUTE_TENSOR && value->tensor) {
        int r = prn_set_out(c, 0, value->tensor->dtype, value->tensor->rank, value->tensor->dims);
        if (r == 0 && c->n_out)
            c->out[0]->constant = value->tensor;
        return r;
    }
    for (size_t i = 0; i < PRN_ARRAY_SIZE(names); i++) {
        const struct prn_attribute *a = prn_attr(c, names[i]);
        if (a && a->kind != PRN_ATTRIBUTE_OTHER && a->kind != PRN_ATTRIBUTE_TENSOR &&
            a->kind != PRN_ATTRIBUTE_GRAPH && a->kind != PRN_ATTRIBUTE_GRAPHS)
            return constant_list(c, a);
    }
    return PRN_REASON_OUTPUT;
}

int prn_shape_constant_of_shape(struct prn_infer_call *c)
{
    const struct prn_attribute *value = prn_attr(c, "value");
    size_t rank = 0;
    const int64_t *dims = prn_in_ints(c, 0, &rank);
    int dtype = value && value->tensor ? value->tensor->dtype : PRN_DTYPE_FLOAT;
    if (!dims)
        return set_rank_of_target(c, prn_in(c, 0), dtype);
    for (size_t i = 0; i < rank; i++)
        if (dims[i] < 0)
            return PRN_REASON_MALFORMED;
    return prn_set_out(c, 0, dtype, rank, dims);
}

int prn_shape_random(struct prn_infer_call *c)
{
    size_t rank = 0;
    const int64_t *dims = prn_attr_ints(c, "shape", &rank);
    int64_t dtype = prn_attr_int(c, "dtype", PRN_DTYPE_FLOAT);
    if (!dims || dtype < 0 || dtype > INT32_MAX)
        return PRN_REASON_MALFORMED;
    return prn_set_out(c, 0, (int)dtype, rank, dims);
}

int prn_shape_random_like(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dtype = prn_attr_int(c, "dtype", x ? x->dtype : 0);
    if (dtype < 0 || dtype > INT32_MAX)
        return PRN_REASON_MALFORMED;
    prn_set_out_like(c, 0, (int)dtype, x);
    return x ? 0 : PRN_REASON_INPUT;
}

int prn_shape_multinomial(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dtype = prn_attr_int(c, "dtype", PRN_DTYPE_INT32);
    if (!x)
        return PRN_REASON_INPUT;
    if (x->rank != 2 || dtype < 0 || dtype > INT32_MAX)
        return PRN_REASON_MALFORMED;
    int64_t dims[2] = {x->dims[0], prn_attr_int(c, "sample_size", 1)};
    return prn_set_out(c, 0, (int)dtype, 2, dims);
}

int prn_shape_center_crop_pad(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX];
    size_t n = 0;
    size_t n_axes = 0;
    if (!x)
        return PRN_REASON_INPUT;
    const int64_t *axes = prn_attr_ints(c, "axes", &n_axes);
    const int64_t *sizes = prn_in_ints(c, 1, &n);
    if (!axes)
        n_axes = (size_t)x->rank;
    if (n_axes > PRN_RANK_MAX || (sizes && n != n_axes))
        return PRN_REASON_MALFORMED;
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    for (size_t i = 0; i < n_axes; i++) {
        size_t axis;
        if (!prn_axis(axes ? axes[i] : (int64_t)i, (size_t)x->rank, &axis))
            return PRN_REASON_MALFORMED;
        dims[axis] = sizes ? sizes[i] : -1;
    }
    return prn_set_out(c, 0, x->dtype, (size_t)x->rank, dims);
}

int prn_shape_sequence(struct prn_infer_call *c)
{
    for (size_t i = 0; i < c->n_out; i++)
        c->out[i]->kind = PRN_VALUE_SEQUENCE;
    return 0;
}

/* Optional and Identity-like operators pass on whatever they get. */
int prn_shape_pass(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in(c, 0);
    if (!x || !c->n_out)
        return PRN_REASON_OUTPUT;
    *c->out[0] = *x;
    return x->kind == PRN_VALUE_TENSOR && x->rank < 0 ? PRN_REASON_INPUT : 0;
}

/* The shape depends on data. */
int prn_shape_unknown(struct prn_infer_call *c)
{
    (void)c;
    return PRN_REASON_OUTPUT;
}
