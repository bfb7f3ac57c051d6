/* The list of subcommands, in the order in which help shows them. */
#include "cli/command.h"

#include <string.h>

extern const struct prn_command prn_command_backends;
extern const struct prn_command prn_command_report;
extern const struct prn_command prn_command_synth;
extern const struct prn_command prn_command_executor;
extern const struct prn_command prn_command_generate;

/* A row each. */
/* clang-format off */
const struct prn_command *const prn_commands[] = {
    &prn_command_backends, &prn_command_report,   &prn_command_synth,
    &prn_command_executor, &prn_command_generate, NULL,
};
/* clang-format on */

const struct prn_command *prn_command_find(const char *name)
{
    for (size_t i = 0; prn_commands[i]; i++)
        if (strcmp(prn_commands[i]->name, name) == 0)
            return prn_commands[i];
    return NULL;
}
