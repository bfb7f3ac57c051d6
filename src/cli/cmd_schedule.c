/* `prony schedule`: the best way to spread a model's layers over hosts. */
#include "cli/command.h"

#include "cli/output.h"
#include "base/format.h"
#include "cli/libraries.h"
#include "cli/server.h"
#include "pipeline/load.h"
#include "report/page.h"
#include "report/schedule/report.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_MAX ((size_t)256 << 20)
#define LAUNCHES_DEFAULT 5
#define DURATION_DEFAULT_S 1
#define TIMEOUT_DEFAULT_S 120

struct options {
    const char *model_name, *models_file, *types_file, *devices_file, *dtype, *output;
    int64_t batch_size, buffers_in, buffers_out, max_stages, max_memory_mib;
    double min_throughput, max_latency_s;
    struct prn_strings hosts;
    const char *neighbours, *partition;
    int64_t link_bits;
    int objective, format;
    bool require, explain;
    /* Trying it out; what isn't given is NULL, 0 or NAN. */
    const char *simulate, *run, *cuts, *backend;
    struct prn_library_files libraries;
    struct prn_server_options server;
    const char *model, *export; /* stages as files */
    struct prn_strings dims, shapes;
    int64_t max_cut_tensors, launches;
    double duration_s, timeout_s;
    bool no_links;
};

static void schedule_defaults(void *options)
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

/* The first option that only makes sense with --simulate or --run; NULL: there is none. */
static const char *simulation_option(const struct options *o)
{
    const char *library = prn_libraries_option(&o->libraries);
    const struct {
        bool given;
        const char *name;
    } options[] = {
        {o->cuts, "cuts"},
        {o->max_cut_tensors, "max-cut-tensors"},
        {o->dims.n, "dim"},
        {o->shapes.n, "shape"},
        {o->backend, "backend"},
        {library, library},
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

/* The model that the schedule is tried out with; NULL: it isn't. */
static const char *tried_out(const struct options *o)
{
    return o->run ? o->run : o->simulate;
}

static int check_run(const struct options *o, struct prony_error *err)
{
    const char *without = o->simulate     ? "simulate"
                          : o->no_links   ? "no-links"
                          : o->neighbours ? "neighbours"
                          : o->link_bits  ? "quantise-links"
                                          : NULL;
    if (!o->run && o->server.address)
        return prn_fail(err, PRONY_EUSAGE, "--server needs --run");
    int code = prn_server_check(&o->server, err);
    if (code < 0 || !o->run)
        return code;
    if (!o->server.address)
        return prn_fail(err, PRONY_EUSAGE, "--run needs the service whose hosts it uses: --server");
    if (without)
        return prn_fail(err, PRONY_EUSAGE, "--run cannot be combined with --%s", without);
    if (o->backend && o->backend[strcspn(o->backend, "/[")] == '/')
        return prn_fail(err, PRONY_EUSAGE,
                        "--backend '%s': --run takes the hardware from the types of devices; give "
                        "the software alone",
                        o->backend);
    return prn_libraries_use(&o->libraries, o->server.address, err);
}

static int check_simulation(const struct options *o, struct prony_error *err)
{
    const char *option = simulation_option(o);
    bool cutting =
        option && (strcmp(option, "cuts") == 0 || strcmp(option, "max-cut-tensors") == 0 ||
                   strcmp(option, "dim") == 0 || strcmp(option, "shape") == 0);
    const char *model = tried_out(o);
    if (!model && option && !(cutting && o->export))
        return prn_fail(err, PRONY_EUSAGE, "--%s needs --simulate or --run", option);
    if (o->export && !o->model && !model)
        return prn_fail(err, PRONY_EUSAGE, "--export needs the model: --model MODEL.onnx");
    if (o->model && !o->export)
        return prn_fail(err, PRONY_EUSAGE, "--model needs --export");
    if (o->model && model)
        return prn_fail(err, PRONY_EUSAGE, "--model cannot be combined with --%s",
                        o->run ? "run" : "simulate");
    int code = check_run(o, err);
    if (code < 0 || !model)
        return code;
    if (o->format == PRN_SCHEDULE_FORMAT_YAML)
        return prn_fail(err, PRONY_EUSAGE,
                        "--%s cannot be combined with --format yaml; use text, json, csv or html",
                        o->run ? "run" : "simulate");
    code = prn_output_check(o->output, err);
    return code < 0 ? code : prn_output_spares(o->output, model, err);
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
                        "--min-throughput and --max-latency need --objective cost");
    if (o->explain && o->format >= 0 && o->format != PRN_SCHEDULE_FORMAT_TEXT)
        return prn_fail(err, PRONY_EUSAGE, "--explain cannot be combined with --format %s",
                        prn_schedule_formats[o->format]);
    int code = o->format == PRN_SCHEDULE_FORMAT_HTML ? prn_page_check(err) : 0;
    return code == 0 ? check_simulation(o, err) : code;
}

static struct prn_schedule_goal goal_of(const struct options *o)
{
    struct prn_schedule_goal goal = PRN_SCHEDULE_GOAL_INIT;
    goal.objective = (enum prn_objective)o->objective;
    goal.max_stages = (size_t)o->max_stages;
    goal.max_memory_bytes = (size_t)o->max_memory_mib << 20;
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
        one_more[t] = NAN;
        if (p->pair_mbps) /* nobody knows to whom it would have which links */
            continue;
        code = prn_schedule_with_one_more(p, goal, t, known, &one_more[t], err);
        if (code == PRONY_ELIMIT) { /* too much to search: not known */
            one_more[t] = NAN;
            code = 0;
        }
    }
    return code;
}

static int tell_shortage(const struct options *o, const struct prn_pipeline *p,
                         const struct prn_schedule_goal *goal, char *text, size_t size,
                         struct prony_error *err)
{
    int code = prn_schedule_shortage(p, goal, text, size, err);
    if (code == PRONY_ELIMIT) { /* even hosts enough of every type wouldn't do */
        snprintf(text, size, "these device types cannot meet the limits");
        code = 0;
    }
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
    return o->explain || tried_out(o) ? PRN_SCHEDULE_FORMAT_TEXT : PRN_SCHEDULE_FORMAT_YAML;
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
    report->look = prn_output_look(o->output, false, PRN_COLOUR_AUTO);
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

static struct prn_stage_models_request models_request(const struct options *o,
                                                      const struct prn_pipeline *p,
                                                      const struct prn_schedule *schedule)
{
    return (struct prn_stage_models_request){.pipeline = p,
                                             .schedule = schedule,
                                             .model_path = tried_out(o) ? tried_out(o) : o->model,
                                             .cuts = o->cuts,
                                             .max_cut_tensors = (size_t)o->max_cut_tensors,
                                             .dims = {o->dims.items, o->dims.n},
                                             .shapes = {o->shapes.items, o->shapes.n},
                                             .warn = prn_warn,
                                             .cancelled = &cancelled};
}

/* The stages as files, and the plan beside them. */
static int export_stages(const struct options *o, const struct prn_pipeline *p,
                         const struct prn_schedule *schedule, struct prony_error *err)
{
    struct prn_stage_models_request request = models_request(o, p, schedule);
    struct prn_stage_models *models;
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_REPORT_MAX);
    char path[PATH_MAX];
    request.folder = o->export;
    if (snprintf(path, sizeof path, "%s/plan.yml", o->export) >= (int)sizeof path)
        return prn_fail(err, PRONY_EUSAGE, "--export: the folder's name is too long");
    catch_signals();
    int code = prn_stage_models_cut(&request, &models, err);
    if (code < 0)
        return code;
    code = prn_schedule_plan(p, schedule, models, &out, err);
    if (code == 0)
        code = prn_output(path, &out, err);
    prn_buffer_release(&out);
    prn_stage_models_free(models);
    return code;
}

static int simulate(const struct options *o, const struct prn_pipeline *p,
                    const struct prn_schedule *schedule, struct prn_simulation **ret_simulation,
                    struct prony_error *err)
{
    struct prn_simulation_request request = {
        .models = models_request(o, p, schedule),
        .backend = o->backend,
        .no_links = o->no_links,
        .launches = o->launches ? (size_t)o->launches : LAUNCHES_DEFAULT,
        .duration_s = isnan(o->duration_s) ? DURATION_DEFAULT_S : o->duration_s,
        .timeout_s = isnan(o->timeout_s) ? TIMEOUT_DEFAULT_S : o->timeout_s,
    };
    int code = prn_libraries_use(&o->libraries, NULL, err);
    if (code < 0)
        return code;
    struct prn_remote_config config;
    struct prn_server_shown shown = {0};
    struct prn_token token;
    catch_signals();
    if (o->run) {
        code = prn_server_config(&o->server, &token, &config, err);
        if (code < 0)
            return code;
        prn_server_show(&config, &shown);
        request.server = &config;
    }
    return prn_simulate(&request, ret_simulation, err);
}

/* A pipeline that computes something else is no result, however fast it is. */
static int check_outputs(const struct prn_simulation *s, struct prony_error *err)
{
    for (size_t i = 0; i < s->n_outputs; i++)
        if (prn_output_differs(&s->outputs[i], PRN_TOLERANCE_DEFAULT))
            return prn_fail(err, PRONY_ERUNTIME,
                            "output '%s' of the pipeline differs from the whole model's",
                            s->outputs[i].name);
    return 0;
}

/* The best schedule or, if there is too much to search, a good one: then `*ret_bound` is a figure
 * that no schedule is better than, otherwise NAN. */
static int find(const struct prn_pipeline *p, const struct prn_schedule_goal *goal,
                struct prn_schedule *ret_schedule, double *ret_bound, struct prony_error *err)
{
    struct prony_error other;
    *ret_bound = NAN;
    int code = prn_schedule_find(p, goal, ret_schedule, err);
    if (code != PRONY_ELIMIT)
        return code;
    code = prn_schedule_approximate(p, goal, ret_schedule, ret_bound, &other);
    if (code < 0)
        return prn_fail(err, code, "%s", other.text);
    if (ret_schedule->n == 0 && !isinf(*ret_bound)) {
        prn_schedule_release(ret_schedule);
        return PRONY_ELIMIT; /* as prn_schedule_find() has said */
    }
    char gap[PRN_FORMAT_SIZE];
    if (ret_schedule->n > 0)
        prn_warn("%s; the schedule is not proved to be the best, but is %s from it", err->text,
                 prn_schedule_gap(gap, prn_schedule_value(p, goal, ret_schedule) / *ret_bound));
    return 0;
}

static int schedule_pipeline(const struct options *o, const struct prn_pipeline *p,
                             struct prony_error *err)
{
    struct prn_schedule_goal goal = goal_of(o);
    struct prn_simulation *simulation = NULL;
    struct prn_schedule schedule;
    char shortage[PRONY_ERROR_TEXT_SIZE];
    double bound;
    int code = find(p, &goal, &schedule, &bound, err);
    if (code < 0)
        return code;
    if (schedule.n == 0)
        code = tell_shortage(o, p, &goal, shortage, sizeof shortage, err);
    else if (o->export)
        code = export_stages(o, p, &schedule, err);
    if (code == 0 && schedule.n > 0 && tried_out(o))
        code = simulate(o, p, &schedule, &simulation, err);
    struct prn_schedule_report report = {.pipeline = p,
                                         .goal = &goal,
                                         .schedule = &schedule,
                                         .bound = bound,
                                         .shortage = schedule.n == 0 ? shortage : NULL,
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

static int schedule_run(const void *options, const struct prn_strings *arguments,
                        struct prony_error *err)
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
                                           .priced = o->objective == PRN_OBJECTIVE_COST,
                                           .neighbours_file = o->neighbours,
                                           .partition = o->partition,
                                           .link_bits = o->link_bits};
    struct prn_arena arena = PRN_ARENA_INIT(ARENA_MAX);
    struct prn_pipeline pipeline;
    int code = check_usage(o, err);
    const char *const inputs[] = {o->models_file, o->types_file, o->devices_file, o->neighbours};
    for (size_t i = 0; code == 0 && i < PRN_ARRAY_SIZE(inputs) && inputs[i]; i++)
        code = prn_output_spares(o->output, inputs[i], err);
    if (code == 0)
        code = prn_pipeline_load(&request, prn_warn, &arena, &pipeline, err);
    if (code == 0)
        code = schedule_pipeline(o, &pipeline, err);
    prn_arena_release(&arena);
    return code;
}

#define FIELD(name) offsetof(struct options, name)

static const struct prn_option option_table[] = {
    PRN_OPTION_HEADING("What to schedule"),
    PRN_OPTION(TEXT, 'm', "model-name", "NAME", FIELD(model_name),
               "model (default google/vit-base-patch16-224)"),
    PRN_OPTION(TEXT, 'M', "models-file", "FILE", FIELD(models_file),
               "models, as 'prony models' writes them (default models.yml)"),
    PRN_OPTION(TEXT, 'T', "dev-types-file", "FILE", FIELD(types_file),
               "device types, as 'prony device-types' writes them (default device_types.yml)"),
    PRN_OPTION(TEXT, 'D', "dev-file", "FILE", FIELD(devices_file),
               "hosts: a map of device types to lists of names (default devices.yml)"),
    PRN_OPTION(TEXT, 'd', "dtype", "NAME", FIELD(dtype),
               "PyTorch's name of the data type (default torch.float32)"),
    PRN_OPTION(COUNT, 'b', "batch-size", "N", FIELD(batch_size),
               "inferences that go through the pipeline together (default 8)",
               PRN_OPTION_RANGE(1, 1e6)),
    PRN_OPTION(COUNT, 'i', "buffers-in", "N", FIELD(buffers_in),
               "batches that a stage holds before it works on them (default 2)",
               PRN_OPTION_RANGE(0, 1e6)),
    PRN_OPTION(COUNT, 'o', "buffers-out", "N", FIELD(buffers_out),
               "batches that a stage holds after it worked on them (default 2)",
               PRN_OPTION_RANGE(0, 1e6)),
    PRN_OPTION(TEXT, 0, "neighbours", "FILE", FIELD(neighbours),
               "bandwidths of pairs of hosts, as PipeEdge's device_neighbors_world.yml has them: a "
               "map of hosts to maps of hosts to bw_Mbps. Pairs that aren't there have no link"),
    PRN_OPTION(COUNT, 0, "quantise-links", "BITS", FIELD(link_bits),
               "assume this many bits per number on links (default: the size of its type)",
               PRN_OPTION_RANGE(1, 64)),
    PRN_OPTION(TEXT, 0, "partition", "FIRST,LAST,...", FIELD(partition),
               "the layers of each stage, e.g. 1,12,13,48; then only hosts are chosen"),
    PRN_OPTION_HEADING("What is best"),
    PRN_OPTION(
        CHOICE, 0, "objective", "WHAT", FIELD(objective),
        "throughput (the slowest stage or link is as fast as it can be), latency (all stages "
        "and links together are), or cost (the cheapest hosts that keep the limits below); "
        "default throughput",
        .choices = prn_objectives),
    PRN_OPTION(NUMBER, 0, "min-throughput", "RATE", FIELD(min_throughput),
               "cost: inferences per second that must be reached", PRN_OPTION_RANGE(1e-12, 1e15)),
    PRN_OPTION(SECONDS, 0, "max-latency", "TIME", FIELD(max_latency_s),
               "cost: time that a batch may take from the first layer to the last",
               PRN_OPTION_RANGE(0, 1e15)),
    PRN_OPTION(COUNT, 0, "max-stages", "N", FIELD(max_stages), "use at most N hosts",
               PRN_OPTION_RANGE(1, 1e6)),
    PRN_OPTION(COUNT, 0, "max-memory", "MIB", FIELD(max_memory_mib),
               "memory that the search may use (default 256); larger searches are approximated, "
               "with a bound on the error",
               PRN_OPTION_RANGE(1, (double)(PRN_SCHEDULE_MEMORY_MAX >> 20))),
    PRN_OPTION(LIST, 0, "hosts", "LIST", FIELD(hosts),
               "use only hosts whose names match one of these patterns (*, ?), or with TYPE=N at "
               "most N hosts of a type; comma-separated"),
    PRN_OPTION_HEADING("Trying it out"),
    PRN_OPTION(TEXT, 0, "simulate", "MODEL.onnx", FIELD(simulate),
               "run the stages of this model on this machine at the same time, one process each, "
               "and compare with the prediction"),
    PRN_OPTION(TEXT, 0, "run", "MODEL.onnx", FIELD(run),
               "run the stages of this model on hosts of a service (--server) whose hardware has "
               "the names of the device types; tensors go from host to host over the network"),
    PRN_SERVER_ROWS(struct options),
    PRN_OPTION(TEXT, 0, "cuts", "auto|N|NAME,...", FIELD(cuts),
               "where its layers begin, as given to 'prony layers' (default auto)"),
    PRN_OPTION(COUNT, 0, "max-cut-tensors", "N", FIELD(max_cut_tensors), "the same (default 2)",
               PRN_OPTION_RANGE(1, 65536)),
    PRN_OPTION(LIST, 0, "dim", "NAME=SIZE", FIELD(dims),
               "size of an open dimension that isn't the batch, repeatable (default 1)"),
    PRN_OPTION(LIST, 0, "shape", "INPUT=SIZES", FIELD(shapes),
               "shape of an input, repeatable, e.g. x=8x3x224x224"),
    PRN_OPTION(
        TEXT, 0, "backend", "SPEC", FIELD(backend),
        "what runs the stages (default onnxrt-cpu, with as many threads as a stage has cores); "
        "for --run without hardware"),
    PRN_LIBRARY_ROW(struct options),
    PRN_OPTION(FLAG, 0, "no-links", NULL, FIELD(no_links),
               "pass batches on at once instead of waiting for the predicted link time"),
    PRN_OPTION(COUNT, 0, "launches", "N", FIELD(launches),
               "restart all processes N times; intervals come from that (default 5)",
               PRN_OPTION_RANGE(1, 1000)),
    PRN_OPTION(SECONDS, 0, "duration", "TIME", FIELD(duration_s),
               "keep the pipeline full for this long in each launch, or for ten batches if that is "
               "longer (default 1)",
               PRN_OPTION_RANGE(0.001, 1e6)),
    PRN_OPTION(SECONDS, 0, "timeout", "TIME", FIELD(timeout_s),
               "give up when loading or one run of a stage takes longer (default 120)",
               PRN_OPTION_RANGE(0.1, 1e6)),
    PRN_OPTION_HEADING("Stages as files"),
    PRN_OPTION(TEXT, 0, "export", "FOLDER", FIELD(export),
               "write each stage as a model into a new folder, and plan.yml, which says where each "
               "goes; --cuts and others are as for --simulate"),
    PRN_OPTION(TEXT, 0, "model", "MODEL.onnx", FIELD(model),
               "the model for --export, unless --simulate or --run names it"),
    PRN_OPTION_HEADING("How to show it"),
    PRN_OPTION(CHOICE, 0, "format", "FORMAT", FIELD(format),
               "yaml (hosts and layers), text, json, csv, or html, a page with charts, which also "
               "tell times, memory, links, and what another host would change (default yaml; with "
               "--simulate and --run text)",
               .choices = prn_schedule_formats),
    PRN_OPTION(FLAG, 0, "explain", NULL, FIELD(explain), "text, with a drawing of the pipeline"),
    PRN_OPTION(TEXT, 0, "output", "FILE", FIELD(output),
               "write to FILE instead of standard output"),
    PRN_OPTION(
        FLAG, 0, "require", NULL, FIELD(require),
        "fail (exit status 1) when no schedule is feasible, instead of showing an empty one"),
    {0},
};

const struct prn_command prn_command_schedule = {
    .name = "schedule",
    .arguments = "",
    .summary = "find the best pipeline of hosts for a model in layers",
    .description =
        "Assigns consecutive layers to hosts. Every stage fits its host's memory, and no "
        "other such pipeline has a faster bottleneck (its slowest stage or link). Ties go to "
        "the fewest hosts, then to the smallest sum of stage times.\n"
        "The schedule goes to standard output as YAML, a list of hosts with their first and "
        "last layer.\n"
        "--simulate tries it out: one process per stage, each on its own cores, with real "
        "tensors and the planned number of buffers between stages. --run does the same on the "
        "hosts of a service, over their network.",
    .examples = "# the schedule\n"
                "prony schedule -m vit -M models.yml -T device_types.yml -D devices.yml\n"
                "# with an explanation\n"
                "prony schedule -m vit --explain\n"
                "# the cheapest hosts for 100 inferences per second\n"
                "prony schedule -m vit --objective cost --min-throughput 100 --format text\n"
                "# does it work as predicted? the stages as processes, here\n"
                "prony schedule -m vit --simulate vit.onnx\n"
                "# and on the hosts themselves\n"
                "prony schedule -m vit --run vit.onnx --server prony.example.org:443",
    .options = option_table,
    .options_size = sizeof(struct options),
    .defaults = schedule_defaults,
    .run = schedule_run,
};
