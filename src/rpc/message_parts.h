/* Parts that messages have in common: tensors as Values, and what a run gave. */
#ifndef PRN_RPC_MESSAGE_PARTS_H
#define PRN_RPC_MESSAGE_PARTS_H

#include "rpc/messages.h"
#include "rpc/wire.h"

/* All Values of a repeated field; `what` is one of them, for errors. */
PRONY_MUST_CHECK int prn_rpc_read_values(const struct prn_rpc_wire *w, uint32_t wanted,
                                         const char *what, struct prn_arena *arena,
                                         struct prn_rpc_tensor **ret_tensors, size_t *ret_n);
/* A ResultValue. */
PRONY_MUST_CHECK int prn_rpc_read_result_value(struct prn_rpc_wire *w, struct prn_arena *arena,
                                               struct prn_rpc_result *result);

/* Memory that several slices borrow, released once after all of them and its maker have ended. */
struct prn_rpc_loan;

/* NULL, with the memory released, when out of memory. */
struct prn_rpc_loan *prn_rpc_loan_new(void (*release)(void *), void *context);
void prn_rpc_loan_end(void *loan);

/* A tensor as a Value in a field with a number below 16, and the length of that. The data is the
 * tensor's own, or a range of `source`. */
void prn_rpc_put_value(struct prn_out *out, uint32_t number, const struct prn_rpc_tensor *tensor,
                       const struct prn_bytes *source, struct prn_rpc_loan *loan);
size_t prn_rpc_value_length(const struct prn_rpc_tensor *tensor);

/* A ResultValue as a field. */
void prn_rpc_put_result_value(struct prn_out *out, uint32_t number,
                              const struct prn_rpc_result *result, struct prn_rpc_loan *loan);

#endif
