/*
 * Constant folding of the small tensors with which graphs compute shapes. A folder runs after the
 * shape of its output is known and leaves the output's contents unset whenever something isn't
 * known, too large, or has no defined result (division by zero); then the value is merely unknown.
 *
 * Most folders are one of two patterns: an element-wise kernel over broadcast operands, or a copy
 * with strides (Slice, Expand, Transpose, Split).
 */
#include "model/infer/infer.h"

#include <math.h>
#include <string.h>

/* Steps through the index space of `dims`, keeping one offset per operand. */
#define OPERANDS_MAX 3

struct walk {
    size_t rank;
    const int64_t *dims;
    int64_t index[PRN_RANK_MAX];
    int64_t stride[OPERANDS_MAX][PRN_RANK_MAX];
    int64_t offset[OPERANDS_MAX];
};

static void walk_next(struct walk *w, size_t operands)
{
    for (size_t i = w->rank; i-- > 0;) {
        w->index[i]++;
        for (size_t k = 0; k < operands; k++)
            w->offset[k] += w->stride[k][i];
        if (w->index[i] < w->dims[i])
            return;
        for (size_t k = 0; k < operands; k++)
            w->offset[k] -= w->stride[k][i] * w->dims[i];
        w->index[i] = 0;
    }
}

/* Row-major strides of `t` when it is broadcast to `rank` dimensions. */
static void broadcast_strides(const struct prn_known *t, size_t rank, int64_t *ret)
{
    int64_t stride = 1;
    for (size_t i = rank, k = (size_t)t->rank; i-- > 0;) {
        ret[i] = 0;
        if (k > 0) {
            k--;
            ret[i] = t->dims[k] == 1 ? 0 : stride;
            stride *= t->dims[k];
        }
    }
}

static bool is_float(const struct prn_known *t)
{
    return prn_dtype_is_float(t->dtype);
}

static union prn_item *fresh_items(struct prn_infer_call *c, size_t i, size_t *ret_count)
{
    union prn_item *items = prn_fold_out(c, i);
    *ret_count = items ? (size_t)prn_known_elements(c->out[i]) : 0;
    return items;
}

/* Contents of all `n` inputs, or false. Nothing is decoded unless all can be. */
static bool all_items(struct prn_infer_call *c, size_t n, const union prn_item **ret)
{
    if (c->n_in < n || c->n_out == 0)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!prn_known_foldable(c->in[i]))
            return false;
    for (size_t i = 0; i < n; i++) {
        ret[i] = prn_known_items(c->infer, c->in[i]);
        if (!ret[i])
            return false;
    }
    return true;
}

static void unfold(struct prn_infer_call *c, size_t i)
{
    c->out[i]->items = NULL;
}

/* ---- Element-wise kernels: false when there is no result ---- */

struct kernel {
    bool (*ints)(int64_t a, int64_t b, int64_t *ret);
    bool (*floats)(double a, double b, double *ret);
};

/* Integers wrap around as they do at run time. */
#define WRAP(a, op, b) ((int64_t)((uint64_t)(a)op(uint64_t)(b)))

#define KERNEL(name, int_guard, int_result, float_result)       \
    static bool name##_ints(int64_t a, int64_t b, int64_t *ret) \
    {                                                           \
        (void)b;                                                \
        if (!(int_guard))                                       \
            return false;                                       \
        *ret = (int_result);                                    \
        return true;                                            \
    }                                                           \
    static bool name##_floats(double a, double b, double *ret)  \
    {                                                           \
        (void)b;                                                \
        *ret = (float_result);                                  \
        return true;                                            \
    }                                                           \
    static const struct kernel name##_kernel = {name##_ints, name##_floats};

KERNEL(add, true, WRAP(a, +, b), a + b)
KERNEL(sub, true, WRAP(a, -, b), a - b)
KERNEL(mul, true, WRAP(a, *, b), a *b)
KERNEL(div, b != 0 && !(a == INT64_MIN && b == -1), a / b, a / b)
/* Mod has the sign of the divisor; with fmod=1, which floats need, that of the dividend. */
KERNEL(remainder, b != 0 && b != -1, a % b, fmod(a, b))
KERNEL(mod, b != 0 && b != -1, a % b + (a % b != 0 && (a ^ b) < 0 ? b : 0), fmod(a, b))
KERNEL(min, true, a < b ? a : b, fmin(a, b))
KERNEL(max, true, a > b ? a : b, fmax(a, b))
KERNEL(pow, true, (int64_t)fmax(fmin(pow((double)a, (double)b), 0x1p62), -0x1p62), pow(a, b))
KERNEL(neg, true, WRAP(0, -, a), -a)
KERNEL(abs, true, a < 0 ? WRAP(0, -, a) : a, fabs(a))
KERNEL(relu, true, a > 0 ? a : 0, fmax(a, 0))
KERNEL(floor, true, a, floor(a))
KERNEL(ceil, true, a, ceil(a))
KERNEL(round, true, a, nearbyint(a))
KERNEL(sqrt, false, a, sqrt(a))
KERNEL(sign, true, (a > 0) - (a < 0), (a > 0) - (a < 0))
KERNEL(and, true, a != 0 && b != 0, a != 0 && b != 0)
KERNEL(or, true, a != 0 || b != 0, a != 0 || b != 0)
KERNEL(xor, true, (a != 0) != (b != 0), (a != 0) != (b != 0))
KERNEL(not, true, a == 0, a == 0)

/* Comparisons give integers whatever they compare. */
struct comparison {
    bool (*ints)(int64_t a, int64_t b);
    bool (*floats)(double a, double b);
};

#define COMPARISON(name, op)                      \
    static bool name##_ints(int64_t a, int64_t b) \
    {                                             \
        return a op b;                            \
    }                                             \
    static bool name##_floats(double a, double b) \
    {                                             \
        return a op b;                            \
    }                                             \
    static const struct comparison name##_comparison = {name##_ints, name##_floats};

COMPARISON(equal, ==)
COMPARISON(less, <)
COMPARISON(less_equal, <=)
COMPARISON(greater, >)
COMPARISON(greater_equal, >=)

static void fold_unary(struct prn_infer_call *c, const struct kernel *kernel)
{
    const union prn_item *x;
    size_t n;
    if (!all_items(c, 1, &x))
        return;
    union prn_item *out = fresh_items(c, 0, &n);
    bool floats = is_float(c->in[0]);
    for (size_t i = 0; i < n; i++)
        if (!(floats ? kernel->floats(x[i].f, 0, &out[i].f) : kernel->ints(x[i].i, 0, &out[i].i)))
            return unfold(c, 0);
}

/* Folds two operands into `out`, which may be one of them when it has the result's shape. */
static bool fold_pair(struct prn_infer_call *c, const struct kernel *kernel,
                      const struct prn_known *a, const union prn_item *a_items,
                      const struct prn_known *b, const union prn_item *b_items, union prn_item *out,
                      size_t n)
{
    const struct prn_known *result = c->out[0];
    struct walk w = {.rank = (size_t)result->rank, .dims = result->dims};
    bool floats = is_float(a);
    if (floats != is_float(b))
        return false;
    broadcast_strides(a, w.rank, w.stride[0]);
    broadcast_strides(b, w.rank, w.stride[1]);
    for (size_t i = 0; i < n; i++, walk_next(&w, 2)) {
        union prn_item p = a_items[w.offset[0]];
        union prn_item q = b_items[w.offset[1]];
        if (!(floats ? kernel->floats(p.f, q.f, &out[i].f) : kernel->ints(p.i, q.i, &out[i].i)))
            return false;
    }
    return true;
}

static void fold_binary(struct prn_infer_call *c, const struct kernel *kernel)
{
    const union prn_item *x[2];
    size_t n;
    if (c->n_in != 2 || !all_items(c, 2, x))
        return;
    union prn_item *out = fresh_items(c, 0, &n);
    if (out && !fold_pair(c, kernel, c->in[0], x[0], c->in[1], x[1], out, n))
        unfold(c, 0);
}

/* Max, Min and Sum of any number of operands. */
static void fold_variadic(struct prn_infer_call *c, const struct kernel *kernel)
{
    size_t n;
    for (size_t i = 0; i < c->n_in; i++)
        if (!prn_known_foldable(c->in[i]))
            return;
    const union prn_item *first = c->n_in ? prn_known_items(c->infer, c->in[0]) : NULL;
    union prn_item *out = first ? fresh_items(c, 0, &n) : NULL;
    if (!out)
        return;
    const struct prn_known *so_far = c->in[0];
    const union prn_item *so_far_items = first;
    if (c->n_in == 1)
        memcpy(out, first, n * sizeof *out);
    for (size_t i = 1; i < c->n_in; i++) {
        const union prn_item *x = prn_known_items(c->infer, c->in[i]);
        if (!x || !prn_infer_fold_budget(c->infer, n) ||
            !fold_pair(c, kernel, so_far, so_far_items, c->in[i], x, out, n))
            return unfold(c, 0);
        so_far = c->out[0];
        so_far_items = out;
    }
}

static void fold_comparison(struct prn_infer_call *c, const struct comparison *comparison)
{
    const union prn_item *x[2];
    size_t n;
    if (c->n_in != 2 || !all_items(c, 2, x) || is_float(c->in[0]) != is_float(c->in[1]))
        return;
    union prn_item *out = fresh_items(c, 0, &n);
    if (!out)
        return;
    struct walk w = {.rank = (size_t)c->out[0]->rank, .dims = c->out[0]->dims};
    broadcast_strides(c->in[0], w.rank, w.stride[0]);
    broadcast_strides(c->in[1], w.rank, w.stride[1]);
    bool floats = is_float(c->in[0]);
    for (size_t i = 0; i < n; i++, walk_next(&w, 2)) {
        union prn_item p = x[0][w.offset[0]];
        union prn_item q = x[1][w.offset[1]];
        out[i].i = floats ? comparison->floats(p.f, q.f) : comparison->ints(p.i, q.i);
    }
}

#define FOLD(how, name, row)                       \
    void prn_fold_##name(struct prn_infer_call *c) \
    {                                              \
        fold_##how(c, &row);                       \
    }

FOLD(binary, add, add_kernel)
FOLD(binary, sub, sub_kernel)
FOLD(binary, mul, mul_kernel)
FOLD(binary, div, div_kernel)
FOLD(binary, pow, pow_kernel)
FOLD(binary, and, and_kernel)
FOLD(binary, or, or_kernel)
FOLD(binary, xor, xor_kernel)
FOLD(variadic, min, min_kernel)
FOLD(variadic, max, max_kernel)
FOLD(variadic, sum, add_kernel)
FOLD(unary, not, not_kernel)
FOLD(unary, neg, neg_kernel)
FOLD(unary, abs, abs_kernel)
FOLD(unary, relu, relu_kernel)
FOLD(unary, floor, floor_kernel)
FOLD(unary, ceil, ceil_kernel)
FOLD(unary, round, round_kernel)
FOLD(unary, sqrt, sqrt_kernel)
FOLD(unary, sign, sign_kernel)
FOLD(comparison, equal, equal_comparison)
FOLD(comparison, less, less_comparison)
FOLD(comparison, less_equal, less_equal_comparison)
FOLD(comparison, greater, greater_comparison)
FOLD(comparison, greater_equal, greater_equal_comparison)

void prn_fold_mod(struct prn_infer_call *c)
{
    fold_binary(c, prn_attr_int(c, "fmod", 0) ? &remainder_kernel : &mod_kernel);
}

void prn_fold_where(struct prn_infer_call *c)
{
    const union prn_item *x[3];
    size_t n;
    if (c->n_in != 3 || !all_items(c, 3, x) || is_float(c->in[1]) != is_float(c->in[2]))
        return;
    union prn_item *out = fresh_items(c, 0, &n);
    if (!out)
        return;
    struct walk w = {.rank = (size_t)c->out[0]->rank, .dims = c->out[0]->dims};
    for (size_t k = 0; k < 3; k++)
        broadcast_strides(c->in[k], w.rank, w.stride[k]);
    for (size_t i = 0; i < n; i++, walk_next(&w, 3))
        out[i] = x[0][w.offset[0]].i ? x[1][w.offset[1]] : x[2][w.offset[2]];
}

/* Float to integer as a cast does it; false where C leaves it undefined. */
static bool to_integer(double value, int64_t *ret)
{
    if (!(value > -0x1p63 && value < 0x1p63))
        return false;
    *ret = (int64_t)value;
    return true;
}

void prn_fold_cast(struct prn_infer_call *c)
{
    const union prn_item *x;
    size_t n;
    if (!all_items(c, 1, &x))
        return;
    bool from_float = is_float(c->in[0]);
    bool to_float = is_float(c->out[0]);
    bool to_bool = c->out[0]->dtype == PRN_DTYPE_BOOL;
    if (!to_float && !to_bool && !prn_dtype_is_integer(c->out[0]->dtype))
        return;
    union prn_item *out = fresh_items(c, 0, &n);
    for (size_t i = 0; i < n; i++) {
        if (to_float)
            out[i].f = from_float ? x[i].f : (double)x[i].i;
        else if (to_bool)
            out[i].i = from_float ? x[i].f != 0 : x[i].i != 0;
        else if (!from_float)
            out[i].i = x[i].i;
        else if (!to_integer(x[i].f, &out[i].i))
            return unfold(c, 0);
    }
}

/* ---- Moving ---- */

/* The elements stay as they are under another shape: Reshape and the like share them. */
void prn_fold_view(struct prn_infer_call *c)
{
    const union prn_item *x;
    if (all_items(c, 1, &x) && prn_known_elements(c->out[0]) == prn_known_elements(c->in[0]))
        c->out[0]->items = x;
}

static void copy_strided(union prn_item *out, size_t n, const union prn_item *in, struct walk *w)
{
    for (size_t i = 0; i < n; i++, walk_next(w, 1))
        out[i] = in[w->offset[0]];
}

void prn_fold_expand(struct prn_infer_call *c)
{
    const union prn_item *x;
    size_t n;
    if (!all_items(c, 1, &x))
        return;
    union prn_item *out = fresh_items(c, 0, &n);
    if (!out)
        return;
    struct walk w = {.rank = (size_t)c->out[0]->rank, .dims = c->out[0]->dims};
    broadcast_strides(c->in[0], w.rank, w.stride[0]);
    copy_strided(out, n, x, &w);
}

/* Row-major strides of a tensor as it is. */
static void plain_strides(const struct prn_known *t, int64_t *ret)
{
    int64_t stride = 1;
    for (int i = t->rank; i-- > 0;) {
        ret[i] = stride;
        stride *= t->dims[i];
    }
}

void prn_fold_transpose(struct prn_infer_call *c)
{
    const union prn_item *x;
    int64_t strides[PRN_RANK_MAX];
    size_t n;
    size_t n_perm = 0;
    if (!all_items(c, 1, &x))
        return;
    union prn_item *out = fresh_items(c, 0, &n);
    if (!out)
        return;
    const int64_t *perm = prn_attr_ints(c, "perm", &n_perm);
    struct walk w = {.rank = (size_t)c->out[0]->rank, .dims = c->out[0]->dims};
    plain_strides(c->in[0], strides);
    for (size_t i = 0; i < w.rank; i++) {
        size_t axis = w.rank - 1 - i;
        if (perm && !prn_axis(perm[i], w.rank, &axis))
            return unfold(c, 0);
        w.stride[0][i] = strides[axis];
    }
    copy_strided(out, n, x, &w);
}

void prn_fold_slice(struct prn_infer_call *c)
{
    const union prn_item *x;
    struct prn_slice slice;
    int64_t strides[PRN_RANK_MAX];
    size_t n;
    if (!all_items(c, 1, &x) || prn_slice_read(c, &slice))
        return;
    union prn_item *out = fresh_items(c, 0, &n);
    if (!out || n == 0)
        return;
    struct walk w = {.rank = (size_t)c->out[0]->rank, .dims = c->out[0]->dims};
    plain_strides(c->in[0], strides);
    for (size_t i = 0; i < w.rank; i++) {
        /* With one element the step is never taken, and may be anything. */
        w.stride[0][i] = slice.count[i] > 1 ? strides[i] * slice.step[i] : 0;
        w.offset[0] += strides[i] * slice.start[i];
    }
    copy_strided(out, n, x, &w);
}

void prn_fold_split(struct prn_infer_call *c)
{
    const union prn_item *x;
    size_t axis;
    if (!all_items(c, 1, &x) ||
        !prn_axis(prn_attr_int(c, "axis", 0), (size_t)c->in[0]->rank, &axis))
        return;
    int64_t begin = 0;
    for (size_t i = 0; i < c->n_out; i++) {
        size_t n;
        union prn_item *out = fresh_items(c, i, &n);
        if (!out)
            return;
        struct walk w = {.rank = (size_t)c->out[i]->rank, .dims = c->out[i]->dims};
        plain_strides(c->in[0], w.stride[0]);
        w.offset[0] = begin * w.stride[0][axis];
        begin += w.dims[axis];
        if (begin > c->in[0]->dims[axis])
            return unfold(c, i);
        copy_strided(out, n, x, &w);
    }
}

void prn_fold_tile(struct prn_infer_call *c)
{
    const union prn_item *x;
    int64_t strides[PRN_RANK_MAX];
    size_t n;
    if (!all_items(c, 1, &x))
        return;
    union prn_item *out = fresh_items(c, 0, &n);
    if (!out)
        return;
    struct walk w = {.rank = (size_t)c->out[0]->rank, .dims = c->out[0]->dims};
    plain_strides(c->in[0], strides);
    for (size_t i = 0; i < n; i++, walk_next(&w, 0)) {
        int64_t offset = 0;
        for (size_t k = 0; k < w.rank; k++)
            offset += w.index[k] % c->in[0]->dims[k] * strides[k];
        out[i] = x[offset];
    }
}

void prn_fold_gather(struct prn_infer_call *c)
{
    const union prn_item *x[2];
    size_t n;
    size_t axis;
    if (!all_items(c, 2, x) || is_float(c->in[1]) ||
        !prn_axis(prn_attr_int(c, "axis", 0), (size_t)c->in[0]->rank, &axis))
        return;
    union prn_item *out = fresh_items(c, 0, &n);
    if (!out || n == 0)
        return;
    int64_t inner = 1;
    for (size_t i = axis + 1; i < (size_t)c->in[0]->rank; i++)
        inner *= c->in[0]->dims[i];
    int64_t rows = c->in[0]->dims[axis];
    int64_t indices = prn_known_elements(c->in[1]);
    for (int64_t i = 0; i < (int64_t)n; i++) {
        int64_t row = x[1][i / inner % indices].i;
        row += row < 0 ? rows : 0;
        if (row < 0 || row >= rows)
            return unfold(c, 0);
        out[i] = x[0][(i / inner / indices * rows + row) * inner + i % inner];
    }
}

void prn_fold_concat(struct prn_infer_call *c)
{
    size_t n;
    size_t axis;
    for (size_t i = 0; i < c->n_in; i++)
        if (!prn_known_foldable(c->in[i]))
            return;
    union prn_item *out = c->n_in ? fresh_items(c, 0, &n) : NULL;
    if (!out || !prn_axis(prn_attr_int(c, "axis", 1), (size_t)c->out[0]->rank, &axis))
        return;
    const int64_t *dims = c->out[0]->dims;
    int64_t outer = 1;
    for (size_t i = 0; i < axis; i++)
        outer *= dims[i];
    int64_t row = outer ? (int64_t)n / outer : 0;
    int64_t begin = 0;
    for (size_t i = 0; i < c->n_in; i++) {
        const union prn_item *x = prn_known_items(c->infer, c->in[i]);
        int64_t elements = prn_known_elements(c->in[i]);
        int64_t part = outer ? elements / outer : 0;
        if (!x || begin + part > row)
            return unfold(c, 0);
        for (int64_t k = 0; part && k < outer; k++)
            memcpy(out + k * row + begin, x + k * part, (size_t)part * sizeof *out);
        begin += part;
    }
}

/* ---- Making ---- */

void prn_fold_range(struct prn_infer_call *c)
{
    const union prn_item *x[3];
    size_t n;
    if (!all_items(c, 3, x))
        return;
    union prn_item *out = fresh_items(c, 0, &n);
    bool floats = is_float(c->in[0]);
    for (size_t i = 0; i < n; i++) {
        if (floats)
            out[i].f = x[0]->f + (double)i * x[2]->f;
        else
            out[i].i = WRAP(x[0]->i, +, (uint64_t)i * (uint64_t)x[2]->i);
    }
}

void prn_fold_constant_of_shape(struct prn_infer_call *c)
{
    const struct prn_attribute *value = prn_attr(c, "value");
    union prn_item fill = {0};
    size_t n;
    if (value && value->tensor) {
        struct prn_known t = {.dtype = value->tensor->dtype,
                              .rank = (int)value->tensor->rank,
                              .dims = value->tensor->dims,
                              .constant = value->tensor};
        if (prn_known_elements(&t) != 1)
            return;
        const union prn_item *items = prn_known_items(c->infer, &t);
        if (!items)
            return;
        fill = items[0];
    } else {
        fill.f = 0;
    }
    union prn_item *out = c->n_out ? fresh_items(c, 0, &n) : NULL;
    for (size_t i = 0; out && i < n; i++)
        out[i] = fill;
}

void prn_fold_non_zero(struct prn_infer_call *c)
{
    const union prn_item *x;
    size_t n;
    if (!all_items(c, 1, &x) || c->in[0]->rank == 0)
        return;
    union prn_item *out = fresh_items(c, 0, &n);
    if (!out)
        return;
    struct walk w = {.rank = (size_t)c->in[0]->rank, .dims = c->in[0]->dims};
    size_t columns = (size_t)c->out[0]->dims[1];
    int64_t elements = prn_known_elements(c->in[0]);
    bool floats = is_float(c->in[0]);
    for (int64_t i = 0, found = 0; i < elements; i++, walk_next(&w, 0)) {
        if (!(floats ? x[i].f != 0 : x[i].i != 0))
            continue;
        for (size_t k = 0; k < w.rank; k++)
            out[k * columns + (size_t)found].i = w.index[k];
        found++;
    }
}

/* ---- Reducing ---- */

static void fold_reduction(struct prn_infer_call *c, const struct kernel *kernel,
                           double start_float, int64_t start_int)
{
    const union prn_item *x;
    bool reduced[PRN_RANK_MAX];
    size_t n;
    if (!all_items(c, 1, &x) || prn_reduce_read(c, reduced))
        return;
    const struct prn_known *in = c->in[0];
    int64_t elements = prn_known_elements(in);
    union prn_item *out = fresh_items(c, 0, &n);
    if (!out || !prn_infer_fold_budget(c->infer, (size_t)elements))
        return unfold(c, 0);
    bool floats = is_float(in);
    for (size_t i = 0; i < n; i++) {
        if (floats)
            out[i].f = start_float;
        else
            out[i].i = start_int;
    }
    struct walk w = {.rank = (size_t)in->rank, .dims = in->dims};
    int64_t stride = 1;
    for (size_t i = w.rank; i-- > 0;) {
        w.stride[0][i] = reduced[i] ? 0 : stride;
        stride *= reduced[i] ? 1 : in->dims[i];
    }
    for (int64_t i = 0; i < elements; i++, walk_next(&w, 1)) {
        union prn_item *to = &out[w.offset[0]];
        if (!(floats ? kernel->floats(to->f, x[i].f, &to->f) : kernel->ints(to->i, x[i].i, &to->i)))
            return unfold(c, 0);
    }
}

void prn_fold_reduce_sum(struct prn_infer_call *c)
{
    fold_reduction(c, &add_kernel, 0, 0);
}

void prn_fold_reduce_prod(struct prn_infer_call *c)
{
    fold_reduction(c, &mul_kernel, 1, 1);
}

void prn_fold_reduce_max(struct prn_infer_call *c)
{
    fold_reduction(c, &max_kernel, -INFINITY, INT64_MIN);
}

void prn_fold_reduce_min(struct prn_infer_call *c)
{
    fold_reduction(c, &min_kernel, INFINITY, INT64_MAX);
}
