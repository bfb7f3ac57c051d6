/*
 * The protobuf wire format. It is read from memory without trusting it: a cursor that never passes
 * its end. Each function leaves the cursor behind what it read, and on a fault says which kind it
 * was.
 */
#ifndef PRN_FORMAT_WIRE_H
#define PRN_FORMAT_WIRE_H

#include "base/error.h"

#include <protobuf-c/protobuf-c.h>
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

/* Writes a varint and returns its length. */
size_t prn_wire_put_varint(uint8_t to[10], uint64_t value);

/* What protobuf-c doesn't check, and must hold before it unpacks a message: depth, counts, and NULs
 * in texts, behind which it would see nothing. It makes a block of memory of each field: an empty
 * message of two bytes becomes a hundred. */
struct prn_wire_limits {
    int depth;
    size_t fields;
};
PRONY_MUST_CHECK int prn_wire_check(struct prn_wire w, const ProtobufCMessageDescriptor *type,
                                    struct prn_wire_limits limits, struct prony_error *err);

#endif
