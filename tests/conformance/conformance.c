/*
 * Runs ONNX's own backend tests on a runtime, through the code that `prony profile` uses: the model
 * reader, the inputs, the executor with its sandbox.
 *
 *     conformance PRONY SOFTWARE DATA EVERY JOBS
 *
 * DATA holds KIND/CASE/model.onnx and KIND/CASE/test_data_set_0/{input,output}_N.pb; of the cases
 * in order of their names every EVERYth is run, in JOBS processes at a time. Prints a line for
 * each: case, verdict, reason, with tabs between them.
 *
 * Verdicts: `passed`; `refused`, the runtime itself says why; `not representable`, prony has no
 * such values (sequences, maps, optionals) or types; `wrong`, everything else: other outputs, a
 * crash, a time-out.
 */
#include "base/text.h"
#include "measure/inputs.h"
#include "model/bindings.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* What ONNX's own runner allows: |a - b| <= ABSOLUTE + RELATIVE * |b|. */
#define RELATIVE 1e-3
#define ABSOLUTE 1e-7

#define TIMEOUT_S 60
#define REASON_MAX 240

enum verdict { NOT_RUN, PASSED, REFUSED, NOT_REPRESENTABLE, WRONG };

struct outcome {
    enum verdict verdict;
    char reason[REASON_MAX];
};

/* What all processes share. */
struct board {
    atomic_size_t next;
    struct outcome outcomes[];
};

struct trial {
    const char *program, *software, *folder;
    struct prn_arena arena;
    struct prn_model *model;
    struct prn_inputs inputs;
    struct prn_executor *executor;
    struct outcome *outcome;
};

static void conclude(struct trial *t, enum verdict verdict, const char *reason)
{
    struct prn_buffer clean = PRN_BUFFER_INIT(8192);
    prn_text_clean(&clean, reason);
    t->outcome->verdict = verdict;
    snprintf(t->outcome->reason, sizeof t->outcome->reason, "%s", prn_buffer_text(&clean));
    for (char *c = t->outcome->reason; *c; c++)
        if (*c == '\t' || *c == '\n')
            *c = ' ';
    prn_buffer_release(&clean);
}

/* ---- Outputs ---- */

static int read_file(const char *path, unsigned char **ret_data, size_t *ret_len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat status;
    unsigned char *data = NULL;
    if (fd < 0)
        return -1;
    if (fstat(fd, &status) == 0)
        data = malloc((size_t)status.st_size + 1);
    ssize_t len = data ? read(fd, data, (size_t)status.st_size) : -1;
    close(fd);
    if (len != status.st_size) {
        free(data);
        return -1;
    }
    *ret_data = data;
    *ret_len = (size_t)len;
    return 0;
}

static bool close_enough(double actual, double expected)
{
    if (isnan(expected) || isnan(actual))
        return isnan(expected) && isnan(actual);
    if (isinf(expected) || isinf(actual))
        return expected == actual;
    return fabs(actual - expected) <= ABSOLUTE + RELATIVE * fabs(expected);
}

/* NULL when the output is as expected, else what is wrong. */
static const char *compare(const struct prn_place *place, const void *actual,
                           const struct prn_tensor *expected)
{
    static char text[REASON_MAX];
    int64_t n = 0;
    int dtype = expected->dtype;
    if (place->dtype != dtype) {
        snprintf(text, sizeof text, "type is %s, not %s", prn_dtype_name(place->dtype),
                 prn_dtype_name(dtype));
        return text;
    }
    if (place->rank != expected->rank ||
        memcmp(place->dims, expected->dims, place->rank * sizeof *place->dims) != 0) {
        char have[128];
        char want[128];
        snprintf(text, sizeof text, "shape is %s, not %s",
                 prn_dims_text(place->dims, place->rank, have, sizeof have),
                 prn_dims_text(expected->dims, expected->rank, want, sizeof want));
        return text;
    }
    if (place->bytes == expected->bytes && memcmp(actual, expected->data, place->bytes) == 0)
        return NULL;
    if (dtype == PRN_DTYPE_STRING || prn_dims_elements(place->dims, place->rank, &n) < 0)
        return "strings differ";
    if (dtype == PRN_DTYPE_COMPLEX64 || dtype == PRN_DTYPE_COMPLEX128) {
        dtype = dtype == PRN_DTYPE_COMPLEX64 ? PRN_DTYPE_FLOAT : PRN_DTYPE_DOUBLE;
        n *= 2;
    }
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        double a = prn_tensor_get(actual, dtype, (size_t)i);
        double b = prn_tensor_get(expected->data, dtype, (size_t)i);
        if (!close_enough(a, b) && bad++ == 0)
            snprintf(text, sizeof text, "element %lld is %.7g, not %.7g", (long long)i, a, b);
    }
    if (bad > 1)
        snprintf(text + strlen(text), sizeof text - strlen(text), " (%lld of %lld differ)",
                 (long long)bad, (long long)n);
    return bad ? text : NULL;
}

/* Compares one output; false ends the trial with a conclusion. */
static bool check_output(struct trial *t, size_t index, const struct prn_place *place,
                         const unsigned char *data)
{
    char path[PATH_MAX];
    char text[REASON_MAX];
    unsigned char *file = NULL;
    size_t len = 0;
    struct prn_tensor expected = {0};
    struct prony_error err = {0};
    snprintf(path, sizeof path, "%s/test_data_set_0/output_%zu.pb", t->folder, index);
    if (read_file(path, &file, &len) < 0) {
        conclude(t, WRONG, "more outputs than the test expects");
        return false;
    }
    int code = prn_tensor_parse_pb(file, len, "expected output", &expected, NULL, &err);
    free(file);
    if (code < 0) {
        conclude(t, NOT_REPRESENTABLE, err.text);
        return false;
    }
    /* NumPy has no bfloat16, so the tests hold its bits as uint16. */
    if (place->dtype == PRN_DTYPE_BFLOAT16 && expected.dtype == PRN_DTYPE_UINT16)
        expected.dtype = PRN_DTYPE_BFLOAT16;
    const char *fault = compare(place, data + place->offset, &expected);
    if (fault) {
        snprintf(text, sizeof text, "output %zu: %s", index, fault);
        conclude(t, WRONG, text);
    }
    prn_tensor_release(&expected);
    return !fault;
}

static void check_outputs(struct trial *t)
{
    struct prony_error err = {0};
    struct prn_place *places;
    size_t n;
    int fd;
    struct stat status;
    int code = prn_executor_outputs(t->executor, 0, &t->arena, &places, &n, &fd, &err);
    if (code < 0) {
        conclude(t, code == PRONY_EUNSUPPORTED ? NOT_REPRESENTABLE : WRONG, err.text);
        return;
    }
    size_t size = fstat(fd, &status) == 0 ? (size_t)status.st_size : 0;
    static const unsigned char nothing[1];
    void *map = size ? mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    bool right = map != MAP_FAILED;
    if (!right)
        conclude(t, WRONG, "cannot map the outputs");
    for (size_t i = 0; right && i < n; i++)
        right = check_output(t, i, &places[i], size ? map : nothing);
    if (right)
        conclude(t, PASSED, "");
    if (size && map != MAP_FAILED)
        munmap(map, size);
    close(fd);
}

/* ---- One case ---- */

/* Reads the model and its inputs; false ends the trial with a conclusion. */
static bool prepare(struct trial *t, const char *model_path)
{
    struct prony_error err = {0};
    struct prn_bindings bindings = {0};
    struct prn_input *inputs = NULL;
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s/test_data_set_0", t->folder);
    int code = prn_model_open(model_path, &t->model, &err);
    if (code < 0) {
        conclude(t, WRONG, err.text);
        return false;
    }
    for (size_t i = 0; i < t->model->graph.n_outputs; i++) {
        const struct prn_value *output = &t->model->graph.outputs[i];
        if (output->kind != PRN_VALUE_TENSOR) {
            conclude(t, NOT_REPRESENTABLE, prn_value_kind_name(output->kind));
            return false;
        }
    }
    code = prn_model_bind(t->model, &bindings, &t->arena, &inputs, &err);
    if (code == 0)
        code = prn_inputs_make(inputs, t->model->n_inputs, NULL, 0, folder, 0, &t->arena,
                               &t->inputs, &err);
    if (code < 0)
        conclude(t, code == PRONY_EUNSUPPORTED ? NOT_REPRESENTABLE : WRONG, err.text);
    return code == 0;
}

static void run_case(struct trial *t)
{
    char model_path[PATH_MAX];
    struct prony_error err = {0};
    struct prn_executor_config process = {.program = t->program, .timeout_s = TIMEOUT_S};
    struct prn_runtime_config runtime = {.software = t->software};
    int64_t ns;
    size_t n;
    snprintf(model_path, sizeof model_path, "%s/model.onnx", t->folder);
    if (!prepare(t, model_path))
        return;
    process.inputs_fd = t->inputs.fd;
    int code = prn_executor_spawn(&process, &t->executor, &err);
    if (code == 0)
        code = prn_executor_open(t->executor, &runtime, model_path, NULL, &err);
    if (code < 0) {
        conclude(t, WRONG, err.text);
        return;
    }
    code = prn_executor_load(t->executor, model_path, &ns, &err);
    if (code == 0)
        code = prn_executor_bind(t->executor, t->inputs.places, t->inputs.n, &err);
    if (code == 0)
        code = prn_executor_run(t->executor, 0, 1, 0, &ns, &n, &err);
    if (code == 0)
        check_outputs(t);
    else if (code == PRONY_EUNSUPPORTED)
        conclude(t, NOT_REPRESENTABLE, err.text);
    else
        conclude(t, code == PRONY_ERUNTIME ? REFUSED : WRONG, err.text);
}

static void run_cases(const char *program, const char *software, char **folders, size_t n,
                      struct board *board)
{
    for (;;) {
        size_t i = atomic_fetch_add(&board->next, 1);
        if (i >= n)
            return;
        struct trial t = {.program = program,
                          .software = software,
                          .folder = folders[i],
                          .arena = PRN_ARENA_INIT((size_t)1 << 30),
                          .inputs = {.fd = -1},
                          .outcome = &board->outcomes[i]};
        run_case(&t);
        prn_executor_free(t.executor);
        prn_inputs_release(&t.inputs);
        prn_model_free(t.model);
        prn_arena_release(&t.arena);
    }
}

/* ---- All of them ---- */

/* The last two parts of a path: "node/test_abs". */
static const char *case_name(const char *folder)
{
    const char *name = strrchr(folder, '/');
    while (name > folder && name[-1] != '/')
        name--;
    return name;
}

static size_t find_cases(const char *data, size_t every, char ***ret_folders)
{
    char pattern[PATH_MAX];
    glob_t found;
    snprintf(pattern, sizeof pattern, "%s/*/*/model.onnx", data);
    if (glob(pattern, 0, NULL, &found) != 0)
        return 0;
    char **folders = calloc(found.gl_pathc + 1, sizeof *folders);
    size_t n = 0;
    for (size_t i = 0; folders && i < found.gl_pathc; i += every) {
        *strrchr(found.gl_pathv[i], '/') = '\0';
        folders[n++] = strdup(found.gl_pathv[i]);
    }
    globfree(&found);
    *ret_folders = folders;
    return n;
}

static void free_cases(char **folders, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(folders[i]);
    free(folders);
}

static void print_outcomes(char **folders, size_t n, const struct board *board)
{
    static const char *const names[] = {
        [NOT_RUN] = "not run", [PASSED] = "passed",
        [REFUSED] = "refused", [NOT_REPRESENTABLE] = "not representable",
        [WRONG] = "wrong",
    };
    for (size_t i = 0; i < n; i++)
        printf("%s\t%s\t%s\n", case_name(folders[i]), names[board->outcomes[i].verdict],
               board->outcomes[i].reason);
}

/* Runs all cases in `jobs` processes; returns the exit status. */
static int run_board(const char *program, const char *software, char **folders, size_t n, int jobs)
{
    struct board *board = mmap(NULL, sizeof *board + n * sizeof *board->outcomes,
                               PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) {
        perror("conformance");
        return 1;
    }
    for (int i = 0; i < jobs; i++)
        if (fork() == 0) {
            run_cases(program, software, folders, n, board);
            _exit(0);
        }
    while (wait(NULL) > 0 || errno == EINTR)
        ;
    print_outcomes(folders, n, board);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: conformance PRONY SOFTWARE DATA EVERY JOBS\n");
        return 2;
    }
    char **folders = NULL;
    size_t every = (size_t)strtoul(argv[4], NULL, 10);
    size_t n = every > 0 ? find_cases(argv[3], every, &folders) : 0;
    int status = 1;
    if (n > 0)
        status = run_board(argv[1], argv[2], folders, n, (int)strtol(argv[5], NULL, 10));
    else
        fprintf(stderr, "conformance: no cases in '%s'\n", argv[3]);
    free_cases(folders, n);
    return status;
}
