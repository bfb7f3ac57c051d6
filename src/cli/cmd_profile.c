/* `prony profile MODEL`: measures a model on backends and reports. */
#include "cli/command.h"
#include "cli/output.h"
#include "cli/progress.h"

#include "cli/libraries.h"
#include "cli/server.h"
#include "exec/drive.h"
#include "measure/machine/machine.h"
#include "measure/ops/ops.h"
#include "measure/resume.h"
#include "record/remote_job.h"
#include "report/load/report.h"
#include "report/profile/json.h"
#include "report/profile/report.h"
#include "report/saved.h"
#include "store/machine.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

#define MODELS_ARENA_BYTES ((size_t)1 << 20)

struct profile_options {
    struct prn_strings backends, dims, shapes, inputs, rates;
    const char *inputs_folder, *hardware_file, *slo, *output, *resume, *reference;
    int64_t launches, repeats, warmups, seed, concurrency;
    double precision, difference, max_time_s, timeout_s, duration_s, tolerance;
    bool ops, memory, fail_on_mismatch, same_outputs, verbose;
    int format, table, colour;
    struct prn_server_options server;
    struct prn_library_files libraries;
};

/* What the callbacks of a job need to know. */
struct session {
    const char *save_path; /* where the profile is kept while it is measured; NULL: nowhere */
    bool warned;
};

/* Keeps what was measured so far, so that a power cut costs one round of launches at most. */
static void save_progress(void *context, const struct prn_profile *profile)
{
    struct session *session = context;
    struct prony_error err = {0};
    sigset_t former = prn_signals_hold();
    int code = prn_output_profile(session->save_path, profile, PRN_REPORT_FORMAT_JSON,
                                  PRN_REPORT_TABLE_RESULTS, NULL, &err);
    prn_signals_release(&former);
    if (code < 0 && !session->warned)
        prn_warn("cannot save intermediate results: %s", err.text);
    session->warned |= code < 0;
}

/* Where a profile is kept while it is measured: in the file that it goes to if that is JSON, or in
 * the one that it is resumed from. Devices and pipes can't be written twice. */
static const char *save_path_of(const struct profile_options *o)
{
    if (o->output && o->format == PRN_REPORT_FORMAT_JSON)
        return prn_output_is_file(o->output) ? o->output : NULL;
    return o->resume && prn_output_is_file(o->resume) ? o->resume : NULL;
}

static struct prn_texts texts(const struct prn_strings *strings)
{
    return (struct prn_texts){strings->items, strings->n};
}

static int load_failure(const struct prn_profile *profile, bool asked, struct prony_error *err)
{
    const struct prn_result *first = NULL;
    bool any = false;
    for (size_t i = 0; i < profile->n_results; i++) {
        const struct prn_result *r = &profile->results[i];
        any = any || (r->load && r->load->error_code == 0);
        /* After Ctrl-C there is what was measured before. */
        if (!first && r->load && r->load->error_code && r->load->error_code != PRONY_ECANCELED)
            first = r;
    }
    if (!first || (any && !asked))
        return 0;
    return prn_fail(err, first->load->error_code, "'%s' failed under load: %s", first->name,
                    first->load->error);
}

/* A backend that was asked for and failed is a row of the report, and a non-zero status for whoever
 * scripts this. One that nobody asked for is only a row as long as others have something to show,
 * and so is one that Ctrl-C came before. */
static int failure(const struct prn_profile *profile, bool asked, struct prony_error *err)
{
    const struct prn_result *first = NULL;
    const struct prn_result *missed = NULL;
    size_t failed = 0;
    bool any = false;
    for (size_t i = 0; i < profile->n_results; i++) {
        const struct prn_result *r = &profile->results[i];
        any = any || r->error_code == 0;
        if (r->error_code == PRONY_ECANCELED) {
            missed = missed ? missed : r;
        } else if (r->error_code) {
            first = first ? first : r;
            failed++;
        }
    }
    if (first && (asked || !any)) {
        /* What a runtime finds wrong with an option is no misuse of the command. */
        int code = first->error_code == PRONY_EUSAGE ? PRONY_EUNAVAILABLE : first->error_code;
        return prn_fail(err, code, "%zu of %zu %s failed; '%s': %s", failed, profile->n_results,
                        profile->n_points > 1 ? "rows" : "backends", first->name, first->error);
    }
    if (missed && !any)
        return prn_fail(err, PRONY_ECANCELED, "%s", missed->error);
    return load_failure(profile, asked, err);
}

static bool differs_under_load(const struct prn_load *load)
{
    bool differs = false;
    for (size_t i = 0; load && i < load->n_rows; i++)
        differs |= (load->rows[i].flags & PRN_LOAD_FLAG_MISMATCH) != 0;
    return differs;
}

static int fail_on_mismatch(const struct prn_profile *profile)
{
    size_t n = 0;
    const char *first = NULL;
    for (size_t i = 0; i < profile->n_results; i++) {
        const struct prn_result *r = &profile->results[i];
        if (!(r->flags & PRN_FLAG_MISMATCH) && !differs_under_load(r->load))
            continue;
        first = n++ == 0 ? r->name : first;
    }
    if (n == 0)
        return 0;
    prn_announce("mismatch", "outputs differ on %zu of %zu %s; the first is '%s'", n,
                 profile->n_results, profile->n_points > 1 ? "rows" : "backends", first);
    return PRN_OUTCOME_MISMATCH;
}

/* With --same-outputs, models that give something else are as wrong as backends are. */
static int fail_on_models(const struct prn_profile *profile)
{
    for (size_t i = 0; i < profile->n_points; i++) {
        const struct prn_point *point = &profile->points[i];
        if (point->outputs_differing == 0)
            continue;
        prn_announce("mismatch", "outputs of model '%s' differ from those of '%s'",
                     profile->models[i % profile->n_models].name, profile->models[0].name);
        return PRN_OUTCOME_MISMATCH;
    }
    return 0;
}

static int read_load(const struct profile_options *o, struct prn_load_settings *load,
                     struct prony_error *err)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < o->rates.n; i++)
        code = prn_load_parse_rates(o->rates.items[i], load, err);
    if (code == 0 && o->slo)
        code = prn_load_parse_slo(o->slo, load, err);
    load->workers = o->concurrency;
    load->duration_s = o->duration_s;
    return code == 0 ? prn_load_check(load, err) : code;
}

/* FILE, or NAME=FILE unless a file is called that. */
static struct prn_job_model model_of(const char *text, struct prn_arena *arena)
{
    const char *equals = strchr(text, '=');
    struct prn_job_model model = {.path = text};
    if (equals && equals > text && access(text, F_OK) != 0) {
        model.name = prn_arena_strndup(arena, text, (size_t)(equals - text));
        model.path = equals + 1;
    }
    return model;
}

static int read_models(const struct profile_options *o, const struct prn_strings *arguments,
                       struct prn_arena *arena, struct prn_job *job, struct prony_error *err)
{
    struct prn_job_model *models = PRN_ARENA_ARRAY(arena, arguments->n, struct prn_job_model);
    if (!models)
        return prn_fail_memory(err);
    for (size_t i = 0; i < arguments->n; i++) {
        models[i] = model_of(arguments->items[i], arena);
        int code = prn_output_spares(o->output, models[i].path, err);
        if (code < 0)
            return code;
    }
    job->models = models;
    job->n_models = arguments->n;
    return 0;
}

static struct prn_job job_of(const struct profile_options *o)
{
    return (struct prn_job){
        .backends = texts(&o->backends),
        .dims = texts(&o->dims),
        .shapes = texts(&o->shapes),
        .inputs = texts(&o->inputs),
        .inputs_folder = o->inputs_folder,
        .hardware_file = o->hardware_file,
        .settings = {.seed = o->seed < 0 ? PRN_SEED_UNSET : (uint64_t)o->seed,
                     .precision = o->precision,
                     .smallest_difference = o->difference,
                     .tolerance = o->tolerance,
                     .reference = o->reference,
                     .launches = o->launches,
                     .repeats = o->repeats,
                     .warmups = o->warmups,
                     .max_time_s = o->max_time_s},
        .tolerance_by_model = isnan(o->tolerance) && !o->resume,
        .ops = o->ops,
        .memory = o->memory,
        .timeout_s = o->timeout_s,
        .cancelled = &prn_cancelled,
        .checkpoint = save_path_of(o) ? save_progress : NULL,
    };
}

/* Reports the finished profile, also to the file that it was resumed from. */
static int report(const struct profile_options *o, const struct session *session,
                  const struct prn_profile *profile, struct prony_error *err)
{
    int code = 0;
    struct prn_look look = prn_output_look(o->output, o->verbose, (enum prn_colour)o->colour);
    look.more = o->ops ? "--verbose, --format html" : "--verbose, --ops, --format html";
    if (session->save_path && session->save_path == o->resume)
        code = prn_output_profile(o->resume, profile, PRN_REPORT_FORMAT_JSON,
                                  PRN_REPORT_TABLE_RESULTS, NULL, err);
    if (code == 0)
        code = prn_output_profile(o->output, profile, (enum prn_report_format)o->format,
                                  (enum prn_report_table)o->table, &look, err);
    if (code == 0)
        /* Nobody knows any more who asked for what a saved profile has. */
        code = failure(profile, o->backends.n > 0 || o->resume, err);
    if (code == 0 && o->fail_on_mismatch)
        code = fail_on_mismatch(profile);
    return code == 0 && o->same_outputs ? fail_on_models(profile) : code;
}

static void announce_preset(void *context, const char *preset, size_t n)
{
    (void)context;
    prn_announce("note", "no backend was given; measuring on the %zu of the service's preset '%s'",
                 n, preset);
}

/* On the hosts of a service. What is lost on the way there is told after what was measured. */
static int run_there(const struct profile_options *o, const struct prn_job *job,
                     struct prn_profile **ret_profile, struct prony_error *lost,
                     struct prony_error *err)
{
    struct prn_remote_job remote = {.chosen = announce_preset};
    struct prn_server_shown shown = {0};
    struct prn_token *token = prn_token_new();
    if (!token)
        return prn_fail_memory(err);
    int code = prn_server_config(&o->server, token, &remote.config, err);
    if (code == 0) {
        prn_server_show(&remote.config, &shown);
        code = prn_remote_job_run(&remote, job, ret_profile, err);
        *lost = remote.lost;
    }
    prn_token_free(token);
    return code;
}

/* What 'prony machine' saved of this machine, if it did, tells how far from the limit operators
 * are.
 */
static int add_roofs(struct prn_profile *profile, struct prony_error *err)
{
    struct prn_machine *machine = PRN_ARENA_NEW(&profile->arena, struct prn_machine);
    if (!machine)
        return prn_fail_memory(err);
    struct prony_error reason;
    int code = prn_machine_load(&profile->arena, machine, &reason);
    if (code < 0 && code != PRONY_ENOENT && code != PRONY_EUSAGE)
        prn_warn("how far from the limit it is isn't told: %s", reason.text);
    if (code < 0)
        return 0;
    profile->machine = machine;
    prn_ops_roofs(profile);
    return 0;
}

static int profile_measure(const struct profile_options *o, const struct prn_job *prepared,
                           struct prony_error *err)
{
    struct prony_error lost = {0};
    struct session session = {.save_path = save_path_of(o)};
    struct prn_profile *profile = NULL;
    struct prn_job job = *prepared;
    job.context = &session;
    job.progress = prn_progress_shown();
    prn_signals_catch();
    int code = o->server.address ? run_there(o, &job, &profile, &lost, err)
                                 : prn_job_run(&job, &profile, err);
    prn_progress_end();
    if (code == 0 && job.ops && !o->server.address)
        code = add_roofs(profile, err);
    if (code == 0)
        code = report(o, &session, profile, err);
    if (code >= 0 && lost.code < 0)
        code = prn_fail(err, lost.code, "the measurement is incomplete: %s", lost.text);
    prn_profile_free(profile);
    return code;
}

/* An empty table after minutes of measuring would be a bad surprise. */
static int check_table(const struct profile_options *o, const struct prn_load_settings *load,
                       struct prony_error *err)
{
    enum prn_report_table table = (enum prn_report_table)o->table;
    const char *needs = NULL;
    if (table == PRN_REPORT_TABLE_LOAD)
        needs = prn_load_wanted(load) ? NULL : "--rate, --concurrency or --slo";
    else if (table == PRN_REPORT_TABLE_TRIALS)
        needs = load->percentile > 0 ? NULL : "--slo";
    else if (table != PRN_REPORT_TABLE_RESULTS)
        needs = o->ops ? NULL : "--ops";
    if (needs)
        return prn_fail(err, PRONY_EUSAGE, "--table %s needs %s", prn_report_tables[table], needs);
    return prn_output_check_table((enum prn_report_format)o->format, table, err);
}

/* Operators are found out about anew when the interrupted profile had them. */
static bool has_ops(const struct prn_profile *profile)
{
    for (size_t i = 0; profile && i < profile->n_results; i++)
        if (profile->results[i].ops)
            return true;
    return false;
}

static int profile_run(const void *opaque, const struct prn_strings *arguments,
                       struct prony_error *err)
{
    const struct profile_options *o = opaque;
    struct prn_job job = job_of(o);
    struct prn_profile *resume = NULL;
    struct prn_arena arena = PRN_ARENA_INIT(MODELS_ARENA_BYTES);
    int code = prn_server_check(&o->server, err);
    if (code == 0)
        code = prn_libraries_use(&o->libraries, o->server.address, err);
    if (code == 0 && o->memory && o->server.address)
        code = prn_fail(err, PRONY_EUSAGE, "--memory cannot be combined with --server");
    if (code == 0)
        code = read_load(o, &job.load, err);
    if (code == 0)
        code = prn_output_check_format((enum prn_report_format)o->format, err);
    if (code == 0)
        code = check_table(o, &job.load, err);
    if (code == 0)
        code = read_models(o, arguments, &arena, &job, err);
    if (code == 0)
        code = prn_output_check(o->output, err);
    if (code == 0 && o->resume && o->format != PRN_REPORT_FORMAT_JSON)
        code = prn_output_spares(o->output, o->resume, err);
    if (code == 0 && o->resume)
        code = prn_profile_read_json(o->resume, &resume, err);
    if (code == 0 && o->resume)
        code = prn_resume_check(resume, o->resume, err);
    /* A load isn't gone on with, it is measured again, or the file would lose what it has. */
    if (code == 0 && o->resume && prn_load_present(resume) && !prn_load_wanted(&job.load))
        code = prn_fail(err, PRONY_EUSAGE,
                        "'%s' has results under load; give --rate, --concurrency or --slo again",
                        o->resume);
    if (code == 0)
        code = prn_resume_settings(resume, &job.settings, err);
    job.resume = resume;
    job.ops |= has_ops(resume);
    if (code == 0)
        code = profile_measure(o, &job, err);
    prn_arena_release(&arena);
    prn_profile_free(resume);
    return code;
}

static void defaults(void *opaque)
{
    struct profile_options *o = opaque;
    /* What isn't given is a default, or that of the profile to resume. */
    o->precision = NAN;
    o->difference = NAN;
    o->tolerance = NAN;
    o->max_time_s = NAN;
    o->seed = -1;
    o->timeout_s = 120;
    o->warmups = -1;
}

#define FIELD(name) offsetof(struct profile_options, name)
static const struct prn_option options[] = {
    PRN_OPTION_HEADING("What to measure on"),
    PRN_OPTION(
        LIST, 'b', "backend", "[NAME=]SPEC", FIELD(backends),
        "[local/]SOFTWARE[key=value,...], repeatable, e.g. 'onnxrt-cpu[threads=2]' or, to sweep, "
        "'onnxrt-cpu[threads=1|2|4]' (default: every runtime found here; 'prony backends' lists "
        "them); with --server HARDWARE/SOFTWARE[...] (default: its preset 'all', or 'default'); "
        "NAME is what reports call it"),
    PRN_LIBRARY_ROW(struct profile_options),
    PRN_OPTION(TEXT, 0, "hardware-file", "FILE", FIELD(hardware_file),
               "YAML file with your own hardware and prices"),
    PRN_SERVER_ROWS(struct profile_options),
    PRN_OPTION_HEADING("Inputs"),
    PRN_OPTION(
        LIST, 0, "dim", "NAME=SIZE", FIELD(dims),
        "size of an open dimension, repeatable (default 1, and the report says so); a list to "
        "sweep, e.g. batch=1,2,4"),
    PRN_OPTION(LIST, 0, "shape", "INPUT=SIZES", FIELD(shapes),
               "shape of an input, repeatable, e.g. x=1x3x224x224, or x=1x3x224x224,8x3x224x224 to "
               "sweep"),
    PRN_OPTION(
        LIST, 0, "input", "INPUT=VALUE", FIELD(inputs),
        "ones, zeros, random, a number, or @FILE (.npy, .pb, .raw), repeatable (default: floats "
        "in [0,1), ids that fit their table, masks of ones)"),
    PRN_OPTION(TEXT, 0, "inputs", "DIR", FIELD(inputs_folder),
               "take inputs from DIR/input_0.pb, input_1.pb, ... (ONNX test data), except those "
               "given with --input"),
    PRN_OPTION(COUNT, 0, "seed", "N", FIELD(seed), "seed of random inputs (default 0)",
               PRN_OPTION_RANGE(0, 9e15)),
    PRN_OPTION_HEADING("How to measure"),
    PRN_OPTION(PERCENT, 0, "precision", "P", FIELD(precision),
               "stop when the 95 % interval of the median is within ±P (default 1%)",
               PRN_OPTION_RANGE(1e-4, 1)),
    PRN_OPTION(PERCENT, 0, "difference", "P", FIELD(difference),
               "smallest difference between backends that counts (default 0.5%)",
               PRN_OPTION_RANGE(0, 1)),
    PRN_OPTION(TEXT, 0, "reference", "SPEC", FIELD(reference),
               "the backend that outputs are compared with (default: the first that gives any)"),
    PRN_OPTION(PERCENT, 0, "tolerance", "P", FIELD(tolerance),
               "largest error of an output that counts as rounding, relative to the reference's "
               "largest value (default 0.1%; 5% for models with 8 bits or fewer)",
               PRN_OPTION_RANGE(0, 1)),
    PRN_OPTION(FLAG, 0, "fail-on-mismatch", NULL, FIELD(fail_on_mismatch),
               "exit with status 4 when outputs differ by more than that"),
    PRN_OPTION(FLAG, 0, "same-outputs", NULL, FIELD(same_outputs),
               "exit with status 4 when outputs of the models differ by more than that"),
    PRN_OPTION(COUNT, 0, "launches", "N", FIELD(launches),
               "fresh processes per backend (default: 5, up to 20 while precision needs them)",
               PRN_OPTION_RANGE(1, 1000)),
    PRN_OPTION(COUNT, 0, "repeats", "N", FIELD(repeats),
               "exactly N timed runs per backend, regardless of precision",
               PRN_OPTION_RANGE(1, 1e7)),
    PRN_OPTION(COUNT, 0, "warmups", "N", FIELD(warmups),
               "untimed runs per launch after the first one (default: until times settle)",
               PRN_OPTION_RANGE(0, 1e6)),
    PRN_OPTION(SECONDS, 0, "max-time", "TIME", FIELD(max_time_s),
               "stop measuring after this time, for each point of a sweep (default 60)",
               PRN_OPTION_RANGE(0.1, 1e6)),
    PRN_OPTION(SECONDS, 0, "timeout", "TIME", FIELD(timeout_s),
               "give up on a backend when loading or one run takes longer (default 120)",
               PRN_OPTION_RANGE(0.1, 1e6)),
    PRN_OPTION(
        FLAG, 0, "ops", NULL, FIELD(ops),
        "also show where the time goes, by operator and by node: one more launch per backend, "
        "with the runtime's profiler on"),
    PRN_OPTION(FLAG, 0, "memory", NULL, FIELD(memory),
               "also show where the memory goes, and which tensors are alive at its peak: one more "
               "launch per backend"),
    PRN_OPTION_HEADING("Under load"),
    PRN_OPTION(LIST, 0, "rate", "N/s", FIELD(rates),
               "requests that arrive at random, N per second, whether or not the last one is done; "
               "100/s, 6000/min, or several: 50/s,100/s; repeatable"),
    PRN_OPTION(COUNT, 0, "concurrency", "N", FIELD(concurrency),
               "requests that run at the same time (default 1); without --rate, each of N clients "
               "sends its next request when it has an answer",
               PRN_OPTION_RANGE(1, PRN_DRIVE_WORKERS_MAX)),
    PRN_OPTION(SECONDS, 0, "duration", "TIME", FIELD(duration_s),
               "how long to apply each rate (default 10)", PRN_OPTION_RANGE(0.1, 1e5)),
    PRN_OPTION(TEXT, 0, "slo", "pN=TIME", FIELD(slo),
               "find the highest rate at which this percentile of the latency, p50 to p99.9, stays "
               "within TIME, e.g. p99=20ms, in at most --max-time more per backend"),
    PRN_OPTION_HEADING("Report"),
    PRN_OPTION(CHOICE, 0, "format", "FORMAT", FIELD(format),
               "text, json, csv, md, or html: a page with charts (default text)",
               .choices = prn_report_formats),
    PRN_OPTION(
        CHOICE, 0, "table", "TABLE", FIELD(table),
        "the table in csv: results; with --ops ledger, operators, nodes, kernels or differences; "
        "with --rate, --concurrency or --slo load; with --slo trials (default results)",
        .choices = prn_report_tables),
    PRN_OPTION(FLAG, 'v', "verbose", NULL, FIELD(verbose),
               "text and md in full: all columns, inputs, and how each figure was obtained"),
    PRN_OPTION(CHOICE, 0, "color", "WHEN", FIELD(colour), PRN_COLOUR_HELP, .choices = prn_colours),
    PRN_OPTION(
        TEXT, 'o', "output", "FILE", FIELD(output),
        "write to FILE instead of standard output; as JSON it is kept up to date while measuring"),
    PRN_OPTION(TEXT, 0, "resume", "FILE", FIELD(resume),
               "resume the interrupted profile in FILE (JSON) with its settings, and keep it up to "
               "date"),
    {0},
};

const struct prn_command prn_command_profile = {
    .name = "profile",
    .arguments = "[NAME=]MODEL.onnx...",
    .summary = "measure a model on backends: time, memory, cost, outputs",
    .description =
        "Measures MODEL.onnx on each backend in fresh processes, interleaved block by block, until "
        "the 95 % interval of the median is narrow enough, and compares outputs and times. Several "
        "models take turns in the same way, and each is compared with the first one.\n"
        "Ctrl-C ends measuring and reports what was measured so far.",
    .examples = "# every runtime found here\n"
                "prony profile resnet50.onnx\n"
                "# is the new model faster than the old one?\n"
                "prony profile old.onnx new.onnx -b onnxrt-cpu\n"
                "# does a second thread help?\n"
                "prony profile bert.onnx -b 'onnxrt-cpu[threads=1]' -b 'onnxrt-cpu[threads=2]'\n"
                "# a batch of 8, saved for later\n"
                "prony profile bert.onnx --dim batch=8 --format json -o bert.json\n"
                "# which batch and how many threads? and go on after an interruption\n"
                "prony profile m.onnx --dim n=1,8 -b 'onnxrt-cpu[threads=1|2]' "
                "--format json -o m.json\n"
                "prony profile m.onnx --resume m.json\n"
                "# how many requests per second can two at a time answer within 50 ms?\n"
                "prony profile bert.onnx --concurrency 2 --slo p99=50ms\n"
                "# on the hardware of a service\n"
                "prony profile bert.onnx --server prony.example.org:443 -b r6i.large/onnxrt-cpu\n",
    .options = options,
    .options_size = sizeof(struct profile_options),
    .defaults = defaults,
    .min_arguments = 1,
    .max_arguments = PRN_MODELS_MAX,
    .takes = PRN_SAVED_BIT(MODEL),
    .run = profile_run,
};
