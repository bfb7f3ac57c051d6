#include "record/connect.h"

#include "record/net.h"
#include "record/token.h"

#include <stdlib.h>
#include <string.h>

int prn_connect(const struct prn_remote_config *config, const char *given,
                const struct prn_remote_ops **ret_ops, struct prn_remote **ret_remote,
                struct prony_error *err)
{
    const struct prn_net *net;
    struct prn_token *token = calloc(1, sizeof *token);
    if (!token)
        return prn_fail_memory(err);
    int code = 0;
    if (prn_remote_is_secure(config->address, config->insecure, config->ca_file))
        code = prn_token_find(given, token, err);
    if (code == 0)
        code = prn_net_load(&net, err);
    if (code == 0) {
        struct prn_remote_config chosen = *config;
        chosen.token = token->text[0] ? token->text : NULL;
        chosen.token_source = token->source;
        *ret_ops = net->remote;
        code = net->remote->connect(&chosen, ret_remote, err);
    }
    explicit_bzero(token, sizeof *token);
    free(token);
    return code;
}
