/*
 * NumPy's file format: a magic number, a version, the length of a header, the header, and the
 * elements. The header is a Python dictionary with exactly the keys descr, fortran_order and shape;
 * it is read by a small parser that knows no more of Python than that.
 */
#include "model/tensor/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MAGIC "\x93NUMPY"
#define MAGIC_BYTES 6
#define DESCR_MAX 32

struct npy {
    const char *at, *end; /* of the header */
    const char *name;     /* of the file */
    int expected;
    struct prony_error *err;
    /* what the header says */
    char descr[DESCR_MAX];
    bool has_descr, has_order, has_shape, fortran;
    struct prn_tensor tensor;
    size_t item_bytes; /* of one element in the file */
};

static int bad(struct npy *n, const char *what)
{
    return prn_tensor_fail(n->err, PRONY_EFORMAT, n->name, "%s", what);
}

/* ---- The header's dictionary ---- */

static void skip_space(struct npy *n)
{
    while (n->at < n->end && (*n->at == ' ' || *n->at == '\n' || *n->at == '\t'))
        n->at++;
}

/* Takes one character if it is next. */
static bool take(struct npy *n, char c)
{
    skip_space(n);
    if (n->at == n->end || *n->at != c)
        return false;
    n->at++;
    return true;
}

static bool take_word(struct npy *n, const char *word)
{
    size_t len = strlen(word);
    skip_space(n);
    if ((size_t)(n->end - n->at) < len || memcmp(n->at, word, len) != 0)
        return false;
    n->at += len;
    return true;
}

/* A quoted text without escapes, cut to `size`. */
static bool take_text(struct npy *n, char *text, size_t size)
{
    skip_space(n);
    if (n->at == n->end || (*n->at != '\'' && *n->at != '"'))
        return false;
    char quote = *n->at;
    const char *start = n->at + 1;
    const char *stop = memchr(start, quote, (size_t)(n->end - start));
    if (!stop)
        return false;
    snprintf(text, size, "%.*s", (int)(stop - start < 100 ? stop - start : 100), start);
    n->at = stop + 1;
    return true;
}

static bool take_number(struct npy *n, int64_t *ret_value)
{
    skip_space(n);
    int64_t value = 0;
    const char *start = n->at;
    while (n->at < n->end && *n->at >= '0' && *n->at <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, *n->at - '0', &value))
            return false;
        n->at++;
    }
    *ret_value = value;
    return n->at > start;
}

static int parse_shape(struct npy *n)
{
    if (!take(n, '('))
        return bad(n, "its header has no shape");
    while (!take(n, ')')) {
        int64_t dim;
        if (!take_number(n, &dim))
            return bad(n, "its header has a damaged shape");
        if (n->tensor.rank == PRN_RANK_MAX)
            return prn_tensor_fail(n->err, PRONY_ELIMIT, n->name, "it has more than %d dimensions",
                                   PRN_RANK_MAX);
        n->tensor.dims[n->tensor.rank++] = dim;
        bool comma = take(n, ',');
        skip_space(n);
        if (!comma && (n->at == n->end || *n->at != ')'))
            return bad(n, "its header has a damaged shape");
    }
    n->has_shape = true;
    return 0;
}

static int parse_entry(struct npy *n)
{
    char key[16];
    if (!take_text(n, key, sizeof key) || !take(n, ':'))
        return bad(n, "its header is damaged");
    if (strcmp(key, "descr") == 0 && !n->has_descr) {
        if (take(n, '['))
            return prn_tensor_fail(n->err, PRONY_EUNSUPPORTED, n->name,
                                   "it is a structured array; save one field of it");
        n->has_descr = true;
        return take_text(n, n->descr, sizeof n->descr) ? 0 : bad(n, "its header is damaged");
    }
    if (strcmp(key, "fortran_order") == 0 && !n->has_order) {
        n->has_order = true;
        n->fortran = take_word(n, "True");
        return n->fortran || take_word(n, "False") ? 0 : bad(n, "its header is damaged");
    }
    if (strcmp(key, "shape") == 0 && !n->has_shape)
        return parse_shape(n);
    return bad(n, "its header has an unknown or repeated key");
}

static int parse_header(struct npy *n)
{
    if (!take(n, '{'))
        return bad(n, "its header is damaged");
    while (!take(n, '}')) {
        int code = parse_entry(n);
        if (code < 0)
            return code;
        bool comma = take(n, ',');
        skip_space(n);
        if (!comma && (n->at == n->end || *n->at != '}'))
            return bad(n, "its header is damaged");
    }
    skip_space(n);
    if (n->at != n->end || !n->has_descr || !n->has_order || !n->has_shape)
        return bad(n, "its header is damaged");
    if (n->fortran && n->tensor.rank > 1)
        return prn_tensor_fail(
            n->err, PRONY_EUNSUPPORTED, n->name,
            "it is in Fortran order; save numpy.ascontiguousarray(array) instead");
    return 0;
}

/* ---- Element types ---- */

static int unknown_type(struct npy *n, const char *why)
{
    return prn_tensor_fail(n->err, PRONY_EUNSUPPORTED, n->name, "its NumPy type '%s' %s", n->descr,
                           why);
}

/* Types that NumPy doesn't name, written as so many opaque bytes. */
static int opaque_type(struct npy *n, int64_t size)
{
    int bits = prn_dtype_bits(n->expected);
    switch (n->expected) {
    case PRN_DTYPE_BFLOAT16:
    case PRN_DTYPE_FLOAT8E4M3FN:
    case PRN_DTYPE_FLOAT8E4M3FNUZ:
    case PRN_DTYPE_FLOAT8E5M2:
    case PRN_DTYPE_FLOAT8E5M2FNUZ:
    case PRN_DTYPE_FLOAT8E8M0:
    case PRN_DTYPE_FLOAT4E2M1:
    case PRN_DTYPE_UINT4:
    case PRN_DTYPE_INT4:
    case PRN_DTYPE_UINT2:
    case PRN_DTYPE_INT2:
        if (size == (bits + 7) / 8) {
            n->tensor.dtype = n->expected;
            return 0;
        }
    }
    return unknown_type(n, "tells only its size, and the input isn't of such a type");
}

static int named_type(struct npy *n, char kind, int64_t size)
{
    static const struct {
        char kind;
        int size;
        int dtype;
    } types[] = {{'b', 1, PRN_DTYPE_BOOL},       {'i', 1, PRN_DTYPE_INT8},
                 {'i', 2, PRN_DTYPE_INT16},      {'i', 4, PRN_DTYPE_INT32},
                 {'i', 8, PRN_DTYPE_INT64},      {'u', 1, PRN_DTYPE_UINT8},
                 {'u', 2, PRN_DTYPE_UINT16},     {'u', 4, PRN_DTYPE_UINT32},
                 {'u', 8, PRN_DTYPE_UINT64},     {'f', 1, PRN_DTYPE_FLOAT8E5M2},
                 {'f', 2, PRN_DTYPE_FLOAT16},    {'f', 4, PRN_DTYPE_FLOAT},
                 {'f', 8, PRN_DTYPE_DOUBLE},     {'c', 8, PRN_DTYPE_COMPLEX64},
                 {'c', 16, PRN_DTYPE_COMPLEX128}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(types); i++)
        if (types[i].kind == kind && types[i].size == size) {
            n->tensor.dtype = types[i].dtype;
            return 0;
        }
    return unknown_type(n, "has no counterpart in ONNX");
}

static int parse_type(struct npy *n)
{
    const char *text = n->descr;
    char order = *text == '<' || *text == '>' || *text == '|' || *text == '=' ? *text++ : '|';
    char kind = *text ? *text++ : '?';
    if (kind == 'O')
        return prn_tensor_fail(n->err, PRONY_EUNSUPPORTED, n->name,
                               "it is an array of Python objects");
    struct npy digits = {.at = text, .end = text + strlen(text)};
    int64_t size;
    if (!take_number(&digits, &size) || digits.at != digits.end || size > INT32_MAX)
        return unknown_type(n, "has no counterpart in ONNX");
    if (order == '>' && (size > 1 || kind == 'U') && kind != 'S')
        return prn_tensor_fail(n->err, PRONY_EUNSUPPORTED, n->name,
                               "it is big-endian ('%s'); save array.astype('<%s') instead",
                               n->descr, n->descr + 1);
    n->item_bytes = (size_t)size;
    switch (kind) {
    case 'U':
        n->item_bytes *= 4;
        n->tensor.dtype = PRN_DTYPE_STRING;
        return 0;
    case 'S':
        n->tensor.dtype = PRN_DTYPE_STRING;
        return 0;
    case 'V':
        return opaque_type(n, size);
    default:
        return named_type(n, kind, size);
    }
}

/* ---- Elements ---- */

static uint32_t code_point(const uint8_t *at)
{
    uint32_t c;
    memcpy(&c, at, sizeof c);
    return c;
}

/* Writes one character as UTF-8; 0 when it is none. */
static size_t encode_utf8(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return 0;
    size_t len = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t leads[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = len - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (c & 0x3f));
        c >>= 6;
    }
    out[0] = (char)(leads[len] | c);
    return len;
}

/* Length of one string without the zeros that pad it, in units of `unit` bytes. */
static size_t trimmed(const uint8_t *item, size_t units, size_t unit)
{
    static const uint8_t zero[4];
    while (units > 0 && memcmp(item + (units - 1) * unit, zero, unit) == 0)
        units--;
    return units;
}

/* One string as UTF-8 into `out`, which is as long as the item; false when it isn't Unicode. */
static bool decode_item(const struct npy *n, const uint8_t *item, char *out, size_t *ret_len)
{
    bool wide = strchr(n->descr, 'U') != NULL;
    size_t unit = wide ? 4 : 1;
    size_t units = trimmed(item, n->item_bytes / unit, unit);
    size_t len = 0;
    if (!wide)
        memcpy(out, item, len = units);
    for (size_t i = 0; wide && i < units; i++) {
        size_t bytes = encode_utf8(code_point(item + 4 * i), out + len);
        if (bytes == 0)
            return false;
        len += bytes;
    }
    *ret_len = len;
    return true;
}

/* Strings are decoded straight into the block; no encoding is longer than what NumPy stores, so
 * the block has room for all, and is cut to what was used. */
static int copy_strings(struct npy *n, const uint8_t *data, size_t elements)
{
    struct prn_tensor *t = &n->tensor;
    size_t offsets_bytes = (elements + 1) * sizeof(uint64_t);
    int code = prn_tensor_allocate_strings(t, elements, elements * n->item_bytes, n->err);
    if (code < 0)
        return code;
    uint64_t *offsets = t->data;
    char *characters = (char *)t->data + offsets_bytes;
    for (size_t i = 0; i < elements; i++) {
        size_t len = 0;
        if (n->item_bytes &&
            !decode_item(n, data + i * n->item_bytes, characters + offsets[i], &len))
            return bad(n, "it has text that isn't Unicode");
        offsets[i + 1] = offsets[i] + len;
    }
    t->bytes = offsets_bytes + offsets[elements];
    return 0;
}

static int copy_elements(struct npy *n, const uint8_t *data, size_t elements, size_t bytes)
{
    struct prn_tensor *t = &n->tensor;
    int bits = prn_dtype_bits(t->dtype);
    int code = prn_tensor_allocate(t, bytes, n->err);
    if (code < 0 || bytes == 0)
        return code;
    if (bits >= 8) {
        memcpy(t->data, data, bytes);
        prn_tensor_clean_bools(t);
        return 0;
    }
    /* NumPy gives each element a byte; packed, the first is in the lowest bits. */
    uint8_t *packed = t->data;
    size_t per_byte = 8 / (size_t)bits;
    memset(packed, 0, bytes);
    for (size_t i = 0; i < elements; i++)
        packed[i / per_byte] |=
            (uint8_t)((data[i] & ((1u << bits) - 1)) << (i % per_byte * (size_t)bits));
    return 0;
}

static int parse_elements(struct npy *n, const uint8_t *data, size_t len)
{
    int64_t elements;
    size_t bytes;
    size_t needed;
    int code = prn_tensor_measure(&n->tensor, n->name, &elements, &bytes, n->err);
    if (code < 0)
        return code;
    if (__builtin_mul_overflow((size_t)elements, n->item_bytes, &needed) || len < needed)
        return prn_tensor_fail(n->err, PRONY_EFORMAT, n->name,
                               "it is truncated: %zu bytes of data, its header announces more",
                               len);
    if (len > needed)
        return prn_tensor_fail(n->err, PRONY_EFORMAT, n->name, "it has %zu bytes after its data",
                               len - needed);
    if (n->tensor.dtype == PRN_DTYPE_STRING) {
        /* Zero-width strings take no bytes in the file, so nothing there bounds their number. */
        if (n->item_bytes == 0 && elements > (int64_t)1 << 20)
            return prn_tensor_fail(n->err, PRONY_ELIMIT, n->name, "it has too many empty strings");
        return copy_strings(n, data, (size_t)elements);
    }
    return copy_elements(n, data, (size_t)elements, bytes);
}

/* Finds the header; `*ret_data` is what follows it. */
static int find_header(struct npy *n, const uint8_t *file, size_t len, const uint8_t **ret_data)
{
    if (len < MAGIC_BYTES || memcmp(file, MAGIC, MAGIC_BYTES) != 0)
        return bad(n, "it is not a NumPy file");
    if (len < MAGIC_BYTES + 2)
        return bad(n, "its header is truncated");
    unsigned version = file[MAGIC_BYTES];
    if (version < 1 || version > 3)
        return prn_tensor_fail(n->err, PRONY_EUNSUPPORTED, n->name,
                               "its version is %u, and only 1 to 3 are known", version);
    size_t width = version == 1 ? 2 : 4;
    size_t start = MAGIC_BYTES + 2 + width;
    size_t header = 0;
    for (size_t i = 0; i < width && MAGIC_BYTES + 2 + i < len; i++)
        header |= (size_t)file[MAGIC_BYTES + 2 + i] << (8 * i);
    if (len < start || len - start < header)
        return bad(n, "its header is truncated");
    n->at = (const char *)file + start;
    n->end = n->at + header;
    *ret_data = file + start + header;
    return 0;
}

int prn_tensor_parse_npy_as(const void *data, size_t len, const char *name, int expected,
                            struct prn_tensor *ret_tensor, struct prony_error *err)
{
    struct npy n = {.name = name, .expected = expected, .err = err};
    const uint8_t *file = data;
    const uint8_t *elements = NULL;
    int code = find_header(&n, file, len, &elements);
    if (code == 0)
        code = parse_header(&n);
    if (code == 0)
        code = parse_type(&n);
    if (code == 0)
        code = parse_elements(&n, elements, len - (size_t)(elements - file));
    if (code < 0)
        prn_tensor_release(&n.tensor);
    else
        *ret_tensor = n.tensor;
    return code;
}

int prn_tensor_parse_npy(const void *data, size_t len, const char *name,
                         struct prn_tensor *ret_tensor, struct prony_error *err)
{
    return prn_tensor_parse_npy_as(data, len, name, 0, ret_tensor, err);
}
