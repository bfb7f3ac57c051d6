#include "cli/comparison.h"

#include "cli/output.h"
#include "base/format.h"
#include "report/comparison/report.h"
#include "report/profile/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- Which files ---- */

static bool is_standard_input(const char *path)
{
    return strcmp(path, "-") == 0;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat first;
    struct stat second;
    if (strcmp(a, b) == 0)
        return true;
    return !is_standard_input(a) && !is_standard_input(b) && stat(a, &first) == 0 &&
           stat(b, &second) == 0 && first.st_dev == second.st_dev && first.st_ino == second.st_ino;
}

/* The baseline first, then the others; returns how many. */
static size_t order_files(const struct prn_comparison_options *o, const struct prn_strings *files,
                          const char **paths)
{
    size_t n = 0;
    bool found = !o->baseline;
    if (o->baseline)
        paths[n++] = o->baseline;
    for (size_t i = 0; i < files->n; i++) {
        /* Once: whoever names it again wants it compared with itself. */
        bool again = !found && is_same_file(files->items[i], o->baseline);
        found = found || again;
        if (!again)
            paths[n++] = files->items[i];
    }
    return n;
}

static int check_files(const char *const *paths, size_t n, const char *output,
                       struct prony_error *err)
{
    size_t inputs = 0;
    int code = 0;
    if (n < 2)
        return prn_fail(err, PRONY_EUSAGE, "'%s' has nothing to be compared with", paths[0]);
    for (size_t i = 0; i < n && code == 0; i++) {
        inputs += is_standard_input(paths[i]);
        code = prn_output_spares(output, paths[i], err);
    }
    if (code == 0 && inputs > 1)
        code = prn_fail(err, PRONY_EUSAGE, "standard input can be read only once");
    return code;
}

/* ---- A limit ---- */

static int fail_unjudged_row(const struct prn_comparison *c, const struct prn_comparison_file *file,
                             const struct prn_comparison_row *row, struct prony_error *err)
{
    const char *why = NULL;
    switch (prn_comparison_unjudged(c, file, row)) {
    case PRN_JUDGED:
        return 0;
    case PRN_UNJUDGED_MACHINES:
        why = "they were measured on different machines; --force judges anyway";
        break;
    case PRN_UNJUDGED_UNITS:
        why = "too few launches and blocks; measure with --launches 5";
        break;
    case PRN_UNJUDGED_STATE:
        why = "it is slower, but the machine was in another state; measure both again, or use "
              "--force";
        break;
    }
    return prn_fail(err, PRONY_EUNSUPPORTED, "cannot judge %s in '%s' against '%s': %s",
                    row->after->name, file->after.name, c->before.name, why);
}

/* A limit wants an answer: a row that can't be judged is a failure, not a silent pass. */
static int fail_unjudged(const struct prn_comparison *c, struct prony_error *err)
{
    int code = 0;
    for (size_t f = 0; f < c->n_files; f++)
        for (size_t i = 0; i < c->files[f].n_rows && code == 0; i++)
            code = fail_unjudged_row(c, &c->files[f], &c->files[f].rows[i], err);
    if (code == 0 && c->n_tested == 0)
        code = prn_fail(err, PRONY_EUNSUPPORTED,
                        "cannot judge: no backend was measured with the same inputs both in '%s' "
                        "and in another file",
                        c->before.name);
    return code;
}

/* It passes, but somebody should know that it might not have. */
static void warn_unsure(const struct prn_comparison *c)
{
    char ratio[PRN_FORMAT_SIZE];
    for (size_t f = 0; f < c->n_files; f++)
        for (size_t i = 0; i < c->files[f].n_rows; i++) {
            const struct prn_comparison_row *row = &c->files[f].rows[i];
            double estimate = row->time.ratio.ratio.estimate;
            if (row->change == PRN_CHANGE_UNSURE && estimate > 1 + c->options.fail_over)
                prn_warn("%s in '%s' takes %s times as long as in '%s', but that may be chance; "
                         "use more --launches",
                         row->after->name, c->files[f].after.name,
                         prn_format_ratio(ratio, estimate), c->before.name);
        }
}

static int judge(const struct prn_comparison *c, struct prony_error *err)
{
    if (c->n_regressions == 0) {
        int unjudged = fail_unjudged(c, err);
        if (unjudged == 0)
            warn_unsure(c);
        return unjudged;
    }
    struct prn_buffer line = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    int code = prn_comparison_regressions(c, &line, err);
    if (code == 0) {
        prn_announce("regression", "%s", prn_buffer_text(&line));
        code = PRN_OUTCOME_REGRESSION;
    }
    prn_buffer_release(&line);
    return code;
}

/* ---- The comparison ---- */

int prn_comparison_show(const struct prn_comparison_options *options,
                        const struct prn_comparison_side *sides, size_t n,
                        enum prn_report_format format, const struct prn_look *look,
                        const char *output, struct prony_error *err)
{
    const struct prn_compare_options compare = {.force = options->force,
                                                .fail_over = options->fail_over};
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    struct prn_comparison *comparison;
    int code = prn_compare(&sides[0], &sides[1], n - 1, &compare, &comparison, err);
    if (code < 0)
        return code;
    code = prn_comparison_report(comparison, format, look, &out, err);
    if (code == 0)
        code = prn_output(output, &out, err);
    if (code == 0 && !isnan(options->fail_over))
        code = judge(comparison, err);
    prn_buffer_release(&out);
    prn_comparison_free(comparison);
    return code;
}

struct comparison_request {
    const struct prn_comparison_options *options;
    enum prn_report_format format;
    const struct prn_look *look;
    const char *output;
};

static int compare_files(const struct comparison_request *request, const char *const *paths,
                         size_t n, struct prony_error *err)
{
    struct prn_comparison_side *sides = calloc(n, sizeof *sides);
    struct prn_profile **profiles = calloc(n, sizeof(struct prn_profile *));
    int code = sides && profiles ? 0 : prn_fail_memory(err);
    for (size_t i = 0; i < n && code == 0; i++) {
        code = prn_profile_read_json(paths[i], &profiles[i], err);
        sides[i] = (struct prn_comparison_side){
            is_standard_input(paths[i]) ? "standard input" : paths[i], profiles[i]};
    }
    if (code == 0)
        code = prn_comparison_show(request->options, sides, n, request->format, request->look,
                                   request->output, err);
    for (size_t i = 0; profiles && i < n; i++)
        prn_profile_free(profiles[i]);
    free(profiles);
    free(sides);
    return code;
}

int prn_comparison_run(const struct prn_comparison_options *options,
                       const struct prn_strings *files, enum prn_report_format format,
                       const struct prn_look *look, const char *output, struct prony_error *err)
{
    const struct comparison_request request = {options, format, look, output};
    const char **paths = calloc(files->n + 1, sizeof(const char *));
    if (!paths)
        return prn_fail_memory(err);
    size_t n = order_files(options, files, paths);
    int code = check_files(paths, n, output, err);
    if (code == 0)
        code = compare_files(&request, paths, n, err);
    free(paths);
    return code;
}

int prn_comparison_wanted(const struct prn_comparison_options *options,
                          const struct prn_strings *files, bool *ret_wanted,
                          struct prony_error *err)
{
    bool wanted = files->n > 1 || options->baseline;
    if (!wanted && (options->force || !isnan(options->fail_over)))
        return prn_fail(err, PRONY_EUSAGE, "--%s needs a second FILE to compare",
                        options->force ? "force" : "fail-over");
    *ret_wanted = wanted;
    return 0;
}
