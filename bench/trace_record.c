/*
 * Records a trace: runs a model under ONNX Runtime with profiling on, on inputs of zeros.
 *
 *     trace_record LIBRARY MODEL THREADS RUNS OUTPUT
 *
 * THREADS are intra-op; 0 is ONNX Runtime's default. Open dimensions become 1.
 */
#include "ort.h"

#define INPUTS_MAX 16
#define RANK_MAX 16
#define ELEMENT_BYTES_MAX 16

/* A tensor of zeros of the type and shape that an input asks for. */
static void *zeros(void *session, size_t index, void *memory)
{
    void *type, *value;
    const void *info;
    int element;
    size_t rank;
    int64_t dims[RANK_MAX];
    must(CALL(GET_INPUT_TYPE, void *, (void *, size_t, void **), session, index, &type));
    must(CALL(CAST_TO_TENSOR_INFO, void *, (void *, const void **), type, &info));
    must(CALL(GET_ELEMENT_TYPE, void *, (const void *, int *), info, &element));
    must(CALL(GET_RANK, void *, (const void *, size_t *), info, &rank));
    if (rank > RANK_MAX) {
        fprintf(stderr, "trace_record: an input has %zu dimensions\n", rank);
        exit(1);
    }
    must(CALL(GET_DIMS, void *, (const void *, int64_t *, size_t), info, dims, rank));
    size_t elements = 1;
    for (size_t i = 0; i < rank; i++) {
        if (dims[i] < 1)
            dims[i] = 1;
        elements *= (size_t)dims[i];
    }
    /* The widest element there is, so that any type fits; what is too much is never read. */
    size_t bytes = elements * ELEMENT_BYTES_MAX;
    void *data = calloc(bytes, 1);
    must(CALL(CREATE_TENSOR, void *,
              (void *, void *, size_t, const int64_t *, size_t, int, void **), memory, data, bytes,
              dims, rank, element, &value));
    CALL(RELEASE_TYPE_INFO, void, (void *), type);
    return value;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: trace_record LIBRARY MODEL THREADS RUNS OUTPUT\n");
        return 2;
    }
    load(argv[1]);
    int threads = atoi(argv[3]);
    long runs = atol(argv[4]);

    void *env, *options, *session, *memory, *allocator;
    must(CALL(CREATE_ENV, void *, (int, const char *, void **), 3, "record", &env));
    must(CALL(CREATE_SESSION_OPTIONS, void *, (void **), &options));
    if (threads > 0)
        must(CALL(SET_INTRA_OP_THREADS, void *, (void *, int), options, threads));
    must(CALL(ENABLE_PROFILING, void *, (void *, const char *), options, argv[5]));
    must(CALL(CREATE_SESSION, void *, (void *, const char *, void *, void **), env, argv[2],
              options, &session));
    must(CALL(CREATE_CPU_MEMORY_INFO, void *, (int, int, void **), 1, 0, &memory));
    must(CALL(GET_ALLOCATOR, void *, (void **), &allocator));

    size_t inputs;
    char *names[INPUTS_MAX], *output_name;
    void *values[INPUTS_MAX];
    must(CALL(GET_INPUT_COUNT, void *, (void *, size_t *), session, &inputs));
    if (inputs > INPUTS_MAX) {
        fprintf(stderr, "trace_record: %s has %zu inputs\n", argv[2], inputs);
        return 1;
    }
    for (size_t i = 0; i < inputs; i++) {
        must(CALL(GET_INPUT_NAME, void *, (void *, size_t, void *, char **), session, i, allocator,
                  &names[i]));
        values[i] = zeros(session, i, memory);
    }
    must(CALL(GET_OUTPUT_NAME, void *, (void *, size_t, void *, char **), session, 0, allocator,
              &output_name));
    for (long i = 0; i < runs; i++) {
        void *output = NULL;
        must(CALL(
            RUN, void *,
            (void *, void *, char *const *, void *const *, size_t, char *const *, size_t, void **),
            session, NULL, names, values, inputs, &output_name, 1, &output));
        CALL(RELEASE_VALUE, void, (void *), output);
    }

    char *written;
    must(CALL(END_PROFILING, void *, (void *, void *, char **), session, allocator, &written));
    if (rename(written, argv[5]) != 0) {
        perror(written);
        return 1;
    }
    must(CALL(ALLOCATOR_FREE, void *, (void *, void *), allocator, written));
    return 0;
}
