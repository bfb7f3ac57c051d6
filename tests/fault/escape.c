/*
 * What a hostile runtime, or a model that has taken one over, could try. The library
 * fault-escape.so tries it in the run call; as a program of its own, `escape NAME TARGET` tries it
 * without a sandbox, which shows that the attempt would work.
 */
#include "escape.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/netlink.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#define SAY_DONE "echo 'escape exec: done' >&2"

/* The attempts: -1 with errno, or anything else when they succeeded. */

static long read_file(const char *path)
{
    char byte;
    int fd = open(path, O_RDONLY);
    return fd < 0 ? -1 : read(fd, &byte, 1);
}

static long list_folder(const char *path)
{
    DIR *folder = opendir(path);
    return folder && readdir(folder) ? 0 : -1;
}

static long write_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_APPEND);
    return fd < 0 ? -1 : write(fd, "x", 1);
}

static long create_file(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/created", folder);
    return open(path, O_WRONLY | O_CREAT, 0600);
}

static long create_anywhere(const char *folder)
{
    const char *const places[] = {folder, "/tmp", "/var/tmp", "/dev/shm", "/run", "."};
    char path[4096];
    long fd = -1;
    for (size_t i = 0; fd < 0 && i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/prony-escape-%d", places[i], (int)getpid());
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    }
    if (fd >= 0)
        unlink(path);
    return fd;
}

static long make_folder(const char *folder)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/folder", folder);
    return mkdir(path, 0700);
}

static long remove_file(const char *path)
{
    return unlink(path);
}

static long link_file(const char *path)
{
    char to[4096];
    snprintf(to, sizeof to, "%s.link", path);
    return link(path, to);
}

static long symlink_file(const char *path)
{
    char to[4096];
    snprintf(to, sizeof to, "%s.symlink", path);
    return symlink(path, to);
}

static long rename_file(const char *path)
{
    char to[4096];
    snprintf(to, sizeof to, "%s.moved", path);
    return rename(path, to);
}

static long truncate_file(const char *path)
{
    return truncate(path, 0);
}

static long truncate_by_open(const char *path)
{
    return open(path, O_WRONLY | O_TRUNC);
}

static long chmod_file(const char *path)
{
    return chmod(path, 0777);
}

static long write_proc(const char *target)
{
    (void)target;
    return write_file("/proc/self/comm");
}

static long reopen_for_writing(const char *path)
{
    return open(path, O_RDWR);
}

static long open_device(const char *path)
{
    return open(path, O_RDONLY);
}

static long connect_tcp(const char *port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)strtol(port, NULL, 10)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? -1 : connect(fd, (struct sockaddr *)&to, sizeof to);
}

static long bind_tcp(const char *target)
{
    (void)target;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    return fd < 0 ? -1 : bind(fd, (struct sockaddr *)&at, sizeof at);
}

static long connect_abstract(const char *name)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    memcpy(to.sun_path + 1, name, len);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    return fd < 0 ? -1
                  : connect(fd, (struct sockaddr *)&to,
                            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len));
}

static long netlink_socket(const char *target)
{
    (void)target;
    return socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
}

static long raw_socket(const char *target)
{
    (void)target;
    return socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
}

/* "PID", or "PID ADDRESS" of a word in it. */
static pid_t victim(const char *target, uintptr_t *ret_address)
{
    char *end;
    pid_t process = (pid_t)strtol(target, &end, 10);
    if (ret_address)
        *ret_address = strtoul(end, NULL, 16);
    return process;
}

static long send_signal(const char *target)
{
    return kill(victim(target, NULL), SIGUSR1);
}

static long trace(const char *target)
{
    return ptrace(PTRACE_SEIZE, victim(target, NULL), NULL, NULL);
}

static long read_process(const char *target)
{
    uintptr_t address;
    char bytes[8];
    pid_t process = victim(target, &address);
    struct iovec here = {bytes, sizeof bytes};
    struct iovec there = {(char *)address, sizeof bytes};
    return process_vm_readv(process, &here, 1, &there, 1, 0);
}

static long read_memory(const char *target)
{
    uintptr_t address;
    char path[64];
    char bytes[8];
    snprintf(path, sizeof path, "/proc/%d/mem", (int)victim(target, &address));
    int fd = open(path, O_RDONLY);
    return fd < 0 ? -1 : pread(fd, bytes, sizeof bytes, (off_t)address);
}

static long read_environment(const char *target)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)victim(target, NULL));
    return read_file(path);
}

static long move_process(const char *target)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    return sched_setaffinity(victim(target, NULL), sizeof one, &one);
}

static long limit_process(const char *target)
{
    struct rlimit none = {0, 0};
    return prlimit(victim(target, NULL), RLIMIT_CORE, &none, NULL);
}

static long execute(const char *target)
{
    (void)target;
    return execl("/bin/sh", "sh", "-c", SAY_DONE, NULL);
}

static long execute_memory(const char *target)
{
    (void)target;
    static const char script[] = "#!/bin/sh\n" SAY_DONE "\n";
    int fd = memfd_create("script", 0);
    char *argv[] = {(char[]){"script"}, NULL};
    char *envp[] = {NULL};
    if (fd < 0 || write(fd, script, sizeof script - 1) < 0)
        return -1;
    return fexecve(fd, argv, envp);
}

static long make_process(const char *target)
{
    (void)target;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return child;
}

static long make_namespace(const char *target)
{
    (void)target;
    return unshare(CLONE_NEWUSER);
}

static long clone_namespace(const char *target)
{
    (void)target;
    long child = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        _exit(0);
    return child;
}

static long enter_namespace(const char *target)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/ns/uts", (int)victim(target, NULL));
    int fd = open(path, O_RDONLY);
    return fd < 0 ? -1 : setns(fd, CLONE_NEWUTS);
}

static long mount_folder(const char *path)
{
    long code = mount("none", path, "tmpfs", 0, NULL);
    if (code == 0)
        umount(path);
    return code;
}

/* The kernel looks at the paths once the caller may do it at all. */
static long pivot(const char *target)
{
    (void)target;
    return syscall(SYS_pivot_root, "/nowhere", "/nowhere") < 0 && errno == ENOENT ? 0 : -1;
}

static long change_root(const char *path)
{
    return chroot(path);
}

static long raise_limit(const char *target)
{
    (void)target;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return -1;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &limit);
}

static long become_other(const char *target)
{
    (void)target;
    return setresuid(65534, 65534, 65534);
}

static long outlive_parent(const char *target)
{
    (void)target;
    return prctl(PR_SET_PDEATHSIG, 0);
}

static long be_dumped(const char *target)
{
    (void)target;
    return prctl(PR_SET_DUMPABLE, 1);
}

static long add_key(const char *target)
{
    (void)target;
    return syscall(SYS_add_key, "user", "prony", "x", 1, -2 /* of this process */);
}

static long make_bpf_map(const char *target)
{
    (void)target;
    union bpf_attr map = {
        .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1};
    return syscall(SYS_bpf, BPF_MAP_CREATE, &map, sizeof map);
}

static long count_events(const char *target)
{
    (void)target;
    struct perf_event_attr event = {.type = PERF_TYPE_SOFTWARE,
                                    .size = sizeof event,
                                    .config = PERF_COUNT_SW_TASK_CLOCK,
                                    .exclude_kernel = 1};
    return syscall(SYS_perf_event_open, &event, 0, -1, -1, 0);
}

static long make_ring(const char *target)
{
    (void)target;
    char parameters[120] = {0};
    return syscall(SYS_io_uring_setup, 1, parameters);
}

static long catch_faults(const char *target)
{
    (void)target;
    return syscall(SYS_userfaultfd, 1 /* of user code only */);
}

/* Garbage is looked at only after the caller's rights. */
static long load_module(const char *target)
{
    (void)target;
    static char garbage[64];
    return syscall(SYS_init_module, garbage, sizeof garbage, "") < 0 && errno == ENOEXEC ? 0 : -1;
}

static long name_machine(const char *target)
{
    (void)target;
    char name[65];
    return gethostname(name, sizeof name) < 0 ? -1 : sethostname(name, strlen(name));
}

static long share_memory(const char *target)
{
    (void)target;
    int id = shmget(IPC_PRIVATE, 4096, IPC_CREAT | 0600);
    if (id >= 0)
        shmctl(id, IPC_RMID, NULL);
    return id;
}

/* More than any machine has, and not touched: only a limit refuses it. */
static long map_too_much(const char *bytes)
{
    void *map = mmap(NULL, strtoul(bytes, NULL, 10), PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? -1 : 0;
}

static long grow_file(const char *target)
{
    (void)target;
    return pwrite(6, "x", 1, (off_t)1 << 42);
}

static const struct {
    const char *name;
    long (*attempt)(const char *target);
} attempts[] = {
    {"read-file", read_file},
    {"list-folder", list_folder},
    {"write-file", write_file},
    {"create-file", create_file},
    {"fill-disk", create_anywhere},
    {"make-folder", make_folder},
    {"unlink", remove_file},
    {"link", link_file},
    {"symlink", symlink_file},
    {"rename", rename_file},
    {"truncate", truncate_file},
    {"truncate-by-open", truncate_by_open},
    {"chmod", chmod_file},
    {"write-proc", write_proc},
    {"reopen", reopen_for_writing},
    {"open-device", open_device},
    {"connect-tcp", connect_tcp},
    {"bind-tcp", bind_tcp},
    {"connect-abstract", connect_abstract},
    {"netlink", netlink_socket},
    {"raw-socket", raw_socket},
    {"signal", send_signal},
    {"ptrace", trace},
    {"process-vm-readv", read_process},
    {"proc-mem", read_memory},
    {"proc-environ", read_environment},
    {"set-affinity", move_process},
    {"limit-other", limit_process},
    {"exec", execute},
    {"memfd-exec", execute_memory},
    {"fork", make_process},
    {"unshare", make_namespace},
    {"clone-namespace", clone_namespace},
    {"setns", enter_namespace},
    {"mount", mount_folder},
    {"pivot-root", pivot},
    {"chroot", change_root},
    {"raise-limit", raise_limit},
    {"setuid", become_other},
    {"pdeathsig", outlive_parent},
    {"dumpable", be_dumped},
    {"add-key", add_key},
    {"bpf", make_bpf_map},
    {"perf-event", count_events},
    {"io-uring", make_ring},
    {"userfaultfd", catch_faults},
    {"init-module", load_module},
    {"sethostname", name_machine},
    {"shmget", share_memory},
    {"memory", map_too_much},
    {"grow-file", grow_file},
};

int escape_try(const char *name, const char *target)
{
    for (size_t i = 0; i < sizeof attempts / sizeof *attempts; i++) {
        if (strcmp(attempts[i].name, name) != 0)
            continue;
        if (attempts[i].attempt(target) != -1) {
            fprintf(stderr, "escape %s: done\n", name);
            return 0;
        }
        fprintf(stderr, "escape %s: denied (%s)\n", name, strerror(errno));
        return 1;
    }
    fprintf(stderr, "escape %s: unknown\n", name);
    return 2;
}

#ifdef ESCAPE_MAIN
int main(int argc, char **argv)
{
    return argc == 3 ? escape_try(argv[1], argv[2]) : 2;
}
#endif
