#include "rpc/core.h"

#include "base/array.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/slice.h>

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

/* Bytes [end of the piece before, end) of the message. */
struct piece {
    const uint8_t *data;
    size_t end;
};

struct prn_bytes {
    grpc_byte_buffer *buffer; /* who the pieces belong to; NULL: they lie behind the table */
    atomic_size_t references;
    atomic_size_t last; /* the piece that was asked for last: the next one is near */
    size_t n;
    struct piece pieces[];
};

struct prn_bytes *prn_bytes_take(grpc_byte_buffer *buffer)
{
    const grpc_slice_buffer *slices = &buffer->data.raw.slice_buffer;
    struct prn_bytes *bytes = malloc(sizeof *bytes + slices->count * sizeof bytes->pieces[0]);
    if (!bytes) {
        grpc_byte_buffer_destroy(buffer);
        return NULL;
    }
    bytes->buffer = buffer;
    atomic_init(&bytes->references, 1);
    atomic_init(&bytes->last, 0);
    bytes->n = 0;
    size_t end = 0;
    for (size_t i = 0; i < slices->count; i++) {
        /* Not a copy: short slices hold their bytes themselves. */
        const grpc_slice *slice = &slices->slices[i];
        size_t length = GRPC_SLICE_LENGTH(*slice);
        if (length == 0)
            continue;
        end += length;
        bytes->pieces[bytes->n++] = (struct piece){GRPC_SLICE_START_PTR(*slice), end};
    }
    return bytes;
}

struct prn_bytes *prn_bytes_of(const void *data, size_t length)
{
    struct prn_bytes *bytes = malloc(sizeof *bytes + sizeof bytes->pieces[0] + length);
    if (!bytes)
        return NULL;
    bytes->buffer = NULL;
    atomic_init(&bytes->references, 1);
    atomic_init(&bytes->last, 0);
    bytes->n = length > 0;
    if (length) {
        uint8_t *copy = (uint8_t *)&bytes->pieces[1];
        memcpy(copy, data, length);
        bytes->pieces[0] = (struct piece){copy, length};
    }
    return bytes;
}

struct prn_bytes *prn_bytes_from(struct prn_out *out)
{
    grpc_byte_buffer *buffer = prn_out_take(out);
    return buffer ? prn_bytes_take(buffer) : NULL;
}

struct prn_bytes *prn_bytes_ref(struct prn_bytes *bytes)
{
    atomic_fetch_add(&bytes->references, 1);
    return bytes;
}

void prn_bytes_free(struct prn_bytes *bytes)
{
    if (!bytes || atomic_fetch_sub(&bytes->references, 1) > 1)
        return;
    if (bytes->buffer)
        grpc_byte_buffer_destroy(bytes->buffer);
    free(bytes);
}

size_t prn_bytes_length(const struct prn_bytes *bytes)
{
    return bytes->n ? bytes->pieces[bytes->n - 1].end : 0;
}

static size_t start_of(const struct prn_bytes *bytes, size_t i)
{
    return i ? bytes->pieces[i - 1].end : 0;
}

/* The piece with the byte at `offset`. Who walks forward finds it where the last one was, or behind
 * it; everybody else searches. */
static size_t find(const struct prn_bytes *bytes, size_t offset)
{
    size_t i = atomic_load_explicit(&bytes->last, memory_order_relaxed);
    for (int step = 0; step < 2 && i < bytes->n; step++, i++)
        if (offset >= start_of(bytes, i) && offset < bytes->pieces[i].end)
            return i;
    size_t low = 0;
    size_t high = bytes->n - 1;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (offset < bytes->pieces[middle].end)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

bool prn_bytes_next(const struct prn_bytes *bytes, struct prn_range *range, const void **ret_data,
                    size_t *ret_length)
{
    if (range->length == 0)
        return false;
    assert(range->offset < prn_bytes_length(bytes));
    assert(range->length <= prn_bytes_length(bytes) - range->offset);
    size_t i = find(bytes, range->offset);
    /* A hint is no change that a reader could see. */
    atomic_store_explicit(&((struct prn_bytes *)(uintptr_t)bytes)->last, i, memory_order_relaxed);
    size_t skip = range->offset - start_of(bytes, i);
    size_t length = bytes->pieces[i].end - range->offset;
    if (length > range->length)
        length = range->length;
    *ret_data = bytes->pieces[i].data + skip;
    *ret_length = length;
    range->offset += length;
    range->length -= length;
    return true;
}

void prn_bytes_copy(const struct prn_bytes *bytes, struct prn_range range, void *to)
{
    const void *data;
    size_t length;
    for (uint8_t *at = to; prn_bytes_next(bytes, &range, &data, &length); at += length)
        memcpy(at, data, length);
}

/* Copied data goes into chunks, so that a message of many small fields isn't one of many slices. */
#define FIRST_CHUNK_BYTES ((size_t)512)
#define CHUNK_BYTES ((size_t)8 << 10)

struct prn_out {
    grpc_slice *slices;
    size_t n;
    size_t room; /* bytes that the last slice, a chunk, can still take; its length doesn't tell */
    size_t length;
    bool failed; /* out of memory: what is there isn't all of it */
};

struct prn_out *prn_out_new(void)
{
    return calloc(1, sizeof(struct prn_out));
}

void prn_out_free(struct prn_out *out)
{
    if (!out)
        return;
    for (size_t i = 0; i < out->n; i++)
        grpc_slice_unref(out->slices[i]);
    free(out->slices);
    free(out);
}

static bool grow(struct prn_out *out)
{
    grpc_slice *slices = prn_array_grow(out->slices, out->n, sizeof *slices);
    if (!slices) {
        out->failed = true;
        return false;
    }
    out->slices = slices;
    return true;
}

/* As much as the last chunk has room for. */
static size_t fill_chunk(struct prn_out *out, const void *data, size_t length)
{
    if (length > out->room)
        length = out->room;
    if (length == 0)
        return 0;
    grpc_slice *chunk = &out->slices[out->n - 1];
    memcpy(GRPC_SLICE_END_PTR(*chunk), data, length);
    GRPC_SLICE_SET_LENGTH(*chunk, GRPC_SLICE_LENGTH(*chunk) + length);
    out->room -= length;
    out->length += length;
    return length;
}

void prn_out_copy(struct prn_out *out, const void *data, size_t length)
{
    if (!out || out->failed)
        return;
    size_t done = fill_chunk(out, data, length);
    if (done == length || !grow(out))
        return;
    size_t size = out->n ? CHUNK_BYTES : FIRST_CHUNK_BYTES;
    if (size < length - done)
        size = length - done;
    out->slices[out->n] = grpc_slice_malloc_large(size);
    GRPC_SLICE_SET_LENGTH(out->slices[out->n], 0);
    out->n++;
    out->room = size;
    fill_chunk(out, (const uint8_t *)data + done, length - done);
}

static void keep(void *context)
{
    (void)context;
}

#ifdef PRN_RPC_TSAN
/* Whoever releases comes after whoever lent, which ThreadSanitizer can't see inside gRPC. */
struct seen_loan {
    void (*release)(void *context);
    void *context;
};

static void release_seen(void *argument)
{
    prn_rpc_take(argument);
    struct seen_loan loan = *(struct seen_loan *)argument;
    free(argument);
    loan.release(loan.context);
}

static grpc_slice lend(const void *data, size_t length, void (*release)(void *), void *context)
{
    struct seen_loan *loan = malloc(sizeof *loan);
    assert(loan);
    *loan = (struct seen_loan){release, context};
    prn_rpc_give(loan);
    return grpc_slice_new_with_user_data((void *)(uintptr_t)data, length, release_seen, loan);
}
#else
static grpc_slice lend(const void *data, size_t length, void (*release)(void *), void *context)
{
    return grpc_slice_new_with_user_data((void *)(uintptr_t)data, length, release, context);
}
#endif

void prn_out_borrow(struct prn_out *out, const void *data, size_t length,
                    void (*release)(void *context), void *context)
{
    if (!release)
        release = keep;
    if (!out || out->failed || length == 0 || !grow(out)) {
        release(context);
        return;
    }
    out->slices[out->n++] = lend(data, length, release, context);
    out->room = 0;
    out->length += length;
}

size_t prn_out_length(const struct prn_out *out)
{
    return out ? out->length : 0;
}

grpc_byte_buffer *prn_out_take(struct prn_out *out)
{
    grpc_byte_buffer *buffer =
        out && !out->failed ? grpc_raw_byte_buffer_create(out->slices, out->n) : NULL;
    prn_out_free(out);
    return buffer;
}
