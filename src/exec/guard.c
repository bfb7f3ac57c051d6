#include "exec/guard.h"

#include "base/error.h"
#include "exec/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS_MAX 16384
#define SCRATCH_OPTIONS "mode=0700,size=1g,nr_inodes=65536"

static const struct {
    unsigned flag;
    const char *name;
} kinds[] = {
    {CLONE_NEWUSER, "user"}, {CLONE_NEWNS, "mount"}, {CLONE_NEWPID, "pid"},
    {CLONE_NEWNET, "net"},   {CLONE_NEWIPC, "ipc"},  {CLONE_NEWUTS, "uts"},
};

/* Writes a file of /proc/CHILD in one piece, as the kernel demands. */
static int write_to(pid_t child, const char *name, const char *text)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", (long)child, name);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = write(fd, text, strlen(text));
    int error = errno;
    close(fd);
    errno = error;
    return n < 0 ? -1 : 0;
}

/* Every id that exists here, as itself: "0 0 4294967295" outside of containers. */
static int map_everyone(pid_t child, const char *name)
{
    char path[64];
    char text[4096] = "";
    size_t len = 0;
    snprintf(path, sizeof path, "/proc/self/%s", name);
    FILE *file = fopen(path, "re");
    if (!file)
        return -1;
    unsigned long inside;
    unsigned long count;
    while (len < sizeof text - 64 && fscanf(file, "%lu %*u %lu", &inside, &count) == 2)
        len +=
            (size_t)snprintf(text + len, sizeof text - len, "%lu %lu %lu\n", inside, inside, count);
    fclose(file);
    return write_to(child, name, text);
}

static int map_one(pid_t child, const char *name, unsigned id)
{
    char text[64];
    snprintf(text, sizeof text, "%u %u 1\n", id, id);
    return write_to(child, name, text);
}

/* Root may read models of other users, so it keeps them all; others only know themselves. */
static int write_maps(pid_t child)
{
    if (map_everyone(child, "uid_map") < 0 && map_one(child, "uid_map", geteuid()) < 0)
        return -1;
    if (map_everyone(child, "gid_map") == 0)
        return 0;
    return write_to(child, "setgroups", "deny") < 0 ? -1 : map_one(child, "gid_map", getegid());
}

/* fork() into namespaces. The child goes on once its users are mapped, and ends with its parent.
 * Not fork() itself: glibc's idea of the thread's number is the parent's still, so that the child
 * has to fork() before it starts threads. */
static pid_t clone_into(unsigned namespaces)
{
    int go[2];
    char byte = 0;
    if (pipe2(go, O_CLOEXEC) < 0)
        return -1;
    pid_t child = (pid_t)syscall(SYS_clone, (unsigned long)namespaces | SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(go[1]);
        if (read(go[0], &byte, 1) != 1)
            _exit(1);
        close(go[0]);
        return 0;
    }
    int error = child < 0 ? errno : 0;
    close(go[0]);
    if (!error && (namespaces & CLONE_NEWUSER) && write_maps(child) < 0)
        error = errno;
    if (!error && write(go[1], &byte, 1) != 1)
        error = errno;
    close(go[1]);
    if (error && child > 0) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    errno = error;
    return error ? -1 : child;
}

static int change_mount(const char *path, unsigned flags, uint64_t set, uint64_t clear)
{
    struct mount_attr change = {.attr_set = set, .attr_clr = clear};
    return mount_setattr(AT_FDCWD, path, flags, &change, sizeof change);
}

/* Devices that do nothing but give, or take, bytes; torch seeds itself by the second. */
static const char *const devices[] = {"/dev/null", "/dev/urandom"};

/* What is mounted stays where it is, so that all paths mean what they meant, but read-only and
 * without devices; the exceptions are mounts of their own. */
static int confine_mounts(const char *writable_folder, bool own_processes)
{
    const uint64_t confined = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        (writable_folder && mount(writable_folder, writable_folder, NULL, MS_BIND, NULL) < 0))
        return -1;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(devices); i++)
        if (mount(devices[i], devices[i], NULL, MS_BIND, NULL) < 0)
            return -1;
    /* A container that hides parts of /proc gets no second one: Landlock hides it then. */
    if (own_processes)
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    if (change_mount("/", AT_RECURSIVE, confined, 0) < 0)
        return -1;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(devices); i++)
        if (change_mount(devices[i], 0, 0, MOUNT_ATTR_NODEV) < 0)
            return -1;
    return writable_folder ? change_mount(writable_folder, 0, 0, MOUNT_ATTR_RDONLY) : 0;
}

/* ---- A scratch folder ---- */

/* Exist everywhere, and are nothing to an executor. */
static const char *const scratch_places[] = {"/dev/shm", "/mnt", "/media", "/srv"};

static bool lies_in(const char *path, const char *folder)
{
    const size_t n = strlen(folder);
    return path && strncmp(path, folder, n) == 0 && (path[n] == '/' || path[n] == '\0');
}

/* A file system in memory, over a folder that nobody inside needs: it goes with the last process
 * that sees it, however that ends. */
static void mount_scratch(const struct prn_guard *g, char path[PATH_MAX])
{
    char program[PATH_MAX] = "";
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    program[n > 0 ? n : 0] = '\0';
    const char *interpreter = secure_getenv("PRONY_PYTHON");
    for (size_t i = 0; i < PRN_ARRAY_SIZE(scratch_places); i++) {
        const char *place = scratch_places[i];
        bool needed = lies_in(program, place) || lies_in(interpreter, place);
        for (size_t k = 0; k < g->n_needed; k++)
            needed |= lies_in(g->needed[k], place);
        if (!needed && mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, SCRATCH_OPTIONS) == 0) {
            snprintf(path, PATH_MAX, "%s", place);
            return;
        }
    }
}

/* Root reads what others may read, and is nobody special beyond that. */
static int drop_capabilities(void)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct now[2] = {{0}};
    if (syscall(SYS_capget, &header, now) < 0)
        return -1;
    const uint32_t kept = geteuid() == 0 ? now[0].permitted & (1u << CAP_DAC_READ_SEARCH) : 0;
    struct __user_cap_data_struct wanted[2] = {{.effective = kept, .permitted = kept}};
    return (int)syscall(SYS_capset, &header, wanted);
}

static void record(struct prn_guard_status *status, int wait_status)
{
    if (atomic_load(&status->ended))
        return;
    status->wait_status = wait_status;
    atomic_store(&status->ended, 1);
}

/* What the guard and the init do until the end. `leftover`: a folder to remove then, or NULL. */
_Noreturn static void watch(pid_t child, struct prn_guard_status *status, const char *leftover)
{
    int wait_status;
    prctl(PR_SET_NAME, "prony-guard");
    /* The executor's connection must end with it. */
    close_range(0, ~0u, 0);
    while (waitpid(child, &wait_status, 0) < 0)
        if (errno != EINTR)
            _exit(1);
    record(status, wait_status);
    if (leftover)
        prn_scratch_remove(leftover);
    _exit(0);
}

static unsigned granted_one_by_one(void)
{
    const unsigned users = prn_guard_try(CLONE_NEWUSER) == 0 ? CLONE_NEWUSER : 0;
    unsigned granted = users;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(kinds); i++)
        if (kinds[i].flag != CLONE_NEWUSER && prn_guard_try(users | kinds[i].flag) == 0)
            granted |= kinds[i].flag;
    return granted;
}

/* What a child that makes an attempt exits with. */
static int wait_for_attempt(pid_t child)
{
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : ECHILD;
}

int prn_guard_try(unsigned namespaces)
{
    pid_t child = clone_into(namespaces);
    if (child < 0)
        return errno;
    if (child == 0) {
        const bool alone = namespaces & CLONE_NEWPID;
        if ((namespaces & CLONE_NEWNS) && confine_mounts(NULL, alone) < 0)
            _exit(errno);
        _exit(alone && getpid() != 1 ? EPERM : 0);
    }
    return wait_for_attempt(child);
}

int prn_guard_try_scratch(void)
{
    char path[PATH_MAX] = "";
    const struct prn_guard guard = {.scratch = path};
    pid_t child = clone_into(CLONE_NEWUSER | CLONE_NEWNS);
    if (child < 0)
        return errno;
    if (child == 0) {
        if (confine_mounts(NULL, false) < 0)
            _exit(errno);
        mount_scratch(&guard, path);
        _exit(path[0] ? 0 : errno);
    }
    return wait_for_attempt(child);
}

static void describe(unsigned granted, int error, char *text, size_t size)
{
    char names[64] = "";
    for (size_t i = 0; i < PRN_ARRAY_SIZE(kinds); i++)
        if (granted & kinds[i].flag)
            snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s",
                     names[0] ? "/" : "", kinds[i].name);
    snprintf(text, size, "%s namespaces", names[0] ? names : "no");
    if (error)
        snprintf(text + strlen(text), size - strlen(text), " (otherwise: %s)", strerror(error));
}

/* The init's way to the executor. */
static void enter_executor(const struct prn_guard *g, unsigned granted, char *ret_text, size_t size)
{
    int error = 0;
    struct prony_error ignored;
    const bool confined = (granted & CLONE_NEWNS) != 0;
    if (confined && confine_mounts(g->writable_folder, granted & CLONE_NEWPID) < 0)
        error = errno;
    if (g->scratch && confined && !error)
        mount_scratch(g, g->scratch);
    else if (g->scratch &&
             prn_scratch_make(NULL, g->scratch, &ignored) < 0) /* the init removes it */
        g->scratch[0] = '\0';
    const pid_t init = getpid();
    pid_t child = fork();
    if (child < 0)
        _exit(1);
    if (child > 0)
        watch(child, g->status, g->scratch && (!confined || error) ? g->scratch : NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != init)
        _exit(1);
    /* Counted per user and namespace: without one, it would be about all that the user runs. */
    if (granted & CLONE_NEWUSER)
        setrlimit(RLIMIT_NPROC, &(struct rlimit){THREADS_MAX, THREADS_MAX});
    if (g->namespaces && drop_capabilities() < 0)
        _exit(1);
    if (error)
        snprintf(ret_text + strlen(ret_text), size - strlen(ret_text), " (mounts as they were: %s)",
                 strerror(error));
}

void prn_guard_enter(const struct prn_guard *g, char *ret_text, size_t size)
{
    unsigned wanted = 0;
    for (size_t i = 0; g->namespaces && i < PRN_ARRAY_SIZE(kinds); i++)
        wanted |= kinds[i].flag;
    unsigned granted = wanted;
    int error = 0;
    pid_t child = clone_into(granted);
    if (child < 0 && wanted) {
        error = errno;
        granted = granted_one_by_one();
        child = clone_into(granted);
    }
    if (child > 0)
        watch(child, g->status, NULL);
    describe(child < 0 ? 0 : granted, child < 0 ? errno : error, ret_text, size);
    if (child == 0)
        enter_executor(g, granted, ret_text, size);
}
