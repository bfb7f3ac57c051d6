/* Measuring layer by layer for a session: the order becomes what `prony layers` would measure. */
#include "worker/job_parts.h"

#include "pipeline/layers/plan.h"
#include "report/layers/json.h"

#include <stdio.h>
#include <string.h>

#define ARENA_BYTES ((size_t)256 << 20)
#define LAYER_TEXT_MAX ((size_t)4 << 20)

static struct prn_texts texts(char *const *items, size_t n)
{
    return (struct prn_texts){(const char *const *)items, n};
}

/* After each layer: the client has the file. */
static int send_layer(void *context, const struct prn_layer_profile *profile,
                      const struct prn_layer_row *row, struct prony_error *err)
{
    (void)context;
    struct prn_buffer out = PRN_BUFFER_INIT(LAYER_TEXT_MAX);
    int code = prn_layer_write_json(prn_layer_profile_find(profile, row->layer), row, &out, err);
    if (code == 0)
        prn_job_tell_checkpoint(&out);
    prn_buffer_release(&out);
    return code;
}

/* What the client's file has. */
static int open_profile(const struct prn_layer_order *order, const struct prn_layer_job *job,
                        const char *model_name, struct prn_layer_profile **ret_profile,
                        struct prony_error *err)
{
    struct prn_layer_profile *profile;
    struct prn_layer_head head;
    int code = prn_layer_job_head(job, model_name, &head, err);
    if (code == 0)
        code = prn_layer_profile_new(order->results, &head, &profile, err);
    if (code < 0)
        return code;
    for (size_t i = 0; i < order->n_entries && code == 0; i++)
        code = prn_layer_profile_add(profile, &order->entries[i], err);
    if (code < 0)
        prn_layer_profile_free(profile);
    else
        *ret_profile = profile;
    return code;
}

static int job_layers_measure(const struct prn_layer_order *order, const struct prn_layer_job *job,
                              const char *model_name, struct prn_buffer *out,
                              struct prony_error *err)
{
    struct prn_layer_profile *profile;
    struct prn_layer_measurement *measurement;
    if ((int64_t)job->cuts->n_layers != order->layers)
        return prn_fail(err, PRONY_EUSAGE, "the model is cut into %zu layers here, not %lld",
                        job->cuts->n_layers, (long long)order->layers);
    int code = open_profile(order, job, model_name, &profile, err);
    if (code < 0)
        return code;
    code = prn_layers_measure(job, profile, &measurement, err);
    if (code == 0) {
        measurement->model_path = model_name;
        code = prn_layers_write_json(measurement, profile, out, err);
        prn_layer_measurement_free(measurement);
    }
    prn_layer_profile_free(profile);
    return code;
}

static int cut_and_measure(const Prony__Job *from, const struct prn_layer_order *order,
                           struct prn_layer_job *job, struct prn_arena *arena,
                           struct prn_buffer *out, struct prony_error *err)
{
    const Prony__MeasureRequest *request = from->request;
    const struct prn_layer_texts how = {.dims = texts(request->dims, request->n_dims),
                                        .shapes = texts(request->shapes, request->n_shapes),
                                        .cuts = order->cuts,
                                        .max_tensors = order->max_tensors,
                                        .batch = order->batch};
    const struct prn_texts inputs = texts(request->inputs, request->n_inputs);
    struct prn_model *model;
    struct prn_layer_plan plan;
    int code = prn_model_open(request->model_file, &model, err);
    if (code < 0)
        return code;
    code = prn_layer_plan_make(model, &how, arena, &plan, err);
    if (code == 0) {
        code = prn_layer_plan_job(&plan, &inputs, arena, job, err);
        if (code == 0)
            code = job_layers_measure(
                order, job, request->model_name ? request->model_name : request->model_file, out,
                err);
        prn_layer_plan_release(&plan);
    }
    prn_model_free(model);
    return code;
}

/* What layers have nothing of. */
static int check_request(const Prony__Job *from, struct prony_error *err)
{
    const Prony__MeasureRequest *request = from->request;
    if (from->n_backends != 1)
        return prn_fail(err, PRONY_EUSAGE, "layers are measured on one backend, not on %zu",
                        from->n_backends);
    if (request->ops || request->load || request->has_resume || request->inputs_folder)
        return prn_fail(err, PRONY_EUSAGE,
                        "operators, load, a profile to resume and a folder of inputs aren't "
                        "for layers");
    return 0;
}

int prn_job_layers(const Prony__Job *from, struct prn_job_told *told, double timeout_s,
                   struct prn_buffer *out, struct prony_error *err)
{
    static const volatile int never;
    struct prn_arena arena = PRN_ARENA_INIT(ARENA_BYTES);
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%.*s", (int)strlen(told->folder) - 1, told->folder);
    struct prn_layer_order order;
    int code = check_request(from, err);
    if (code == 0)
        code = prn_layer_order_parse_json(from->request->layers, &arena, &order, err);
    if (code == 0) {
        struct prn_layer_job job = {.backend = from->backends[0],
                                    .hardware = from->hardware,
                                    .folder = folder,
                                    .first = (size_t)order.first,
                                    .last = (size_t)order.last,
                                    .shapes = order.shapes,
                                    .n_shapes = order.first > 1 ? order.n_shapes : 0,
                                    .resume = true,
                                    .timeout_s = timeout_s,
                                    .cancelled = &never,
                                    .progress = prn_job_tell_progress,
                                    .save = send_layer,
                                    .context = told};
        code = prn_job_read_settings(from->request, &arena, &job.settings, err);
        if (code == 0)
            code = cut_and_measure(from, &order, &job, &arena, out, err);
    }
    prn_arena_release(&arena);
    return code;
}
