#include "record/connect.h"

#include "record/net.h"

int prn_connect_token(struct prn_remote_config *config, const char *given, const char *file,
                      struct prn_token *token, struct prony_error *err)
{
    int code = 0;
    token->text[0] = token->source[0] = '\0';
    if (prn_remote_is_secure(config->address, config->insecure, config->ca_file))
        code = file ? prn_token_read(file, token, err) : prn_token_find(given, token, err);
    config->token = token->text[0] ? token->text : NULL;
    config->token_source = token->source;
    return code;
}

int prn_connect(const struct prn_remote_config *config, const struct prn_remote_ops **ret_ops,
                struct prn_remote **ret_remote, struct prony_error *err)
{
    const struct prn_net *net;
    int code = prn_net_load(&net, err);
    if (code == 0)
        code = net->remote->connect(config, ret_remote, err);
    if (code == 0)
        *ret_ops = net->remote;
    return code;
}

int prn_connect_as_user(const struct prn_remote_config *config, const char *given,
                        const struct prn_remote_ops **ret_ops, struct prn_remote **ret_remote,
                        struct prony_error *err)
{
    struct prn_remote_config chosen = *config;
    struct prn_token *token = prn_token_new();
    if (!token)
        return prn_fail_memory(err);
    int code = prn_connect_token(&chosen, given, NULL, token, err);
    if (code == 0)
        code = prn_connect(&chosen, ret_ops, ret_remote, err);
    prn_token_free(token);
    return code;
}
