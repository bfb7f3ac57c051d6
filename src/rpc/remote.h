/* The client, for struct prn_net (record/remote.h). */
#ifndef PRN_RPC_REMOTE_H
#define PRN_RPC_REMOTE_H

struct prn_remote_ops;

extern const struct prn_remote_ops prn_remote_operations;

#endif
