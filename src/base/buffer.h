/*
 * A growing byte buffer with a limit. The content always ends in a NUL that `len` doesn't count.
 * The first failure sticks (`error`), later appends do nothing, so a writer checks once at the end
 * with prn_buffer_error(). Initialise with PRN_BUFFER_INIT(limit); release when done.
 */
#ifndef PRN_BASE_BUFFER_H
#define PRN_BASE_BUFFER_H

#include "base/error.h"

#include <stdarg.h>
#include <stdbool.h>

struct prn_buffer {
    char *data; /* NULL until the first append */
    size_t len;
    size_t capacity;
    size_t limit; /* most bytes that it may hold */
    int error;    /* 0, PRONY_ENOMEM or PRONY_ELIMIT */
};

#define PRN_BUFFER_INIT(most) ((struct prn_buffer){.limit = (most)})

void prn_buffer_release(struct prn_buffer *b);
void prn_buffer_clear(struct prn_buffer *b);

void prn_buffer_append(struct prn_buffer *b, const void *data, size_t len);
void prn_buffer_add(struct prn_buffer *b, const char *text);
void prn_buffer_add_char(struct prn_buffer *b, char c);
void prn_buffer_printf(struct prn_buffer *b, const char *format, ...) PRN_PRINTF(2, 3);
void prn_buffer_vprintf(struct prn_buffer *b, const char *format, va_list args) PRN_PRINTF(2, 0);

/* 0, or the first failure, put into `err`. */
PRONY_MUST_CHECK int prn_buffer_error(const struct prn_buffer *b, struct prony_error *err);

/* The text; "" when nothing was added. Borrowed until the next change. */
const char *prn_buffer_text(const struct prn_buffer *b);

/* Hands the text to the caller, who frees it; NULL after a failure. The buffer is empty then. */
char *prn_buffer_detach(struct prn_buffer *b);

/* Reads all of `fd`, at most the buffer's limit. */
PRONY_MUST_CHECK int prn_buffer_read_fd(struct prn_buffer *b, int fd, const char *name,
                                        struct prony_error *err);

#endif
