/* The client, for struct prn_net (record/remote.h). */
#ifndef PRN_RPC_REMOTE_H
#define PRN_RPC_REMOTE_H

#include "base/arena.h"
#include "base/error.h"
#include "record/remote_status.h"

#include <prony.pb-c.h>

struct prn_remote_ops;

extern const struct prn_remote_ops prn_remote_operations;

/* The message as plain data, copied to `arena`. */
PRONY_MUST_CHECK int prn_remote_read_status(const Prony__StatusReply *from, struct prn_arena *arena,
                                            struct prn_remote_status *ret_status,
                                            struct prony_error *err);

#endif
