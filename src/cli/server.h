/* The options of every command that can talk to a service, and what follows from them. */
#ifndef PRN_CLI_SERVER_H
#define PRN_CLI_SERVER_H

#include "cli/command.h"
#include "record/connect.h"

struct prn_server_options {
    const char *address, *token_file, *ca_file;
    bool insecure;
};

/* Rows of an option table, for the field `server` of the command's options struct. */
#define PRN_SERVER_ROWS(type)                                                                   \
    PRN_OPTION(                                                                                 \
        TEXT, 0, "server", "ADDR", offsetof(type, server.address),                              \
        "the service to use, HOST:PORT or unix:PATH, with TLS unless it is on this machine"),   \
        PRN_OPTION(TEXT, 0, "token-file", "FILE", offsetof(type, server.token_file),            \
                   "file with the token for it (default: PRONY_TOKEN, or the one in "           \
                   "~/.config/prony/token)"),                                                   \
        PRN_OPTION(                                                                             \
            TEXT, 0, "ca", "FILE", offsetof(type, server.ca_file),                              \
            "PEM file of the authority that signed its certificate (default: PRONY_CA, or the " \
            "system's authorities)"),                                                           \
        PRN_OPTION(FLAG, 0, "insecure", NULL, offsetof(type, server.insecure),                  \
                   "no TLS, and so no token")

/* Fails when options are given that need --server. */
PRONY_MUST_CHECK int prn_server_check(const struct prn_server_options *o, struct prony_error *err);

/* How to connect. Finds the token or, on a terminal, asks for it, has the service check it, and
 * keeps it. `token` must live as long as the configuration. */
PRONY_MUST_CHECK int prn_server_config(const struct prn_server_options *o, struct prn_token *token,
                                       struct prn_remote_config *ret_config,
                                       struct prony_error *err);

/* The same, and connects. */
PRONY_MUST_CHECK int prn_server_connect(const struct prn_server_options *o,
                                        const volatile int *cancelled,
                                        const struct prn_remote_ops **ret_ops,
                                        struct prn_remote **ret_remote, struct prony_error *err);

/* How far sending files is; zero at first. */
struct prn_server_shown {
    int64_t begun_ns, shown_ns;
};

/* Has the place in the queue and uploads shown on a terminal. `shown` must outlive the connection.
 */
void prn_server_show(struct prn_remote_config *config, struct prn_server_shown *shown);

#endif
