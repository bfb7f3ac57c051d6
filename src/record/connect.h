/* A connection to a service, with the user's token where one is needed. */
#ifndef PRN_RECORD_CONNECT_H
#define PRN_RECORD_CONNECT_H

#include "record/remote.h"

/* `config` is without a token: the one that is given, or else the user's (record/token.h), goes
 * along over TLS only. */
PRONY_MUST_CHECK int prn_connect(const struct prn_remote_config *config, const char *token,
                                 const struct prn_remote_ops **ret_ops,
                                 struct prn_remote **ret_remote, struct prony_error *err);

#endif
