/* The folder that is gone when prony is: closed, and after the process that made it was killed. */
#include "unit.h"

#include "exec/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void put_file(const char *folder)
{
    char path[PATH_MAX + 16];
    snprintf(path, sizeof path, "%s/sub", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(symlink("/etc", strcat(path, "/link")), 0); /* removed, not followed */
    snprintf(path, sizeof path, "%s/sub/layer.onnx", folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void folder_is_private_and_removed(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_scratch scratch;
    struct stat status;
    int before = unit_descriptors();
    assert_int_equal(prn_scratch_open(NULL, &scratch, &err), 0);
    assert_int_equal(stat(scratch.folder, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    put_file(scratch.folder);
    prn_scratch_close(&scratch);
    assert_int_equal(stat(scratch.folder, &status), -1);
    assert_int_equal(errno, ENOENT);
    assert_int_equal(unit_descriptors(), before);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* the keeper is gone too */
}

static void killed_process_leaves_nothing(void **state)
{
    (void)state;
    int ends[2];
    struct prn_scratch scratch;
    struct stat status;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct prony_error err;
        if (prn_scratch_open(NULL, &scratch, &err) < 0)
            _exit(1);
        put_file(scratch.folder);
        if (write(ends[1], &scratch, sizeof scratch) != sizeof scratch)
            _exit(1);
        raise(SIGKILL);
    }
    assert_int_equal(read(ends[0], &scratch, sizeof scratch), sizeof scratch);
    assert_int_equal(waitpid(child, NULL, 0), child);
    int left = 60000;
    while (stat(scratch.folder, &status) == 0 && left-- > 0)
        usleep(5000); /* until the keeper has seen it */
    assert_int_equal(stat(scratch.folder, &status), -1);
    close(ends[0]);
    close(ends[1]);
}

static void no_place_for_it(void **state)
{
    (void)state;
    struct prony_error err;
    struct prn_scratch scratch;
    setenv("TMPDIR", "/nowhere/at/all", 1);
    assert_int_equal(prn_scratch_open(NULL, &scratch, &err), PRONY_ENOENT);
    assert_contains(err.text, "cannot create a folder in '/nowhere/at/all'");
    unsetenv("TMPDIR");
}

/* A relative one would mean another folder to each process that is told of it. */
static void only_absolute_folders_count(void **state)
{
    (void)state;
    static const struct {
        const char *tmpdir, *expected;
    } cases[] = {{NULL, "/tmp/prony-"},
                 {"", "/tmp/prony-"},
                 {"here", "/tmp/prony-"},
                 {"/var/tmp", "/var/tmp/prony-"}};
    struct prony_error err;
    char path[PATH_MAX];
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        if (cases[i].tmpdir)
            setenv("TMPDIR", cases[i].tmpdir, 1);
        else
            unsetenv("TMPDIR");
        assert_int_equal(prn_scratch_make(NULL, path, &err), 0);
        assert_memory_equal(path, cases[i].expected, strlen(cases[i].expected));
        prn_scratch_remove(path);
    }
    setenv("TMPDIR", "/no/such/folder", 1);
    assert_int_equal(prn_scratch_make(NULL, path, &err), PRONY_ENOENT);
    assert_contains(err.text, "'/no/such/folder'");
    unsetenv("TMPDIR");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_absolute_folders_count),
        cmocka_unit_test(folder_is_private_and_removed),
        cmocka_unit_test(killed_process_leaves_nothing),
        cmocka_unit_test(no_place_for_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
