#include "rpc/messages.h"

#include "rpc/wire.h"

#include <stdlib.h>
#include <string.h>

#define UNPACKED_MAX ((size_t)16 << 20)
#define UNPACKED_OWN_MAX ((size_t)128 << 20) /* prony's own may carry a profile */
#define DEPTH_MAX 32
/* protobuf-c makes a block of memory of each: an empty message of two bytes becomes a hundred. */
#define FIELDS_MAX ((size_t)1 << 18)
#define SMALL_BYTES 512

/* What protobuf-c doesn't check: depth, counts, and NULs in texts, behind which it would see
 * nothing. */
struct walk {
    size_t fields;
    int depth;
};

static int walk(struct prn_rpc_wire *w, const ProtobufCMessageDescriptor *type, struct walk *seen);

static int walk_field(struct prn_rpc_wire *w, const struct prn_rpc_field *field,
                      const ProtobufCFieldDescriptor *known, struct walk *seen)
{
    if (!known || field->type != PRN_RPC_WIRE_BYTES)
        return 0;
    if (known->type == PROTOBUF_C_TYPE_STRING) {
        struct prn_range range = field->range;
        const void *data;
        size_t length;
        while (prn_bytes_next(w->bytes, &range, &data, &length))
            if (memchr(data, 0, length))
                return prn_fail(w->err, PRONY_EFORMAT, "%s has a NUL inside", known->name);
        return 0;
    }
    if (known->type != PROTOBUF_C_TYPE_MESSAGE)
        return 0;
    if (seen->depth == DEPTH_MAX)
        return prn_fail(w->err, PRONY_EFORMAT, "messages inside each other, more than %d",
                        DEPTH_MAX);
    struct prn_rpc_wire inner = prn_rpc_wire_in(w, field->range);
    seen->depth++;
    int r = walk(&inner, known->descriptor, seen);
    seen->depth--;
    return r;
}

static int walk(struct prn_rpc_wire *w, const ProtobufCMessageDescriptor *type, struct walk *seen)
{
    struct prn_rpc_field field;
    int r;
    while ((r = prn_rpc_wire_next(w, &field)) > 0) {
        if (++seen->fields > FIELDS_MAX)
            return prn_fail(w->err, PRONY_EFORMAT, "more than %zu fields", FIELDS_MAX);
        r = walk_field(w, &field, protobuf_c_message_descriptor_get_field(type, field.number),
                       seen);
        if (r < 0)
            return r;
    }
    return r;
}

/* protobuf-c wants one block. */
static ProtobufCMessage *unpack(const struct prn_bytes *bytes,
                                const ProtobufCMessageDescriptor *type)
{
    size_t total = prn_bytes_length(bytes);
    struct prn_range all = {0, total};
    const void *data = "";
    size_t length = 0;
    (void)prn_bytes_next(bytes, &all, &data, &length);
    if (length == total)
        return protobuf_c_message_unpack(type, NULL, total, data);
    uint8_t *joined = malloc(total);
    if (!joined)
        return NULL;
    prn_bytes_copy(bytes, (struct prn_range){0, total}, joined);
    ProtobufCMessage *message = protobuf_c_message_unpack(type, NULL, total, joined);
    free(joined);
    return message;
}

int prn_rpc_unpack(const struct prn_bytes *bytes, const ProtobufCMessageDescriptor *type,
                   ProtobufCMessage **ret_message, struct prony_error *err)
{
    struct prn_rpc_wire w = prn_rpc_wire_of(bytes, err);
    struct walk seen = {0};
    size_t most = strcmp(type->package_name, "prony") == 0 ? UNPACKED_OWN_MAX : UNPACKED_MAX;
    int r = 0;
    if (prn_bytes_length(bytes) > most)
        r = prn_fail(err, PRONY_EFORMAT, "it has more than %zu bytes", most);
    else
        r = walk(&w, type, &seen);
    if (r < 0)
        return prn_fail_in(err, r, "%s is malformed", type->short_name);
    ProtobufCMessage *message = unpack(bytes, type);
    if (!message)
        return prn_fail(err, PRONY_EFORMAT,
                        "%s is malformed: a field is missing or of the wrong kind",
                        type->short_name);
    *ret_message = message;
    return 0;
}

struct prn_out *prn_rpc_pack(const ProtobufCMessage *message)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    struct prn_out *out = prn_out_new();
    if (!out)
        return NULL;
    if (length <= SMALL_BYTES) {
        uint8_t data[SMALL_BYTES];
        protobuf_c_message_pack(message, data);
        prn_out_copy(out, data, length);
        return out;
    }
    uint8_t *data = malloc(length);
    if (!data) {
        prn_out_free(out);
        return NULL;
    }
    protobuf_c_message_pack(message, data);
    prn_out_borrow(out, data, length, free, data);
    return out;
}
