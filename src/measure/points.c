#include "measure/points.h"

#include "base/format.h"
#include "measure/resume.h"
#include "model/bindings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is needed while points are made. */
struct maker {
    const struct prn_job *job;
    const struct prn_profile *saved; /* whose points are made again; NULL: the job says which */
    struct prn_sweep sweep;
    struct prn_model *model;
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

/* A fault at one point of several says at which one. */
static int at_point(const struct maker *m, size_t index, int code, struct prony_error *err)
{
    const char *label = m->profile->points[index].label;
    if (code == 0 || !err || !label[0])
        return code;
    struct prony_error fault = *err;
    return prn_fail(err, code, "at %.200s: %s", label, fault.text);
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
        code = m->saved ? saved_bindings(m, i, &bindings, err)
                        : prn_sweep_bindings(&m->sweep, i, m->scratch, &bindings, err);
        if (code == 0)
            code = prn_model_bind(m->model, &bindings, m->scratch, &m->bound[i], err);
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
        for (size_t k = 0; k < m->model->n_inputs; k++) {
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
    bool batched = inputs->n > 0 && inputs->places[0].rank >= 2 && inputs->places[0].dims[0] > 0;
    point->batch = batched ? inputs->places[0].dims[0] : 1;
    return 0;
}

static int count_work(struct maker *m, size_t index, struct prn_point *point,
                      struct prony_error *err)
{
    struct prn_work *work = NULL;
    int code = prn_model_analyse(m->model, m->bound[index], &work, err);
    if (code < 0)
        return code;
    point->flops = work->flops;
    point->flops_complete = work->n_uncounted == 0;
    if (m->job->ops)
        code = prn_ops_graph_new(m->model, work, &m->feed.graphs[index], err);
    prn_work_free(work);
    return code;
}

/* Says how the saved inputs were made, where the job itself doesn't. */
static int recall_sources(struct maker *m, const struct prn_point *point, struct prony_error *err)
{
    m->sources = PRN_ARENA_ARRAY(m->scratch, point->n_inputs, struct prn_input_source);
    if (!m->sources)
        return prn_fail_memory(err);
    m->n_sources = 0;
    for (size_t i = 0; i < point->n_inputs; i++) {
        const struct prn_profile_input *input = &point->inputs[i];
        if (input->source &&
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
        return recall_sources(m, &resume->points[0], err);
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
    struct prn_point *point = &m->profile->points[index];
    struct prn_inputs *inputs = &m->feed.inputs[index];
    int code =
        prn_inputs_make(m->bound[index], m->model->n_inputs, m->sources, m->n_sources,
                        job->inputs_folder, job->settings.seed, &m->profile->arena, inputs, err);
    if (code == 0)
        code = describe_point(m, inputs, point, err);
    if (code == 0)
        code = count_work(m, index, point, err);
    return at_point(m, index, code, err);
}

/* Dimensions that nobody bound became 1; the reader of the report must know. The first point tells:
 * a sweep leaves the same ones open everywhere. */
static int note_open_dims(struct maker *m, struct prony_error *err)
{
    const struct prn_model *model = m->model;
    const struct prn_input *inputs = m->bound[0];
    struct prn_buffer list = PRN_BUFFER_INIT((size_t)64 << 10);
    const char *example = NULL;
    for (size_t i = 0; i < model->n_inputs; i++)
        for (size_t k = 0; k < inputs[i].rank; k++) {
            if (!inputs[i].assumed[k])
                continue;
            const struct prn_value *value = model->inputs[i];
            const char *param = k < value->rank ? value->dims[k].param : NULL;
            if (param && !example)
                example = param;
            prn_buffer_printf(&list, "%s%s%s%s of '%s'", list.len ? ", " : "",
                              param ? "'" : "dimension ", param ? param : "", param ? "'" : "",
                              inputs[i].name);
            if (!param)
                prn_buffer_printf(&list, " (number %zu)", k);
        }
    int code = prn_buffer_error(&list, err);
    if (code == 0 && list.len > 0) {
        struct prn_buffer note = PRN_BUFFER_INIT((size_t)128 << 10);
        prn_buffer_printf(&note, "left open and taken as 1: %s; ", prn_buffer_text(&list));
        if (example)
            prn_buffer_printf(&note, "--dim %s=N sets it", example);
        else
            prn_buffer_add(&note, "--shape NAME=DIMS sets it");
        code = prn_profile_note(m->profile, prn_buffer_text(&note), err);
        prn_buffer_release(&note);
    }
    prn_buffer_release(&list);
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
    m->feed.n = m->saved ? m->saved->n_points : m->sweep.n_points;
    m->feed.inputs = PRN_ARENA_ARRAY(m->scratch, m->feed.n, struct prn_inputs);
    m->feed.graphs = PRN_ARENA_ARRAY(m->scratch, m->feed.n, struct prn_ops_graph *);
    for (size_t i = 0; m->feed.inputs && i < m->feed.n; i++)
        m->feed.inputs[i].fd = -1;
    return m->feed.inputs && m->feed.graphs ? 0 : prn_fail_memory(err);
}

static int make_points(struct maker *m, struct prony_error *err)
{
    struct prn_profile *p = m->profile;
    int code = plan_points(m, err);
    if (code == 0)
        code = parse_sources(m, err);
    if (code == 0)
        code = prn_model_open(m->job->model_path, &m->model, err);
    if (code < 0)
        return code;
    p->model_bytes = (int64_t)(m->model->file_bytes + m->model->external_bytes);
    p->model_parameters = (int64_t)m->model->n_parameters;
    char fingerprint[PRN_FINGERPRINT_SIZE];
    prn_model_fingerprint(m->model, fingerprint);
    p->model_fingerprint = keep(m, fingerprint);
    if (!p->model_fingerprint)
        return prn_fail_memory(err);
    m->feed.external = m->model->n_external_files > 0;
    if (m->job->resume)
        code = prn_resume_model(m->job->resume, p, err);
    if (code == 0)
        code = bind_points(m, err);
    if (code == 0)
        code = check_memory(m, err);
    for (size_t i = 0; i < m->feed.n && code == 0; i++)
        code = feed_point(m, i, err);
    /* After the inputs are made, because a file may say how large an open dimension is. */
    return code < 0 ? code : note_open_dims(m, err);
}

int prn_points_make(const struct prn_job *job, struct prn_arena *scratch,
                    struct prn_profile *profile, struct prn_feed *ret_feed, struct prony_error *err)
{
    struct maker m = {.job = job, .scratch = scratch, .profile = profile};
    int code = make_points(&m, err);
    prn_model_free(m.model);
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
}
