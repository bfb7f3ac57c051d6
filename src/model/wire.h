/*
 * The protobuf wire format, read from memory without trusting it: a cursor that never passes its
 * end. Each function leaves the cursor behind what it read, and on a fault says which kind it was.
 */
#ifndef PRN_MODEL_WIRE_H
#define PRN_MODEL_WIRE_H

#include <stddef.h>
#include <stdint.h>

struct prn_wire {
    const uint8_t *at;
    const uint8_t *end;
};

enum prn_wire_fault {
    PRN_WIRE_FINE = 0,
    PRN_WIRE_TRUNCATED, /* more bytes are announced or needed than are left */
    PRN_WIRE_INVALID,   /* no writer makes this: a number over 64 bits, field 0, a group */
};

enum prn_wire_type {
    PRN_WIRE_TYPE_VARINT = 0,
    PRN_WIRE_TYPE_FIXED64 = 1,
    PRN_WIRE_TYPE_BYTES = 2,
    PRN_WIRE_TYPE_FIXED32 = 5,
};

/* One field: its number, type, and where its value lies (the varint's or fixed bytes, or the
 * content that a length announced). */
struct prn_wire_field {
    uint32_t number;
    enum prn_wire_type type;
    const uint8_t *value;
    uint64_t len; /* as announced, also when it is more than is left */
};

enum prn_wire_fault prn_wire_varint(struct prn_wire *w, uint64_t *ret_value);

/* Reads the tag and, for PRN_WIRE_TYPE_BYTES, the length, and checks that the value is all there;
 * the cursor stands behind the value afterwards. */
enum prn_wire_fault prn_wire_next(struct prn_wire *w, struct prn_wire_field *ret_field);

#endif
