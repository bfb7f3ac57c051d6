#include "exec/message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

void prn_message_begin(struct prn_message *m, enum prn_message_type type)
{
    m->type = type;
    m->len = 0;
    m->position = 0;
    m->failed = false;
}

static void put(struct prn_message *m, const void *data, size_t len)
{
    if (m->failed || len > sizeof m->data - m->len) {
        m->failed = true;
        return;
    }
    memcpy(m->data + m->len, data, len);
    m->len += len;
}

void prn_message_put_int(struct prn_message *m, int64_t value)
{
    put(m, &value, sizeof value);
}

void prn_message_put_number(struct prn_message *m, double value)
{
    put(m, &value, sizeof value);
}

void prn_message_put_text(struct prn_message *m, const char *text)
{
    prn_message_put_int(m, text ? (int64_t)strlen(text) : -1);
    if (text)
        put(m, text, strlen(text) + 1);
}

static void get(struct prn_message *m, void *value, size_t len)
{
    if (m->failed || m->len - m->position < len) {
        m->failed = true;
        return;
    }
    memcpy(value, m->data + m->position, len);
    m->position += len;
}

int64_t prn_message_int(struct prn_message *m)
{
    int64_t value = 0;
    get(m, &value, sizeof value);
    return value;
}

double prn_message_number(struct prn_message *m)
{
    double value = 0;
    get(m, &value, sizeof value);
    return value;
}

const char *prn_message_text(struct prn_message *m)
{
    int64_t len = prn_message_int(m);
    if (m->failed || len == -1)
        return NULL;
    if (len < 0 || (uint64_t)len >= m->len - m->position || m->data[m->position + (size_t)len]) {
        m->failed = true;
        return NULL;
    }
    const char *text = (const char *)m->data + m->position;
    m->position += (size_t)len + 1;
    return text;
}

size_t prn_message_count(struct prn_message *m, size_t most)
{
    int64_t value = prn_message_int(m);
    if (value < 0 || (uint64_t)value > most) {
        m->failed = true;
        return 0;
    }
    return (size_t)value;
}

/* Room for the descriptors of one message, aligned as the kernel wants it. */
union control {
    char bytes[CMSG_SPACE(PRN_MESSAGE_FDS_MAX * sizeof(int))];
    struct cmsghdr align;
};

static int send_message(struct prn_message *m, int fd, const int *fds, size_t n_fds, int flags)
{
    if (m->failed || n_fds > PRN_MESSAGE_FDS_MAX) {
        errno = EMSGSIZE;
        return -1;
    }
    union control control = {0};
    struct iovec parts[2] = {{&m->type, sizeof m->type}, {m->data, m->len}};
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2};
    if (n_fds > 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = CMSG_SPACE(n_fds * sizeof *fds);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(n_fds * sizeof *fds);
        memcpy(CMSG_DATA(rights), fds, n_fds * sizeof *fds);
    }
    ssize_t n;
    do
        n = sendmsg(fd, &header, MSG_NOSIGNAL | flags);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -1 : 0;
}

int prn_message_send_fds(struct prn_message *m, int fd, const int *fds, size_t n_fds)
{
    return send_message(m, fd, fds, n_fds, 0);
}

int prn_message_send(struct prn_message *m, int fd)
{
    return send_message(m, fd, NULL, 0, 0);
}

int prn_message_try_send(struct prn_message *m, int fd)
{
    return send_message(m, fd, NULL, 0, MSG_DONTWAIT);
}

/* The descriptors that came with a message, all of them: what isn't wanted must be closed. */
static size_t take_fds(struct msghdr *header, int fds[PRN_MESSAGE_FDS_MAX])
{
    size_t n = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(header); c; c = CMSG_NXTHDR(header, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t here = (c->cmsg_len - CMSG_LEN(0)) / sizeof *fds;
        for (size_t i = 0; i < here && n < PRN_MESSAGE_FDS_MAX; i++)
            memcpy(&fds[n++], CMSG_DATA(c) + i * sizeof *fds, sizeof *fds);
    }
    return n;
}

/* Descriptors that are sent to who asked for none are closed by the kernel. */
static int receive_message(struct prn_message *m, int fd, int *ret_fds, size_t most, size_t *ret_n,
                           int flags)
{
    prn_message_begin(m, PRN_MESSAGE_ERROR);
    union control control;
    struct iovec parts[2] = {{&m->type, sizeof m->type}, {m->data, sizeof m->data}};
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2};
    if (most > 0) {
        header.msg_control = control.bytes;
        header.msg_controllen = sizeof control.bytes;
    }
    ssize_t n;
    do
        n = recvmsg(fd, &header, MSG_CMSG_CLOEXEC | flags);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -1;
    int fds[PRN_MESSAGE_FDS_MAX];
    size_t n_fds = most > 0 ? take_fds(&header, fds) : 0;
    const bool surplus = most > 0 && (n_fds > most || (header.msg_flags & MSG_CTRUNC));
    if (n >= (ssize_t)sizeof m->type && !(header.msg_flags & MSG_TRUNC) && !surplus) {
        m->len = (size_t)n - sizeof m->type;
        if (n_fds > 0)
            memcpy(ret_fds, fds, n_fds * sizeof *fds);
        if (ret_n)
            *ret_n = n_fds;
        return 0;
    }
    for (size_t i = 0; i < n_fds; i++)
        close(fds[i]);
    errno = n == 0 ? 0 : EPROTO;
    return -1;
}

int prn_message_receive_fds(struct prn_message *m, int fd, int *ret_fds, size_t most, size_t *ret_n)
{
    return receive_message(m, fd, ret_fds, most, ret_n, 0);
}

int prn_message_receive(struct prn_message *m, int fd)
{
    return receive_message(m, fd, NULL, 0, NULL, 0);
}

int prn_message_peek(struct prn_message *m, int fd)
{
    return receive_message(m, fd, NULL, 0, NULL, MSG_PEEK);
}
