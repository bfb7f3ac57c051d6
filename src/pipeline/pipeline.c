#include "pipeline/pipeline.h"

#include <math.h>

#define MIB 1048576.0

double prn_pipeline_stage_time(const struct prn_pipeline *p, size_t type, size_t first, size_t last)
{
    double sum = 0;
    for (size_t layer = first; layer <= last; layer++)
        sum += p->types[type].time_s[layer - 1];
    return sum;
}

/* Layers are measured one by one, so their errors are independent. */
double prn_pipeline_stage_ci(const struct prn_pipeline *p, size_t type, size_t first, size_t last)
{
    const double *ci = p->types[type].time_ci_s;
    if (!ci)
        return NAN;
    double squares = 0;
    for (size_t layer = first; layer <= last; layer++)
        squares += ci[layer - 1] * ci[layer - 1];
    return sqrt(squares);
}

double prn_pipeline_fixed_memory(const struct prn_pipeline *p)
{
    return p->fixed_mem_mb * MIB;
}

double prn_pipeline_layer_memory(const struct prn_pipeline *p, size_t layer)
{
    return fmax(0, p->layer_mem_mb[layer - 1] - p->fixed_mem_mb) * MIB;
}

double prn_pipeline_buffer_memory(const struct prn_pipeline *p, size_t first, size_t last)
{
    double in = first == 1 ? p->bytes_in : p->bytes_out[first - 2];
    double out = p->bytes_out[last - 1];
    double received = first == 1 ? 0 : in * (double)p->buffers_in;
    return received + out * (double)p->buffers_out + in + out;
}

double prn_pipeline_stage_memory(const struct prn_pipeline *p, size_t first, size_t last)
{
    double weights = prn_pipeline_fixed_memory(p);
    for (size_t layer = first; layer <= last; layer++)
        weights += prn_pipeline_layer_memory(p, layer);
    return weights + prn_pipeline_buffer_memory(p, first, last);
}

double prn_pipeline_type_memory(const struct prn_pipeline *p, size_t type)
{
    return p->types[type].mem_mb * MIB;
}

double prn_pipeline_link_bytes(const struct prn_pipeline *p, size_t layer)
{
    return p->bytes_out[layer - 1] * (p->link_share > 0 ? p->link_share : 1);
}

double prn_pipeline_link_mbps(const struct prn_pipeline *p, size_t u, size_t v)
{
    return p->pair_mbps ? p->pair_mbps[u * p->n_types + v]
                        : fmin(p->types[u].bw_mbps, p->types[v].bw_mbps);
}

double prn_pipeline_link_time(const struct prn_pipeline *p, size_t layer, size_t u, size_t v)
{
    double bytes = prn_pipeline_link_bytes(p, layer);
    double bytes_per_s = prn_pipeline_link_mbps(p, u, v) * MIB / 8;
    return bytes > 0 ? bytes / bytes_per_s : 0;
}
