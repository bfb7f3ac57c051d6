/* The prony command: finds the subcommand, parses its options, runs it, reports its error. */
#include "cli/command.h"

#include "base/text.h"
#include "cli/pages.h"
#include "cli/output.h"
#include "report/saved.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int report(int code, const struct prony_error *err, const struct prn_command *command)
{
    prn_announce("error", "%s", err->code ? err->text : prony_error_text(code));
    if (code == PRONY_EUSAGE && !prn_messages_are_json())
        fprintf(stderr, "prony: see 'prony %s%s--help'\n", command ? command->name : "",
                command ? " " : "");
    return prn_exit_status(code);
}

/* A file of another kind is the likelier fault, and the command that takes it the better advice. */
static void suggest(const struct prn_command *command, const struct prn_strings *arguments,
                    struct prony_error *err)
{
    for (size_t i = 0; command->takes && i < arguments->n; i++) {
        enum prn_saved_kind kind = prn_saved_proved_at(arguments->items[i]);
        if (kind == PRN_SAVED_UNKNOWN || (command->takes & (1U << kind)))
            continue;
        prn_fail(err, err->code, "'%s' is %s; use 'prony %s'", arguments->items[i],
                 prn_saved[kind].text, prn_saved[kind].command);
        return;
    }
}

static int misuse(const char *what, const char *subject)
{
    struct prony_error err;
    const char *names[64] = {"help"};
    size_t n = 1;
    for (size_t i = 0; prn_commands[i] && n < PRN_ARRAY_SIZE(names); i++)
        if (!prn_commands[i]->hidden)
            names[n++] = prn_commands[i]->name;
    const char *meant = prn_text_nearest(subject, names, n);
    return report(prn_fail(&err, PRONY_EUSAGE, "%s '%s'%s%s%s", what, subject,
                           meant ? "; did you mean '" : "", meant ? meant : "", meant ? "'?" : ""),
                  &err, NULL);
}

static int print(void (*write)(struct prn_buffer *), const struct prn_command *command)
{
    struct prony_error err = {0};
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)1 << 20);
    if (command)
        prn_command_help(command, &out);
    else
        write(&out);
    int code = prn_output(NULL, &out, &err);
    prn_buffer_release(&out);
    return code < 0 ? report(code, &err, NULL) : 0;
}

static void write_version(struct prn_buffer *out)
{
    prn_buffer_printf(out, "prony %s\n", prony_version());
}

static int main_run(const struct prn_command *command, int argc, char **argv)
{
    struct prony_error err = {0};
    void *options = calloc(1, command->options_size + 1);
    struct prn_strings arguments = {0};
    bool help = false;
    if (!options)
        return report(PRONY_ENOMEM, &err, NULL);
    if (command->defaults)
        command->defaults(options);
    int status = 0;
    int code = prn_command_parse(command, argc, argv, options, &arguments, &help, &err);
    if (code == 0 && !help)
        code = command->run(options, &arguments, &err);
    if (code == PRONY_EFORMAT)
        suggest(command, &arguments, &err);
    if (code < 0)
        status = report(code, &err, command);
    else if (help)
        status = print(NULL, command);
    else
        status = prn_exit_status(code);
    prn_command_release(command, options, &arguments);
    free(options);
    return status;
}

/* With a standard descriptor closed, the next file to be opened would take its place, and messages
 * would go into it. These stand-ins can't be written to, or read from. */
static void occupy_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", fcntl(STDIN_FILENO, F_GETFD) < 0 ? O_WRONLY : O_RDONLY);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* Other programs whose users, and scripts, find a command under the name that they know: a link to
 * prony is all that it takes. */
static const struct prn_command *find_by_name(const char *path)
{
    static const struct {
        const char *name, *command;
    } others[] = {
        {"sched-pipeline", "schedule"},
        {"profile_explorer", "explore"},
        {"profile_explorer.py", "explore"},
        {"profiler.py", "layers"},
        {"profiler_results_to_models.py", "models"},
        {"profiler_results_to_device_types.py", "device-types"},
    };
    const char *slash = path ? strrchr(path, '/') : NULL;
    const char *name = slash ? slash + 1 : path;
    for (size_t i = 0; name && i < PRN_ARRAY_SIZE(others); i++)
        if (strcmp(name, others[i].name) == 0)
            return prn_command_find(others[i].command);
    return NULL;
}

int main(int argc, char **argv)
{
    occupy_standard_descriptors();
    /* What a reader that goes away means depends on what is written: see prn_output_stream(). */
    signal(SIGPIPE, SIG_IGN);
    /* Whoever started us may have ignored it, and then how a child ended can't be asked. */
    signal(SIGCHLD, SIG_DFL);
    const struct prn_command *other = find_by_name(argv[0]);
    if (other)
        return main_run(other, argc - 1, argv + 1);
    if (argc < 2) {
        print(prn_command_overview, NULL);
        return 2;
    }
    const char *name = argv[1];
    bool version = strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0;
    bool help = strcmp(name, "help") == 0 || strcmp(name, "--help") == 0 || !strcmp(name, "-h");
    if ((version && argc > 2) || (help && argc > 3))
        return misuse("unexpected argument", argv[version ? 2 : 3]);
    if (version)
        return print(write_version, NULL);
    if (help && argc == 2)
        return print(prn_command_overview, NULL);
    if (help)
        name = argv[2];
    const struct prn_command *command = prn_command_find(name);
    if (!command)
        return misuse(name[0] == '-' ? "unknown option" : "unknown command", name);
    return help ? print(NULL, command) : main_run(command, argc - 2, argv + 2);
}
