/* The profile reader: what it takes must come back the same, in every format, and can be compared
 * with itself. */
#include "report/comparison/report.h"
#include "report/page.h"
#include "report/profile/json.h"
#include "report/profile/report.h"
#include "report/recorded/report.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct prn_buffer reported(const struct prn_profile *p, enum prn_report_format format)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)64 << 20);
    struct prony_error err;
    if (prn_profile_report(p, format, NULL, &out, &err) < 0 && err.code != PRONY_ELIMIT &&
        (format != PRN_REPORT_FORMAT_HTML || prn_page_check(&err) == 0))
        abort();
    return out;
}

static void report_tables(const struct prn_profile *p)
{
    struct prony_error err;
    for (int table = 0; prn_report_tables[table]; table++) {
        struct prn_buffer out = PRN_BUFFER_INIT((size_t)64 << 20);
        if (prn_profile_report_csv(p, (enum prn_report_table)table, &out, &err) < 0 &&
            err.code != PRONY_ELIMIT)
            abort();
        prn_buffer_release(&out);
    }
}

static void report_layouts(const struct prn_profile *p)
{
    struct prony_error err;
    for (int layout = 0; prn_recorded_layouts[layout]; layout++)
        for (int verbose = 0; verbose < 2; verbose++) {
            struct prn_look look = {.verbose = verbose, .markdown = verbose};
            struct prn_buffer out = PRN_BUFFER_INIT((size_t)64 << 20);
            if (prn_recorded_report(p, (enum prn_recorded_layout)layout, &look, &out, &err) < 0 &&
                err.code != PRONY_ELIMIT)
                abort();
            prn_buffer_release(&out);
        }
}

/* Nothing is slower or faster than itself, nor missing. */
static void compare(const struct prn_profile *profile)
{
    const struct prn_comparison_side side = {"fuzz", profile};
    const struct prn_compare_options options = {.fail_over = 0};
    struct prn_comparison *c;
    struct prony_error err;
    if (prn_compare(&side, &side, 1, &options, &c, &err) < 0) {
        if (err.code != PRONY_EUNSUPPORTED)
            abort();
        return;
    }
    if (c->n_regressions > 0 || c->files[0].n_differences > 0 ||
        c->files[0].counts[PRN_CHANGE_FASTER] > 0 || c->files[0].counts[PRN_CHANGE_MACHINES] > 0 ||
        c->files[0].n_rows != profile->n_results)
        abort();
    for (int format = 0; prn_report_formats[format]; format++) {
        struct prn_buffer out = PRN_BUFFER_INIT((size_t)64 << 20);
        if (prn_comparison_report(c, (enum prn_report_format)format,
                                  &(struct prn_look){.verbose = true}, &out, &err) < 0 &&
            err.code != PRONY_ELIMIT &&
            (format != PRN_REPORT_FORMAT_HTML || prn_page_check(&err) == 0))
            abort();
        prn_buffer_release(&out);
    }
    prn_comparison_free(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prn_profile *profile;
    struct prn_profile *again;
    struct prony_error err;
    if (prn_profile_parse_json((const char *)data, size, "fuzz", &profile, &err) < 0)
        return 0;
    struct prn_buffer json = reported(profile, PRN_REPORT_FORMAT_JSON);
    if (prn_profile_parse_json(prn_buffer_text(&json), json.len, "again", &again, &err) < 0)
        abort();
    for (int format = 0; prn_report_formats[format]; format++) {
        struct prn_buffer first = reported(profile, (enum prn_report_format)format);
        struct prn_buffer second = reported(again, (enum prn_report_format)format);
        if (strcmp(prn_buffer_text(&first), prn_buffer_text(&second)) != 0)
            abort();
        prn_buffer_release(&first);
        prn_buffer_release(&second);
    }
    report_tables(profile);
    if (profile->recorded)
        report_layouts(profile);
    compare(profile);
    prn_buffer_release(&json);
    prn_profile_free(profile);
    prn_profile_free(again);
    return 0;
}
