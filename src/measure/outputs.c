/* Compares the outputs of two backends, read piece by piece from shared memory. */
#include "base/io.h"
#include "measure/measure.h"
#include "model/tensor/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)64 * 1024)

struct sums {
    double max_abs, max_reference;
    double dot, square, square_reference;
    bool unlike; /* one of them isn't finite where the other is */
    int64_t both_nan;
};

static void add_numbers(struct sums *s, const void *reference, const void *other, int dtype,
                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double a = prn_tensor_get(reference, dtype, i);
        double b = prn_tensor_get(other, dtype, i);
        if (!isfinite(a) || !isfinite(b)) {
            s->unlike |= !(a == b || (isnan(a) && isnan(b)));
            s->both_nan += isnan(a) && isnan(b);
            continue;
        }
        s->max_abs = fmax(s->max_abs, fabs(a - b));
        s->max_reference = fmax(s->max_reference, fabs(a));
        s->dot += a * b;
        s->square += b * b;
        s->square_reference += a * a;
    }
}

static int compare_one(int reference_fd, const struct prn_place *reference, int fd,
                       const struct prn_place *other, unsigned char *pieces,
                       struct prn_output_check *check)
{
    struct sums s = {0};
    check->same_shape = reference->dtype == other->dtype && reference->rank == other->rank &&
                        memcmp(reference->dims, other->dims, other->rank * sizeof(int64_t)) == 0;
    check->max_abs = check->max_rel = check->cosine = NAN;
    check->whole = prn_dtype_is_integer(reference->dtype) || reference->dtype == PRN_DTYPE_BOOL;
    if (!check->same_shape || reference->dtype == PRN_DTYPE_UNDEFINED)
        return 0;
    bool text = reference->dtype == PRN_DTYPE_STRING;
    int dtype = reference->dtype;
    int64_t left = 0;
    if (prn_dims_elements(reference->dims, reference->rank, &left) < 0)
        return -1;
    /* A complex number is compared as the two real ones that it consists of. */
    if (dtype == PRN_DTYPE_COMPLEX64 || dtype == PRN_DTYPE_COMPLEX128) {
        dtype = dtype == PRN_DTYPE_COMPLEX64 ? PRN_DTYPE_FLOAT : PRN_DTYPE_DOUBLE;
        if (__builtin_mul_overflow(left, 2, &left))
            return -1;
    }
    int bits = prn_dtype_bits(dtype);
    if (bits == 0 && !text)
        return -1;
    if (text && reference->bytes != other->bytes)
        s.unlike = true;
    for (size_t at = 0; at < reference->bytes && at < other->bytes; at += PIECE) {
        size_t len = reference->bytes - at < PIECE ? reference->bytes - at : PIECE;
        if (text && len > other->bytes - at)
            len = other->bytes - at;
        if (prn_pread_all(reference_fd, pieces, len, reference->offset + at) < 0 ||
            prn_pread_all(fd, pieces + PIECE, len, other->offset + at) < 0)
            return -1;
        if (text) {
            s.unlike |= memcmp(pieces, pieces + PIECE, len) != 0;
            continue;
        }
        int64_t n = (int64_t)(len * 8) / bits;
        n = n < left ? n : left;
        add_numbers(&s, pieces, pieces + PIECE, dtype, (size_t)n);
        left -= n;
    }
    check->max_abs = s.unlike ? INFINITY : s.max_abs;
    check->max_rel = s.unlike ? INFINITY : s.max_abs == 0 ? 0 : s.max_abs / s.max_reference;
    check->both_nan = s.both_nan;
    double norm = sqrt(s.square) * sqrt(s.square_reference);
    check->cosine = norm > 0                      ? fmin(1, s.dot / norm)
                    : s.both_nan > 0              ? NAN
                    : s.max_abs == 0 && !s.unlike ? 1
                                                  : 0;
    return 0;
}

static size_t find_output(const struct prn_outputs *outputs, const char *name)
{
    size_t i = 0;
    while (i < outputs->n && strcmp(outputs->places[i].name, name) != 0)
        i++;
    return i;
}

int prn_outputs_match(struct prn_outputs *a, struct prn_outputs *b, struct prn_arena *arena,
                      struct prony_error *err)
{
    struct prn_place *left = PRN_ARENA_ARRAY(arena, a->n + 1, struct prn_place);
    struct prn_place *right = PRN_ARENA_ARRAY(arena, a->n + 1, struct prn_place);
    size_t n = 0;
    size_t k = 0; /* the next of b's that may have no namesake */
    if (!left || !right)
        return prn_fail_memory(err);
    for (size_t i = 0; i < a->n; i++) {
        size_t other = find_output(b, a->places[i].name);
        if (other == b->n) {
            while (k < b->n && find_output(a, b->places[k].name) < a->n)
                k++;
            if (k == b->n)
                continue;
            other = k++;
        }
        left[n] = a->places[i];
        right[n++] = b->places[other];
    }
    a->places = left;
    b->places = right;
    a->n = b->n = n;
    return 0;
}

int prn_outputs_compare(int reference_fd, const struct prn_place *reference, int fd,
                        const struct prn_place *outputs, size_t n, struct prn_arena *arena,
                        struct prn_output_check **ret_checks, struct prony_error *err)
{
    struct prn_output_check *checks = PRN_ARENA_ARRAY(arena, n + 1, struct prn_output_check);
    unsigned char *pieces = malloc(2 * PIECE);
    int code = checks && pieces ? 0 : prn_fail_memory(err);
    for (size_t i = 0; code == 0 && i < n; i++) {
        checks[i].name = prn_arena_strdup(arena, reference[i].name);
        if (!checks[i].name)
            code = prn_fail_memory(err);
        else if (compare_one(reference_fd, &reference[i], fd, &outputs[i], pieces, &checks[i]) < 0)
            code = prn_fail(err, PRONY_EIO, "cannot read output '%s' back", reference[i].name);
    }
    free(pieces);
    if (code == 0)
        *ret_checks = checks;
    return code;
}

/* ---- What passes for rounding ---- */

#define ULPS 8               /* of the inputs' scale, that a sum of many products is off by */
#define SAME_DIRECTION 0.999 /* cosine: noise doesn't have it, and neither has a wrong answer */
#define SCALE_BYTES_MAX ((size_t)16 << 20) /* of an input that are looked at */

static double ulp_of(int dtype)
{
    switch (dtype) {
    case PRN_DTYPE_FLOAT:
    case PRN_DTYPE_COMPLEX64:
        return 0x1p-23;
    case PRN_DTYPE_DOUBLE:
    case PRN_DTYPE_COMPLEX128:
        return 0x1p-52;
    case PRN_DTYPE_FLOAT16:
        return 0x1p-10 / ULPS; /* so coarse that one is enough */
    case PRN_DTYPE_BFLOAT16:
        return 0x1p-7 / ULPS;
    default:
        return 0;
    }
}

double prn_inputs_scale(int fd, const struct prn_place *inputs, size_t n)
{
    double scale = 0;
    unsigned char *piece = malloc(PIECE);
    for (size_t i = 0; piece && i < n; i++) {
        const struct prn_place *place = &inputs[i];
        int bits = prn_dtype_bits(place->dtype);
        if (!prn_dtype_is_float(place->dtype) || bits < 8)
            continue;
        for (size_t at = 0; at < place->bytes && at < SCALE_BYTES_MAX; at += PIECE) {
            size_t len = place->bytes - at < PIECE ? place->bytes - at : PIECE;
            if (prn_pread_all(fd, piece, len, place->offset + at) < 0)
                break;
            for (size_t k = 0; k < len * 8 / (size_t)bits; k++) {
                double value = fabs(prn_tensor_get(piece, place->dtype, k));
                scale = isfinite(value) ? fmax(scale, value) : scale;
            }
        }
    }
    free(piece);
    return scale > 0 ? scale : 1;
}

void prn_outputs_allow(struct prn_output_check *checks, const struct prn_place *outputs, size_t n,
                       double scale, bool quantised)
{
    for (size_t i = 0; i < n; i++) {
        int dtype = outputs[i].dtype;
        checks[i].floor = ULPS * ulp_of(dtype) * scale;
        if (quantised && (dtype == PRN_DTYPE_INT8 || dtype == PRN_DTYPE_UINT8)) {
            checks[i].whole = false;
            checks[i].floor = 1;
        }
    }
}

bool prn_output_differs(const struct prn_output_check *check, double tolerance)
{
    if (!check->same_shape || check->whole)
        return !check->same_shape || check->max_abs > 0;
    /* Who tolerates nothing wants the same bits. */
    bool rounding =
        tolerance > 0 && check->max_abs <= check->floor && check->cosine >= SAME_DIRECTION;
    return check->max_rel > tolerance && !rounding;
}
