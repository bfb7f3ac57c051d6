/* Which protections the kernel grants: each is put in force in a child and then tested there, since
 * a call that exists may still be refused, by a container or by a setting. */
#include "exec/guard.h"
#include "exec/sandbox_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* The attempts return 0, or the error. */

static int try_no_new_privs(void)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? errno : 0;
}

static int try_landlock(void)
{
    const struct prn_sandbox nothing = {0};
    const long abi = prn_landlock_abi();
    if (abi < 1)
        return errno;
    int error = try_no_new_privs();
    if (!error && prn_landlock_enter(&nothing, abi) < 0)
        error = errno;
    if (error)
        return error;
    return open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC) < 0 && errno == EACCES ? 0 : ENOTSUP;
}

static int try_seccomp(void)
{
    int error = try_no_new_privs();
    if (!error)
        error = -prn_seccomp_enter(false);
    if (error)
        return error;
    return socket(AF_UNIX, SOCK_STREAM, 0) < 0 && errno == EPERM ? 0 : ENOTSUP;
}

static int try_limits(void)
{
    const size_t bytes = (size_t)64 << 20;
    const struct rlimit little = {1 << 20, 1 << 20};
    if (setrlimit(RLIMIT_DATA, &little) < 0)
        return errno;
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return map == MAP_FAILED ? 0 : ENOTSUP;
}

static int try_pidfd(void)
{
    int fd = pidfd_open(getpid(), 0);
    return fd < 0 || pidfd_send_signal(fd, 0, NULL, 0) < 0 ? errno : 0;
}

static int in_child(int (*attempt)(void))
{
    int status = 0;
    pid_t child = fork();
    if (child == 0)
        _exit(attempt());
    if (child < 0)
        return errno;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT;
}

/* Ordinary users make the others inside of one for users, root also without. */
static int try_namespace(unsigned kind)
{
    int error = prn_guard_try(kind | CLONE_NEWUSER);
    return error && kind != CLONE_NEWUSER && prn_guard_try(kind) == 0 ? 0 : error;
}

void prn_sandbox_probe(struct prn_sandbox_protection ret_protections[PRN_SANDBOX_PROTECTIONS])
{
    static const struct {
        const char *name, *against;
        unsigned namespaces;
        int (*attempt)(void);
    } rows[PRN_SANDBOX_PROTECTIONS] = {
        {"no_new_privs", "privileges of other programs", 0, try_no_new_privs},
        {"user namespace", "rights of the user outside", CLONE_NEWUSER, NULL},
        {"mount namespace", "writing to file systems, devices", CLONE_NEWNS, NULL},
        {"pid namespace", "seeing and signalling processes", CLONE_NEWPID, NULL},
        {"net namespace", "the network", CLONE_NEWNET, NULL},
        {"ipc namespace", "queues and memory of others", CLONE_NEWIPC, NULL},
        {"uts namespace", "the machine's name", CLONE_NEWUTS, NULL},
        {"scratch folder", "files of a compiler that stay", 0, prn_guard_try_scratch},
        {"landlock", "reading other files", 0, try_landlock},
        {"seccomp", "system calls that no runtime needs", 0, try_seccomp},
        {"rlimits", "using more memory than allowed", 0, try_limits},
        {"pidfd", "signalling the wrong process", 0, try_pidfd},
    };
    for (size_t i = 0; i < PRN_SANDBOX_PROTECTIONS; i++) {
        struct prn_sandbox_protection *p = &ret_protections[i];
        int error = rows[i].attempt ? in_child(rows[i].attempt) : try_namespace(rows[i].namespaces);
        *p = (struct prn_sandbox_protection){
            .name = rows[i].name, .against = rows[i].against, .granted = error == 0};
        if (error)
            snprintf(p->text, sizeof p->text, "%s", strerror(error));
        else if (rows[i].attempt == try_landlock)
            snprintf(p->text, sizeof p->text, "ABI %ld", prn_landlock_abi());
    }
}
