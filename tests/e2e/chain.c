/*
 * Runs a model as a whole and as a chain of its layers on ONNX Runtime, and says how far apart the
 * outputs are:
 *
 *     chain PRONY OPT DIMS MODEL.onnx LAYER.onnx...
 *
 * OPT is ONNX Runtime's level of optimisation, DIMS is "batch=2,seq=8" or "-". Inputs are random.
 * Every input of a layer must be one of the model's or an output of the layer right before it. A
 * line per output of the model: its name, "same" or the largest difference, and the largest value.
 */
#include "exec/executor.h"
#include "measure/inputs.h"
#include "model/bindings.h"
#include "model/tensor/tensor.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define TENSORS_MAX 256
#define ALIGNMENT 64

static struct prony_error err;
static struct prn_arena arena = PRN_ARENA_INIT((size_t)4 << 30);

/* Tensors with data, in one block that is aligned for each. */
struct tensors {
    size_t n;
    struct prn_place places[TENSORS_MAX];
    char *data;
    size_t bytes;
};

static void check(int code)
{
    if (code == 0)
        return;
    fprintf(stderr, "%s\n", err.text);
    exit(1);
}

static void *require(void *memory)
{
    if (memory)
        return memory;
    fprintf(stderr, "out of memory\n");
    exit(1);
}

static const struct prn_place *find(const struct tensors *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++)
        if (strcmp(t->places[i].name, name) == 0)
            return &t->places[i];
    return NULL;
}

static char *read_all(int fd, size_t bytes)
{
    char *data = require(prn_arena_alloc(&arena, bytes + 1));
    for (size_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, data + done, bytes - done, (off_t)done);
        if (n <= 0) {
            fprintf(stderr, "shared memory ends early\n");
            exit(1);
        }
        done += (size_t)n;
    }
    return data;
}

static void add_places(struct tensors *t, const struct prn_place *places, size_t n, int fd)
{
    if (n > TENSORS_MAX)
        exit(1);
    for (size_t i = 0; i < n; i++) {
        t->places[i] = places[i];
        size_t end = places[i].offset + places[i].bytes;
        t->bytes = end > t->bytes ? end : t->bytes;
    }
    t->n = n;
    t->data = read_all(fd, t->bytes);
}

/* The tensors of `from` that a model takes, in a file of shared memory. */
static int feed(const struct prn_model *model, const struct tensors *from, struct prn_place *places)
{
    int fd = memfd_create("chain", MFD_CLOEXEC);
    size_t offset = 0;
    for (size_t i = 0; i < model->n_inputs; i++) {
        const struct prn_place *p = find(from, model->inputs[i]->name);
        if (!p) {
            fprintf(stderr, "%s needs '%s', which nothing hands to it\n", model->path,
                    model->inputs[i]->name);
            exit(1);
        }
        places[i] = *p;
        places[i].offset = offset;
        if (pwrite(fd, from->data + p->offset, p->bytes, (off_t)offset) != (ssize_t)p->bytes)
            exit(1);
        offset = (offset + p->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    if (fd < 0 || ftruncate(fd, (off_t)offset + ALIGNMENT) < 0)
        exit(1);
    return fd;
}

/* One run of a model in an executor of its own. */
static void run(const char *program, const char *opt, const char *path, const struct tensors *in,
                struct tensors *out)
{
    struct prn_model *model;
    static struct prn_place places[TENSORS_MAX];
    check(prn_model_open(path, &model, &err));
    if (model->n_inputs > TENSORS_MAX)
        exit(1);
    int fd = feed(model, in, places);
    const struct prn_spec_option options[] = {{"opt", opt}};
    const struct prn_runtime_config runtime = {
        .software = "onnxrt-cpu", .options = options, .n_options = 1};
    const struct prn_executor_config process = {
        .program = program, .inputs_fd = fd, .timeout_s = 120};
    /* The path has a folder in front: tests give absolute ones. */
    char *folder = model->external_bytes && strrchr(path, '/') ? require(strdup(path)) : NULL;
    if (folder)
        *strrchr(folder, '/') = '\0';
    struct prn_executor *x;
    int64_t sample;
    size_t n;
    check(prn_executor_spawn(&process, &x, &err));
    check(prn_executor_open(x, &runtime, path, folder, &err));
    check(prn_executor_load(x, path, &sample, &err));
    check(prn_executor_bind(x, places, model->n_inputs, &err));
    check(prn_executor_run(x, 0, 1, 0, &sample, &n, &err));
    struct prn_place *outputs;
    int outputs_fd;
    check(prn_executor_outputs(x, 0, &arena, &outputs, &n, &outputs_fd, &err));
    *out = (struct tensors){0};
    add_places(out, outputs, n, outputs_fd);
    close(outputs_fd);
    close(fd);
    free(folder);
    prn_executor_free(x);
    prn_model_free(model);
}

static void compare(const struct tensors *a, const struct prn_place *p, const struct tensors *b,
                    const struct prn_place *q)
{
    const char *x = a->data + p->offset;
    const char *y = b->data + q->offset;
    double difference = 0;
    double largest = 0;
    if (p->dtype != q->dtype || p->bytes != q->bytes || p->rank != q->rank ||
        memcmp(p->dims, q->dims, p->rank * sizeof *p->dims) != 0) {
        printf("%s has another type or shape\n", p->name);
        return;
    }
    size_t n = prn_dtype_bits(p->dtype) ? p->bytes * 8 / (size_t)prn_dtype_bits(p->dtype) : 0;
    for (size_t i = 0; i < n; i++) {
        double u = prn_tensor_get(x, p->dtype, i);
        double v = prn_tensor_get(y, p->dtype, i);
        difference = fmax(difference, fabs(u - v));
        largest = fmax(largest, fabs(u));
    }
    if (p->bytes == 0 || memcmp(x, y, p->bytes) == 0)
        printf("%s same %g\n", p->name, largest);
    else
        printf("%s %g %g\n", p->name, difference, largest);
}

/* The inputs of the whole model, as `prony profile` would make them. */
static void make_inputs(const struct prn_model *model, char *dims, struct tensors *ret)
{
    const char *texts[16];
    size_t n = 0;
    for (char *at = strcmp(dims, "-") ? strtok(dims, ",") : NULL; at; at = strtok(NULL, ","))
        texts[n++] = at;
    struct prn_bindings bindings;
    struct prn_input *inputs;
    struct prn_inputs made;
    check(prn_bindings_parse(texts, n, NULL, 0, &arena, &bindings, &err));
    check(prn_model_bind(model, &bindings, &arena, &inputs, &err));
    check(prn_inputs_make(inputs, model->n_inputs, NULL, 0, NULL, 1, &arena, &made, &err));
    *ret = (struct tensors){0};
    add_places(ret, made.places, made.n, made.fd);
    prn_inputs_release(&made);
}

int main(int argc, char **argv)
{
    static struct tensors fed, whole, passed, next;
    if (argc < 6)
        return 2;
    const char *program = argv[1];
    const char *opt = argv[2];
    struct prn_model *model;
    check(prn_model_open(argv[4], &model, &err));
    make_inputs(model, argv[3], &fed);
    run(program, opt, argv[4], &fed, &whole);
    bool *shown = require(calloc(whole.n + 1, sizeof *shown));
    passed = fed;
    for (int i = 5; i < argc; i++) {
        run(program, opt, argv[i], &passed, &next);
        for (size_t k = 0; k < whole.n; k++) {
            const struct prn_place *result = find(&next, whole.places[k].name);
            if (result && !shown[k])
                compare(&whole, &whole.places[k], &next, result);
            shown[k] = shown[k] || result;
        }
        passed = next;
    }
    for (size_t k = 0; k < whole.n; k++)
        if (!shown[k])
            printf("%s is missing\n", whole.places[k].name);
    free(shown);
    prn_model_free(model);
    prn_arena_release(&arena);
    return 0;
}
