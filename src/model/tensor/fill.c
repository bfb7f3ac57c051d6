/* Tensors made up for an input. */
#include "model/tensor/parts.h"

#include "base/random.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Random integers without a bound of their own are below this. */
#define SMALL_INTEGERS 10

struct recipe {
    bool random;
    double value;  /* of every element, unless random */
    int64_t bound; /* random integers are below it */
    char text[32]; /* of strings; random ones are a letter */
    struct prn_random source;
};

static bool all_bits(int dtype)
{
    return prn_dtype_is_integer(dtype) || dtype == PRN_DTYPE_BOOL;
}

static void set_constant(struct recipe *r, double value)
{
    r->value = value;
    snprintf(r->text, sizeof r->text, "%.17g", value);
}

/* By the input's role: something that the graph can work with. */
static void choose_default(struct recipe *r, const struct prn_input *input)
{
    bool index = input->role == PRN_INPUT_ROLE_INDEX && prn_dtype_is_integer(input->dtype);
    if (input->role == PRN_INPUT_ROLE_LENGTH && prn_dtype_is_integer(input->dtype))
        set_constant(r, (double)input->bound);
    else if (input->role == PRN_INPUT_ROLE_MASK || (all_bits(input->dtype) && !index))
        set_constant(r, 1);
    else
        r->random = true;
    if (input->dtype == PRN_DTYPE_STRING) {
        r->random = false;
        snprintf(r->text, sizeof r->text, "a");
    }
}

/* The largest integer of a type, plus one, as far as it matters for small numbers. */
static int64_t type_bound(int dtype)
{
    uint8_t element[16] = {0};
    prn_tensor_set(element, dtype, 0, SMALL_INTEGERS);
    return (int64_t)prn_tensor_get(element, dtype, 0) + 1;
}

static int64_t random_bound(const struct prn_input *input)
{
    int64_t most = type_bound(input->dtype);
    if (input->role == PRN_INPUT_ROLE_INDEX && input->bound > 0)
        return prn_dtype_bits(input->dtype) < 8 && most < input->bound ? most : input->bound;
    return most < SMALL_INTEGERS ? most : SMALL_INTEGERS;
}

static int choose(struct recipe *r, const struct prn_input *input, enum prn_fill fill,
                  double number, struct prony_error *err)
{
    uint8_t element[16] = {0};
    r->bound = random_bound(input);
    switch (fill) {
    case PRN_FILL_DEFAULT:
        choose_default(r, input);
        return 0;
    case PRN_FILL_RANDOM:
        r->random = true;
        return 0;
    case PRN_FILL_ONES:
        set_constant(r, 1);
        return 0;
    case PRN_FILL_ZEROS:
        set_constant(r, 0);
        return 0;
    case PRN_FILL_NUMBER:
        break;
    }
    set_constant(r, number);
    prn_tensor_set(element, input->dtype, 0, number);
    if (prn_dtype_is_integer(input->dtype) && prn_tensor_get(element, input->dtype, 0) != number)
        return prn_fail(err, PRONY_EUSAGE, "input '%s' is %s, which has no %.17g", input->name,
                        prn_dtype_name(input->dtype), number);
    return 0;
}

static double next_value(struct recipe *r, int dtype)
{
    if (!r->random)
        return r->value;
    if (dtype == PRN_DTYPE_BOOL)
        return (double)prn_random_below(&r->source, 2);
    if (prn_dtype_is_integer(dtype))
        return (double)prn_random_below(&r->source, (uint64_t)r->bound);
    return prn_random_double(&r->source);
}

static int fill_strings(struct recipe *r, struct prn_tensor *t, size_t elements,
                        struct prony_error *err)
{
    size_t len = r->random ? 1 : strlen(r->text);
    int code = prn_tensor_allocate_strings(t, elements, elements * len, err);
    for (size_t i = 0; code == 0 && i < elements; i++) {
        if (r->random)
            r->text[0] = (char)('a' + prn_random_below(&r->source, 26));
        prn_tensor_add_string(t, elements, i, r->text, len);
    }
    return code;
}

/* Complex numbers are filled as pairs: both parts are random, but a given number is real. */
static void fill_complex(struct recipe *r, struct prn_tensor *t, size_t elements)
{
    int part = t->dtype == PRN_DTYPE_COMPLEX64 ? PRN_DTYPE_FLOAT : PRN_DTYPE_DOUBLE;
    for (size_t i = 0; i < 2 * elements; i++)
        prn_tensor_set(t->data, part, i, r->random || i % 2 == 0 ? next_value(r, part) : 0);
}

static int fill_numbers(struct recipe *r, struct prn_tensor *t, size_t elements, size_t bytes,
                        struct prony_error *err)
{
    int code = prn_tensor_allocate(t, bytes, err);
    if (code < 0 || bytes == 0)
        return code;
    if (t->dtype == PRN_DTYPE_COMPLEX64 || t->dtype == PRN_DTYPE_COMPLEX128) {
        fill_complex(r, t, elements);
        return 0;
    }
    ((uint8_t *)t->data)[bytes - 1] = 0; /* bits behind the last packed element */
    for (size_t i = 0; i < elements; i++)
        prn_tensor_set(t->data, t->dtype, i, next_value(r, t->dtype));
    return 0;
}

int prn_tensor_fill(const struct prn_input *input, enum prn_fill fill, double number, uint64_t seed,
                    struct prn_tensor *ret_tensor, struct prony_error *err)
{
    struct prn_tensor t = {.dtype = input->dtype, .rank = input->rank};
    struct recipe r = {0};
    int64_t elements;
    size_t bytes;
    memcpy(t.dims, input->dims, sizeof t.dims);
    int code = prn_tensor_measure(&t, input->name, &elements, &bytes, NULL);
    if (code < 0) {
        char dims[PRN_RANK_MAX * 21 + 1];
        return prn_fail(err, code, "input '%s' is too large: %s takes more than %d GiB",
                        input->name, prn_dims_text(t.dims, t.rank, dims, sizeof dims),
                        (int)(PRN_TENSOR_MAX_BYTES >> 30));
    }
    code = choose(&r, input, fill, number, err);
    if (code < 0)
        return code;
    prn_random_seed_named(&r.source, seed, input->name);
    code = t.dtype == PRN_DTYPE_STRING ? fill_strings(&r, &t, (size_t)elements, err)
                                       : fill_numbers(&r, &t, (size_t)elements, bytes, err);
    if (code < 0)
        prn_tensor_release(&t);
    else
        *ret_tensor = t;
    return code;
}
