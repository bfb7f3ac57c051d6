/*
 * ONNX TensorProto. The message is walked twice: once for what it declares and where its data lies,
 * because fields may come in any order, and once to copy the data.
 */
#include "model/tensor/parts.h"
#include "model/typed.h"
#include "format/wire.h"

#include <inttypes.h>
#include <string.h>

enum {
    FIELD_DIMS = 1,
    FIELD_DATA_TYPE = 2,
    FIELD_SEGMENT = 3,
    FIELD_STRING_DATA = 6,
    FIELD_NAME = 8,
    FIELD_RAW_DATA = 9,
    FIELD_DATA_LOCATION = 14,
};

struct message {
    const void *data;
    size_t len;
    const char *name; /* of the file */
    struct prn_tensor tensor;
    struct prn_wire_field own_name, raw; /* value NULL: absent */
    uint64_t n_strings, string_bytes;
    bool segmented, external;
    struct prony_error *err;
};

static int damaged(const struct message *m)
{
    return prn_tensor_fail(m->err, PRONY_EFORMAT, m->name, "it is not an ONNX tensor, or damaged");
}

static int add_dims(struct message *m, const struct prn_wire_field *field)
{
    struct prn_wire w = {field->value, field->value + field->len};
    while (w.at < w.end) {
        uint64_t dim;
        if (prn_wire_varint(&w, &dim) != PRN_WIRE_FINE)
            return damaged(m);
        if (m->tensor.rank == PRN_RANK_MAX)
            return prn_tensor_fail(m->err, PRONY_ELIMIT, m->name, "it has more than %d dimensions",
                                   PRN_RANK_MAX);
        m->tensor.dims[m->tensor.rank++] = (int64_t)dim;
    }
    return 0;
}

static int number_of(const struct message *m, const struct prn_wire_field *field,
                     uint64_t *ret_value)
{
    struct prn_wire w = {field->value, field->value + field->len};
    if (field->type != PRN_WIRE_TYPE_VARINT || prn_wire_varint(&w, ret_value) != PRN_WIRE_FINE)
        return damaged(m);
    return 0;
}

static int note_field(struct message *m, const struct prn_wire_field *field)
{
    bool bytes = field->type == PRN_WIRE_TYPE_BYTES;
    uint64_t number = 0;
    int code = 0;
    switch (field->number) {
    case FIELD_DIMS:
        return bytes || field->type == PRN_WIRE_TYPE_VARINT ? add_dims(m, field) : damaged(m);
    case FIELD_DATA_TYPE:
        code = number_of(m, field, &number);
        m->tensor.dtype = number < 1000 ? (int)number : PRN_DTYPE_UNDEFINED;
        return code;
    case FIELD_DATA_LOCATION:
        code = number_of(m, field, &number);
        m->external = number == 1;
        return code;
    case FIELD_SEGMENT:
        m->segmented = true;
        return 0;
    case FIELD_NAME:
        m->own_name = *field;
        return bytes ? 0 : damaged(m);
    case FIELD_RAW_DATA:
        m->raw = *field;
        return bytes ? 0 : damaged(m);
    case FIELD_STRING_DATA:
        m->n_strings++;
        m->string_bytes += field->len;
        return bytes ? 0 : damaged(m);
    default:
        return 0;
    }
}

static int walk(struct message *m)
{
    const uint8_t *start = m->data;
    struct prn_wire w = {start, start + m->len};
    while (w.at < w.end) {
        struct prn_wire_field field;
        if (prn_wire_next(&w, &field) != PRN_WIRE_FINE)
            return damaged(m);
        int code = note_field(m, &field);
        if (code < 0)
            return code;
    }
    if (m->external)
        return prn_tensor_fail(m->err, PRONY_EUNSUPPORTED, m->name, "its data is in another file");
    if (m->segmented)
        return prn_tensor_fail(m->err, PRONY_EUNSUPPORTED, m->name, "it is cut into segments");
    if (m->tensor.dtype == PRN_DTYPE_UNDEFINED)
        return prn_tensor_fail(m->err, PRONY_EFORMAT, m->name,
                               "it is not an ONNX tensor: it has no element type");
    return 0;
}

static int copy_strings(struct message *m, uint64_t elements)
{
    if (m->n_strings != elements)
        return prn_tensor_fail(m->err, PRONY_EFORMAT, m->name,
                               "it has %" PRIu64 " strings, its shape needs %" PRIu64, m->n_strings,
                               elements);
    int code = prn_tensor_allocate_strings(&m->tensor, elements, m->string_bytes, m->err);
    if (code < 0)
        return code;
    const uint8_t *start = m->data;
    struct prn_wire w = {start, start + m->len};
    struct prn_wire_field field;
    for (size_t i = 0; w.at < w.end && prn_wire_next(&w, &field) == PRN_WIRE_FINE;)
        if (field.number == FIELD_STRING_DATA)
            prn_tensor_add_string(&m->tensor, elements, i++, (const char *)field.value, field.len);
    return 0;
}

static int copy_numbers(struct message *m, size_t bytes)
{
    if (m->raw.value && m->raw.len != bytes)
        return prn_tensor_fail(m->err, PRONY_EFORMAT, m->name,
                               "it has %" PRIu64 " bytes of data, its type and shape need %zu",
                               m->raw.len, bytes);
    /* Every entry of a typed field takes a byte of the file or more; this bounds the memory. */
    size_t entries = bytes / prn_typed_entry_bytes(m->tensor.dtype);
    bool enough = m->raw.value || entries <= m->len;
    int code = enough ? prn_tensor_allocate(&m->tensor, bytes, m->err) : 0;
    if (code < 0)
        return code;
    if (m->raw.value) {
        if (bytes)
            memcpy(m->tensor.data, m->raw.value, bytes);
    } else if (!enough ||
               !prn_typed_decode(m->data, m->len, m->tensor.dtype, m->tensor.data, bytes)) {
        return prn_tensor_fail(m->err, PRONY_EFORMAT, m->name,
                               "its data doesn't match its type and shape");
    }
    prn_tensor_clean_bools(&m->tensor);
    return 0;
}

static int parse(struct message *m)
{
    int64_t elements;
    size_t bytes;
    int code = walk(m);
    if (code == 0)
        code = prn_tensor_measure(&m->tensor, m->name, &elements, &bytes, m->err);
    if (code < 0)
        return code;
    return m->tensor.dtype == PRN_DTYPE_STRING ? copy_strings(m, (uint64_t)elements)
                                               : copy_numbers(m, bytes);
}

int prn_tensor_parse_pb(const void *data, size_t len, const char *name,
                        struct prn_tensor *ret_tensor, char **ret_name, struct prony_error *err)
{
    struct message m = {.data = data, .len = len, .name = name, .err = err};
    char *own_name = NULL;
    int code = parse(&m);
    if (code == 0 && ret_name) {
        const char *text = m.own_name.value ? (const char *)m.own_name.value : "";
        own_name = strndup(text, m.own_name.len);
        code = own_name ? 0 : prn_fail_memory(err);
    }
    if (code < 0) {
        prn_tensor_release(&m.tensor);
        return code;
    }
    *ret_tensor = m.tensor;
    if (ret_name)
        *ret_name = own_name;
    return 0;
}
