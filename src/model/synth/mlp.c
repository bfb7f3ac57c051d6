/* A fully connected network: Linear(100, hidden), ReLU, …, Linear(hidden, 10). */
#include "model/synth/parts.h"

#include <math.h>

#define INPUTS 100
#define OUTPUTS 10
#define DEFAULT_HIDDEN 200
#define DEFAULT_LAYERS 1

void prn_synth_build_mlp(struct prn_synth *s)
{
    int64_t hidden = s->options.hidden ? s->options.hidden : DEFAULT_HIDDEN;
    int64_t layers = s->options.layers ? s->options.layers : DEFAULT_LAYERS;
    const struct prn_dim batch = prn_synth_batch(s);
    prn_synth_input(s, "input", PRN_DTYPE_FLOAT, 2,
                    (const struct prn_dim[]){batch, PRN_SYNTH_FIXED(INPUTS)});
    const char *x = "input";
    int64_t width = INPUTS;
    for (int64_t i = 1; i <= layers && !s->failed; i++) {
        x = prn_synth_gemm(s, prn_synth_name(s, "/fc%lld", (long long)i),
                           prn_synth_name(s, "fc%lld", (long long)i), x, width, hidden,
                           sqrt(2.0 / (double)width), NULL);
        x = PRN_SYNTH_OP(s, prn_synth_name(s, "/relu%lld", (long long)i), .type = "Relu",
                         .inputs = {x});
        width = hidden;
    }
    const char *last = prn_synth_name(s, "fc%lld", (long long)layers + 1);
    prn_synth_gemm(s, prn_synth_name(s, "/%s", last), last, x, width, OUTPUTS,
                   sqrt(1.0 / (double)width), "output");
    prn_synth_output(s, "output", 2, (const struct prn_dim[]){batch, PRN_SYNTH_FIXED(OUTPUTS)});
}
