#include "exec/sandbox_parts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Rights that older kernel headers don't name yet. */
#define RIGHT_REFER (1ull << 13)
#define RIGHT_TRUNCATE (1ull << 14)
#define RIGHT_IOCTL_DEVICE (1ull << 15)
#define RIGHT_NET_BIND (1ull << 0)
#define RIGHT_NET_CONNECT (1ull << 1)
#define SCOPE_ABSTRACT_SOCKET (1ull << 0)
#define SCOPE_SIGNAL (1ull << 1)
#define PR_NAME_MEMORY 0x53564d41 /* PR_SET_VMA */

/* A runtime may keep a descriptor for each file of weights, as OpenVINO does, and a session has
 * those of several networks. */
#define DESCRIPTORS_MAX 16384

struct ruleset {
    uint64_t files;
    uint64_t network; /* since ABI 4 */
    uint64_t scoped;  /* since ABI 6 */
};

long prn_landlock_abi(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

static int allow(int ruleset, const char *path, uint64_t rights)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT || errno == EACCES ? 0 : -1;
    struct stat status;
    if (fstat(fd, &status) == 0 && !S_ISDIR(status.st_mode))
        rights &= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE |
                  LANDLOCK_ACCESS_FS_EXECUTE;
    struct landlock_path_beneath_attr rule = {.allowed_access = rights, .parent_fd = fd};
    long code = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    int error = errno;
    close(fd);
    errno = error;
    return code < 0 ? -1 : 0;
}

struct rule {
    const char *path; /* NULL: none */
    uint64_t rights;
};

static int allow_all(int ruleset, const struct rule *rules, size_t n)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < n; i++)
        if (rules[i].path)
            code = allow(ruleset, rules[i].path, rules[i].rights);
    return code;
}

#define RIGHT_TO_READ (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define RIGHT_TO_RUN (RIGHT_TO_READ | LANDLOCK_ACCESS_FS_EXECUTE)

/* What a compiler needs: the programs, headers and libraries that are installed, and a place for
 * its files. `all` are the rights that this kernel knows. */
static int allow_programs(int ruleset, const char *scratch_folder, uint64_t all)
{
    const uint64_t anything =
        RIGHT_TO_RUN | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |
        LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REMOVE_FILE |
        LANDLOCK_ACCESS_FS_REMOVE_DIR | (all & (RIGHT_REFER | RIGHT_TRUNCATE));
    const struct rule rules[] = {
        {scratch_folder, anything},
        {"/usr", RIGHT_TO_RUN},
        {"/bin", RIGHT_TO_RUN},
        {"/etc/alternatives", RIGHT_TO_READ},
        {"/dev/null", RIGHT_TO_READ | LANDLOCK_ACCESS_FS_WRITE_FILE},
    };
    return allow_all(ruleset, rules, PRN_ARRAY_SIZE(rules));
}

int prn_landlock_enter(const struct prn_sandbox *s, long abi)
{
    struct ruleset all = {.files = (1ull << 13) - 1};
    if (abi >= 2)
        all.files |= RIGHT_REFER;
    if (abi >= 3)
        all.files |= RIGHT_TRUNCATE;
    if (abi >= 5)
        all.files |= RIGHT_IOCTL_DEVICE;
    if (abi >= 4)
        all.network = RIGHT_NET_BIND | RIGHT_NET_CONNECT;
    if (abi >= 6)
        all.scoped = SCOPE_ABSTRACT_SOCKET | SCOPE_SIGNAL;
    size_t size = abi >= 6   ? sizeof all
                  : abi >= 4 ? offsetof(struct ruleset, scoped)
                             : offsetof(struct ruleset, network);
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &all, size, 0);
    if (ruleset < 0)
        return -1;
    const uint64_t read = RIGHT_TO_READ;
    const uint64_t write =
        LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG | (all.files & RIGHT_TRUNCATE);
    const struct rule rules[] = {
        {s->model_path, read},
        {s->model_folder, read},
        {s->cache_folder, read},
        {s->writable_folder, read | write},
        {s->library_folder, RIGHT_TO_RUN},
        {"/lib", RIGHT_TO_RUN},
        {"/lib64", RIGHT_TO_RUN},
        {"/usr/lib", RIGHT_TO_RUN},
        {"/etc/ld.so.cache", read},
        /* Runtimes look here for the machine's cores; without, some loop for ever. */
        {"/proc/cpuinfo", read},
        {"/proc/meminfo", read},
        {"/proc/self", read},
        {"/sys/devices/system", read},
        {"/sys/fs/cgroup", read},
        {"/dev/null", read},
        {"/dev/urandom", read},
    };
    int code = allow_all(ruleset, rules, PRN_ARRAY_SIZE(rules));
    for (const char *const *path = s->readable; code == 0 && path && *path; path++)
        code = allow(ruleset, *path, RIGHT_TO_RUN);
    if (code == 0 && s->scratch_folder)
        code = allow_programs(ruleset, s->scratch_folder, all.files);
    if (code == 0)
        code = (int)syscall(SYS_landlock_restrict_self, ruleset, 0);
    int error = errno;
    close(ruleset);
    errno = error;
    return code;
}

/* What the runtimes were seen to need, and what the executor itself uses to talk. */
static const int allowed_calls[] = {
    SCMP_SYS(read),
    SCMP_SYS(write),
    SCMP_SYS(writev),
    SCMP_SYS(readv),
    SCMP_SYS(pread64),
    SCMP_SYS(pwrite64),
    SCMP_SYS(openat),
    SCMP_SYS(openat2),
    SCMP_SYS(close),
    SCMP_SYS(stat),
    SCMP_SYS(fstat),
    SCMP_SYS(newfstatat),
    SCMP_SYS(lstat),
    SCMP_SYS(statx),
    SCMP_SYS(statfs),
    SCMP_SYS(fstatfs),
    SCMP_SYS(access),
    SCMP_SYS(faccessat),
    SCMP_SYS(faccessat2),
    SCMP_SYS(lseek),
    SCMP_SYS(getdents64),
    SCMP_SYS(readlink),
    SCMP_SYS(readlinkat),
    SCMP_SYS(getcwd),
    SCMP_SYS(fadvise64),
    SCMP_SYS(open),
    SCMP_SYS(dup),
    SCMP_SYS(pipe2),
    SCMP_SYS(eventfd2),
    /* memory */
    SCMP_SYS(brk),
    SCMP_SYS(mmap),
    SCMP_SYS(munmap),
    SCMP_SYS(mprotect),
    SCMP_SYS(madvise),
    SCMP_SYS(mremap),
    SCMP_SYS(mlock),
    SCMP_SYS(munlock),
    SCMP_SYS(mincore),
    SCMP_SYS(mbind),
    SCMP_SYS(get_mempolicy),
    SCMP_SYS(set_mempolicy),
    SCMP_SYS(membarrier),
    /* threads and scheduling */
    SCMP_SYS(futex),
    SCMP_SYS(set_robust_list),
    SCMP_SYS(get_robust_list),
    SCMP_SYS(rseq),
    SCMP_SYS(set_tid_address),
    SCMP_SYS(gettid),
    SCMP_SYS(getpid),
    SCMP_SYS(getppid),
    SCMP_SYS(sched_yield),
    SCMP_SYS(sched_getaffinity),
    SCMP_SYS(sched_setaffinity),
    SCMP_SYS(sched_getparam),
    SCMP_SYS(sched_getscheduler),
    SCMP_SYS(sched_get_priority_max),
    SCMP_SYS(sched_get_priority_min),
    SCMP_SYS(getcpu),
    SCMP_SYS(arch_prctl),
    SCMP_SYS(exit),
    SCMP_SYS(exit_group),
    SCMP_SYS(restart_syscall),
    /* signals */
    SCMP_SYS(rt_sigprocmask),
    SCMP_SYS(rt_sigaction),
    SCMP_SYS(rt_sigreturn),
    SCMP_SYS(sigaltstack),
    /* time and the machine */
    SCMP_SYS(clock_gettime),
    SCMP_SYS(clock_getres),
    SCMP_SYS(clock_nanosleep),
    SCMP_SYS(nanosleep),
    SCMP_SYS(gettimeofday),
    SCMP_SYS(time),
    SCMP_SYS(getrandom),
    SCMP_SYS(uname),
    SCMP_SYS(sysinfo),
    SCMP_SYS(getrusage),
    SCMP_SYS(getrlimit),
    SCMP_SYS(getuid),
    SCMP_SYS(geteuid),
    SCMP_SYS(getgid),
    SCMP_SYS(getegid),
    /* the socket to prony */
    SCMP_SYS(recvmsg),
    SCMP_SYS(sendmsg),
    SCMP_SYS(poll),
    SCMP_SYS(ppoll),
};

/* What a compiler, its parts and the shell need beyond that. Files are Landlock's business. */
static const int calls_of_programs[] = {
    SCMP_SYS(execve),        SCMP_SYS(fork),
    SCMP_SYS(vfork),         SCMP_SYS(wait4),
    SCMP_SYS(waitid),        SCMP_SYS(pipe),
    SCMP_SYS(dup2),          SCMP_SYS(dup3),
    SCMP_SYS(select),        SCMP_SYS(pselect6),
    SCMP_SYS(mkdir),         SCMP_SYS(mkdirat),
    SCMP_SYS(rmdir),         SCMP_SYS(unlink),
    SCMP_SYS(unlinkat),      SCMP_SYS(rename),
    SCMP_SYS(renameat),      SCMP_SYS(renameat2),
    SCMP_SYS(symlink),       SCMP_SYS(symlinkat),
    SCMP_SYS(chmod),         SCMP_SYS(fchmod),
    SCMP_SYS(fchmodat),      SCMP_SYS(umask),
    SCMP_SYS(chdir),         SCMP_SYS(fchdir),
    SCMP_SYS(truncate),      SCMP_SYS(ftruncate),
    SCMP_SYS(fallocate),     SCMP_SYS(fsync),
    SCMP_SYS(fdatasync),     SCMP_SYS(flock),
    SCMP_SYS(utimensat),     SCMP_SYS(copy_file_range),
    SCMP_SYS(sendfile),      SCMP_SYS(getpgrp),
    SCMP_SYS(getpgid),       SCMP_SYS(getgroups),
    SCMP_SYS(getresuid),     SCMP_SYS(getresgid),
    SCMP_SYS(alarm),         SCMP_SYS(setitimer),
    SCMP_SYS(times),         SCMP_SYS(rt_sigsuspend),
    SCMP_SYS(epoll_create1), SCMP_SYS(epoll_ctl),
    SCMP_SYS(epoll_wait),
};

/* Calls of many kinds, of which these are needed. Others could have signals sent to any process
 * (F_SETOWN, F_SETSIG), or let the executor outlive prony (PR_SET_PDEATHSIG). */
static const struct {
    int call;
    unsigned argument;
    scmp_datum_t value;
} allowed_kinds[] = {
    {SCMP_SYS(fcntl), 1, F_DUPFD},        {SCMP_SYS(fcntl), 1, F_DUPFD_CLOEXEC},
    {SCMP_SYS(fcntl), 1, F_GETFD},        {SCMP_SYS(fcntl), 1, F_SETFD},
    {SCMP_SYS(fcntl), 1, F_GETFL},        {SCMP_SYS(fcntl), 1, F_SETFL},
    {SCMP_SYS(prctl), 0, PR_SET_NAME},    {SCMP_SYS(prctl), 0, PR_GET_NAME},
    {SCMP_SYS(prctl), 0, PR_NAME_MEMORY},
};

#define LOW_HALF 0xffffffffu

static int allow_calls(scmp_filter_ctx filter, const int *calls, size_t n)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < n; i++)
        code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
    return code;
}

int prn_seccomp_enter(bool programs)
{
    const scmp_datum_t namespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                    CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;
    const struct scmp_arg_cmp thread_only = {0, SCMP_CMP_MASKED_EQ, CLONE_THREAD | namespaces,
                                             CLONE_THREAD};
    const struct scmp_arg_cmp no_namespaces = {0, SCMP_CMP_MASKED_EQ, namespaces, 0};
    const struct scmp_arg_cmp to_itself = {0, SCMP_CMP_EQ, (scmp_datum_t)getpid(), 0};
    const struct scmp_arg_cmp of_itself = {0, SCMP_CMP_EQ, 0, 0};
    const struct scmp_arg_cmp reading = {2, SCMP_CMP_EQ, 0, 0};
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    if (!filter)
        return -ENOMEM;
    int code = allow_calls(filter, allowed_calls, PRN_ARRAY_SIZE(allowed_calls));
    if (code == 0 && programs)
        code = allow_calls(filter, calls_of_programs, PRN_ARRAY_SIZE(calls_of_programs));
    for (size_t i = 0; code == 0 && i < PRN_ARRAY_SIZE(allowed_kinds); i++)
        code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed_kinds[i].call, 1,
                                (struct scmp_arg_cmp){allowed_kinds[i].argument, SCMP_CMP_MASKED_EQ,
                                                      LOW_HALF, allowed_kinds[i].value});
    /* Reads its own limits; it could also set those of others, and root could raise its own. */
    if (code == 0)
        code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(prlimit64), 2, of_itself, reading);
    /* Threads, and no processes unless there are programs to start. clone3 hides its flags from a
     * filter: glibc falls back to clone. */
    if (code == 0)
        code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
                                programs ? no_namespaces : thread_only);
    if (code == 0)
        code = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    /* abort() sends a signal to itself. */
    if (code == 0)
        code = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1, to_itself);
    /* Threads that the library started when it was loaded are under it too. */
    if (code == 0)
        code = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (code == 0)
        code = seccomp_load(filter);
    seccomp_release(filter);
    return code;
}

static int limit(int resource, int64_t value)
{
    struct rlimit now;
    if (getrlimit(resource, &now) < 0)
        return -1;
    rlim_t wanted = (rlim_t)value;
    if (now.rlim_max != RLIM_INFINITY && wanted > now.rlim_max)
        wanted = now.rlim_max;
    return setrlimit(resource, &(struct rlimit){wanted, wanted});
}

/* Threads beside this one, which a library started when it was loaded. */
static int other_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = -1;
    for (struct dirent *task; tasks && (task = readdir(tasks));)
        n += task->d_name[0] != '.';
    if (tasks)
        closedir(tasks);
    return n;
}

int prn_sandbox_enter(const struct prn_sandbox *s, char *ret_text, size_t size,
                      struct prony_error *err)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return prn_fail(err, PRONY_EIO, "cannot give up privileges: %s", strerror(errno));
    char landlock[96] = "no landlock";
    long abi = s->gpu ? -1 : prn_landlock_abi();
    if (abi >= 1) {
        /* It binds this thread and those that it starts. Runtimes were seen to start none before,
         * and the system calls are filtered for all. */
        const int unbound = other_threads();
        if (prn_landlock_enter(s, abi) < 0)
            return prn_fail(err, PRONY_EIO, "cannot restrict file access: %s", strerror(errno));
        int n = snprintf(landlock, sizeof landlock, "landlock %ld", abi);
        if (unbound > 0)
            snprintf(landlock + n, sizeof landlock - (size_t)n,
                     " (not for %d threads that the library started)", unbound);
    }
    /* RLIMIT_DATA, not RLIMIT_AS: the latter counts 130 MB of address space per thread. */
    if (limit(RLIMIT_CORE, 0) < 0 ||
        (s->memory_bytes > 0 && limit(RLIMIT_DATA, s->memory_bytes) < 0) ||
        (s->file_bytes > 0 && limit(RLIMIT_FSIZE, s->file_bytes) < 0) ||
        (s->cpu_s > 0 && limit(RLIMIT_CPU, s->cpu_s) < 0) ||
        (!s->gpu && limit(RLIMIT_NOFILE, DESCRIPTORS_MAX) < 0))
        return prn_fail(err, PRONY_EIO, "cannot limit resources: %s", strerror(errno));
    const char *seccomp = "no seccomp";
    if (!s->gpu) {
        int code = prn_seccomp_enter(s->scratch_folder != NULL);
        if (code == 0)
            seccomp = "seccomp";
        else if (code != -EINVAL && code != -ENOSYS)
            return prn_fail(err, PRONY_EIO, "cannot filter system calls: %s", strerror(-code));
    }
    snprintf(ret_text, size, "no_new_privs, %s%s%s, rlimits, %s%s%s",
             s->namespaces ? s->namespaces : "", s->namespaces ? ", " : "", landlock, seccomp,
             s->gpu ? " (GPU drivers need devices)" : "",
             s->scratch_folder ? " (a compiler needs programs and a scratch folder)" : "");
    return 0;
}
