/*
 * Output shapes of the operators that do the work of a network: convolutions, pooling, matrix
 * products, attention, recurrence, normalisation, quantisation, signal processing.
 */
#include "model/infer/infer.h"

#include <math.h>
#include <string.h>

static bool is_rank(const struct prn_known *t, int low)
{
    return t && t->rank >= low;
}

/* ---- Convolution and pooling ---- */

/* Positions of a window along one axis; -1 when not known, -2 when it doesn't fit. */
static int64_t window_positions(const struct prn_kernel_window *w, size_t i, int64_t dim,
                                bool ceil_mode)
{
    int64_t stride = w->stride[i];
    if (dim < 0 || w->kernel[i] < 0)
        return -1;
    if (w->same)
        return (dim + stride - 1) / stride;
    int64_t span = dim + w->begin[i] + w->end[i] - ((w->kernel[i] - 1) * w->dilation[i] + 1);
    if (span < 0)
        return -2;
    int64_t positions = (span + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    /* The last window has to begin inside the input or its left padding. */
    if (ceil_mode && (positions - 1) * stride >= dim + w->begin[i])
        positions--;
    return positions;
}

int prn_shape_conv(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    const struct prn_known *weight = prn_in_ranked(c, (size_t)c->op->arg);
    struct prn_kernel_window w;
    int64_t dims[PRN_RANK_MAX];
    if (!x || !weight)
        return PRN_REASON_INPUT;
    if (x->rank < 3 || weight->rank != x->rank)
        return PRN_REASON_MALFORMED;
    int r = prn_window_read(c, (size_t)x->rank - 2, weight, &w);
    if (r)
        return r;
    dims[0] = x->dims[0];
    dims[1] = weight->dims[0];
    for (size_t i = 0; i < w.n; i++)
        dims[i + 2] = window_positions(&w, i, x->dims[i + 2], false);
    return prn_set_out(c, 0, prn_row_dtype(c), (size_t)x->rank, dims);
}

static int64_t transposed_size(const struct prn_kernel_window *w, size_t i, int64_t dim,
                               int64_t extra)
{
    if (dim < 0 || w->kernel[i] < 0)
        return -1;
    if (w->same)
        return dim * w->stride[i];
    return (dim - 1) * w->stride[i] + extra + (w->kernel[i] - 1) * w->dilation[i] + 1 -
           w->begin[i] - w->end[i];
}

int prn_shape_conv_transpose(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    const struct prn_known *weight = prn_in_ranked(c, 1);
    struct prn_kernel_window w;
    int64_t dims[PRN_RANK_MAX];
    size_t n_sizes = 0;
    size_t n_extra = 0;
    if (!x || !weight)
        return PRN_REASON_INPUT;
    int64_t group = prn_attr_int(c, "group", 1);
    if (x->rank < 3 || weight->rank != x->rank || group < 1 || group > PRN_WINDOW_MAX)
        return PRN_REASON_MALFORMED;
    int r = prn_window_read(c, (size_t)x->rank - 2, weight, &w);
    if (r)
        return r;
    const int64_t *sizes = prn_attr_ints(c, "output_shape", &n_sizes);
    const int64_t *extra = prn_attr_ints(c, "output_padding", &n_extra);
    if ((sizes && n_sizes != w.n && n_sizes != w.n + 2) || (extra && n_extra != w.n))
        return PRN_REASON_MALFORMED;
    dims[0] = x->dims[0];
    dims[1] = weight->dims[1] < 0 ? -1 : weight->dims[1] * group;
    for (size_t i = 0; i < w.n; i++) {
        if (extra && (extra[i] < 0 || extra[i] > PRN_WINDOW_MAX))
            return PRN_REASON_MALFORMED;
        dims[i + 2] = sizes ? sizes[n_sizes - w.n + i]
                            : transposed_size(&w, i, x->dims[i + 2], extra ? extra[i] : 0);
        if (dims[i + 2] < -1 || (sizes && dims[i + 2] < 0))
            return PRN_REASON_MALFORMED;
    }
    return prn_set_out(c, 0, prn_row_dtype(c), (size_t)x->rank, dims);
}

int prn_shape_pool(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    struct prn_kernel_window w;
    int64_t dims[PRN_RANK_MAX];
    if (!x)
        return PRN_REASON_INPUT;
    if (x->rank < 3 || !prn_attr(c, "kernel_shape"))
        return PRN_REASON_MALFORMED;
    int r = prn_window_read(c, (size_t)x->rank - 2, NULL, &w);
    if (r)
        return r;
    bool ceil_mode = prn_attr_int(c, "ceil_mode", 0) != 0;
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    for (size_t i = 0; i < w.n; i++)
        dims[i + 2] = window_positions(&w, i, x->dims[i + 2], ceil_mode);
    r = prn_set_out(c, 0, prn_row_dtype(c), (size_t)x->rank, dims);
    return r ? r : prn_set_out(c, 1, PRN_DTYPE_INT64, (size_t)x->rank, dims);
}

int prn_shape_global_pool(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX];
    if (!x)
        return PRN_REASON_INPUT;
    if (x->rank < 2)
        return PRN_REASON_MALFORMED;
    int channels = prn_attr_int(c, "channels_last", 0) ? x->rank - 1 : 1;
    for (int i = 0; i < x->rank; i++)
        dims[i] = i == 0 || i == channels ? x->dims[i] : 1;
    return prn_set_out(c, 0, prn_row_dtype(c), (size_t)x->rank, dims);
}

int prn_shape_max_unpool(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    struct prn_kernel_window w;
    int64_t dims[PRN_RANK_MAX];
    size_t n = 0;
    if (!x)
        return PRN_REASON_INPUT;
    if (x->rank < 3)
        return PRN_REASON_MALFORMED;
    const int64_t *sizes = prn_in_ints(c, 2, &n);
    if (sizes)
        return n == (size_t)x->rank ? prn_set_out(c, 0, x->dtype, n, sizes) : PRN_REASON_MALFORMED;
    int r = prn_window_read(c, (size_t)x->rank - 2, NULL, &w);
    if (r)
        return r;
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    for (size_t i = 0; i < w.n; i++)
        dims[i + 2] = prn_in(c, 2) ? -1 : transposed_size(&w, i, x->dims[i + 2], 0);
    return prn_set_out(c, 0, x->dtype, (size_t)x->rank, dims);
}

static int set_regions(struct prn_infer_call *c, int64_t height, int64_t width)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    const struct prn_known *regions = prn_in_ranked(c, 1);
    if (!x || !regions)
        return PRN_REASON_INPUT;
    if (x->rank != 4 || regions->rank != 2 || height < 1 || width < 1)
        return PRN_REASON_MALFORMED;
    int64_t dims[4] = {regions->dims[0], x->dims[1], height, width};
    return prn_set_out(c, 0, x->dtype, 4, dims);
}

int prn_shape_roi_align(struct prn_infer_call *c)
{
    return set_regions(c, prn_attr_int(c, "output_height", 1), prn_attr_int(c, "output_width", 1));
}

int prn_shape_max_roi_pool(struct prn_infer_call *c)
{
    size_t n = 0;
    const int64_t *pooled = prn_attr_ints(c, "pooled_shape", &n);
    return pooled && n == 2 ? set_regions(c, pooled[0], pooled[1]) : PRN_REASON_MALFORMED;
}

int prn_shape_grid_sample(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    const struct prn_known *grid = prn_in_ranked(c, 1);
    int64_t dims[PRN_RANK_MAX];
    if (!x || !grid)
        return PRN_REASON_INPUT;
    if (x->rank < 3 || grid->rank != x->rank)
        return PRN_REASON_MALFORMED;
    dims[0] = x->dims[0];
    dims[1] = x->dims[1];
    for (int i = 2; i < x->rank; i++)
        dims[i] = grid->dims[i - 1];
    return prn_set_out(c, 0, x->dtype, (size_t)x->rank, dims);
}

int prn_shape_affine_grid(struct prn_infer_call *c)
{
    size_t n = 0;
    int64_t dims[5];
    const int64_t *size = prn_in_ints(c, 1, &n);
    if (!size)
        return PRN_REASON_INPUT;
    if (n != 4 && n != 5)
        return PRN_REASON_MALFORMED;
    dims[0] = size[0];
    for (size_t i = 2; i < n; i++)
        dims[i - 1] = size[i];
    dims[n - 1] = (int64_t)n - 2;
    return prn_set_out(c, 0, prn_row_dtype(c), n, dims);
}

int prn_shape_col2im(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX];
    size_t n = 0;
    size_t n_block = 0;
    const int64_t *image = prn_in_ints(c, 1, &n);
    const int64_t *block = prn_in_ints(c, 2, &n_block);
    if (!x || !image || !block)
        return PRN_REASON_INPUT;
    int64_t area = 1;
    for (size_t i = 0; i < n_block; i++)
        if (block[i] < 1 || __builtin_mul_overflow(area, block[i], &area))
            return PRN_REASON_MALFORMED;
    if (x->rank != 3 || n > PRN_RANK_MAX - 2 || n != n_block)
        return PRN_REASON_MALFORMED;
    dims[0] = x->dims[0];
    dims[1] = x->dims[1] < 0 ? -1 : x->dims[1] / area;
    memcpy(dims + 2, image, n * sizeof *dims);
    return prn_set_out(c, 0, x->dtype, n + 2, dims);
}

/* ---- Matrix products ---- */

/* The last two dimensions of an operand, transposed on demand; its leading ones into `lead`. */
struct operand {
    int64_t rows, columns;
    int64_t lead_dims[PRN_RANK_MAX];
    struct prn_known lead;
};

static void read_operand(const struct prn_known *t, bool transposed, bool batch_moved, bool is_left,
                         struct operand *ret)
{
    size_t rank = (size_t)t->rank;
    ret->lead = (struct prn_known){.dims = ret->lead_dims};
    if (rank == 1) {
        ret->rows = is_left ? 1 : t->dims[0];
        ret->columns = is_left ? t->dims[0] : 1;
        return;
    }
    /* FusedMatMul may take [rows, batch…, columns] for [batch…, rows, columns]. */
    size_t row = batch_moved ? 0 : rank - 2;
    for (size_t i = 0, n = 0; i + 1 < rank; i++)
        if (i != row)
            ret->lead_dims[n++] = t->dims[i];
    ret->lead.rank = (int)rank - 2;
    ret->rows = t->dims[transposed ? rank - 1 : row];
    ret->columns = t->dims[transposed ? row : rank - 1];
}

/* `arg` and `arg2` of the row are the operands' inputs. */
int prn_shape_matmul(struct prn_infer_call *c)
{
    const struct prn_known *a = prn_in_ranked(c, (size_t)c->op->arg);
    const struct prn_known *b = prn_in_ranked(c, (size_t)c->op->arg2);
    struct operand left;
    struct operand right;
    int64_t dims[PRN_RANK_MAX + 2];
    size_t rank = 0;
    if (!a || !b)
        return PRN_REASON_INPUT;
    if (a->rank < 1 || b->rank < 1)
        return PRN_REASON_MALFORMED;
    read_operand(a, prn_attr_int(c, "transA", 0) != 0, prn_attr_int(c, "transBatchA", 0) != 0, true,
                 &left);
    read_operand(b, prn_attr_int(c, "transB", 0) != 0, prn_attr_int(c, "transBatchB", 0) != 0,
                 false, &right);
    if ((left.columns >= 0 && right.rows >= 0 && left.columns != right.rows) ||
        !prn_broadcast(dims, &rank, &left.lead) || !prn_broadcast(dims, &rank, &right.lead))
        return PRN_REASON_MALFORMED;
    if (a->rank > 1)
        dims[rank++] = left.rows;
    if (b->rank > 1)
        dims[rank++] = right.columns;
    return prn_set_out(c, 0, prn_row_dtype(c), rank, dims);
}

int prn_shape_matmul_nbits(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX];
    if (!x)
        return PRN_REASON_INPUT;
    int64_t columns = prn_attr_int(c, "N", -1);
    if (x->rank < 1 || columns < 1)
        return PRN_REASON_MALFORMED;
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    dims[x->rank - 1] = columns;
    return prn_set_out(c, 0, x->dtype, (size_t)x->rank, dims);
}

int prn_shape_gemm(struct prn_infer_call *c)
{
    const struct prn_known *a = prn_in_ranked(c, (size_t)c->op->arg);
    const struct prn_known *b = prn_in_ranked(c, (size_t)c->op->arg2);
    struct operand left;
    struct operand right;
    if (!a || !b)
        return PRN_REASON_INPUT;
    if (a->rank != 2 || b->rank != 2)
        return PRN_REASON_MALFORMED;
    read_operand(a, prn_attr_int(c, "transA", 0) != 0, false, true, &left);
    read_operand(b, prn_attr_int(c, "transB", 0) != 0, false, false, &right);
    if (left.columns >= 0 && right.rows >= 0 && left.columns != right.rows)
        return PRN_REASON_MALFORMED;
    int64_t dims[2] = {left.rows, right.columns};
    return prn_set_out(c, 0, prn_row_dtype(c), 2, dims);
}

/* ---- Einsum ---- */

/* Where each term of the equation begins and ends, spaces allowed. The labels of the ellipsis are
 * numbered from the right: 1, 2, …, which are no letters. */
static int einsum_term(const char **text, const struct prn_known *x, struct prn_einsum *e,
                       size_t *ret_ellipsis)
{
    int64_t dims[PRN_RANK_MAX];
    size_t letters = 0;
    const char *p;
    for (p = *text; *p && *p != ',' && *p != '-'; p++)
        letters += *p != ' ' && *p != '.';
    bool dots = memchr(*text, '.', (size_t)(p - *text)) != NULL;
    if (letters > (size_t)x->rank || (!dots && letters != (size_t)x->rank))
        return PRN_REASON_MALFORMED;
    size_t hidden = (size_t)x->rank - letters;
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    size_t axis = 0;
    bool dots_done = false;
    for (const char *q = *text; q < p; q++) {
        if (*q == ' ' || (*q == '.' && dots_done))
            continue;
        size_t n = *q == '.' ? hidden : 1;
        for (size_t k = 0; k < n; k++, axis++) {
            unsigned char label = *q == '.' ? (unsigned char)(hidden - k) : (unsigned char)*q;
            int64_t *size = &e->label[label];
            if (e->used[label] && *size > 1 && dims[axis] > 1 && *size != dims[axis])
                return PRN_REASON_MALFORMED;
            if (!e->used[label] || *size == 1 || *size < 0)
                *size = dims[axis];
            e->used[label] = true;
        }
        dots_done = dots_done || *q == '.';
    }
    if (hidden > *ret_ellipsis)
        *ret_ellipsis = hidden;
    *text = *p == ',' ? p + 1 : p;
    return 0;
}

static int einsum_result(const char *text, size_t ellipsis, struct prn_einsum *e)
{
    bool dots_done = false;
    for (const char *p = text; *p; p++) {
        if (*p == ' ' || (*p == '.' && dots_done))
            continue;
        size_t n = *p == '.' ? ellipsis : 1;
        for (size_t k = 0; k < n; k++) {
            unsigned char label = *p == '.' ? (unsigned char)(ellipsis - k) : (unsigned char)*p;
            if (e->rank == PRN_RANK_MAX || !e->used[label])
                return PRN_REASON_MALFORMED;
            e->kept[label] = true;
            e->dims[e->rank++] = e->label[label];
        }
        dots_done = dots_done || *p == '.';
    }
    return 0;
}

/* Without "->" the result has the ellipsis and the letters that occur once, in order. */
static void einsum_implicit(const char *equation, char *ret, size_t size)
{
    size_t count[256] = {0};
    size_t n = 0;
    for (const char *p = equation; *p; p++)
        count[(unsigned char)*p]++;
    if (count['.'])
        ret[n++] = '.';
    for (int i = 'A'; i <= 'z' && n + 1 < size; i++)
        if (count[i] == 1 && ((i >= 'A' && i <= 'Z') || i >= 'a'))
            ret[n++] = (char)i;
    ret[n] = 0;
}

int prn_einsum_read(const struct prn_infer_call *c, struct prn_einsum *ret)
{
    const char *equation = prn_attr_string(c, "equation", "");
    char implicit[64];
    size_t ellipsis = 0;
    *ret = (struct prn_einsum){.volume = 1};
    if (strnlen(equation, 4097) > 4096 || c->n_in == 0)
        return PRN_REASON_MALFORMED;
    const char *text = equation;
    for (size_t i = 0; i < c->n_in; i++) {
        const struct prn_known *x = prn_in_ranked(c, i);
        if (!x)
            return PRN_REASON_INPUT;
        int r = einsum_term(&text, x, ret, &ellipsis);
        if (r)
            return r;
    }
    const char *arrow = strstr(equation, "->");
    einsum_implicit(equation, implicit, sizeof implicit);
    int r = einsum_result(arrow ? arrow + 2 : implicit, ellipsis, ret);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(ret->label); i++) {
        if (!ret->used[i])
            continue;
        ret->contracts = ret->contracts || !ret->kept[i];
        ret->volume *= ret->label[i] < 0 ? NAN : (double)ret->label[i];
    }
    return r;
}

int prn_shape_einsum(struct prn_infer_call *c)
{
    struct prn_einsum e;
    int r = prn_einsum_read(c, &e);
    return r ? r : prn_set_out(c, 0, prn_row_dtype(c), e.rank, e.dims);
}

/* ---- Recurrence ---- */

/* `arg` is the number of gates, `arg2` the axis of R with the hidden size. */
int prn_shape_rnn(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    const struct prn_known *recurrence = prn_in_ranked(c, 2);
    if (!x)
        return PRN_REASON_INPUT;
    int64_t hidden = prn_attr_int(c, "hidden_size", -1);
    if (hidden < 0 && is_rank(recurrence, 3))
        hidden = recurrence->dims[c->op->arg2];
    int64_t directions =
        strcmp(prn_attr_string(c, "direction", "forward"), "bidirectional") == 0 ? 2 : 1;
    if (x->rank != 3)
        return PRN_REASON_MALFORMED;
    bool batch_first = prn_attr_int(c, "layout", 0) == 1;
    int64_t steps = x->dims[batch_first];
    int64_t batch = x->dims[!batch_first];
    int64_t all[4] = {steps, directions, batch, hidden};
    int64_t last[3] = {directions, batch, hidden};
    if (batch_first) {
        memcpy(all, (int64_t[]){batch, steps, directions, hidden}, sizeof all);
        memcpy(last, (int64_t[]){batch, directions, hidden}, sizeof last);
    }
    int dtype = prn_row_dtype(c);
    int r = prn_set_out(c, 0, dtype, 4, all);
    for (size_t i = 1; r == 0 && i < 3; i++)
        r = prn_set_out(c, i, dtype, 3, last);
    return r;
}

/* ---- Normalisation ---- */

int prn_shape_batch_norm(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    if (!x)
        return PRN_REASON_INPUT;
    const struct prn_known *mean = prn_in_ranked(c, 3);
    for (size_t i = 1; i < c->n_out; i++)
        prn_set_out_like(c, i, mean ? mean->dtype : x->dtype, mean);
    return prn_shape_same(c);
}

/* Statistics: the shape of `x` with 1 from `axis` on. */
static int set_statistics(struct prn_infer_call *c, size_t i, const struct prn_known *x,
                          size_t axis)
{
    int64_t dims[PRN_RANK_MAX];
    for (size_t k = 0; k < (size_t)x->rank; k++)
        dims[k] = k < axis ? x->dims[k] : 1;
    return prn_set_out(c, i, PRN_DTYPE_FLOAT, (size_t)x->rank, dims);
}

int prn_shape_layer_norm(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    size_t axis;
    if (!x)
        return PRN_REASON_INPUT;
    prn_set_out_like(c, 0, x->dtype, x);
    if (!prn_axis(prn_attr_int(c, "axis", -1), (size_t)x->rank, &axis))
        return PRN_REASON_MALFORMED;
    int r = set_statistics(c, 1, x, axis);
    return r ? r : set_statistics(c, 2, x, axis);
}

int prn_shape_skip_layer_norm(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    if (!x)
        return PRN_REASON_INPUT;
    if (x->rank < 1)
        return PRN_REASON_MALFORMED;
    prn_set_out_like(c, 0, x->dtype, x);
    prn_set_out_like(c, 3, x->dtype, x);
    int r = set_statistics(c, 1, x, (size_t)x->rank - 1);
    return r ? r : set_statistics(c, 2, x, (size_t)x->rank - 1);
}

int prn_shape_embed_layer_norm(struct prn_infer_call *c)
{
    const struct prn_known *ids = prn_in_ranked(c, 0);
    const struct prn_known *table = prn_in_ranked(c, 2);
    if (!ids || !table)
        return PRN_REASON_INPUT;
    if (ids->rank != 2 || table->rank != 2)
        return PRN_REASON_MALFORMED;
    int64_t dims[3] = {ids->dims[0], ids->dims[1], table->dims[1]};
    int r = prn_set_out(c, 0, prn_row_dtype(c), 3, dims);
    if (r == 0)
        r = prn_set_out(c, 1, PRN_DTYPE_INT32, 1, dims);
    return r ? r : prn_set_out(c, 2, prn_row_dtype(c), 3, dims);
}

int prn_shape_loss(struct prn_infer_call *c)
{
    const struct prn_known *scores = prn_in_ranked(c, 0);
    const struct prn_known *labels = prn_in_ranked(c, 1);
    if (!scores || !labels)
        return PRN_REASON_INPUT;
    prn_set_out_like(c, 1, scores->dtype, scores);
    if (strcmp(prn_attr_string(c, "reduction", "mean"), "none") != 0)
        return prn_set_out(c, 0, scores->dtype, 0, NULL);
    prn_set_out_like(c, 0, scores->dtype, labels);
    return 0;
}

/* ---- Quantisation ---- */

int prn_shape_quantize(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    const struct prn_known *zero = prn_in(c, 2);
    int64_t dtype = zero ? zero->dtype : prn_attr_int(c, "output_dtype", 0);
    if (dtype <= 0 || dtype > INT32_MAX)
        dtype = PRN_DTYPE_UINT8;
    prn_set_out_like(c, 0, (int)dtype, x);
    return x ? 0 : PRN_REASON_INPUT;
}

int prn_shape_dequantize(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    const struct prn_known *scale = prn_in(c, 1);
    int64_t dtype = prn_attr_int(c, "output_dtype", 0);
    if (dtype <= 0 || dtype > INT32_MAX)
        dtype = scale && scale->dtype ? scale->dtype : PRN_DTYPE_FLOAT;
    prn_set_out_like(c, 0, (int)dtype, x);
    return x ? 0 : PRN_REASON_INPUT;
}

int prn_shape_dynamic_quantize(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int r = prn_set_out(c, 1, PRN_DTYPE_FLOAT, 0, NULL);
    if (r == 0)
        r = prn_set_out(c, 2, PRN_DTYPE_UINT8, 0, NULL);
    prn_set_out_like(c, 0, PRN_DTYPE_UINT8, x);
    return r ? r : x ? 0 : PRN_REASON_INPUT;
}

/* ---- Attention ---- */

static int64_t divided(int64_t a, int64_t b)
{
    return a >= 0 && b > 0 ? a / b : -1;
}

static int64_t multiplied(int64_t a, int64_t b)
{
    int64_t product;
    return a < 0 || b < 0 ? -1 : __builtin_mul_overflow(a, b, &product) ? -2 : product;
}

static int64_t added(int64_t a, int64_t b)
{
    return a >= 0 && b >= 0 ? a + b : -1;
}

/* Length of the past in [batch, heads, length, size] (at `axis`); 0 without one. */
static int64_t past_length(const struct prn_infer_call *c, size_t i, int axis)
{
    if (!prn_in(c, i))
        return 0;
    const struct prn_known *past = prn_in_ranked(c, i);
    return past && past->rank > axis ? past->dims[axis] : -1;
}

/* Sequence and size per head of [batch, sequence, heads·size] or [batch, heads, sequence, size]. */
static void read_heads(const struct prn_known *t, int64_t heads, int64_t *ret_length,
                       int64_t *ret_size)
{
    *ret_length = t->rank == 4 ? t->dims[2] : t->dims[1];
    *ret_size = t->rank == 4 ? t->dims[3] : divided(t->dims[2], heads);
}

static int read_onnx(const struct prn_infer_call *c, struct prn_attention *a)
{
    const struct prn_known *q = prn_in_ranked(c, 0);
    const struct prn_known *k = prn_in_ranked(c, 1);
    const struct prn_known *v = prn_in_ranked(c, 2);
    int64_t v_length;
    if (!q || !k || !v)
        return PRN_REASON_INPUT;
    if ((q->rank != 3 && q->rank != 4) || k->rank != q->rank || v->rank != q->rank)
        return PRN_REASON_MALFORMED;
    a->batch = q->dims[0];
    a->heads = q->rank == 4 ? q->dims[1] : prn_attr_int(c, "q_num_heads", -1);
    a->kv_heads = k->rank == 4 ? k->dims[1] : prn_attr_int(c, "kv_num_heads", -1);
    read_heads(q, a->heads, &a->queries, &a->size);
    read_heads(v, a->kv_heads, &v_length, &a->v_size);
    a->keys = added(v_length, past_length(c, 4, 2));
    return 0;
}

static int read_projected(const struct prn_infer_call *c, struct prn_attention *a)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    const struct prn_known *weight = prn_in_ranked(c, 1);
    size_t n = 0;
    if (!x || !weight)
        return PRN_REASON_INPUT;
    const int64_t *sizes = prn_attr_ints(c, "qkv_hidden_sizes", &n);
    a->heads = a->kv_heads = prn_attr_int(c, "num_heads", -1);
    if (x->rank != 3 || weight->rank != 2 || a->heads < 1 || (sizes && n && n != 3))
        return PRN_REASON_MALFORMED;
    bool uneven = sizes && n == 3;
    a->batch = x->dims[0];
    a->queries = x->dims[1];
    a->keys = added(x->dims[1], past_length(c, (size_t)c->op->arg2, 3));
    a->size = divided(uneven ? sizes[0] : divided(weight->dims[1], 3), a->heads);
    a->v_size = divided(uneven ? sizes[2] : divided(weight->dims[1], 3), a->heads);
    a->project_in = weight->dims[0];
    a->project_out = weight->dims[1];
    return 0;
}

static int read_multi_head(const struct prn_infer_call *c, struct prn_attention *a)
{
    const struct prn_known *q = prn_in_ranked(c, 0);
    const struct prn_known *k = prn_in_ranked(c, 1);
    const struct prn_known *v = prn_in_ranked(c, 2);
    int64_t length;
    if (!q || (prn_in(c, 1) && !k) || (prn_in(c, 2) && !v))
        return PRN_REASON_INPUT;
    a->heads = a->kv_heads = prn_attr_int(c, "num_heads", -1);
    if (a->heads < 1 || (q->rank != 3 && q->rank != 5))
        return PRN_REASON_MALFORMED;
    a->batch = q->dims[0];
    a->queries = length = q->dims[1];
    a->size = q->rank == 5 ? q->dims[4] : divided(q->dims[2], a->heads);
    a->v_size = a->size;
    if (k && k->rank == 5) { /* keys and values packed: [batch, length, heads, 2, size] */
        length = k->dims[1];
    } else if (k && (k->rank == 3 || k->rank == 4)) {
        int64_t ignored;
        read_heads(k, a->heads, &length, &ignored);
    }
    if (v && (v->rank == 3 || v->rank == 4)) {
        int64_t ignored;
        read_heads(v, a->heads, &ignored, &a->v_size);
    }
    a->keys = added(length, past_length(c, 6, 2));
    return 0;
}

static int read_group_query(const struct prn_infer_call *c, struct prn_attention *a)
{
    const struct prn_known *q = prn_in_ranked(c, 0);
    if (!q)
        return PRN_REASON_INPUT;
    a->heads = prn_attr_int(c, "num_heads", -1);
    a->kv_heads = prn_attr_int(c, "kv_num_heads", -1);
    if (q->rank != 3 || a->heads < 1 || a->kv_heads < 1 || a->heads > PRN_WINDOW_MAX ||
        a->kv_heads > PRN_WINDOW_MAX)
        return PRN_REASON_MALFORMED;
    a->batch = q->dims[0];
    a->queries = q->dims[1];
    bool packed = !prn_in(c, 1);
    a->size = a->v_size = divided(q->dims[2], packed ? a->heads + 2 * a->kv_heads : a->heads);
    int64_t past = past_length(c, 3, 2);
    int64_t total;
    if (prn_in_int(c, 6, &total) && total >= 0 && total <= PRN_DIM_MAX)
        a->keys = total;
    else
        a->keys = added(past, a->queries);
    return 0;
}

int prn_attention_read(const struct prn_infer_call *c, struct prn_attention *ret)
{
    static int (*const readers[])(const struct prn_infer_call *, struct prn_attention *) = {
        [PRN_ATTENTION_ONNX] = read_onnx,
        [PRN_ATTENTION_PROJECTED] = read_projected,
        [PRN_ATTENTION_MULTI_HEAD] = read_multi_head,
        [PRN_ATTENTION_GROUP_QUERY] = read_group_query,
    };
    *ret = (struct prn_attention){0};
    return readers[c->op->arg](c, ret);
}

int prn_shape_attention(struct prn_infer_call *c)
{
    const struct prn_known *q = prn_in_ranked(c, 0);
    struct prn_attention a;
    int r = prn_attention_read(c, &a);
    if (r)
        return r;
    int dtype = prn_row_dtype(c);
    int64_t packed[3] = {a.batch, a.queries, multiplied(a.heads, a.v_size)};
    int64_t separate[4] = {a.batch, a.heads, a.queries, a.v_size};
    if (c->op->arg == PRN_ATTENTION_ONNX && q->rank == 4)
        r = prn_set_out(c, 0, dtype, 4, separate);
    else
        r = prn_set_out(c, 0, dtype, 3, packed);
    if (r)
        return r;
    if (c->op->arg == PRN_ATTENTION_PROJECTED) {
        int64_t present[5] = {2, a.batch, a.heads, a.keys, a.size};
        return prn_set_out(c, 1, dtype, 5, present);
    }
    /* A past that is a buffer of its full length stays as long as it is. */
    int64_t length = a.keys;
    if (c->op->arg == PRN_ATTENTION_GROUP_QUERY && past_length(c, 3, 2) > length)
        length = past_length(c, 3, 2);
    int64_t present[4] = {a.batch, a.kv_heads, length, a.size};
    r = prn_set_out(c, 1, dtype, 4, present);
    present[3] = a.v_size;
    if (r == 0)
        r = prn_set_out(c, 2, dtype, 4, present);
    int64_t scores[4] = {a.batch, a.heads, a.queries, a.keys};
    return r ? r : prn_set_out(c, 3, dtype, 4, scores);
}

/* ---- Signals and matrices ---- */

int prn_shape_det(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    if (!x)
        return PRN_REASON_INPUT;
    return x->rank < 2 ? PRN_REASON_MALFORMED
                       : prn_set_out(c, 0, x->dtype, (size_t)x->rank - 2, x->dims);
}

int prn_shape_dft(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    int64_t dims[PRN_RANK_MAX];
    size_t axis;
    if (!x)
        return PRN_REASON_INPUT;
    /* The axis was an attribute (default 1) before it became an input (default -2). */
    int64_t axis_value = prn_attr_int(c, "axis", prn_attr(c, "axis") ? 1 : c->n_in > 2 ? -2 : 1);
    if (prn_in(c, 2) && !prn_in_int(c, 2, &axis_value))
        return PRN_REASON_INPUT;
    if (x->rank < 2 || !prn_axis(axis_value, (size_t)x->rank, &axis))
        return PRN_REASON_MALFORMED;
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    bool one_sided = prn_attr_int(c, "onesided", 0) != 0;
    bool inverse = prn_attr_int(c, "inverse", 0) != 0;
    int64_t length = dims[axis];
    if (inverse && one_sided && length > 0)
        length = 2 * (length - 1);
    if (prn_in(c, 1) && !prn_in_int(c, 1, &length))
        length = -1;
    dims[axis] = one_sided && !inverse && length >= 0 ? length / 2 + 1 : length;
    dims[x->rank - 1] = one_sided && inverse ? 1 : 2;
    return prn_set_out(c, 0, x->dtype, (size_t)x->rank, dims);
}

int prn_shape_stft(struct prn_infer_call *c)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    const struct prn_known *window = prn_in_ranked(c, 2);
    int64_t step = -1;
    int64_t length = window && window->rank == 1 ? window->dims[0] : -1;
    if (!x)
        return PRN_REASON_INPUT;
    if (x->rank < 2 || (prn_in_int(c, 1, &step) && step < 1) ||
        (prn_in_int(c, 3, &length) && length < 1))
        return PRN_REASON_MALFORMED;
    int64_t dims[4] = {x->dims[0], -1, -1, 2};
    if (step > 0 && length >= 0 && x->dims[1] >= length)
        dims[1] = (x->dims[1] - length) / step + 1;
    if (length >= 0)
        dims[2] = prn_attr_int(c, "onesided", 1) ? length / 2 + 1 : length;
    return prn_set_out(c, 0, x->dtype, 4, dims);
}

static int output_datatype(const struct prn_infer_call *c)
{
    int64_t dtype = prn_attr_int(c, "output_datatype", PRN_DTYPE_FLOAT);
    return dtype > 0 && dtype <= INT32_MAX ? (int)dtype : PRN_DTYPE_UNDEFINED;
}

int prn_shape_mel_weights(struct prn_infer_call *c)
{
    int64_t bins;
    int64_t length;
    int64_t dims[2] = {-1, -1};
    if (prn_in_int(c, 0, &bins))
        dims[1] = bins < 0 ? -2 : bins;
    if (prn_in_int(c, 1, &length))
        dims[0] = length < 0 ? -2 : length / 2 + 1;
    return prn_set_out(c, 0, output_datatype(c), 2, dims);
}

int prn_shape_window_function(struct prn_infer_call *c)
{
    int64_t size = -1;
    if (prn_in_int(c, 0, &size) && size < 0)
        return PRN_REASON_MALFORMED;
    return prn_set_out(c, 0, output_datatype(c), 1, &size);
}
