/* The public functions for a service without a session: what it offers, and whether it takes the
 * user's token. */
#include "record/connect.h"

#include <stdlib.h>
#include <string.h>

#define ARENA_BYTES ((size_t)64 << 20)

struct prony_offer {
    struct prn_arena arena;
    struct prn_remote_offer inside;
    const char *const **presets; /* names of the backends of each */
};

static int check(const struct prony_server_options *options, struct prony_error *err)
{
    if (!options || options->struct_size != sizeof *options || !options->server)
        return prn_fail(err, PRONY_EUSAGE,
                        "struct prony_server_options needs a server, and must begin with "
                        "PRONY_SERVER_OPTIONS_INIT");
    return 0;
}

static struct prn_remote_config config_of(const struct prony_server_options *o)
{
    return (struct prn_remote_config){
        .address = o->server,
        .insecure = o->insecure != 0,
        .ca_file = o->ca_file,
        .cancelled = o->cancelled,
        .interrupted = o->interrupted,
        .context = o->context,
    };
}

static int connect_to(const struct prony_server_options *o, const struct prn_remote_ops **ret_ops,
                      struct prn_remote **ret_remote, struct prony_error *err)
{
    int code = check(o, err);
    if (code < 0)
        return code;
    struct prn_remote_config config = config_of(o);
    return prn_connect_as_user(&config, o->token, ret_ops, ret_remote, err);
}

int prony_server_ping(const struct prony_server_options *options, struct prony_error *err)
{
    const struct prn_remote_ops *ops;
    struct prn_remote *remote = NULL;
    int code = check(options, err);
    if (code == 0)
        code = connect_to(options, &ops, &remote, err);
    if (code < 0)
        return code;
    code = ops->ping(remote, err);
    ops->free(remote);
    return code;
}

/* ---- What it offers ---- */

static int name_presets(struct prony_offer *offer, struct prony_error *err)
{
    struct prn_arena *arena = &offer->arena;
    size_t n = offer->inside.n_presets;
    offer->presets = PRN_ARENA_ARRAY(arena, n + 1, const char *const *);
    if (!offer->presets)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        const struct prn_remote_preset *preset = &offer->inside.presets[i];
        const char **names = PRN_ARENA_ARRAY(arena, preset->n_backends + 1, const char *);
        if (!names)
            return prn_fail_memory(err);
        for (size_t k = 0; k < preset->n_backends; k++)
            names[k] = preset->backends[k].name;
        offer->presets[i] = names;
    }
    return 0;
}

int prony_server_list(const struct prony_server_options *options, struct prony_offer **ret_offer,
                      struct prony_error *err)
{
    const struct prn_remote_ops *ops;
    struct prn_remote *remote = NULL;
    if (!ret_offer)
        return prn_fail(err, PRONY_EUSAGE, "ret_offer is needed");
    int code = check(options, err);
    if (code < 0)
        return code;
    struct prony_offer *offer = calloc(1, sizeof *offer);
    if (!offer)
        return prn_fail_memory(err);
    offer->arena = PRN_ARENA_INIT(ARENA_BYTES);
    code = connect_to(options, &ops, &remote, err);
    if (code == 0) {
        code = ops->list(remote, &offer->arena, &offer->inside, err);
        ops->free(remote);
    }
    if (code == 0)
        code = name_presets(offer, err);
    if (code < 0)
        prony_offer_free(offer);
    else
        *ret_offer = offer;
    return code;
}

void prony_offer_free(struct prony_offer *offer)
{
    if (!offer)
        return;
    prn_arena_release(&offer->arena);
    free(offer);
}

int prony_offer_backend(const struct prony_offer *offer, size_t index,
                        struct prony_offer_backend *ret_backend)
{
    if (!offer || !ret_backend)
        return PRONY_EUSAGE;
    if (index >= offer->inside.n_backends)
        return PRONY_ENOENT;
    const struct prn_remote_backend *b = &offer->inside.backends[index];
    *ret_backend = (struct prony_offer_backend){
        .name = b->spec.name,
        .processor = b->processor,
        .version = b->version,
        .usd_per_hour = b->usd_per_hour,
        .options = b->options,
        .n_options = b->n_options,
        .hosts = b->hosts,
        .free_hosts = b->free,
    };
    return 0;
}

int prony_offer_preset(const struct prony_offer *offer, size_t index,
                       struct prony_offer_preset *ret_preset)
{
    if (!offer || !ret_preset)
        return PRONY_EUSAGE;
    if (index >= offer->inside.n_presets)
        return PRONY_ENOENT;
    *ret_preset = (struct prony_offer_preset){
        .name = offer->inside.presets[index].name,
        .backends = offer->presets[index],
        .n_backends = offer->inside.presets[index].n_backends,
    };
    return 0;
}

/* ---- Tokens ---- */

int prony_server_lacks_token(const struct prony_server_options *o, struct prony_error *err)
{
    int code = check(o, err);
    if (code < 0 || !prn_remote_is_secure(o->server, o->insecure != 0, o->ca_file))
        return code;
    struct prn_remote_config config = config_of(o);
    struct prn_token *token = prn_token_new();
    if (!token)
        return prn_fail_memory(err);
    code = prn_connect_token(&config, o->token, NULL, token, err);
    int lacks = !config.token;
    prn_token_free(token);
    return code < 0 ? code : lacks;
}

int prony_token_save(const char *token, struct prony_error *err)
{
    if (!token || !prn_token_is_sound(token))
        return prn_fail(err, PRONY_EUSAGE, "that is not a token");
    return prn_token_save(token, err);
}
