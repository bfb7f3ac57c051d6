#include "measure/check/git.h"

#include "base/buffer.h"
#include "base/io.h"
#include "base/spawn.h"
#include "model/model.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define POINTER_BEGIN "version https://git-lfs.github.com/spec/"
#define COMPLAINT_MAX 4096
#define LOOK_MS 100
#define WORDS_MAX 8
#define WORDS_BYTES ((size_t)1 << 20)

/* ---- Running git ---- */

/* Waits for its end; a signal to prony ends it, too. */
static int wait_for(pid_t pid, const volatile int *cancelled)
{
    int status = -1;
    bool killed = false;
    for (;;) {
        pid_t ended = waitpid(pid, &status, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR))
            return killed ? PRONY_ECANCELED : status;
        if (cancelled && *cancelled && !killed) {
            killed = true;
            kill(-pid, SIGTERM);
        }
        int fd = pidfd_open(pid, 0);
        struct pollfd end = {.fd = fd, .events = POLLIN};
        poll(&end, fd >= 0 ? 1 : 0, LOOK_MS);
        if (fd >= 0)
            close(fd);
    }
}

static int spawn(char *const *argv, int out_fd, int complaint_fd, pid_t *ret_pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out_fd, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, complaint_fd, STDERR_FILENO);
    prn_spawn_apart(&attributes);
    int error = posix_spawnp(ret_pid, argv[0], &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return error;
}

/* The first line of what it complained about. */
static void read_complaint(int fd, char text[COMPLAINT_MAX])
{
    ssize_t n = pread(fd, text, COMPLAINT_MAX - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    if (strncmp(text, "fatal: ", 7) == 0)
        memmove(text, text + 7, strlen(text + 7) + 1);
}

static int anonymous_file(struct prony_error *err)
{
    FILE *file = tmpfile();
    int fd = file ? fcntl(fileno(file), F_DUPFD_CLOEXEC, 3) : -1;
    int error = errno;
    if (file)
        fclose(file);
    return fd >= 0 ? fd : prn_fail_errno(err, error, "create", "a temporary file");
}

/* Runs git in the folder, with its standard output to the descriptor; says what it said. */
static int run_git(const char *folder, const char *const *words, size_t n, int out_fd,
                   const volatile int *cancelled, struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT(WORDS_BYTES);
    const char *begin[] = {"git", "-C", folder};
    char *argv[WORDS_MAX] = {NULL};
    int complaint_fd = anonymous_file(err);
    int code = complaint_fd < 0 ? complaint_fd : 0;
    for (size_t i = 0; i < 3 + n && code == 0; i++) {
        argv[i] = prn_arena_strdup(&arena, i < 3 ? begin[i] : words[i - 3]);
        code = argv[i] ? 0 : prn_fail_memory(err);
    }
    pid_t pid = 0;
    int error = code == 0 ? spawn(argv, out_fd, complaint_fd, &pid) : 0;
    if (error)
        code = prn_fail_errno(err, error, "run", "git");
    int status = code == 0 ? wait_for(pid, cancelled) : 0;
    if (code == 0 && status == PRONY_ECANCELED) {
        code = prn_fail(err, PRONY_ECANCELED, "interrupted");
    } else if (code == 0 && status != 0) {
        char text[COMPLAINT_MAX];
        read_complaint(complaint_fd, text);
        code = prn_fail(err, PRONY_EUNAVAILABLE, "git: %s", text[0] ? text : "failed");
    }
    if (complaint_fd >= 0)
        close(complaint_fd);
    prn_arena_release(&arena);
    return code;
}

/* ---- Revisions and files ---- */

static int find_commit(const struct prn_git_file *file, const volatile int *cancelled,
                       struct prn_arena *arena, const char **ret_commit, struct prony_error *err)
{
    struct prn_buffer wanted = PRN_BUFFER_INIT(PATH_MAX);
    struct prn_buffer commit = PRN_BUFFER_INIT(PATH_MAX);
    prn_buffer_printf(&wanted, "%s^{commit}", file->revision);
    int code = prn_buffer_error(&wanted, err);
    int fd = code == 0 ? anonymous_file(err) : -1;
    const char *words[] = {"rev-parse", "--verify", prn_buffer_text(&wanted)};
    if (code == 0)
        code = fd < 0 ? fd
                      : run_git(file->repository, words, PRN_ARRAY_SIZE(words), fd, cancelled, err);
    if (code == PRONY_EUNAVAILABLE)
        code = prn_fail_in(err, code,
                           "cannot find revision '%s' (a shallow clone may need 'git fetch "
                           "--unshallow')",
                           file->revision);
    if (code == 0 && lseek(fd, 0, SEEK_SET) < 0)
        code = prn_fail_errno(err, errno, "read", "what git found");
    if (code == 0)
        code = prn_buffer_read_fd(&commit, fd, "git", err);
    if (fd >= 0)
        close(fd);
    if (code == 0) {
        const char *text = prn_buffer_text(&commit);
        *ret_commit = prn_arena_strndup(arena, text, strcspn(text, "\n"));
        code = *ret_commit ? 0 : prn_fail_memory(err);
    }
    prn_buffer_release(&wanted);
    prn_buffer_release(&commit);
    return code;
}

/* Both of "folder" and "name", in one text. */
static int path_of(const char *folder, const char *name, char ret_path[PATH_MAX],
                   struct prony_error *err)
{
    int n = snprintf(ret_path, PATH_MAX, "%s/%s", folder, name);
    return n < PATH_MAX ? 0 : prn_fail_errno(err, ENAMETOOLONG, "write", name);
}

int prn_git_refuse_pointer(const char *path, const char *name, const char *advice,
                           struct prony_error *err)
{
    char begin[sizeof POINTER_BEGIN - 1];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return prn_fail_errno(err, errno, "read", name);
    bool pointer = prn_pread_all(fd, begin, sizeof begin, 0) == 0 &&
                   memcmp(begin, POINTER_BEGIN, sizeof begin) == 0;
    close(fd);
    if (!pointer)
        return 0;
    return prn_fail(err, PRONY_EUNAVAILABLE,
                    "'%s' is a Git LFS pointer and its content isn't here: %s", name, advice);
}

struct extraction {
    const struct prn_git_file *file;
    const char *commit;
    const char *folder; /* where it goes */
    const char *base;   /* the folder of the model in the repository: "", or with its '/' */
    const volatile int *cancelled;
};

/* Writes a file as it was. `name` is relative to the model's folder. */
static int extract(const struct extraction *x, const char *name, struct prony_error *err)
{
    char path[PATH_MAX];
    struct prn_buffer object = PRN_BUFFER_INIT(4 * PATH_MAX);
    struct prn_buffer shown = PRN_BUFFER_INIT(4 * PATH_MAX);
    prn_buffer_printf(&object, "%s:./%s%s", x->commit, x->base, name);
    prn_buffer_printf(&shown, "%s:%s%s", x->file->revision, x->base, name);
    int code = prn_buffer_error(&object, err);
    if (code == 0)
        code = prn_buffer_error(&shown, err);
    if (code == 0)
        code = path_of(x->folder, name, path, err);
    if (code == 0 && strchr(name, '/')) {
        char above[PATH_MAX];
        memcpy(above, path, sizeof above);
        *strrchr(above, '/') = '\0';
        code = prn_make_folders(above, err);
    }
    int fd = code == 0 ? open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) : -1;
    if (code == 0 && fd < 0)
        code = prn_fail_errno(err, errno, "create", path);
    const char *words[] = {"cat-file", "--filters", prn_buffer_text(&object)};
    if (code == 0)
        code = run_git(x->file->repository, words, PRN_ARRAY_SIZE(words), fd, x->cancelled, err);
    if (code == PRONY_EUNAVAILABLE)
        code = prn_fail_in(err, code, "cannot get '%s'", prn_buffer_text(&shown));
    if (fd >= 0 && close(fd) < 0 && code == 0)
        code = prn_fail_errno(err, errno, "write", path);
    if (code == 0)
        code = prn_git_refuse_pointer(path, prn_buffer_text(&shown),
                                      "install git-lfs and run 'git lfs fetch --all'", err);
    prn_buffer_release(&object);
    prn_buffer_release(&shown);
    return code;
}

static int fetch(void *context, const char *location, struct prony_error *err)
{
    return extract(context, location, err);
}

int prn_git_model(const struct prn_git_file *file, const char *folder,
                  const volatile int *cancelled, struct prn_arena *arena, const char **ret_path,
                  const char **ret_commit, struct prony_error *err)
{
    struct prn_git_file at = *file;
    char path[PATH_MAX];
    const char *slash = strrchr(file->path, '/');
    const char *name = slash ? slash + 1 : file->path;
    const char *base =
        prn_arena_strndup(arena, file->path, slash ? (size_t)(slash + 1 - file->path) : 0);
    if (!base)
        return prn_fail_memory(err);
    if (base[0] == '/') {
        at.repository = base;
        base = "";
    }
    struct extraction x = {&at, NULL, folder, base, cancelled};
    if (file->revision[0] == '-') /* git would take it for an option */
        return prn_fail(err, PRONY_EUSAGE, "'%s' is not a revision", file->revision);
    int code = find_commit(&at, cancelled, arena, &x.commit, err);
    if (code == 0)
        code = extract(&x, name, err);
    if (code == 0)
        code = path_of(folder, name, path, err);
    struct prn_model *model = NULL;
    const struct prn_model_fetch fetching = {fetch, &x};
    if (code == 0)
        code = prn_model_open_fetching(path, &fetching, &model, err);
    if (code < 0 && code != PRONY_ECANCELED && code != PRONY_EUNAVAILABLE)
        code = prn_fail_in(err, code, "'%s' at revision '%s'", file->path, file->revision);
    prn_model_free(model);
    if (code < 0)
        return code;
    *ret_path = prn_arena_strdup(arena, path);
    *ret_commit = x.commit;
    return *ret_path ? 0 : prn_fail_memory(err);
}
