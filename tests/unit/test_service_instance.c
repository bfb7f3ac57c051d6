/* Backends of a session, with the real ONNX Runtime, and with one that crashes and hangs. */
#include "instance/instance.h"

#include "base/clock.h"
#include "exec/handle.h"

#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static struct prony_error err;
static char build[4096];        /* the folder of this build */
static char program[4200];      /* prony's */
static char folder[64];         /* of the models of a test */
static char real_library[4096]; /* the one that works, for the faulty one to stand in front of */
static volatile int cancelled;

#define assert_ok(call)               \
    do {                              \
        if ((call) != 0)              \
            fail_msg("%s", err.text); \
    } while (0)

static const char *copy_model(const char *name)
{
    static char path[128];
    char data[4096];
    int from_fd = open(unit_data(name), O_RDONLY | O_CLOEXEC);
    ssize_t n = read(from_fd, data, sizeof data);
    assert_true(n > 0 && n < (ssize_t)sizeof data);
    close(from_fd);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int to_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(to_fd, data, (size_t)n), n);
    close(to_fd);
    return path;
}

/* `fault` NULL: the library that works. Executors are started later, so it stays named. */
static struct prn_instance *make(const char *fault, double timeout_s)
{
    struct prn_arena arena = PRN_ARENA_INIT(65536);
    struct prn_spec spec;
    static char *works;
    char library[5000];
    struct prn_instance *instance;
    if (!works)
        assert_non_null(works = strdup(getenv("PRONY_ORT_LIB") ? getenv("PRONY_ORT_LIB") : ""));
    snprintf(library, sizeof library, "%s/tests/fault/fault-%s.so", build, fault ? fault : "");
    setenv("PRONY_ORT_LIB", fault ? library : works, 1);
    assert_ok(prn_spec_parse("local/onnxrt-cpu[threads=1]", false, &arena, &spec, &err));
    const struct prn_instance_config config = {.program = program,
                                               .spec = &spec,
                                               .folder = folder,
                                               .timeout_s = timeout_s,
                                               .cancelled = &cancelled};
    assert_ok(prn_instance_new(&config, &instance, &err));
    prn_arena_release(&arena);
    return instance;
}

static int load(struct prn_instance *instance, uint64_t id, const char *name)
{
    const struct prn_instance_model model = {.id = id, .path = copy_model(name)};
    struct prn_instance_loaded loaded;
    int code = prn_instance_load(instance, &model, &loaded, &err);
    if (code == 0) {
        assert_true(loaded.load_ns > 0);
        assert_contains(loaded.version, "ONNX Runtime");
        assert_contains(loaded.sandbox, "no_new_privs");
    }
    return code;
}

/* Feeds a row of numbers, in a message with other things around them; how->begun: in two halves. */
static int run_as(struct prn_instance *instance, const struct prn_instance_run *how, bool begun,
                  const float *numbers, const int64_t *dims, size_t rank,
                  struct prn_instance_result **ret_result)
{
    static unsigned char message[100000] = "in front";
    size_t n = 1;
    for (size_t i = 0; i < rank; i++)
        n *= (size_t)dims[i];
    memcpy(message + 9, numbers, n * sizeof *numbers);
    struct prn_bytes *bytes = prn_bytes_of(message, sizeof message);
    const struct prn_rpc_tensor input = {.dtype = PRN_DTYPE_FLOAT,
                                         .rank = rank,
                                         .dims = dims,
                                         .range = {9, n * sizeof *numbers},
                                         .bytes = n * sizeof *numbers};
    struct prn_instance_run request = *how;
    request.bytes = bytes;
    request.inputs = &input;
    request.n_map = 1;
    request.begun = begun && prn_instance_run_begin(instance, &request);
    int code =
        ret_result ? prn_instance_run(instance, &request, ret_result, &err) : (int)request.begun;
    prn_bytes_free(bytes);
    return code;
}

static int run(struct prn_instance *instance, const struct prn_instance_run *how,
               const float *numbers, const int64_t *dims, size_t rank,
               struct prn_instance_result **ret_result)
{
    return run_as(instance, how, false, numbers, dims, rank, ret_result);
}

/* Runs y = 4x once; the answer is checked. */
static int run_four_times_as(struct prn_instance *instance, uint64_t id, float x, bool begun)
{
    const float numbers[2] = {x, 7};
    const int64_t dims[1] = {2};
    const struct prn_instance_run how = {.model_id = id, .outputs = true};
    struct prn_instance_result *result;
    int code = run_as(instance, &how, begun, numbers, dims, 1, &result);
    if (code < 0)
        return code;
    float y[2];
    assert_int_equal(result->n_times, 1);
    assert_true(result->times_ns[0] > 0);
    assert_int_equal(result->n_outputs, 1);
    assert_string_equal(result->names[0], "y");
    assert_int_equal(result->outputs[0].dtype, PRN_DTYPE_FLOAT);
    assert_int_equal(result->outputs[0].rank, 1);
    assert_int_equal(result->outputs[0].dims[0], 2);
    assert_int_equal(result->outputs[0].bytes, sizeof y);
    memcpy(y, result->outputs[0].data, sizeof y);
    assert_float_equal(y[0], 4 * x, 0);
    assert_float_equal(y[1], 28, 0);
    prn_instance_result_release(result);
    return 0;
}

static int run_four_times(struct prn_instance *instance, uint64_t id, float x)
{
    return run_four_times_as(instance, id, x, false);
}

/* Begins such a run that nobody will end; whether it could. */
static bool begin_four_times(struct prn_instance *instance, uint64_t id, float x)
{
    const float numbers[2] = {x, 7};
    const int64_t dims[1] = {2};
    const struct prn_instance_run how = {.model_id = id};
    return run_as(instance, &how, true, numbers, dims, 1, NULL);
}

static int set_up(void **state)
{
    (void)state;
    cancelled = 0;
    ssize_t n = readlink("/proc/self/exe", build, sizeof build - 1);
    assert_true(n > 0);
    build[n] = '\0';
    for (int up = 0; up < 3; up++)
        *strrchr(build, '/') = '\0';
    snprintf(program, sizeof program, "%s/prony", build);
    strcpy(folder, "/tmp/prony-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* Where the library lies that works. */
static void find_real_library(void)
{
    struct prn_instance *instance = make(NULL, 60);
    assert_ok(prn_instance_start(instance, &err));
    snprintf(real_library, sizeof real_library, "%s",
             prn_executor_library(prn_instance_executor(instance)));
    prn_instance_free(instance);
    setenv("PRONY_FAULT_REAL", real_library, 1);
}

static void models_take_turns(void **state)
{
    (void)state;
    struct prn_instance *instance = make(NULL, 60);
    assert_false(prn_instance_alive(instance));
    assert_ok(load(instance, 7, "functions.onnx"));
    assert_ok(load(instance, 3, "mlp.onnx"));
    assert_true(prn_instance_alive(instance));
    const int64_t dims[2] = {1, 4};
    const struct prn_instance_run mlp = {.model_id = 3, .outputs = true};
    for (int i = 0; i < 4; i++) {
        struct prn_instance_result *result;
        const float ones[4] = {(float)i, (float)i, (float)i, (float)i};
        float y[2];
        prn_instance_park(instance);
        assert_ok(run_four_times(instance, 7, (float)i + 0.5f));
        assert_ok(run(instance, &mlp, ones, dims, 2, &result));
        memcpy(y, result->outputs[0].data, sizeof y);
        /* All weights are ones: relu(4x + 1) eight times, half of it, and one. */
        assert_float_equal(y[0], 4 * (4 * (float)i + 1) + 1, 0);
        prn_instance_result_release(result);
    }
    prn_instance_unload(instance, 7);
    assert_int_equal(run_four_times(instance, 7, 1), PRONY_ENOENT);
    /* In the slot of the one that is gone, and in place of another. */
    assert_ok(load(instance, 9, "functions.onnx"));
    assert_ok(load(instance, 3, "functions.onnx"));
    assert_ok(run_four_times(instance, 9, 1));
    assert_ok(run_four_times(instance, 3, 2));
    prn_instance_free(instance);
}

static void runs_may_begin_early(void **state)
{
    (void)state;
    struct prn_instance *instance = make(NULL, 60);
    assert_false(begin_four_times(instance, 1, 1));
    assert_ok(load(instance, 1, "functions.onnx"));
    assert_ok(load(instance, 2, "functions.onnx"));
    assert_false(begin_four_times(instance, 1, 1)); /* nobody knows where its inputs are */
    assert_ok(run_four_times(instance, 1, 1));
    assert_ok(run_four_times(instance, 2, 2));
    for (int i = 0; i < 4; i++) {
        prn_instance_park(instance);
        assert_ok(run_four_times_as(instance, 1, (float)i, true));
        /* One that nobody waits for leaves nothing to those that come after it. */
        assert_true(begin_four_times(instance, 1, 100));
        assert_false(begin_four_times(instance, 2, 200));
        assert_ok(run_four_times(instance, 1 + i % 2, (float)i));
        assert_true(begin_four_times(instance, 2, 300));
        prn_instance_unload(instance, 1);
        assert_ok(load(instance, 1, "functions.onnx"));
        assert_ok(run_four_times_as(instance, 1, 5, true)); /* which isn't early then */
    }
    assert_true(begin_four_times(instance, 1, 1));
    prn_instance_free(instance);
}

static void shapes_may_change(void **state)
{
    (void)state;
    struct prn_instance *instance = make(NULL, 60);
    assert_ok(load(instance, 1, "mlp.onnx"));
    const struct prn_instance_run how = {.model_id = 1, .outputs = true};
    float numbers[32];
    for (int64_t batch = 1; batch <= 8; batch *= 2) {
        struct prn_instance_result *result;
        const int64_t dims[2] = {batch, 4};
        for (int64_t i = 0; i < 4 * batch; i++) {
            int64_t row = i / 4;
            numbers[i] = (float)row;
        }
        assert_ok(run(instance, &how, numbers, dims, 2, &result));
        assert_int_equal(result->outputs[0].dims[0], batch);
        float last;
        memcpy(&last, (const char *)result->outputs[0].data + 4 * (2 * batch - 1), sizeof last);
        assert_float_equal(last, 4 * (4 * (float)(batch - 1) + 1) + 1, 0);
        prn_instance_result_release(result);
    }
    struct prn_instance_result *result;
    const int64_t wrong[2] = {4, 1};
    assert_int_equal(run(instance, &how, numbers, wrong, 2, &result), PRONY_ERUNTIME);
    assert_true(prn_instance_alive(instance));
    const int64_t right[2] = {1, 4};
    assert_ok(run(instance, &how, numbers, right, 2, &result));
    prn_instance_result_release(result);
    prn_instance_free(instance);
}

static void runs_are_counted(void **state)
{
    (void)state;
    struct prn_instance *instance = make(NULL, 60);
    assert_ok(load(instance, 1, "functions.onnx"));
    const float numbers[2] = {1, 2};
    const int64_t dims[1] = {2};
    struct prn_instance_result *result;
    struct prn_instance_run how = {.model_id = 1, .warmups = 3, .repeats = 40000};
    for (int i = 0; i < 2; i++) {
        assert_ok(run(instance, &how, numbers, dims, 1, &result));
        assert_int_equal(result->n_times, 40000);
        assert_int_equal(result->n_outputs, 0);
        prn_instance_result_release(result);
    }
    how = (struct prn_instance_run){.model_id = 1, .repeat_for_ms = 50};
    int64_t before = prn_clock_ns();
    assert_ok(run(instance, &how, numbers, dims, 1, &result));
    assert_true(prn_clock_ns() - before >= 50000000);
    assert_true(result->n_times > 1);
    prn_instance_result_release(result);
    how = (struct prn_instance_run){.model_id = 1, .repeats = PRN_INSTANCE_REPEATS_MAX + 1};
    assert_int_equal(run(instance, &how, numbers, dims, 1, &result), PRONY_ELIMIT);
    prn_instance_free(instance);
}

static void bad_requests_are_refused(void **state)
{
    (void)state;
    struct prn_instance *instance = make(NULL, 60);
    const char *const names[] = {"z"};
    struct prn_instance_loaded loaded;
    struct prn_instance_model model = {
        .id = 1, .path = copy_model("functions.onnx"), .n_inputs = 1, .input_names = names};
    assert_int_equal(prn_instance_load(instance, &model, &loaded, &err), PRONY_EUSAGE);
    assert_string_equal(err.text, "the model has no input 'z'");
    model.n_inputs = 0;
    model.n_outputs = 1;
    model.output_names = names;
    assert_int_equal(prn_instance_load(instance, &model, &loaded, &err), PRONY_EUSAGE);
    assert_string_equal(err.text, "the model has no output 'z'");
    /* Neither the folder nor anything below it is anybody's business. */
    char path[128];
    snprintf(path, sizeof path, "%s/none.onnx", folder);
    model = (struct prn_instance_model){.id = 1, .path = path};
    assert_int_equal(prn_instance_load(instance, &model, &loaded, &err), PRONY_ENOENT);
    assert_contains(err.text, "'none.onnx'");
    assert_null(strstr(err.text, folder));
    assert_false(prn_instance_alive(instance));
    assert_ok(load(instance, 1, "functions.onnx"));
    struct prn_instance_result *result;
    struct prn_instance_run how = {.model_id = 1};
    assert_int_equal(prn_instance_run(instance, &how, &result, &err), PRONY_EUSAGE);
    assert_string_equal(err.text, "the model takes 1 inputs, 0 were given");
    const int64_t dims[1] = {2};
    struct prn_rpc_tensor tensor = {
        .dtype = PRN_DTYPE_FLOAT, .rank = 1, .dims = dims, .data = "x", .bytes = 7};
    how.inputs = &tensor;
    how.n_map = 1;
    assert_int_equal(prn_instance_run(instance, &how, &result, &err), PRONY_EUSAGE);
    tensor.dtype = PRN_DTYPE_STRING;
    assert_int_equal(prn_instance_run(instance, &how, &result, &err), PRONY_EUNSUPPORTED);
    assert_ok(run_four_times(instance, 1, 1));
    prn_instance_free(instance);
}

static void files_of_the_machine_are_not_options(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT(65536);
    struct prn_spec spec;
    struct prn_instance *instance;
    static const char *const specs[] = {"local/onnxrt-cpu[lib=/tmp/x.so]",
                                        "local/onnxrt-plugin[ep=/tmp/x.so]",
                                        "local/onnxrt-openvino[ep.cache_dir=/tmp]"};
    struct prn_instance_config config = {.spec = &spec, .folder = folder, .timeout_s = 1};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(specs); i++) {
        assert_ok(prn_spec_parse(specs[i], false, &arena, &spec, &err));
        assert_int_equal(prn_instance_new(&config, &instance, &err), PRONY_EDENIED);
    }
    assert_ok(prn_spec_parse("local/nothing", false, &arena, &spec, &err));
    assert_int_equal(prn_instance_new(&config, &instance, &err), PRONY_EUNAVAILABLE);
    prn_arena_release(&arena);
}

static void a_crash_costs_one_run(void **state)
{
    (void)state;
    static const char *const faults[] = {"abort", "exit", "deaf"};
    find_real_library();
    setenv("PRONY_FAULT_RUN", "3", 1);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(faults); i++) {
        struct prn_instance *instance = make(faults[i], 60);
        assert_ok(load(instance, 1, "functions.onnx"));
        assert_ok(load(instance, 2, "functions.onnx"));
        for (int round = 0; round < 2; round++) {
            assert_ok(run_four_times(instance, 1, 1));
            assert_ok(run_four_times(instance, 2, 2));
            assert_int_equal(run_four_times(instance, 1, 3), PRONY_ECRASH);
            assert_false(prn_instance_alive(instance));
        }
        prn_instance_free(instance);
    }
}

static void a_hang_ends_in_time(void **state)
{
    (void)state;
    find_real_library();
    setenv("PRONY_FAULT_RUN", "2", 1);
    struct prn_instance *instance = make("hang", 10);
    assert_ok(load(instance, 1, "functions.onnx"));
    assert_ok(run_four_times(instance, 1, 1));
    assert_int_equal(run_four_times(instance, 1, 1), PRONY_ETIMEDOUT);
    assert_string_equal(err.text, "running the model took longer than 10 s");
    assert_false(prn_instance_alive(instance));
    /* The deadline of who asks may be shorter, or they go away. */
    assert_ok(run_four_times(instance, 1, 1));
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const float numbers[2] = {1, 2};
    const int64_t dims[1] = {2};
    struct prn_instance_result *result;
    struct prn_instance_run how = {
        .model_id = 1, .deadline_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + 3000000000};
    assert_int_equal(run(instance, &how, numbers, dims, 1, &result), PRONY_ETIMEDOUT);
    assert_false(prn_instance_alive(instance));
    assert_ok(run_four_times(instance, 1, 1));
    how.deadline_ns = 1;
    assert_int_equal(run(instance, &how, numbers, dims, 1, &result), PRONY_ETIMEDOUT);
    assert_true(prn_instance_alive(instance));
    cancelled = 1;
    assert_int_equal(run_four_times(instance, 1, 1), PRONY_ECANCELED);
    cancelled = 0;
    assert_ok(run_four_times(instance, 1, 1));
    prn_instance_free(instance);
}

static void memory_can_not_be_taken_away(void **state)
{
    (void)state;
    find_real_library();
    setenv("PRONY_FAULT_RUN", "2", 1);
    struct prn_instance *instance = make("shrink", 60);
    assert_ok(load(instance, 1, "functions.onnx"));
    for (int i = 0; i < 4; i++)
        assert_ok(run_four_times(instance, 1, (float)i));
    prn_instance_free(instance);
}

static void results_are_kept_until_released(void **state)
{
    (void)state;
    struct prn_instance *instance = make(NULL, 60);
    static const float numbers[20000] = {1, 2}; /* more than is copied */
    const int64_t dims[1] = {20000};
    struct prn_instance_result *first;
    struct prn_instance_result *second;
    struct timespec now;
    struct prn_instance_run how = {.model_id = 1, .outputs = true};
    assert_ok(load(instance, 1, "functions.onnx"));
    assert_ok(run(instance, &how, numbers, dims, 1, &first));
    clock_gettime(CLOCK_MONOTONIC, &now);
    how.deadline_ns = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec + 200000000;
    assert_int_equal(run(instance, &how, numbers, dims, 1, &second), PRONY_ETIMEDOUT);
    assert_true(prn_instance_alive(instance));
    how.deadline_ns = 0;
    how.outputs = false;
    assert_ok(run(instance, &how, numbers, dims, 1, &second));
    prn_instance_free(instance);
    float y;
    memcpy(&y, first->outputs[0].data, sizeof y);
    assert_float_equal(y, 4, 0);
    prn_instance_result_release(first);
    prn_instance_result_release(second);
    prn_instance_result_release(NULL);
}

static void results_outlive_their_model(void **state)
{
    (void)state;
    struct prn_instance *instance = make(NULL, 60);
    const float numbers[2][2] = {{1, 2}, {3, 4}};
    const int64_t dims[1] = {2};
    struct prn_instance_result *results[2];
    struct prn_instance_run how = {.model_id = 1, .outputs = true};
    assert_ok(load(instance, 1, "functions.onnx"));
    for (int i = 0; i < 2; i++) {
        assert_ok(run(instance, &how, numbers[i], dims, 1, &results[i]));
        /* Another session's host may still be at work when this model is replaced or goes. */
        assert_ok(load(instance, 1, "functions.onnx"));
    }
    prn_instance_free(instance);
    for (int i = 0; i < 2; i++) {
        float y;
        assert_string_equal(results[i]->names[0], "y");
        memcpy(&y, results[i]->outputs[0].data, sizeof y);
        assert_float_equal(y, 4 * numbers[i][0], 0);
        prn_instance_result_release(results[i]);
    }
}

static void another_may_drive_it(void **state)
{
    (void)state;
    int descriptors = unit_descriptors();
    struct prn_instance *owner = make(NULL, 60);
    struct prn_instance *driver = make(NULL, 60);
    for (int round = 0; round < 2; round++) {
        struct prn_executor_handle handle;
        struct prn_executor *executor;
        assert_ok(prn_instance_start(owner, &err));
        assert_ok(prn_executor_export(prn_instance_executor(owner), &handle, &err));
        assert_ok(prn_executor_adopt(&handle, 60, NULL, &executor, &err));
        prn_executor_handle_release(&handle);
        assert_ok(prn_instance_adopt(driver, executor, &err));
        if (round == 0)
            assert_ok(load(driver, 1, "functions.onnx"));
        assert_ok(run_four_times(driver, 1, 2)); /* loaded again by itself */
        prn_instance_free(owner);
        owner = make(NULL, 60);
        assert_int_equal(run_four_times(driver, 1, 2), PRONY_ECRASH);
        assert_false(prn_instance_alive(driver));
        assert_int_equal(run_four_times(driver, 1, 2), PRONY_ECRASH);
    }
    prn_instance_free(owner);
    prn_instance_free(driver);
    assert_int_equal(unit_descriptors(), descriptors);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(models_take_turns),
        TEST(shapes_may_change),
        TEST(runs_are_counted),
        TEST(bad_requests_are_refused),
        TEST(files_of_the_machine_are_not_options),
        TEST(runs_may_begin_early),
        TEST(a_crash_costs_one_run),
        TEST(a_hang_ends_in_time),
        TEST(memory_can_not_be_taken_away),
        TEST(results_are_kept_until_released),
        TEST(results_outlive_their_model),
        TEST(another_may_drive_it),
    };
    return cmocka_run_group_tests_name("service_instance", tests, NULL, NULL);
}
