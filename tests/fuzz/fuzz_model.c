/* The model reader on bytes in memory, then what follows an accepted model: binding its inputs
 * and analysing its work. */
#include "model/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every byte that a constant claims to have must be there to read. */
static unsigned touch(const struct prn_graph *graph)
{
    unsigned sum = 0;
    for (size_t i = 0; i < graph->n_constants; i++) {
        const struct prn_constant *c = &graph->constants[i];
        const unsigned char *bytes = c->data;
        for (size_t b = 0; bytes && b < c->bytes; b++)
            sum += bytes[b];
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prn_model *model;
    struct prony_error err;
    if (prn_model_parse(data, size, "fuzz.onnx", &model, &err) < 0)
        return 0;
    volatile unsigned sum = touch(&model->graph);
    (void)sum;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)64 << 20);
    struct prn_bindings none = {0};
    struct prn_input *inputs;
    struct prn_work *work = NULL;
    if (prn_model_bind(model, &none, &arena, &inputs, &err) == 0 &&
        prn_model_analyse(model, inputs, &work, &err) == 0)
        prn_work_free(work);
    prn_arena_release(&arena);
    prn_model_free(model);
    return 0;
}
