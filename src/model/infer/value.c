/*
 * What shape, folding and work functions share: tensors and their contents, inputs, outputs,
 * attributes. All of it treats the model as hostile: numbers are bounded before they are used, and
 * what doesn't fit is "not known" or malformed, never a fault.
 */
#include "model/infer/infer.h"

#include <math.h>
#include <string.h>

int64_t prn_known_elements(const struct prn_known *t)
{
    int64_t elements;
    if (!t || t->rank < 0 || prn_dims_elements(t->dims, (size_t)t->rank, &elements) < 0)
        return -1;
    return elements;
}

bool prn_known_foldable(const struct prn_known *t)
{
    return t && (t->items || (t->constant && (t->constant->data || t->constant->elements == 0)));
}

static double half_to_double(uint16_t bits)
{
    int exponent = (bits >> 10) & 31;
    int fraction = bits & 1023;
    double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                   : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                  : ldexp(fraction, -24);
    return bits & 0x8000 ? -value : value;
}

static double bfloat_to_double(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return (double)value;
}

/* Reads element `i` of packed data; the model's bytes are little-endian and not aligned. */
#define DECODE(type, member, expression)                               \
    {                                                                  \
        type raw;                                                      \
        memcpy(&raw, (const char *)data + i * sizeof raw, sizeof raw); \
        ret->member = (expression);                                    \
        return true;                                                   \
    }

static bool decode(int dtype, const void *data, size_t i, union prn_item *ret)
{
    switch (dtype) {
    case PRN_DTYPE_INT64:
        DECODE(int64_t, i, raw)
    case PRN_DTYPE_UINT64:
        DECODE(uint64_t, i, (int64_t)raw)
    case PRN_DTYPE_INT32:
        DECODE(int32_t, i, raw)
    case PRN_DTYPE_UINT32:
        DECODE(uint32_t, i, raw)
    case PRN_DTYPE_INT16:
        DECODE(int16_t, i, raw)
    case PRN_DTYPE_UINT16:
        DECODE(uint16_t, i, raw)
    case PRN_DTYPE_INT8:
        DECODE(uint8_t, i, raw < 128 ? raw : raw - 256)
    case PRN_DTYPE_UINT8:
        DECODE(uint8_t, i, raw)
    case PRN_DTYPE_BOOL:
        DECODE(uint8_t, i, raw != 0)
    case PRN_DTYPE_FLOAT:
        DECODE(float, f, (double)raw)
    case PRN_DTYPE_DOUBLE:
        DECODE(double, f, raw)
    case PRN_DTYPE_FLOAT16:
        DECODE(uint16_t, f, half_to_double(raw))
    case PRN_DTYPE_BFLOAT16:
        DECODE(uint16_t, f, bfloat_to_double(raw))
    default:
        return false;
    }
}

/* Stands for the contents of tensors without elements, which have no data. */
static const union prn_item no_items;

const union prn_item *prn_known_items(struct prn_infer *infer, struct prn_known *t)
{
    if (!t || t->items)
        return t ? t->items : NULL;
    const struct prn_constant *constant = t->constant;
    int64_t elements = prn_known_elements(t);
    size_t bytes;
    if (constant && elements == 0)
        return t->items = &no_items;
    if (!constant || !constant->data || elements < 0 || elements > PRN_ITEMS_MAX ||
        prn_dtype_bytes(t->dtype, t->dims, (size_t)t->rank, &bytes) < 0 ||
        bytes > constant->bytes || !prn_infer_fold_budget(infer, (size_t)elements))
        return NULL;
    union prn_item *items = prn_infer_array(infer, (size_t)elements, sizeof *items);
    if (!items)
        return NULL;
    for (size_t i = 0; i < (size_t)elements; i++)
        if (!decode(t->dtype, constant->data, i, &items[i]))
            return NULL;
    return t->items = items;
}

static bool same_items(const struct prn_known *a, const struct prn_known *b)
{
    if (a->items == b->items && a->constant == b->constant)
        return true;
    int64_t elements = prn_known_elements(a);
    return a->items && b->items && elements >= 0 &&
           memcmp(a->items, b->items, (size_t)elements * sizeof *a->items) == 0;
}

int prn_known_join(struct prn_infer *infer, struct prn_known *a, const struct prn_known *b,
                   bool *ret_changed)
{
    const struct prn_known before = *a;
    if (a->kind != b->kind)
        a->kind = PRN_VALUE_UNKNOWN;
    if (a->dtype != b->dtype)
        a->dtype = PRN_DTYPE_UNDEFINED;
    if (a->rank != b->rank)
        a->rank = -1;
    bool differs = a->rank != before.rank;
    for (int i = 0; i < a->rank && !differs; i++)
        differs = a->dims[i] != b->dims[i];
    if (differs && a->rank > 0) {
        int64_t *dims = PRN_ARENA_ARRAY(prn_infer_arena(infer), (size_t)a->rank, int64_t);
        if (!dims)
            return PRONY_ENOMEM;
        for (int i = 0; i < a->rank; i++)
            dims[i] = a->dims[i] == b->dims[i] ? a->dims[i] : -1;
        a->dims = dims;
    }
    if (differs || a->dtype != before.dtype || !same_items(a, b)) {
        a->items = NULL;
        a->constant = NULL;
    }
    bool changed = a->kind != before.kind || a->dtype != before.dtype || a->rank != before.rank ||
                   a->items != before.items;
    for (int i = 0; i < a->rank && !changed; i++)
        changed = a->dims[i] != before.dims[i];
    *ret_changed = *ret_changed || changed;
    return 0;
}

struct prn_known *prn_in(const struct prn_infer_call *c, size_t i)
{
    return i < c->n_in ? c->in[i] : NULL;
}

const struct prn_known *prn_in_ranked(const struct prn_infer_call *c, size_t i)
{
    const struct prn_known *t = prn_in(c, i);
    return t && t->kind == PRN_VALUE_TENSOR && t->rank >= 0 ? t : NULL;
}

const int64_t *prn_in_ints(const struct prn_infer_call *c, size_t i, size_t *ret_count)
{
    struct prn_known *t = prn_in(c, i);
    if (!t || t->rank > 1 || prn_dtype_is_float(t->dtype))
        return NULL;
    const union prn_item *items = prn_known_items(c->infer, t);
    if (!items)
        return NULL;
    size_t n = (size_t)prn_known_elements(t);
    int64_t *ints = prn_infer_array(c->infer, n, sizeof *ints);
    for (size_t k = 0; ints && k < n; k++)
        ints[k] = items[k].i;
    *ret_count = n;
    return ints;
}

bool prn_in_number(const struct prn_infer_call *c, size_t i, double *ret_value)
{
    struct prn_known *t = prn_in(c, i);
    const union prn_item *items = prn_known_items(c->infer, t);
    if (!items || prn_known_elements(t) != 1)
        return false;
    *ret_value = prn_dtype_is_float(t->dtype) ? items[0].f : (double)items[0].i;
    return true;
}

bool prn_in_int(const struct prn_infer_call *c, size_t i, int64_t *ret_value)
{
    struct prn_known *t = prn_in(c, i);
    const union prn_item *items = prn_known_items(c->infer, t);
    if (!items || prn_known_elements(t) != 1 || prn_dtype_is_float(t->dtype))
        return false;
    *ret_value = items[0].i;
    return true;
}

int prn_row_dtype(const struct prn_infer_call *c)
{
    int dtype = c->op ? c->op->dtype : 0;
    if (dtype > 0)
        return dtype;
    const struct prn_known *t = prn_in(c, (size_t)-dtype);
    return t ? t->dtype : PRN_DTYPE_UNDEFINED;
}

int prn_set_out(struct prn_infer_call *c, size_t i, int dtype, size_t rank, const int64_t *dims)
{
    if (i >= c->n_out)
        return 0;
    struct prn_known *t = c->out[i];
    t->dtype = dtype;
    if (rank > PRN_RANK_MAX)
        return PRN_REASON_MALFORMED;
    int64_t elements = 1;
    for (size_t k = 0; k < rank; k++) {
        if (dims[k] < -1)
            return PRN_REASON_MALFORMED;
        if (dims[k] > PRN_DIM_MAX ||
            (dims[k] >= 0 && __builtin_mul_overflow(elements, dims[k], &elements)))
            return PRN_REASON_SIZE;
    }
    int64_t *copy = PRN_ARENA_ARRAY(prn_infer_arena(c->infer), rank + 1, int64_t);
    if (!copy)
        return PRONY_ENOMEM;
    if (rank)
        memcpy(copy, dims, rank * sizeof *dims);
    t->rank = (int)rank;
    t->dims = copy;
    return 0;
}

void prn_set_out_like(struct prn_infer_call *c, size_t i, int dtype, const struct prn_known *like)
{
    if (i >= c->n_out)
        return;
    c->out[i]->dtype = dtype;
    c->out[i]->rank = like ? like->rank : -1;
    c->out[i]->dims = like ? like->dims : NULL;
}

union prn_item *prn_fold_out(struct prn_infer_call *c, size_t i)
{
    if (i >= c->n_out)
        return NULL;
    struct prn_known *t = c->out[i];
    int64_t elements = prn_known_elements(t);
    if (elements < 0 || elements > PRN_ITEMS_MAX ||
        !prn_infer_fold_budget(c->infer, (size_t)elements))
        return NULL;
    union prn_item *items = prn_infer_array(c->infer, (size_t)elements, sizeof *items);
    t->items = items;
    return items;
}

bool prn_axis(int64_t axis, size_t rank, size_t *ret_axis)
{
    if (axis < 0)
        axis += (int64_t)rank;
    if (axis < 0 || axis >= (int64_t)rank)
        return false;
    *ret_axis = (size_t)axis;
    return true;
}

int64_t prn_attr_int(const struct prn_infer_call *c, const char *name, int64_t otherwise)
{
    const struct prn_attribute *a = prn_attr(c, name);
    return a && a->kind == PRN_ATTRIBUTE_INT ? a->ints[0] : otherwise;
}

const char *prn_attr_string(const struct prn_infer_call *c, const char *name, const char *otherwise)
{
    const struct prn_attribute *a = prn_attr(c, name);
    return a && a->kind == PRN_ATTRIBUTE_STRING ? a->strings[0] : otherwise;
}

const int64_t *prn_attr_ints(const struct prn_infer_call *c, const char *name, size_t *ret_count)
{
    static const int64_t none = 0;
    const struct prn_attribute *a = prn_attr(c, name);
    if (!a || a->kind != PRN_ATTRIBUTE_INTS)
        return NULL;
    *ret_count = a->n;
    return a->n ? a->ints : &none;
}

const struct prn_graph *prn_attr_graph(const struct prn_infer_call *c, const char *name)
{
    const struct prn_attribute *a = prn_attr(c, name);
    return a && a->kind == PRN_ATTRIBUTE_GRAPH ? a->graphs[0] : NULL;
}

const int64_t *prn_attr_or_input(const struct prn_infer_call *c, const char *name, size_t i,
                                 size_t *ret_count, bool *ret_given)
{
    const int64_t *ints = prn_attr_ints(c, name, ret_count);
    *ret_given = ints || prn_in(c, i);
    return ints ? ints : prn_in_ints(c, i, ret_count);
}

bool prn_broadcast(int64_t *dims, size_t *rank, const struct prn_known *with)
{
    size_t other = (size_t)with->rank;
    if (other > *rank) {
        if (other > PRN_RANK_MAX)
            return false;
        size_t lead = other - *rank;
        memmove(dims + lead, dims, *rank * sizeof *dims);
        for (size_t i = 0; i < lead; i++)
            dims[i] = 1;
        *rank = other;
    }
    int64_t *tail = dims + (*rank - other);
    for (size_t i = 0; i < other; i++) {
        int64_t a = tail[i];
        int64_t b = with->dims[i];
        if (a == b || b == 1 || (b < 0 && a > 1))
            continue;
        if (a != 1 && a >= 0)
            return false;
        tail[i] = b;
    }
    return true;
}

/* `n` integers of an attribute into `ret`, each in [low, PRN_WINDOW_MAX], or `otherwise`. */
static bool window_ints(const struct prn_infer_call *c, const char *name, size_t n, int64_t low,
                        int64_t otherwise, int64_t *ret)
{
    size_t count = 0;
    const int64_t *ints = prn_attr_ints(c, name, &count);
    if (ints && count != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        ret[i] = ints ? ints[i] : otherwise;
        if (ret[i] > PRN_WINDOW_MAX || (ints && ret[i] < low))
            return false;
    }
    return true;
}

int prn_window_read(const struct prn_infer_call *c, size_t n_spatial,
                    const struct prn_known *weight, struct prn_kernel_window *ret_window)
{
    struct prn_kernel_window *w = ret_window;
    int64_t pads[2 * PRN_RANK_MAX];
    *w = (struct prn_kernel_window){.n = n_spatial};
    if (!window_ints(c, "kernel_shape", n_spatial, 1, -1, w->kernel) ||
        !window_ints(c, "strides", n_spatial, 1, 1, w->stride) ||
        !window_ints(c, "dilations", n_spatial, 1, 1, w->dilation) ||
        !window_ints(c, "pads", 2 * n_spatial, -PRN_WINDOW_MAX, 0, pads))
        return PRN_REASON_MALFORMED;
    const char *auto_pad = prn_attr_string(c, "auto_pad", "NOTSET");
    bool explicit = strcmp(auto_pad, "NOTSET") == 0 || !*auto_pad;
    w->same = strncmp(auto_pad, "SAME", 4) == 0;
    for (size_t i = 0; i < n_spatial; i++) {
        w->begin[i] = explicit ? pads[i] : 0;
        w->end[i] = explicit ? pads[n_spatial + i] : 0;
        if (w->kernel[i] < 0 && weight && weight->rank == (int)n_spatial + 2)
            w->kernel[i] = weight->dims[i + 2];
    }
    return 0;
}
