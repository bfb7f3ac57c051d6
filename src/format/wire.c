#include "format/wire.h"

#include <string.h>

enum prn_wire_fault prn_wire_varint(struct prn_wire *w, uint64_t *ret_value)
{
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (w->at == w->end)
            return PRN_WIRE_TRUNCATED;
        uint8_t byte = *w->at++;
        if (shift == 63 && byte > 1)
            return PRN_WIRE_INVALID;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return PRN_WIRE_FINE;
        }
    }
    return PRN_WIRE_INVALID;
}

static enum prn_wire_fault value_of(struct prn_wire *w, struct prn_wire_field *field)
{
    uint64_t unused;
    enum prn_wire_fault fault = PRN_WIRE_FINE;
    field->value = w->at;
    switch (field->type) {
    case PRN_WIRE_TYPE_VARINT:
        fault = prn_wire_varint(w, &unused);
        field->len = (uint64_t)(w->at - field->value);
        return fault;
    case PRN_WIRE_TYPE_FIXED64:
        field->len = 8;
        break;
    case PRN_WIRE_TYPE_FIXED32:
        field->len = 4;
        break;
    case PRN_WIRE_TYPE_BYTES:
        fault = prn_wire_varint(w, &field->len);
        field->value = w->at;
        break;
    default: /* Groups were gone before ONNX came, and 6 and 7 never were. */
        return PRN_WIRE_INVALID;
    }
    if (fault != PRN_WIRE_FINE)
        return fault;
    if (field->len > (uint64_t)(w->end - w->at))
        return PRN_WIRE_TRUNCATED;
    w->at += field->len;
    return PRN_WIRE_FINE;
}

enum prn_wire_fault prn_wire_next(struct prn_wire *w, struct prn_wire_field *ret_field)
{
    uint64_t tag = 0;
    struct prn_wire_field field = {0};
    enum prn_wire_fault fault = prn_wire_varint(w, &tag);
    if (fault == PRN_WIRE_FINE) {
        field.number = (uint32_t)(tag >> 3);
        field.type = (enum prn_wire_type)(tag & 7);
        if (tag > UINT32_MAX || field.number == 0)
            fault = PRN_WIRE_INVALID;
        else
            fault = value_of(w, &field);
    }
    *ret_field = field;
    return fault;
}

size_t prn_wire_put_varint(uint8_t to[10], uint64_t value)
{
    size_t n = 0;
    for (; value > 0x7f; value >>= 7)
        to[n++] = (uint8_t)(value | 0x80);
    to[n++] = (uint8_t)value;
    return n;
}

struct walk {
    const uint8_t *begin;
    struct prn_wire_limits left;
    const struct prn_wire_limits *limits;
    struct prony_error *err;
};

static int walk_message(struct prn_wire w, const ProtobufCMessageDescriptor *type,
                        struct walk *seen);

static int walk_field(const struct prn_wire_field *field, const ProtobufCFieldDescriptor *known,
                      struct walk *seen)
{
    if (!known || field->type != PRN_WIRE_TYPE_BYTES)
        return 0;
    if (known->type == PROTOBUF_C_TYPE_STRING && memchr(field->value, 0, field->len))
        return prn_fail(seen->err, PRONY_EFORMAT, "%s has a NUL inside", known->name);
    if (known->type != PROTOBUF_C_TYPE_MESSAGE)
        return 0;
    if (seen->left.depth == 0)
        return prn_fail(seen->err, PRONY_EFORMAT, "values inside each other, more than %d",
                        seen->limits->depth);
    seen->left.depth--;
    int code = walk_message((struct prn_wire){field->value, field->value + field->len},
                            known->descriptor, seen);
    seen->left.depth++;
    return code;
}

static int walk_message(struct prn_wire w, const ProtobufCMessageDescriptor *type,
                        struct walk *seen)
{
    int code = 0;
    while (code == 0 && w.at < w.end) {
        struct prn_wire_field field;
        enum prn_wire_fault fault = prn_wire_next(&w, &field);
        if (fault != PRN_WIRE_FINE)
            return prn_fail(seen->err, PRONY_EFORMAT, "%s, at byte %zu",
                            fault == PRN_WIRE_TRUNCATED ? "it ends too early"
                                                        : "it isn't a protobuf message",
                            (size_t)(w.at - seen->begin));
        if (seen->left.fields-- == 0)
            return prn_fail(seen->err, PRONY_EFORMAT, "more than %zu fields", seen->limits->fields);
        code =
            walk_field(&field, protobuf_c_message_descriptor_get_field(type, field.number), seen);
    }
    return code;
}

int prn_wire_check(struct prn_wire w, const ProtobufCMessageDescriptor *type,
                   struct prn_wire_limits limits, struct prony_error *err)
{
    struct walk seen = {w.at, limits, &limits, err};
    return walk_message(w, type, &seen);
}
