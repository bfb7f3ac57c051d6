/* `prony report`: shows a saved profile again, or compares several. */
#include "cli/command.h"

#include "cli/comparison.h"
#include "cli/output.h"
#include "report/profile/json.h"
#include "report/profile/report.h"
#include "report/prose.h"
#include "report/recorded/report.h"
#include "report/saved.h"

#include <errno.h>
#include <math.h>
#include <sys/stat.h>

/* More than anybody reads in one report. */
#define FILES_MAX 100

/* Options that only recorded programs have. */
#define LAYOUT_UNSET (-1)

struct recorded_options {
    int layout; /* enum prn_recorded_layout, or LAYOUT_UNSET */
    bool verbose;
    const char *details; /* folder; NULL: none */
};

struct report_options {
    int format; /* enum prn_report_format */
    int table;  /* enum prn_report_table */
    int colour; /* enum prn_colour */
    const char *output;
    struct recorded_options recorded;
    struct prn_comparison_options comparison;
};

#define FIELD(name) offsetof(struct report_options, name)

static const struct prn_option options_table[] = {
    PRN_OPTION(CHOICE, 0, "format", "FORMAT", FIELD(format),
               "text, json, csv, md, or html: a page with charts (default text)",
               .choices = prn_report_formats),
    PRN_OPTION(CHOICE, 0, "table", "TABLE", FIELD(table),
               "the table in csv: results; ledger, operators, nodes, kernels or differences of a "
               "profile made with --ops; load or trials of one made under load (default results)",
               .choices = prn_report_tables),
    PRN_OPTION(TEXT, 'o', "output", "FILE", FIELD(output),
               "write to FILE instead of standard output"),
    PRN_OPTION(FLAG, 'v', "verbose", NULL, offsetof(struct report_options, recorded.verbose),
               "text and md in full: all columns, inputs, and how each figure was obtained; of a "
               "recorded program every segment, with spread and confidence"),
    PRN_OPTION(CHOICE, 0, "color", "WHEN", offsetof(struct report_options, colour), PRN_COLOUR_HELP,
               .choices = prn_colours),
    PRN_OPTION_HEADING("Recorded programs"),
    PRN_OPTION(CHOICE, 0, "layout", "LAYOUT", FIELD(recorded.layout),
               "summary: backends with total time and cost; segments: local code and graphs; "
               "classic: both, as octoml-profile 0.1 showed them (default summary)",
               .choices = prn_recorded_layouts),
    PRN_OPTION(TEXT, 0, "details", "DIR", FIELD(recorded.details),
               "also write the segments of each profile to a file in DIR"),
    PRN_OPTION_HEADING("Comparing"),
    PRN_OPTION(TEXT, 0, "baseline", "FILE", FIELD(comparison.baseline),
               "use this file as the baseline instead of the first"),
    PRN_OPTION(PERCENT, 0, "fail-over", "PCT", FIELD(comparison.fail_over),
               "exit with status 3 when a row is slower by more than this, e.g. 5%, now fails, or "
               "is missing",
               PRN_OPTION_RANGE(0, 1000)),
    PRN_OPTION(FLAG, 0, "force", NULL, FIELD(comparison.force),
               "judge differences across machines and machine states too"),
    {0},
};

/* ---- Recorded programs ---- */

/* The first of the options that was given; NULL: none. */
static const char *first_option(const struct recorded_options *o)
{
    if (o->layout != LAYOUT_UNSET)
        return "--layout";
    return o->details ? "--details" : NULL;
}

/* Fails when the options don't go with the profile, read from `name` (NULL: several are compared),
 * or with the format. */
static int check_recorded(const struct recorded_options *o, const struct prn_profile *profile,
                          const char *name, enum prn_report_format format, struct prony_error *err)
{
    const char *option = first_option(o);
    if (!option)
        return 0;
    if (!profile)
        return prn_fail(err, PRONY_EUSAGE, "%s cannot be combined with several files", option);
    if (!profile->recorded)
        return prn_fail(err, PRONY_EUSAGE,
                        "%s needs a recorded program; '%s' is the profile of a model", option,
                        name);
    if (format != PRN_REPORT_FORMAT_TEXT && format != PRN_REPORT_FORMAT_MARKDOWN)
        return prn_fail(err, PRONY_EUSAGE, "%s needs --format text or md, not %s", option,
                        prn_report_formats[format]);
    if (o->details && o->layout > PRN_RECORDED_LAYOUT_SUMMARY)
        return prn_fail(err, PRONY_EUSAGE, "--details cannot be combined with --layout %s",
                        prn_recorded_layouts[o->layout]);
    return 0;
}

struct details {
    const char *folder;
    struct prn_prose prose; /* says where they are */
};

static int write_detail(const char *name, const char *label, const struct prn_buffer *text,
                        void *context, struct prony_error *err)
{
    struct details *d = context;
    struct prn_buffer path = PRN_BUFFER_INIT(8192);
    prn_buffer_printf(&path, "%s/%s", d->folder, name);
    int code = prn_buffer_error(&path, err);
    if (code == 0)
        code = prn_output(prn_buffer_text(&path), text, err);
    if (code == 0)
        prn_prose_paragraph(&d->prose, "Details of %s: %s", label, prn_buffer_text(&path));
    prn_buffer_release(&path);
    return code;
}

static int write_details(const struct prn_profile *profile, const struct recorded_options *o,
                         const struct prn_look *look, struct prn_buffer *out,
                         struct prony_error *err)
{
    if (mkdir(o->details, 0777) < 0 && errno != EEXIST)
        return prn_fail_errno(err, errno, "create", o->details);
    struct prn_look wide = *look;
    wide.width = SIZE_MAX; /* a path is copied as a whole, or not at all */
    struct details d = {.folder = o->details, .prose = prn_prose_init(&wide, out)};
    int code = prn_recorded_details(profile, o->verbose, write_detail, &d, err);
    prn_prose_release(&d.prose);
    return code;
}

/* Details are written first; the report names their files. */
static int output_recorded(const char *path, const struct prn_profile *profile,
                           const struct recorded_options *o, const struct prn_look *look,
                           struct prony_error *err)
{
    enum prn_recorded_layout layout = o->layout == LAYOUT_UNSET
                                          ? PRN_RECORDED_LAYOUT_SUMMARY
                                          : (enum prn_recorded_layout)o->layout;
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    int code = prn_recorded_report(profile, layout, look, &out, err);
    if (code == 0 && o->details)
        code = write_details(profile, o, look, &out, err);
    if (code == 0)
        code = prn_output(path, &out, err);
    prn_buffer_release(&out);
    return code;
}

/* ---- All of them ---- */

static int show(const struct report_options *o, const struct prn_profile *profile, const char *name,
                struct prony_error *err)
{
    enum prn_report_format format = (enum prn_report_format)o->format;
    enum prn_report_table table = (enum prn_report_table)o->table;
    bool markdown = format == PRN_REPORT_FORMAT_MARKDOWN;
    if (profile->recorded && table != PRN_REPORT_TABLE_RESULTS)
        return prn_fail(err, PRONY_EUSAGE, "'%s' is a recorded program; it has no table '%s'", name,
                        prn_report_tables[table]);
    int code = check_recorded(&o->recorded, profile, name, format, err);
    if (code < 0)
        return code;
    struct prn_look look =
        prn_output_look(o->output, o->recorded.verbose, (enum prn_colour)o->colour);
    look.markdown = markdown;
    look.more = "--verbose, --format html";
    if (profile->recorded && (markdown || format == PRN_REPORT_FORMAT_TEXT))
        return output_recorded(o->output, profile, &o->recorded, &look, err);
    return prn_output_profile(o->output, profile, format, table, &look, err);
}

static int report_run(const void *options, const struct prn_strings *arguments,
                      struct prony_error *err)
{
    const struct report_options *o = options;
    enum prn_report_format format = (enum prn_report_format)o->format;
    struct prn_profile *profile;
    bool several;
    int code = prn_output_check_format(format, err);
    if (code == 0)
        code = prn_output_check_table(format, (enum prn_report_table)o->table, err);
    if (code == 0)
        code = prn_comparison_wanted(&o->comparison, arguments, &several, err);
    if (code == 0 && several && o->table != PRN_REPORT_TABLE_RESULTS)
        code = prn_fail(err, PRONY_EUSAGE, "--table takes one file");
    if (code == 0 && several)
        code = check_recorded(&o->recorded, NULL, NULL, format, err);
    if (code == 0 && several) {
        struct prn_look look =
            prn_output_look(o->output, o->recorded.verbose, (enum prn_colour)o->colour);
        return prn_comparison_run(&o->comparison, arguments, format, &look, o->output, err);
    }
    if (code == 0)
        code = prn_output_spares(o->output, arguments->items[0], err);
    if (code == 0)
        code = prn_profile_read_json(arguments->items[0], &profile, err);
    if (code < 0)
        return code;
    code = show(o, profile, arguments->items[0], err);
    prn_profile_free(profile);
    return code;
}

static void report_defaults(void *options)
{
    struct report_options *o = options;
    o->comparison.fail_over = NAN;
    o->recorded.layout = LAYOUT_UNSET;
}

const struct prn_command prn_command_report = {
    .name = "report",
    .arguments = "FILE...",
    .summary = "show a saved profile again, or compare several",
    .description =
        "Shows a profile that 'prony profile --format json' saved, exactly as it was shown then, "
        "or "
        "in another format. FILE may be - for standard input.\n"
        "text, md and html are for people, csv has one row per backend, json is the profile "
        "itself.\n"
        "A recorded program has several layouts: the summary of each of its profiles, their "
        "segments, and the classic one.\n"
        "Of several files the first is the baseline, and each of the others is compared with it: "
        "which backend became slower or faster, by how much, and whether that may be chance. With "
        "--fail-over the exit status is 3 when something became slower, and 1 when it can't "
        "tell.",
    .examples = "# save a profile, show it, and turn it into a spreadsheet\n"
                "prony profile resnet50.onnx --format json -o resnet50.json\n"
                "prony report resnet50.json\n"
                "prony report resnet50.json --format csv -o resnet50.csv\n"
                "# a page with charts, to share\n"
                "prony report resnet50.json --format html -o resnet50.html\n"
                "# where a recorded program spends its time\n"
                "prony report program.json --layout segments\n"
                "# did the new version make it slower?\n"
                "prony report old.json new.json\n"
                "# in continuous integration: fail when it did, by more than 5 %\n"
                "prony report old.json new.json --fail-over 5%\n",
    .options = options_table,
    .options_size = sizeof(struct report_options),
    .defaults = report_defaults,
    .min_arguments = 1,
    .max_arguments = FILES_MAX,
    .takes = PRN_SAVED_BIT(PROFILE),
    .run = report_run,
};
