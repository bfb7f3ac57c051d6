/* `prony serve`: offers this machine, and those of workers that join, to clients. */
#include "cli/command.h"

#include "cli/libraries.h"
#include "cli/output.h"
#include "cli/server.h"
#include "exec/scratch.h"
#include "record/net.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Blocks up to this size aren't mapped each for itself; the largest that glibc allows. */
#define MALLOC_BLOCK_BYTES (32 << 20)
/* What stays of what was freed. */
#define MALLOC_KEPT_BYTES (8 << 20)

/* A socket's path is at most 107 bytes long, and lies in the state folder. */
#define FOLDER_BYTES_MAX 60

struct options {
    const char *config;
    struct prn_strings listen;
    const char *tls_cert, *tls_key;
    const char *http;
    const char *state;
    struct prn_library_files libraries;
    const char *python;
    const char *log;
    bool embedded;
    const char *backup, *restore;
};

/* One line per address, so that a script can read where to connect. */
static void ready(const char *const *addresses, size_t n, const char *page)
{
    for (size_t i = 0; i < n; i++)
        printf("prony %s serves on %s\n", prony_version(), addresses[i]);
    if (page)
        printf("prony %s shows its page at %s\n", prony_version(), page);
    fflush(stdout);
}

/* For one program alone: nothing is left of it, and nobody else can reach it. */
static int serve_embedded(const struct prn_net *net, struct prn_serve_options *options,
                          struct prony_error *err)
{
    struct prn_scratch scratch;
    char address[PATH_MAX + sizeof "unix:/service"];
    const char *folder = secure_getenv("TMPDIR");
    const char *listen = address;
    int code = prn_scratch_open(folder && strlen(folder) > FOLDER_BYTES_MAX ? "/tmp" : NULL,
                                &scratch, err);
    if (code < 0)
        return code;
    snprintf(address, sizeof address, "unix:%s/service", scratch.folder);
    options->ends_with_input = true;
    options->keeps_compiled = options->n_listen == 0;
    options->state_folder = scratch.folder;
    if (options->n_listen == 0) {
        options->listen = &listen;
        options->n_listen = 1;
    }
    code = net->serve(options, err);
    prn_scratch_close(&scratch);
    return code;
}

/* What arrives lies in blocks that gRPC allocates and frees all the time. As malloc() comes, they
 * are the kernel's pages each time, which it has to clear first: up to a tenth of what an upload
 * takes. */
static void keep_memory(void)
{
#ifdef __GLIBC__
    mallopt(M_MMAP_THRESHOLD, MALLOC_BLOCK_BYTES);
    mallopt(M_TRIM_THRESHOLD, MALLOC_KEPT_BYTES);
#endif
}

static int keep_state(const struct prn_net *net, const struct options *o,
                      const struct prn_serve_options *options, struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT(4096);
    int code = net->backup(options, o->backup ? o->backup : o->restore, !o->backup, &out, err);
    if (code == 0)
        code = prn_output(NULL, &out, err);
    prn_buffer_release(&out);
    return code;
}

static int check_options(const struct options *o, struct prony_error *err)
{
    if (o->embedded && o->state)
        return prn_fail(err, PRONY_EUSAGE, "--state cannot be combined with --embedded");
    if (o->backup && o->restore)
        return prn_fail(err, PRONY_EUSAGE, "--backup cannot be combined with --restore");
    if (o->embedded && (o->backup || o->restore))
        return prn_fail(err, PRONY_EUSAGE, "%s cannot be combined with --embedded",
                        o->backup ? "--backup" : "--restore");
    return 0;
}

static int serve_run(const void *opaque, const struct prn_strings *arguments,
                     struct prony_error *err)
{
    const struct options *o = opaque;
    (void)arguments;
    const struct prn_net *net;
    struct prn_serve_options options = {.config_file = o->config,
                                        .listen = o->listen.items,
                                        .n_listen = o->listen.n,
                                        .http = o->http,
                                        .tls_certificate = o->tls_cert,
                                        .tls_key = o->tls_key,
                                        .state_folder = o->state,
                                        .python = o->python,
                                        .log_format = o->log,
                                        .logs_json = prn_messages_as_json,
                                        .ready = ready};
    keep_memory();
    int code = check_options(o, err);
    if (code == 0)
        code = prn_libraries_use(&o->libraries, NULL, err);
    if (code == 0)
        code = prn_net_load(&net, err);
    if (code < 0)
        return code;
    if (o->backup || o->restore)
        return keep_state(net, o, &options, err);
    return o->embedded ? serve_embedded(net, &options, err) : net->serve(&options, err);
}

#define FIELD(name) offsetof(struct options, name)

static const struct prn_option option_table[] = {
    PRN_OPTION(TEXT, 0, "config", "FILE", FIELD(config),
               "addresses, pools of hardware, prices, presets, quotas and limits, in YAML"),
    PRN_OPTION(LIST, 0, "listen", "ADDR:PORT", FIELD(listen),
               "where clients connect, repeatable; port 0 picks a free one (default 127.0.0.1:0)"),
    PRN_OPTION(TEXT, 0, "tls-cert", "FILE", FIELD(tls_cert),
               "certificate, PEM; needed beyond this machine"),
    PRN_OPTION(TEXT, 0, "tls-key", "FILE", FIELD(tls_key), "its key, PEM"),
    PRN_OPTION(TEXT, 0, "http", "ADDR:PORT", FIELD(http),
               "serve a page about the service, and metrics for Prometheus under /metrics"),
    PRN_OPTION(TEXT, 0, "state", "FOLDER", FIELD(state),
               "tokens, uploads and history (default ~/.local/state/prony)"),
    PRN_LIBRARY_ROW(struct options),
    PRN_OPTION(TEXT, 0, "python", "FILE", FIELD(python),
               "the interpreter that has torch, for torch-* (default: PRONY_PYTHON)"),
    PRN_OPTION(TEXT, 0, "log-format", "FORMAT", FIELD(log),
               "text or json, to standard error (default text)"),
    PRN_OPTION(FLAG, 0, "embedded", NULL, FIELD(embedded),
               "for the program that starts it: ends when standard input does, keeps no state, and "
               "listens "
               "where only this user can connect"),
    PRN_OPTION(TEXT, 0, "backup", "FILE", FIELD(backup),
               "save tokens and history to FILE and exit; a service may be using them"),
    PRN_OPTION(TEXT, 0, "restore", "FILE", FIELD(restore),
               "make the state from such a file, where there is none, and exit"),
    {0},
};

const struct prn_command prn_command_serve = {
    .name = "serve",
    .arguments = "",
    .summary = "offer this machine, and others, to clients",
    .description =
        "A service for 'prony profile --server', for programs that use libprony, and for "
        "octoml-profile's own client. Without options it offers this machine, as hardware "
        "'local', to the user who started it, on a loopback port that it prints.\n"
        "A host serves one session at a time; others wait in a queue. Models run in executors "
        "that can reach nothing but their own files.\n"
        "SIGHUP reads the configuration again. SIGTERM stops accepting sessions and lets the "
        "current ones finish; a second one ends them.",
    .examples = "# this machine, for yourself\n"
                "prony serve\n"
                "# for a team: with TLS, tokens and pools of hardware\n"
                "prony serve --config /etc/prony.yml\n"
                "# save its tokens and history while it runs\n"
                "prony serve --config /etc/prony.yml --backup prony.backup",
    .options = option_table,
    .options_size = sizeof(struct options),
    .run = serve_run,
};
