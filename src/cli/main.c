/* The prony command: finds the subcommand, parses its options, runs it, reports its error. */
#include "cli/command.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int report(const struct prony_error *err, const struct prn_command *command)
{
    fprintf(stderr, "prony: error: %s\n", err->text);
    if (err->code == PRONY_EUSAGE)
        fprintf(stderr, "prony: see 'prony %s%s--help'\n", command ? command->name : "",
                command ? " " : "");
    return prn_exit_status(err->code);
}

static int print(void (*write)(struct prn_buffer *), const struct prn_command *command)
{
    struct prony_error err;
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)1 << 20);
    if (command)
        prn_command_help(command, &out);
    else
        write(&out);
    int code = prn_output(NULL, &out, &err);
    prn_buffer_release(&out);
    return code < 0 ? report(&err, NULL) : 0;
}

static void write_version(struct prn_buffer *out)
{
    prn_buffer_printf(out, "prony %s\n", prony_version());
}

static int run(const struct prn_command *command, int argc, char **argv)
{
    struct prony_error err = {0};
    void *options = calloc(1, command->options_size + 1);
    struct prn_strings arguments = {0};
    bool help = false;
    if (!options)
        return report(&(struct prony_error){PRONY_ENOMEM, "out of memory"}, NULL);
    if (command->defaults)
        command->defaults(options);
    int status;
    int code = prn_command_parse(command, argc, argv, options, &arguments, &help, &err);
    if (code < 0)
        status = report(&err, command);
    else if (help)
        status = print(NULL, command);
    else
        status = (code = command->run(options, &arguments, &err)) < 0 ? report(&err, command) : 0;
    prn_command_release(command, options, &arguments);
    free(options);
    return status;
}

int main(int argc, char **argv)
{
    /* A reader that goes away is a write error like any other, not a silent death. */
    signal(SIGPIPE, SIG_IGN);
    if (argc < 2) {
        print(prn_command_overview, NULL);
        return 2;
    }
    const char *name = argv[1];
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0)
        return print(write_version, NULL);
    bool help = strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || !strcmp(name, "-h");
    if (help && argc == 2)
        return print(prn_command_overview, NULL);
    const struct prn_command *command = prn_command_find(help ? argv[2] : name);
    if (!command) {
        struct prony_error err;
        prn_fail(&err, PRONY_EUSAGE, "unknown command '%s'", help ? argv[2] : name);
        return report(&err, NULL);
    }
    return help ? print(NULL, command) : run(command, argc - 2, argv + 2);
}
