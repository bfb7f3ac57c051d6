/*
 * A connection to a service, with the user's token where one is needed:
 *
 *     prn_connect_token(&config, NULL, NULL, token, err);
 *     prn_connect(&config, &ops, &remote, err);
 *     ops->list(remote, …);
 *     ops->free(remote);
 */
#ifndef PRN_RECORD_CONNECT_H
#define PRN_RECORD_CONNECT_H

#include "record/remote.h"
#include "record/token.h"

/* For a connection with TLS: the token that is given, that in a file, or else the user's own
 * (record/token.h); NULL in `config` when there is none. It lies in `token`, which must live as
 * long as the configuration. */
PRONY_MUST_CHECK int prn_connect_token(struct prn_remote_config *config, const char *given,
                                       const char *file, struct prn_token *token,
                                       struct prony_error *err);

/* Loads what talks to services, and connects. */
PRONY_MUST_CHECK int prn_connect(const struct prn_remote_config *config,
                                 const struct prn_remote_ops **ret_ops,
                                 struct prn_remote **ret_remote, struct prony_error *err);

/* Both: `config` is without a token. */
PRONY_MUST_CHECK int prn_connect_as_user(const struct prn_remote_config *config, const char *given,
                                         const struct prn_remote_ops **ret_ops,
                                         struct prn_remote **ret_remote, struct prony_error *err);

#endif
