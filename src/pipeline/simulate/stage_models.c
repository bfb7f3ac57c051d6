#include "pipeline/simulate/stage_models.h"

#include "model/bindings.h"
#include "pipeline/torch_dtype.h"
#include "exec/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define ARENA_BYTES ((size_t)1 << 30)

struct set {
    struct prn_stage_models models; /* first: the public face */
    const struct prn_stage_models_request *request;
    struct prn_arena arena;
    struct prn_work *work;
    struct prn_cuts *cuts; /* layers are stages */
    char folder[PATH_MAX]; /* "": none yet */
    bool kept;
};

/* ---- Cutting ---- */

static int open_model(struct set *s, struct prony_error *err)
{
    const struct prn_stage_models_request *r = s->request;
    struct prn_bindings bindings;
    int code = prn_bindings_parse(r->dims.items, r->dims.n, r->shapes.items, r->shapes.n, &s->arena,
                                  &bindings, err);
    if (code == 0)
        code = prn_model_open(r->model_path, &s->models.model, err);
    if (code == 0)
        code = prn_model_bind(s->models.model, &bindings, &s->arena, &s->models.inputs, err);
    if (code == 0)
        code = prn_cut_bind_batch(s->models.model, r->pipeline->batch_size, s->models.inputs, err);
    if (code == 0)
        code = prn_model_analyse(s->models.model, s->models.inputs, &s->work, err);
    return code;
}

/* Layers of the same number can still be others: what they give tells. */
static void compare_layers(const struct set *s, const struct prn_cuts *cuts)
{
    const struct prn_pipeline *p = s->request->pipeline;
    double element = (double)prn_torch_dtype_bytes(p->dtype) * (double)p->batch_size;
    for (size_t i = 0; i < cuts->n_layers; i++) {
        size_t n;
        const struct prn_cut_tensor *const *given = prn_layer_given(&cuts->layers[i], &n);
        double elements = prn_cut_elements(given, n) / (double)p->batch_size;
        double expected = p->bytes_out[i] / element;
        if (isnan(elements) || elements == expected)
            continue;
        s->request->warn("layer %zu of '%s' gives %.15g elements, but that of '%s' in the "
                         "schedule's files %.15g: it may have been cut in another way",
                         i + 1, s->request->model_path, elements, p->model_name, expected);
        return;
    }
}

static int check_layers(const struct set *s, const struct prn_cut_options *how,
                        struct prony_error *err)
{
    const struct prn_stage_models_request *r = s->request;
    struct prn_cuts *cuts;
    int code = prn_cuts_find(s->models.model, s->models.inputs, s->work, how, &cuts, err);
    if (code < 0)
        return code;
    if (cuts->n_layers != r->pipeline->n_layers)
        code =
            prn_fail(err, PRONY_EUSAGE,
                     "'%s' cut by '%s' has %zu layers, but '%s' in the schedule's files has %zu; "
                     "give --cuts as it was when the layers were profiled",
                     r->model_path, r->cuts ? r->cuts : "auto", cuts->n_layers,
                     r->pipeline->model_name, r->pipeline->n_layers);
    else
        compare_layers(s, cuts);
    prn_cuts_free(cuts);
    return code;
}

static int cut(struct set *s, struct prony_error *err)
{
    const struct prn_schedule *schedule = s->request->schedule;
    struct prn_cut_options how;
    size_t *ends = PRN_ARENA_ARRAY(&s->arena, schedule->n, size_t);
    int code = ends ? 0 : prn_fail_memory(err);
    if (code == 0)
        code = prn_cut_options_parse(s->request->cuts, s->request->max_cut_tensors, &s->arena, &how,
                                     err);
    if (code == 0)
        code = check_layers(s, &how, err);
    if (code < 0)
        return code;
    for (size_t i = 0; i < schedule->n; i++)
        ends[i] = schedule->stages[i].last;
    how.ends = ends;
    how.n_ends = schedule->n;
    return prn_cuts_find(s->models.model, s->models.inputs, s->work, &how, &s->cuts, err);
}

/* ---- Files ---- */

static int create(const struct set *s, const char *path, struct prony_error *err)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, s->request->folder ? 0666 : 0600);
    return fd < 0 ? prn_fail_errno(err, errno, "create", path) : fd;
}

static int stage_models_finish(int fd, int code, const char *path, struct prony_error *err)
{
    if (close(fd) < 0 && code == 0)
        code = prn_fail_errno(err, errno, "write", path);
    return code;
}

static int write_data(struct set *s, size_t stage, const char *name, struct prony_error *err)
{
    char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", s->folder, name);
    int fd = create(s, path, err);
    return fd < 0 ? fd
                  : stage_models_finish(fd, prn_cut_write_data(s->cuts, stage, fd, path, err), path,
                                        err);
}

static int write_stage(struct set *s, size_t stage, struct prony_error *err)
{
    struct prn_stage_model *m = &s->models.stages[stage];
    char path[PATH_MAX + 64];
    char data[64];
    snprintf(path, sizeof path, "%s/stage_%zu.onnx", s->folder, stage + 1);
    snprintf(data, sizeof data, "stage_%zu.onnx.data", stage + 1);
    m->layer = &s->cuts->layers[stage];
    m->external = prn_cut_needs_data(s->cuts, stage);
    m->path = prn_arena_strdup(&s->arena, path);
    if (!m->path)
        return prn_fail_memory(err);
    int code = m->external ? write_data(s, stage, data, err) : 0;
    if (code < 0)
        return code;
    int fd = create(s, path, err);
    if (fd < 0)
        return fd;
    code = prn_cut_write(s->cuts, stage, m->external ? data : NULL, fd, path, err);
    return stage_models_finish(fd, code, path, err);
}

static int make_folder(const struct set *s, char folder[PATH_MAX], struct prony_error *err)
{
    const char *asked = s->request->folder;
    if (!asked)
        return prn_scratch_make(NULL, folder, err);
    if (snprintf(folder, PATH_MAX, "%s", asked) >= PATH_MAX)
        return prn_fail_errno(err, ENAMETOOLONG, "create", asked);
    return mkdir(folder, 0777) < 0 ? prn_fail_errno(err, errno, "create", folder) : 0;
}

static int write_stages(struct set *s, struct prony_error *err)
{
    char folder[PATH_MAX];
    size_t n = s->request->schedule->n;
    s->models.stages = PRN_ARENA_ARRAY(&s->arena, n, struct prn_stage_model);
    int code = s->models.stages ? make_folder(s, folder, err) : prn_fail_memory(err);
    if (code < 0)
        return code;
    snprintf(s->folder, sizeof s->folder, "%s", folder);
    s->models.folder = s->folder;
    for (size_t i = 0; i < n && code == 0; i++) {
        if (s->request->cancelled && __atomic_load_n(s->request->cancelled, __ATOMIC_RELAXED))
            code = prn_fail(err, PRONY_ECANCELED, "interrupted while cutting '%s'",
                            s->request->model_path);
        else
            code = write_stage(s, i, err);
    }
    return code;
}

int prn_stage_models_cut(const struct prn_stage_models_request *request,
                         struct prn_stage_models **ret_models, struct prony_error *err)
{
    struct set *s = calloc(1, sizeof *s);
    if (!s)
        return prn_fail_memory(err);
    s->request = request;
    s->arena = PRN_ARENA_INIT(ARENA_BYTES);
    int code = open_model(s, err);
    if (code == 0)
        code = cut(s, err);
    if (code == 0)
        code = write_stages(s, err);
    s->kept = code == 0 && request->folder;
    if (code < 0)
        prn_stage_models_free(&s->models);
    else
        *ret_models = &s->models;
    return code;
}

void prn_stage_models_free(struct prn_stage_models *models)
{
    if (!models)
        return;
    struct set *s = (struct set *)models;
    char path[PATH_MAX + 64];
    for (size_t i = 0; s->folder[0] && !s->kept && i < s->request->schedule->n; i++)
        for (int data = 0; data < 2; data++) {
            snprintf(path, sizeof path, "%s/stage_%zu.onnx%s", s->folder, i + 1,
                     data ? ".data" : "");
            unlink(path);
        }
    if (s->folder[0] && !s->kept)
        rmdir(s->folder);
    prn_cuts_free(s->cuts);
    prn_work_free(s->work);
    prn_model_free(models->model);
    prn_arena_release(&s->arena);
    free(s);
}
