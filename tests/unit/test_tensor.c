/* Tensors: files that NumPy and onnx wrote, bad files made here byte by byte, elements of every
 * type, and made-up inputs. */
#include "unit.h"

#include "base/buffer.h"
#include "base/random.h"
#include "model/tensor/tensor.h"

#include <dirent.h>
#include <float.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A path in tests/data/tensors; good until the next call. */
static const char *stored(const char *name)
{
    char path[256];
    snprintf(path, sizeof path, "tensors/%s", name);
    return unit_data(path);
}

static int64_t elements_of(const struct prn_tensor *t)
{
    int64_t elements = -1;
    assert_int_equal(prn_dims_elements(t->dims, t->rank, &elements), 0);
    return elements;
}

/* An input of any shape with this rank. */
static struct prn_input open_input(int dtype, size_t rank)
{
    struct prn_input input = {.name = "x", .dtype = dtype, .rank = rank};
    for (size_t i = 0; i < rank; i++) {
        input.dims[i] = 1;
        input.assumed[i] = true;
    }
    return input;
}

/* ---- Files of other writers ---- */

static void check_strings(const struct prn_tensor *t, char *values)
{
    int64_t elements = elements_of(t);
    const uint64_t *offsets = t->data;
    const char *characters = (const char *)(offsets + elements + 1);
    assert_int_equal(offsets[0], 0);
    assert_int_equal(t->bytes, (size_t)(elements + 1) * 8 + offsets[elements]);
    char *save = NULL;
    for (int64_t i = 0; i < elements; i++) {
        const char *hex = strtok_r(i == 0 ? values : NULL, " \t\n", &save);
        size_t len = strcmp(hex, "-") == 0 ? 0 : strlen(hex) / 2;
        assert_int_equal(offsets[i + 1] - offsets[i], len);
        for (size_t k = 0; k < len; k++) {
            unsigned byte;
            assert_int_equal(sscanf(hex + 2 * k, "%2x", &byte), 1);
            assert_int_equal((unsigned char)characters[offsets[i] + k], byte);
        }
    }
}

/* Reads every element, and writes it again: the bytes must come out the same. */
static void check_numbers(const char *file, const struct prn_tensor *t, const char *values)
{
    size_t elements = (size_t)elements_of(t);
    int dtype = t->dtype;
    if (dtype == PRN_DTYPE_COMPLEX64 || dtype == PRN_DTYPE_COMPLEX128) {
        dtype = dtype == PRN_DTYPE_COMPLEX64 ? PRN_DTYPE_FLOAT : PRN_DTYPE_DOUBLE;
        elements *= 2;
    }
    unsigned char again[128] = {0};
    assert_true(t->bytes <= sizeof again);
    for (size_t i = 0; i < elements; i++) {
        char *end;
        double value = strtod(values, &end);
        assert_ptr_not_equal(values, end);
        values = end;
        if (prn_tensor_get(t->data, dtype, i) != value)
            fail_msg("%s: element %zu is %.17g, not %.17g", file, i,
                     prn_tensor_get(t->data, dtype, i), value);
        prn_tensor_set(again, dtype, i, value);
    }
    if (t->bytes)
        assert_memory_equal(again, t->data, t->bytes);
}

static void test_stored(void **state)
{
    (void)state;
    FILE *list = fopen(stored("expected.txt"), "r");
    assert_non_null(list);
    char line[1024];
    int n = 0;
    for (; fgets(line, sizeof line, list); n++) {
        char file[64], dims[64], held[64];
        int dtype, start;
        assert_int_equal(sscanf(line, "%63s %d %63s%n", file, &dtype, dims, &start), 3);
        size_t rank = strcmp(dims, "scalar") == 0 ? 0 : 1;
        for (const char *p = dims; rank && (p = strchr(p, 'x')); p++)
            rank++;
        struct prn_input input = open_input(dtype, rank);
        struct prn_tensor t;
        struct prony_error err;
        if (prn_tensor_read(stored(file), &input, &t, &err) < 0)
            fail_msg("%s: %s", file, err.text);
        assert_int_equal(t.dtype, dtype);
        assert_string_equal(prn_dims_text(t.dims, t.rank, held, sizeof held), dims);
        if (dtype == PRN_DTYPE_STRING)
            check_strings(&t, line + start);
        else
            check_numbers(file, &t, line + start);
        prn_tensor_release(&t);
    }
    fclose(list);
    assert_true(n > 80);
}

/* ---- Elements ---- */

static bool same(double a, double b)
{
    return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b));
}

static void test_every_code(void **state)
{
    (void)state;
    FILE *list = fopen(stored("codes.txt"), "r");
    assert_non_null(list);
    char line[16384];
    while (fgets(line, sizeof line, list)) {
        char *at;
        int dtype = (int)strtol(line, &at, 10);
        int codes = 1 << prn_dtype_bits(dtype);
        for (int code = 0; code < codes; code++) {
            unsigned char byte = (unsigned char)code;
            double value = strtod(at, &at);
            if (!same(prn_tensor_get(&byte, dtype, 0), value))
                fail_msg("%s %d is %g, not %g", prn_dtype_name(dtype), code,
                         prn_tensor_get(&byte, dtype, 0), value);
            unsigned char again = 0;
            prn_tensor_set(&again, dtype, 0, value);
            assert_true(isnan(value) ? isnan(prn_tensor_get(&again, dtype, 0)) : again == byte);
        }
    }
    fclose(list);
}

static void test_sixteen_bits_round_trip(void **state)
{
    (void)state;
    static const int types[] = {PRN_DTYPE_FLOAT16, PRN_DTYPE_BFLOAT16};
    for (size_t t = 0; t < PRN_ARRAY_SIZE(types); t++)
        for (unsigned code = 0; code < 65536; code++) {
            uint16_t bits = (uint16_t)code;
            double value = prn_tensor_get(&bits, types[t], 0);
            if (types[t] == PRN_DTYPE_BFLOAT16) {
                uint32_t wide = code << 16;
                float expected;
                memcpy(&expected, &wide, sizeof wide);
                assert_true(same(value, (double)expected));
            }
            uint16_t again = 0;
            prn_tensor_set(&again, types[t], 0, value);
            assert_true(isnan(value) ? isnan(prn_tensor_get(&again, types[t], 0)) : again == bits);
        }
}

/* No other code is nearer than the one that was chosen, and ties go to the even one. */
static void test_rounding(void **state)
{
    (void)state;
    static const int types[] = {PRN_DTYPE_FLOAT8E4M3FN, PRN_DTYPE_FLOAT8E4M3FNUZ,
                                PRN_DTYPE_FLOAT8E5M2, PRN_DTYPE_FLOAT8E5M2FNUZ,
                                PRN_DTYPE_FLOAT4E2M1};
    struct prn_random random;
    prn_random_seed(&random, 1);
    for (size_t t = 0; t < PRN_ARRAY_SIZE(types); t++)
        for (int i = 0; i < 2000; i++) {
            double value =
                ldexp(prn_random_double(&random) - 0.5, (int)prn_random_below(&random, 30) - 18);
            if (i % 2) /* halfway between two codes, or close to it */
                value = rint(value * 8) / 8 + 1.0 / 16;
            unsigned char chosen = 0;
            prn_tensor_set(&chosen, types[t], 0, value);
            double distance = fabs(prn_tensor_get(&chosen, types[t], 0) - value);
            for (int code = 0; code < 1 << prn_dtype_bits(types[t]); code++) {
                unsigned char other = (unsigned char)code;
                double d = fabs(prn_tensor_get(&other, types[t], 0) - value);
                if (d < distance || (d == distance && (chosen & 1) && !(code & 1)))
                    fail_msg("%s: %g became code %d, not %d", prn_dtype_name(types[t]), value,
                             chosen, code);
            }
        }
}

static void test_saturation(void **state)
{
    (void)state;
    static const struct {
        int dtype;
        double value, expected;
    } cases[] = {
        {PRN_DTYPE_INT8, 200, 127},
        {PRN_DTYPE_INT8, -200, -128},
        {PRN_DTYPE_INT8, 3.9, 3},
        {PRN_DTYPE_INT8, -3.9, -3},
        {PRN_DTYPE_INT8, NAN, 0},
        {PRN_DTYPE_UINT8, -1, 0},
        {PRN_DTYPE_UINT8, INFINITY, 255},
        {PRN_DTYPE_INT64, 1e30, 0x1p63},
        {PRN_DTYPE_INT64, -1e30, -0x1p63},
        {PRN_DTYPE_UINT64, 1e30, 0x1p64},
        {PRN_DTYPE_UINT32, 5e9, 4294967295.0},
        {PRN_DTYPE_INT4, 99, 7},
        {PRN_DTYPE_INT4, -99, -8},
        {PRN_DTYPE_UINT2, 9, 3},
        {PRN_DTYPE_BOOL, -0.5, 1},
        {PRN_DTYPE_BOOL, 0, 0},
        {PRN_DTYPE_FLOAT, 1e300, FLT_MAX},
        {PRN_DTYPE_FLOAT, -INFINITY, -INFINITY},
        {PRN_DTYPE_FLOAT16, 1e6, 65504},
        {PRN_DTYPE_FLOAT16, 65520, 65504},
        {PRN_DTYPE_FLOAT16, INFINITY, INFINITY},
        {PRN_DTYPE_BFLOAT16, -1e300, -0x1.fep127},
        {PRN_DTYPE_FLOAT8E4M3FN, 1e9, 448},
        {PRN_DTYPE_FLOAT8E4M3FN, INFINITY, 448},
        {PRN_DTYPE_FLOAT8E4M3FNUZ, -1e9, -240},
        {PRN_DTYPE_FLOAT8E4M3FNUZ, -1e-9, 0},
        {PRN_DTYPE_FLOAT8E5M2, 1e9, 57344},
        {PRN_DTYPE_FLOAT8E5M2FNUZ, 1e9, 57344},
        {PRN_DTYPE_FLOAT4E2M1, 100, 6},
        {PRN_DTYPE_FLOAT4E2M1, NAN, 0},
        {PRN_DTYPE_FLOAT8E8M0, 0, 0x1p-127},
        {PRN_DTYPE_FLOAT8E8M0, 3, 4},
        {PRN_DTYPE_FLOAT8E8M0, 2.9, 2},
        {PRN_DTYPE_FLOAT8E8M0, 1e300, 0x1p127},
        {PRN_DTYPE_COMPLEX64, 2, 2},
        {PRN_DTYPE_COMPLEX128, -2, -2},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        unsigned char data[32];
        memset(data, 0xff, sizeof data);
        prn_tensor_set(data, cases[i].dtype, 0, cases[i].value);
        double value = prn_tensor_get(data, cases[i].dtype, 0);
        if (value != cases[i].expected)
            fail_msg("%s: %g became %g, not %g", prn_dtype_name(cases[i].dtype), cases[i].value,
                     value, cases[i].expected);
    }
    assert_true(isnan(prn_tensor_get("", PRN_DTYPE_STRING, 0)));
}

static void test_packed_neighbours_stay(void **state)
{
    (void)state;
    unsigned char data[2] = {0xff, 0xff};
    prn_tensor_set(data, PRN_DTYPE_UINT4, 1, 0);
    assert_int_equal(data[0], 0x0f);
    prn_tensor_set(data, PRN_DTYPE_INT2, 6, 1);
    assert_int_equal(data[1], 0xdf);
    assert_int_equal((int)prn_tensor_get(data, PRN_DTYPE_INT2, 6), 1);
    assert_int_equal((int)prn_tensor_get(data, PRN_DTYPE_INT2, 7), -1);
}

/* ---- Bad NumPy files ---- */

/* A file of version 1 with this header and `bytes` zero bytes of data. */
static struct prn_buffer npy(const char *header, size_t bytes)
{
    struct prn_buffer file = PRN_BUFFER_INIT(1 << 20);
    size_t len = strlen(header) + 1;
    prn_buffer_append(&file, "\x93NUMPY\x01\x00", 8);
    prn_buffer_add_char(&file, (char)(len & 0xff));
    prn_buffer_add_char(&file, (char)(len >> 8));
    prn_buffer_printf(&file, "%s\n", header);
    for (size_t i = 0; i < bytes; i++)
        prn_buffer_add_char(&file, '\0');
    return file;
}

/* In a block of exactly its size, so that a sanitizer sees every byte too many. */
static int parse(bool pb, const void *bytes, size_t len, struct prn_tensor *t,
                 struct prony_error *err)
{
    char *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    int code = pb ? prn_tensor_parse_pb(copy, len, "f.pb", t, NULL, err)
                  : prn_tensor_parse_npy(copy, len, "f.npy", t, err);
    free(copy);
    return code;
}

static void refuse(bool pb, const void *bytes, size_t len, int code, const char *message)
{
    struct prn_tensor t;
    struct prony_error err = {0};
    int got = parse(pb, bytes, len, &t, &err);
    if (got != code || !strstr(err.text, message))
        fail_msg("%s: '%s' instead of '%s'", prony_error_name(got), err.text, message);
    assert_contains(err.text, pb ? "cannot read 'f.pb': " : "cannot read 'f.npy': ");
}

static void test_npy_faults(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t bytes;
        int code;
        const char *message;
    } cases[] = {
        {"{'descr': '>f4', 'fortran_order': False, 'shape': (1,), }", 4, PRONY_EUNSUPPORTED,
         "it is big-endian ('>f4'); save array.astype('<f4') instead"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", 16, PRONY_EUNSUPPORTED,
         "it is in Fortran order"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", 4, PRONY_EUNSUPPORTED,
         "it is an array of Python objects"},
        {"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }", 4,
         PRONY_EUNSUPPORTED, "it is a structured array"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (1,), }", 16, PRONY_EUNSUPPORTED,
         "its NumPy type '<f16' has no counterpart in ONNX"},
        {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (1,), }", 8, PRONY_EUNSUPPORTED,
         "its NumPy type '<M8[ns]' has no counterpart"},
        {"{'descr': '', 'fortran_order': False, 'shape': (1,), }", 8, PRONY_EUNSUPPORTED,
         "its NumPy type '' has no counterpart"},
        {"{'descr': '<V2', 'fortran_order': False, 'shape': (1,), }", 2, PRONY_EUNSUPPORTED,
         "its NumPy type '<V2' tells only its size"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 11, PRONY_EFORMAT,
         "it is truncated: 11 bytes of data"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", 15, PRONY_EFORMAT,
         "it has 3 bytes after its data"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", 4,
         PRONY_ELIMIT, "its shape, 4611686018427387904x4, is impossible or over 16 GiB"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }", 4,
         PRONY_EFORMAT, "its header has a damaged shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }", 4, PRONY_ELIMIT,
         "over 16 GiB"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,), }", 4, PRONY_EFORMAT,
         "it is truncated"},
        {"{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000,), }", 0, PRONY_ELIMIT,
         "too many empty strings"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }", 4, PRONY_EFORMAT,
         "its header has a damaged shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 3, }", 12, PRONY_EFORMAT,
         "its header has no shape"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3", 12, PRONY_EFORMAT,
         "its header has a damaged shape"},
        {"{'descr': '<f4', 'fortran_order': False, }", 4, PRONY_EFORMAT, "its header is damaged"},
        {"{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,), }", 4, PRONY_EFORMAT,
         "its header is damaged"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1,), }", 4,
         PRONY_EFORMAT, "unknown or repeated key"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}", 4, PRONY_EFORMAT,
         "unknown or repeated key"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), } x", 4, PRONY_EFORMAT,
         "its header is damaged"},
        {"{'descr': '<f4", 4, PRONY_EFORMAT, "its header is damaged"},
        {"", 4, PRONY_EFORMAT, "its header is damaged"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_buffer file = npy(cases[i].header, cases[i].bytes);
        refuse(false, file.data, file.len, cases[i].code, cases[i].message);
        prn_buffer_release(&file);
    }
}

static void test_npy_truncated(void **state)
{
    (void)state;
    static const char header[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
    struct prn_buffer file = npy(header, 8);
    size_t data = file.len - 8;
    for (size_t len = 0; len < file.len; len++)
        refuse(false, file.data, len, PRONY_EFORMAT,
               len < 6      ? "it is not a NumPy file"
               : len < data ? "its header is truncated"
                            : "it is truncated");
    file.data[6] = 4;
    refuse(false, file.data, file.len, PRONY_EUNSUPPORTED, "its version is 4");
    prn_buffer_release(&file);
    refuse(false, "PK\3\4", 4, PRONY_EFORMAT, "it is not a NumPy file");
}

static void test_npy_many_dimensions(void **state)
{
    (void)state;
    struct prn_buffer header = PRN_BUFFER_INIT(4096);
    prn_buffer_add(&header, "{'descr': '<f4', 'fortran_order': False, 'shape': (");
    for (int i = 0; i <= PRN_RANK_MAX; i++)
        prn_buffer_add(&header, "1, ");
    prn_buffer_add(&header, ")}");
    struct prn_buffer file = npy(prn_buffer_text(&header), 4);
    refuse(false, file.data, file.len, PRONY_ELIMIT, "it has more than 32 dimensions");
    prn_buffer_release(&file);
    prn_buffer_release(&header);
}

static void test_npy_oddities(void **state)
{
    (void)state;
    /* Other quotes, other order, no spaces: still the same dictionary. */
    struct prn_buffer file = npy("{\"shape\":(2,),\"fortran_order\":True,\"descr\":\"|b1\"}", 0);
    prn_buffer_append(&file, "\x02\x00", 2);
    struct prn_tensor t;
    struct prony_error err;
    assert_int_equal(parse(false, file.data, file.len, &t, &err), 0);
    assert_int_equal(t.dtype, PRN_DTYPE_BOOL);
    assert_memory_equal(t.data, "\x01\x00", 2);
    prn_tensor_release(&t);
    prn_buffer_release(&file);

    file = npy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", 0);
    prn_buffer_append(&file, "\x00\xd8\x00\x00", 4);
    refuse(false, file.data, file.len, PRONY_EFORMAT, "it has text that isn't Unicode");
    prn_buffer_release(&file);
}

/* ---- Bad ONNX tensors ---- */

static void test_pb_faults(void **state)
{
    (void)state;
#define BYTES(text) text, sizeof(text) - 1
    static const struct {
        const char *bytes;
        size_t len;
        int code;
        const char *message;
    } cases[] = {
        {BYTES(""), PRONY_EFORMAT, "it has no element type"},
        {BYTES("\x08\x01"), PRONY_EFORMAT, "it has no element type"},
        {BYTES("hello, world"), PRONY_EFORMAT, "it is not an ONNX tensor"},
        {BYTES("\x10\x63"), PRONY_EUNSUPPORTED, "its element type, 99, is not known"},
        {BYTES("\x08\x02\x10\x01\x4a\x04"
               "abcd"),
         PRONY_EFORMAT, "it has 4 bytes of data, its type and shape need 8"},
        {BYTES("\x08\x02\x10\x01\x4a\x0c"
               "abcd"),
         PRONY_EFORMAT, "it is not an ONNX tensor, or damaged"},
        {BYTES("\x08\x02\x10\x07\x38\x01"), PRONY_EFORMAT, "its data doesn't match"},
        {BYTES("\x08\x01\x10\x07\x38\x01\x38\x02"), PRONY_EFORMAT, "its data doesn't match"},
        {BYTES("\x08\x01\x10\x01\x38\x01"), PRONY_EFORMAT, "its data doesn't match"},
        {BYTES("\x08\x01\x10\x07\x3a\x02\x01\x80"), PRONY_EFORMAT, "its data doesn't match"},
        {BYTES("\x08\x02\x10\x08\x32\x01"
               "a"),
         PRONY_EFORMAT, "it has 1 strings, its shape needs 2"},
        {BYTES("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x10\x01"), PRONY_ELIMIT,
         "its shape, -1, is impossible"},
        {BYTES("\x08\x80\x80\x80\x80\x80\x01\x10\x01"), PRONY_ELIMIT, "over 16 GiB"},
        {BYTES("\x08\x80\x80\x80\x80\x01\x10\x03"), PRONY_EFORMAT, "its data doesn't match"},
        {BYTES("\x10\x01\x70\x01"), PRONY_EUNSUPPORTED, "its data is in another file"},
        {BYTES("\x10\x01\x1a\x00"), PRONY_EUNSUPPORTED, "it is cut into segments"},
        {BYTES("\x10\x01\x48\x01"), PRONY_EFORMAT, "damaged"},
        {BYTES("\x12\x01\x01"), PRONY_EFORMAT, "damaged"},
    };
#undef BYTES
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++)
        refuse(true, cases[i].bytes, cases[i].len, cases[i].code, cases[i].message);
    char many[2 * (PRN_RANK_MAX + 1)];
    for (size_t i = 0; i < sizeof many; i += 2)
        many[i] = 0x08, many[i + 1] = 0x01;
    refuse(true, many, sizeof many, PRONY_ELIMIT, "it has more than 32 dimensions");
}

static void test_pb_name(void **state)
{
    (void)state;
    /* Fields may come in any order: the data before the type and the shape. */
    static const char bytes[] = "\x3a\x02\x05\x06\x42\x03ids\x10\x07\x0a\x02\x01\x02";
    struct prn_tensor t;
    struct prony_error err;
    char *name = NULL;
    assert_int_equal(prn_tensor_parse_pb(bytes, sizeof bytes - 1, "f.pb", &t, &name, &err), 0);
    assert_string_equal(name, "ids");
    assert_int_equal(t.rank, 2);
    assert_int_equal(t.dims[1], 2);
    assert_int_equal(((int64_t *)t.data)[1], 6);
    free(name);
    prn_tensor_release(&t);
}

/* ---- Files for an input ---- */

static char *scratch(const char *name, const void *bytes, size_t len)
{
    static char folder[] = "/tmp/prony-tensor-XXXXXX";
    static bool made;
    static char path[128];
    if (!made)
        assert_non_null(mkdtemp(folder));
    made = true;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    fclose(file);
    return path;
}

static int remove_scratch(void **state)
{
    (void)state;
    char *path = scratch("last", "", 0);
    *strrchr(path, '/') = '\0';
    DIR *folder = opendir(path);
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder)
        closedir(folder);
    return rmdir(path);
}

static void refuse_file(const char *path, const struct prn_input *input, int code,
                        const char *message)
{
    struct prn_tensor t;
    struct prony_error err = {0};
    int got = prn_tensor_read(path, input, &t, &err);
    if (got != code || !strstr(err.text, message))
        fail_msg("%s: '%s' instead of '%s'", prony_error_name(got), err.text, message);
    assert_contains(err.text, path);
}

static void test_files_that_do_not_fit(void **state)
{
    (void)state;
    struct prn_input input = {
        .name = "x", .dtype = PRN_DTYPE_FLOAT, .rank = 2, .dims = {1, 3}, .assumed = {true, false}};
    refuse_file(stored("double.npy"), &input, PRONY_EFORMAT,
                "it holds double, but input 'x' takes float");
    refuse_file(stored("float.pb"), &input, PRONY_EFORMAT,
                "its shape is 1x5, but input 'x' takes ?x3");
    refuse_file(stored("scalar.npy"), &input, PRONY_EFORMAT,
                "its shape is scalar, but input 'x' takes ?x3");
    refuse_file(stored("bfloat16.npy"), &input, PRONY_EUNSUPPORTED, "tells only its size");
    refuse_file(stored("expected.txt"), &input, PRONY_EUSAGE,
                "it ends in neither .npy, .pb nor .raw");
    refuse_file("/no.such/folder", &input, PRONY_EUSAGE, "it ends in neither");
    refuse_file(stored("missing.npy"), &input, PRONY_ENOENT, "No such file");
    refuse_file(scratch("x.raw", "12345678901", 11), &input, PRONY_EFORMAT,
                "it has 11 bytes, but input 'x' (float 1x3) takes 12");
    struct prn_input strings = open_input(PRN_DTYPE_STRING, 1);
    refuse_file(scratch("s.raw", "a", 1), &strings, PRONY_EUNSUPPORTED, "use .npy or .pb");
    char *path = scratch("pipe.npy", "", 0);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    refuse_file(path, &input, PRONY_EFORMAT, "it is not a regular file");
    unlink(path);
    assert_int_equal(mkdir(path, 0700), 0);
    refuse_file(path, &input, PRONY_EIO, "Is a directory");
    rmdir(path);
    path = scratch("huge.npy", "", 0);
    assert_int_equal(truncate(path, (off_t)17 << 30), 0);
    refuse_file(path, &input, PRONY_ELIMIT, "it is over 16 GiB");
    unlink(path);
}

static void test_raw_file(void **state)
{
    (void)state;
    struct prn_input input = {.name = "x", .dtype = PRN_DTYPE_INT16, .rank = 1, .dims = {3}};
    struct prn_tensor t;
    struct prony_error err;
    assert_int_equal(prn_tensor_read(scratch("x.raw", "\1\0\2\0\xff\xff", 6), &input, &t, &err), 0);
    assert_int_equal(t.dims[0], 3);
    assert_int_equal((int)prn_tensor_get(t.data, t.dtype, 2), -1);
    prn_tensor_release(&t);
}

/* ---- Made-up inputs ---- */

static struct prn_tensor filled(const struct prn_input *input, enum prn_fill fill, uint64_t seed)
{
    struct prn_tensor t = {0};
    struct prony_error err;
    if (prn_tensor_fill(input, fill, 0, seed, &t, &err) < 0)
        fail_msg("%s", err.text);
    return t;
}

static void test_fill_every_type(void **state)
{
    (void)state;
    static const enum prn_fill fills[] = {PRN_FILL_DEFAULT, PRN_FILL_RANDOM, PRN_FILL_ONES,
                                          PRN_FILL_ZEROS};
    for (int dtype = PRN_DTYPE_FLOAT; dtype <= PRN_DTYPE_INT2; dtype++)
        for (size_t f = 0; f < PRN_ARRAY_SIZE(fills); f++) {
            struct prn_input input = {.name = "x", .dtype = dtype, .rank = 2, .dims = {3, 11}};
            struct prn_tensor t = filled(&input, fills[f], 5);
            struct prn_tensor again = filled(&input, fills[f], 5);
            assert_int_equal(t.bytes, again.bytes);
            assert_memory_equal(t.data, again.data, t.bytes);
            for (size_t i = 0; dtype != PRN_DTYPE_STRING && i < 33; i++) {
                double value = prn_tensor_get(t.data, dtype, i);
                bool one = fills[f] == PRN_FILL_ONES ||
                           (fills[f] == PRN_FILL_DEFAULT && !prn_dtype_is_float(dtype) &&
                            dtype != PRN_DTYPE_COMPLEX64 && dtype != PRN_DTYPE_COMPLEX128);
                /* A scale, float8e8m0, holds no 0. */
                if (one)
                    assert_true(value == 1);
                else if (fills[f] == PRN_FILL_ZEROS && dtype != PRN_DTYPE_FLOAT8E8M0)
                    assert_true(value == 0);
                else if (prn_dtype_is_integer(dtype))
                    assert_true(value >= 0 && value < 10);
                else
                    assert_true(value >= 0 && value <= 1);
            }
            prn_tensor_release(&t);
            prn_tensor_release(&again);
        }
}

static void test_fill_follows_roles(void **state)
{
    (void)state;
    struct prn_input ids = {.name = "ids",
                            .dtype = PRN_DTYPE_INT64,
                            .rank = 1,
                            .dims = {1000},
                            .role = PRN_INPUT_ROLE_INDEX,
                            .bound = 7};
    struct prn_tensor t = filled(&ids, PRN_FILL_DEFAULT, 0);
    double seen = 0;
    for (size_t i = 0; i < 1000; i++) {
        double id = prn_tensor_get(t.data, ids.dtype, i);
        assert_true(id >= 0 && id < 7);
        seen = fmax(seen, id);
    }
    assert_true(seen == 6);
    prn_tensor_release(&t);
    struct prn_input mask = {.name = "mask",
                             .dtype = PRN_DTYPE_FLOAT,
                             .rank = 1,
                             .dims = {4},
                             .role = PRN_INPUT_ROLE_MASK};
    t = filled(&mask, PRN_FILL_DEFAULT, 0);
    for (size_t i = 0; i < 4; i++)
        assert_true(prn_tensor_get(t.data, mask.dtype, i) == 1);
    prn_tensor_release(&t);
}

static void test_fill_depends_on_seed_and_name(void **state)
{
    (void)state;
    struct prn_input a = {.name = "a", .dtype = PRN_DTYPE_FLOAT, .rank = 1, .dims = {8}};
    struct prn_input b = a;
    b.name = "b";
    struct prn_tensor first = filled(&a, PRN_FILL_DEFAULT, 0);
    struct prn_tensor other_seed = filled(&a, PRN_FILL_DEFAULT, 1);
    struct prn_tensor other_name = filled(&b, PRN_FILL_DEFAULT, 0);
    assert_memory_not_equal(first.data, other_seed.data, first.bytes);
    assert_memory_not_equal(first.data, other_name.data, first.bytes);
    prn_tensor_release(&first);
    prn_tensor_release(&other_seed);
    prn_tensor_release(&other_name);
}

static void test_fill_strings(void **state)
{
    (void)state;
    struct prn_input input = {.name = "x", .dtype = PRN_DTYPE_STRING, .rank = 1, .dims = {2}};
    struct prn_tensor t = filled(&input, PRN_FILL_DEFAULT, 0);
    const uint64_t *offsets = t.data;
    assert_int_equal(t.bytes, 3 * 8 + 2);
    assert_int_equal(offsets[2], 2);
    assert_memory_equal(offsets + 3, "aa", 2);
    prn_tensor_release(&t);
    input.dims[0] = 0;
    t = filled(&input, PRN_FILL_RANDOM, 0);
    assert_int_equal(t.bytes, 8);
    prn_tensor_release(&t);
}

static void test_fill_numbers(void **state)
{
    (void)state;
    struct prn_input input = {.name = "x", .dtype = PRN_DTYPE_UINT8, .rank = 1, .dims = {3}};
    struct prn_tensor t;
    struct prony_error err;
    assert_int_equal(prn_tensor_fill(&input, PRN_FILL_NUMBER, 200, 0, &t, &err), 0);
    assert_memory_equal(t.data, "\xc8\xc8\xc8", 3);
    prn_tensor_release(&t);
    assert_int_equal(prn_tensor_fill(&input, PRN_FILL_NUMBER, 300, 0, &t, &err), PRONY_EUSAGE);
    assert_string_equal(err.text, "input 'x' is uint8, which has no 300");
    assert_int_equal(prn_tensor_fill(&input, PRN_FILL_NUMBER, 0.5, 0, &t, &err), PRONY_EUSAGE);
    input.dims[0] = INT64_MAX;
    assert_int_equal(prn_tensor_fill(&input, PRN_FILL_ONES, 0, 0, &t, &err), PRONY_ELIMIT);
    input.dims[0] = 0;
    assert_int_equal(prn_tensor_fill(&input, PRN_FILL_ONES, 0, 0, &t, &err), 0);
    assert_null(t.data);
    input.dtype = 99;
    assert_int_equal(prn_tensor_fill(&input, PRN_FILL_ONES, 0, 0, &t, &err), PRONY_EUNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stored),
        cmocka_unit_test(test_every_code),
        cmocka_unit_test(test_sixteen_bits_round_trip),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_saturation),
        cmocka_unit_test(test_packed_neighbours_stay),
        cmocka_unit_test(test_npy_faults),
        cmocka_unit_test(test_npy_truncated),
        cmocka_unit_test(test_npy_many_dimensions),
        cmocka_unit_test(test_npy_oddities),
        cmocka_unit_test(test_pb_faults),
        cmocka_unit_test(test_pb_name),
        cmocka_unit_test(test_files_that_do_not_fit),
        cmocka_unit_test(test_raw_file),
        cmocka_unit_test(test_fill_every_type),
        cmocka_unit_test(test_fill_follows_roles),
        cmocka_unit_test(test_fill_depends_on_seed_and_name),
        cmocka_unit_test(test_fill_strings),
        cmocka_unit_test(test_fill_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, remove_scratch);
}
