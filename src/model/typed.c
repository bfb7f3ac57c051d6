#include "model/typed.h"
#include "format/wire.h"

#include <string.h>

uint32_t prn_typed_field(int dtype)
{
    switch (dtype) {
    case PRN_DTYPE_FLOAT:
    case PRN_DTYPE_COMPLEX64:
        return 4;
    case PRN_DTYPE_INT64:
        return 7;
    case PRN_DTYPE_DOUBLE:
    case PRN_DTYPE_COMPLEX128:
        return 10;
    case PRN_DTYPE_UINT32:
    case PRN_DTYPE_UINT64:
        return 11;
    default:
        return prn_dtype_bits(dtype) ? 5 : 0;
    }
}

size_t prn_typed_entry_bytes(int dtype)
{
    int bits = prn_dtype_bits(dtype);
    if (dtype == PRN_DTYPE_COMPLEX64 || dtype == PRN_DTYPE_COMPLEX128)
        bits /= 2;
    return bits < 8 ? 1 : (size_t)bits / 8;
}

/* How an entry of a field is written. */
static enum prn_wire_type entry_type(uint32_t field)
{
    switch (field) {
    case 4:
        return PRN_WIRE_TYPE_FIXED32;
    case 10:
        return PRN_WIRE_TYPE_FIXED64;
    default:
        return PRN_WIRE_TYPE_VARINT;
    }
}

/* One entry, little-endian. */
static bool decode_entry(struct prn_wire *w, enum prn_wire_type type, uint8_t *out, size_t size)
{
    uint64_t value = 0;
    if (type == PRN_WIRE_TYPE_VARINT) {
        if (prn_wire_varint(w, &value) != PRN_WIRE_FINE)
            return false;
        for (size_t i = 0; i < size; i++)
            out[i] = (uint8_t)(value >> (8 * i));
    } else {
        if ((size_t)(w->end - w->at) < size)
            return false;
        memcpy(out, w->at, size);
        w->at += size;
    }
    return true;
}

bool prn_typed_decode(const void *message, size_t len, int dtype, void *data, size_t bytes)
{
    uint32_t wanted = prn_typed_field(dtype);
    enum prn_wire_type type = entry_type(wanted);
    size_t size = prn_typed_entry_bytes(dtype);
    const uint8_t *start = message;
    struct prn_wire w = {start, start + len};
    uint8_t *out = data; /* NULL when there are no bytes */
    size_t done = 0;
    while (w.at < w.end) {
        struct prn_wire_field field;
        if (prn_wire_next(&w, &field) != PRN_WIRE_FINE)
            return false;
        if (field.number != wanted)
            continue;
        if (field.type != type && field.type != PRN_WIRE_TYPE_BYTES)
            return false;
        struct prn_wire run = {field.value, field.value + field.len};
        for (; run.at < run.end; done += size)
            if (bytes - done < size || !decode_entry(&run, type, out + done, size))
                return false;
    }
    return done == bytes;
}
