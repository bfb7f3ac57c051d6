/* A schedule as JSON: what it consists of, in tables. CSV takes two of them. */
#include "report/schedule/view.h"

#include <math.h>

#define VERDICT_MAX ((size_t)64 << 10)
#define HALF "Half of the 95 % interval; null: not known."

/* A time and half of its interval. */
#define TIMED(member, key_s, key_ci, ...)              \
    PRN_NUMBER(member.s, __VA_ARGS__, .key = (key_s)), \
        PRN_NUMBER(member.ci_s, HALF, .key = (key_ci))

/* ---- Stages ---- */

#define PRN_OF struct prn_stage_view
static const struct prn_member stage_members[] = {
    PRN_TEXT(host, "Where it runs."),
    PRN_TEXT(type, "The host's device type."),
    PRN_INTEGER(first, "From 1.", .key = "first_layer", .min = 1),
    PRN_INTEGER(last, "From 1.", .key = "last_layer", .min = 1),
    TIMED(time, "time_s", "time_ci_s", "Sum of its layers' times.", .flags = PRN_FINITE),
    PRN_NUMBER(idle, "Fraction of the period in which the host waits.", .flags = PRN_FINITE),
    PRN_NUMBER(memory_bytes, "Of weights and buffers.", .flags = PRN_FINITE),
    PRN_NUMBER(available_bytes, "That the host has.", .flags = PRN_FINITE),
};
const struct prn_schema prn_stage_schema = PRN_SCHEMA(NULL, stage_members, NULL);

static const struct prn_member link_members[] = {
    PRN_NUMBER(link_bytes, "Of one batch.", .key = "bytes", .flags = PRN_FINITE),
    PRN_NUMBER(link_mbps, "2^20 bits per second: the smaller of both hosts'.", .key = "mbps",
               .flags = PRN_FINITE),
    PRN_NUMBER(link_s, "For one batch.", .key = "time_s", .flags = PRN_FINITE),
    PRN_NUMBER(link_idle, "Fraction of the period without a batch.", .key = "idle",
               .flags = PRN_FINITE),
};
static const struct prn_schema link_schema = PRN_SCHEMA("Link", link_members, "Between two hosts.");

static const struct prn_member linked_stage_members[] = {
    PRN_INLINE_PART(&prn_stage_schema),
    PRN_PART("link", &link_schema, "To the next stage; null behind the last.", .flags = PRN_NULL),
};
static const struct prn_schema linked_stage_schema =
    PRN_SCHEMA("Stage", linked_stage_members, "Layers that follow one another, on a host.");
#undef PRN_OF

struct bottleneck {
    enum { KIND_NONE = -1, KIND_STAGE, KIND_LINK } kind;
    int64_t stage; /* from 1 */
};

static struct bottleneck make_bottleneck(size_t stage, bool is_link)
{
    return (struct bottleneck){is_link ? KIND_LINK : KIND_STAGE, (int64_t)stage + 1};
}

static const struct prn_name bottleneck_names[] = {
    {KIND_STAGE, "stage"}, {KIND_LINK, "link"}, {0, NULL}};

#define PRN_OF struct bottleneck
static const struct prn_member bottleneck_members[] = {
    PRN_CHOICE(kind, bottleneck_names, "Which of them."),
    PRN_INTEGER(stage, "From 1; of a link, the stage that sends.", .min = 1),
};
static const struct prn_schema bottleneck_schema =
    PRN_SCHEMA("Bottleneck", bottleneck_members, "The stage or link that takes longest.");
#undef PRN_OF

/* ---- A simulation ---- */

struct measured_stage {
    const char *host;
    size_t cores;
    struct prn_timed alone, together, handling, link;
    double alone_handling_s, alone_to_predicted, busy, memory_bytes, link_bytes, link_mbps;
};

#define PRN_OF struct measured_stage
static const struct prn_member measured_link_members[] = {
    PRN_NUMBER(link_bytes, "That really were handed on.", .key = "bytes", .flags = PRN_FINITE),
    TIMED(link, "time_s", "time_ci_s", "From sender to receiver.", .flags = PRN_FINITE),
    PRN_NUMBER(link_mbps,
               "Bandwidth between the two hosts, in units of 2^20 bits per second; null: no "
               "network was there, or nothing was sent.",
               .key = "mbps"),
};
static const struct prn_schema measured_link_schema =
    PRN_SCHEMA("MeasuredLink", measured_link_members, "Between two hosts, as it was.");

static const struct prn_member measured_stage_members[] = {
    PRN_TEXT(host, "That the service gave, as it calls itself; null: this machine.",
             .flags = PRN_NULL),
    PRN_INTEGER(cores, "Of its own; 0: it shares all, or is on another host."),
    TIMED(alone, "alone_s", "alone_ci_s", "Mean time of a run with nothing else in the pipeline.",
          .flags = PRN_FINITE),
    PRN_NUMBER(alone_handling_s, "What taking a batch over and handing it on takes beside the run.",
               .min = INT64_MIN, .flags = PRN_FINITE),
    PRN_NUMBER(alone_to_predicted, "alone_s over the time_s of the schedule; null: that is 0."),
    TIMED(together, "together_s", "together_ci_s", "Mean time of a run in the full pipeline.",
          .flags = PRN_FINITE),
    TIMED(handling, "handling_s", "handling_ci_s", "alone_handling_s in the full pipeline.",
          .min = INT64_MIN, .flags = PRN_FINITE),
    PRN_NUMBER(busy, "Share of the time with either, in the full pipeline.", .flags = PRN_FINITE),
    PRN_NUMBER(memory_bytes, "That its process grew by at most, and what its buffers hold."),
    PRN_PART("link", &measured_link_schema, "To the next stage; null behind the last.",
             .flags = PRN_NULL),
};
static const struct prn_schema measured_stage_schema =
    PRN_SCHEMA("MeasuredStage", measured_stage_members, "A stage as it was.");
#undef PRN_OF

static void write_differs(struct prn_json_writer *w, const char *key, const void *record)
{
    prn_json_bool(w, key, prn_output_differs(record, PRN_TOLERANCE_DEFAULT));
}

#define PRN_OF struct prn_output_check
static const struct prn_member output_members[] = {
    PRN_TEXT(name, "Its name in the model."),
    PRN_BOOL(same_shape, "The same shape and type."),
    PRN_NUMBER(max_abs, "Largest difference; null: can't be told, or infinite."),
    PRN_NUMBER(max_rel, "As a part of the largest value."),
    PRN_COMPUTED(BOOL, "differs", write_differs,
                 "By more than 0.001 of the largest value, in a whole number, or in shape."),
};
static const struct prn_schema output_schema =
    PRN_SCHEMA("Output", output_members, "An output against the whole model's.");
#undef PRN_OF

struct simulation {
    const struct prn_simulation *of;
    const struct prn_schedule_view *view;
    struct bottleneck bottleneck;
    struct prn_timed period, throughput, latency, full_latency;
};

static void write_measured(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct simulation *s = record;
    prn_json_array(w, key);
    for (size_t i = 0; i < s->of->n_stages; i++) {
        const struct prn_simulated_stage *stage = &s->of->stages[i];
        const struct measured_stage measured = {.host = stage->host,
                                                .cores = stage->cores,
                                                .alone = prn_timed(stage->alone_s),
                                                .together = prn_timed(stage->together_s),
                                                .handling = prn_timed(stage->handling_s),
                                                .link = prn_timed(stage->link_s),
                                                .alone_handling_s = stage->alone_handling_s,
                                                .alone_to_predicted = stage->alone_s.estimate /
                                                                      s->view->stages[i].time.s,
                                                .busy = stage->busy,
                                                .memory_bytes = stage->memory_bytes,
                                                .link_bytes = stage->link_bytes,
                                                .link_mbps = prn_simulation_view_mbps(s->of, i)};
        prn_schema_write(w, NULL, &measured_stage_schema, &measured);
    }
    prn_json_end(w);
}

#define PRN_OF struct prn_simulation
static const struct prn_member conditions_members[] = {
    PRN_TEXT(model_path, "The ONNX file.", .key = "model"),
    PRN_TEXT(backend, "What ran the stages."),
    PRN_TEXT(version, "As the runtime calls itself.", .key = "runtime"),
    PRN_TEXT(server, "Whose hosts the stages ran on; null: this machine.", .flags = PRN_NULL),
    PRN_BOOL(links, "What is handed on waits as long as a link was predicted to take, or goes "
                    "over a network."),
    PRN_BOOL(pinned, "Each stage has cores of its own."),
    PRN_INTEGER(n_cores, "That there are for all stages.", .key = "cores"),
    PRN_INTEGER(launches, "How often all processes were started; intervals come from that.",
                .min = 1),
    PRN_INTEGER(disturbed, "Launches during which something else ran on this machine.",
                .key = "disturbed_launches"),
    PRN_INTEGER(lone_batches, "Counted of those that were alone in the pipeline."),
    PRN_INTEGER(batches, "Counted of those in the full pipeline."),
};
static const struct prn_schema conditions_schema = PRN_SCHEMA(NULL, conditions_members, NULL);

static const struct prn_member expected_members[] = {
    PRN_NUMBER(expected_period_s,
               "The longest that a stage alone, with handling, or a link takes here.",
               .flags = PRN_FINITE),
    PRN_NUMBER(expected_latency_s, "Their sum.", .flags = PRN_FINITE),
    PRN_ARRAY(outputs, n_outputs, &output_schema,
              "Of the pipeline against the whole model's: the largest differences."),
};
static const struct prn_schema expected_schema = PRN_SCHEMA(NULL, expected_members, NULL);
#undef PRN_OF

#define PRN_OF struct simulation
static const struct prn_member simulation_members[] = {
    PRN_INLINE_POINTER(of, &conditions_schema),
    PRN_COMPUTED(ARRAY, "stages", write_measured, "As those of the schedule.",
                 .schema = &measured_stage_schema),
    PRN_OBJECT(bottleneck, &bottleneck_schema, "Of the full pipeline."),
    TIMED(period, "period_s", "period_ci_s", "From one batch to the next in the full pipeline.",
          .flags = PRN_FINITE),
    TIMED(throughput, "throughput_per_s", "throughput_ci_per_s",
          "Inferences: batch_size / period_s.", .flags = PRN_FINITE),
    TIMED(latency, "latency_s", "latency_ci_s", "Of a batch that is alone.", .flags = PRN_FINITE),
    TIMED(full_latency, "full_latency_s", "full_latency_ci_s",
          "Of a batch in the full pipeline, with its waiting.", .flags = PRN_FINITE),
    PRN_INLINE_POINTER(of, &expected_schema),
};
static const struct prn_schema simulation_schema =
    PRN_SCHEMA("Simulation", simulation_members, "What the schedule took when it was tried out.");
#undef PRN_OF

static struct simulation make_simulation(const struct prn_schedule_view *view)
{
    const struct prn_simulation *s = view->report->simulation;
    return (struct simulation){.of = s,
                               .view = view,
                               .bottleneck = make_bottleneck(s->bottleneck, s->bottleneck_is_link),
                               .period = prn_timed(s->period_s),
                               .throughput = prn_simulation_view_rate(view),
                               .latency = prn_timed(s->latency_s),
                               .full_latency = prn_timed(s->full_latency_s)};
}

/* ---- One more host ---- */

struct more {
    const char *type;
    size_t hosts, used;
    const char *key; /* of the figure */
    double figure;
};

static void write_figure(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct more *more = record;
    (void)key;
    prn_json_number(w, more->key, more->figure);
}

#define PRN_OF struct more
static const struct prn_member figure_members[] = {
    PRN_NUMBER(figure, "When throughput is the objective.", .key = "period_s", .flags = PRN_OMIT),
    PRN_NUMBER(figure, "When latency is.", .key = "latency_s", .flags = PRN_OMIT),
    PRN_NUMBER(figure, "When cost is.", .key = "usd_per_hour", .flags = PRN_OMIT),
};
static const struct prn_schema figure_schema = PRN_SCHEMA(NULL, figure_members, NULL);

static const struct prn_member more_members[] = {
    PRN_TEXT(type, "A device type."),
    PRN_INTEGER(hosts, "That may be used."),
    PRN_INTEGER(used, "That are."),
    {.name = "figure", .kind = PRN_KIND_INLINE, .schema = &figure_schema, .write = write_figure},
};
static const struct prn_schema more_schema = PRN_SCHEMA(
    "OneMore", more_members, "The objective of the best schedule with one host more of a type.");
#undef PRN_OF

/* ---- The whole ---- */

#define PRN_OF struct prn_schedule_view
static const struct prn_member totals_members[] = {
    TIMED(period, "period_s", "period_ci_s",
          "Time of the slowest stage or link: a batch comes out that often."),
    PRN_NUMBER(throughput, "Inferences: batch_size / period_s.", .key = "throughput_per_s"),
    PRN_NUMBER(throughput_ci, HALF, .key = "throughput_ci_per_s"),
    TIMED(latency, "latency_s", "latency_ci_s", "Of one batch through all stages and links."),
    PRN_NUMBER(usd_per_hour, "Of all hosts in the schedule; null: a price is missing."),
};
const struct prn_schema prn_totals_schema = PRN_SCHEMA(NULL, totals_members, NULL);
#undef PRN_OF

struct schedule {
    const struct prn_schedule_view *view;
    const struct prn_pipeline *pipeline;
    const char *verdict, *shortage;
    bool feasible;
    enum prn_objective objective;
    const struct prn_stage_view *stages;
    size_t n_stages;
    struct bottleneck bottleneck;
    double bound;
    const struct simulation *simulation;
};

static void write_more(struct prn_json_writer *w, const char *key, const void *record)
{
    const struct schedule *s = record;
    prn_json_array(w, key);
    for (size_t t = 0; t < s->pipeline->n_types; t++) {
        const struct more more = {.type = s->pipeline->types[t].name,
                                  .hosts = s->pipeline->types[t].n_hosts,
                                  .used = prn_schedule_view_used(s->view, t),
                                  .key = prn_schedule_view_figure(s->view),
                                  .figure = s->view->report->one_more[t]};
        prn_schema_write(w, NULL, &more_schema, &more);
    }
    prn_json_end(w);
}

static const struct prn_name objective_names[] = {{PRN_OBJECTIVE_THROUGHPUT, "throughput"},
                                                  {PRN_OBJECTIVE_LATENCY, "latency"},
                                                  {PRN_OBJECTIVE_COST, "cost"},
                                                  {0, NULL}};

#define PRN_OF struct prn_pipeline
static const struct prn_member pipeline_members[] = {
    PRN_TEXT(model_name, "What the files call it."),
    PRN_TEXT(dtype, "PyTorch's name of the data type."),
    PRN_INTEGER(batch_size, "Items in a batch.", .min = 1),
    PRN_INTEGER(n_layers, "Of the model.", .key = "layers", .min = 1),
};
static const struct prn_schema pipeline_schema = PRN_SCHEMA(NULL, pipeline_members, NULL);
#undef PRN_OF

#define PRN_OF struct schedule
static const struct prn_member schedule_members[] = {
    PRN_CONSTANT("schema", PRN_SCHEDULE_SCHEMA),
    PRN_INLINE_POINTER(pipeline, &pipeline_schema),
    PRN_CHOICE(objective, objective_names, "What was to be best."),
    PRN_TEXT(verdict, "What was measured or, if nothing was, what is predicted."),
    PRN_TEXT(verdict, "The former name of verdict.", .key = "answer"),
    PRN_BOOL(feasible, "False: there are no stages."),
    PRN_TEXT(shortage, "Why no schedule is feasible; null when one is.", .flags = PRN_NULL),
    PRN_ARRAY(stages, n_stages, &linked_stage_schema, "In the order of the pipeline."),
    PRN_OBJECT(bottleneck, &bottleneck_schema,
               "The first stage or link that takes as long as the period; null without stages.",
               .flags = PRN_NULL),
    PRN_INLINE_POINTER(view, &prn_totals_schema),
    PRN_NUMBER(bound, "Of a schedule that is not proved to be the best: no schedule has a smaller "
                      "period_s, latency_s or usd_per_hour, whichever the objective is; null: this "
                      "is the best."),
    PRN_COMPUTED(ARRAY, "one_more", write_more, "For each device type.", .schema = &more_schema),
    PRN_OBJECT(simulation, &simulation_schema,
               "On this machine (--simulate) or on the hosts of a service (--run); null: it wasn't "
               "tried out.",
               .flags = PRN_NULL | PRN_POINTER),
};
const struct prn_schema prn_schedule_schema =
    PRN_SCHEMA("Schedule", schedule_members, "What prony schedule --format json writes.");
#undef PRN_OF

int prn_schedule_view_json(const struct prn_schedule_view *view, struct prn_buffer *out,
                           struct prony_error *err)
{
    const struct prn_schedule_report *report = view->report;
    struct prn_buffer verdict = PRN_BUFFER_INIT(VERDICT_MAX);
    prn_schedule_view_verdict(view, &verdict);
    struct simulation simulation;
    if (report->simulation)
        simulation = make_simulation(view);
    struct schedule schedule = {
        .view = view,
        .pipeline = report->pipeline,
        .verdict = prn_buffer_text(&verdict),
        .shortage = report->shortage,
        .feasible = report->schedule->n > 0,
        .objective = report->goal->objective,
        .stages = view->stages,
        .n_stages = report->schedule->n,
        .bottleneck = {KIND_NONE, 0},
        .bound = report->bound,
        .simulation = report->simulation ? &simulation : NULL,
    };
    if (schedule.feasible)
        schedule.bottleneck = make_bottleneck(view->bottleneck, view->bottleneck_is_link);
    int code = prn_buffer_error(&verdict, err);
    if (code == 0)
        code = prn_schema_write_json(&prn_schedule_schema, &schedule, out, err);
    prn_buffer_release(&verdict);
    return code;
}
