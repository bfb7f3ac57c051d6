/*
 * `prony explore`: what ONNX Runtime's profiler wrote. The options of profile_explorer.py have the
 * same names and meaning here.
 */
#include "cli/command.h"

#include "cli/output.h"
#include "report/page.h"
#include "report/saved.h"
#include "report/trace/timeline.h"
#include "report/trace/report.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES_MAX 8192

struct explore_options {
    int64_t start, end;
    const char *gather;
    struct prn_strings filters;
    const char *by;
    bool shape_sensitive, dimension_sensitive, mapping;
    struct prn_strings compare;
    int64_t count;
    const char *demangler;
    const char *csv;
    int format; /* enum prn_trace_format */
    const char *output;
    bool wide, recover;
    int64_t max_groups;
};

/* ---- Progress ---- */

struct progress {
    bool shown;
};

static void show_progress(void *context, const struct prn_trace_files *files, uint64_t events,
                          uint64_t runs)
{
    struct progress *progress = context;
    uint64_t size = prn_trace_files_size(files);
    uint64_t at = prn_trace_files_position(files);
    if (size > 0)
        fprintf(stderr, "\r\033[K%3d %%", (int)(100 * ((double)at / (double)size)));
    else
        fprintf(stderr, "\r\033[K%.0f MB", (double)at / 1e6);
    fprintf(stderr, ", %llu events, %llu runs", (unsigned long long)events,
            (unsigned long long)runs);
    progress->shown = true;
}

static void end_progress(struct progress *progress)
{
    if (progress->shown)
        fputs("\r\033[K", stderr);
    progress->shown = false;
}

/* ---- Options ---- */

static int parse_by(const char *text, unsigned *ret_by, struct prony_error *err)
{
    static const struct {
        const char *name;
        unsigned bit;
    } keys[] = {{"node", PRN_TRACE_BY_NODE},
                {"op", PRN_TRACE_BY_OP},
                {"provider", PRN_TRACE_BY_PROVIDER},
                {"shape", PRN_TRACE_BY_SHAPE}};
    unsigned by = 0;
    for (const char *p = text;; p++) {
        size_t len = strcspn(p, ",");
        size_t i = 0;
        while (i < PRN_ARRAY_SIZE(keys) &&
               !(strlen(keys[i].name) == len && memcmp(keys[i].name, p, len) == 0))
            i++;
        if (i == PRN_ARRAY_SIZE(keys))
            return prn_fail(err, PRONY_EUSAGE,
                            "--by: '%.*s' is not one of node, op, provider, shape", (int)len, p);
        by |= keys[i].bit;
        p += len;
        if (!*p)
            break;
    }
    *ret_by = by;
    return 0;
}

static bool has_two_cpus(void)
{
    cpu_set_t cpus;
    return sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) > 1;
}

static int read_options(const struct explore_options *o, struct prn_trace_options *ret_options,
                        struct prony_error *err)
{
    unsigned by = PRN_TRACE_BY_OP;
    int code = o->by ? parse_by(o->by, &by, err) : 0;
    if (code < 0)
        return code;
    if (o->shape_sensitive)
        by |= PRN_TRACE_BY_SHAPE;
    *ret_options = (struct prn_trace_options){
        .runs = {.start = o->start, .end = o->end, .gather = o->gather},
        /* Two traces are also compared by node, and a page shows operators with their nodes. */
        .by = {by,
               (o->compare.n > 0 || o->format == PRN_TRACE_FORMAT_HTML) && !(by & PRN_TRACE_BY_NODE)
                   ? PRN_TRACE_BY_NODE
                   : 0},
        .kernel_shapes = o->shape_sensitive,
        .kernel_dimensions = o->dimension_sensitive,
        .mapping = o->mapping,
        .filters = o->filters.items,
        .n_filters = o->filters.n,
        .recover = o->recover,
        .two_threads = has_two_cpus(),
        .runs_max = PRN_TRACE_RUNS_LISTED,
        .groups_max = (size_t)o->max_groups};
    return 0;
}

static struct prn_trace_report_options make_options(const struct explore_options *o)
{
    const size_t width = prn_output_look(o->output, false, PRN_COLOUR_NEVER).width;
    return (struct prn_trace_report_options){.count = (size_t)o->count,
                                             .width = o->wide ? 0 : width,
                                             .kernel_shapes = o->shape_sensitive,
                                             .kernel_dimensions = o->dimension_sensitive,
                                             .mapping = o->mapping,
                                             .demangler = o->demangler};
}

/* The files of --csv, so that a long trace isn't read in vain. */
static int csv_path(struct prn_buffer *path, const char *prefix, enum prn_trace_csv which,
                    struct prony_error *err)
{
    static const char *const suffixes[] = {[PRN_TRACE_CSV_CPU] = "cpu_kernel_times",
                                           [PRN_TRACE_CSV_GPU] = "gpu_kernel_times",
                                           [PRN_TRACE_CSV_MAPPING] = "op_kernel_mapping"};
    prn_buffer_clear(path);
    prn_buffer_printf(path, "%s_%s.csv", prefix, suffixes[which]);
    return prn_buffer_error(path, err);
}

static int spare_all(const char *path, const struct prn_strings *inputs, struct prony_error *err)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < inputs->n; i++)
        code = prn_output_spares(path, inputs->items[i], err);
    return code;
}

static int check_csv_files(const char *prefix, const struct prn_strings *traces,
                           struct prony_error *err)
{
    struct prn_buffer path = PRN_BUFFER_INIT(PATH_BYTES_MAX);
    int code = 0;
    for (int which = PRN_TRACE_CSV_CPU; code == 0 && which <= PRN_TRACE_CSV_MAPPING; which++) {
        code = csv_path(&path, prefix, (enum prn_trace_csv)which, err);
        if (code == 0)
            code = prn_output_check(prn_buffer_text(&path), err);
        if (code == 0)
            code = spare_all(prn_buffer_text(&path), traces, err);
    }
    prn_buffer_release(&path);
    return code;
}

static size_t count_standard(const struct prn_strings *paths)
{
    size_t n = 0;
    for (size_t i = 0; i < paths->n; i++)
        n += strcmp(paths->items[i], "-") == 0;
    return n;
}

static int check_options(const struct explore_options *o, const struct prn_strings *arguments,
                         struct prony_error *err)
{
    bool perfetto = o->format == PRN_TRACE_FORMAT_PERFETTO;
    if (o->compare.n > 0 && (perfetto || o->mapping || o->csv))
        return prn_fail(err, PRONY_EUSAGE, "--compare cannot be combined with %s",
                        perfetto     ? "--format perfetto"
                        : o->mapping ? "--mapping"
                                     : "--csv");
    if (count_standard(arguments) + count_standard(&o->compare) > 1)
        return prn_fail(err, PRONY_EUSAGE, "standard input (-) can be read only once");
    if (perfetto && o->filters.n > 0)
        return prn_fail(err, PRONY_EUSAGE,
                        "--format perfetto shows all events: leave --filter out");
    if (perfetto && (o->csv || o->mapping || o->by))
        return prn_fail(err, PRONY_EUSAGE, "--format perfetto has no tables: leave --%s out",
                        o->csv       ? "csv"
                        : o->mapping ? "mapping"
                                     : "by");
    int code = o->format == PRN_TRACE_FORMAT_HTML ? prn_page_check(err) : 0;
    if (code == 0)
        code = prn_output_check(o->output, err);
    if (code == 0)
        code = spare_all(o->output, arguments, err);
    if (code == 0)
        code = spare_all(o->output, &o->compare, err);
    if (code == 0 && o->csv)
        code = check_csv_files(o->csv, arguments, err);
    return code;
}

/* ---- Reading ---- */

static int read_trace(struct prn_trace_files *files, struct prn_trace_options *options,
                      struct prn_trace **ret_trace, struct prony_error *err)
{
    struct progress progress = {0};
    if (isatty(STDERR_FILENO) && !options->on_event) {
        options->on_progress = show_progress;
        options->context = &progress;
    }
    int code = prn_trace_read(files, options, ret_trace, err);
    end_progress(&progress);
    return code;
}

/* `context` points to what says which trace, where there are two. */
static void warn(void *context, const char *sentence)
{
    const char *const *which = context;
    prn_warn("%s%s%s", which ? *which : "", which ? ": " : "", sentence);
}

/* ---- Perfetto ---- */

struct conversion {
    struct prn_trace_files *files;
    struct prn_trace_options *options;
};

static int convert_event(void *context, const struct prn_trace_event *event, uint64_t run,
                         struct prony_error *err)
{
    return prn_perfetto_event(context, event, run, err);
}

static int convert(int fd, const char *name, void *context, struct prony_error *err)
{
    struct conversion *c = context;
    struct prn_perfetto *perfetto;
    struct prn_trace *trace;
    int code = prn_perfetto_new(fd, name, &perfetto, err);
    if (code < 0)
        return code;
    c->options->on_event = convert_event;
    c->options->context = perfetto;
    code = read_trace(c->files, c->options, &trace, err);
    if (code == 0) {
        code = prn_perfetto_end(perfetto, err);
        if (code == 0)
            prn_trace_warnings(trace, warn, NULL);
        prn_trace_free(trace);
    }
    prn_perfetto_free(perfetto);
    return code;
}

/* ---- Reports ---- */

static int write_csv_file(const struct prn_trace_report *report, const char *prefix,
                          enum prn_trace_csv which, struct prony_error *err)
{
    struct prn_buffer path = PRN_BUFFER_INIT(PATH_BYTES_MAX);
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_TRACE_REPORT_MAX);
    int code = csv_path(&path, prefix, which, err);
    if (code == 0)
        code = prn_trace_report_csv(report, which, &out, err);
    if (code == 0 && out.len > 0)
        code = prn_output(prn_buffer_text(&path), &out, err);
    prn_buffer_release(&path);
    prn_buffer_release(&out);
    return code;
}

static int write_csv_files(const struct prn_trace_report *report, const char *prefix,
                           struct prony_error *err)
{
    int code = 0;
    for (int which = PRN_TRACE_CSV_CPU; code == 0 && which <= PRN_TRACE_CSV_MAPPING; which++)
        code = write_csv_file(report, prefix, (enum prn_trace_csv)which, err);
    return code;
}

/* The report, and the timeline of a run, for which a file is read again. */
static int write_page(struct prn_trace_files *files, const struct prn_trace_options *options,
                      const struct prn_trace_report *report, const struct prn_trace *trace,
                      struct prn_page *page, struct prony_error *err)
{
    struct prn_timeline *timeline = NULL;
    int code = 0;
    if (prn_trace_files_can_rewind(files))
        code = prn_timeline_read(files, trace, options, &timeline, err);
    if (code == 0)
        code = prn_page_add_trace(page, report, timeline, err);
    prn_timeline_free(timeline);
    return code;
}

static int write_report(const struct explore_options *o, struct prn_trace_files *files,
                        const struct prn_trace_options *options,
                        const struct prn_trace_report *report, const struct prn_trace *trace,
                        struct prn_buffer *out, struct prony_error *err)
{
    if (o->format != PRN_TRACE_FORMAT_HTML)
        return prn_trace_report_write(report, (enum prn_trace_format)o->format, out, err);
    struct prn_page page = PRN_PAGE_INIT;
    int code = write_page(files, options, report, trace, &page, err);
    if (code == 0)
        code = prn_page_write(&page, out, err);
    prn_page_release(&page);
    return code;
}

static int report_trace(const struct explore_options *o, struct prn_trace_files *files,
                        const struct prn_trace_options *options, const struct prn_trace *trace,
                        struct prony_error *err)
{
    struct prn_trace_report_options shown = make_options(o);
    struct prn_trace_report *report;
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_TRACE_REPORT_MAX);
    int code = prn_trace_report_new(trace, &shown, &report, err);
    if (code < 0)
        return code;
    prn_trace_report_warnings(report, warn, NULL);
    code = write_report(o, files, options, report, trace, &out, err);
    if (code == 0 && o->csv)
        code = write_csv_files(report, o->csv, err);
    if (code == 0)
        code = prn_output(o->output, &out, err);
    prn_buffer_release(&out);
    prn_trace_report_free(report);
    return code;
}

/* Of a run of each trace; none of one that can't be read again. */
static int read_timelines(struct prn_trace_files *const files[2],
                          const struct prn_trace *const traces[2],
                          const struct prn_trace_options *options,
                          struct prn_timeline *ret_timelines[2], struct prony_error *err)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < 2; i++)
        if (prn_trace_files_can_rewind(files[i]))
            code = prn_timeline_read(files[i], traces[i], options, &ret_timelines[i], err);
    return code;
}

static int write_comparison(const struct explore_options *o, struct prn_trace_files *const files[2],
                            const struct prn_trace_options *options,
                            const struct prn_trace *const traces[2],
                            const struct prn_trace_comparison *comparison, struct prn_buffer *out,
                            struct prony_error *err)
{
    struct prn_trace_report_options shown = make_options(o);
    if (o->format != PRN_TRACE_FORMAT_HTML)
        return prn_trace_comparison_write(comparison, traces[0], traces[1], &shown,
                                          (enum prn_trace_format)o->format, out, err);
    struct prn_page page = PRN_PAGE_INIT;
    struct prn_timeline *timelines[2] = {NULL, NULL};
    int code = read_timelines(files, traces, options, timelines, err);
    if (code == 0)
        code = prn_trace_comparison_page(comparison, traces[0], traces[1], &shown, timelines, &page,
                                         err);
    if (code == 0)
        code = prn_page_write(&page, out, err);
    prn_timeline_free(timelines[0]);
    prn_timeline_free(timelines[1]);
    prn_page_release(&page);
    return code;
}

static int report_comparison(const struct explore_options *o,
                             struct prn_trace_files *const files[2],
                             const struct prn_trace_options *options,
                             const struct prn_trace *const traces[2], struct prony_error *err)
{
    struct prn_trace_comparison comparison;
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_TRACE_REPORT_MAX);
    const char *which[] = {"first trace", "second trace"};
    prn_trace_warnings(traces[0], warn, &which[0]);
    prn_trace_warnings(traces[1], warn, &which[1]);
    int code = prn_trace_compare(traces[0], traces[1], &comparison, err);
    if (code < 0)
        return code;
    code = write_comparison(o, files, options, traces, &comparison, &out, err);
    if (code == 0)
        code = prn_output(o->output, &out, err);
    prn_buffer_release(&out);
    prn_trace_comparison_release(&comparison);
    return code;
}

static int compare_traces(const struct explore_options *o, struct prn_trace_files *files,
                          struct prn_trace_options *options, const struct prn_trace *trace,
                          struct prony_error *err)
{
    struct prn_trace_files others;
    struct prn_trace *other;
    int code = prn_trace_files_open(o->compare.items, o->compare.n, &others, err);
    if (code < 0)
        return code;
    code = read_trace(&others, options, &other, err);
    if (code == 0) {
        code = report_comparison(o, (struct prn_trace_files *[]){files, &others}, options,
                                 (const struct prn_trace *[]){trace, other}, err);
        prn_trace_free(other);
    }
    prn_trace_files_close(&others);
    return code;
}

static int explore_files(const struct explore_options *o, struct prn_trace_files *files,
                         struct prn_trace_options *options, struct prony_error *err)
{
    struct prn_trace *trace;
    if (o->format == PRN_TRACE_FORMAT_PERFETTO) {
        struct conversion c = {files, options};
        return prn_output_stream(o->output, convert, &c, err);
    }
    int code = read_trace(files, options, &trace, err);
    if (code < 0)
        return code;
    code = o->compare.n > 0 ? compare_traces(o, files, options, trace, err)
                            : report_trace(o, files, options, trace, err);
    prn_trace_free(trace);
    return code;
}

static int explore_run(const void *opaque, const struct prn_strings *arguments,
                       struct prony_error *err)
{
    const struct explore_options *o = opaque;
    struct prn_trace_options options;
    struct prn_trace_files files;
    int code = check_options(o, arguments, err);
    if (code == 0)
        code = read_options(o, &options, err);
    if (code == 0)
        code = prn_trace_files_open(arguments->items, arguments->n, &files, err);
    if (code < 0)
        return code;
    code = explore_files(o, &files, &options, err);
    prn_trace_files_close(&files);
    return code;
}

static void explore_defaults(void *opaque)
{
    struct explore_options *o = opaque;
    o->start = PRN_RUN_UNSET;
    o->end = PRN_RUN_UNSET;
    o->count = 40;
    o->demangler = "c++filt";
    o->max_groups = PRN_TRACE_GROUPS_MAX;
}

static int add_page(const struct explore_options *o, struct prn_trace_files *files,
                    struct prn_page *page, struct prony_error *err)
{
    struct prn_trace_options options;
    struct prn_trace_report *report;
    struct prn_trace *trace;
    int code = read_options(o, &options, err);
    if (code == 0)
        code = read_trace(files, &options, &trace, err);
    if (code < 0)
        return code;
    struct prn_trace_report_options shown = make_options(o);
    code = prn_trace_report_new(trace, &shown, &report, err);
    if (code == 0) {
        prn_trace_report_warnings(report, warn, NULL);
        code = write_page(files, &options, report, trace, page, err);
        prn_trace_report_free(report);
    }
    prn_trace_free(trace);
    return code;
}

int prn_trace_page_add(struct prn_page *page, const char *path, struct prony_error *err)
{
    struct explore_options o = {.format = PRN_TRACE_FORMAT_HTML};
    struct prn_trace_files files;
    explore_defaults(&o);
    int code = prn_trace_files_open(&path, 1, &files, err);
    if (code < 0)
        return code;
    code = add_page(&o, &files, page, err);
    prn_trace_files_close(&files);
    return code;
}

#define FIELD(name) offsetof(struct explore_options, name)

static const struct prn_option options_table[] = {
    PRN_OPTION_HEADING("Which runs and events"),
    PRN_OPTION(
        COUNT, 's', "start", "RUN", FIELD(start),
        "first run to analyse, from 0; negative counts from the end (default 1: run 0 is warm-up)",
        PRN_OPTION_RANGE(-1e15, 1e15)),
    PRN_OPTION(COUNT, 'e', "end", "RUN", FIELD(end),
               "stop before this run; negative counts from the end (default: all)",
               PRN_OPTION_RANGE(-1e15, 1e15)),
    PRN_OPTION(TEXT, 'g', "gather", "LIST", FIELD(gather),
               "the runs to analyse, as a Python list: '[1, 3]', 'range(2, 20, 3)', '[i for i in "
               "range(20) "
               "if i % 3 == 0]'"),
    PRN_OPTION(
        WORDS, 0, "filter", "PATTERN...", FIELD(filters),
        "only nodes, kernels and operators with these names; with wildcards * ? [; repeatable"),
    PRN_OPTION(FLAG, 0, "recover", NULL, FIELD(recover),
               "skip broken parts of the trace, analyse the rest, and report how much was lost"),
    PRN_OPTION_HEADING("How to group and compare"),
    PRN_OPTION(TEXT, 0, "by", "KEYS", FIELD(by),
               "group CPU times by node, op, provider, shape, or several: op,shape (default op)"),
    PRN_OPTION(FLAG, 0, "shape-sensitive", NULL, FIELD(shape_sensitive),
               "tell operators and kernels apart by input shapes"),
    PRN_OPTION(FLAG, 0, "dimension-sensitive", NULL, FIELD(dimension_sensitive),
               "tell kernels apart by the dimensions of their launch"),
    PRN_OPTION(FLAG, 'm', "mapping", NULL, FIELD(mapping),
               "also show which kernels each operator launched"),
    PRN_OPTION(WORDS, 0, "compare", "OTHER.json...", FIELD(compare),
               "show what is slower or faster in OTHER.json than in TRACE.json; all files up to "
               "the next option are the second trace"),
    PRN_OPTION(COUNT, 0, "max-groups", "N", FIELD(max_groups),
               "stop at more distinct groups than this (default 16384)", PRN_OPTION_RANGE(1, 1e8)),
    PRN_OPTION_HEADING("Output"),
    PRN_OPTION(COUNT, 'c', "count", "N", FIELD(count), "rows of a table (default 40)",
               PRN_OPTION_RANGE(1, 1e9)),
    PRN_OPTION(FLAG, 0, "wide", NULL, FIELD(wide), "never shorten names to the terminal's width"),
    PRN_OPTION(FLAG, 'v', "verbose", NULL, FIELD(wide), "the same as --wide"),
    PRN_OPTION(TEXT, 0, "demangler", "CMD", FIELD(demangler),
               "program that demangles kernel names (default c++filt)"),
    PRN_OPTION(
        TEXT, 0, "csv", "PREFIX", FIELD(csv),
        "also write PREFIX_cpu_kernel_times.csv, PREFIX_gpu_kernel_times.csv and, with --mapping, "
        "PREFIX_op_kernel_mapping.csv"),
    PRN_OPTION(CHOICE, 0, "format", "FORMAT", FIELD(format),
               "text, json, csv, md, html: a page with charts, or perfetto: a trace for "
               "ui.perfetto.dev (default text)",
               .choices = prn_trace_formats),
    PRN_OPTION(TEXT, 'o', "output", "FILE", FIELD(output),
               "write to FILE instead of standard output"),
    {0},
};

const struct prn_command prn_command_explore = {
    .name = "explore",
    .arguments = "TRACE.json...",
    .summary = "show where the time goes in a trace that ONNX Runtime wrote",
    .description = "Reads what ONNX Runtime's profiler wrote (session option enable_profiling): "
                   "per operator, node, shape and GPU kernel, how much time it took, how often, "
                   "and how it varies from run to run; and a ledger of where a run's time goes.\n"
                   "TRACE.json may be - for standard input, and compressed with gzip or zstd. It "
                   "is read once; memory does not grow with its size.\n"
                   "Several files are read as one trace, in the order given: run-level profiling "
                   "writes one for each run.",
    .examples =
        "# where does the time go?\n"
        "prony explore trace.json\n"
        "# it got slower after an upgrade: where?\n"
        "prony explore before.json --compare after.json\n"
        "# a session that wrote a file for each run\n"
        "prony explore run_*.json\n"
        "# convolutions by shape, for a spreadsheet\n"
        "prony explore trace.json --filter 'Conv*' --shape-sensitive --format csv -o conv.csv",
    .options = options_table,
    .options_size = sizeof(struct explore_options),
    .defaults = explore_defaults,
    .min_arguments = 1,
    .max_arguments = SIZE_MAX,
    .takes = PRN_SAVED_BIT(TRACE),
    .run = explore_run,
};
