/*
 * Records one region of a program: a loop that prepares data, runs two graphs and uses what they
 * give. Prints where the time goes on every runtime that is found here, and writes a profile.
 *
 *     prony synth mlp -o encoder.onnx
 *     prony synth mlp --layers 3 -o decoder.onnx
 *     cc region.c $(pkg-config --cflags --libs prony) -o region
 *     ./region encoder.onnx decoder.onnx region.json
 *     prony report region.json --layout segments
 *
 * Both graphs take a tensor "input" of 1x100 floats, as those of `prony synth mlp` do.
 */
#include <prony/prony.h>

#include <stdio.h>
#include <stdlib.h>

#define RUNS 10
#define WIDTH 100

/* The program's own work: it is timed too, as local code. */
static void prepare(float *values, int run)
{
    for (int i = 0; i < WIDTH; i++)
        values[i] = (float)((run * 31 + i * 7) % 100) / 100;
}

static double sum_of(const struct prony_outputs *outputs)
{
    struct prony_tensor first;
    double sum = 0;
    if (prony_outputs_get(outputs, 0, &first) == 0 && first.dtype == PRONY_DTYPE_FLOAT)
        for (size_t i = 0; i < first.bytes / sizeof(float); i++)
            sum += ((const float *)first.data)[i];
    return sum;
}

static int run_graph(struct prony_graph *graph, const float *values, double *ret_sum,
                     struct prony_error *err)
{
    static const int64_t dims[] = {1, WIDTH};
    struct prony_tensor input = {"input", PRONY_DTYPE_FLOAT,    2, dims,
                                 values,  WIDTH * sizeof(float)};
    struct prony_outputs *outputs;
    int code = prony_graph_run(graph, &input, 1, NULL, &outputs, err);
    if (code < 0)
        return code;
    *ret_sum = sum_of(outputs);
    prony_outputs_free(outputs);
    return 0;
}

/* One run of the region: local code, a graph, local code, a graph, local code. */
static int predict(struct prony_session *session, struct prony_graph *encoder,
                   struct prony_graph *decoder, int run, struct prony_error *err)
{
    float values[WIDTH];
    double sum = 0;
    int code = prony_region_begin(session, "predict", err);
    if (code < 0)
        return code;
    prepare(values, run);
    code = run_graph(encoder, values, &sum, err);
    if (code == 0) {
        values[0] = (float)(sum / WIDTH);
        code = run_graph(decoder, values, &sum, err);
    }
    if (code < 0) {
        prony_region_cancel(session); /* half a run says nothing about a whole one */
        return code;
    }
    return prony_region_end(session, err);
}

static int record(struct prony_session *session, char **paths, struct prony_error *err)
{
    struct prony_graph *encoder;
    struct prony_graph *decoder;
    int code = prony_graph_load(session, paths[0], &encoder, err);
    if (code == 0)
        code = prony_graph_load(session, paths[1], &decoder, err);
    for (int run = 0; code == 0 && run < RUNS; run++)
        code = predict(session, encoder, decoder, run, err);
    return code;
}

static int report(struct prony_session *session, const char *path, struct prony_error *err)
{
    struct prony_profile *profile;
    char *text;
    int code = prony_session_profile(session, &profile, err);
    if (code < 0)
        return code;
    code = prony_profile_save(profile, path, err);
    if (code == 0)
        code = prony_profile_report(profile, NULL, &text, err);
    if (code == 0) {
        fputs(text, stdout);
        free(text);
    }
    prony_profile_free(profile);
    return code;
}

int main(int argc, char **argv)
{
    struct prony_session *session;
    struct prony_error err;
    if (argc != 4) {
        fprintf(stderr, "usage: region ENCODER.onnx DECODER.onnx PROFILE.json\n");
        return 2;
    }
    int code = prony_session_open(NULL, &session, &err);
    if (code == 0) {
        code = record(session, argv + 1, &err);
        if (code == 0)
            code = report(session, argv[3], &err);
        prony_session_close(session);
    }
    if (code < 0) {
        fprintf(stderr, "region: %s\n", err.text);
        return 1;
    }
    return 0;
}
