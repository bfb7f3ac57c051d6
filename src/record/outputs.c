/* The public functions for outputs. */
#include "record/graph.h"

#include <stdlib.h>
#include <string.h>

int prony_outputs_get(const struct prony_outputs *outputs, size_t index,
                      struct prony_tensor *ret_tensor)
{
    if (!outputs || !ret_tensor)
        return PRONY_EUSAGE;
    if (index >= outputs->n)
        return PRONY_ENOENT;
    const struct prn_place *place = &outputs->places[index];
    *ret_tensor = (struct prony_tensor){
        .name = place->name,
        .dtype = place->dtype,
        .rank = place->rank,
        .dims = place->dims,
        .data = outputs->data + place->offset,
        .bytes = place->bytes,
    };
    return 0;
}

int prony_outputs_find(const struct prony_outputs *outputs, const char *name,
                       struct prony_tensor *ret_tensor)
{
    if (!outputs || !name)
        return PRONY_EUSAGE;
    for (size_t i = 0; i < outputs->n; i++)
        if (strcmp(outputs->places[i].name, name) == 0)
            return prony_outputs_get(outputs, i, ret_tensor);
    return PRONY_ENOENT;
}

const char *prony_outputs_backend(const struct prony_outputs *outputs)
{
    return outputs ? outputs->backend : NULL;
}

void prony_outputs_free(struct prony_outputs *outputs)
{
    if (!outputs)
        return;
    prn_arena_release(&outputs->arena);
    free(outputs->data);
    free(outputs);
}
