/* Messages between prony and an executor, and what the sandbox forbids. */
#include "exec/message.h"
#include "exec/sandbox.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct prn_message out, in;

static void messages_travel(void **state)
{
    (void)state;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds), 0);
    prn_message_begin(&out, PRN_MESSAGE_RUN);
    prn_message_put_int(&out, -5);
    prn_message_put_text(&out, "text");
    prn_message_put_text(&out, NULL);
    prn_message_put_text(&out, "");
    assert_int_equal(prn_message_send(&out, fds[0]), 0);
    assert_int_equal(prn_message_receive(&in, fds[1]), 0);
    assert_int_equal(in.type, PRN_MESSAGE_RUN);
    assert_int_equal(prn_message_int(&in), -5);
    assert_string_equal(prn_message_text(&in), "text");
    assert_null(prn_message_text(&in));
    assert_string_equal(prn_message_text(&in), "");
    assert_false(in.failed);
    prn_message_int(&in); /* past the end */
    assert_true(in.failed);
    close(fds[0]);
    errno = 1;
    assert_int_equal(prn_message_receive(&in, fds[1]), -1);
    assert_int_equal(errno, 0);
    close(fds[1]);
}

static void messages_are_not_trusted(void **state)
{
    (void)state;
    prn_message_begin(&in, PRN_MESSAGE_OK);
    prn_message_put_int(&in, 1000); /* the length of a text that isn't there */
    in.position = 0;
    assert_null(prn_message_text(&in));
    assert_true(in.failed);
    prn_message_begin(&in, PRN_MESSAGE_OK);
    prn_message_put_int(&in, 7);
    in.position = 0;
    assert_int_equal(prn_message_count(&in, 6), 0);
    assert_true(in.failed);
    prn_message_begin(&out, PRN_MESSAGE_OK);
    for (size_t i = 0; i <= PRN_MESSAGE_MAX / 8; i++)
        prn_message_put_int(&out, 1);
    assert_true(out.failed);
    assert_int_equal(prn_message_send(&out, -1), -1);
    assert_int_equal(errno, EMSGSIZE);
}

/* Runs in a child inside the sandbox; the exit status is the number of the first thing that was
 * allowed and should not have been, or forbidden and should not have been. */
static int try_everything(const char *folder)
{
    char text[256];
    char inside[512];
    snprintf(inside, sizeof inside, "%s/inside", folder);
    char beside[512];
    snprintf(beside, sizeof beside, "%s/beside", folder);
    struct prn_sandbox sandbox = {.model_path = inside, .memory_bytes = (int64_t)64 << 20};
    if (prn_sandbox_enter(&sandbox, text, sizeof text, NULL) < 0)
        return 1;
    if (strstr(text, "no landlock") || strstr(text, "no seccomp"))
        return 77; /* the kernel doesn't offer it, and the text says so */
    if (open("/etc/passwd", O_RDONLY) >= 0 || errno != EACCES)
        return 2;
    if (open(inside, O_RDWR) >= 0 || errno != EACCES)
        return 3;
    if (open(inside, O_RDONLY) < 0)
        return 4;
    if (socket(AF_INET, SOCK_STREAM, 0) >= 0 || errno != EPERM)
        return 5;
    if (fork() >= 0 || errno != EPERM)
        return 6;
    if (execl("/bin/true", "true", NULL) != -1 || errno != EPERM)
        return 7;
    if (kill(getppid(), 0) != -1 || errno != EPERM)
        return 8;
    if (unlink(inside) != -1)
        return 9;
    if (mmap(NULL, (size_t)256 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) !=
        MAP_FAILED)
        return 10;
    if (open(beside, O_RDONLY) >= 0 || errno != EACCES)
        return 11;
    struct rlimit limit;
    if (prlimit(0, RLIMIT_NOFILE, NULL, &limit) < 0)
        return 12;
    if (prlimit(getppid(), RLIMIT_NOFILE, NULL, &limit) == 0 || errno != EPERM)
        return 13;
    if (prlimit(0, RLIMIT_NOFILE, &limit, NULL) == 0 || errno != EPERM)
        return 14;
    if (fcntl(STDIN_FILENO, F_SETOWN, getppid()) == 0 || errno != EPERM)
        return 15;
    if (prctl(PR_SET_PDEATHSIG, 0) == 0 || errno != EPERM)
        return 16;
    if (prctl(PR_SET_NAME, "other") < 0 || fcntl(STDIN_FILENO, F_GETFD) < 0)
        return 17;
    return 0;
}

/* With a folder that it may write into: files there, and nothing else anywhere. */
static int try_to_write(const char *folder)
{
    char text[256];
    char path[512];
    struct prn_sandbox sandbox = {.writable_folder = folder, .file_bytes = 4096};
    signal(SIGXFSZ, SIG_IGN);
    if (prn_sandbox_enter(&sandbox, text, sizeof text, NULL) < 0)
        return 1;
    if (strstr(text, "no landlock") || strstr(text, "no seccomp"))
        return 77;
    snprintf(path, sizeof path, "%s/file", folder);
    int fd = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
    if (fd < 0 || pwrite(fd, "x", 1, 4095) != 1)
        return 2;
    if (pwrite(fd, "x", 1, 4096) != -1 || errno != EFBIG)
        return 3;
    snprintf(path, sizeof path, "%s/folder", folder);
    if (mkdir(path, 0700) == 0 || symlink("/etc/passwd", path) == 0)
        return 4;
    snprintf(path, sizeof path, "%s/../prony-test-beside", folder);
    if (open(path, O_CREAT | O_RDWR, 0600) >= 0 || errno != EACCES)
        return 5;
    return 0;
}

static int status_of_child(int (*attempt)(const char *folder), const char *folder)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(attempt(folder));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void sandbox_lets_write_into_one_folder(void **state)
{
    (void)state;
    char folder[] = "/tmp/prony-test-XXXXXX";
    char file[64];
    assert_non_null(mkdtemp(folder));
    int status = status_of_child(try_to_write, folder);
    snprintf(file, sizeof file, "%s/file", folder);
    unlink(file);
    assert_int_equal(rmdir(folder), 0);
    if (status == 77)
        skip();
    assert_int_equal(status, 0);
}

static void sandbox_forbids(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* a sanitizer maps more memory than the limit allows */
#endif
    char folder[] = "/tmp/prony-test-XXXXXX";
    char inside[64];
    char beside[64];
    assert_non_null(mkdtemp(folder));
    snprintf(inside, sizeof inside, "%s/inside", folder);
    snprintf(beside, sizeof beside, "%s/beside", folder);
    close(open(inside, O_CREAT | O_WRONLY, 0600));
    close(open(beside, O_CREAT | O_WRONLY, 0600));
    int status = status_of_child(try_everything, folder);
    unlink(inside);
    unlink(beside);
    rmdir(folder);
    if (status == 77)
        skip();
    assert_int_equal(status, 0);
}

/* Each is granted, or it is said why not. */
static void protections_are_probed(void **state)
{
    (void)state;
    struct prn_sandbox_protection found[PRN_SANDBOX_PROTECTIONS];
    int descriptors = unit_descriptors();
    prn_sandbox_probe(found);
    assert_int_equal(unit_descriptors(), descriptors);
    for (size_t i = 0; i < PRN_SANDBOX_PROTECTIONS; i++)
        assert_true(found[i].granted || found[i].text[0]);
    assert_string_equal(found[0].name, "no_new_privs");
    assert_true(found[0].granted);
}

/* As in a container that forbids namespaces: the probe says so. */
static void absent_protections_are_said(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    if (child == 0) {
        struct prn_sandbox_protection found[PRN_SANDBOX_PROTECTIONS];
        scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
        if (seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSPC), SCMP_SYS(clone), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_NEWNET, CLONE_NEWNET)) < 0 ||
            seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(landlock_create_ruleset), 0) <
                0 ||
            seccomp_load(filter) < 0)
            _exit(77);
        prn_sandbox_probe(found);
        for (size_t i = 0; i < PRN_SANDBOX_PROTECTIONS; i++) {
            const bool net = strcmp(found[i].name, "net namespace") == 0;
            if ((net && strcmp(found[i].text, strerror(ENOSPC)) != 0) ||
                ((net || strcmp(found[i].name, "landlock") == 0) && found[i].granted))
                _exit((int)i + 1);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_travel),
        cmocka_unit_test(messages_are_not_trusted),
        cmocka_unit_test(sandbox_lets_write_into_one_folder),
        cmocka_unit_test(sandbox_forbids),
        cmocka_unit_test(protections_are_probed),
        cmocka_unit_test(absent_protections_are_said),
    };
    return cmocka_run_group_tests_name("exec", tests, NULL, NULL);
}
