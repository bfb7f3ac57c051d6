/*
 * Jobs of Slurm that a restart must find again, in the state's database: their numbers, and hashes
 * of the secrets with which their workers come back. Used by one thread at a time.
 */
#ifndef PRN_SERVICE_SLURM_STORE_H
#define PRN_SERVICE_SLURM_STORE_H

#include "service/store/tokens.h"

struct prn_slurm_store;

struct prn_slurm_stored {
    uint64_t job;
    const char *hardware; /* borrowed */
    const char *label;
    uint8_t key[PRN_TOKEN_HASH_BYTES];
    uint8_t token[PRN_TOKEN_HASH_BYTES];
    bool has_key, has_token;
};

PRONY_MUST_CHECK int prn_slurm_store_open(const struct prn_state *state,
                                          struct prn_slurm_store **ret_store,
                                          struct prony_error *err);
void prn_slurm_store_close(struct prn_slurm_store *store); /* NULL does nothing */

/* By which the service's jobs are known: random, and the same as long as the folder lives. */
const char *prn_slurm_store_id(const struct prn_slurm_store *store);

PRONY_MUST_CHECK int prn_slurm_store_put(struct prn_slurm_store *store,
                                         const struct prn_slurm_stored *stored,
                                         struct prony_error *err);
PRONY_MUST_CHECK int prn_slurm_store_forget(struct prn_slurm_store *store, uint64_t job,
                                            struct prony_error *err);
/* Each of them; `each` returns 0 or an error, which ends it. */
PRONY_MUST_CHECK int prn_slurm_store_read(struct prn_slurm_store *store,
                                          int (*each)(void *context,
                                                      const struct prn_slurm_stored *stored,
                                                      struct prony_error *err),
                                          void *context, struct prony_error *err);

#endif
