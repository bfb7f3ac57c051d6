/* `prony generate FILE`: the pages that the build makes from the option tables, and the schemas in
 * docs/ from the tables of reports. Hidden. */
#include "cli/pages.h"

#include "cli/output.h"
#include "report/schemas.h"

#include <string.h>

static int generate_run(const void *options, const struct prn_strings *arguments,
                        struct prony_error *err)
{
    (void)options;
    static const struct {
        const char *name;
        void (*write)(struct prn_buffer *out);
    } pages[] = {{"prony.1", prn_command_man},
                 {"prony.bash", prn_command_bash},
                 {"_prony", prn_command_zsh}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(pages); i++) {
        if (strcmp(pages[i].name, arguments->items[0]) != 0)
            continue;
        struct prn_buffer out = PRN_BUFFER_INIT((size_t)1 << 20);
        pages[i].write(&out);
        int code = prn_output(NULL, &out, err);
        prn_buffer_release(&out);
        return code;
    }
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)1 << 20);
    int code = prn_report_schema(arguments->items[0], &out, err);
    if (code == PRONY_ENOENT)
        code = prn_fail(err, PRONY_EUSAGE, "no page '%s'", arguments->items[0]);
    else if (code == 0)
        code = prn_output(NULL, &out, err);
    prn_buffer_release(&out);
    return code;
}

const struct prn_command prn_command_generate = {
    .name = "generate",
    .arguments = "PAGE",
    .summary = "write the man page, shell completion or a JSON Schema",
    .description =
        "Writes prony.1, prony.bash, _prony, or a schema such as prony.profile.schema.json.",
    .min_arguments = 1,
    .max_arguments = 1,
    .run = generate_run,
    .hidden = true,
};
