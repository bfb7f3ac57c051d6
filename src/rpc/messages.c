#include "rpc/messages.h"

#include "rpc/wire.h"

#include <stdlib.h>
#include <string.h>

#define UNPACKED_MAX ((size_t)16 << 20)
#define UNPACKED_OWN_MAX ((size_t)128 << 20) /* prony's own may carry a profile */
#define DEPTH_MAX 32
#define FIELDS_MAX ((size_t)1 << 18)
#define SMALL_BYTES 512

/* `data` is the whole message. */
static int unpack(const uint8_t *data, size_t length, const ProtobufCMessageDescriptor *type,
                  ProtobufCMessage **ret_message, struct prony_error *err)
{
    int r = prn_wire_check((struct prn_wire){data, data + length}, type,
                           (struct prn_wire_limits){DEPTH_MAX, FIELDS_MAX}, err);
    if (r < 0)
        return r;
    *ret_message = protobuf_c_message_unpack(type, NULL, length, data);
    return *ret_message ? 0
                        : prn_fail(err, PRONY_EFORMAT, "a field is missing or of the wrong kind");
}

int prn_rpc_unpack(const struct prn_bytes *bytes, const ProtobufCMessageDescriptor *type,
                   ProtobufCMessage **ret_message, struct prony_error *err)
{
    const size_t total = prn_bytes_length(bytes);
    size_t most = strcmp(type->package_name, "prony") == 0 ? UNPACKED_OWN_MAX : UNPACKED_MAX;
    struct prn_range all = {0, total};
    const void *data = "";
    size_t length = 0;
    uint8_t *joined = NULL;
    (void)prn_bytes_next(bytes, &all, &data, &length);
    int r = 0;
    if (total > most)
        r = prn_fail(err, PRONY_EFORMAT, "it has more than %zu bytes", most);
    else if (length == total)
        r = unpack(data, total, type, ret_message, err);
    else if ((joined = malloc(total))) { /* protobuf-c wants one block */
        prn_bytes_copy(bytes, (struct prn_range){0, total}, joined);
        r = unpack(joined, total, type, ret_message, err);
        free(joined);
    } else
        return prn_fail_memory(err);
    return r < 0 ? prn_fail_in(err, r, "%s is malformed", type->short_name) : 0;
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
