/* `prony profile MODEL`: measures a model on backends and reports. */
#include "cli/command.h"
#include "cli/progress.h"

#include "cli/server.h"
#include "exec/drive.h"
#include "measure/resume.h"
#include "record/remote_job.h"
#include "report/load_report.h"
#include "report/profile_json.h"
#include "report/profile_report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct profile_options {
    struct prn_strings backends, dims, shapes, inputs, rates;
    const char *inputs_folder, *hardware_file, *ort_lib, *slo, *output, *resume, *reference;
    int64_t launches, repeats, warmups, seed, concurrency;
    double precision, difference, max_time_s, timeout_s, duration_s, tolerance;
    bool ops;
    int format, table;
    struct prn_server_options server;
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
                                  PRN_REPORT_TABLE_RESULTS, &err);
    prn_signals_release(&former);
    if (code < 0 && !session->warned)
        prn_warn("what is measured can't be kept meanwhile: %s", err.text);
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

static int load_verdict(const struct prn_profile *profile, struct prony_error *err)
{
    for (size_t i = 0; i < profile->n_results; i++) {
        const struct prn_result *r = &profile->results[i];
        /* After Ctrl-C there is what was measured before. */
        if (r->load && r->load->error_code && r->load->error_code != PRONY_ECANCELED)
            return prn_fail(err, r->load->error_code, "'%s' failed under load: %s", r->name,
                            r->load->error);
    }
    return 0;
}

/* A failed backend is a row of the report, and a non-zero status for whoever scripts this. One that
 * Ctrl-C came before is neither, as long as others have something to show. */
static int verdict(const struct prn_profile *profile, struct prony_error *err)
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
    if (first) {
        /* What a runtime finds wrong with an option is no misuse of the command. */
        int code = first->error_code == PRONY_EUSAGE ? PRONY_EUNAVAILABLE : first->error_code;
        return prn_fail(err, code, "%zu of %zu %s failed; '%s': %s", failed, profile->n_results,
                        profile->n_points > 1 ? "rows" : "backends", first->name, first->error);
    }
    if (missed && !any)
        return prn_fail(err, PRONY_ECANCELED, "%s", missed->error);
    return load_verdict(profile, err);
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

static struct prn_job job_of(const struct profile_options *o, const char *model_path)
{
    return (struct prn_job){
        .model_path = model_path,
        .backends = texts(&o->backends),
        .dims = texts(&o->dims),
        .shapes = texts(&o->shapes),
        .inputs = texts(&o->inputs),
        .inputs_folder = o->inputs_folder,
        .hardware_file = o->hardware_file,
        .ort_library = o->ort_lib,
        .settings = {.seed = o->seed < 0 ? PRN_SEED_UNSET : (uint64_t)o->seed,
                     .precision = o->precision,
                     .smallest_difference = o->difference,
                     .tolerance = o->tolerance,
                     .reference = o->reference,
                     .launches = o->launches,
                     .repeats = o->repeats,
                     .warmups = o->warmups,
                     .max_time_s = o->max_time_s},
        .ops = o->ops,
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
    if (session->save_path && session->save_path == o->resume)
        code = prn_output_profile(o->resume, profile, PRN_REPORT_FORMAT_JSON,
                                  PRN_REPORT_TABLE_RESULTS, err);
    if (code == 0)
        code = prn_output_profile(o->output, profile, (enum prn_report_format)o->format,
                                  (enum prn_report_table)o->table, err);
    return code < 0 ? code : verdict(profile, err);
}

static void announce_preset(void *context, const char *preset, size_t n)
{
    (void)context;
    prn_announce("note", "no backend was named: measuring on the %zu of the service's preset '%s'",
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

static int measure(const struct profile_options *o, const struct prn_job *prepared,
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
    if (code == 0)
        code = report(o, &session, profile, err);
    if (code == 0 && lost.code < 0)
        code = prn_fail(err, lost.code, "not all was measured: %s", lost.text);
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

static int run(const void *opaque, const struct prn_strings *arguments, struct prony_error *err)
{
    const struct profile_options *o = opaque;
    struct prn_job job = job_of(o, arguments->items[0]);
    struct prn_profile *resume = NULL;
    int code = prn_server_check(&o->server, err);
    if (code == 0 && o->server.address && o->ort_lib)
        code =
            prn_fail(err, PRONY_EUSAGE, "--ort-lib is for this machine, and --server is another");
    if (code == 0)
        code = read_load(o, &job.load, err);
    if (code == 0)
        code = prn_output_check_format((enum prn_report_format)o->format, err);
    if (code == 0)
        code = check_table(o, &job.load, err);
    if (code == 0)
        code = prn_output_spares(o->output, job.model_path, err);
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
                        "'%s' has figures under load: give --rate, --concurrency or --slo again",
                        o->resume);
    if (code == 0)
        code = prn_resume_settings(resume, &job.settings, err);
    job.resume = resume;
    job.ops |= has_ops(resume);
    if (code == 0)
        code = measure(o, &job, err);
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
#define OPTION(kind, letter, name, value, field, help)                         \
    {                                                                          \
        PRN_OPTION_##kind, letter, name, value, help, FIELD(field), 0, 0, NULL \
    }
#define NUMBER(kind, letter, name, value, field, min, max, help)                   \
    {                                                                              \
        PRN_OPTION_##kind, letter, name, value, help, FIELD(field), min, max, NULL \
    }
#define GROUP(text)                                          \
    {                                                        \
        PRN_OPTION_GROUP, 0, NULL, NULL, text, 0, 0, 0, NULL \
    }

static const struct prn_option options[] = {
    GROUP("What to measure on"),
    OPTION(
        LIST, 'b', "backend", "SPEC", backends,
        "[local/]SOFTWARE[key=value,...], repeatable, e.g. 'onnxrt-cpu[threads=2]' or, to sweep, "
        "'onnxrt-cpu[threads=1|2|4]' (default: every runtime found here; 'prony backends' lists "
        "them); with --server HARDWARE/SOFTWARE[...] (default: its preset 'all', or 'default')"),
    OPTION(TEXT, 0, "ort-lib", "FILE", ort_lib, "ONNX Runtime library to load (libonnxruntime.so)"),
    OPTION(TEXT, 0, "hardware-file", "FILE", hardware_file,
           "YAML file with hardware and prices of your own"),
    PRN_SERVER_ROWS(struct profile_options),
    GROUP("Inputs"),
    OPTION(LIST, 0, "dim", "NAME=SIZE", dims,
           "size of an open dimension, repeatable (default 1, and the report says so); a list to "
           "sweep, e.g. batch=1,2,4"),
    OPTION(LIST, 0, "shape", "INPUT=SIZES", shapes,
           "shape of an input, repeatable, e.g. x=1x3x224x224, or x=1x3x224x224,8x3x224x224 to "
           "sweep"),
    OPTION(LIST, 0, "input", "INPUT=VALUE", inputs,
           "ones, zeros, random, a number, or @FILE (.npy, .pb, .raw), repeatable (default: floats "
           "in [0,1), ids that fit their table, masks of ones)"),
    OPTION(TEXT, 0, "inputs", "DIR", inputs_folder,
           "take inputs from DIR/input_0.pb, input_1.pb, ... (ONNX test data)"),
    NUMBER(COUNT, 0, "seed", "N", seed, 0, 9e15, "seed of random inputs (default 0)"),
    GROUP("How to measure"),
    NUMBER(PERCENT, 0, "precision", "P", precision, 1e-4, 1,
           "stop when the 95 % interval of the median is within ±P (default 1%)"),
    NUMBER(PERCENT, 0, "difference", "P", difference, 0, 1,
           "smallest difference between backends that counts (default 0.5%)"),
    OPTION(TEXT, 0, "reference", "SPEC", reference,
           "the backend whose outputs are believed (default: the first that gives any)"),
    NUMBER(PERCENT, 0, "tolerance", "P", tolerance, 0, 1,
           "error of an output, relative to the reference's largest value, that passes for "
           "rounding (default 0.1%)"),
    NUMBER(COUNT, 0, "launches", "N", launches, 1, 1000,
           "fresh processes per backend (default: 5, up to 20 while precision needs them)"),
    NUMBER(COUNT, 0, "repeats", "N", repeats, 1, 1e7,
           "exactly N timed runs per backend, whatever the precision"),
    NUMBER(COUNT, 0, "warmups", "N", warmups, 0, 1e6,
           "untimed runs per launch after the first one (default: until times settle)"),
    NUMBER(NUMBER, 0, "max-time", "SECONDS", max_time_s, 0.1, 1e6,
           "stop measuring after this time, for each point of a sweep (default 60)"),
    NUMBER(NUMBER, 0, "timeout", "SECONDS", timeout_s, 0.1, 1e6,
           "give up a backend when loading or one run takes longer (default 120)"),
    OPTION(FLAG, 0, "ops", NULL, ops,
           "also show where the time goes, by operator and by node: one more launch per backend, "
           "with the runtime's profiler on"),
    GROUP("Under load"),
    OPTION(LIST, 0, "rate", "N/s", rates,
           "requests that arrive at random, N per second, whether or not the last one is done; "
           "100/s, 6000/min, or several: 50/s,100/s; repeatable"),
    NUMBER(COUNT, 0, "concurrency", "N", concurrency, 1, PRN_DRIVE_WORKERS_MAX,
           "requests that run at the same time (default 1); without --rate, each of N clients "
           "sends its next request when it has an answer"),
    NUMBER(NUMBER, 0, "duration", "SECONDS", duration_s, 0.1, 1e5,
           "of the load at each rate (default 10)"),
    OPTION(TEXT, 0, "slo", "pN=TIME", slo,
           "find the highest rate at which this percentile of the latency, p50 to p99.9, stays "
           "within TIME, e.g. p99=20ms, in at most --max-time more per backend"),
    GROUP("Report"),
    {PRN_OPTION_CHOICE, 0, "format", "FORMAT",
     "text, json, csv, md, or html: a page with pictures (default text)", FIELD(format), 0, 0,
     prn_report_formats},
    {PRN_OPTION_CHOICE, 0, "table", "TABLE",
     "what csv has: results; with --ops ledger, operators, nodes, kernels or differences; with "
     "--rate, --concurrency or --slo load; with --slo trials "
     "(default results)",
     FIELD(table), 0, 0, prn_report_tables},
    OPTION(
        TEXT, 'o', "output", "FILE", output,
        "write to FILE instead of standard output; as JSON it is kept up to date while measuring"),
    OPTION(
        TEXT, 0, "resume", "FILE", resume,
        "go on with the interrupted profile in FILE (JSON), with its settings, and keep it up to "
        "date"),
    {0},
};

const struct prn_command prn_command_profile = {
    .name = "profile",
    .arguments = "MODEL.onnx",
    .summary = "measure a model on backends: time, memory, cost, and how sure it is",
    .description =
        "Measures MODEL.onnx on each backend in fresh processes, interleaved block by block, until "
        "the 95 % interval of the median is narrow enough, and compares outputs and times.\n"
        "Ctrl-C ends measuring and reports what was measured so far.",
    .examples = "# every runtime found here\n"
                "prony profile resnet50.onnx\n"
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
    .max_arguments = 1,
    .run = run,
};
