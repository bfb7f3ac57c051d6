/* `prony check`: measures old and new versions of models side by side and holds them to limits. */
#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"

#include "cli/libraries.h"
#include "exec/scratch.h"
#include "measure/check/check.h"
#include "measure/check/git.h"
#include "measure/resume.h"
#include "model/model.h"
#include "report/check/report.h"
#include "report/profile/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define LFS_PULL "install git-lfs and run 'git lfs pull'"

struct check_options {
    const char *config, *git_base, *output, *markdown, *json, *junit, *reports;
    struct prn_strings baselines;
    int64_t launches, repeats;
    double precision, max_time_s;
    bool strict, force;
    int format, colour;
    struct prn_library_files libraries;
};

/* The old version's file, and what reports call it; how many outputs both versions have. */
struct old_version {
    const char *path, *shown;
    size_t outputs_before, outputs_after;
};

/* What is needed while models are checked, one after the other. */
struct session {
    const struct check_options *options;
    struct prn_check_config config;
    struct old_version *olds; /* one for each model */
    struct prn_check *check;
    struct prn_scratch scratch; /* of old versions out of git */
    bool has_scratch;
    size_t n_asked_failed; /* rows that failed and were asked for */
    const char *failure;   /* of the first of them */
};

/* ---- The old version ---- */

/* NAME=FILE, or FILE where there is one model. */
static int apply_baseline(struct session *s, const char *text, struct prony_error *err)
{
    struct prn_check_config *config = &s->config;
    const char *path = text;
    struct prn_check_model *model = config->n_models == 1 ? &config->models[0] : NULL;
    for (size_t i = 0; i < config->n_models; i++) {
        size_t len = strlen(config->models[i].name);
        if (strncmp(text, config->models[i].name, len) != 0 || text[len] != '=')
            continue;
        model = &config->models[i];
        path = text + len + 1;
    }
    if (!model)
        return prn_fail(err, PRONY_EUSAGE,
                        "--baseline '%s': '%s' has several models; give NAME=FILE.json", text,
                        config->path);
    model->old = (struct prn_check_old){PRN_CHECK_SOURCE_REPORT, path, NULL};
    return 0;
}

static int apply_options(struct session *s, struct prony_error *err)
{
    const struct check_options *o = s->options;
    struct prn_check_config *config = &s->config;
    struct prn_settings *settings = &config->settings;
    settings->launches = o->launches ? o->launches : settings->launches;
    settings->repeats = o->repeats ? o->repeats : settings->repeats;
    settings->precision = isnan(o->precision) ? settings->precision : o->precision;
    settings->max_time_s = isnan(o->max_time_s) ? settings->max_time_s : o->max_time_s;
    for (size_t i = 0; o->git_base && i < config->n_models; i++) {
        struct prn_check_old *old = &config->models[i].old;
        /* Where the file was at the revision that the file names, it may not be at this one. */
        *old = (struct prn_check_old){PRN_CHECK_SOURCE_GIT,
                                      old->source == PRN_CHECK_SOURCE_GIT ? old->path : NULL,
                                      o->git_base};
    }
    int code = 0;
    for (size_t i = 0; i < o->baselines.n && code == 0; i++)
        code = apply_baseline(s, o->baselines.items[i], err);
    for (size_t i = 0; i < config->n_models && code == 0; i++)
        if (config->models[i].old.source == PRN_CHECK_SOURCE_NONE)
            code = prn_fail(err, PRONY_EUSAGE,
                            "'%s' says nothing about the old version of '%s': give 'old' there, "
                            "--git-base or --baseline",
                            config->path, config->models[i].name);
    return code;
}

static int open_scratch(struct session *s, size_t index, char ret_folder[PATH_MAX],
                        struct prony_error *err)
{
    int code = s->has_scratch ? 0 : prn_scratch_open(NULL, &s->scratch, err);
    if (code < 0)
        return code;
    s->has_scratch = true;
    int n = snprintf(ret_folder, PATH_MAX, "%s/%zu", s->scratch.folder, index);
    if (n >= PATH_MAX || mkdir(ret_folder, 0700) < 0)
        return prn_fail_errno(err, n >= PATH_MAX ? ENAMETOOLONG : errno, "create folder",
                              ret_folder);
    return 0;
}

static int old_from_git(struct session *s, const struct prn_check_model *model,
                        struct old_version *ret_old, struct prony_error *err)
{
    struct prn_arena *arena = &s->config.arena;
    char folder[PATH_MAX];
    const char *commit;
    const struct prn_git_file file = {.repository = s->config.folder,
                                      .path = model->old.path ? model->old.path : model->written,
                                      .revision = model->old.revision};
    int code = open_scratch(s, (size_t)(model - s->config.models), folder, err);
    if (code == 0)
        code = prn_git_model(&file, folder, &prn_cancelled, arena, &ret_old->path, &commit, err);
    if (code < 0)
        return code;
    struct prn_buffer shown = PRN_BUFFER_INIT((size_t)1 << 16);
    prn_buffer_printf(&shown, "%s", file.revision);
    if (strncmp(commit, file.revision, strlen(file.revision)) != 0)
        prn_buffer_printf(&shown, " (%.10s)", commit);
    if (model->old.path)
        prn_buffer_printf(&shown, ":%s", model->old.path);
    code = prn_buffer_error(&shown, err);
    ret_old->shown = code == 0 ? prn_arena_strdup(arena, prn_buffer_text(&shown)) : NULL;
    prn_buffer_release(&shown);
    return code == 0 && !ret_old->shown ? prn_fail_memory(err) : code;
}

static int find_old(struct session *s, const struct prn_check_model *model,
                    struct old_version *ret_old, struct prony_error *err)
{
    const char *path = model->old.path;
    if (model->old.source == PRN_CHECK_SOURCE_GIT)
        return old_from_git(s, model, ret_old, err);
    *ret_old = (struct old_version){.path = path, .shown = path};
    return model->old.source == PRN_CHECK_SOURCE_FILE
               ? prn_git_refuse_pointer(path, path, LFS_PULL, err)
               : 0;
}

static int count_outputs(const char *path, size_t *ret_n, struct prony_error *err)
{
    struct prn_model *model;
    int code = prn_model_open(path, &model, err);
    if (code < 0)
        return code;
    *ret_n = model->graph.n_outputs;
    prn_model_free(model);
    return 0;
}

static int prepare_versions(struct session *s, const struct prn_check_model *model,
                            struct old_version *old, struct prony_error *err)
{
    int code = prn_git_refuse_pointer(model->path, model->path, LFS_PULL, err);
    if (code == 0)
        code = find_old(s, model, old, err);
    if (code == 0)
        code = count_outputs(model->path, &old->outputs_after, err);
    if (code == 0 && model->old.source != PRN_CHECK_SOURCE_REPORT)
        code = count_outputs(old->path, &old->outputs_before, err);
    return code;
}

/* ---- A model ---- */

static int measure_models(struct session *s, const struct prn_check_model *model,
                          const struct prn_job_model *models, size_t n,
                          struct prn_profile **ret_profile, struct prony_error *err)
{
    struct prn_job job = {
        .models = models,
        .n_models = n,
        .backends = model->backends,
        .dims = model->dims,
        .shapes = model->shapes,
        .inputs = model->inputs,
        .inputs_folder = model->inputs_folder,
        .settings = s->config.settings,
        .tolerance_by_model = isnan(model->limits.tolerance),
        .timeout_s = s->config.timeout_s,
        .cancelled = &prn_cancelled,
        .progress = prn_progress_shown(),
    };
    job.settings.tolerance = model->limits.tolerance;
    int code = prn_resume_settings(NULL, &job.settings, err);
    if (code == 0)
        code = prn_job_run(&job, ret_profile, err);
    prn_progress_end();
    if (code == 0 && prn_cancelled) {
        prn_profile_free(*ret_profile);
        code = prn_fail(err, PRONY_ECANCELED, "interrupted: nothing was judged");
    }
    return code;
}

/* DIR/NAME.json, with '_' for what isn't fit for a file's name. */
static int save_report(const struct session *s, const struct prn_check_model *model,
                       const struct prn_profile *profile, struct prony_error *err)
{
    if (!s->options->reports)
        return 0;
    struct prn_buffer path = PRN_BUFFER_INIT((size_t)1 << 16);
    prn_buffer_printf(&path, "%s/", s->options->reports);
    for (const char *p = model->name; *p; p++)
        prn_buffer_add_char(&path, *p == '/' || (*p == '.' && p == model->name) ? '_' : *p);
    prn_buffer_add(&path, ".json");
    int code = prn_buffer_error(&path, err);
    if (code == 0)
        code = prn_output_profile(prn_buffer_text(&path), profile, PRN_REPORT_FORMAT_JSON,
                                  PRN_REPORT_TABLE_RESULTS, NULL, err);
    prn_buffer_release(&path);
    return code;
}

static int check_pair(struct session *s, const struct prn_check_model *model,
                      const struct old_version *old, struct prony_error *err)
{
    const struct prn_job_model models[] = {{"old", old->path}, {"new", model->path}};
    const struct prn_check_pair pair = {model, old->shown, old->outputs_before, old->outputs_after};
    struct prn_profile *profile;
    int code = measure_models(s, model, models, PRN_ARRAY_SIZE(models), &profile, err);
    if (code < 0)
        return code;
    code = save_report(s, model, profile, err);
    if (code == 0)
        code = prn_check_add(s->check, &pair, profile, err);
    prn_profile_free(profile);
    return code;
}

static int check_saved(struct session *s, const struct prn_check_model *model,
                       const struct old_version *old, struct prony_error *err)
{
    const struct prn_job_model new = {.path = model->path};
    const struct prn_check_pair pair = {.model = model, .old = old->shown};
    struct prn_profile *before;
    struct prn_profile *after;
    int code = prn_profile_read_json(old->path, &before, err);
    if (code < 0)
        return code;
    code = before->recorded
               ? prn_fail(err, PRONY_EUNSUPPORTED, "'%s' is a recorded program", old->path)
               : measure_models(s, model, &new, 1, &after, err);
    if (code == 0) {
        code = save_report(s, model, after, err);
        if (code == 0)
            code = prn_check_add_saved(s->check, &pair, before, after, s->options->force, err);
        prn_profile_free(after);
    }
    prn_profile_free(before);
    return code;
}

/* A backend that was asked for and ran neither version is a failure, as is one without others. */
static void note_failures(struct session *s, const struct prn_check_model *model)
{
    const struct prn_check_result *result = &s->check->results[s->check->n_results - 1];
    size_t failed = 0;
    size_t measured = 0;
    for (size_t i = 0; i < result->n_rows; i++) {
        const struct prn_check_row *row = &result->rows[i];
        if (row->figure != PRN_CHECK_FIGURE_TIME)
            continue;
        failed += row->status == PRN_CHECK_STATUS_FAILED;
        measured += row->status != PRN_CHECK_STATUS_FAILED;
        if (row->status == PRN_CHECK_STATUS_FAILED && !s->failure)
            s->failure = row->reason;
    }
    if (model->backends.n > 0 || measured == 0)
        s->n_asked_failed += failed;
}

/* In a file of several models, a fault must say of which. */
static int fail_of(const struct session *s, const struct prn_check_model *model, int code,
                   struct prony_error *err)
{
    return code < 0 && code != PRONY_ECANCELED && s->config.n_models > 1
               ? prn_fail_in(err, code, "%s", model->name)
               : code;
}

static int check_model(struct session *s, size_t index, struct prony_error *err)
{
    const struct prn_check_model *model = &s->config.models[index];
    const struct old_version *old = &s->olds[index];
    int code = model->old.source == PRN_CHECK_SOURCE_REPORT ? check_saved(s, model, old, err)
                                                            : check_pair(s, model, old, err);
    if (code == 0)
        note_failures(s, model);
    return fail_of(s, model, code, err);
}

/* ---- Reports ---- */

static int write_report(const struct session *s, const char *path, enum prn_check_format format,
                        struct prony_error *err)
{
    const struct check_options *o = s->options;
    struct prn_look look = prn_output_look(path, false, (enum prn_colour)o->colour);
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    int code = prn_check_report(s->check, format, &look, &out, err);
    if (code == 0)
        code = prn_output(path, &out, err);
    prn_buffer_release(&out);
    return code;
}

static int write_reports(const struct session *s, struct prony_error *err)
{
    const struct check_options *o = s->options;
    const struct {
        const char *path;
        enum prn_check_format format;
    } files[] = {{o->markdown, PRN_CHECK_FORMAT_MARKDOWN},
                 {o->json, PRN_CHECK_FORMAT_JSON},
                 {o->junit, PRN_CHECK_FORMAT_JUNIT}};
    int code = 0;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(files) && code == 0; i++)
        if (files[i].path)
            code = write_report(s, files[i].path, files[i].format, err);
    /* The last name is another one of the second. */
    int format = o->format > PRN_CHECK_FORMAT_JUNIT ? PRN_CHECK_FORMAT_MARKDOWN : o->format;
    return code == 0 ? write_report(s, o->output, (enum prn_check_format)format, err) : code;
}

static int outcome(const struct session *s, struct prony_error *err)
{
    const struct prn_check *check = s->check;
    size_t broken = check->counts[PRN_CHECK_STATUS_REGRESSION];
    size_t not_shown = check->counts[PRN_CHECK_STATUS_NOT_SHOWN];
    if (broken > 0)
        prn_announce("regression", "%zu %s broken", broken,
                     broken == 1 ? "limit is" : "limits are");
    else if (prn_check_regressed(check))
        prn_announce("regression", "%zu %s not shown to hold, and --strict is given", not_shown,
                     not_shown == 1 ? "limit is" : "limits are");
    if (prn_check_regressed(check))
        return PRN_OUTCOME_REGRESSION;
    if (s->n_asked_failed > 0)
        return prn_fail(err, PRONY_ERUNTIME, "%zu %s failed; the first: %s", s->n_asked_failed,
                        s->n_asked_failed == 1 ? "row" : "rows", s->failure);
    return 0;
}

/* ---- The command ---- */

/* Faults of what is written show before minutes of measuring. */
static int check_paths(const struct check_options *o, struct prony_error *err)
{
    const char *const files[] = {o->output, o->markdown, o->json, o->junit};
    int code = 0;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(files) && code == 0; i++) {
        code = prn_output_check(files[i], err);
        if (code == 0)
            code = prn_output_spares(files[i], o->config, err);
    }
    if (code == 0 && o->reports && mkdir(o->reports, 0777) < 0 && errno != EEXIST)
        code = prn_fail_errno(err, errno, "create folder", o->reports);
    return code;
}

/* Leaves the models that were named; all without any. */
static int select_models(struct session *s, const struct prn_strings *names,
                         struct prony_error *err)
{
    struct prn_check_config *config = &s->config;
    size_t n = 0;
    if (names->n == 0)
        return 0;
    for (size_t k = 0; k < names->n; k++) {
        size_t i = 0;
        while (i < config->n_models && strcmp(config->models[i].name, names->items[k]) != 0)
            i++;
        if (i == config->n_models)
            return prn_fail(err, PRONY_EUSAGE, "'%s' has no model '%s'", config->path,
                            names->items[k]);
    }
    for (size_t i = 0; i < config->n_models; i++) {
        bool named = false;
        for (size_t k = 0; k < names->n; k++)
            named |= strcmp(config->models[i].name, names->items[k]) == 0;
        if (named)
            config->models[n++] = config->models[i];
    }
    config->n_models = n;
    return 0;
}

/* All versions must be there before the first is measured. */
static int prepare_all(struct session *s, struct prony_error *err)
{
    int code = 0;
    s->olds = PRN_ARENA_ARRAY(&s->config.arena, s->config.n_models, struct old_version);
    if (!s->olds)
        return prn_fail_memory(err);
    for (size_t i = 0; i < s->config.n_models && code == 0; i++) {
        const struct prn_check_model *model = &s->config.models[i];
        code = fail_of(s, model, prepare_versions(s, model, &s->olds[i], err), err);
    }
    return code;
}

static int check_all(struct session *s, struct prony_error *err)
{
    int code = prn_check_new(s->config.path, s->config.n_models, &s->check, err);
    if (code < 0)
        return code;
    s->check->strict = s->options->strict;
    prn_signals_catch();
    code = prepare_all(s, err);
    for (size_t i = 0; i < s->config.n_models && code == 0; i++)
        code = check_model(s, i, err);
    if (code == 0)
        code = write_reports(s, err);
    if (code == 0)
        code = outcome(s, err);
    prn_check_free(s->check);
    return code;
}

static int check_run(const void *opaque, const struct prn_strings *arguments,
                     struct prony_error *err)
{
    const struct check_options *o = opaque;
    struct session s = {.options = o};
    int code = prn_libraries_use(&o->libraries, NULL, err);
    if (code == 0)
        code = check_paths(o, err);
    if (code == 0)
        code = prn_check_config_read(o->config, &s.config, err);
    if (code < 0)
        return code;
    code = select_models(&s, arguments, err);
    if (code == 0)
        code = apply_options(&s, err);
    if (code == 0)
        code = check_all(&s, err);
    if (s.has_scratch)
        prn_scratch_close(&s.scratch);
    prn_check_config_release(&s.config);
    return code;
}

static void check_defaults(void *opaque)
{
    struct check_options *o = opaque;
    o->config = "prony.yml";
    o->precision = NAN;
    o->max_time_s = NAN;
}

static const char *const formats[] = {"text", "md", "json", "junit", "markdown", NULL};

#define FIELD(name) offsetof(struct check_options, name)
static const struct prn_option options_table[] = {
    PRN_OPTION(TEXT, 'c', "config", "FILE", FIELD(config),
               "what to check, and the limits (default prony.yml)"),
    PRN_OPTION_HEADING("The old version"),
    PRN_OPTION(TEXT, 0, "git-base", "REV", FIELD(git_base),
               "take old versions from this revision, whatever the file says"),
    PRN_OPTION(LIST, 0, "baseline", "[NAME=]FILE", FIELD(baselines),
               "a profile of the old version, saved as JSON, where the old model is gone; "
               "repeatable"),
    PRN_OPTION(FLAG, 0, "force", NULL, FIELD(force),
               "judge by a baseline of another machine, or of another state of it"),
    PRN_OPTION_HEADING("How to measure"),
    PRN_OPTION(COUNT, 0, "launches", "N", FIELD(launches),
               "fresh processes per row, overriding the file", PRN_OPTION_RANGE(1, 1000)),
    PRN_OPTION(COUNT, 0, "repeats", "N", FIELD(repeats),
               "exactly N timed runs per row, overriding the file", PRN_OPTION_RANGE(1, 1e7)),
    PRN_OPTION(PERCENT, 0, "precision", "P", FIELD(precision),
               "stop when the interval of a median is within ±P, overriding the file",
               PRN_OPTION_RANGE(1e-4, 1)),
    PRN_OPTION(SECONDS, 0, "max-time", "TIME", FIELD(max_time_s),
               "measure each model for at most this time, overriding the file",
               PRN_OPTION_RANGE(0.1, 1e6)),
    PRN_LIBRARY_ROW(struct check_options),
    PRN_OPTION_HEADING("Verdict and reports"),
    PRN_OPTION(FLAG, 0, "strict", NULL, FIELD(strict),
               "exit with status 3 also when a limit is not shown to hold"),
    PRN_OPTION(CHOICE, 0, "format", "FORMAT", FIELD(format),
               "text, md (or markdown) for a comment, json or junit (default text)",
               .choices = formats),
    PRN_OPTION(TEXT, 'o', "output", "FILE", FIELD(output),
               "write to FILE instead of standard output"),
    PRN_OPTION(TEXT, 0, "markdown", "FILE", FIELD(markdown), "also write Markdown to FILE"),
    PRN_OPTION(TEXT, 0, "json", "FILE", FIELD(json), "also write JSON to FILE"),
    PRN_OPTION(TEXT, 0, "junit", "FILE", FIELD(junit), "also write JUnit XML to FILE"),
    PRN_OPTION(TEXT, 0, "reports", "DIR", FIELD(reports),
               "also save each model's profile, with every sample, as DIR/NAME.json"),
    PRN_OPTION(CHOICE, 0, "color", "WHEN", FIELD(colour), PRN_COLOUR_HELP, .choices = prn_colours),
    {0},
};

const struct prn_command prn_command_check = {
    .name = "check",
    .arguments = "[NAME...]",
    .summary = "fail when a new version of a model is slower, larger or different",
    .description =
        "Reads prony.yml: models, where their old versions come from (a file, or a git revision), "
        "backends, and limits such as 'time: +3%'. Measures old and new versions side by side, as "
        "'prony profile OLD NEW' does, and says which limits hold. NAMEs choose some of the "
        "models.\n"
        "A limit is broken only when the 95 % interval of the change lies beyond it. Where the "
        "interval includes the limit, the report says so and what would help.\n"
        "The exit status is 3 when a limit is broken, 0 when none is, 1 when something can't be "
        "read or measured, 2 for misuse, 130 after Ctrl-C.",
    .examples = "# what prony.yml in this folder says\n"
                "prony check\n"
                "# against the main branch, with files for the pages of continuous integration\n"
                "prony check --git-base origin/main --junit check.xml --markdown check.md\n"
                "# the old model is gone, but its profile was kept\n"
                "prony check --baseline resnet=resnet-1.2.json\n",
    .options = options_table,
    .options_size = sizeof(struct check_options),
    .defaults = check_defaults,
    .min_arguments = 0,
    .max_arguments = PRN_CHECK_MODELS_MAX,
    .run = check_run,
};
