/* `prony job`: the process that a worker starts to measure. Hidden; speaks on descriptor 3. */
#include "cli/command.h"

#include "record/net.h"

static int job_run(const void *options, const struct prn_strings *arguments,
                   struct prony_error *err)
{
    (void)options;
    (void)arguments;
    const struct prn_net *net;
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
