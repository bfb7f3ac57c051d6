/*
 * What the files of this folder share: gRPC's own types behind messages, its start and end, and
 * what tells ThreadSanitizer that a batch's tag passes from thread to thread.
 */
#ifndef PRN_RPC_CORE_H
#define PRN_RPC_CORE_H

#include "rpc/bytes.h"

#include <grpc/grpc.h>

#include <limits.h>

/* gRPC isn't instrumented, so ThreadSanitizer can't see that its queues order what they hand on. */
#if defined(__SANITIZE_THREAD__)
#define PRN_RPC_TSAN
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PRN_RPC_TSAN
#endif
#endif

#ifdef PRN_RPC_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#define prn_rpc_give(tag) __tsan_release(tag)
#define prn_rpc_take(tag) __tsan_acquire(tag)
#else
#define prn_rpc_give(tag) ((void)(tag))
#define prn_rpc_take(tag) ((void)(tag))
#endif

/* A connection that nobody answers on is given up after both of these together. The second is
 * longer than the 5 s after which gRPC looks at a client's connection that nobody waits for. */
#define PRN_RPC_KEEPALIVE_MS 4000
#define PRN_RPC_KEEPALIVE_TIMEOUT_MS 6000
#define PRN_RPC_METADATA_MAX (16 << 10)

/* Every server and channel begins with the first and ends with the second. */
void prn_rpc_begin(void);
void prn_rpc_end(void);

/* The system's reason in the last fault that gRPC logged in this thread; NULL: none. */
const char *prn_rpc_fault(void);
void prn_rpc_forget_fault(void);

static inline grpc_arg prn_rpc_arg(const char *key, int value)
{
    return (grpc_arg){GRPC_ARG_INTEGER, (char *)(uintptr_t)key, {.integer = value}};
}

/* The message is consumed; NULL when out of memory. */
struct prn_bytes *prn_bytes_take(grpc_byte_buffer *buffer);

/* The message is consumed; NULL when it is NULL or something that was added is missing. */
grpc_byte_buffer *prn_out_take(struct prn_out *out);

#endif
