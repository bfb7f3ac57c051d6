#include "rpc/messages.h"

#include "rpc/message_parts.h"
#include "rpc/tensor_dtype.h"
#include "rpc/wire.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Data up to this size is copied: a slice of its own would cost more. */
#define COPIED_BYTES ((size_t)1 << 10)
#define FIELD_MAX_BYTES 15 /* a tag and a varint */

struct prn_rpc_loan {
    atomic_size_t n;
    void (*release)(void *context);
    void *context;
};

void prn_rpc_loan_end(void *context)
{
    struct prn_rpc_loan *loan = context;
    if (atomic_fetch_sub_explicit(&loan->n, 1, memory_order_acq_rel) != 1)
        return;
    if (loan->release)
        loan->release(loan->context);
    free(loan);
}

struct prn_rpc_loan *prn_rpc_loan_new(void (*release)(void *), void *context)
{
    struct prn_rpc_loan *loan = malloc(sizeof *loan);
    if (loan) {
        atomic_init(&loan->n, 1);
        loan->release = release;
        loan->context = context;
    } else if (release) {
        release(context);
    }
    return loan;
}

static void lend(struct prn_out *out, const void *data, size_t length, struct prn_rpc_loan *loan)
{
    if (length <= COPIED_BYTES) {
        prn_out_copy(out, data, length);
        return;
    }
    atomic_fetch_add_explicit(&loan->n, 1, memory_order_relaxed);
    prn_out_borrow(out, data, length, prn_rpc_loan_end, loan);
}

static void put(struct prn_out *out, uint32_t number, enum prn_wire_type type, uint64_t value)
{
    uint8_t data[FIELD_MAX_BYTES];
    prn_out_copy(out, data, prn_rpc_put_field(data, number, type, value));
}

static void put_number(struct prn_out *out, uint32_t number, uint64_t value)
{
    put(out, number, PRN_WIRE_TYPE_VARINT, value);
}

static void put_bytes(struct prn_out *out, uint32_t number, const void *data, size_t length)
{
    put(out, number, PRN_WIRE_TYPE_BYTES, length);
    prn_out_copy(out, data, length);
}

static size_t bytes_length(uint32_t number, size_t length)
{
    return prn_rpc_field_length(number, length) + length;
}

/* TensorDtype; for a type that it doesn't have, one of the same width, for readers that know no
 * other. */
static int tensor_dtype(int dtype, bool *ret_other)
{
    for (size_t i = 1; i < PRN_ARRAY_SIZE(prn_tensor_dtypes); i++)
        if (prn_tensor_dtypes[i] == dtype) {
            *ret_other = false;
            return (int)i;
        }
    *ret_other = true;
    switch (prn_dtype_bits(dtype)) {
    case 16:
        return OCTOML_PROFILE__TENSOR_DTYPE__TENSOR_DTYPE_UINT16;
    case 64:
        return OCTOML_PROFILE__TENSOR_DTYPE__TENSOR_DTYPE_UINT64;
    default:
        return OCTOML_PROFILE__TENSOR_DTYPE__TENSOR_DTYPE_UINT8;
    }
}

/* A Tensor up to its data. */
struct head {
    size_t length;
    uint8_t data[(PRN_RPC_RANK_MAX + 3) * FIELD_MAX_BYTES];
};

static void make_head(const struct prn_rpc_tensor *tensor, struct head *head)
{
    bool other;
    int dtype = tensor_dtype(tensor->dtype, &other);
    head->length = prn_rpc_put_field(head->data, 1, PRN_WIRE_TYPE_VARINT, (uint64_t)dtype);
    for (size_t i = 0; i < tensor->rank && i < PRN_RPC_RANK_MAX; i++)
        head->length += prn_rpc_put_field(head->data + head->length, 2, PRN_WIRE_TYPE_VARINT,
                                          (uint64_t)tensor->dims[i]);
    if (other)
        head->length += prn_rpc_put_field(head->data + head->length, 100, PRN_WIRE_TYPE_VARINT,
                                          (uint64_t)tensor->dtype);
    head->length +=
        prn_rpc_put_field(head->data + head->length, 3, PRN_WIRE_TYPE_BYTES, tensor->bytes);
}

size_t prn_rpc_value_length(const struct prn_rpc_tensor *tensor)
{
    struct head head;
    make_head(tensor, &head);
    return bytes_length(1, bytes_length(1, head.length + tensor->bytes));
}

void prn_rpc_put_value(struct prn_out *out, uint32_t number, const struct prn_rpc_tensor *tensor,
                       const struct prn_bytes *source, struct prn_rpc_loan *loan)
{
    struct prn_range rest = tensor->range;
    const void *piece;
    size_t length;
    struct head head;
    make_head(tensor, &head);
    size_t inner = head.length + tensor->bytes;
    put(out, number, PRN_WIRE_TYPE_BYTES, bytes_length(1, inner));
    put(out, 1, PRN_WIRE_TYPE_BYTES, inner);
    prn_out_copy(out, head.data, head.length);
    if (!source)
        lend(out, tensor->data, tensor->bytes, loan);
    while (source && prn_bytes_next(source, &rest, &piece, &length))
        lend(out, piece, length, loan);
}

static void put_map(struct prn_out *out, const struct prn_rpc_map *map)
{
    size_t length = 0;
    for (size_t i = 0; i < map->n; i++)
        length += prn_rpc_field_length(1, (uint64_t)map->indices[i]);
    put(out, 6, PRN_WIRE_TYPE_BYTES, length);
    for (size_t i = 0; i < map->n; i++)
        put_number(out, 1, (uint64_t)map->indices[i]);
}

struct prn_out *prn_rpc_write_run(const struct prn_rpc_run *run, void (*release)(void *),
                                  void *context)
{
    struct prn_rpc_loan *loan = prn_rpc_loan_new(release, context);
    if (!loan)
        return NULL;
    struct prn_out *out = prn_out_new();
    put_bytes(out, 1, run->session, sizeof run->session);
    put_number(out, 2, run->model_id);
    for (size_t i = 0; i < run->n_inputs; i++)
        prn_rpc_put_value(out, 3, &run->inputs[i], NULL, loan);
    if (run->has_repeats)
        put_number(out, 4, run->repeats);
    if (run->has_repeat_for)
        put_number(out, 5, run->repeat_for_ms);
    for (size_t i = 0; i < run->n_maps; i++)
        put_map(out, &run->maps[i]);
    put_number(out, 7, run->warmups);
    put_number(out, 8,
               run->inference ? OCTOML_PROFILE__RUN_MODE__INFERENCE
                              : OCTOML_PROFILE__RUN_MODE__PROFILING);
    prn_rpc_loan_end(loan);
    return out;
}

static size_t result_length(const struct prn_rpc_result *result)
{
    size_t length = 0;
    for (size_t i = 0; i < result->n_outputs; i++)
        length += prn_rpc_value_length(&result->outputs[i]);
    for (size_t i = 0; i < result->n_times; i++)
        length += prn_rpc_field_length(2, result->times_ns[i]);
    for (size_t i = 0; result->names && i < result->n_outputs; i++)
        length += bytes_length(100, strlen(result->names[i]));
    if (result->prepare_ns > 0)
        length += prn_rpc_field_length(101, result->prepare_ns);
    return length;
}

static void put_error(struct prn_out *out, const struct prn_rpc_result *result)
{
    size_t text = strlen(result->error);
    size_t length = bytes_length(1, text) + prn_rpc_field_length(2, (uint64_t)result->error_code);
    put(out, 1, PRN_WIRE_TYPE_BYTES, bytes_length(2, length));
    put(out, 2, PRN_WIRE_TYPE_BYTES, length);
    put_bytes(out, 1, result->error, text);
    put_number(out, 2, (uint64_t)result->error_code);
}

void prn_rpc_put_result_value(struct prn_out *out, uint32_t number,
                              const struct prn_rpc_result *result, struct prn_rpc_loan *loan)
{
    put(out, number, PRN_WIRE_TYPE_BYTES, result_length(result));
    for (size_t i = 0; i < result->n_outputs; i++)
        prn_rpc_put_value(out, 1, &result->outputs[i], result->source, loan);
    for (size_t i = 0; i < result->n_times; i++)
        put_number(out, 2, result->times_ns[i]);
    for (size_t i = 0; result->names && i < result->n_outputs; i++)
        put_bytes(out, 100, result->names[i], strlen(result->names[i]));
    if (result->prepare_ns > 0)
        put_number(out, 101, result->prepare_ns);
}

static void put_result(struct prn_out *out, const struct prn_rpc_result *result,
                       struct prn_rpc_loan *loan)
{
    put(out, 1, PRN_WIRE_TYPE_BYTES, bytes_length(1, result_length(result)));
    prn_rpc_put_result_value(out, 1, result, loan);
}

struct prn_out *prn_rpc_write_results(const struct prn_rpc_result *results, size_t n,
                                      void (*release)(void *), void *context)
{
    struct prn_rpc_loan *loan = prn_rpc_loan_new(release, context);
    if (!loan)
        return NULL;
    struct prn_out *out = prn_out_new();
    for (size_t i = 0; i < n; i++) {
        if (results[i].error)
            put_error(out, &results[i]);
        else
            put_result(out, &results[i], loan);
    }
    prn_rpc_loan_end(loan);
    return out;
}

struct prn_out *prn_rpc_write_component(const struct prn_rpc_component *component,
                                        const void *chunk, size_t bytes, void (*release)(void *),
                                        void *context)
{
    struct prn_out *out = prn_out_new();
    if (component->first) {
        put_bytes(out, 1, component->session, sizeof component->session);
        put_number(out, 2, component->model_id);
        put_number(out, 3, component->component_id);
        put_bytes(out, 4, component->filename, strlen(component->filename));
        if (component->skip)
            put_bytes(out, 6, component->skip, component->n_skip);
    }
    put(out, 5, PRN_WIRE_TYPE_BYTES, bytes);
    prn_out_borrow(out, chunk, bytes, release, context);
    return out;
}
