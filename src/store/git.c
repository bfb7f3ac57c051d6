#include "store/git.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/spawn.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 16
#define OUTPUT_MAX ((size_t)64 << 20) /* a line for each changed file */
#define TIMEOUT_NS INT64_C(20000000000)
#define ENVIRONMENT_MAX 4096

/* The environment without what would name another repository than the folder's. `own` has room. */
static char **environment_for_git(char **own)
{
    static const char *const others[] = {"GIT_DIR=", "GIT_WORK_TREE=", "GIT_INDEX_FILE="};
    static char no_locks[] = "GIT_OPTIONAL_LOCKS=0";
    size_t n = 0;
    for (char **e = environ; *e && n < ENVIRONMENT_MAX - 2; e++) {
        bool other = false;
        for (size_t i = 0; i < PRN_ARRAY_SIZE(others); i++)
            other = other || strncmp(*e, others[i], strlen(others[i])) == 0;
        if (!other)
            own[n++] = *e;
    }
    own[n++] = no_locks;
    own[n] = NULL;
    return own;
}

static pid_t start_git(const char *const *arguments, int output)
{
    char *own[ENVIRONMENT_MAX];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    pid_t pid = -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    prn_spawn_apart(&attributes);
    /* posix_spawnp() doesn't change them. */
    if (posix_spawnp(&pid, "git", &actions, &attributes, (char *const *)(uintptr_t)arguments,
                     environment_for_git(own)) != 0)
        pid = -1;
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return pid;
}

/* Whether it ended its output in time. */
static bool read_output(int fd, struct prn_buffer *out)
{
    int64_t end = prn_monotonic_ns() + TIMEOUT_NS;
    char chunk[4096];
    for (;;) {
        int64_t left_ns = end - prn_monotonic_ns();
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        int n = left_ns > 0 ? poll(&ready, 1, (int)(left_ns / 1000000) + 1) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        ssize_t got = read(fd, chunk, sizeof chunk);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return got == 0 && out->error == 0;
        prn_buffer_append(out, chunk, (size_t)got);
        if (out->error)
            return false;
    }
}

/* Appends what `git -C folder …` prints; false when it fails. */
static bool ask_git(const char *folder, const char *const *words, struct prn_buffer *out)
{
    const char *arguments[ARGUMENTS_MAX] = {"git", "-C", folder, "-c", "core.fsmonitor=false"};
    size_t n = 5;
    for (size_t i = 0; words[i] && n < ARGUMENTS_MAX - 1; i++)
        arguments[n++] = words[i];
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) < 0)
        return false;
    pid_t pid = start_git(arguments, fds[1]);
    close(fds[1]);
    bool whole = pid > 0 && read_output(fds[0], out);
    close(fds[0]);
    if (pid <= 0)
        return false;
    if (!whole)
        kill(-pid, SIGKILL);
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return whole && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool prn_git_is_commit(const char *text)
{
    size_t n = 0;
    while (isxdigit((unsigned char)text[n]))
        n++;
    return text[n] == '\0' && n >= 4 && n < PRN_GIT_COMMIT_SIZE;
}

/* What follows `key` on a line, if it fits and is fit to be shown. */
static void take_field(const char *line, size_t len, const char *key, char *to, size_t size)
{
    size_t begin = strlen(key);
    if (len <= begin || strncmp(line, key, begin) != 0 || len - begin >= size)
        return;
    memcpy(to, line + begin, len - begin);
    to[len - begin] = '\0';
    if (!prn_text_is_name(to))
        to[0] = '\0';
}

/* Lines with '#' tell commit and branch, the others what has changed. */
static void read_status(const char *text, struct prn_git *git)
{
    while (*text) {
        size_t len = strcspn(text, "\n");
        take_field(text, len, "# branch.oid ", git->commit, sizeof git->commit);
        take_field(text, len, "# branch.head ", git->branch, sizeof git->branch);
        git->changed = git->changed || (len > 0 && *text != '#');
        text += len + (text[len] == '\n');
    }
    if (!prn_git_is_commit(git->commit)) /* "(initial)" */
        git->commit[0] = '\0';
    if (git->branch[0] == '(') /* "(detached)", which is no name for a branch */
        git->branch[0] = '\0';
}

void prn_git_read(const char *folder, struct prn_git *ret_git)
{
    static const char *const status[] = {
        "status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=all",
        NULL};
    static const char *const date[] = {"show",         "-s",   "--no-show-signature",
                                       "--format=%ct", "HEAD", NULL};
    struct prn_buffer out = PRN_BUFFER_INIT(OUTPUT_MAX);
    *ret_git = (struct prn_git){.committed_s = -1};
    if (ask_git(folder, status, &out))
        read_status(prn_buffer_text(&out), ret_git);
    prn_buffer_clear(&out);
    if (ret_git->commit[0] && ask_git(folder, date, &out))
        ret_git->committed_s = strtoll(prn_buffer_text(&out), NULL, 10);
    if (!ret_git->commit[0])
        *ret_git = (struct prn_git){.committed_s = -1};
    prn_buffer_release(&out);
}
