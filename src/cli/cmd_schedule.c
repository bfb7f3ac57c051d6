/* `prony schedule`: the best way to spread a model's layers over hosts. */
#include "cli/command.h"

#include "pipeline/load.h"
#include "report/page.h"
#include "report/schedule_report.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>

#define ARENA_MAX ((size_t)256 << 20)
#define LAUNCHES_DEFAULT 5
#define DURATION_DEFAULT_S 1
#define TIMEOUT_DEFAULT_S 120

struct options {
    const char *model_name, *models_file, *types_file, *devices_file, *dtype, *output;
    int64_t batch_size, buffers_in, buffers_out, max_stages;
    double min_throughput, max_latency_s;
    struct prn_strings hosts;
    int objective, format;
    bool require, explain;
    /* Trying it out; what isn't given is NULL, 0 or NAN. */
    const char *simulate, *cuts, *backend, *ort_lib;
    struct prn_strings dims, shapes;
    int64_t max_cut_tensors, launches;
    double duration_s, timeout_s;
    bool no_links;
};

static void set_defaults(void *options)
{
    struct options *o = options;
    *o = (struct options){.model_name = "google/vit-base-patch16-224",
                          .models_file = "models.yml",
                          .types_file = "device_types.yml",
                          .devices_file = "devices.yml",
                          .dtype = "torch.float32",
                          .batch_size = 8,
                          .buffers_in = 2,
                          .buffers_out = 2,
                          .min_throughput = NAN,
                          .max_latency_s = NAN,
                          .duration_s = NAN,
                          .timeout_s = NAN,
                          .format = -1};
}

/* The first option that only makes sense with --simulate; NULL: there is none. */
static const char *simulation_option(const struct options *o)
{
    const struct {
        bool given;
        const char *name;
    } options[] = {
        {o->cuts, "cuts"},
        {o->max_cut_tensors, "max-cut-tensors"},
        {o->dims.n, "dim"},
        {o->shapes.n, "shape"},
        {o->backend, "backend"},
        {o->ort_lib, "ort-lib"},
        {o->no_links, "no-links"},
        {o->launches, "launches"},
        {!isnan(o->duration_s), "duration"},
        {!isnan(o->timeout_s), "timeout"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(options); i++)
        if (options[i].given)
            return options[i].name;
    return NULL;
}

static int check_simulation(const struct options *o, struct prony_error *err)
{
    const char *option = simulation_option(o);
    if (!o->simulate && option)
        return prn_fail(err, PRONY_EUSAGE, "--%s is for --simulate", option);
    if (!o->simulate)
        return 0;
    if (o->format == PRN_SCHEDULE_FORMAT_YAML)
        return prn_fail(err, PRONY_EUSAGE,
                        "--simulate shows text, json, csv or html; yaml has no place for what is "
                        "measured");
    int code = prn_output_check(o->output, err);
    return code < 0 ? code : prn_output_spares(o->output, o->simulate, err);
}

static int check_usage(const struct options *o, struct prony_error *err)
{
    bool cost = o->objective == PRN_OBJECTIVE_COST;
    bool limits = !isnan(o->min_throughput) || !isnan(o->max_latency_s);
    if (cost && !limits)
        return prn_fail(err, PRONY_EUSAGE,
                        "--objective cost needs --min-throughput or --max-latency, or both");
    if (!cost && limits)
        return prn_fail(err, PRONY_EUSAGE,
                        "--min-throughput and --max-latency are for --objective cost");
    if (o->explain && o->format >= 0 && o->format != PRN_SCHEDULE_FORMAT_TEXT)
        return prn_fail(err, PRONY_EUSAGE, "--explain draws text; it takes no --format %s",
                        prn_schedule_formats[o->format]);
    int code = o->format == PRN_SCHEDULE_FORMAT_HTML ? prn_page_check(err) : 0;
    return code == 0 ? check_simulation(o, err) : code;
}

static struct prn_schedule_goal goal_of(const struct options *o)
{
    struct prn_schedule_goal goal = PRN_SCHEDULE_GOAL_INIT;
    goal.objective = (enum prn_objective)o->objective;
    goal.max_stages = (size_t)o->max_stages;
    if (!isnan(o->min_throughput))
        goal.max_period_s = (double)o->batch_size / o->min_throughput;
    if (!isnan(o->max_latency_s))
        goal.max_latency_s = o->max_latency_s;
    return goal;
}

/* What another host of each type would change. */
static int ask_for_more(const struct prn_pipeline *p, const struct prn_schedule_goal *goal,
                        const struct prn_schedule *s, double *one_more, struct prony_error *err)
{
    double known = prn_schedule_value(p, goal, s);
    int code = 0;
    for (size_t t = 0; t < p->n_types && code == 0; t++) {
        code = prn_schedule_with_one_more(p, goal, t, known, &one_more[t], err);
        if (code == PRONY_ELIMIT) { /* too much to search: not known */
            one_more[t] = NAN;
            code = 0;
        }
    }
    return code;
}

static int tell_shortage(const struct options *o, const struct prn_pipeline *p,
                         const struct prn_schedule_goal *goal, struct prony_error *err)
{
    char text[PRONY_ERROR_TEXT_SIZE];
    int code = prn_schedule_shortage(p, goal, text, sizeof text, err);
    if (code < 0)
        return code;
    if (o->require)
        return prn_fail(err, PRONY_ENOENT, "no schedule: %s", text);
    prn_warn("no schedule: %s", text);
    return 0;
}

static enum prn_schedule_format format_of(const struct options *o)
{
    if (o->format >= 0)
        return (enum prn_schedule_format)o->format;
    return o->explain || o->simulate ? PRN_SCHEDULE_FORMAT_TEXT : PRN_SCHEDULE_FORMAT_YAML;
}

static int show(const struct options *o, struct prn_schedule_report *report,
                struct prony_error *err)
{
    const struct prn_pipeline *p = report->pipeline;
    enum prn_schedule_format format = format_of(o);
    double *one_more = calloc(p->n_types, sizeof *one_more);
    if (!one_more)
        return prn_fail_memory(err);
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    int code = 0;
    if (format != PRN_SCHEDULE_FORMAT_YAML)
        code = ask_for_more(p, report->goal, report->schedule, one_more, err);
    report->one_more = one_more;
    if (code == 0)
        code = prn_schedule_report(report, format, &out, err);
    if (code == 0)
        code = prn_output(o->output, &out, err);
    prn_buffer_release(&out);
    free(one_more);
    return code;
}

/* ---- Trying it out ---- */

static volatile int cancelled;

/* However often it is asked, processes and files are put away first, which takes no time. */
static void on_interrupt(int number)
{
    (void)number;
    __atomic_store_n(&cancelled, 1, __ATOMIC_RELAXED);
}

static void catch_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction action = {.sa_handler = on_interrupt};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(signals); i++) {
        struct sigaction former;
        sigaction(signals[i], NULL, &former);
        if (former.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

static int simulate(const struct options *o, const struct prn_pipeline *p,
                    const struct prn_schedule *schedule, struct prn_simulation **ret_simulation,
                    struct prony_error *err)
{
    struct prn_simulation_request request = {
        .models = {.pipeline = p,
                   .schedule = schedule,
                   .model_path = o->simulate,
                   .cuts = o->cuts,
                   .max_cut_tensors = (size_t)o->max_cut_tensors,
                   .dims = {o->dims.items, o->dims.n},
                   .shapes = {o->shapes.items, o->shapes.n},
                   .warn = prn_warn,
                   .cancelled = &cancelled},
        .backend = o->backend,
        .ort_library = o->ort_lib,
        .no_links = o->no_links,
        .launches = o->launches ? (size_t)o->launches : LAUNCHES_DEFAULT,
        .duration_s = isnan(o->duration_s) ? DURATION_DEFAULT_S : o->duration_s,
        .timeout_s = isnan(o->timeout_s) ? TIMEOUT_DEFAULT_S : o->timeout_s,
    };
    catch_signals();
    return prn_simulate(&request, ret_simulation, err);
}

/* A pipeline that computes something else is no result, however fast it is. */
static int check_outputs(const struct prn_simulation *s, struct prony_error *err)
{
    for (size_t i = 0; i < s->n_outputs; i++)
        if (prn_output_differs(&s->outputs[i], PRN_TOLERANCE_DEFAULT))
            return prn_fail(err, PRONY_ERUNTIME,
                            "output '%s' of the pipeline is not that of the whole model",
                            s->outputs[i].name);
    return 0;
}

static int schedule_pipeline(const struct options *o, const struct prn_pipeline *p,
                             struct prony_error *err)
{
    struct prn_schedule_goal goal = goal_of(o);
    struct prn_simulation *simulation = NULL;
    struct prn_schedule schedule;
    int code = prn_schedule_find(p, &goal, &schedule, err);
    if (code < 0)
        return code;
    if (schedule.n == 0)
        code = tell_shortage(o, p, &goal, err);
    else if (o->simulate)
        code = simulate(o, p, &schedule, &simulation, err);
    struct prn_schedule_report report = {.pipeline = p,
                                         .goal = &goal,
                                         .schedule = &schedule,
                                         .drawing = o->explain,
                                         .simulation = simulation};
    if (code == 0)
        code = show(o, &report, err);
    if (code == 0 && simulation)
        code = check_outputs(simulation, err);
    prn_simulation_free(simulation);
    prn_schedule_release(&schedule);
    return code;
}

static int run(const void *options, const struct prn_strings *arguments, struct prony_error *err)
{
    const struct options *o = options;
    (void)arguments;
    struct prn_pipeline_request request = {.models_file = o->models_file,
                                           .types_file = o->types_file,
                                           .devices_file = o->devices_file,
                                           .model_name = o->model_name,
                                           .dtype = o->dtype,
                                           .batch_size = o->batch_size,
                                           .buffers_in = o->buffers_in,
                                           .buffers_out = o->buffers_out,
                                           .hosts = o->hosts.items,
                                           .n_hosts = o->hosts.n,
                                           .priced = o->objective == PRN_OBJECTIVE_COST};
    struct prn_arena arena = PRN_ARENA_INIT(ARENA_MAX);
    struct prn_pipeline pipeline;
    int code = check_usage(o, err);
    const char *const inputs[] = {o->models_file, o->types_file, o->devices_file};
    for (size_t i = 0; code == 0 && i < PRN_ARRAY_SIZE(inputs); i++)
        code = prn_output_spares(o->output, inputs[i], err);
    if (code == 0)
        code = prn_pipeline_load(&request, prn_warn, &arena, &pipeline, err);
    if (code == 0)
        code = schedule_pipeline(o, &pipeline, err);
    prn_arena_release(&arena);
    return code;
}

#define FIELD(name) .offset = offsetof(struct options, name)

static const struct prn_option option_table[] = {
    {.kind = PRN_OPTION_GROUP, .help = "What to schedule"},
    {.kind = PRN_OPTION_TEXT,
     .letter = 'm',
     .name = "model-name",
     .value = "NAME",
     .help = "model (default google/vit-base-patch16-224)",
     FIELD(model_name)},
    {.kind = PRN_OPTION_TEXT,
     .letter = 'M',
     .name = "models-file",
     .value = "FILE",
     .help = "models, as 'prony models' writes them (default models.yml)",
     FIELD(models_file)},
    {.kind = PRN_OPTION_TEXT,
     .letter = 'T',
     .name = "dev-types-file",
     .value = "FILE",
     .help = "device types, as 'prony device-types' writes them (default device_types.yml)",
     FIELD(types_file)},
    {.kind = PRN_OPTION_TEXT,
     .letter = 'D',
     .name = "dev-file",
     .value = "FILE",
     .help = "hosts: a map of device types to lists of names (default devices.yml)",
     FIELD(devices_file)},
    {.kind = PRN_OPTION_TEXT,
     .letter = 'd',
     .name = "dtype",
     .value = "NAME",
     .help = "PyTorch's name of the data type (default torch.float32)",
     FIELD(dtype)},
    {.kind = PRN_OPTION_COUNT,
     .letter = 'b',
     .name = "batch-size",
     .value = "N",
     .help = "inferences that go through the pipeline together (default 8)",
     FIELD(batch_size),
     .min = 1,
     .max = 1e6},
    {.kind = PRN_OPTION_COUNT,
     .letter = 'i',
     .name = "buffers-in",
     .value = "N",
     .help = "batches that a stage holds before it works on them (default 2)",
     FIELD(buffers_in),
     .max = 1e6},
    {.kind = PRN_OPTION_COUNT,
     .letter = 'o',
     .name = "buffers-out",
     .value = "N",
     .help = "batches that a stage holds after it worked on them (default 2)",
     FIELD(buffers_out),
     .max = 1e6},
    {.kind = PRN_OPTION_GROUP, .help = "What is best"},
    {.kind = PRN_OPTION_CHOICE,
     .name = "objective",
     .value = "WHAT",
     .help = "throughput (the slowest stage or link is as fast as it can be), latency (all stages "
             "and links together are), or cost (the cheapest hosts that keep the limits below); "
             "default throughput",
     FIELD(objective),
     .choices = prn_objectives},
    {.kind = PRN_OPTION_NUMBER,
     .name = "min-throughput",
     .value = "RATE",
     .help = "cost: inferences per second that must be reached",
     FIELD(min_throughput),
     .min = 1e-12,
     .max = 1e15},
    {.kind = PRN_OPTION_NUMBER,
     .name = "max-latency",
     .value = "SECONDS",
     .help = "cost: time that a batch may take from the first layer to the last",
     FIELD(max_latency_s),
     .max = 1e15},
    {.kind = PRN_OPTION_COUNT,
     .name = "max-stages",
     .value = "N",
     .help = "use at most N hosts",
     FIELD(max_stages),
     .min = 1,
     .max = 1e6},
    {.kind = PRN_OPTION_LIST,
     .name = "hosts",
     .value = "LIST",
     .help =
         "use only hosts whose names match one of these patterns (*, ?), or with TYPE=N at most "
         "N hosts of a type; commas between",
     FIELD(hosts)},
    {.kind = PRN_OPTION_GROUP, .help = "Trying it out on this machine"},
    {.kind = PRN_OPTION_TEXT,
     .name = "simulate",
     .value = "MODEL.onnx",
     .help = "run the stages of this model here, a process each, all at the same time, and show "
             "what they take beside what was predicted",
     FIELD(simulate)},
    {.kind = PRN_OPTION_TEXT,
     .name = "cuts",
     .value = "auto|N|NAME,...",
     .help = "where its layers begin, as 'prony layers' was told (default auto)",
     FIELD(cuts)},
    {.kind = PRN_OPTION_COUNT,
     .name = "max-cut-tensors",
     .value = "N",
     .help = "the same (default 2)",
     FIELD(max_cut_tensors),
     .min = 1,
     .max = 65536},
    {.kind = PRN_OPTION_LIST,
     .name = "dim",
     .value = "NAME=SIZE",
     .help = "size of an open dimension that isn't the batch, repeatable (default 1)",
     FIELD(dims)},
    {.kind = PRN_OPTION_LIST,
     .name = "shape",
     .value = "INPUT=SIZES",
     .help = "shape of an input, repeatable, e.g. x=8x3x224x224",
     FIELD(shapes)},
    {.kind = PRN_OPTION_TEXT,
     .name = "backend",
     .value = "SPEC",
     .help = "what runs the stages (default onnxrt-cpu, with as many threads as a stage has cores)",
     FIELD(backend)},
    {.kind = PRN_OPTION_TEXT,
     .name = "ort-lib",
     .value = "FILE",
     .help = "the libonnxruntime.so to load (default: search)",
     FIELD(ort_lib)},
    {.kind = PRN_OPTION_FLAG,
     .name = "no-links",
     .help = "hand batches on at once, instead of waiting as long as a link was predicted to take",
     FIELD(no_links)},
    {.kind = PRN_OPTION_COUNT,
     .name = "launches",
     .value = "N",
     .help = "start all processes anew N times; intervals come from that (default 5)",
     FIELD(launches),
     .min = 1,
     .max = 1000},
    {.kind = PRN_OPTION_NUMBER,
     .name = "duration",
     .value = "SECONDS",
     .help = "keep the pipeline full for so long in each launch, or for ten batches if that is "
             "longer (default 1)",
     FIELD(duration_s),
     .min = 0.001,
     .max = 1e6},
    {.kind = PRN_OPTION_NUMBER,
     .name = "timeout",
     .value = "SECONDS",
     .help = "give up when loading or one run of a stage takes longer (default 120)",
     FIELD(timeout_s),
     .min = 0.1,
     .max = 1e6},
    {.kind = PRN_OPTION_GROUP, .help = "How to show it"},
    {.kind = PRN_OPTION_CHOICE,
     .name = "format",
     .value = "FORMAT",
     .help =
         "yaml (hosts and layers), text, json, csv, or html, a page with pictures, which also tell "
         "times, memory, links, and what another host would change (default yaml; with --simulate "
         "text)",
     FIELD(format),
     .choices = prn_schedule_formats},
    {.kind = PRN_OPTION_FLAG,
     .name = "explain",
     .help = "text, with a drawing of the pipeline",
     FIELD(explain)},
    {.kind = PRN_OPTION_TEXT,
     .name = "output",
     .value = "FILE",
     .help = "write to FILE instead of standard output",
     FIELD(output)},
    {.kind = PRN_OPTION_FLAG,
     .name = "require",
     .help = "fail (exit status 1) when no schedule is feasible, instead of showing an empty one",
     FIELD(require)},
    {0},
};

const struct prn_command prn_command_schedule = {
    .name = "schedule",
    .arguments = "",
    .summary = "find the best pipeline of hosts for a model in layers",
    .description =
        "Gives consecutive layers to hosts so that nothing better is possible: every stage fits "
        "into "
        "the memory of its host, and of all such pipelines the slowest stage or link of this one "
        "takes least. Among equals it has the fewest hosts, then the smallest sum of stage times.\n"
        "The schedule goes to standard output as YAML, a list of hosts with their first and last "
        "layer.\n"
        "--simulate tries it out: a process per stage on cores of its own, real tensors from stage "
        "to stage, as many buffers between them as were planned with.",
    .examples = "# the schedule\n"
                "prony schedule -m vit -M models.yml -T device_types.yml -D devices.yml\n"
                "# why it is so\n"
                "prony schedule -m vit --explain\n"
                "# the cheapest hosts for 100 inferences per second\n"
                "prony schedule -m vit --objective cost --min-throughput 100 --format text\n"
                "# does it work as predicted? the stages as processes, here\n"
                "prony schedule -m vit --simulate vit.onnx",
    .options = option_table,
    .options_size = sizeof(struct options),
    .defaults = set_defaults,
    .run = run,
};
