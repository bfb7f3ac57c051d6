#include "pipeline/simulate/batch.h"

#include "base/io.h"
#include "exec/message.h"
#include "model/dtype.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALIGNMENT 64 /* of inputs, as runtimes like it */
#define PLACES_MAX ((size_t)16 << 20)

static size_t aligned(size_t offset)
{
    return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

struct prn_batch *prn_batch_new(void)
{
    struct prn_batch *batch = calloc(1, sizeof *batch);
    if (batch)
        batch->arena = PRN_ARENA_INIT(PLACES_MAX);
    return batch;
}

void prn_batch_free(struct prn_batch *batch)
{
    if (!batch)
        return;
    prn_arena_release(&batch->arena);
    free(batch->data);
    free(batch);
}

/* Memory is kept from batch to batch, so that finding pages costs nothing after the first. */
static int make_room(struct prn_batch *batch, size_t bytes, struct prony_error *err)
{
    if (batch->data && bytes <= batch->room_bytes)
        return 0;
    unsigned char *data = malloc(bytes ? bytes : 1);
    if (!data)
        return prn_fail_memory(err);
    free(batch->data);
    batch->data = data;
    batch->room_bytes = bytes;
    return 0;
}

int prn_batch_read(struct prn_batch *batch, struct prn_place *places, size_t n, int fd,
                   struct prony_error *err)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        size_t end = places[i].offset + places[i].bytes;
        bytes = end > bytes ? end : bytes;
    }
    int code = make_room(batch, bytes, err);
    if (code < 0)
        return code;
    /* Read, not mapped: an executor might make its file shorter meanwhile. */
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(fd, batch->data + done, bytes - done, (off_t)done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return prn_fail_errno(err, got < 0 ? errno : EIO, "read", "tensors");
        done += (size_t)got;
    }
    batch->bytes = bytes;
    batch->places = places;
    batch->n = n;
    return 0;
}

int prn_batch_receive(struct prn_batch *batch, struct prn_executor *executor,
                      struct prony_error *err)
{
    struct prn_place *places;
    size_t n;
    int fd;
    prn_arena_release(&batch->arena);
    batch->arena = PRN_ARENA_INIT(PLACES_MAX);
    int code = prn_executor_outputs(executor, 0, &batch->arena, &places, &n, &fd, err);
    if (code < 0)
        return code;
    code = prn_batch_read(batch, places, n, fd, err);
    close(fd);
    return code;
}

const struct prn_place *prn_batch_find(const struct prn_batch *batch, const char *name)
{
    for (size_t i = 0; i < batch->n; i++)
        if (strcmp(batch->places[i].name, name) == 0)
            return &batch->places[i];
    return NULL;
}

int prn_batch_send(const struct prn_batch *batch, const char *const *names, size_t n,
                   struct prn_executor *executor, int inputs_fd, struct prony_error *err)
{
    struct prn_place *places = calloc(n + 1, sizeof *places);
    int code = places ? 0 : prn_fail_memory(err);
    size_t offset = 0;
    for (size_t i = 0; i < n && code == 0; i++) {
        const struct prn_place *from = prn_batch_find(batch, names[i]);
        if (!from) {
            code = prn_fail(err, PRONY_ERUNTIME, "nothing hands '%s' to it", names[i]);
            break;
        }
        places[i] = *from;
        places[i].offset = offset;
        if (prn_pwrite_all(inputs_fd, batch->data + from->offset, from->bytes, offset) < 0)
            code = prn_fail_errno(err, errno, "write input", names[i]);
        offset = aligned(offset + from->bytes);
    }
    /* Padding lies inside the file, and what larger tensors left behind doesn't. */
    if (code == 0 && ftruncate(inputs_fd, (off_t)offset) < 0)
        code = prn_fail_errno(err, errno, "size", "shared memory");
    if (code == 0)
        code = prn_executor_bind(executor, places, n, err);
    free(places);
    return code;
}

/* ---- As bytes ---- */

static int put_head(const struct prn_batch *batch, const struct prn_place *const *places, size_t n,
                    struct prn_message *m, struct prony_error *err)
{
    prn_message_begin(m, PRN_MESSAGE_OK);
    prn_message_put_int(m, (int64_t)batch->number);
    prn_message_put_int(m, batch->alone);
    prn_message_put_int(m, batch->last);
    prn_message_put_int(m, batch->begin_ns);
    prn_message_put_int(m, (int64_t)n);
    for (size_t i = 0; i < n; i++)
        prn_place_put(places[i], m);
    return m->failed ? prn_fail(err, PRONY_ELIMIT, "%zu tensors are too many to be sent", n) : 0;
}

static int store(const struct prn_batch *batch, const struct prn_place *const *places, size_t n,
                 prn_batch_put *put, void *context, struct prony_error *err)
{
    struct prn_message *m = malloc(sizeof *m);
    int code = m ? put_head(batch, places, n, m, err) : prn_fail_memory(err);
    if (code == 0) {
        uint32_t length = (uint32_t)m->len;
        code = put(context, &length, sizeof length, err);
    }
    if (code == 0)
        code = put(context, m->data, m->len, err);
    free(m);
    for (size_t i = 0; i < n && code == 0; i++)
        code = put(context, batch->data + places[i]->offset, places[i]->bytes, err);
    return code;
}

int prn_batch_store(const struct prn_batch *batch, const char *const *names, size_t n,
                    prn_batch_put *put, void *context, struct prony_error *err)
{
    n = names ? n : batch->n;
    const struct prn_place **places = calloc(n + 1, sizeof *places);
    int code = places ? 0 : prn_fail_memory(err);
    for (size_t i = 0; i < n && code == 0; i++) {
        places[i] = names ? prn_batch_find(batch, names[i]) : &batch->places[i];
        if (!places[i])
            code = prn_fail(err, PRONY_ERUNTIME, "it does not give '%s'", names[i]);
    }
    if (code == 0)
        code = store(batch, places, n, put, context, err);
    free(places);
    return code;
}

static int malformed(struct prony_error *err)
{
    return prn_fail(err, PRONY_EFORMAT, "malformed batch");
}

/* Sizes must be those of the shapes, and have a sum. */
static int place_tensors(struct prn_place *places, size_t n, size_t *ret_bytes,
                         struct prony_error *err)
{
    size_t end = 0;
    for (size_t i = 0; i < n; i++) {
        size_t expected = places[i].bytes;
        if (prn_dtype_bits(places[i].dtype) &&
            (prn_dtype_bytes(places[i].dtype, places[i].dims, places[i].rank, &expected) < 0 ||
             expected != places[i].bytes))
            return malformed(err);
        places[i].offset = end;
        if (places[i].bytes > SIZE_MAX / 4 || end > SIZE_MAX / 4)
            return malformed(err);
        end = aligned(end + places[i].bytes);
    }
    *ret_bytes = end;
    return 0;
}

static int get_head(struct prn_batch *batch, struct prn_message *m, struct prony_error *err)
{
    prn_arena_release(&batch->arena);
    batch->arena = PRN_ARENA_INIT(PLACES_MAX);
    batch->number = prn_message_count(m, SIZE_MAX / 2);
    batch->alone = prn_message_int(m);
    batch->last = prn_message_int(m);
    batch->begin_ns = prn_message_int(m);
    batch->n = prn_message_count(m, PRN_EXECUTOR_TENSORS_MAX);
    batch->places = PRN_ARENA_ARRAY(&batch->arena, batch->n + 1, struct prn_place);
    if (!batch->places)
        return prn_fail_memory(err);
    for (size_t i = 0; i < batch->n && !m->failed; i++)
        if (!prn_place_get(&batch->places[i], m, &batch->arena))
            return prn_fail_memory(err);
    if (m->failed || m->position != m->len)
        return malformed(err);
    int code = place_tensors(batch->places, batch->n, &batch->bytes, err);
    return code == 0 ? make_room(batch, batch->bytes, err) : code;
}

int prn_batch_fetch(struct prn_batch *batch, prn_batch_get *get, void *context,
                    struct prony_error *err)
{
    uint32_t length;
    int code = get(context, &length, sizeof length, err);
    if (code == 0 && length > PRN_MESSAGE_MAX)
        code = malformed(err);
    struct prn_message *m = code == 0 ? malloc(sizeof *m) : NULL;
    if (code == 0 && !m)
        code = prn_fail_memory(err);
    if (code == 0) {
        prn_message_begin(m, PRN_MESSAGE_OK);
        m->len = length;
        code = get(context, m->data, length, err);
    }
    if (code == 0)
        code = get_head(batch, m, err);
    free(m);
    for (size_t i = 0; code == 0 && i < batch->n; i++)
        code = get(context, batch->data + batch->places[i].offset, batch->places[i].bytes, err);
    return code;
}

static int put_text(void *context, const void *data, size_t bytes, struct prony_error *err)
{
    prn_buffer_append(context, data, bytes);
    return prn_buffer_error(context, err);
}

int prn_batch_write(const struct prn_batch *batch, struct prn_buffer *out, struct prony_error *err)
{
    return prn_batch_store(batch, NULL, 0, put_text, out, err);
}

struct rest {
    const unsigned char *data;
    size_t bytes;
};

static int get_rest(void *context, void *data, size_t bytes, struct prony_error *err)
{
    struct rest *rest = context;
    if (bytes > rest->bytes)
        return malformed(err);
    if (bytes > 0)
        memcpy(data, rest->data, bytes);
    rest->data += bytes;
    rest->bytes -= bytes;
    return 0;
}

int prn_batch_parse(struct prn_batch *batch, const void *data, size_t bytes,
                    struct prony_error *err)
{
    struct rest rest = {data, bytes};
    int code = prn_batch_fetch(batch, get_rest, &rest, err);
    return code == 0 && rest.bytes > 0 ? malformed(err) : code;
}
