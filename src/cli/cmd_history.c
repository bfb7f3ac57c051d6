/* `prony history`: keeps reports, and shows how times changed. */
#include "cli/command.h"

#include "cli/comparison.h"
#include "cli/output.h"
#include "report/profile/json.h"
#include "report/trend/report.h"
#include "store/archive.h"
#include "store/git.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILES_MAX 1000

struct history_options {
    const char *db;
    int format; /* enum prn_report_format */
    int colour; /* enum prn_colour */
    const char *output;
    bool verbose;
    const char *model, *branch, *commit, *machine, *backend;
    bool no_git;
    int64_t last;        /* 0: not given */
    int64_t keep;        /* -1: not given */
    double older_than_s; /* NAN: not given */
    bool dry_run;
    struct prn_comparison_options comparison;
};

enum action { ADD, LIST, SHOW, COMPARE, PRUNE, N_ACTIONS };

static const struct {
    const char *name;
    size_t least, most; /* arguments */
    const char *arguments;
} actions[N_ACTIONS] = {
    [ADD] = {"add", 1, FILES_MAX, "REPORT.json..."},
    [LIST] = {"list", 0, 0, ""},
    [SHOW] = {"show", 0, 1, "[MODEL]"},
    [COMPARE] = {"compare", 2, 2, "A B"},
    [PRUNE] = {"prune", 0, 0, ""},
};

/* ---- Misuse ---- */

#define FOR(action) (1U << (action))

/* Options that mean something to some actions only. */
static int check_options(const struct history_options *o, enum action action,
                         struct prony_error *err)
{
    const unsigned reading = FOR(LIST) | FOR(SHOW) | FOR(COMPARE) | FOR(PRUNE);
    const struct {
        const char *name;
        bool given;
        unsigned actions;
    } uses[] = {
        {"commit", o->commit, FOR(ADD)},
        {"machine", o->machine, FOR(ADD)},
        {"no-git", o->no_git, FOR(ADD)},
        {"branch", o->branch, FOR(ADD) | FOR(SHOW)},
        {"backend", o->backend, FOR(SHOW)},
        {"last", o->last > 0, FOR(SHOW)},
        {"keep", o->keep >= 0, FOR(PRUNE)},
        {"older-than", !isnan(o->older_than_s), FOR(PRUNE)},
        {"dry-run", o->dry_run, FOR(PRUNE)},
        {"fail-over", !isnan(o->comparison.fail_over), FOR(COMPARE)},
        {"force", o->comparison.force, FOR(COMPARE)},
        {"format", o->format != PRN_REPORT_FORMAT_TEXT, reading},
        {"output", o->output, reading},
        {"verbose", o->verbose, FOR(SHOW) | FOR(COMPARE)},
        {"model", o->model, FOR(ADD) | FOR(LIST) | FOR(COMPARE) | FOR(PRUNE)},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(uses); i++)
        if (uses[i].given && !(uses[i].actions & FOR(action)))
            return prn_fail(err, PRONY_EUSAGE, "--%s cannot be combined with '%s'", uses[i].name,
                            actions[action].name);
    if (o->format == PRN_REPORT_FORMAT_HTML && action != SHOW && action != COMPARE)
        return prn_fail(err, PRONY_EUSAGE, "--format html cannot be combined with '%s'",
                        actions[action].name);
    if (o->commit && !prn_git_is_commit(o->commit))
        return prn_fail(err, PRONY_EUSAGE,
                        "--commit: '%s' is not a commit, which has 4 to 64 hexadecimal digits",
                        o->commit);
    if (action == PRUNE && o->keep < 0 && isnan(o->older_than_s))
        return prn_fail(err, PRONY_EUSAGE, "'prune' needs --keep or --older-than");
    return 0;
}

static int choose_action(const struct prn_strings *arguments, enum action *ret_action,
                         struct prony_error *err)
{
    size_t i = 0;
    while (i < N_ACTIONS && strcmp(arguments->items[0], actions[i].name) != 0)
        i++;
    if (i == N_ACTIONS)
        return prn_fail(err, PRONY_EUSAGE, "'%s' is not one of add, list, show, compare and prune",
                        arguments->items[0]);
    size_t n = arguments->n - 1;
    if (n < actions[i].least)
        return prn_fail(err, PRONY_EUSAGE, "'%s' needs %s", actions[i].name, actions[i].arguments);
    if (n > actions[i].most)
        return prn_fail(err, PRONY_EUSAGE, "'%s' takes no argument '%s'", actions[i].name,
                        arguments->items[1 + actions[i].most]);
    *ret_action = (enum action)i;
    return 0;
}

/* ---- Adding ---- */

/* A report that was read, with what its origin points to. */
struct loaded {
    struct prn_buffer json;
    struct prn_profile *profile;
    struct prn_git git;
    char *commit; /* as given, in small letters */
};

static int read_file(const char *path, struct prn_buffer *out, struct prony_error *err)
{
    bool input = strcmp(path, "-") == 0;
    int fd = input ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return prn_fail_errno(err, errno, "open", path);
    int code = prn_buffer_read_fd(out, fd, input ? "standard input" : path, err);
    if (!input)
        close(fd);
    return code;
}

/* The repository of the model, or else of the current folder. */
static void find_commit(const struct prn_profile *profile, struct prn_git *git)
{
    char folder[PATH_MAX];
    const char *path = profile->models->path;
    *git = (struct prn_git){.committed_s = -1};
    if (path && strlen(path) < sizeof folder && access(path, F_OK) == 0) {
        memcpy(folder, path, strlen(path) + 1);
        prn_git_read(dirname(folder), git);
    }
    if (!git->commit[0])
        prn_git_read(".", git);
}

static int set_origin(const struct history_options *o, struct loaded *l,
                      struct prn_archive_report *report, struct prony_error *err)
{
    if (o->commit) {
        l->commit = strdup(o->commit);
        if (!l->commit)
            return prn_fail_memory(err);
        for (char *c = l->commit; *c; c++)
            *c = (char)tolower((unsigned char)*c);
        report->commit = l->commit;
    } else if (!o->no_git) {
        int64_t created_ms = prn_archive_created_ms(report->profile);
        find_commit(report->profile, &l->git);
        /* What is checked out now isn't what was measured before it was committed. */
        if (l->git.commit[0] && created_ms >= 0 && created_ms / 1000 < l->git.committed_s)
            prn_warn("'%s' is older than the commit that is checked out, and is added without one; "
                     "--commit names it",
                     report->name);
        else if (l->git.commit[0])
            report->commit = l->git.commit;
        if (report->commit && l->git.branch[0])
            report->branch = l->git.branch;
        report->changed = report->commit && l->git.changed;
    }
    if (o->branch)
        report->branch = o->branch;
    report->model = o->model;
    report->machine = o->machine;
    return 0;
}

static int load_report(const struct history_options *o, const char *path, struct loaded *l,
                       struct prn_archive_report *report, struct prony_error *err)
{
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    l->json = PRN_BUFFER_INIT(PRN_PROFILE_FILE_MAX);
    int code = read_file(path, &l->json, err);
    if (code == 0)
        code =
            prn_profile_parse_json(prn_buffer_text(&l->json), l->json.len, name, &l->profile, err);
    if (code < 0)
        return code;
    *report = (struct prn_archive_report){
        .name = name, .json = l->json.data, .len = l->json.len, .profile = l->profile};
    code = prn_archive_check(report, err);
    return code < 0 ? code : set_origin(o, l, report, err);
}

/* "added a.json as report 3: resnet50.onnx, commit 1234567 (main)" */
static int tell_added(const struct prn_archive_report *report, struct prn_buffer *out,
                      struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    const char *model = NULL;
    int code = prn_archive_model(report, &report->profile->results[0], &arena, &model, err);
    if (code == 0 && report->known)
        prn_buffer_printf(out, "%s was there already, as report %lld\n", report->name,
                          (long long)report->id);
    else if (code == 0) {
        prn_buffer_printf(out, "added %s as report %lld: %s", report->name, (long long)report->id,
                          model);
        if (report->commit)
            prn_buffer_printf(out, ", commit %.*s%s", PRN_COMMIT_SHOWN, report->commit,
                              report->changed ? " with changes" : "");
        if (report->branch)
            prn_buffer_printf(out, " (%s)", report->branch);
        prn_buffer_add_char(out, '\n');
    }
    prn_arena_release(&arena);
    return code;
}

static int add_loaded(const struct history_options *o, struct prn_archive_report *reports, size_t n,
                      struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    struct prn_archive *archive = NULL;
    int code = prn_archive_open(o->db, PRN_ARCHIVE_WRITE, &archive, err);
    if (code == 0)
        code = prn_archive_add(archive, reports, n, err);
    prn_archive_close(archive);
    for (size_t i = 0; i < n && code == 0; i++)
        code = tell_added(&reports[i], &out, err);
    if (code == 0)
        code = prn_output(NULL, &out, err);
    prn_buffer_release(&out);
    return code;
}

/* All are read before the first is added, so that one that is no report leaves nothing behind. */
static int history_add(const struct history_options *o, const struct prn_strings *files,
                       struct prony_error *err)
{
    struct loaded *loaded = calloc(files->n, sizeof *loaded);
    struct prn_archive_report *reports = calloc(files->n, sizeof *reports);
    int code = loaded && reports ? 0 : prn_fail_memory(err);
    for (size_t i = 0; i < files->n && code == 0; i++)
        code = load_report(o, files->items[i], &loaded[i], &reports[i], err);
    if (code == 0)
        code = add_loaded(o, reports, files->n, err);
    for (size_t i = 0; loaded && i < files->n; i++) {
        prn_buffer_release(&loaded[i].json);
        prn_profile_free(loaded[i].profile);
        free(loaded[i].commit);
    }
    free(loaded);
    free(reports);
    return code;
}

/* ---- Showing ---- */

static int history_show(const struct history_options *o, struct prn_archive *archive,
                        const char *model, const struct prn_look *look, struct prn_buffer *out,
                        struct prony_error *err)
{
    const struct prn_archive_query query = {
        .model = model, .backend = o->backend, .branch = o->branch, .last = o->last};
    struct prn_trend *trend = NULL;
    int code = prn_archive_trend(archive, &query, &trend, err);
    if (code == 0)
        code = prn_trend_report(trend, (enum prn_report_format)o->format, look, out, err);
    prn_trend_free(trend);
    return code;
}

static int history_list(const struct history_options *o, struct prn_archive *archive,
                        const struct prn_look *look, struct prn_buffer *out,
                        struct prony_error *err)
{
    const struct prn_archive_query query = {.model = o->model};
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 28);
    struct prn_trend_list list;
    int code = prn_archive_list(archive, &query, &arena, &list, err);
    if (code == 0)
        code = prn_trend_list_report(&list, (enum prn_report_format)o->format, look, out, err);
    prn_arena_release(&arena);
    return code;
}

static int history_prune(const struct history_options *o, struct prn_archive *archive,
                         struct prn_buffer *out, struct prony_error *err)
{
    const struct prn_archive_prune prune = {
        .keep = o->keep, .older_than_s = o->older_than_s, .model = o->model, .dry = o->dry_run};
    struct prn_pruned pruned;
    int code = prn_archive_prune(archive, &prune, &pruned, err);
    if (code == 0)
        code = prn_pruned_report(&pruned, (enum prn_report_format)o->format, out, err);
    return code;
}

/* ---- Comparing ---- */

/* A side of a comparison; both buffers and the profile are the caller's, also after a failure. */
static int load_side(struct prn_archive *archive, const char *which, const char *model,
                     struct prn_buffer *name, struct prn_profile **ret_profile,
                     struct prony_error *err)
{
    struct prn_buffer json = PRN_BUFFER_INIT(PRN_PROFILE_FILE_MAX);
    int64_t id = 0;
    int code = prn_archive_find(archive, which, model, &id, err);
    if (code == 0)
        code = prn_archive_report(archive, id, &json, name, err);
    if (code == 0)
        code = prn_profile_parse_json(prn_buffer_text(&json), json.len, prn_buffer_text(name),
                                      ret_profile, err);
    prn_buffer_release(&json);
    return code;
}

static int history_compare(const struct history_options *o, struct prn_archive *archive,
                           const char *const *which, const struct prn_look *look,
                           struct prony_error *err)
{
    struct prn_buffer names[2] = {PRN_BUFFER_INIT(4096), PRN_BUFFER_INIT(4096)};
    struct prn_profile *profiles[2] = {NULL, NULL};
    struct prn_comparison_side sides[2];
    int code = 0;
    for (int i = 0; i < 2 && code == 0; i++) {
        code = load_side(archive, which[i], o->model, &names[i], &profiles[i], err);
        sides[i] = (struct prn_comparison_side){prn_buffer_text(&names[i]), profiles[i]};
    }
    if (code == 0)
        code = prn_comparison_show(&o->comparison, sides, 2, (enum prn_report_format)o->format,
                                   look, o->output, err);
    for (int i = 0; i < 2; i++) {
        prn_profile_free(profiles[i]);
        prn_buffer_release(&names[i]);
    }
    return code;
}

/* ---- The command ---- */

static int act(const struct history_options *o, enum action action,
               const struct prn_strings *arguments, struct prony_error *err)
{
    struct prn_look look = prn_output_look(o->output, o->verbose, (enum prn_colour)o->colour);
    look.more = "--verbose, --format html";
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    struct prn_archive *archive = NULL;
    int code = prn_archive_open(o->db, action == PRUNE ? PRN_ARCHIVE_WRITE : PRN_ARCHIVE_READ,
                                &archive, err);
    if (code == 0 && action == COMPARE) {
        code = history_compare(o, archive, arguments->items, &look, err);
    } else if (code == 0) {
        if (action == LIST)
            code = history_list(o, archive, &look, &out, err);
        else if (action == PRUNE)
            code = history_prune(o, archive, &out, err);
        else
            code = history_show(o, archive, arguments->n > 0 ? arguments->items[0] : NULL, &look,
                                &out, err);
        if (code == 0)
            code = prn_output(o->output, &out, err);
    }
    prn_archive_close(archive);
    prn_buffer_release(&out);
    return code;
}

static int history_run(const void *options, const struct prn_strings *arguments,
                       struct prony_error *err)
{
    const struct history_options *o = options;
    enum action action = ADD;
    int code = choose_action(arguments, &action, err);
    if (code == 0)
        code = check_options(o, action, err);
    if (code == 0)
        code = prn_output_check_format((enum prn_report_format)o->format, err);
    if (code < 0)
        return code;
    /* A limit on the size of files is an error of writing like a full disk. */
    signal(SIGXFSZ, SIG_IGN);
    struct prn_strings rest = {arguments->items + 1, arguments->n - 1};
    return action == ADD ? history_add(o, &rest, err) : act(o, action, &rest, err);
}

static void history_defaults(void *options)
{
    struct history_options *o = options;
    o->keep = -1;
    o->older_than_s = NAN;
    o->comparison.fail_over = NAN;
}

#define FIELD(name) offsetof(struct history_options, name)

static const struct prn_option options_table[] = {
    PRN_OPTION(TEXT, 0, "db", "FILE", FIELD(db),
               "the history, or the state folder of a service, which can be read only (default "
               "~/.local/state/prony/history.db)"),
    PRN_OPTION(TEXT, 0, "model", "NAME", FIELD(model),
               "add: what the model is called (default: the name of its file); list, compare, "
               "prune: only this one"),
    PRN_OPTION(TEXT, 0, "branch", "NAME", FIELD(branch),
               "add: the branch (default: as git says); show: only this one"),
    PRN_OPTION(CHOICE, 0, "format", "FORMAT", FIELD(format),
               "text, json, csv, md, or html: a page with the curve, of show and compare (default "
               "text)",
               .choices = prn_report_formats),
    PRN_OPTION(TEXT, 'o', "output", "FILE", FIELD(output),
               "write to FILE instead of standard output"),
    PRN_OPTION(FLAG, 'v', "verbose", NULL, FIELD(verbose),
               "show: every report, and how changes are found; compare: everything"),
    PRN_OPTION(CHOICE, 0, "color", "WHEN", FIELD(colour), PRN_COLOUR_HELP, .choices = prn_colours),
    PRN_OPTION_HEADING("Adding"),
    PRN_OPTION(TEXT, 0, "commit", "HASH", FIELD(commit),
               "the commit that was measured (default: what is checked out in the model's folder, "
               "or else here)"),
    PRN_OPTION(FLAG, 0, "no-git", NULL, FIELD(no_git), "don't ask git"),
    PRN_OPTION(TEXT, 0, "machine", "NAME", FIELD(machine),
               "what the machine is called; only reports of like machines are joined (default: its "
               "processor and cores)"),
    PRN_OPTION_HEADING("Showing"),
    PRN_OPTION(TEXT, 0, "backend", "PATTERN", FIELD(backend),
               "only backends like this; * stands for anything"),
    PRN_OPTION(COUNT, 0, "last", "N", FIELD(last),
               "look at the last N reports of each series (default 500, the most)",
               PRN_OPTION_RANGE(1, PRN_CHANGES_MAX)),
    PRN_OPTION_HEADING("Comparing"),
    PRN_OPTION(PERCENT, 0, "fail-over", "PCT", FIELD(comparison.fail_over),
               "exit with status 3 when a row is slower by more than this, e.g. 5%, now fails, or "
               "is missing",
               PRN_OPTION_RANGE(0, 1000)),
    PRN_OPTION(FLAG, 0, "force", NULL, FIELD(comparison.force),
               "judge differences across machines and machine states too"),
    PRN_OPTION_HEADING("Pruning"),
    PRN_OPTION(COUNT, 0, "keep", "N", FIELD(keep), "keep the newest N reports of each series",
               PRN_OPTION_RANGE(0, 1e15)),
    PRN_OPTION(SECONDS, 0, "older-than", "TIME", FIELD(older_than_s),
               "remove only what was measured longer ago, such as 90d", PRN_OPTION_RANGE(0, 1e12)),
    PRN_OPTION(FLAG, 0, "dry-run", NULL, FIELD(dry_run), "only say what would be removed"),
    {0},
};

const struct prn_command prn_command_history = {
    .name = "history",
    .arguments = "add|list|show|compare|prune [ARGUMENT...]",
    .summary = "keep reports, and show when a model became slower or faster",
    .description =
        "Keeps reports of 'prony profile --format json' in a file, each with its commit.\n"
        "add REPORT.json... adds reports; adding one twice is not an error. list shows what "
        "is there. show MODEL says when the model's times changed, for each backend and kind "
        "of machine: a verdict, and a table with a chart. compare A B compares two reports as "
        "'prony report' does; A and B are report numbers, commits or branches (the newest "
        "report of each). prune removes old reports.\n"
        "Changes are found by E-divisive with a permutation test. Machines are kept apart.",
    .examples = "# measure, and keep it\n"
                "prony profile resnet50.onnx --format json -o today.json\n"
                "prony history add today.json\n"
                "# when did it become slower?\n"
                "prony history show resnet50.onnx\n"
                "prony history show resnet50.onnx --format html -o resnet50.html\n"
                "# what did that commit change?\n"
                "prony history compare 1a2b3c4 5d6e7f8\n"
                "# a year is enough, but keep the last ten of each\n"
                "prony history prune --older-than 365d --keep 10\n",
    .options = options_table,
    .options_size = sizeof(struct history_options),
    .defaults = history_defaults,
    .min_arguments = 1,
    .max_arguments = FILES_MAX + 1,
    .run = history_run,
};
