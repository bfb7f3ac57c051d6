/*
 * The protobuf wire format in messages that lie in pieces, read without trusting it, and written.
 * A reader never passes its end; every fault is PRONY_EFORMAT and says what is wrong.
 */
#ifndef PRN_RPC_WIRE_H
#define PRN_RPC_WIRE_H

#include "format/wire.h"
#include "rpc/bytes.h"

struct prn_rpc_wire {
    const struct prn_bytes *bytes;
    size_t at, end;
    /* The piece that is being read: bytes [from, to) of the message. */
    const uint8_t *piece;
    size_t from, to;
    struct prony_error *err;
};

struct prn_rpc_field {
    uint32_t number;
    enum prn_wire_type type;
    uint64_t value;         /* of a varint */
    struct prn_range range; /* of bytes, and of fixed ones */
};

struct prn_rpc_wire prn_rpc_wire_of(const struct prn_bytes *bytes, struct prony_error *err);
/* What a field holds, as a message of its own. */
struct prn_rpc_wire prn_rpc_wire_in(const struct prn_rpc_wire *w, struct prn_range range);

PRONY_MUST_CHECK int prn_rpc_wire_varint(struct prn_rpc_wire *w, uint64_t *ret_value);

/* 1: a field, which has been stepped over; 0: the end; or a fault. */
PRONY_MUST_CHECK int prn_rpc_wire_next(struct prn_rpc_wire *w, struct prn_rpc_field *ret_field);

/* The field must be of this type. */
PRONY_MUST_CHECK int prn_rpc_wire_expect(const struct prn_rpc_wire *w,
                                         const struct prn_rpc_field *field,
                                         enum prn_wire_type type);

/* A tag, and a varint behind it: a number, or the length of what follows. At most 15 bytes. */
size_t prn_rpc_put_field(uint8_t *to, uint32_t number, enum prn_wire_type type, uint64_t value);
size_t prn_rpc_field_length(uint32_t number, uint64_t value);

#endif
