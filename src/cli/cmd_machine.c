/* `prony machine`: what this machine can do, measured or as it was saved. */
#include "cli/command.h"

#include "cli/output.h"
#include "cli/progress.h"
#include "report/machine/report.h"
#include "report/saved.h"
#include "store/machine.h"

#include <stdlib.h>
#include <unistd.h>

#define RECORD_MAX ((size_t)16 << 20)

struct machine_options {
    int format; /* enum prn_report_format */
    int colour; /* enum prn_colour */
    const char *output, *threads;
    double max_time_s;
    bool saved, no_save;
};

static const char *const formats[] = {"text", "json", "csv", "md", NULL};

static int parse_threads(const char *text, struct prn_machine_request *r, struct prony_error *err)
{
    int64_t before = 0;
    for (const char *at = text; at; at = *at == ',' ? at + 1 : NULL) {
        char *end;
        long n = strtol(at, &end, 10);
        bool number = *at >= '0' && *at <= '9' && (*end == ',' || *end == '\0');
        if (!number || n <= before || n > PRN_MACHINE_THREADS_MAX)
            return prn_fail(err, PRONY_EUSAGE,
                            "--threads: '%s' is not a list of ascending numbers such as 1,4", text);
        if (r->n_threads == PRN_MACHINE_COUNTS_MAX)
            return prn_fail(err, PRONY_EUSAGE, "--threads takes at most %d numbers",
                            PRN_MACHINE_COUNTS_MAX);
        r->threads[r->n_threads++] = before = n;
        at = end;
    }
    return 0;
}

static void show_progress(void *context, double elapsed_s, const char *line)
{
    prn_progress_line(elapsed_s, *(const double *)context, line);
}

/* What can't be saved is still shown. */
static void save(const struct prn_machine *machine)
{
    struct prony_error err;
    char path[PATH_MAX];
    if (prn_machine_save(machine, path, &err) < 0)
        prn_warn("the record isn't saved: %s", err.text);
    else
        prn_announce("note", "saved as '%s'", path);
}

static int machine_measure(const struct machine_options *o, struct prn_arena *arena,
                           struct prn_machine *ret_machine, struct prony_error *err)
{
    double allowed_s = o->max_time_s;
    struct prn_machine_request request = {
        .max_time_s = allowed_s, .cancelled = &prn_cancelled, .context = &allowed_s};
    int code = o->threads ? parse_threads(o->threads, &request, err) : 0;
    if (code < 0)
        return code;
    if (isatty(STDERR_FILENO))
        request.progress = show_progress;
    prn_signals_catch();
    code = prn_machine_measure(&request, arena, ret_machine, err);
    prn_progress_end();
    if (code == 0 && !o->no_save && !ret_machine->interrupted)
        save(ret_machine);
    return code;
}

static int check_use(const struct machine_options *o, const char *file, struct prony_error *err)
{
    const char *option = o->threads ? "--threads" : o->no_save ? "--no-save" : NULL;
    if (file && o->saved)
        return prn_fail(err, PRONY_EUSAGE, "--saved cannot be combined with a file");
    if ((file || o->saved) && option)
        return prn_fail(err, PRONY_EUSAGE, "%s cannot be combined with %s", option,
                        file ? "a file" : "--saved");
    if (file) {
        int code = prn_output_spares(o->output, file, err);
        if (code < 0)
            return code;
    }
    return prn_output_check(o->output, err);
}

static int machine_run(const void *options, const struct prn_strings *arguments,
                       struct prony_error *err)
{
    const struct machine_options *o = options;
    const char *file = arguments->n > 0 ? arguments->items[0] : NULL;
    struct prn_arena arena = PRN_ARENA_INIT(RECORD_MAX);
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_MACHINE_TEXT_MAX);
    struct prn_machine machine;
    int code = check_use(o, file, err);
    if (code == 0 && file)
        code = prn_machine_read_json(file, &arena, &machine, err);
    else if (code == 0 && o->saved)
        code = prn_machine_load(&arena, &machine, err);
    else if (code == 0)
        code = machine_measure(o, &arena, &machine, err);
    struct prn_look look = prn_output_look(o->output, false, (enum prn_colour)o->colour);
    if (code == 0)
        code = prn_machine_report(&machine, (enum prn_report_format)o->format, &look, &out, err);
    if (code == 0)
        code = prn_output(o->output, &out, err);
    prn_buffer_release(&out);
    prn_arena_release(&arena);
    return code;
}

static void machine_defaults(void *options)
{
    struct machine_options *o = options;
    o->max_time_s = 60;
}

#define FIELD(name) offsetof(struct machine_options, name)

static const struct prn_option options_table[] = {
    PRN_OPTION(TEXT, 0, "threads", "LIST", FIELD(threads),
               "numbers of threads, such as 1,4 (default 1, and one per core)"),
    PRN_OPTION(SECONDS, 0, "max-time", "TIME", FIELD(max_time_s),
               "measure for about this time (default 60 s)", PRN_OPTION_RANGE(0.1, 1e6)),
    PRN_OPTION(FLAG, 0, "saved", NULL, FIELD(saved),
               "show what was saved of this machine instead of measuring"),
    PRN_OPTION(FLAG, 0, "no-save", NULL, FIELD(no_save), "don't save the record"),
    PRN_OPTION(CHOICE, 0, "format", "FORMAT", FIELD(format), "text, json, csv or md (default text)",
               .choices = formats),
    PRN_OPTION(TEXT, 'o', "output", "FILE", FIELD(output),
               "write to FILE instead of standard output"),
    PRN_OPTION(CHOICE, 0, "color", "WHEN", FIELD(colour), PRN_COLOUR_HELP, .choices = prn_colours),
    {0},
};

const struct prn_command prn_command_machine = {
    .name = "machine",
    .arguments = "[FILE]",
    .summary = "measure what this machine can do",
    .description =
        "Measures operations per second, in float32 and, where the processor has instructions for "
        "them, bfloat16 and int8, and bytes per second from each cache and from memory: with one "
        "thread, and with one on each core.\n"
        "The record is saved in the user's state folder, once per kind of machine. Reports of "
        "'prony profile --ops' on this machine then say how much of it each operator reaches.\n"
        "With FILE, shows a record that --format json wrote; - is standard input. Nothing else "
        "should run while it measures.",
    .examples = "# measure, and save for other reports\n"
                "prony machine\n"
                "# show what was saved\n"
                "prony machine --saved --format json\n"
                "# with 1, 2 and 4 threads\n"
                "prony machine --threads 1,2,4\n",
    .options = options_table,
    .options_size = sizeof(struct machine_options),
    .defaults = machine_defaults,
    .max_arguments = 1,
    .takes = PRN_SAVED_BIT(MACHINE),
    .run = machine_run,
};
