/* `prony report FILE`: shows a saved profile again. */
#include "cli/command.h"

#include "report/profile_json.h"
#include "report/profile_report.h"

struct report_options {
    int format; /* enum prn_report_format */
    const char *output;
};

static const struct prn_option options_table[] = {
    {.kind = PRN_OPTION_CHOICE,
     .name = "format",
     .value = "FORMAT",
     .help = "text, json, csv or md (default text)",
     .offset = offsetof(struct report_options, format),
     .choices = prn_report_formats},
    {.kind = PRN_OPTION_TEXT,
     .letter = 'o',
     .name = "output",
     .value = "FILE",
     .help = "write to FILE instead of standard output",
     .offset = offsetof(struct report_options, output)},
    {0},
};

static int run(const void *options, const struct prn_strings *arguments, struct prony_error *err)
{
    const struct report_options *o = options;
    struct prn_profile *profile;
    int code = prn_output_spares(o->output, arguments->items[0], err);
    if (code == 0)
        code = prn_profile_read_json(arguments->items[0], &profile, err);
    if (code < 0)
        return code;
    code = prn_output_profile(o->output, profile, (enum prn_report_format)o->format, err);
    prn_profile_free(profile);
    return code;
}

const struct prn_command prn_command_report = {
    .name = "report",
    .arguments = "FILE",
    .summary = "show a saved profile again",
    .description =
        "Shows a profile that 'prony profile --format json' saved, exactly as it was shown then, "
        "or "
        "in another format. FILE may be - for standard input.\n"
        "text and md are for people, csv has one row per backend, json is the profile itself.",
    .examples = "# save a profile, show it, and turn it into a spreadsheet\n"
                "prony profile resnet50.onnx --format json -o resnet50.json\n"
                "prony report resnet50.json\n"
                "prony report resnet50.json --format csv -o resnet50.csv\n",
    .options = options_table,
    .options_size = sizeof(struct report_options),
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run,
};
