/* `prony report`: shows a saved profile again, or compares several. */
#include "cli/command.h"

#include "cli/comparison.h"
#include "cli/recorded.h"
#include "report/profile_json.h"
#include "report/profile_report.h"

#include <math.h>

/* More than anybody reads in one report. */
#define FILES_MAX 100

struct report_options {
    int format; /* enum prn_report_format */
    int table;  /* enum prn_report_table */
    const char *output;
    struct prn_recorded_options recorded;
    struct prn_comparison_options comparison;
};

static const struct prn_option options_table[] = {
    {.kind = PRN_OPTION_CHOICE,
     .name = "format",
     .value = "FORMAT",
     .help = "text, json, csv, md, or html: a page with pictures (default text)",
     .offset = offsetof(struct report_options, format),
     .choices = prn_report_formats},
    {.kind = PRN_OPTION_CHOICE,
     .name = "table",
     .value = "TABLE",
     .help = "what csv has: results or, of a profile made with --ops, ledger, operators, nodes, "
             "kernels or differences, of one made under load, load or trials (default results)",
     .offset = offsetof(struct report_options, table),
     .choices = prn_report_tables},
    {.kind = PRN_OPTION_TEXT,
     .letter = 'o',
     .name = "output",
     .value = "FILE",
     .help = "write to FILE instead of standard output",
     .offset = offsetof(struct report_options, output)},
    {.kind = PRN_OPTION_GROUP, .help = "Recorded programs"},
    {.kind = PRN_OPTION_CHOICE,
     .name = "layout",
     .value = "LAYOUT",
     .help = "summary: backends with total time and cost; segments: local code and graphs; "
             "classic: both, as octoml-profile 0.1 showed them (default summary)",
     .offset = offsetof(struct report_options, recorded.layout),
     .choices = prn_recorded_layouts},
    {.kind = PRN_OPTION_FLAG,
     .name = "verbose",
     .help = "every segment, also of long programs, with spread and confidence",
     .offset = offsetof(struct report_options, recorded.verbose)},
    {.kind = PRN_OPTION_TEXT,
     .name = "details",
     .value = "DIR",
     .help = "also write the segments of each profile to a file in DIR",
     .offset = offsetof(struct report_options, recorded.details)},
    {.kind = PRN_OPTION_GROUP, .help = "Comparing"},
    {.kind = PRN_OPTION_TEXT,
     .name = "baseline",
     .value = "FILE",
     .help = "compare with this one instead of the first",
     .offset = offsetof(struct report_options, comparison.baseline)},
    {.kind = PRN_OPTION_PERCENT,
     .name = "fail-over",
     .value = "PCT",
     .help = "exit with status 3 when a row is slower by more than this, such as 5%, fails now or "
             "is missing",
     .offset = offsetof(struct report_options, comparison.fail_over),
     .min = 0,
     .max = 1000},
    {.kind = PRN_OPTION_FLAG,
     .name = "force",
     .help = "call differences also across machines and states of a machine",
     .offset = offsetof(struct report_options, comparison.force)},
    {0},
};

static int show(const struct report_options *o, const struct prn_profile *profile, const char *name,
                struct prony_error *err)
{
    enum prn_report_format format = (enum prn_report_format)o->format;
    enum prn_report_table table = (enum prn_report_table)o->table;
    bool markdown = format == PRN_REPORT_FORMAT_MARKDOWN;
    if (profile->recorded && table != PRN_REPORT_TABLE_RESULTS)
        return prn_fail(err, PRONY_EUSAGE, "'%s' is a recorded program and has no --table %s", name,
                        prn_report_tables[table]);
    int code = prn_recorded_check(&o->recorded, profile, name, format, err);
    if (code < 0)
        return code;
    if (profile->recorded && (markdown || format == PRN_REPORT_FORMAT_TEXT))
        return prn_recorded_output(o->output, profile, &o->recorded, markdown, err);
    return prn_output_profile(o->output, profile, format, table, err);
}

static int run(const void *options, const struct prn_strings *arguments, struct prony_error *err)
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
        code = prn_fail(err, PRONY_EUSAGE, "--table is for one file, and several are compared");
    if (code == 0 && several)
        code = prn_recorded_check(&o->recorded, NULL, NULL, format, err);
    if (code == 0 && several)
        return prn_comparison_run(&o->comparison, arguments, format, o->output, err);
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

static void set_defaults(void *options)
{
    struct report_options *o = options;
    o->comparison.fail_over = NAN;
    o->recorded.layout = PRN_LAYOUT_UNSET;
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
        "--fail-over the exit status is 3 when something became slower, and 1 when nobody can "
        "tell.",
    .examples = "# save a profile, show it, and turn it into a spreadsheet\n"
                "prony profile resnet50.onnx --format json -o resnet50.json\n"
                "prony report resnet50.json\n"
                "prony report resnet50.json --format csv -o resnet50.csv\n"
                "# a page with pictures, for everybody else\n"
                "prony report resnet50.json --format html -o resnet50.html\n"
                "# where the time of a recorded program goes\n"
                "prony report program.json --layout segments\n"
                "# did the new version make it slower?\n"
                "prony report old.json new.json\n"
                "# in continuous integration: fail when it did, by more than 5 %\n"
                "prony report old.json new.json --fail-over 5%\n",
    .options = options_table,
    .options_size = sizeof(struct report_options),
    .defaults = set_defaults,
    .min_arguments = 1,
    .max_arguments = FILES_MAX,
    .run = run,
};
