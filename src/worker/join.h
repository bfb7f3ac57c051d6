/* A worker that a scheduler started comes with a key, which is good for one worker, once: the
 * service gives a token for it. */
#ifndef PRN_WORKER_JOIN_H
#define PRN_WORKER_JOIN_H

#include "record/net.h"

/* Reads the key. `path` may be "-" for standard input. The caller frees it. */
PRONY_MUST_CHECK int prn_worker_read_key(const char *path, char **ret_key, struct prony_error *err);

struct prn_channel_config;

/* Exchanges the key, which is the configuration's token; the caller frees what it gets. */
PRONY_MUST_CHECK int prn_worker_join(const struct prn_channel_config *config, char **ret_token,
                                     struct prony_error *err);

#endif
