/*
 * What the benchmarks of the service share: a server and a client on nothing but gRPC's C core, and
 * small things. The server has one thread and one method; a call is one message each way.
 */
#ifndef PRN_BENCH_BARE_RPC_H
#define PRN_BENCH_BARE_RPC_H

#include <grpc/grpc.h>

#include <stdint.h>

/* Ends the program with a message. */
_Noreturn void bench_die(const char *what);
int64_t bench_now_ns(void); /* CLOCK_MONOTONIC */
/* Sorts them. */
int64_t bench_median(int64_t *values, size_t n);
/* Ends the program with its input, from a thread of its own. */
void bench_end_with_input(void);

gpr_timespec bench_never(void);

enum bench_answer {
    BENCH_ANSWER_SAME,   /* the message itself */
    BENCH_ANSWER_WANTED, /* as long as the first 8 bytes of the message say */
};

/* Prints its port, and never returns. */
_Noreturn void bench_bare_serve(enum bench_answer answer);

struct bench_bare {
    grpc_channel *channel;
    grpc_completion_queue *queue;
    grpc_slice payload;
};

struct bench_bare bench_bare_open(int port);
/* Of the messages that are sent from here on; they are all ones. */
void bench_bare_resize(struct bench_bare *bare, size_t bytes);
/* Returns how long it took in ns. The answer must have so many bytes. */
int64_t bench_bare_call(const struct bench_bare *bare, size_t back);

#endif
