/*
 * The tensors of one batch on their way through a pipeline, in this process's memory: out of one
 * executor's shared memory, and into another's.
 */
#ifndef PRN_PIPELINE_SIMULATE_BATCH_H
#define PRN_PIPELINE_SIMULATE_BATCH_H

#include "base/buffer.h"
#include "exec/executor.h"
#include "pipeline/simulate/belt.h"

struct prn_batch {
    struct prn_belt_item item; /* first */
    size_t number;             /* in which it went into the pipeline */
    bool alone;                /* nothing else was in the pipeline */
    bool last;                 /* nothing comes after it, and it has no tensors itself */
    int64_t begin_ns;          /* when the first stage took it */
    size_t n;
    struct prn_place *places;
    unsigned char *data;
    size_t bytes, room_bytes; /* of data */
    struct prn_arena arena;   /* of places */
};

struct prn_batch *prn_batch_new(void);
void prn_batch_free(struct prn_batch *batch); /* NULL does nothing */

/* Fills a batch with tensors in a file of shared memory; `places` must live in its arena, or
 * outlive it. */
PRONY_MUST_CHECK int prn_batch_read(struct prn_batch *batch, struct prn_place *places, size_t n,
                                    int fd, struct prony_error *err);

/* Fills a batch with the outputs of an executor's last run. */
PRONY_MUST_CHECK int prn_batch_receive(struct prn_batch *batch, struct prn_executor *executor,
                                       struct prony_error *err);

/* Writes the tensors of these names to the executor's file of inputs and has them bound. */
PRONY_MUST_CHECK int prn_batch_send(const struct prn_batch *batch, const char *const *names,
                                    size_t n, struct prn_executor *executor, int inputs_fd,
                                    struct prony_error *err);

/* A batch as bytes, with the tensors of these names, or all (names NULL): the length of the head in
 * four bytes, the head, the tensors. Both functions do all they are told, or fail. */
typedef int prn_batch_put(void *context, const void *data, size_t bytes, struct prony_error *err);
typedef int prn_batch_get(void *context, void *data, size_t bytes, struct prony_error *err);
PRONY_MUST_CHECK int prn_batch_store(const struct prn_batch *batch, const char *const *names,
                                     size_t n, prn_batch_put *put, void *context,
                                     struct prony_error *err);
/* Trusts nothing that it reads. */
PRONY_MUST_CHECK int prn_batch_fetch(struct prn_batch *batch, prn_batch_get *get, void *context,
                                     struct prony_error *err);

/* The same into a text, and from bytes. */
PRONY_MUST_CHECK int prn_batch_write(const struct prn_batch *batch, struct prn_buffer *out,
                                     struct prony_error *err);
PRONY_MUST_CHECK int prn_batch_parse(struct prn_batch *batch, const void *data, size_t bytes,
                                     struct prony_error *err);

/* The tensor of a name, or NULL. */
const struct prn_place *prn_batch_find(const struct prn_batch *batch, const char *name);

#endif
