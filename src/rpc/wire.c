#include "rpc/wire.h"

struct prn_rpc_wire prn_rpc_wire_of(const struct prn_bytes *bytes, struct prony_error *err)
{
    return (struct prn_rpc_wire){.bytes = bytes, .end = prn_bytes_length(bytes), .err = err};
}

struct prn_rpc_wire prn_rpc_wire_in(const struct prn_rpc_wire *w, struct prn_range range)
{
    struct prn_rpc_wire inner = *w;
    inner.at = range.offset;
    inner.end = range.offset + range.length;
    return inner;
}

static int truncated(const struct prn_rpc_wire *w)
{
    return prn_fail(w->err, PRONY_EFORMAT, "it ends too early, at byte %zu", w->at);
}

static int invalid(const struct prn_rpc_wire *w, const char *what)
{
    return prn_fail(w->err, PRONY_EFORMAT, "%s at byte %zu", what, w->at);
}

static uint8_t next_byte(struct prn_rpc_wire *w)
{
    if (w->at < w->from || w->at >= w->to) {
        struct prn_range rest = {w->at, w->end - w->at};
        const void *data = NULL;
        size_t length = 0;
        (void)prn_bytes_next(w->bytes, &rest, &data, &length);
        w->piece = data;
        w->from = w->at;
        w->to = w->at + length;
    }
    return w->piece[w->at++ - w->from];
}

int prn_rpc_wire_varint(struct prn_rpc_wire *w, uint64_t *ret_value)
{
    /* Most numbers are one byte of the piece at hand. */
    if (w->at >= w->from && w->at < w->to && w->at < w->end && w->piece[w->at - w->from] < 0x80) {
        *ret_value = w->piece[w->at++ - w->from];
        return 0;
    }
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
        if (w->at == w->end)
            return truncated(w);
        uint8_t byte = next_byte(w);
        if (shift == 63 && byte > 1)
            break;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret_value = value;
            return 0;
        }
    }
    return invalid(w, "a number of more than 64 bits");
}

static int step_over(struct prn_rpc_wire *w, struct prn_rpc_field *field)
{
    uint64_t length = 0;
    int r = 0;
    switch (field->type) {
    case PRN_WIRE_TYPE_VARINT:
        return prn_rpc_wire_varint(w, &field->value);
    case PRN_WIRE_TYPE_FIXED64:
        length = 8;
        break;
    case PRN_WIRE_TYPE_FIXED32:
        length = 4;
        break;
    case PRN_WIRE_TYPE_BYTES:
        r = prn_rpc_wire_varint(w, &length);
        break;
    default:
        return invalid(w, "a group or an unknown kind of field");
    }
    if (r == 0 && length > w->end - w->at)
        r = truncated(w);
    if (r < 0)
        return r;
    field->range = (struct prn_range){w->at, (size_t)length};
    w->at += (size_t)length;
    return 0;
}

int prn_rpc_wire_next(struct prn_rpc_wire *w, struct prn_rpc_field *ret_field)
{
    uint64_t tag;
    if (w->at == w->end)
        return 0;
    int r = prn_rpc_wire_varint(w, &tag);
    if (r < 0)
        return r;
    if (tag > UINT32_MAX || tag >> 3 == 0)
        return invalid(w, "an impossible field number");
    struct prn_rpc_field field = {.number = (uint32_t)(tag >> 3),
                                  .type = (enum prn_wire_type)(tag & 7)};
    r = step_over(w, &field);
    if (r < 0)
        return r;
    *ret_field = field;
    return 1;
}

int prn_rpc_wire_expect(const struct prn_rpc_wire *w, const struct prn_rpc_field *field,
                        enum prn_wire_type type)
{
    if (field->type == type)
        return 0;
    return prn_fail(w->err, PRONY_EFORMAT, "field %u has a value of the wrong kind", field->number);
}

static size_t varint_length(uint64_t value)
{
    uint8_t unused[10];
    return prn_wire_put_varint(unused, value);
}

size_t prn_rpc_put_field(uint8_t *to, uint32_t number, enum prn_wire_type type, uint64_t value)
{
    size_t n = prn_wire_put_varint(to, (uint64_t)number << 3 | type);
    return n + prn_wire_put_varint(to + n, value);
}

size_t prn_rpc_field_length(uint32_t number, uint64_t value)
{
    return varint_length((uint64_t)number << 3) + varint_length(value);
}
