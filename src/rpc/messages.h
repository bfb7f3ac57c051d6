/*
 * Reading and writing protobuf by hand, for the messages that carry tensors and files, so that data
 * is not copied into structures of protobuf-c; all other messages go through prn_rpc_unpack() and
 * prn_rpc_pack().
 *
 * Lengths, counts and types are checked: what isn't a message of its kind is PRONY_EFORMAT with the
 * fault, and the caller answers INVALID_ARGUMENT.
 */
#ifndef PRN_RPC_MESSAGES_H
#define PRN_RPC_MESSAGES_H

#include "base/arena.h"
#include "rpc/bytes.h"

#include <protobuf-c/protobuf-c.h>

#define PRN_RPC_TENSORS_MAX 1024
#define PRN_RPC_RANK_MAX 64

/* A tensor, its data a range of the message that it came in, or memory to be sent. */
struct prn_rpc_tensor {
    int dtype; /* ONNX's number */
    size_t rank;
    const int64_t *dims;
    struct prn_range range; /* of what was received */
    const void *data;       /* of what is sent */
    size_t bytes;
};

/* RunRequest of inference_base.proto. Memory belongs to `arena`. Shapes match their data: that is
 * checked here. */
struct prn_rpc_run {
    uint8_t session[16];
    uint64_t model_id;
    size_t n_inputs;
    struct prn_rpc_tensor *inputs;
    size_t n_maps;
    struct prn_rpc_map {
        size_t n;
        int32_t *indices; /* within the inputs */
    } * maps;
    uint64_t repeats, repeat_for_ms, warmups; /* 0 when absent */
    bool has_repeats, has_repeat_for;
    bool inference; /* outputs are wanted */
};

PRONY_MUST_CHECK int prn_rpc_read_run(const struct prn_bytes *bytes, struct prn_arena *arena,
                                      struct prn_rpc_run *ret_run, struct prony_error *err);
/* The data of inputs is borrowed until the message is sent; `release` as in prn_out_borrow(),
 * called once for all of it. NULL: out of memory. */
struct prn_out *prn_rpc_write_run(const struct prn_rpc_run *run, void (*release)(void *),
                                  void *context);

/* One backend's part of a RunReply. */
struct prn_rpc_result {
    const char *error; /* NULL: it ran */
    int error_code;    /* ErrorCode of inference_base.proto */
    size_t n_times;
    uint64_t *times_ns;
    uint64_t prepare_ns; /* as in struct prn_instance_result; 0: not told */
    size_t n_outputs;
    struct prn_rpc_tensor *outputs;
    const char *const *names; /* of the outputs; NULL: not told */
    /* To be sent on: the message of which the outputs are ranges; NULL: they have data. */
    const struct prn_bytes *source;
};

PRONY_MUST_CHECK int prn_rpc_read_results(const struct prn_bytes *bytes, struct prn_arena *arena,
                                          struct prn_rpc_result **ret_results, size_t *ret_n,
                                          struct prony_error *err);
struct prn_out *prn_rpc_write_results(const struct prn_rpc_result *results, size_t n,
                                      void (*release)(void *), void *context);

/* LoadModelComponentRequest; the chunk is a range of the message. */
struct prn_rpc_component {
    bool first; /* has the fields below */
    uint8_t session[16];
    uint64_t model_id, component_id;
    const char *filename; /* without NUL inside; belongs to `arena` */
    size_t n_skip;        /* bytes of the mask */
    uint8_t *skip;
    struct prn_range chunk;
};

PRONY_MUST_CHECK int prn_rpc_read_component(const struct prn_bytes *bytes, struct prn_arena *arena,
                                            struct prn_rpc_component *ret_component,
                                            struct prony_error *err);
/* `chunk` is borrowed until it is sent. */
struct prn_out *prn_rpc_write_component(const struct prn_rpc_component *component,
                                        const void *chunk, size_t bytes, void (*release)(void *),
                                        void *context);

/* Any other message. Unpacking joins the pieces and bounds depth and size (16 MiB, 128 MiB of
 * prony's own messages); NULL with an error when it is malformed. To be freed with
 * protobuf_c_message_free_unpacked(m, NULL). */
PRONY_MUST_CHECK int prn_rpc_unpack(const struct prn_bytes *bytes,
                                    const ProtobufCMessageDescriptor *type,
                                    ProtobufCMessage **ret_message, struct prony_error *err);
struct prn_out *prn_rpc_pack(const ProtobufCMessage *message);

#endif
