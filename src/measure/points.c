#include "measure/memory/live.h"
#include "measure/points.h"

#include "base/format.h"
#include "measure/resume.h"
#include "model/bindings.h"
#include "model/roles.h"

#include <math.h>
#include <string.h>

/* What is needed while points are made. */
struct maker {
    const struct prn_job *job;
    const struct prn_profile *saved; /* whose points are made again; NULL: the job says which */
    struct prn_sweep sweep;
    struct prn_model *models[PRN_MODELS_MAX];
    struct prn_input **bound; /* the model's inputs at each point */
    struct prn_input_source *sources;
    size_t n_sources;
    struct prn_arena *scratch;
    struct prn_profile *profile;
    struct prn_feed feed;
};

static const char *keep(struct maker *m, const char *text)
{
    return prn_arena_strdup(&m->profile->arena, text);
}

static struct prn_model *model_at(const struct maker *m, size_t point)
{
    return m->models[point % m->job->n_models];
}

/* ---- Which points there are ---- */

/* The shapes that a saved point had are bound as they were. */
static int saved_bindings(struct maker *m, size_t index, struct prn_bindings *ret_bindings,
                          struct prony_error *err)
{
    const struct prn_point *point = &m->saved->points[index];
    struct prn_shape_binding *shapes =
        PRN_ARENA_ARRAY(m->scratch, point->n_inputs, struct prn_shape_binding);
    if (!shapes)
        return prn_fail_memory(err);
    for (size_t i = 0; i < point->n_inputs; i++) {
        const struct prn_profile_input *input = &point->inputs[i];
        shapes[i].input = input->name;
        shapes[i].rank = input->rank;
        memcpy(shapes[i].dims, input->dims, input->rank * sizeof *input->dims);
    }
    *ret_bindings = (struct prn_bindings){.n_shapes = point->n_inputs, .shapes = shapes};
    return 0;
}

static int take_saved_label(struct maker *m, const struct prn_point *from, struct prn_point *point,
                            struct prony_error *err)
{
    point->label = keep(m, from->label);
    point->swept = PRN_ARENA_ARRAY(&m->profile->arena, from->n_swept, struct prn_swept);
    if (!point->label || !point->swept)
        return prn_fail_memory(err);
    for (size_t i = 0; i < from->n_swept; i++) {
        point->swept[i] = (struct prn_swept){keep(m, from->swept[i].name), from->swept[i].size};
        if (!point->swept[i].name)
            return prn_fail_memory(err);
    }
    point->n_swept = from->n_swept;
    return 0;
}

/* Says what the lists set at a point. */
static int make_label(struct maker *m, size_t index, struct prn_point *point,
                      struct prony_error *err)
{
    if (m->saved)
        return take_saved_label(m, &m->saved->points[index], point, err);
    const struct prn_sweep *sweep = &m->sweep;
    index /= m->job->n_models;
    struct prn_buffer label = PRN_BUFFER_INIT((size_t)1 << 16);
    prn_sweep_label(sweep, index, &label);
    int code = prn_buffer_error(&label, err);
    point->label = keep(m, prn_buffer_text(&label));
    prn_buffer_release(&label);
    point->swept = PRN_ARENA_ARRAY(&m->profile->arena, sweep->n_axes, struct prn_swept);
    if (code == 0 && (!point->label || !point->swept))
        code = prn_fail_memory(err);
    for (size_t i = 0; i < sweep->n_axes && code == 0; i++) {
        const struct prn_axis *axis = &sweep->axes[i];
        if (axis->n == 1)
            continue;
        size_t value = prn_sweep_value(sweep, index, i);
        struct prn_swept *swept = &point->swept[point->n_swept++];
        *swept = (struct prn_swept){keep(m, axis->name), axis->dims ? axis->dims[value].value : -1};
        if (!swept->name)
            code = prn_fail_memory(err);
    }
    return code;
}

/* A fault at one point of several says at which one, and in which model. */
static int at_point(const struct maker *m, size_t index, int code, struct prony_error *err)
{
    const struct prn_profile *p = m->profile;
    const char *label = p->points[index].label;
    if (code < 0 && p->n_models > 1)
        code = prn_fail_in(err, code, "%s", p->models[index % p->n_models].name);
    if (code == 0 || !err || !label[0])
        return code;
    struct prony_error fault = *err;
    return prn_fail(err, code, "at %.200s: %s", label, fault.text);
}

static bool has_dim(const struct prn_model *model, const char *name)
{
    for (size_t i = 0; i < model->n_inputs; i++)
        for (size_t d = 0; d < model->inputs[i]->rank; d++)
            if (model->inputs[i]->dims[d].param &&
                strcmp(model->inputs[i]->dims[d].param, name) == 0)
                return true;
    return false;
}

static bool has_input(const struct prn_model *model, const char *name)
{
    for (size_t i = 0; i < model->n_inputs; i++)
        if (strcmp(model->inputs[i]->name, name) == 0)
            return true;
    return false;
}

/* Whether what an option names is for other models than this one. A name that no model has is for
 * this one, which will say so. */
static bool of_others(const struct maker *m, const struct prn_model *model, const char *name,
                      bool (*has)(const struct prn_model *model, const char *name))
{
    bool others = false;
    for (size_t i = 0; i < m->job->n_models; i++)
        others |= has(m->models[i], name);
    return others && !has(model, name);
}

/* Leaves out of the bindings what is for other models. */
static void keep_own(const struct maker *m, const struct prn_model *model,
                     struct prn_dim_binding *dims, struct prn_shape_binding *shapes,
                     struct prn_bindings *bindings)
{
    size_t n = 0;
    for (size_t i = 0; i < bindings->n_dims; i++)
        if (!of_others(m, model, bindings->dims[i].param, has_dim))
            dims[n++] = bindings->dims[i];
    bindings->dims = dims;
    bindings->n_dims = n;
    n = 0;
    for (size_t i = 0; i < bindings->n_shapes; i++)
        if (!of_others(m, model, bindings->shapes[i].input, has_input))
            shapes[n++] = bindings->shapes[i];
    bindings->shapes = shapes;
    bindings->n_shapes = n;
}

static int bindings_at(struct maker *m, size_t index, struct prn_bindings *ret_bindings,
                       struct prony_error *err)
{
    if (m->saved)
        return saved_bindings(m, index, ret_bindings, err);
    int code =
        prn_sweep_bindings(&m->sweep, index / m->job->n_models, m->scratch, ret_bindings, err);
    if (code < 0)
        return code;
    struct prn_dim_binding *dims =
        PRN_ARENA_ARRAY(m->scratch, ret_bindings->n_dims, struct prn_dim_binding);
    struct prn_shape_binding *shapes =
        PRN_ARENA_ARRAY(m->scratch, ret_bindings->n_shapes, struct prn_shape_binding);
    if (!dims || !shapes)
        return prn_fail_memory(err);
    keep_own(m, model_at(m, index), dims, shapes, ret_bindings);
    return 0;
}

/* All points are bound before the inputs of any are made, so that a wrong size is told at once. */
static int bind_points(struct maker *m, struct prony_error *err)
{
    struct prn_profile *p = m->profile;
    p->points = PRN_ARENA_ARRAY(&p->arena, m->feed.n, struct prn_point);
    m->bound = PRN_ARENA_ARRAY(m->scratch, m->feed.n, struct prn_input *);
    if (!p->points || !m->bound)
        return prn_fail_memory(err);
    for (size_t i = 0; i < m->feed.n; i++) {
        struct prn_bindings bindings;
        int code = make_label(m, i, &p->points[i], err);
        if (code < 0)
            return code;
        code = bindings_at(m, i, &bindings, err);
        if (code == 0)
            code = prn_model_bind(model_at(m, i), &bindings, m->scratch, &m->bound[i], err);
        if (code < 0)
            return at_point(m, i, code, err);
        p->n_points = i + 1;
    }
    return 0;
}

/* The inputs of a sweep are all there at the same time; too much is told before any is made. */
static int check_memory(const struct maker *m, struct prony_error *err)
{
    double total = 0;
    double available = (double)prn_memory_available();
    for (size_t i = 0; i < m->feed.n; i++)
        for (size_t k = 0; k < model_at(m, i)->n_inputs; k++) {
            const struct prn_input *input = &m->bound[i][k];
            size_t bytes;
            if (prn_dtype_bytes(input->dtype, input->dims, input->rank, &bytes) == 0)
                total += (double)bytes;
        }
    if (m->feed.n == 1 || available < 0 || total <= PRN_POINTS_MEMORY_SHARE * available)
        return 0;
    char all[PRN_FORMAT_SIZE];
    char half[PRN_FORMAT_SIZE];
    return prn_fail(err, PRONY_ELIMIT,
                    "the inputs of all %zu points take %s, more than the %s that may be used for "
                    "them; sweep fewer or smaller sizes",
                    m->feed.n, prn_format_bytes(all, total),
                    prn_format_bytes(half, PRN_POINTS_MEMORY_SHARE * available));
}

/* ---- What they are fed ---- */

static int describe_point(struct maker *m, struct prn_inputs *inputs, struct prn_point *point,
                          struct prony_error *err)
{
    struct prn_arena *arena = &m->profile->arena;
    point->inputs = PRN_ARENA_ARRAY(arena, inputs->n + 1, struct prn_profile_input);
    if (!point->inputs)
        return prn_fail_memory(err);
    for (size_t i = 0; i < inputs->n; i++) {
        struct prn_place *place = &inputs->places[i];
        int64_t *dims = PRN_ARENA_ARRAY(arena, place->rank + 1, int64_t);
        struct prn_profile_input input = {.name = keep(m, place->name),
                                          .dtype = place->dtype,
                                          .rank = place->rank,
                                          .dims = dims,
                                          .source = keep(m, inputs->sources[i])};
        if (!dims || !input.name || !input.source)
            return prn_fail_memory(err);
        memcpy(dims, place->dims, place->rank * sizeof *dims);
        point->inputs[point->n_inputs++] = input;
        place->name = input.name; /* which outlives the model's */
    }
    size_t index = (size_t)(point - m->profile->points);
    point->batch = prn_model_batch(model_at(m, index), m->bound[index]);
    return 0;
}

static int count_work(struct maker *m, size_t index, struct prn_point *point,
                      struct prony_error *err)
{
    struct prn_work *work = NULL;
    int code = prn_model_analyse(model_at(m, index), m->bound[index], &work, err);
    if (code < 0)
        return code;
    point->flops = work->flops;
    point->flops_complete = work->n_uncounted == 0;
    if (m->job->ops || m->job->memory)
        code = prn_ops_graph_new(model_at(m, index), work, &m->feed.graphs[index], err);
    if (code == 0 && m->job->memory)
        code = prn_live_new(model_at(m, index), work, &m->feed.lives[index], err);
    if (code == 0 && m->job->ops && index < m->job->n_models)
        code = prn_ops_graph_describe(model_at(m, index), work, &m->profile->arena,
                                      &m->profile->models[index], err);
    prn_work_free(work);
    return code;
}

static bool is_recalled(const struct maker *m, const char *name)
{
    for (size_t i = 0; i < m->n_sources; i++)
        if (strcmp(m->sources[i].name, name) == 0)
            return true;
    return false;
}

/* Says how the saved inputs were made, where the job itself doesn't. Models share those that have
 * the same name. */
static int recall_sources(struct maker *m, const struct prn_profile *saved, struct prony_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < saved->n_models; i++)
        n += saved->points[i].n_inputs;
    m->sources = PRN_ARENA_ARRAY(m->scratch, n, struct prn_input_source);
    if (!m->sources)
        return prn_fail_memory(err);
    for (size_t i = 0; i < saved->n_models; i++)
        for (size_t k = 0; k < saved->points[i].n_inputs; k++) {
            const struct prn_profile_input *input = &saved->points[i].inputs[k];
            if (input->source && !is_recalled(m, input->name) &&
                prn_input_source_recall(input->name, input->source, &m->sources[m->n_sources]))
                m->n_sources++;
        }
    return 0;
}

static int parse_sources(struct maker *m, struct prony_error *err)
{
    const struct prn_texts *texts = &m->job->inputs;
    const struct prn_profile *resume = m->job->resume;
    if (resume && texts->n == 0 && !m->job->inputs_folder)
        return recall_sources(m, resume, err);
    m->sources = PRN_ARENA_ARRAY(m->scratch, texts->n, struct prn_input_source);
    if (!m->sources)
        return prn_fail_memory(err);
    for (size_t i = 0; i < texts->n; i++) {
        int code = prn_input_source_parse(texts->items[i], m->scratch, &m->sources[i], err);
        if (code < 0)
            return code;
    }
    m->n_sources = texts->n;
    return 0;
}

static int feed_point(struct maker *m, size_t index, struct prony_error *err)
{
    const struct prn_job *job = m->job;
    const struct prn_model *model = model_at(m, index);
    struct prn_point *point = &m->profile->points[index];
    struct prn_inputs *inputs = &m->feed.inputs[index];
    struct prn_input_source *sources =
        PRN_ARENA_ARRAY(m->scratch, m->n_sources, struct prn_input_source);
    size_t n = 0;
    if (!sources)
        return prn_fail_memory(err);
    for (size_t i = 0; i < m->n_sources; i++)
        if (!of_others(m, model, m->sources[i].name, has_input))
            sources[n++] = m->sources[i];
    int code = prn_inputs_make(m->bound[index], model->n_inputs, sources, n, job->inputs_folder,
                               job->settings.seed, &m->profile->arena, inputs, err);
    if (code == 0)
        code = describe_point(m, inputs, point, err);
    if (code == 0)
        code = count_work(m, index, point, err);
    return at_point(m, index, code, err);
}

/* Dimensions that nobody bound became 1; the reader of the report must know. The first cohort
 * tells: a sweep leaves the same ones open everywhere. */
static int note_open_dims(struct maker *m, struct prony_error *err)
{
    struct prn_buffer options = PRN_BUFFER_INIT((size_t)1 << 20);
    int code = 0;
    for (size_t i = 0; i < m->job->n_models && code == 0; i++) {
        struct prn_buffer own = PRN_BUFFER_INIT((size_t)1 << 20);
        prn_open_dims(m->models[i], m->bound[i], &own);
        code = prn_buffer_error(&own, err);
        if (own.len > 0 && !strstr(prn_buffer_text(&options), prn_buffer_text(&own)))
            prn_buffer_printf(&options, "%s%s", options.len > 0 ? " " : "", prn_buffer_text(&own));
        prn_buffer_release(&own);
    }
    if (code == 0)
        code = prn_buffer_error(&options, err);
    if (code == 0 && options.len > 0) {
        struct prn_buffer note = PRN_BUFFER_INIT((size_t)2 << 20);
        prn_buffer_printf(&note, "open sizes were set to 1; set them with %s",
                          prn_buffer_text(&options));
        code = prn_profile_note(m->profile, prn_buffer_text(&note), err);
        prn_buffer_release(&note);
        m->feed.open_dims = prn_arena_strdup(m->scratch, prn_buffer_text(&options));
        if (code == 0 && !m->feed.open_dims)
            code = prn_fail_memory(err);
    }
    prn_buffer_release(&options);
    return code;
}

/* Nodes that the file has out of order were sorted, which its author should know. */
static int note_order(struct maker *m, const struct prn_model *model, struct prony_error *err)
{
    if (!model->misplaced)
        return 0;
    struct prn_buffer note = PRN_BUFFER_INIT((size_t)16 << 10);
    prn_buffer_printf(&note, PRN_MISPLACED_NOTE, model->misplaced);
    int code = prn_buffer_error(&note, err);
    if (code == 0)
        code = prn_profile_note(m->profile, prn_buffer_text(&note), err);
    prn_buffer_release(&note);
    return code;
}

/* ---- All of it ---- */

static int plan_points(struct maker *m, struct prony_error *err)
{
    const struct prn_job *job = m->job;
    if (job->resume && job->dims.n + job->shapes.n == 0)
        m->saved = job->resume;
    int code = prn_sweep_parse(job->dims.items, job->dims.n, job->shapes.items, job->shapes.n,
                               m->scratch, &m->sweep, err);
    if (code < 0)
        return code;
    m->feed.n = m->saved ? m->saved->n_points : m->sweep.n_points * job->n_models;
    m->feed.inputs = PRN_ARENA_ARRAY(m->scratch, m->feed.n, struct prn_inputs);
    m->feed.graphs = PRN_ARENA_ARRAY(m->scratch, m->feed.n, struct prn_ops_graph *);
    m->feed.lives = PRN_ARENA_ARRAY(m->scratch, m->feed.n, struct prn_live *);
    for (size_t i = 0; m->feed.inputs && i < m->feed.n; i++)
        m->feed.inputs[i].fd = -1;
    m->feed.external = PRN_ARENA_ARRAY(m->scratch, job->n_models, bool);
    return m->feed.inputs && m->feed.graphs && m->feed.lives && m->feed.external
               ? 0
               : prn_fail_memory(err);
}

static int open_model(struct maker *m, size_t index, struct prony_error *err)
{
    struct prn_profile_model *described = &m->profile->models[index];
    int code = prn_model_open(described->path, &m->models[index], err);
    if (code < 0)
        return code;
    const struct prn_model *model = m->models[index];
    described->bytes = (int64_t)(model->file_bytes + model->external_bytes);
    described->parameters = (int64_t)model->n_parameters;
    described->quantised = prn_model_quantised(model);
    char fingerprint[PRN_FINGERPRINT_SIZE];
    prn_model_fingerprint(model, fingerprint);
    described->fingerprint = keep(m, fingerprint);
    if (!described->fingerprint)
        return prn_fail_memory(err);
    m->feed.external[index] = model->n_external_files > 0;
    return 0;
}

static int make_points(struct maker *m, struct prony_error *err)
{
    int code = plan_points(m, err);
    if (code == 0)
        code = parse_sources(m, err);
    for (size_t i = 0; i < m->job->n_models && code == 0; i++)
        code = open_model(m, i, err);
    if (code == 0 && m->job->resume)
        code = prn_resume_models(m->job->resume, m->profile, err);
    if (code == 0)
        code = bind_points(m, err);
    if (code == 0)
        code = check_memory(m, err);
    for (size_t i = 0; i < m->feed.n && code == 0; i++)
        code = feed_point(m, i, err);
    /* After the inputs are made, because a file may say how large an open dimension is. */
    if (code == 0)
        code = note_open_dims(m, err);
    for (size_t i = 0; i < m->job->n_models && code == 0; i++)
        code = note_order(m, m->models[i], err);
    return code;
}

int prn_points_make(const struct prn_job *job, struct prn_arena *scratch,
                    struct prn_profile *profile, struct prn_feed *ret_feed, struct prony_error *err)
{
    struct maker m = {.job = job, .scratch = scratch, .profile = profile};
    int code = make_points(&m, err);
    for (size_t i = 0; i < job->n_models; i++)
        prn_model_free(m.models[i]);
    if (code < 0)
        prn_feed_release(&m.feed);
    else
        *ret_feed = m.feed;
    return code;
}

void prn_feed_release(struct prn_feed *feed)
{
    for (size_t i = 0; feed->inputs && i < feed->n; i++)
        prn_inputs_release(&feed->inputs[i]);
    for (size_t i = 0; feed->graphs && i < feed->n; i++)
        prn_ops_graph_free(feed->graphs[i]);
    for (size_t i = 0; feed->lives && i < feed->n; i++)
        prn_live_free(feed->lives[i]);
}
