#include "pipeline/layers/plan.h"

#include "model/bindings.h"

int prn_layer_plan_make(const struct prn_model *model, const struct prn_layer_texts *texts,
                        struct prn_arena *arena, struct prn_layer_plan *ret_plan,
                        struct prony_error *err)
{
    struct prn_layer_plan plan = {.model = model};
    struct prn_cut_options how;
    struct prn_bindings bindings;
    int code = prn_bindings_parse(texts->dims.items, texts->dims.n, texts->shapes.items,
                                  texts->shapes.n, arena, &bindings, err);
    if (code == 0)
        code = prn_model_bind(model, &bindings, arena, &plan.inputs, err);
    if (code == 0)
        code = prn_cut_options_parse(texts->cuts, (size_t)texts->max_tensors, arena, &how, err);
    if (code == 0)
        code = prn_cut_bind_batch(model, texts->batch, plan.inputs, err);
    if (code == 0)
        code = prn_model_analyse(model, plan.inputs, &plan.work, err);
    if (code == 0)
        code = prn_cuts_find(model, plan.inputs, plan.work, &how, &plan.cuts, err);
    if (code < 0)
        prn_layer_plan_release(&plan);
    else
        *ret_plan = plan;
    return code;
}

void prn_layer_plan_release(struct prn_layer_plan *plan)
{
    prn_cuts_free(plan->cuts);
    prn_work_free(plan->work);
}

/* The batch that the inputs have, whoever chose it. */
static int64_t batch_of(const struct prn_layer_plan *plan)
{
    for (size_t i = 0; i < plan->model->n_inputs; i++)
        if (plan->inputs[i].rank > 0)
            return plan->inputs[i].dims[0] > 0 ? plan->inputs[i].dims[0] : 1;
    return 1;
}

int prn_layer_plan_job(const struct prn_layer_plan *plan, const struct prn_texts *inputs,
                       struct prn_arena *arena, struct prn_layer_job *job, struct prony_error *err)
{
    struct prn_input_source *sources =
        PRN_ARENA_ARRAY(arena, inputs->n + 1, struct prn_input_source);
    int code = sources ? 0 : prn_fail_memory(err);
    for (size_t i = 0; i < inputs->n && code == 0; i++)
        code = prn_input_source_parse(inputs->items[i], arena, &sources[i], err);
    if (code < 0)
        return code;
    job->model = plan->model;
    job->cuts = plan->cuts;
    job->inputs = plan->inputs;
    job->batch = batch_of(plan);
    job->sources = sources;
    job->n_sources = inputs->n;
    return 0;
}
