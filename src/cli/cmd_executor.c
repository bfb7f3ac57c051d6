/* `prony executor` and `prony job`: the processes that prony starts for a runtime, and a worker to
 * measure. Hidden; they speak on descriptor 3. */
#include "cli/command.h"

#include "cli/output.h"
#include "exec/executor.h"
#include "record/net.h"

#include <stdlib.h>
#include <string.h>

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

static int job_run(const void *options, const struct prn_strings *arguments,
                   struct prony_error *err)
{
    (void)options;
    (void)arguments;
    const struct prn_net *net;
    const char *log_format = getenv("PRONY_LOG_FORMAT"); /* of its worker */
    if (log_format && strcmp(log_format, "json") == 0)
        prn_messages_as_json();
    int code = prn_net_load(&net, err);
    return code < 0 ? code : net->job(err);
}

const struct prn_command prn_command_job = {
    .name = "job",
    .arguments = "",
    .summary = "measure for a worker",
    .description = "Started by prony itself.",
    .run = job_run,
    .hidden = true,
};
