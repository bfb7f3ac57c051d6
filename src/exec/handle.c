#include "exec/handle.h"

#include "exec/executor_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

/* So that a packet of something else isn't taken for a handle. */
#define HANDLE_MARK INT64_C(0x70726f6e79783031)

void prn_executor_handle_release(struct prn_executor_handle *h)
{
    for (size_t i = 0; i < PRN_EXECUTOR_HANDLE_FDS; i++) {
        if (h->fds[i] >= 0)
            close(h->fds[i]);
        h->fds[i] = -1;
    }
}

/* The same, with descriptors of its own. 0, or -1 with errno. */
static int copy_handle(const struct prn_executor_handle *from, struct prn_executor_handle *ret_copy)
{
    struct prn_executor_handle copy = *from;
    int error = 0;
    for (size_t i = 0; i < PRN_EXECUTOR_HANDLE_FDS; i++) {
        copy.fds[i] = error || from->fds[i] < 0 ? -1 : fcntl(from->fds[i], F_DUPFD_CLOEXEC, 0);
        if (copy.fds[i] < 0 && from->fds[i] >= 0 && !error)
            error = errno;
    }
    if (error) {
        prn_executor_handle_release(&copy);
        errno = error;
        return -1;
    }
    *ret_copy = copy;
    return 0;
}

int prn_executor_export(struct prn_executor *x, struct prn_executor_handle *ret_handle,
                        struct prony_error *err)
{
    if (!x->opened || x->exported || !x->alive)
        return prn_fail(err, PRONY_EUSAGE, "only an executor that is open can be handed over");
    if (x->handle.fds[PRN_EXECUTOR_HANDLE_PIDFD] < 0)
        return prn_fail(err, PRONY_EUNSUPPORTED,
                        "this kernel has no pidfds, by which an executor is handed over");
    if (copy_handle(&x->handle, ret_handle) < 0)
        return prn_fail_errno(err, errno, "hand over", "executor");
    x->exported = true;
    return 0;
}

int prn_executor_adopt(const struct prn_executor_handle *handle, double timeout_s,
                       const volatile int *cancelled, struct prn_executor **ret_executor,
                       struct prony_error *err)
{
    struct prn_executor *x = prn_executor_new(timeout_s, cancelled);
    if (!x)
        return prn_fail_memory(err);
    x->opened = true;
    if (copy_handle(handle, &x->handle) < 0 || prn_executor_map(x) < 0) {
        int error = errno;
        prn_executor_free(x);
        return prn_fail_errno(err, error, "take over", "executor");
    }
    x->alive = true;
    *ret_executor = x;
    return 0;
}

static int check_socket(int fd, struct prony_error *err)
{
    int type = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &(socklen_t){sizeof type}) < 0)
        return prn_fail_errno(err, errno, "use", "socket for executors");
    return type == SOCK_SEQPACKET
               ? 0
               : prn_fail(err, PRONY_EUSAGE, "executors are handed over in packets only");
}

int prn_executor_handle_send(const struct prn_executor_handle *h, int unix_socket_fd,
                             struct prony_error *err)
{
    int code = check_socket(unix_socket_fd, err);
    struct prn_message *m = code == 0 ? malloc(sizeof *m) : NULL;
    if (code == 0 && !m)
        code = prn_fail_memory(err);
    if (code < 0)
        return code;
    prn_message_begin(m, PRN_MESSAGE_HANDLE);
    prn_message_put_int(m, HANDLE_MARK);
    prn_message_put_text(m, prony_version());
    prn_message_put_int(m, h->memory_bytes);
    prn_message_put_int(m, h->file_bytes);
    prn_message_put_int(m, h->cpu_s);
    prn_message_put_int(m, h->parked);
    prn_message_put_text(m, h->version);
    prn_message_put_text(m, h->library);
    prn_message_put_text(m, h->sandbox);
    const bool inputs = h->fds[PRN_EXECUTOR_HANDLE_INPUTS] >= 0;
    if (prn_message_send_fds(m, unix_socket_fd, h->fds, PRN_EXECUTOR_HANDLE_FDS - !inputs) < 0)
        code = prn_fail_errno(err, errno, "hand over", "executor");
    free(m);
    return code;
}

/* Whether it is shared memory that has, and keeps, at least this size. */
static bool is_shared_memory(int fd, size_t bytes)
{
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);
    return seals >= 0 && (seals & F_SEAL_SHRINK) && fstat(fd, &status) == 0 &&
           S_ISREG(status.st_mode) && status.st_size >= (off_t)bytes;
}

/* Whether each descriptor is what its place says. */
static bool check_descriptors(const int fds[PRN_EXECUTOR_HANDLE_FDS])
{
    const int inputs = fds[PRN_EXECUTOR_HANDLE_INPUTS];
    struct prony_error ignored;
    return check_socket(fds[PRN_EXECUTOR_HANDLE_SOCKET], &ignored) == 0 &&
           is_shared_memory(fds[PRN_EXECUTOR_HANDLE_SAMPLES], sizeof(union prn_executor_samples)) &&
           is_shared_memory(fds[PRN_EXECUTOR_HANDLE_OUTPUTS], 0) &&
           is_shared_memory(fds[PRN_EXECUTOR_HANDLE_STDERR], 0) &&
           is_shared_memory(fds[PRN_EXECUTOR_HANDLE_STATUS], sizeof(struct prn_guard_status)) &&
           prn_pidfd_process(fds[PRN_EXECUTOR_HANDLE_PIDFD]) > 0 &&
           (inputs < 0 || fcntl(inputs, F_GET_SEALS) >= 0);
}

static void read_text(struct prn_message *m, char *into, size_t size)
{
    const char *text = prn_message_text(m);
    if (!text || strlen(text) >= size)
        m->failed = true;
    else
        memcpy(into, text, strlen(text) + 1);
}

static int read_handle(struct prn_message *m, struct prn_executor_handle *h,
                       struct prony_error *err)
{
    char version[64] = "";
    bool ours = m->type == PRN_MESSAGE_HANDLE && prn_message_int(m) == HANDLE_MARK;
    read_text(m, version, sizeof version);
    if (ours && !m->failed && strcmp(version, prony_version()) != 0)
        return prn_fail(err, PRONY_EUNAVAILABLE,
                        "the executor belongs to prony %s, but this is prony %s", version,
                        prony_version());
    h->memory_bytes = prn_message_int(m);
    h->file_bytes = prn_message_int(m);
    h->cpu_s = prn_message_int(m);
    h->parked = prn_message_count(m, 1) != 0;
    read_text(m, h->version, sizeof h->version);
    read_text(m, h->library, sizeof h->library);
    read_text(m, h->sandbox, sizeof h->sandbox);
    if (!ours || m->failed || m->position != m->len || !check_descriptors(h->fds))
        return prn_fail(err, PRONY_EFORMAT, "received something that is not an executor");
    return 0;
}

int prn_executor_handle_receive(int unix_socket_fd, struct prn_executor_handle *ret_handle,
                                struct prony_error *err)
{
    struct prn_executor_handle h = {0};
    size_t n = 0;
    int code = check_socket(unix_socket_fd, err);
    struct prn_message *m = code == 0 ? malloc(sizeof *m) : NULL;
    if (code == 0 && !m)
        code = prn_fail_memory(err);
    if (code < 0)
        return code;
    for (size_t i = 0; i < PRN_EXECUTOR_HANDLE_FDS; i++)
        h.fds[i] = -1;
    if (prn_message_receive_fds(m, unix_socket_fd, h.fds, PRN_EXECUTOR_HANDLE_FDS, &n) == 0)
        code = read_handle(m, &h, err);
    else if (errno == 0)
        code = prn_fail(err, PRONY_ENOENT, "no more executors are handed over");
    else
        code = prn_fail_errno(err, errno, "take over", "executor");
    free(m);
    if (code < 0)
        prn_executor_handle_release(&h);
    else
        *ret_handle = h;
    return code;
}
