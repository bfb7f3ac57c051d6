/* `prony executor`: the process that prony starts for a runtime. Hidden; speaks on descriptor 3. */
#include "cli/command.h"

#include "exec/executor.h"

static int executor_run(const void *options, const struct prn_strings *arguments,
                        struct prony_error *err)
{
    (void)options;
    (void)arguments;
    return prn_executor_main(NULL) == 0
               ? 0
               : prn_fail(err, PRONY_EUSAGE, "this command is for prony's own use");
}

const struct prn_command prn_command_executor = {
    .name = "executor",
    .arguments = "",
    .summary = "serve a runtime to prony",
    .description = "Started by prony itself.",
    .run = executor_run,
    .hidden = true,
};
