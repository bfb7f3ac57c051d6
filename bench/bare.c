/*
 * What prony is compared with: a bare loop over the same library, written as a user of the C API
 * would, with nothing of prony's in it.
 *
 *     bare LIBRARY MODEL INPUT DIMS SECONDS        e.g. bare libonnxruntime.so.1 m.onnx x 1x100 2
 *
 * Prints the median time of one run, in ns, after warming up for a quarter of the time. With a
 * number of runs, such as 100x, in place of the time, it makes as many and prints the median of
 * them all.
 */
#include "ort.h"

#include <time.h>

#define SAMPLES_MAX 1000000

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: bare LIBRARY MODEL INPUT DIMS SECONDS|RUNSx\n");
        return 2;
    }
    load(argv[1]);
    void *env, *options, *session, *memory, *allocator, *input;
    char *output_name;
    must(CALL(CREATE_ENV, void *, (int, const char *, void **), 3, "bare", &env));
    must(CALL(CREATE_SESSION_OPTIONS, void *, (void **), &options));
    must(CALL(CREATE_SESSION, void *, (void *, const char *, void *, void **), env, argv[2],
              options, &session));
    must(CALL(CREATE_CPU_MEMORY_INFO, void *, (int, int, void **), 1, 0, &memory));
    must(CALL(GET_ALLOCATOR, void *, (void **), &allocator));
    must(CALL(GET_OUTPUT_NAME, void *, (void *, size_t, void *, char **), session, 0, allocator,
              &output_name));

    int64_t dims[8];
    size_t rank = 0;
    size_t elements = 1;
    for (char *p = argv[4]; *p && rank < 8; p += *p == 'x') {
        dims[rank] = strtoll(p, &p, 10);
        elements *= (size_t)dims[rank++];
    }
    float *data = calloc(elements, sizeof *data);
    for (size_t i = 0; i < elements; i++)
        data[i] = (float)rand() / (float)RAND_MAX;
    must(CALL(CREATE_TENSOR, void *,
              (void *, void *, size_t, const int64_t *, size_t, int, void **), memory, data,
              elements * sizeof *data, dims, rank, 1, &input));

    const char *input_names[] = {argv[3]};
    const char *output_names[] = {output_name};
    const void *inputs[] = {input};
    char *unit;
    double seconds = strtod(argv[5], &unit);
    size_t runs = *unit == 'x' ? (size_t)seconds : 0;
    int64_t *samples = calloc(SAMPLES_MAX, sizeof *samples);
    size_t n = 0;
    int64_t start = now_ns();
    for (;;) {
        void *output = NULL;
        int64_t before = now_ns();
        void *status = CALL(RUN, void *,
                            (void *, void *, const char *const *, const void *const *, size_t,
                             const char *const *, size_t, void **),
                            session, NULL, input_names, inputs, 1, output_names, 1, &output);
        int64_t after = now_ns();
        must(status);
        CALL(RELEASE_VALUE, void, (void *), output);
        double elapsed = (double)(after - start) * 1e-9;
        if (!runs && elapsed > seconds && n > 0)
            break;
        if ((runs || elapsed > seconds / 4) && n < SAMPLES_MAX)
            samples[n++] = after - before;
        if (runs && n == runs)
            break;
    }
    qsort(samples, n, sizeof *samples, compare);
    printf("%lld\n", (long long)samples[n / 2]);
    return 0;
}
