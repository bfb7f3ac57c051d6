/*
 * Which tensors of a model are alive while a node runs: those that were made and will be read
 * again. Sizes come from our own inference of shapes, the order from what ran.
 *
 * Runtimes fuse nodes. A node that didn't run by itself ran with what gives its inputs, and a
 * tensor that is made and read by the same one doesn't exist. Views (Reshape and its like) take no
 * memory: they keep alive what they look at.
 */
#ifndef PRN_MEASURE_MEMORY_LIVE_H
#define PRN_MEASURE_MEMORY_LIVE_H

#include "measure/memory/memory.h"
#include "model/model.h"

struct prn_live;

/* Copies what it needs: model and work may go. `work` is that of `model`. */
PRONY_MUST_CHECK int prn_live_new(const struct prn_model *model, const struct prn_work *work,
                                  struct prn_live **ret_live, struct prony_error *err);
void prn_live_free(struct prn_live *live);
size_t prn_live_nodes(const struct prn_live *live);
uint64_t prn_live_weight_bytes(const struct prn_live *live); /* of the model */

/* `when` says of each node which one of those that ran it was, from 0 on, -1: it isn't among them;
 * the others are filled in. The tensors that are alive in number `at`, largest first; their memory
 * is the arena's. */
PRONY_MUST_CHECK int prn_live_at(const struct prn_live *live, int64_t *when, int64_t at,
                                 struct prn_arena *arena, struct prn_memory_tensor **ret_tensors,
                                 size_t *ret_n, struct prony_error *err);

#endif
