/* `prony profile MODEL`: measures a model on backends and reports. */
#include "cli/command.h"

#include "base/format.h"
#include "measure/job.h"
#include "report/profile_report.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

struct profile_options {
    struct prn_strings backends, dims, shapes, inputs;
    const char *inputs_folder, *hardware_file, *ort_lib, *output;
    int64_t launches, repeats, warmups, seed;
    double precision, difference, max_time_s, timeout_s;
    int format;
};

static volatile sig_atomic_t cancelled;

/* The first Ctrl-C ends measuring and reports what there is; the second ends the program. */
static void on_interrupt(int number)
{
    if (cancelled) {
        signal(number, SIG_DFL);
        raise(number); /* delivered when this returns */
    }
    cancelled = 1;
}

static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM};
    struct sigaction action = {.sa_handler = on_interrupt};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(signals); i++) {
        struct sigaction former;
        sigaction(signals[i], NULL, &former);
        if (former.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

/* One line on the terminal that is written over. */
static void show_progress(void *context, const struct prn_progress *p)
{
    (void)context;
    struct winsize window = {0};
    char median[PRN_FORMAT_SIZE] = "";
    char width_text[32] = "";
    char line[512];
    if (p->samples > 0)
        prn_format_duration(median, p->median_ns);
    if (p->samples > 0 && isfinite(p->half_width))
        snprintf(width_text, sizeof width_text, " ±%.1f %%", 100 * p->half_width);
    snprintf(line, sizeof line, "%s: %s, launch %lld of %lld or more, %lld samples%s%s%s",
             p->backend, p->phase, (long long)p->launch, (long long)p->launches,
             (long long)p->samples, p->samples > 0 ? ", " : "", median, width_text);
    int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 10
                    ? window.ws_col - 1
                    : 79;
    fprintf(stderr, "\r\033[K%5.1f s  %.*s", p->elapsed_s, width - 9, line);
}

static void end_progress(void)
{
    fputs("\r\033[K", stderr);
}

static struct prn_texts texts(const struct prn_strings *strings)
{
    return (struct prn_texts){strings->items, strings->n};
}

/* A failed backend is a row of the report, and a non-zero status for whoever scripts this. */
static int verdict(const struct prn_profile *profile, struct prony_error *err)
{
    const struct prn_result *first = NULL;
    size_t failed = 0;
    for (size_t i = 0; i < profile->n_results; i++)
        if (profile->results[i].error_code) {
            first = first ? first : &profile->results[i];
            failed++;
        }
    if (!first)
        return 0;
    if (first->error_code == PRONY_ECANCELED)
        return prn_fail(err, PRONY_ECANCELED, "%s", first->error);
    return prn_fail(err, first->error_code, "%zu of %zu backends failed; '%s': %s", failed,
                    profile->n_results, first->name, first->error);
}

static int run(const void *opaque, const struct prn_strings *arguments, struct prony_error *err)
{
    const struct profile_options *o = opaque;
    bool terminal = isatty(STDERR_FILENO);
    struct prn_job job = {
        .model_path = arguments->items[0],
        .backends = texts(&o->backends),
        .dims = texts(&o->dims),
        .shapes = texts(&o->shapes),
        .inputs = texts(&o->inputs),
        .inputs_folder = o->inputs_folder,
        .hardware_file = o->hardware_file,
        .ort_library = o->ort_lib,
        .settings = {.seed = (uint64_t)o->seed,
                     .precision = o->precision,
                     .smallest_difference = o->difference,
                     .launches = o->launches,
                     .repeats = o->repeats,
                     .warmups = o->warmups,
                     .max_time_s = o->max_time_s},
        .timeout_s = o->timeout_s,
        .cancelled = &cancelled,
        .progress = terminal ? show_progress : NULL,
    };
    struct prn_profile *profile = NULL;
    int code = prn_output_spares(o->output, job.model_path, err);
    if (code == 0)
        code = prn_output_check(o->output, err);
    if (code < 0)
        return code;
    catch_signals();
    code = prn_job_run(&job, &profile, err);
    if (terminal)
        end_progress();
    if (code < 0)
        return code;
    code = prn_output_profile(o->output, profile, (enum prn_report_format)o->format, err);
    if (code == 0)
        code = verdict(profile, err);
    prn_profile_free(profile);
    return code;
}

static void defaults(void *opaque)
{
    struct profile_options *o = opaque;
    o->precision = 0.01;
    o->difference = 0.005;
    o->max_time_s = 60;
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
    OPTION(LIST, 'b', "backend", "SPEC", backends,
           "[local/]SOFTWARE[key=value,...], repeatable, e.g. 'onnxrt-cpu[threads=2]' (default: "
           "every runtime found here; 'prony backends' lists them)"),
    OPTION(TEXT, 0, "ort-lib", "FILE", ort_lib, "ONNX Runtime library to load (libonnxruntime.so)"),
    OPTION(TEXT, 0, "hardware-file", "FILE", hardware_file,
           "YAML file with hardware and prices of your own"),
    GROUP("Inputs"),
    OPTION(LIST, 0, "dim", "NAME=SIZE", dims,
           "size of an open dimension, repeatable (default 1, and the report says so)"),
    OPTION(LIST, 0, "shape", "INPUT=SIZES", shapes,
           "shape of an input, repeatable, e.g. x=1x3x224x224"),
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
    NUMBER(COUNT, 0, "launches", "N", launches, 1, 1000,
           "fresh processes per backend (default: 5, up to 20 while precision needs them)"),
    NUMBER(COUNT, 0, "repeats", "N", repeats, 1, 1e7,
           "exactly N timed runs per backend, whatever the precision"),
    NUMBER(COUNT, 0, "warmups", "N", warmups, 0, 1e6,
           "untimed runs per launch after the first one (default: until times settle)"),
    NUMBER(NUMBER, 0, "max-time", "SECONDS", max_time_s, 0.1, 1e6,
           "stop measuring after this time (default 60)"),
    NUMBER(NUMBER, 0, "timeout", "SECONDS", timeout_s, 0.1, 1e6,
           "give up a backend when loading or one run takes longer (default 120)"),
    GROUP("Report"),
    {PRN_OPTION_CHOICE, 0, "format", "FORMAT", "text, json, csv or md (default text)",
     FIELD(format), 0, 0, prn_report_formats},
    OPTION(TEXT, 'o', "output", "FILE", output, "write to FILE instead of standard output"),
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
                "prony profile bert.onnx --dim batch=8 --format json -o bert.json\n",
    .options = options,
    .options_size = sizeof(struct profile_options),
    .defaults = defaults,
    .min_arguments = 1,
    .max_arguments = 1,
    .run = run,
};
