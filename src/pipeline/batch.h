/*
 * The tensors of one batch on their way through a pipeline, in this process's memory: out of one
 * executor's shared memory, and into another's.
 */
#ifndef PRN_PIPELINE_BATCH_H
#define PRN_PIPELINE_BATCH_H

#include "exec/executor.h"
#include "pipeline/belt.h"

struct prn_batch {
    struct prn_belt_item item; /* first */
    size_t number;             /* in which it went into the pipeline */
    bool alone;                /* nothing else was in the pipeline */
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

/* The tensor of a name, or NULL. */
const struct prn_place *prn_batch_find(const struct prn_batch *batch, const char *name);

#endif
