/* `prony schedule`: the best way to spread a model's layers over hosts. */
#include "cli/command.h"

#include "pipeline/load.h"
#include "report/schedule_report.h"

#include <math.h>
#include <stdlib.h>

#define ARENA_MAX ((size_t)256 << 20)

struct options {
    const char *model_name, *models_file, *types_file, *devices_file, *dtype, *output;
    int64_t batch_size, buffers_in, buffers_out, max_stages;
    double min_throughput, max_latency_s;
    struct prn_strings hosts;
    int objective, format;
    bool require, explain;
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
                          .format = -1};
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
    return 0;
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

static int show(const struct options *o, const struct prn_pipeline *p,
                const struct prn_schedule_goal *goal, const struct prn_schedule *schedule,
                struct prony_error *err)
{
    enum prn_schedule_format format = o->explain      ? PRN_SCHEDULE_FORMAT_TEXT
                                      : o->format < 0 ? PRN_SCHEDULE_FORMAT_YAML
                                                      : (enum prn_schedule_format)o->format;
    double *one_more = calloc(p->n_types, sizeof *one_more);
    if (!one_more)
        return prn_fail_memory(err);
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    struct prn_schedule_report report = {p, goal, schedule, one_more, o->explain};
    int code = 0;
    if (format != PRN_SCHEDULE_FORMAT_YAML)
        code = ask_for_more(p, goal, schedule, one_more, err);
    if (code == 0)
        code = prn_schedule_report(&report, format, &out, err);
    if (code == 0)
        code = prn_output(o->output, &out, err);
    prn_buffer_release(&out);
    free(one_more);
    return code;
}

static int schedule_pipeline(const struct options *o, const struct prn_pipeline *p,
                             struct prony_error *err)
{
    struct prn_schedule_goal goal = goal_of(o);
    struct prn_schedule schedule;
    int code = prn_schedule_find(p, &goal, &schedule, err);
    if (code < 0)
        return code;
    if (schedule.n == 0)
        code = tell_shortage(o, p, &goal, err);
    if (code == 0)
        code = show(o, p, &goal, &schedule, err);
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
    {.kind = PRN_OPTION_GROUP, .help = "How to show it"},
    {.kind = PRN_OPTION_CHOICE,
     .name = "format",
     .value = "FORMAT",
     .help =
         "yaml (hosts and layers), text, json or csv, which also tell times, memory, links, and "
         "what another host would change (default yaml)",
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
        "layer.",
    .examples = "# the schedule\n"
                "prony schedule -m vit -M models.yml -T device_types.yml -D devices.yml\n"
                "# why it is so\n"
                "prony schedule -m vit --explain\n"
                "# the cheapest hosts for 100 inferences per second\n"
                "prony schedule -m vit --objective cost --min-throughput 100 --format text",
    .options = option_table,
    .options_size = sizeof(struct options),
    .defaults = set_defaults,
    .run = run,
};
