#include "base/buffer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void prn_buffer_release(struct prn_buffer *b)
{
    free(b->data);
    *b = PRN_BUFFER_INIT(b->limit);
}

void prn_buffer_clear(struct prn_buffer *b)
{
    b->len = 0;
    b->error = 0;
    if (b->data)
        b->data[0] = '\0';
}

static bool reserve(struct prn_buffer *b, size_t more)
{
    if (b->error)
        return false;
    if (more > b->limit - b->len) {
        b->error = PRONY_ELIMIT;
        return false;
    }
    if (more < b->capacity - b->len)
        return true;
    /* No allocation is larger than half of the address space, so the sums below don't overflow. */
    char *data = NULL;
    size_t capacity = b->capacity ? b->capacity : 64;
    if (more < PTRDIFF_MAX - b->len) {
        while (capacity <= b->len + more)
            capacity += capacity / 2 + 64;
        data = realloc(b->data, capacity);
    }
    if (!data) {
        b->error = PRONY_ENOMEM;
        return false;
    }
    b->data = data;
    b->capacity = capacity;
    return true;
}

void prn_buffer_append(struct prn_buffer *b, const void *data, size_t len)
{
    if (!reserve(b, len))
        return;
    if (len)
        memcpy(b->data + b->len, data, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void prn_buffer_add(struct prn_buffer *b, const char *text)
{
    prn_buffer_append(b, text, strlen(text));
}

void prn_buffer_add_char(struct prn_buffer *b, char c)
{
    prn_buffer_append(b, &c, 1);
}

void prn_buffer_vprintf(struct prn_buffer *b, const char *format, va_list args)
{
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (!reserve(b, n < 0 ? SIZE_MAX : (size_t)n))
        return;
    vsnprintf(b->data + b->len, (size_t)n + 1, format, args);
    b->len += (size_t)n;
}

void prn_buffer_printf(struct prn_buffer *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    prn_buffer_vprintf(b, format, args);
    va_end(args);
}

int prn_buffer_error(const struct prn_buffer *b, struct prony_error *err)
{
    if (b->error == PRONY_ELIMIT)
        return prn_fail(err, PRONY_ELIMIT, "more than %zu bytes", b->limit);
    return b->error ? prn_fail_memory(err) : 0;
}

const char *prn_buffer_text(const struct prn_buffer *b)
{
    return b->data ? b->data : "";
}

char *prn_buffer_detach(struct prn_buffer *b)
{
    if (!b->data && !b->error)
        prn_buffer_append(b, "", 0);
    char *text = NULL;
    if (b->error)
        free(b->data);
    else
        text = b->data;
    *b = PRN_BUFFER_INIT(b->limit);
    return text;
}

int prn_buffer_read_fd(struct prn_buffer *b, int fd, const char *name, struct prony_error *err)
{
    char chunk[65536];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return prn_fail_errno(err, errno, "read", name);
        if (n == 0)
            break;
        prn_buffer_append(b, chunk, (size_t)n);
        if (prn_buffer_error(b, err) < 0)
            return prn_fail_in(err, b->error, "cannot read '%s'", name);
    }
    return 0;
}
