/* Graphs in FXPROTO. What could be read is packed again, and must then read the same. */
#include "model/fx/fx.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prn_fx *fx;
    struct prn_fx *again;
    struct prony_error err;
    if (prn_fx_unpack(data, size, &fx, &err) < 0)
        return 0;
    size_t bytes = octoml_fxproto__model__get_packed_size(fx->model);
    uint8_t *packed = malloc(bytes + 1);
    if (!packed || octoml_fxproto__model__pack(fx->model, packed) != bytes ||
        prn_fx_unpack(packed, bytes, &again, &err) < 0)
        abort();
    if (again->n_inputs != fx->n_inputs || again->n_outputs != fx->n_outputs ||
        again->model->graph->n_nodes != fx->model->graph->n_nodes)
        abort();
    for (size_t i = 0; i < fx->n_inputs; i++)
        if (strcmp(fx->inputs[i], again->inputs[i]) != 0)
            abort();
    free(packed);
    prn_fx_free(again);
    prn_fx_free(fx);
    return 0;
}
