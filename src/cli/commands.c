/* The list of subcommands, in the order in which help shows them. */
#include "cli/command.h"

#include <string.h>

/* One row per cmd_<name>.c. */
#define COMMANDS(X) \
    X(profile)      \
    X(report)       \
    X(check)        \
    X(history)      \
    X(view)         \
    X(explore)      \
    X(machine)      \
    X(model)        \
    X(layers)       \
    X(backends)     \
    X(status)       \
    X(synth)        \
    X(models)       \
    X(device_types) \
    X(schedule)     \
    X(serve)        \
    X(token)        \
    X(admin)        \
    X(worker)       \
    X(executor)     \
    X(job)          \
    X(generate)

#define DECLARE(name) extern const struct prn_command prn_command_##name;
COMMANDS(DECLARE)
#undef DECLARE

const struct prn_command *const prn_commands[] = {
#define ROW(name) &prn_command_##name,
    COMMANDS(ROW)
#undef ROW
        NULL,
};

const struct prn_command *prn_command_find(const char *name)
{
    for (size_t i = 0; prn_commands[i]; i++)
        if (strcmp(prn_commands[i]->name, name) == 0)
            return prn_commands[i];
    return NULL;
}
