#include "unit.h"

#include "trace/demangle.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Long enough for a busy machine, short enough for a test that hangs. */
enum { PATIENCE_MS = 20000 };

static const char *const names[] = {"_ZN4cuda6KernelIfEEvPT_i", "plain", "_Z3fooi", "", "_Zbroken"};
enum { N_NAMES = PRN_ARRAY_SIZE(names) };

static struct prn_arena arena;

/* ---- Programs that stand in for a demangler ---- */

static char folder[] = "/tmp/prony-demangle-XXXXXX";
static char script_path[64];

static const char *script(const char *body)
{
    snprintf(script_path, sizeof script_path, "%s/demangler", folder);
    unlink(script_path);
    FILE *file = fopen(script_path, "we");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s\n", body);
    fclose(file);
    assert_int_equal(chmod(script_path, 0700), 0);
    return script_path;
}

static int set_up(void **state)
{
    (void)state;
    arena = PRN_ARENA_INIT((size_t)1 << 20);
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    prn_arena_release(&arena);
    unlink(script_path);
    return rmdir(folder);
}

/* ---- Successes ---- */

static void assert_nothing_left(int descriptors)
{
    assert_int_equal(unit_descriptors(), descriptors);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void expect(const char *command, const char *const *in, size_t n,
                   const char *const *expected)
{
    const char *out[16] = {0};
    struct prony_error err = {.text = "untouched"};
    int before = unit_descriptors();
    assert_in_range(n, 0, PRN_ARRAY_SIZE(out));
    int code = prn_demangle(command, in, n, PATIENCE_MS, &arena, out, &err);
    if (code < 0)
        fail_msg("%s", err.text);
    assert_string_equal(err.text, "untouched");
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(out[i], expected[i]);
        if (strcmp(in[i], expected[i]) == 0)
            assert_ptr_equal(out[i], in[i]);
    }
    assert_nothing_left(before);
}

static void test_cxxfilt(void **state)
{
    (void)state;
    static const char *const expected[] = {"void cuda::Kernel<float>(float*, int)", "plain",
                                           "foo(int)", "", "_Zbroken"};
    expect("c++filt", names, N_NAMES, expected);
}

/* Names that don't fit a line aren't sent, and don't move the others. */
static void test_line_breaks(void **state)
{
    (void)state;
    static const char *const in[] = {"_Z1\nai", "_Z3fooi", "_Z3bari\r", "_Z3bari"};
    static const char *const expected[] = {"_Z1\nai", "foo(int)", "_Z3bari\r", "bar(int)"};
    expect("c++filt", in, PRN_ARRAY_SIZE(in), expected);
}

/* More than the pipes of the world hold. */
static void test_many(void **state)
{
    (void)state;
    enum { N = 50000 };
    static char text[N][24];
    static const char *in[N];
    static const char *out[N];
    struct prn_arena big = PRN_ARENA_INIT((size_t)64 << 20);
    for (size_t i = 0; i < N; i++) {
        snprintf(text[i], sizeof text[i], "_Z6f%05zui", i);
        in[i] = text[i];
    }
    struct prony_error err = {0};
    int code = prn_demangle("c++filt", in, N, PATIENCE_MS, &big, out, &err);
    if (code < 0)
        fail_msg("%s", err.text);
    for (size_t i = 0; i < N; i++) {
        char expected[24];
        snprintf(expected, sizeof expected, "f%05zu(int)", i);
        assert_string_equal(out[i], expected);
    }
    prn_arena_release(&big);
}

static void test_nothing_to_do(void **state)
{
    (void)state;
    static const char *const in[] = {"BinaryElementWiseKernel", "Zoo", "_z", "_Z3\nfoo"};
    expect("/nonexistent/c++filt", in, PRN_ARRAY_SIZE(in), in);
    expect("/nonexistent/c++filt", NULL, 0, NULL);
}

/* Carriage returns go; the last line may lack its newline; what can't be shown isn't taken. */
static void test_odd_output(void **state)
{
    (void)state;
    static const char *const carriage[] = {"one", "two", "three", "four", "five"};
    expect(script("printf 'one\\r\\ntwo\\r\\r\\nthree\\nfour\\nfive'"), names, N_NAMES, carriage);
    const char *const kept[] = {names[0], names[1], names[2], "four", names[4]};
    expect(script("printf 'a\\000b\\n\\n\\033[31mred\\nfour\\n\\377\\376\\n'"), names, N_NAMES,
           kept);
}

/* The program gets its own signals back, and nothing of ours but the three descriptors. */
static void test_clean_start(void **state)
{
    (void)state;
    static const char *const in[] = {"_Z3fooi"};
    static const char *const expected[] = {"0000000000000000 0 1 2"};
    sigset_t all;
    sigset_t old_mask;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &old_mask);
    void (*old_handler)(int) = signal(SIGPIPE, SIG_IGN);
    int stray = open("/dev/null", O_RDONLY); /* not closed on exec */
    /* Both files are there when the shell starts, and what it opens itself is above 2. */
    const char *program = script("mask=$(sed -n 's/^SigBlk:[[:space:]]*//p' /proc/$$/status)\n"
                                 "fds=$(for fd in 0 1 2 3 4 5 6 7 8 9; do\n"
                                 "case $(readlink /proc/$$/fd/$fd) in\n"
                                 "'' | */demangler | pipe:*) ;; *) echo $fd ;; esac; done)\n"
                                 "echo $mask $fds");
    expect(program, in, 1, expected);
    const char *out[1];
    struct prony_error err = {0};
    program = script("kill -PIPE $$; cat");
    assert_int_equal(prn_demangle(program, in, 1, PATIENCE_MS, &arena, out, &err), PRONY_EIO);
    assert_contains(err.text, "signal 13");
    close(stray);
    signal(SIGPIPE, old_handler);
    sigprocmask(SIG_SETMASK, &old_mask, NULL);
}

/* Also when this process has no standard streams: the files then get low numbers. */
static void test_without_streams(void **state)
{
    (void)state;
    static const char *const in[] = {"_Z3fooi"};
    pid_t child = fork();
    if (child == 0) {
        const char *out[1] = {NULL};
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        int code = prn_demangle("c++filt", in, 1, PATIENCE_MS, &arena, out, NULL);
        _exit(code == 0 && strcmp(out[0], "foo(int)") == 0 ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
    (void)number;
    alarms++;
}

static void test_interrupted(void **state)
{
    (void)state;
    static const char *const expected[] = {"1", "2", "3", "4", "5"};
    struct sigaction action = {.sa_handler = on_alarm};
    struct sigaction before;
    sigaction(SIGALRM, &action, &before);
    alarms = 0;
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 1000}, {0, 1000}}, NULL);
    expect(script("sleep 0.1; printf '1\\n2\\n3\\n4\\n5\\n'"), names, N_NAMES, expected);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_true(alarms > 0);
}

/* ---- Failures ---- */

static void refuse_within(const char *command, int timeout_ms, int code, const char *message)
{
    static const char untouched[] = "untouched";
    const char *out[N_NAMES];
    for (size_t i = 0; i < N_NAMES; i++)
        out[i] = untouched;
    struct prony_error err = {0};
    int before = unit_descriptors();
    int got = prn_demangle(command, names, N_NAMES, timeout_ms, &arena, out, &err);
    if (got != code)
        fail_msg("%s, '%s', not %s", prony_error_name(got), err.text, prony_error_name(code));
    assert_int_equal(err.code, code);
    assert_contains(err.text, message);
    for (size_t i = 0; i < N_NAMES; i++)
        assert_ptr_equal(out[i], untouched);
    assert_nothing_left(before);
    assert_int_equal(prn_demangle(command, names, N_NAMES, timeout_ms, &arena, out, NULL), code);
}

static void refuse(const char *command, int code, const char *message)
{
    refuse_within(command, PATIENCE_MS, code, message);
}

static void test_missing(void **state)
{
    (void)state;
    refuse("prony-no-such-demangler", PRONY_ENOENT, "cannot start 'prony-no-such-demangler'");
    refuse("c++filt -p", PRONY_ENOENT, "No such file");
    refuse("", PRONY_ENOENT, "cannot start ''");
    refuse(folder, PRONY_EIO, "Permission denied");
}

static void test_fails(void **state)
{
    (void)state;
    refuse(script("cat; exit 1"), PRONY_EIO, "failed with status 1");
    refuse(script("cat; kill -SEGV $$"), PRONY_EIO, "signal 11");
    refuse("true", PRONY_EFORMAT, "wrote 0 lines for 5 names");
    refuse(script("head -n 4"), PRONY_EFORMAT, "wrote 4 lines for 5 names");
    refuse(script("cat; echo more"), PRONY_EFORMAT, "wrote 6 lines for 5 names");
    refuse(script("head -c 4000 /dev/urandom | tr -d '\\n'"), PRONY_EFORMAT, "wrote 1 lines");
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The program is killed, and with it what it started: the reader of this FIFO, which has it open as
 * long as it lives. */
static void test_hangs(void **state)
{
    (void)state;
    char fifo[64];
    char body[256];
    snprintf(fifo, sizeof fifo, "%s/fifo", folder);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    int fd = open(fifo, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    snprintf(body, sizeof body, "sleep 1000 > %s & cat; wait", fifo);
    double start = seconds();
    refuse_within(script(body), 100, PRONY_ETIMEDOUT, "took longer than 100 ms");
    refuse_within(script("kill -STOP $$"), 100, PRONY_ETIMEDOUT, "took longer");
    refuse_within(script("exec sleep 1000"), 0, PRONY_ETIMEDOUT, "took longer than 0 ms");
    assert_true(seconds() - start < 100);
    close(fd);
    /* With nobody left to write, a reader is at its end as soon as it opens. */
    fd = open(fifo, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    char byte;
    ssize_t n = -1;
    while (seconds() - start < 100 && (n = read(fd, &byte, 1)) < 0)
        usleep(1000);
    assert_int_equal(n, 0);
    close(fd);
    unlink(fifo);
}

static void test_floods(void **state)
{
    (void)state;
    refuse(script("head -c 70000000 /dev/zero; exit 0"), PRONY_ELIMIT, "67108864 bytes or more");
}

/* A small limit on files is a failure, not the end of the process by SIGXFSZ. */
static void test_file_limit(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        const char *out[N_NAMES];
        struct rlimit limit = {4096, 4096};
        setrlimit(RLIMIT_FSIZE, &limit);
        int code = prn_demangle("c++filt", names, N_NAMES, PATIENCE_MS, &arena, out, NULL);
        if (code == 0)
            code = prn_demangle("yes", names, N_NAMES, PATIENCE_MS, &arena, out, NULL);
        _exit(code == PRONY_EIO ? 0 : 1);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void test_arena_full(void **state)
{
    (void)state;
    const char *out[N_NAMES] = {NULL};
    struct prony_error err = {0};
    struct prn_arena small = PRN_ARENA_INIT(40);
    assert_int_equal(prn_demangle("c++filt", names, N_NAMES, PATIENCE_MS, &small, out, &err),
                     PRONY_ENOMEM);
    assert_null(out[0]);
    prn_arena_release(&small);
}

int main(void)
{
    /* With a folder in it that is closed to the user, nothing would be missing, but denied. */
    setenv("PATH", "/usr/bin:/bin", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cxxfilt),
        cmocka_unit_test(test_line_breaks),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_nothing_to_do),
        cmocka_unit_test(test_odd_output),
        cmocka_unit_test(test_clean_start),
        cmocka_unit_test(test_without_streams),
        cmocka_unit_test(test_interrupted),
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_fails),
        cmocka_unit_test(test_hangs),
        cmocka_unit_test(test_floods),
        cmocka_unit_test(test_file_limit),
        cmocka_unit_test(test_arena_full),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
