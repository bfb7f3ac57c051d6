/* Compares the outputs of two backends, read piece by piece from shared memory. */
#include "base/io.h"
#include "measure/measure.h"
#include "model/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PIECE ((size_t)64 * 1024)

struct sums {
    double max_abs, max_reference;
    double dot, square, square_reference;
    bool unlike; /* one of them isn't finite where the other is */
};

static void add_numbers(struct sums *s, const void *reference, const void *other, int dtype,
                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        double a = prn_tensor_get(reference, dtype, i);
        double b = prn_tensor_get(other, dtype, i);
        if (!isfinite(a) || !isfinite(b)) {
            s->unlike |= !(a == b || (isnan(a) && isnan(b)));
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
    double norm = sqrt(s.square) * sqrt(s.square_reference);
    check->cosine = norm > 0 ? fmin(1, s.dot / norm) : s.max_abs == 0 && !s.unlike ? 1 : 0;
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

bool prn_output_differs(const struct prn_output_check *check, double tolerance)
{
    return !check->same_shape || (check->whole ? check->max_abs > 0 : check->max_rel > tolerance);
}
