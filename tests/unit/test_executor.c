/* Executors with the real ONNX Runtime in them: several models in one. */
#include "exec/executor.h"

#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct prony_error err;
static char program[4096]; /* of this build */
static char folder[64];    /* of the models of a test */

/* What a test has: an executor, opened, and its inputs. */
struct world {
    struct prn_executor *x;
    int inputs_fd;
};

#define assert_ok(call)               \
    do {                              \
        if ((call) != 0)              \
            fail_msg("%s", err.text); \
    } while (0)

static void find_program(void)
{
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 16);
    assert_true(n > 0);
    program[n] = '\0';
    for (int up = 0; up < 3; up++) /* tests/unit/test_executor */
        *strrchr(program, '/') = '\0';
    strcat(program, "/prony");
}

static void copy_model(const char *name, const char *to, char path[128])
{
    char data[4096];
    int from_fd = open(unit_data(name), O_RDONLY | O_CLOEXEC);
    ssize_t n = read(from_fd, data, sizeof data);
    assert_true(n > 0 && n < (ssize_t)sizeof data);
    close(from_fd);
    snprintf(path, 128, "%s/%s", folder, to);
    int to_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(to_fd, data, (size_t)n), n);
    close(to_fd);
}

/* Writes `n` numbers to the inputs and binds them as x. */
static void bind_numbers(const struct world *w, const float *numbers, size_t n,
                         const struct prn_place *shape)
{
    struct prn_place place = *shape;
    place.name = "x";
    place.dtype = PRN_DTYPE_FLOAT;
    place.bytes = n * sizeof *numbers;
    assert_int_equal(pwrite(w->inputs_fd, numbers, place.bytes, 0), (ssize_t)place.bytes);
    assert_int_equal(ftruncate(w->inputs_fd, (off_t)place.bytes), 0);
    assert_ok(prn_executor_bind(w->x, &place, 1, &err));
}

/* Runs the selected model once; the first number that comes out. */
static float run_once(struct prn_executor *x)
{
    struct prn_arena arena = PRN_ARENA_INIT(65536);
    struct prn_place *outputs;
    int64_t sample;
    size_t n;
    int fd;
    float first = 0;
    assert_ok(prn_executor_run(x, 0, 1, 0, &sample, &n, &err));
    assert_int_equal(n, 1);
    assert_ok(prn_executor_outputs(x, 0, &arena, &outputs, &n, &fd, &err));
    assert_int_equal(n, 1);
    assert_string_equal(outputs[0].name, "y");
    assert_int_equal(pread(fd, &first, sizeof first, (off_t)outputs[0].offset), sizeof first);
    close(fd);
    prn_arena_release(&arena);
    return first;
}

/* y = 4x, of any length; in the slot that is selected. */
static void load_four_times(const struct world *w, float x)
{
    char path[128];
    int64_t ns;
    const float numbers[2] = {x, 7};
    copy_model("functions.onnx", "four.onnx", path);
    assert_ok(prn_executor_load(w->x, path, &ns, &err));
    assert_true(ns > 0);
    bind_numbers(w, numbers, 2, &(struct prn_place){.rank = 1, .dims = {2}});
}

static int set_up(void **state)
{
    static struct world w;
    w = (struct world){.inputs_fd = memfd_create("inputs", MFD_CLOEXEC)};
    strcpy(folder, "/tmp/prony-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    find_program();
    const struct prn_executor_config process = {
        .program = program, .inputs_fd = w.inputs_fd, .timeout_s = 60};
    const struct prn_runtime_config runtime = {.software = "onnxrt-cpu"};
    assert_ok(prn_executor_spawn(&process, &w.x, &err));
    assert_ok(prn_executor_open(w.x, &runtime, NULL, folder, &err));
    *state = &w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    char command[128];
    prn_executor_free(w->x);
    close(w->inputs_fd);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

static void models_have_slots(void **state)
{
    const struct world *w = *state;
    char path[128];
    int64_t ns;
    const float ones[4] = {1, 1, 1, 1};
    const float zeros[4] = {0};
    load_four_times(w, 1.5f);
    assert_float_equal(run_once(w->x), 6, 0);
    /* A file that came after the sandbox was closed. */
    copy_model("mlp.onnx", "mlp.onnx", path);
    assert_ok(prn_executor_select(w->x, PRN_EXECUTOR_SLOTS_MAX - 1, &err));
    assert_ok(prn_executor_load(w->x, path, &ns, &err));
    bind_numbers(w, ones, 4, &(struct prn_place){.rank = 2, .dims = {1, 4}});
    float at_ones = run_once(w->x);
    bind_numbers(w, zeros, 4, &(struct prn_place){.rank = 2, .dims = {1, 4}});
    assert_float_not_equal(run_once(w->x), at_ones, 1e-6f);
    bind_numbers(w, ones, 4, &(struct prn_place){.rank = 2, .dims = {1, 4}});
    assert_float_equal(run_once(w->x), at_ones, 0);
    assert_ok(prn_executor_select(w->x, 5, &err));
    load_four_times(w, -2);
    assert_float_equal(run_once(w->x), -8, 0);
    /* The others have their models still. */
    assert_ok(prn_executor_select(w->x, PRN_EXECUTOR_SLOTS_MAX - 1, &err));
    bind_numbers(w, ones, 4, &(struct prn_place){.rank = 2, .dims = {1, 4}});
    assert_float_equal(run_once(w->x), at_ones, 0);
    assert_ok(prn_executor_select(w->x, 0, &err));
    load_four_times(w, 3);
    assert_float_equal(run_once(w->x), 12, 0);
}

static void slots_are_emptied(void **state)
{
    const struct world *w = *state;
    int64_t ns;
    size_t n;
    load_four_times(w, 1);
    assert_ok(prn_executor_select(w->x, 1, &err));
    assert_int_equal(prn_executor_run(w->x, 0, 1, 0, &ns, &n, &err), PRONY_EUSAGE);
    assert_contains(err.text, "no model is loaded");
    load_four_times(w, 2);
    assert_ok(prn_executor_unload(w->x, &err));
    assert_int_equal(prn_executor_run(w->x, 0, 1, 0, &ns, &n, &err), PRONY_EUSAGE);
    assert_int_equal(prn_executor_unload(w->x, &err), PRONY_EUSAGE);
    /* A model that fails to load leaves nothing behind, and the slot is good for another. */
    char path[128];
    snprintf(path, sizeof path, "%s/absent.onnx", folder);
    assert_int_equal(prn_executor_load(w->x, path, &ns, &err), PRONY_ERUNTIME);
    assert_int_equal(prn_executor_run(w->x, 0, 1, 0, &ns, &n, &err), PRONY_EUSAGE);
    load_four_times(w, 2);
    assert_float_equal(run_once(w->x), 8, 0);
    assert_ok(prn_executor_select(w->x, 0, &err));
    load_four_times(w, 1);
    assert_float_equal(run_once(w->x), 4, 0);
    assert_ok(prn_executor_unload(w->x, &err));
    load_four_times(w, 5);
    assert_float_equal(run_once(w->x), 20, 0);
    assert_int_equal(prn_executor_select(w->x, PRN_EXECUTOR_SLOTS_MAX, &err), PRONY_ELIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(models_have_slots, set_up, tear_down),
        cmocka_unit_test_setup_teardown(slots_are_emptied, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("executor", tests, NULL, NULL);
}
