/*
 * Messages as gRPC has them: bytes in many pieces, which nobody joins. A 64 MiB message arrives in
 * a thousand pieces; what matters of it is copied once, to where it is needed.
 *
 * - struct prn_bytes is a message that came. A part of it is a struct prn_range.
 * - struct prn_out is a message that will be sent. Large data is borrowed until it is sent.
 */
#ifndef PRN_RPC_BYTES_H
#define PRN_RPC_BYTES_H

#include "base/error.h"

#include <stdbool.h>

struct prn_bytes;

struct prn_range {
    size_t offset, length;
};

size_t prn_bytes_length(const struct prn_bytes *bytes);
/* Frees it with the last reference; NULL does nothing. */
void prn_bytes_free(struct prn_bytes *bytes);
struct prn_bytes *prn_bytes_ref(struct prn_bytes *bytes);

/* The next piece of a range, which is shortened by it; false at its end. The range must lie inside
 * the message. */
bool prn_bytes_next(const struct prn_bytes *bytes, struct prn_range *range, const void **ret_data,
                    size_t *ret_length);

/* Copies a range that must lie inside the message. */
void prn_bytes_copy(const struct prn_bytes *bytes, struct prn_range range, void *to);

/* Bytes of a text or a block of memory, copied: for tests, and where no network is. NULL: out of
 * memory. */
struct prn_bytes *prn_bytes_of(const void *data, size_t length);

struct prn_out;

/* NULL: out of memory; adding to NULL does nothing, and sending NULL fails. */
struct prn_out *prn_out_new(void);
void prn_out_free(struct prn_out *out); /* NULL does nothing; a message that was sent is gone */

void prn_out_copy(struct prn_out *out, const void *data, size_t length);

/* `release(context)` is called once, when the data isn't needed any more: from any thread, also
 * from within the function that sends the message, so it takes no lock that is held there. */
void prn_out_borrow(struct prn_out *out, const void *data, size_t length,
                    void (*release)(void *context), void *context);

size_t prn_out_length(const struct prn_out *out);

/* A message that would be sent, as the one who gets it will see it: for tests. It is consumed.
 * NULL: out of memory. */
struct prn_bytes *prn_bytes_from(struct prn_out *out);

#endif
