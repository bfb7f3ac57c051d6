/* The model reader on bytes in memory, then what follows an accepted model: binding its inputs,
 * analysing its work, and cutting it into layers, each of which the reader must accept too. */
#include "base/buffer.h"
#include "model/cut/cut.h"
#include "model/parts.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LAYERS_WRITTEN 8

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

/* Writes a layer and reads it back. External data may be missing or refused, so only what was
 * written must be right. */
static void write_layer(struct prn_cuts *cuts, size_t layer)
{
    struct prony_error err;
    struct prn_buffer written = PRN_BUFFER_INIT((size_t)256 << 20);
    int fd = memfd_create("layer", 0);
    if (fd < 0)
        abort();
    if (prn_cut_write(cuts, layer, NULL, fd, "layer", &err) == 0) {
        struct prn_model *again;
        if (lseek(fd, 0, SEEK_SET) != 0 || prn_buffer_read_fd(&written, fd, "layer", &err) < 0 ||
            prn_model_parse(written.data, written.len, "layer.onnx", &again, &err) < 0)
            abort();
        prn_model_free(again);
    }
    close(fd);
    prn_buffer_release(&written);
}

static void cut(const struct prn_model *model, const struct prn_input *inputs,
                const struct prn_work *work)
{
    static const char *const everywhere[] = {"*"};
    static const struct prn_cut_options ways[] = {
        {.max_tensors = 4},
        {.n_layers = 1},
        {.n_layers = 2, .max_tensors = 100},
        {.patterns = everywhere, .n_patterns = 1},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(ways); i++) {
        struct prony_error err;
        struct prn_cuts *cuts;
        if (prn_cuts_find(model, inputs, work, &ways[i], &cuts, &err) < 0)
            continue;
        for (size_t k = 0; k < cuts->n_layers && k < LAYERS_WRITTEN; k++)
            write_layer(cuts, k);
        prn_cuts_free(cuts);
    }
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
        cut(model, inputs, work);
    prn_work_free(work);
    prn_arena_release(&arena);
    prn_model_free(model);
    return 0;
}
