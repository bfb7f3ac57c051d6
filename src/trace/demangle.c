/*
 * The program's standard input and output are files in memory, not pipes: nobody has to read while
 * the other writes, so nothing can lock up, and all that is left to do is to wait for its end. The
 * output has its full size from the start and is sealed, so that a program that never stops writing
 * gets an error instead of the machine's memory; how much it wrote is told by the offset that both
 * processes share.
 */
#include "trace/demangle.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/spawn.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define TEXT_BYTES_MAX ((size_t)64 << 20)
/* How often to look for the end of a process that can't be waited for with poll(). */
#define LOOK_EVERY_MS 2

extern char **environ;

struct child {
    const char *command;
    int input_fd, output_fd;
    size_t output_bytes_max;
    pid_t pid;
};

static bool fits_line(const char *name)
{
    return strpbrk(name, "\r\n") == NULL;
}

static bool any_mangled(const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fits_line(names[i]) && strstr(names[i], "_Z"))
            return true;
    return false;
}

/* ---- The files that the program reads and writes ---- */

/* Making a file larger than RLIMIT_FSIZE is answered with a signal that ends the process. */
static size_t output_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < TEXT_BYTES_MAX)
        return (size_t)limit.rlim_cur;
    return TEXT_BYTES_MAX;
}

/* A file in memory whose descriptor isn't one of the three that it will be copied to. */
static int memory_file(const char *name)
{
    int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    int lifted = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(fd);
    return lifted;
}

static int write_names(int fd, const char *const *names, size_t n, struct prony_error *err)
{
    struct prn_buffer text = PRN_BUFFER_INIT(TEXT_BYTES_MAX);
    for (size_t i = 0; i < n; i++) {
        if (!fits_line(names[i]))
            continue;
        prn_buffer_add(&text, names[i]);
        prn_buffer_add_char(&text, '\n');
    }
    int code = prn_buffer_error(&text, err);
    if (code < 0)
        code = prn_fail_in(err, code, "cannot demangle names");
    else if (prn_write_all(fd, prn_buffer_text(&text), text.len) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        code = prn_fail_errno(err, errno, "write", "names to demangle");
    prn_buffer_release(&text);
    return code;
}

static int make_files(struct child *c, struct prony_error *err)
{
    c->input_fd = memory_file("prony-mangled");
    c->output_fd = memory_file("prony-demangled");
    c->output_bytes_max = output_limit();
    if (c->input_fd < 0 || c->output_fd < 0 ||
        ftruncate(c->output_fd, (off_t)c->output_bytes_max) < 0 ||
        fcntl(c->output_fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) < 0)
        return prn_fail_errno(err, errno, "start", c->command);
    return 0;
}

/* What the program wrote, copied, because something that it started might still change it. */
static int read_output(const struct child *c, struct prn_buffer *text, struct prony_error *err)
{
    off_t end = lseek(c->output_fd, 0, SEEK_CUR);
    if (end < 0)
        return prn_fail_errno(err, errno, "read from", c->command);
    if (end >= (off_t)c->output_bytes_max)
        return prn_fail(err, PRONY_ELIMIT, "'%s' wrote %zu bytes or more", c->command,
                        c->output_bytes_max);
    char chunk[16384];
    for (off_t at = 0; at < end;) {
        size_t want = (size_t)(end - at) < sizeof chunk ? (size_t)(end - at) : sizeof chunk;
        ssize_t n = pread(c->output_fd, chunk, want, at);
        if (n <= 0)
            return prn_fail_errno(err, n < 0 ? errno : EIO, "read from", c->command);
        prn_buffer_append(text, chunk, (size_t)n);
        at += n;
    }
    return prn_buffer_error(text, err);
}

/* ---- The process ---- */

static int set_actions(posix_spawn_file_actions_t *actions, const struct child *c)
{
    int error = posix_spawn_file_actions_adddup2(actions, c->input_fd, STDIN_FILENO);
    if (!error)
        error = posix_spawn_file_actions_adddup2(actions, c->output_fd, STDOUT_FILENO);
    if (!error)
        error = posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    if (!error)
        error = posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
    return error;
}

static int demangle_start(struct child *c, struct prony_error *err)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    char *argument = strdup(c->command);
    if (!argument)
        return prn_fail_memory(err);
    char *argv[] = {argument, NULL};
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    prn_spawn_apart(&attributes); /* so that one signal ends it and all that it started */
    int error = set_actions(&actions, c);
    if (!error)
        error = posix_spawnp(&c->pid, c->command, &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free(argument);
    return error ? prn_fail_errno(err, error, "start", c->command) : 0;
}

/* Waits until the process has ended, and leaves it to be reaped, so that its number isn't given to
 * another one yet. */
static int wait_for_end(const struct child *c, int timeout_ms, struct prony_error *err)
{
    const int64_t deadline = prn_monotonic_ns() / 1000000 + timeout_ms;
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, c->pid, 0), .events = POLLIN};
    int code = 0;
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)c->pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno != EINTR) {
            code = prn_fail_errno(err, errno, "wait for", c->command);
            break;
        }
        if (info.si_pid == c->pid)
            break;
        int64_t left_ms = deadline - prn_monotonic_ns() / 1000000;
        if (left_ms <= 0) {
            code = prn_fail(err, PRONY_ETIMEDOUT, "'%s' took longer than %d ms", c->command,
                            timeout_ms);
            break;
        }
        if (end.fd < 0 && left_ms > LOOK_EVERY_MS)
            left_ms = LOOK_EVERY_MS;
        poll(&end, end.fd >= 0, (int)left_ms);
    }
    if (end.fd >= 0)
        close(end.fd);
    return code;
}

static int check_status(const struct child *c, int status, struct prony_error *err)
{
    if (WIFSIGNALED(status))
        return prn_fail(err, PRONY_EIO, "'%s' was ended by signal %d (%s)", c->command,
                        WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return prn_fail(err, PRONY_EIO, "'%s' failed with status %d", c->command,
                        WEXITSTATUS(status));
    return 0;
}

static int demangle_run(struct child *c, int timeout_ms, struct prony_error *err)
{
    int code = demangle_start(c, err);
    if (code < 0)
        return code;
    code = wait_for_end(c, timeout_ms, err);
    /* Whatever is left of the group, and the process itself, should it have left the group. The
     * status of one that has ended stays what it was. */
    kill(-c->pid, SIGKILL);
    kill(c->pid, SIGKILL);
    int status = 0;
    pid_t reaped;
    do {
        reaped = waitpid(c->pid, &status, 0);
    } while (reaped < 0 && errno == EINTR);
    return code < 0 ? code : check_status(c, status, err);
}

/* ---- The answer ---- */

static bool is_printable(const char *text, const char *end)
{
    while (text < end && prn_utf8_printable(text))
        text += prn_utf8_length(text);
    return text == end;
}

/* The name to use, given the program's line for it, which ends in NUL; NULL: out of memory. */
static const char *choose(const char *name, const char *line, const char *end,
                          struct prn_arena *arena)
{
    if (line == end || !is_printable(line, end) || strcmp(name, line) == 0)
        return name;
    return prn_arena_strndup(arena, line, (size_t)(end - line));
}

static size_t count_lines(const struct prn_buffer *text)
{
    size_t lines = 0;
    for (size_t i = 0; i < text->len; i++)
        lines += text->data[i] == '\n';
    return lines + (text->len > 0 && text->data[text->len - 1] != '\n');
}

static int take_lines(const struct child *c, struct prn_buffer *text, const char *const *names,
                      size_t n, struct prn_arena *arena, const char **chosen,
                      struct prony_error *err)
{
    size_t expected = 0;
    for (size_t i = 0; i < n; i++)
        expected += fits_line(names[i]);
    size_t lines = count_lines(text);
    if (lines != expected)
        return prn_fail(err, PRONY_EFORMAT, "'%s' wrote %zu lines for %zu names", c->command, lines,
                        expected);
    char *line = text->data;
    for (size_t i = 0; i < n; i++) {
        chosen[i] = names[i];
        if (!fits_line(names[i]))
            continue;
        char *newline = memchr(line, '\n', (size_t)(text->data + text->len - line));
        char *next = newline ? newline + 1 : text->data + text->len;
        char *end = newline ? newline : next;
        while (end > line && end[-1] == '\r')
            end--;
        *end = '\0';
        chosen[i] = choose(names[i], line, end, arena);
        if (!chosen[i])
            return prn_fail_memory(err);
        line = next;
    }
    return 0;
}

static int demangle(struct child *c, const char *const *names, size_t n, int timeout_ms,
                    struct prn_arena *arena, const char **chosen, struct prony_error *err)
{
    struct prn_buffer text = PRN_BUFFER_INIT(TEXT_BYTES_MAX);
    int code = make_files(c, err);
    if (code == 0)
        code = write_names(c->input_fd, names, n, err);
    if (code == 0)
        code = demangle_run(c, timeout_ms, err);
    if (code == 0)
        code = read_output(c, &text, err);
    if (code == 0)
        code = take_lines(c, &text, names, n, arena, chosen, err);
    prn_buffer_release(&text);
    if (c->input_fd >= 0)
        close(c->input_fd);
    if (c->output_fd >= 0)
        close(c->output_fd);
    return code;
}

int prn_demangle(const char *command, const char *const *names, size_t n, int timeout_ms,
                 struct prn_arena *arena, const char **ret_names, struct prony_error *err)
{
    if (!any_mangled(names, n)) {
        for (size_t i = 0; i < n; i++)
            ret_names[i] = names[i];
        return 0;
    }
    const char **chosen = calloc(n, sizeof *chosen);
    if (!chosen)
        return prn_fail_memory(err);
    struct child c = {.command = command, .input_fd = -1, .output_fd = -1};
    int code = demangle(&c, names, n, timeout_ms, arena, chosen, err);
    if (code == 0)
        memcpy(ret_names, chosen, n * sizeof *chosen);
    free(chosen);
    return code;
}
