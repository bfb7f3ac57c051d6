#include "pipeline/layers/bench.h"

#include "measure/launch.h"
#include "model/writer.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- Files ---- */

typedef int write_part(struct prn_layer_bench *b, size_t index, const char *data_name, int fd,
                       const char *path, struct prony_error *err);

static int write_graph(struct prn_layer_bench *b, size_t index, const char *data_name, int fd,
                       const char *path, struct prony_error *err)
{
    return prn_cut_write(b->job->cuts, index, data_name, fd, path, err);
}

static int write_data(struct prn_layer_bench *b, size_t index, const char *data_name, int fd,
                      const char *path, struct prony_error *err)
{
    (void)data_name;
    return prn_cut_write_data(b->job->cuts, index, fd, path, err);
}

static int write_file(struct prn_layer_bench *b, size_t index, const char *data_name,
                      const char *path, write_part *write, int64_t *bytes, struct prony_error *err)
{
    struct stat status = {0};
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return prn_fail_errno(err, errno, "create", path);
    int code = write(b, index, data_name, fd, path, err);
    if (fstat(fd, &status) == 0)
        *bytes += status.st_size;
    if (close(fd) < 0 && code == 0)
        code = prn_fail_errno(err, errno, "write", path);
    return code;
}

int prn_bench_write(struct prn_layer_bench *b, size_t index, struct prn_bench_model *ret_model,
                    struct prony_error *err)
{
    const char *folder = b->scratch.folder;
    bool apart = prn_cut_needs_data(b->job->cuts, index);
    char name[64];
    *ret_model = (struct prn_bench_model){.bytes = 0};
    snprintf(name, sizeof name, "layer_%zu.onnx", index + 1);
    size_t size = sizeof ret_model->path;
    if (snprintf(ret_model->path, size, "%s/%s", folder, name) >= (int)size ||
        (apart && snprintf(ret_model->data_path, size, "%s/%s.data", folder, name) >= (int)size))
        return prn_fail_errno(err, ENAMETOOLONG, "create", name);
    ret_model->file = (struct prn_model_file){ret_model->path, apart ? folder : NULL};
    const char *data_name = apart ? strrchr(ret_model->data_path, '/') + 1 : NULL;
    int code =
        write_file(b, index, data_name, ret_model->path, write_graph, &ret_model->bytes, err);
    if (code == 0 && apart)
        code = write_file(b, index, data_name, ret_model->data_path, write_data, &ret_model->bytes,
                          err);
    if (code < 0)
        prn_bench_remove(ret_model);
    return code;
}

int prn_bench_write_least(struct prn_layer_bench *b, struct prn_bench_model *ret_model,
                          struct prony_error *err)
{
    struct prn_writer *w = prn_writer_new("prony", prony_version());
    struct prn_dim dims[] = {{.value = 1}};
    struct prn_value in = {.name = "x",
                           .kind = PRN_VALUE_TENSOR,
                           .dtype = PRN_DTYPE_FLOAT,
                           .has_shape = true,
                           .rank = PRN_ARRAY_SIZE(dims),
                           .dims = dims};
    struct prn_value out = in;
    out.name = "y";
    const struct prn_node node = {.name = "",
                                  .op_type = "Relu",
                                  .domain = "",
                                  .inputs = &in.name,
                                  .n_inputs = 1,
                                  .outputs = &out.name,
                                  .n_outputs = 1};
    *ret_model = (struct prn_bench_model){.bytes = 0};
    if (!w)
        return prn_fail_memory(err);
    prn_writer_graph_name(w, "least");
    prn_writer_opset(w, "", 13);
    prn_writer_input(w, &in);
    prn_writer_node(w, &node);
    prn_writer_output(w, &out);
    snprintf(ret_model->path, sizeof ret_model->path, "%.*s/least.onnx",
             (int)(sizeof ret_model->path - sizeof "/least.onnx"), b->scratch.folder);
    ret_model->file = (struct prn_model_file){ret_model->path, NULL};
    int fd = open(ret_model->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int code = fd < 0 ? prn_fail_errno(err, errno, "create", ret_model->path)
                      : prn_writer_write(w, fd, ret_model->path, err);
    if (fd >= 0 && close(fd) < 0 && code == 0)
        code = prn_fail_errno(err, errno, "write", ret_model->path);
    prn_writer_free(w);
    return code;
}

void prn_bench_remove(const struct prn_bench_model *model)
{
    unlink(model->path);
    if (model->data_path[0])
        unlink(model->data_path);
}

/* ---- One run ---- */

static struct prn_measure_request request_of(const struct prn_layer_bench *b)
{
    const struct prn_layer_job *job = b->job;
    return (struct prn_measure_request){
        .timeout_s = job->timeout_s,
        .cancelled = job->cancelled,
        .progress = job->progress,
        .context = job->context,
    };
}

static int load_and_run(struct prn_layer_bench *b, struct prn_executor *executor,
                        const struct prn_model_file *model, const struct prn_inputs *inputs,
                        struct prn_bench_run *run, struct prony_error *err)
{
    size_t n;
    int64_t before = prn_executor_resident(executor);
    int code = prn_executor_load(executor, model->path, &run->load_ns, err);
    int64_t after = code == 0 ? prn_executor_resident(executor) : -1;
    /* A layer without weights may fit into what the process had to spare. */
    run->growth_bytes = before < 0 || after < 0 ? -1 : after > before ? after - before : 0;
    if (code < 0 || !inputs)
        return code;
    code = prn_executor_bind(executor, inputs->places, inputs->n, err);
    if (code == 0)
        code = prn_executor_run(executor, 0, 1, 0, &run->run_ns, &n, err);
    if (code == 0)
        code = prn_executor_outputs(executor, 0, &b->arena, &run->outputs, &run->n_outputs,
                                    &run->fd, err);
    return code;
}

int prn_bench_run(struct prn_layer_bench *b, const struct prn_spec *backend,
                  const struct prn_model_file *model, const struct prn_inputs *inputs,
                  struct prn_bench_run *ret_run, struct prony_error *err)
{
    static const struct prn_inputs none = {.fd = -1};
    struct prn_measure_request request = request_of(b);
    request.models = model;
    request.inputs = inputs ? inputs : &none;
    const struct prn_launch_config config = {
        .request = &request, .backend = backend, .memory_bytes = prn_launch_memory()};
    struct prn_bench_run run = {.growth_bytes = -1, .fd = -1};
    struct prn_executor *executor = NULL;
    int code = prn_launch_open(&config, &executor, err);
    if (code == 0)
        code = load_and_run(b, executor, model, inputs, &run, err);
    prn_executor_free(executor);
    if (code == 0)
        *ret_run = run;
    return code;
}

void prn_bench_run_release(struct prn_bench_run *run)
{
    if (run->fd >= 0)
        close(run->fd);
    run->fd = -1;
}

int prn_bench_find(const struct prn_bench_run *run, const char *name,
                   const struct prn_place **ret_place, struct prony_error *err)
{
    for (size_t i = 0; i < run->n_outputs; i++)
        if (strcmp(run->outputs[i].name, name) == 0) {
            *ret_place = &run->outputs[i];
            return 0;
        }
    return prn_fail(err, PRONY_ERUNTIME, "the runtime doesn't give '%s'", name);
}

int prn_bench_copy(struct prn_layer_bench *b, const struct prn_bench_run *run,
                   const struct prn_cut_tensor *const *tensors, size_t n,
                   struct prn_inputs *ret_copies, struct prony_error *err)
{
    struct prn_input_copy *copies = PRN_ARENA_ARRAY(&b->arena, n + 1, struct prn_input_copy);
    int code = copies ? 0 : prn_fail_memory(err);
    for (size_t i = 0; i < n && code == 0; i++) {
        copies[i].fd = run->fd;
        code = prn_bench_find(run, tensors[i]->value.name, &copies[i].place, err);
    }
    return code < 0 ? code
                    : prn_inputs_copy(copies, n, "the layer before", &b->arena, ret_copies, err);
}

/* ---- Measuring ---- */

static int fill_profile(struct prn_layer_bench *b, struct prn_profile *p, const char *const *labels,
                        size_t n, struct prony_error *err)
{
    struct prn_spec *backends = PRN_ARENA_ARRAY(&b->arena, n, struct prn_spec);
    p->models->path = b->job->model->path;
    p->settings = b->job->settings;
    p->n_points = n;
    p->points = PRN_ARENA_ARRAY(&p->arena, n, struct prn_point);
    if (!backends || !p->points)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        backends[i] = *b->backend;
        p->points[i] = (struct prn_point){.label = labels[i], .batch = b->job->batch, .flops = NAN};
    }
    int code = prn_profile_stamp(p, err);
    if (code == 0)
        code = prn_backends_describe(backends, n, NULL, p, err);
    for (size_t i = 0; i < n && code == 0; i++)
        p->results[i].point = i;
    return code;
}

int prn_bench_profile(struct prn_layer_bench *b, const char *const *labels, size_t n,
                      int64_t model_bytes, struct prn_profile **ret_profile,
                      struct prony_error *err)
{
    struct prn_profile *p = prn_profile_new();
    if (!p)
        return prn_fail_memory(err);
    int code = fill_profile(b, p, labels, n, err);
    p->models->bytes = model_bytes;
    if (code < 0)
        prn_profile_free(p);
    else
        *ret_profile = p;
    return code;
}

static const char *kept(struct prn_layer_bench *b, const char *text)
{
    const char *copy = text ? prn_arena_strdup(&b->measurement->arena, text) : NULL;
    return copy ? copy : "";
}

int prn_bench_measure(struct prn_layer_bench *b, struct prn_profile *profile,
                      const struct prn_model_file *models, const struct prn_inputs *inputs,
                      struct prony_error *err)
{
    struct prn_measure_request request = request_of(b);
    struct prn_layer_measurement *m = b->measurement;
    struct prn_spec *backends = PRN_ARENA_ARRAY(&b->arena, profile->n_results, struct prn_spec);
    if (!backends)
        return prn_fail_memory(err);
    for (size_t i = 0; i < profile->n_results; i++)
        backends[i] = *b->backend;
    request.backends = backends;
    request.models = models;
    request.inputs = inputs;
    profile->canary_best_ns = b->canary_best_ns;
    int code = prn_measure(&request, profile, err);
    b->canary_best_ns = profile->canary_best_ns;
    if (code == 0)
        code = prn_summarise(profile, err);
    if (code == 0 && !m->runtime[0])
        m->runtime = kept(b, profile->results[0].runtime_version);
    if (code == 0 && !m->cpu[0])
        m->cpu = kept(b, profile->environment.cpu);
    return code;
}

int prn_bench_time(const struct prn_layer_bench *b, const struct prn_result *result,
                   struct prn_whole_time *ret, struct prony_error *err)
{
    const struct prn_settings *asked = &b->job->settings;
    if (result->flags & PRN_FLAG_INTERRUPTED)
        return prn_fail(err, PRONY_ECANCELED, "interrupted");
    if (result->error_code)
        return prn_fail(err, result->error_code, "%s", result->error);
    if (result->n_samples == 0)
        return prn_fail(err, PRONY_ETIMEDOUT, "time was up before anything was measured");
    struct prn_interval mean = prn_mean_interval(result->samples, result->n_samples);
    if (isnan(mean.estimate))
        return prn_fail_memory(err);
    double half_ns = (mean.high - mean.low) / 2;
    bool known = isfinite(half_ns) && result->n_launches >= PRN_UNITS_MIN;
    *ret = (struct prn_whole_time){.time_s = mean.estimate / 1e9,
                                   .time_ci_s = known ? half_ns / 1e9 : NAN,
                                   .samples = (int64_t)result->n_samples,
                                   .launches = (int64_t)result->n_launches,
                                   .flags = result->flags};
    /* Measuring stops when the median is known, which says less of a mean. */
    if (asked->repeats == 0 && !(half_ns <= asked->precision * mean.estimate))
        ret->flags |= PRN_FLAG_IMPRECISE;
    return 0;
}
