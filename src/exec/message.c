#include "exec/message.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

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

int prn_message_send(struct prn_message *m, int fd)
{
    if (m->failed) {
        errno = EMSGSIZE;
        return -1;
    }
    struct iovec parts[2] = {{&m->type, sizeof m->type}, {m->data, m->len}};
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t n;
    do
        n = sendmsg(fd, &header, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? -1 : 0;
}

int prn_message_receive(struct prn_message *m, int fd)
{
    prn_message_begin(m, PRN_MESSAGE_ERROR);
    struct iovec parts[2] = {{&m->type, sizeof m->type}, {m->data, sizeof m->data}};
    struct msghdr header = {.msg_iov = parts, .msg_iovlen = 2};
    ssize_t n;
    do
        n = recvmsg(fd, &header, 0);
    while (n < 0 && errno == EINTR);
    if (n >= (ssize_t)sizeof m->type && !(header.msg_flags & MSG_TRUNC)) {
        m->len = (size_t)n - sizeof m->type;
        return 0;
    }
    if (n >= 0)
        errno = n == 0 ? 0 : EPROTO;
    return -1;
}
