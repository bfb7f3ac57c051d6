/*
 * Compares two backends on one model, with the program's own inputs: times, whether they give the
 * same, and a table.
 *
 *     prony synth mlp -o model.onnx
 *     cc compare.c $(pkg-config --cflags --libs prony) -o compare
 *     ./compare model.onnx 'onnxrt-cpu[threads=1]' 'onnxrt-cpu[threads=2]'
 *
 * The model takes a tensor "input" of 1x100 floats, as that of `prony synth mlp` does.
 */
#include <prony/prony.h>

#include <math.h>
#include <stdio.h>

#define RUNS 20
#define WIDTH 100

/* Largest difference between the first outputs of the two backends; NAN when they can't be
 * compared. */
static double difference(const struct prony_outputs *a, const struct prony_outputs *b)
{
    struct prony_tensor x;
    struct prony_tensor y;
    double largest = 0;
    if (prony_outputs_get(a, 0, &x) < 0 || prony_outputs_get(b, 0, &y) < 0 ||
        x.dtype != PRONY_DTYPE_FLOAT || y.dtype != x.dtype || y.bytes != x.bytes)
        return NAN;
    for (size_t i = 0; i < x.bytes / sizeof(float); i++) {
        double d = ((const float *)x.data)[i] - ((const float *)y.data)[i];
        d = d < 0 ? -d : d;
        largest = d > largest ? d : largest;
    }
    return largest;
}

/* Every run measures both backends; whose outputs come back takes turns, with the same input for
 * two runs. */
static int measure(struct prony_session *session, const char *path, double *ret_difference,
                   struct prony_error *err)
{
    static const int64_t dims[] = {1, WIDTH};
    float values[WIDTH];
    struct prony_tensor input = {"input", PRONY_DTYPE_FLOAT, 2, dims, values, sizeof values};
    struct prony_outputs *outputs[2] = {NULL, NULL};
    struct prony_graph *graph;
    double largest = 0;
    int code = prony_graph_load(session, path, &graph, err);
    for (int run = 0; code == 0 && run < RUNS; run++) {
        code = prony_region_begin(session, "model", err);
        if (code < 0)
            break;
        for (int i = 0; i < WIDTH; i++)
            values[i] = (float)((run / 2 + i) % 10) / 10;
        code = prony_graph_run(graph, &input, 1, prony_session_backend(session, run % 2),
                               &outputs[run % 2], err);
        if (code == 0)
            code = prony_region_end(session, err);
        else
            prony_region_cancel(session);
        if (code == 0 && run % 2 == 1) {
            double d = difference(outputs[0], outputs[1]);
            largest = d > largest || isnan(d) ? d : largest;
            prony_outputs_free(outputs[0]);
            prony_outputs_free(outputs[1]);
            outputs[0] = outputs[1] = NULL;
        }
    }
    prony_outputs_free(outputs[0]);
    prony_outputs_free(outputs[1]);
    if (code == 0)
        *ret_difference = largest;
    return code;
}

static int print_table(struct prony_session *session, struct prony_error *err)
{
    struct prony_profile *profile;
    struct prony_recording_total total;
    double best_ns = INFINITY;
    int code = prony_session_profile(session, &profile, err);
    if (code < 0)
        return code;
    for (size_t i = 0; prony_profile_total(profile, 0, i, &total) == 0; i++)
        best_ns = total.graphs_ns < best_ns ? total.graphs_ns : best_ns;
    printf("%-32s %8s %9s %12s %9s\n", "Backend", "Samples", "Failures", "Mean (us)", "vs best");
    for (size_t i = 0; prony_profile_total(profile, 0, i, &total) == 0; i++)
        printf("%-32s %8lld %9lld %12.3f %8.2fx\n", total.backend, (long long)total.samples,
               (long long)total.failures, total.graphs_ns / 1e3, total.graphs_ns / best_ns);
    prony_profile_free(profile);
    return 0;
}

int main(int argc, char **argv)
{
    struct prony_session_options options = PRONY_SESSION_OPTIONS_INIT;
    struct prony_session *session;
    struct prony_error err;
    double largest = 0;
    if (argc != 4) {
        fprintf(stderr, "usage: compare MODEL.onnx BACKEND BACKEND\n");
        return 2;
    }
    options.backends = (const char *const *)argv + 2;
    options.n_backends = 2;
    options.strict = 1; /* a comparison of one is none */
    int code = prony_session_open(&options, &session, &err);
    if (code == 0) {
        code = measure(session, argv[1], &largest, &err);
        if (code == 0)
            code = print_table(session, &err);
        prony_session_close(session);
    }
    if (code < 0) {
        fprintf(stderr, "compare: %s\n", err.text);
        return 1;
    }
    printf("Largest difference between their outputs: %g\n", largest);
    return 0;
}
