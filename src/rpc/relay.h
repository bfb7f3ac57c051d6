/*
 * What travels between the service and a worker on another machine and is too large for structures
 * of protobuf-c: the tensors of a run, the bytes of a file. They are read where they arrived, and
 * borrowed until they are sent.
 */
#ifndef PRN_RPC_RELAY_H
#define PRN_RPC_RELAY_H

#include "rpc/messages.h"

/* RunModel of prony.proto. */
struct prn_relay_run {
    uint64_t model_id;
    uint32_t backend;
    size_t n_inputs;
    struct prn_rpc_tensor *inputs;
    uint64_t warmups, repeats, repeat_for_ms; /* 0 when absent */
    bool outputs;
    double timeout_s; /* 0: none */
};

/* Of a WorkerCommand or WorkerReport: the id, 0 when absent, and the field number of its body, 0
 * when it has none. */
PRONY_MUST_CHECK int prn_relay_peek(const struct prn_bytes *bytes, uint64_t *ret_id,
                                    unsigned *ret_body, struct prony_error *err);

#define PRN_RELAY_COMMAND_RUN 4 /* WorkerCommand.run */
#define PRN_RELAY_REPORT_RAN 5  /* WorkerReport.ran */

/* A WorkerCommand with `run`. Shapes match their data: that is checked here. Inputs are ranges of
 * the message; memory belongs to `arena`. */
PRONY_MUST_CHECK int prn_relay_read_run(const struct prn_bytes *bytes, struct prn_arena *arena,
                                        struct prn_relay_run *ret_run, struct prony_error *err);
/* Inputs are ranges of `source`, which is taken over and freed when the message was sent. NULL: out
 * of memory. */
struct prn_out *prn_relay_write_run(uint64_t id, const struct prn_relay_run *run,
                                    struct prn_bytes *source);

/* A WorkerReport with `ran`; the result's error isn't used. */
PRONY_MUST_CHECK int prn_relay_read_ran(const struct prn_bytes *bytes, struct prn_arena *arena,
                                        struct prn_rpc_result *ret_result, struct prony_error *err);
/* The data of the outputs is borrowed until it is sent; `release` is called once, whatever is
 * returned. */
struct prn_out *prn_relay_write_ran(uint64_t id, const struct prn_rpc_result *result,
                                    void (*release)(void *), void *context);

/* A FetchChunk: where its bytes lie. */
PRONY_MUST_CHECK int prn_relay_read_chunk(const struct prn_bytes *bytes,
                                          struct prn_range *ret_chunk, struct prony_error *err);

#endif
