/* `prony token`: who may use a service. */
#include "cli/command.h"

#include "cli/output.h"
#include "record/net.h"

#include <string.h>

struct options {
    const char *state;
    bool admin, worker;
};

static int check_use(const struct options *o, const struct prn_strings *arguments,
                     struct prony_error *err)
{
    const char *action = arguments->items[0];
    bool add = strcmp(action, "add") == 0;
    bool list = strcmp(action, "list") == 0;
    if (!add && !list && strcmp(action, "revoke") != 0)
        return prn_fail(err, PRONY_EUSAGE, "'%s' is not one of add, list and revoke", action);
    if (list && arguments->n > 1)
        return prn_fail(err, PRONY_EUSAGE, "'list' takes no name, but there is '%s'",
                        arguments->items[1]);
    if (!list && arguments->n < 2)
        return prn_fail(err, PRONY_EUSAGE, "'%s' needs a user's name", action);
    if (!add && (o->admin || o->worker))
        return prn_fail(err, PRONY_EUSAGE, "--admin and --worker are for 'add'");
    if (o->admin && o->worker)
        return prn_fail(err, PRONY_EUSAGE, "a token is an administrator's or a worker's, not both");
    return 0;
}

static int token_run(const void *opaque, const struct prn_strings *arguments,
                     struct prony_error *err)
{
    const struct options *o = opaque;
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)64 << 20);
    const struct prn_net *net = NULL;
    int code = check_use(o, arguments, err);
    if (code == 0)
        code = prn_net_load(&net, err);
    if (code == 0) {
        const struct prn_token_options options = {.action = arguments->items[0],
                                                  .user =
                                                      arguments->n > 1 ? arguments->items[1] : NULL,
                                                  .state_folder = o->state,
                                                  .admin = o->admin,
                                                  .worker = o->worker};
        code = net->token(&options, &out, err);
    }
    if (code == 0)
        code = prn_output(NULL, &out, err);
    prn_buffer_release(&out);
    return code;
}

#define FIELD(name) offsetof(struct options, name)

static const struct prn_option option_table[] = {
    PRN_OPTION(FLAG, 0, "admin", NULL, FIELD(admin),
               "add: an administrator, who sees all sessions"),
    PRN_OPTION(FLAG, 0, "worker", NULL, FIELD(worker), "add: for 'prony worker', not for a person"),
    PRN_OPTION(TEXT, 0, "state", "FOLDER", FIELD(state),
               "the service's state folder (default ~/.local/state/prony)"),
    {0},
};

const struct prn_command prn_command_token = {
    .name = "token",
    .arguments = "add|list|revoke [USER]",
    .summary = "manage the tokens of a service",
    .description = "Adds, lists and revokes the tokens that identify users to a service with TLS. "
                   "A token is shown once, when it is added; only its hash is kept. A revoked "
                   "token is refused from the next call on, even by a running service.",
    .examples = "# a token for a user\n"
                "prony token add ann\n"
                "# revoke it\n"
                "prony token revoke ann",
    .options = option_table,
    .options_size = sizeof(struct options),
    .min_arguments = 1,
    .max_arguments = 2,
    .run = token_run,
};
