/* The client, for struct prn_net (record/remote.h). */
#ifndef PRN_RPC_REMOTE_H
#define PRN_RPC_REMOTE_H

#include "record/remote.h"

extern const struct prn_remote_ops prn_remote_operations;

#endif
