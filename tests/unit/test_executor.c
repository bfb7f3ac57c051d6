/* Executors with the real ONNX Runtime in them: several models in one, and those that are handed
 * over to another process. */
#include "exec/executor_parts.h"

#include "unit.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

/* With the runtime that is found, or one that misbehaves (tests/fault). */
static struct prn_executor *start_executor(const struct world *w, const char *fault)
{
    struct prn_executor *x;
    char library[sizeof program + 64];
    const struct prn_executor_config process = {
        .program = program, .inputs_fd = w->inputs_fd, .timeout_s = 60};
    struct prn_runtime_config runtime = {.software = "onnxrt-cpu"};
    if (fault) {
        snprintf(library, sizeof library, "%s", program);
        snprintf(strrchr(library, '/'), 64, "/tests/fault/fault-%s.so", fault);
        setenv("PRONY_FAULT_REAL", prn_executor_library(w->x), 1);
        setenv("PRONY_FAULT_RUN", "1", 1);
        runtime.library = library;
    }
    assert_ok(prn_executor_spawn(&process, &x, &err));
    assert_ok(prn_executor_open(x, &runtime, NULL, folder, &err));
    return x;
}

static int set_up(void **state)
{
    static struct world w;
    w = (struct world){.inputs_fd = memfd_create("inputs", MFD_CLOEXEC)};
    strcpy(folder, "/tmp/prony-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    find_program();
    w.x = start_executor(&w, NULL);
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

/* On how many cores the executor's thread may run. */
static int cores_of(const struct prn_executor *x)
{
    cpu_set_t cores;
    pid_t pid = prn_pidfd_process(x->handle.fds[PRN_EXECUTOR_HANDLE_PIDFD]);
    assert_true(pid > 0);
    assert_int_equal(sched_getaffinity(pid, sizeof cores, &cores), 0);
    return CPU_COUNT(&cores);
}

static void begin_and_end(struct prn_executor *x, int64_t last_ns)
{
    int64_t sample;
    size_t n;
    x->last_ns = last_ns;
    assert_true(prn_executor_run_begin(x, 0, 1));
    assert_ok(prn_executor_run_end(x, 1, &sample, &n, &err));
    assert_int_equal(n, 1);
    assert_int_equal(x->last_ns, sample);
}

static void short_runs_stay_on_a_core(void **state)
{
    const struct world *w = *state;
    int all = cores_of(w->x);
    load_four_times(w, 1);
    begin_and_end(w->x, INT64_MAX);
    assert_int_equal(cores_of(w->x), all);
    begin_and_end(w->x, 1000);
    assert_int_equal(cores_of(w->x), 1);
    /* One that may take longer, and whatever may start threads, has all of them again. */
    begin_and_end(w->x, 1000000);
    assert_int_equal(cores_of(w->x), all);
    begin_and_end(w->x, 1000);
    assert_float_equal(run_once(w->x), 4, 0);
    assert_int_equal(cores_of(w->x), all);
    begin_and_end(w->x, 1000);
    load_four_times(w, 2);
    assert_int_equal(cores_of(w->x), all);
}

/* Sends what an executor exports and receives it again, as another process would. */
static struct prn_executor *hand_over(struct prn_executor *x)
{
    struct prn_executor_handle sent;
    struct prn_executor_handle received;
    struct prn_executor *y;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    assert_ok(prn_executor_export(x, &sent, &err));
    assert_ok(prn_executor_handle_send(&sent, fds[0], &err));
    prn_executor_handle_release(&sent);
    assert_ok(prn_executor_handle_receive(fds[1], &received, &err));
    assert_ok(prn_executor_adopt(&received, 60, NULL, &y, &err));
    prn_executor_handle_release(&received);
    close(fds[0]);
    close(fds[1]);
    return y;
}

static void handed_over_works(void **state)
{
    struct world *w = *state;
    int descriptors = unit_descriptors();
    struct prn_executor *y = hand_over(w->x);
    assert_string_equal(prn_executor_version(y), prn_executor_version(w->x));
    assert_string_equal(prn_executor_library(y), prn_executor_library(w->x));
    assert_string_equal(prn_executor_sandbox(y), prn_executor_sandbox(w->x));
    const struct world there = {.x = y, .inputs_fd = prn_executor_inputs_fd(y)};
    load_four_times(&there, 1.25f);
    assert_float_equal(run_once(y), 5, 0);
    prn_executor_park(y);
    prn_executor_unpark(y);
    assert_float_equal(run_once(y), 5, 0);
    int64_t threads = 0;
    assert_true(prn_executor_resident(y) > 1 << 20);
    assert_true(prn_executor_peak(y) >= prn_executor_resident(w->x));
    assert_true(prn_executor_waited_ns(y, &threads) >= 0);
    assert_true(threads >= 1);
    /* The one who gave it away has no more say. */
    struct prn_executor_handle again;
    assert_int_equal(prn_executor_unload(w->x, &err), PRONY_EUSAGE);
    assert_contains(err.text, "handed over");
    assert_int_equal(prn_executor_export(w->x, &again, &err), PRONY_EUSAGE);
    prn_executor_free(y);
    assert_int_equal(unit_descriptors(), descriptors);
    assert_int_equal(prn_executor_resident(w->x), -1);
    prn_executor_free(w->x);
    w->x = NULL;
}

static int run_once_as(struct prn_executor *x)
{
    int64_t sample;
    size_t n;
    return prn_executor_run(x, 0, 1, 0, &sample, &n, &err);
}

static void endings_are_told_apart(void **state)
{
    struct world *w = *state;
    static const struct {
        const char *fault, *says;
    } cases[] = {{"abort", "crashed while running the model (signal 6"},
                 {"exit", "ended the process while running the model (status 3)"},
                 {"deaf", "cut the executor's connection"}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++)
        for (int handed_over = 0; handed_over < 2; handed_over++) {
            struct prn_executor *x = start_executor(w, cases[i].fault);
            const struct world there = {.x = handed_over ? hand_over(x) : x,
                                        .inputs_fd = w->inputs_fd};
            load_four_times(&there, 1);
            assert_int_equal(run_once_as(there.x), PRONY_ECRASH);
            assert_contains(err.text, cases[i].says);
            assert_int_equal(run_once_as(there.x), PRONY_ECRASH);
            assert_contains(err.text, "the executor is gone");
            if (handed_over)
                prn_executor_free(there.x);
            prn_executor_free(x);
        }
}

static void killed_is_told(void **state)
{
    struct world *w = *state;
    struct prn_executor *y = hand_over(w->x);
    const struct world there = {.x = y, .inputs_fd = w->inputs_fd};
    load_four_times(&there, 1);
    prn_executor_park(y);
    assert_int_equal(pidfd_send_signal(y->handle.fds[PRN_EXECUTOR_HANDLE_PIDFD], SIGKILL, NULL, 0),
                     0);
    assert_int_equal(run_once_as(y), PRONY_ECRASH);
    assert_contains(err.text, "was killed while running the model");
    prn_executor_free(y);
}

static void deadlines_are_changed(void **state)
{
    struct world *w = *state;
    volatile int cancelled = 1;
    for (int cancels = 0; cancels < 2; cancels++) {
        struct prn_executor *x = start_executor(w, "hang");
        const struct world there = {.x = hand_over(x), .inputs_fd = w->inputs_fd};
        load_four_times(&there, 1);
        if (cancels)
            prn_executor_set_cancelled(there.x, &cancelled);
        else
            prn_executor_set_timeout(there.x, 0.1);
        assert_int_equal(run_once_as(there.x), cancels ? PRONY_ECANCELED : PRONY_ETIMEDOUT);
        assert_int_equal(prn_executor_resident(x), -1);
        prn_executor_free(there.x);
        prn_executor_free(x);
    }
}

static void ends_with_its_owner(void **state)
{
    struct world *w = *state;
    struct prn_executor_handle handle;
    struct prn_executor *y;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    pid_t owner = fork();
    if (owner == 0) {
        struct prn_executor *x = start_executor(w, NULL);
        if (prn_executor_export(x, &handle, &err) < 0 ||
            prn_executor_handle_send(&handle, fds[1], &err) < 0)
            _exit(1);
        pause();
    }
    close(fds[1]);
    assert_ok(prn_executor_handle_receive(fds[0], &handle, &err));
    assert_ok(prn_executor_adopt(&handle, 60, NULL, &y, &err));
    const struct world there = {.x = y, .inputs_fd = prn_executor_inputs_fd(y)};
    load_four_times(&there, 3);
    assert_float_equal(run_once(y), 12, 0);
    prn_executor_park(y);
    kill(owner, SIGKILL);
    assert_int_equal(waitpid(owner, NULL, 0), owner);
    /* Those between the two end first, each when it is scheduled. */
    struct pollfd end = {.fd = handle.fds[PRN_EXECUTOR_HANDLE_PIDFD], .events = POLLIN};
    assert_int_equal(poll(&end, 1, 60000), 1);
    assert_int_equal(run_once_as(y), PRONY_ECRASH);
    assert_contains(err.text, "ended with the process that started it");
    assert_int_equal(prn_pidfd_process(handle.fds[PRN_EXECUTOR_HANDLE_PIDFD]), -1);
    prn_executor_free(y);
    prn_executor_handle_release(&handle);
    assert_int_equal(prn_executor_handle_receive(fds[0], &handle, &err), PRONY_ENOENT);
    close(fds[0]);
}

/* Packets that aren't handles, and handles that aren't right. */
static void handles_are_not_trusted(void **state)
{
    struct world *w = *state;
    static struct prn_message m;
    struct prn_executor_handle handle;
    struct prn_executor_handle received;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds), 0);
    assert_ok(prn_executor_export(w->x, &handle, &err));
    int descriptors = unit_descriptors();
    prn_message_begin(&m, PRN_MESSAGE_OK);
    assert_int_equal(prn_message_send(&m, fds[0]), 0);
    assert_int_equal(prn_executor_handle_receive(fds[1], &received, &err), PRONY_EFORMAT);
    assert_int_equal(prn_message_send_fds(&m, fds[0], handle.fds, 7), 0);
    assert_int_equal(prn_executor_handle_receive(fds[1], &received, &err), PRONY_EFORMAT);
    assert_int_equal(prn_message_send_fds(
                         &m, fds[0],
                         (int[8]){fds[0], fds[0], fds[0], fds[0], fds[0], fds[0], fds[0], fds[0]},
                         8),
                     0);
    assert_int_equal(prn_executor_handle_receive(fds[1], &received, &err), PRONY_EIO);
    for (size_t i = 0; i < PRN_EXECUTOR_HANDLE_FDS; i++) {
        struct prn_executor_handle wrong = handle;
        wrong.fds[i] = open("/dev/null", O_RDWR | O_CLOEXEC);
        assert_ok(prn_executor_handle_send(&wrong, fds[0], &err));
        close(wrong.fds[i]);
        assert_int_equal(prn_executor_handle_receive(fds[1], &received, &err), PRONY_EFORMAT);
    }
    /* Shared memory that could shrink under who maps it. */
    struct prn_executor_handle wrong = handle;
    int *samples = &wrong.fds[PRN_EXECUTOR_HANDLE_SAMPLES];
    *samples = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(*samples, (off_t)sizeof(union prn_executor_samples)), 0);
    assert_ok(prn_executor_handle_send(&wrong, fds[0], &err));
    assert_int_equal(prn_executor_handle_receive(fds[1], &received, &err), PRONY_EFORMAT);
    close(*samples);
    assert_int_equal(unit_descriptors(), descriptors);
    prn_executor_handle_release(&handle);
    close(fds[0]);
    close(fds[1]);
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_int_equal(prn_executor_handle_send(&handle, fds[1], &err), PRONY_EIO);
    close(fds[0]);
    close(fds[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(models_have_slots),
        TEST(slots_are_emptied),
        TEST(handed_over_works),
        TEST(endings_are_told_apart),
        TEST(killed_is_told),
        TEST(deadlines_are_changed),
        TEST(ends_with_its_owner),
        TEST(handles_are_not_trusted),
        TEST(short_runs_stay_on_a_core),
    };
    return cmocka_run_group_tests_name("executor", tests, NULL, NULL);
}
