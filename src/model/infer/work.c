/*
 * How much an operator does. A multiply and an add count as two; an operation on integers counts
 * like one on floats; a function of one number (exp, erf, tanh, gelu) counts as one. What an
 * implementation could save (a mask, causality, zeros) isn't taken off.
 *
 *   family                 operations
 *   ------                 ----------
 *   element-wise           1 per element of the result; fused ones by their parts
 *   Sum, Min, Max, Mean    one less than operands per element of the result; Mean one more
 *   Conv and kin           2 · result · (channels / group) · kernel, + result with a bias
 *   ConvTranspose          2 · input · (channels of the result / group) · kernel, + bias
 *   MatMul, Gemm and kin   2 · result · K, + result with a C
 *   Einsum                 (operands - 1, + 1 if something is summed) · product of all labels
 *   attention              2 · B · heads · Q · K · size for scores and again for values,
 *                          5 · B · heads · Q · K for the softmax, and projections as MatMul
 *   LSTM, GRU, RNN         per direction, step and sequence: 2 · gates · H · (I + H) for the
 *                          products, and 13, 11, 2 · H for biases, activations and state
 *   pooling                kernel · result (average: + result); global: 1 per element of the input
 *   reductions             1 per element of the input; of squares or absolutes 2; mean, root and
 *                          logarithm + result
 *   softmax                5 per element: maximum, subtract, exp, sum, divide
 *   layer, group, instance 7 per element: mean, subtract, square and sum, divide, scale, shift
 *   RMS normalisation      4 per element: square and sum, divide, scale
 *   batch normalisation    2 per element: at inference it is a scale and a shift
 *   LRN                    size + 5 per element
 *   quantise               3 per element (divide, round, shift), dequantise 2, dynamic 5
 *   resize, grid sampling  2 per tap: 2^d taps for linear, 4^d for cubic, none for nearest
 *   RoiAlign               8 per sampled point (4 taps), points as sampling_ratio says, or 1
 *   DFT, STFT              5 · n · log2 n per transform
 *   Det                    2/3 · n³ per matrix
 *   ArgMax, TopK, CumSum   1 per element of the input
 *   moving data, Cast      0
 *
 * Bytes are the inputs, weights included, and the outputs, at their packed sizes. Operators that
 * only give a value another shape or name (Reshape, Squeeze, Unsqueeze, Flatten, Identity, Shape,
 * Size, Dropout at inference, Constant) move 0 bytes. Gather and Slice read what they take, not the
 * whole.
 */
#include "model/infer/infer.h"

#include <math.h>
#include <string.h>

/* ---- Bytes ---- */

static int tensor_bytes(const struct prn_known *t, double *ret_bytes)
{
    int64_t elements = prn_known_elements(t);
    int bits = prn_dtype_bits(t->dtype);
    if (elements < 0 || t->kind != PRN_VALUE_TENSOR)
        return PRN_REASON_INPUT;
    if (bits == 0)
        return PRN_REASON_DTYPE;
    *ret_bytes = ceil((double)elements * bits / 8);
    return 0;
}

/* Adds the bytes of all named outputs, `times` over. */
static int add_outputs(const struct prn_infer_call *c, double times, double *bytes)
{
    for (size_t i = 0; i < c->n_out; i++) {
        double own;
        if (!c->node->outputs[i][0])
            continue;
        int r = tensor_bytes(c->out[i], &own);
        if (r)
            return r == PRN_REASON_INPUT ? PRN_REASON_OUTPUT : r;
        *bytes += own * times;
    }
    return 0;
}

static int add_input(const struct prn_infer_call *c, size_t i, double *bytes)
{
    double own = 0;
    const struct prn_known *t = prn_in(c, i);
    int r = t ? tensor_bytes(t, &own) : 0;
    *bytes += own;
    return r;
}

int prn_bytes_all(const struct prn_infer_call *c, double *ret_bytes)
{
    double bytes = 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < c->n_in; i++)
        r = add_input(c, i, &bytes);
    if (r == 0)
        r = add_outputs(c, 1, &bytes);
    *ret_bytes = bytes;
    return r;
}

int prn_bytes_view(const struct prn_infer_call *c, double *ret_bytes)
{
    (void)c;
    *ret_bytes = 0;
    return 0;
}

/* The result is read, written, and indices say from where. */
int prn_bytes_gather(const struct prn_infer_call *c, double *ret_bytes)
{
    double bytes = 0;
    int r = add_input(c, 1, &bytes);
    if (r == 0)
        r = add_outputs(c, 2, &bytes);
    *ret_bytes = bytes;
    return r;
}

int prn_bytes_slice(const struct prn_infer_call *c, double *ret_bytes)
{
    *ret_bytes = 0;
    return add_outputs(c, 2, ret_bytes);
}

/* Rows of up to three tables, the ids, and the result; the tables aren't read as a whole. */
int prn_bytes_embed(const struct prn_infer_call *c, double *ret_bytes)
{
    double bytes = 0;
    double row = 0;
    int r = add_input(c, 0, &bytes);
    if (r == 0)
        r = add_input(c, 1, &bytes);
    if (r == 0)
        r = tensor_bytes(c->out[0], &row);
    if (r == 0)
        r = add_outputs(c, 1, &bytes);
    *ret_bytes = bytes + row * (prn_in(c, 1) ? 3 : 2);
    return r;
}

/* ---- Operations ---- */

/* Elements as a double: 0 or a reason. */
static int input_elements(const struct prn_infer_call *c, size_t i, double *ret)
{
    int64_t elements = prn_known_elements(prn_in_ranked(c, i));
    *ret = (double)elements;
    return elements < 0 ? PRN_REASON_INPUT : 0;
}

static int output_elements(const struct prn_infer_call *c, double *ret)
{
    int64_t elements = c->n_out ? prn_known_elements(c->out[0]) : -1;
    *ret = (double)elements;
    return elements < 0 ? PRN_REASON_OUTPUT : 0;
}

int prn_flops_none(const struct prn_infer_call *c, double *ret_flops)
{
    (void)c;
    *ret_flops = 0;
    return 0;
}

int prn_flops_linear(const struct prn_infer_call *c, double *ret_flops)
{
    double out = 0;
    double in = 0;
    int r = c->op->per_out != 0 ? output_elements(c, &out) : 0;
    if (r == 0 && c->op->per_in != 0)
        r = input_elements(c, 0, &in);
    *ret_flops = out * c->op->per_out + in * c->op->per_in;
    return r;
}

int prn_flops_variadic(const struct prn_infer_call *c, double *ret_flops)
{
    double out;
    int r = output_elements(c, &out);
    *ret_flops = out * ((double)c->n_in - 1 + c->op->per_out);
    return r;
}

int prn_flops_unknown(const struct prn_infer_call *c, double *ret_flops)
{
    (void)c;
    *ret_flops = 0;
    return PRN_REASON_DATA;
}

/* Elements of a weight per channel of its first axis; for Conv that is (channels / group) · taps.
 */
static int weight_elements(const struct prn_infer_call *c, size_t i, double *ret)
{
    const struct prn_known *w = prn_in_ranked(c, i);
    double elements;
    int r = input_elements(c, i, &elements);
    if (r)
        return r;
    if (w->rank == 0)
        return PRN_REASON_MALFORMED;
    *ret = w->dims[0] ? elements / (double)w->dims[0] : 0;
    return 0;
}

/* `arg` is the weight's input, `arg2` the bias', `per_out` what a fused activation adds. */
int prn_flops_conv(const struct prn_infer_call *c, double *ret_flops)
{
    double out;
    double taps;
    int r = output_elements(c, &out);
    if (r == 0)
        r = weight_elements(c, (size_t)c->op->arg, &taps);
    if (r)
        return r;
    bool bias = c->op->arg2 && prn_in(c, (size_t)c->op->arg2);
    *ret_flops = out * (2 * taps + bias + c->op->per_out);
    return 0;
}

int prn_flops_conv_transpose(const struct prn_infer_call *c, double *ret_flops)
{
    double in;
    double out;
    double taps;
    int r = input_elements(c, 0, &in);
    if (r == 0)
        r = output_elements(c, &out);
    if (r == 0)
        r = weight_elements(c, 1, &taps);
    if (r)
        return r;
    *ret_flops = 2 * in * taps + (prn_in(c, 2) ? out : 0);
    return 0;
}

/* The length that a matrix product sums over. */
static int inner_length(const struct prn_infer_call *c, double *ret)
{
    const struct prn_known *a = prn_in_ranked(c, (size_t)c->op->arg);
    if (!a)
        return PRN_REASON_INPUT;
    if (a->rank < 1)
        return PRN_REASON_MALFORMED;
    size_t axis = (size_t)a->rank - 1;
    if (axis > 0 && prn_attr_int(c, "transA", 0) != 0)
        axis = prn_attr_int(c, "transBatchA", 0) != 0 ? 0 : axis - 1;
    *ret = (double)a->dims[axis];
    return a->dims[axis] < 0 ? PRN_REASON_INPUT : 0;
}

/* `per_out` counts what comes on top: scaling back, an activation. */
int prn_flops_matmul(const struct prn_infer_call *c, double *ret_flops)
{
    double out;
    double inner;
    int r = output_elements(c, &out);
    if (r == 0)
        r = inner_length(c, &inner);
    if (r)
        return r;
    *ret_flops = out * (2 * inner + c->op->per_out);
    return 0;
}

int prn_flops_gemm(const struct prn_infer_call *c, double *ret_flops)
{
    double out;
    int r = prn_flops_matmul(c, ret_flops);
    if (r == 0)
        r = output_elements(c, &out);
    size_t addend = (size_t)c->op->arg2 * 2; /* A, B, C or A, …, B, …, C */
    if (r == 0 && prn_in(c, addend))
        *ret_flops += out;
    return r;
}

int prn_flops_einsum(const struct prn_infer_call *c, double *ret_flops)
{
    struct prn_einsum e;
    int r = prn_einsum_read(c, &e);
    if (r)
        return r;
    if (isnan(e.volume))
        return PRN_REASON_INPUT;
    *ret_flops = e.volume * ((double)c->n_in - 1 + e.contracts);
    return 0;
}

int prn_flops_attention(const struct prn_infer_call *c, double *ret_flops)
{
    struct prn_attention a;
    int r = prn_attention_read(c, &a);
    if (r)
        return r;
    if (a.batch < 0 || a.heads < 0 || a.queries < 0 || a.keys < 0 || a.size < 0 || a.v_size < 0 ||
        a.project_in < 0 || a.project_out < 0)
        return PRN_REASON_INPUT;
    double rows = (double)a.batch * (double)a.queries;
    double scores = rows * (double)a.heads * (double)a.keys;
    bool bias = a.project_out > 0 && prn_in(c, 2);
    *ret_flops = scores * (2 * (double)a.size + 5 + 2 * (double)a.v_size) +
                 rows * (double)a.project_out * (2 * (double)a.project_in + bias);
    return 0;
}

int prn_flops_rnn(const struct prn_infer_call *c, double *ret_flops)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    const struct prn_known *recurrence = prn_in_ranked(c, 2);
    if (!x || x->rank != 3 || prn_known_elements(x) < 0)
        return PRN_REASON_INPUT;
    int64_t hidden = prn_attr_int(c, "hidden_size", -1);
    if (hidden < 0 && recurrence && recurrence->rank == 3)
        hidden = recurrence->dims[c->op->arg2];
    if (hidden < 0)
        return PRN_REASON_INPUT;
    const char *direction = prn_attr_string(c, "direction", "forward");
    double directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    double h = (double)hidden;
    double products = 2 * c->op->arg * h * ((double)x->dims[2] + h);
    *ret_flops =
        directions * (double)x->dims[0] * (double)x->dims[1] * (products + c->op->per_out * h);
    return 0;
}

/* `per_out` counts what follows the kernel's adds or comparisons. */
int prn_flops_pool(const struct prn_infer_call *c, double *ret_flops)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    struct prn_kernel_window w;
    double out;
    int r = output_elements(c, &out);
    if (r || !x || x->rank < 3)
        return r ? r : PRN_REASON_INPUT;
    r = prn_window_read(c, (size_t)x->rank - 2, NULL, &w);
    double taps = 1;
    for (size_t i = 0; r == 0 && i < w.n; i++)
        taps *= (double)w.kernel[i];
    *ret_flops = out * (taps + c->op->per_out);
    return r;
}

int prn_flops_lrn(const struct prn_infer_call *c, double *ret_flops)
{
    double out;
    int r = output_elements(c, &out);
    int64_t size = prn_attr_int(c, "size", 0);
    *ret_flops = out * ((double)size + 5);
    return r ? r : size < 1 || size > PRN_WINDOW_MAX ? PRN_REASON_MALFORMED : 0;
}

static double taps_of_mode(const char *mode, double dims)
{
    double side = strstr(mode, "linear") ? 2 : strstr(mode, "cubic") ? 4 : 0;
    return side != 0 ? pow(side, dims) : 0;
}

int prn_flops_resize(const struct prn_infer_call *c, double *ret_flops)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    double out;
    double dims = 0;
    int r = output_elements(c, &out);
    if (r || !x || x->rank != c->out[0]->rank)
        return r ? r : PRN_REASON_INPUT;
    for (int i = 0; i < x->rank; i++)
        dims += x->dims[i] != c->out[0]->dims[i];
    *ret_flops = 2 * out * taps_of_mode(prn_attr_string(c, "mode", "nearest"), dims);
    return 0;
}

int prn_flops_grid_sample(const struct prn_infer_call *c, double *ret_flops)
{
    double out;
    int r = output_elements(c, &out);
    if (r)
        return r;
    *ret_flops = 2 * out * taps_of_mode(prn_attr_string(c, "mode", "linear"), c->out[0]->rank - 2);
    return 0;
}

int prn_flops_roi_align(const struct prn_infer_call *c, double *ret_flops)
{
    double out;
    int r = output_elements(c, &out);
    int64_t ratio = prn_attr_int(c, "sampling_ratio", 0);
    double points = ratio > 0 && ratio < PRN_WINDOW_MAX ? (double)ratio * (double)ratio : 1;
    *ret_flops = 8 * out * points;
    return r;
}

static double transform(double n)
{
    return n > 1 ? 5 * n * log2(n) : 0;
}

/* The transformed axis is the one whose length the result shows, or the input's longest guess: the
 * count of complex values of the input stands for transforms · length. */
int prn_flops_dft(const struct prn_infer_call *c, double *ret_flops)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    size_t axis;
    double in;
    int r = input_elements(c, 0, &in);
    if (r)
        return r;
    int64_t value = prn_attr_int(c, "axis", c->n_in > 2 ? -2 : 1);
    if (prn_in(c, 2) && !prn_in_int(c, 2, &value))
        return PRN_REASON_INPUT;
    if (x->rank < 2 || !prn_axis(value, (size_t)x->rank, &axis))
        return PRN_REASON_MALFORMED;
    double n = (double)x->dims[axis];
    double values = x->dims[x->rank - 1] ? in / (double)x->dims[x->rank - 1] : 0;
    *ret_flops = n > 0 ? values / n * transform(n) : 0;
    return 0;
}

int prn_flops_stft(const struct prn_infer_call *c, double *ret_flops)
{
    const struct prn_known *window = prn_in_ranked(c, 2);
    int64_t length = window && window->rank == 1 ? window->dims[0] : -1;
    double out;
    int r = output_elements(c, &out);
    if (r)
        return r;
    if ((!prn_in_int(c, 3, &length) && length < 0) || c->out[0]->rank < 2)
        return PRN_REASON_INPUT;
    const int64_t *dims = c->out[0]->dims;
    *ret_flops = (double)dims[0] * (double)dims[1] * ((double)length + transform((double)length));
    return 0;
}

int prn_flops_det(const struct prn_infer_call *c, double *ret_flops)
{
    const struct prn_known *x = prn_in_ranked(c, 0);
    double in;
    int r = input_elements(c, 0, &in);
    if (r)
        return r;
    *ret_flops = x->rank < 2 ? 0 : in * (double)x->dims[x->rank - 1] * 2 / 3;
    return 0;
}
