/* `prony worker`: offers this machine to a service. */
#include "cli/command.h"

#include "cli/output.h"
#include "base/table.h"
#include "cli/libraries.h"
#include "cli/server.h"
#include "exec/sandbox.h"
#include "record/net.h"

#include <string.h>

struct worker_options {
    const char *server, *hardware, *token_file, *join_file, *ca, *python, *peers, *log;
    struct prn_library_files libraries;
    double idle_s;
    bool insecure, check;
};

static int write_protections(struct prn_buffer *out, struct prony_error *err)
{
    struct prn_sandbox_protection protections[PRN_SANDBOX_PROTECTIONS];
    prn_sandbox_probe(protections);
    struct prn_table *t = prn_table_new();
    prn_table_columns(t, "Protection|Granted|Against|Note");
    for (size_t i = 0; i < PRN_SANDBOX_PROTECTIONS; i++) {
        prn_table_cell(t, "%s", protections[i].name);
        prn_table_cell(t, "%s", protections[i].granted ? "yes" : "no");
        prn_table_cell(t, "%s", protections[i].against);
        prn_table_cell(t, "%s", protections[i].text);
    }
    return prn_table_end(t, PRN_TABLE_STYLE_TEXT, out, err);
}

static int check(struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)64 << 10);
    int code = write_protections(&out, err);
    if (code == 0)
        code = prn_output(NULL, &out, err);
    prn_buffer_release(&out);
    return code;
}

static int worker_run(const void *opaque, const struct prn_strings *arguments,
                      struct prony_error *err)
{
    const struct worker_options *o = opaque;
    (void)arguments;
    const struct prn_net *net;
    if (o->check)
        return check(err);
    if (!o->server || !o->hardware)
        return prn_fail(err, PRONY_EUSAGE, "%s is missing: %s",
                        o->server ? "--hardware NAME" : "--server ADDR",
                        o->server ? "what this machine is called in backends"
                                  : "the service to offer this machine to");
    const struct prn_worker_options options = {
        .server = o->server,
        .hardware = o->hardware,
        .token_file = o->token_file,
        .join_file = o->join_file,
        .ca_file = o->ca,
        .insecure = o->insecure,
        .python = o->python,
        .idle_s = o->idle_s,
        .peers = o->peers,
        .log_format = o->log,
    };
    if (o->log && strcmp(o->log, "json") == 0)
        prn_messages_as_json();
    int code = prn_libraries_use(&o->libraries, NULL, err);
    if (code == 0)
        code = prn_net_load(&net, err);
    return code < 0 ? code : net->work(&options, err);
}

#define FIELD(name) offsetof(struct worker_options, name)

static const struct prn_option options[] = {
    PRN_OPTION(TEXT, 0, "server", "ADDR:PORT", FIELD(server), "the service to join"),
    PRN_OPTION(TEXT, 0, "hardware", "NAME", FIELD(hardware),
               "what this machine is called in backends, e.g. r6i.large"),
    PRN_OPTION(TEXT, 0, "token-file", "FILE", FIELD(token_file),
               "file with a token for workers (made by 'prony token add --worker')"),
    PRN_OPTION(
        TEXT, 0, "join-file", "FILE", FIELD(join_file),
        "file with a one-time key for one worker, as Slurm jobs have; '-' is standard input"),
    PRN_OPTION(
        TEXT, 0, "ca", "FILE", FIELD(ca),
        "PEM file of the authority that signed the service's certificate (default: PRONY_CA, or "
        "the system's authorities)"),
    PRN_OPTION(FLAG, 0, "insecure", NULL, FIELD(insecure), "no TLS: for a service on this machine"),
    PRN_OPTION(SECONDS, 0, "idle", "TIME", FIELD(idle_s),
               "leave after this long without a session (default: never)",
               PRN_OPTION_RANGE(0, 1e9)),
    PRN_LIBRARY_ROW(struct worker_options),
    PRN_OPTION(TEXT, 0, "python", "FILE", FIELD(python),
               "the interpreter that has torch, for torch-* (default: PRONY_PYTHON)"),
    PRN_OPTION(
        TEXT, 0, "peers", "ADDR[:PORT]", FIELD(peers),
        "where other workers reach this one when it is a stage of a pipeline; auto: the address "
        "from "
        "which it reaches the service; none: nowhere (default: auto with a service on this machine "
        "and "
        "in a job of Slurm, else none)"),
    PRN_OPTION(TEXT, 0, "log-format", "FORMAT", FIELD(log),
               "text or json, to standard error (default text)"),
    PRN_OPTION(FLAG, 0, "check", NULL, FIELD(check),
               "print which sandbox features this kernel supports, and exit"),
    {0},
};

const struct prn_command prn_command_worker = {
    .name = "worker",
    .arguments = "",
    .summary = "offer this machine to a service",
    .description =
        "Joins a service's pool of hardware and serves its sessions, one at a time: loads "
        "models, runs them, measures. Each backend of a session is an executor that can reach "
        "only the session's files; both are removed when the session ends.\n"
        "A lost connection is retried with growing delays, up to half a minute. SIGTERM and "
        "SIGINT stop accepting sessions and give the current one up to 25 seconds to end; a "
        "second signal ends it at once.",
    .examples =
        "# join a pool\n"
        "prony worker --server gpu.example.org:50051 --hardware g5.xlarge --token-file token\n"
        "# which sandbox features work here\n"
        "prony worker --check\n",
    .options = options,
    .options_size = sizeof(struct worker_options),
    .run = worker_run,
};
