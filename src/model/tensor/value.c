/*
 * One element of any type, to and from double. The small floats are one format with different
 * parameters: sign, exponent, mantissa, and what the codes at the top mean.
 */
#include "model/tensor/tensor.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum top {
    TOP_IEEE,   /* the highest exponent is infinity and NaN */
    TOP_NAN,    /* only the highest code is NaN, no infinity (…FN) */
    TOP_ZERO,   /* negative zero is NaN, no infinity (…FNUZ) */
    TOP_FINITE, /* every code is a number */
};

struct small_float {
    int exponent_bits, mantissa_bits, bias;
    enum top top;
};

/* NULL for types that aren't small floats with a mantissa. */
static const struct small_float *small_float_of(int dtype)
{
    static const struct small_float half = {5, 10, 15, TOP_IEEE};
    static const struct small_float brain = {8, 7, 127, TOP_IEEE};
    static const struct small_float e4m3fn = {4, 3, 7, TOP_NAN};
    static const struct small_float e4m3fnuz = {4, 3, 8, TOP_ZERO};
    static const struct small_float e5m2 = {5, 2, 15, TOP_IEEE};
    static const struct small_float e5m2fnuz = {5, 2, 16, TOP_ZERO};
    static const struct small_float e2m1 = {2, 1, 1, TOP_FINITE};
    switch (dtype) {
    case PRN_DTYPE_FLOAT16:
        return &half;
    case PRN_DTYPE_BFLOAT16:
        return &brain;
    case PRN_DTYPE_FLOAT8E4M3FN:
        return &e4m3fn;
    case PRN_DTYPE_FLOAT8E4M3FNUZ:
        return &e4m3fnuz;
    case PRN_DTYPE_FLOAT8E5M2:
        return &e5m2;
    case PRN_DTYPE_FLOAT8E5M2FNUZ:
        return &e5m2fnuz;
    case PRN_DTYPE_FLOAT4E2M1:
        return &e2m1;
    default:
        return NULL;
    }
}

static double small_float_decode(const struct small_float *f, unsigned code)
{
    unsigned magnitude_bits = (unsigned)(f->exponent_bits + f->mantissa_bits);
    unsigned magnitude = code & ((1u << magnitude_bits) - 1);
    bool negative = code >> magnitude_bits;
    int exponent = (int)(magnitude >> f->mantissa_bits);
    int mantissa = (int)(magnitude & ((1u << f->mantissa_bits) - 1));
    if (f->top == TOP_IEEE && exponent == (1 << f->exponent_bits) - 1) {
        if (mantissa)
            return NAN;
        return negative ? -INFINITY : INFINITY;
    }
    if (f->top == TOP_NAN && magnitude == (1u << magnitude_bits) - 1)
        return NAN;
    if (f->top == TOP_ZERO && negative && magnitude == 0)
        return NAN;
    if (exponent > 0)
        mantissa |= 1 << f->mantissa_bits;
    else
        exponent = 1;
    double value = ldexp(mantissa, exponent - f->bias - f->mantissa_bits);
    return negative ? -value : value;
}

/* The code of the largest finite magnitude. */
static unsigned largest_code(const struct small_float *f)
{
    unsigned all = (1u << (f->exponent_bits + f->mantissa_bits)) - 1;
    switch (f->top) {
    case TOP_IEEE:
        return all - (1u << f->mantissa_bits);
    case TOP_NAN:
        return all - 1;
    default:
        return all;
    }
}

/* Rounds to the nearest, ties to even. */
static unsigned small_float_encode(const struct small_float *f, double value)
{
    unsigned sign = 1u << (f->exponent_bits + f->mantissa_bits);
    unsigned largest = largest_code(f);
    if (isnan(value)) {
        /* A type without NaN gets zero. */
        unsigned nans[] = {[TOP_IEEE] = largest + 1 + (1u << (f->mantissa_bits - 1)),
                           [TOP_NAN] = largest + 1,
                           [TOP_ZERO] = sign,
                           [TOP_FINITE] = 0};
        return nans[f->top];
    }
    unsigned code = largest;
    if (isinf(value)) {
        code += f->top == TOP_IEEE;
    } else if (value != 0) {
        int exponent;
        frexp(value, &exponent);
        exponent--; /* of a mantissa in [1, 2) */
        if (exponent < 1 - f->bias)
            exponent = 1 - f->bias; /* subnormal */
        if (exponent + f->bias < 1 << f->exponent_bits) {
            double steps = rint(ldexp(fabs(value), f->mantissa_bits - exponent));
            /* A mantissa that rounds up to 2 carries into the exponent by itself. */
            unsigned rounded =
                ((unsigned)(exponent + f->bias - 1) << f->mantissa_bits) + (unsigned)steps;
            code = rounded < largest ? rounded : largest;
        }
    } else {
        code = 0;
    }
    if (code == 0 && f->top == TOP_ZERO)
        return 0;
    return signbit(value) ? code | sign : code;
}

/* Float8E8M0 is a power of two: an exponent and nothing else. */
static unsigned scale_encode(double value)
{
    if (isnan(value))
        return 255;
    if (value <= 0x1p-127)
        return 0;
    if (value >= 0x1p127)
        return 254;
    int exponent;
    double fraction = frexp(value, &exponent); /* [0.5, 1) */
    return (unsigned)(exponent - 1 + (fraction >= 0.75) + 127);
}

/* A finite number beyond float becomes float's largest, not infinity. */
static float to_float(double value)
{
    if (isfinite(value) && fabs(value) > (double)FLT_MAX)
        return value < 0 ? -FLT_MAX : FLT_MAX;
    return (float)value;
}

static int64_t to_signed(double value, int bits)
{
    double limit = ldexp(1, bits - 1);
    if (isnan(value))
        return 0;
    if (value >= limit)
        return (int64_t)((UINT64_C(1) << (bits - 1)) - 1);
    return value <= -limit ? -(int64_t)((UINT64_C(1) << (bits - 1)) - 1) - 1 : (int64_t)value;
}

static uint64_t to_unsigned(double value, int bits)
{
    if (isnan(value) || value <= 0)
        return 0;
    return value >= ldexp(1, bits) ? UINT64_MAX >> (64 - bits) : (uint64_t)value;
}

static bool is_signed(int dtype)
{
    switch (dtype) {
    case PRN_DTYPE_INT8:
    case PRN_DTYPE_INT16:
    case PRN_DTYPE_INT32:
    case PRN_DTYPE_INT64:
    case PRN_DTYPE_INT4:
    case PRN_DTYPE_INT2:
        return true;
    default:
        return false;
    }
}

/* ---- Codes: an element's bits as an integer ---- */

static uint64_t encode(int dtype, double value)
{
    const struct small_float *small = small_float_of(dtype);
    if (small)
        return small_float_encode(small, value);
    if (dtype == PRN_DTYPE_FLOAT8E8M0)
        return scale_encode(value);
    if (dtype == PRN_DTYPE_BOOL)
        return value != 0; /* NaN is true, as in C */
    int bits = prn_dtype_bits(dtype);
    return is_signed(dtype) ? (uint64_t)to_signed(value, bits) : to_unsigned(value, bits);
}

static double decode(int dtype, uint64_t code)
{
    const struct small_float *small = small_float_of(dtype);
    if (small)
        return small_float_decode(small, (unsigned)code);
    if (dtype == PRN_DTYPE_FLOAT8E8M0)
        return code == 255 ? NAN : ldexp(1, (int)code - 127);
    if (dtype == PRN_DTYPE_BOOL)
        return code != 0;
    if (!is_signed(dtype))
        return (double)code;
    int unused = 64 - prn_dtype_bits(dtype);
    return (double)((int64_t)(code << unused) >> unused);
}

/* Small elements share a byte, the first in its lowest bits. */
static void store(void *data, int bits, size_t index, uint64_t code)
{
    uint8_t *bytes = data;
    if (bits >= 8) {
        size_t size = (size_t)bits / 8;
        memcpy(bytes + index * size, &code, size);
        return;
    }
    size_t per_byte = 8 / (size_t)bits;
    unsigned shift = (unsigned)(index % per_byte) * (unsigned)bits;
    unsigned mask = ((1u << bits) - 1) << shift;
    uint8_t *byte = bytes + index / per_byte;
    *byte = (uint8_t)((*byte & ~mask) | (((unsigned)code << shift) & mask));
}

static uint64_t value_load(const void *data, int bits, size_t index)
{
    const uint8_t *bytes = data;
    uint64_t code = 0;
    if (bits >= 8) {
        size_t size = (size_t)bits / 8;
        memcpy(&code, bytes + index * size, size);
        return code;
    }
    size_t per_byte = 8 / (size_t)bits;
    return (bytes[index / per_byte] >> (index % per_byte * (size_t)bits)) & ((1u << bits) - 1);
}

void prn_tensor_set(void *data, int dtype, size_t index, double value)
{
    char *bytes = data;
    float narrow = to_float(value);
    switch (dtype) {
    case PRN_DTYPE_FLOAT:
        memcpy(bytes + index * sizeof narrow, &narrow, sizeof narrow);
        return;
    case PRN_DTYPE_DOUBLE:
        memcpy(bytes + index * sizeof value, &value, sizeof value);
        return;
    case PRN_DTYPE_COMPLEX64:
        memcpy(bytes + 2 * index * sizeof narrow, (float[]){narrow, 0}, 2 * sizeof narrow);
        return;
    case PRN_DTYPE_COMPLEX128:
        memcpy(bytes + 2 * index * sizeof value, (double[]){value, 0}, 2 * sizeof value);
        return;
    default:
        if (prn_dtype_bits(dtype))
            store(data, prn_dtype_bits(dtype), index, encode(dtype, value));
    }
}

double prn_tensor_get(const void *data, int dtype, size_t index)
{
    const char *bytes = data;
    float narrow;
    double wide;
    switch (dtype) {
    case PRN_DTYPE_FLOAT:
        memcpy(&narrow, bytes + index * sizeof narrow, sizeof narrow);
        return narrow;
    case PRN_DTYPE_DOUBLE:
        memcpy(&wide, bytes + index * sizeof wide, sizeof wide);
        return wide;
    case PRN_DTYPE_COMPLEX64:
        memcpy(&narrow, bytes + 2 * index * sizeof narrow, sizeof narrow);
        return narrow;
    case PRN_DTYPE_COMPLEX128:
        memcpy(&wide, bytes + 2 * index * sizeof wide, sizeof wide);
        return wide;
    default:
        if (prn_dtype_bits(dtype) == 0)
            return NAN;
        return decode(dtype, value_load(data, prn_dtype_bits(dtype), index));
    }
}
