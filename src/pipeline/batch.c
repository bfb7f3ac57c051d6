#include "pipeline/batch.h"

#include "base/io.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALIGNMENT 64 /* of inputs, as runtimes like it */
#define PLACES_MAX ((size_t)16 << 20)

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
        offset = (offset + from->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
    /* Padding lies inside the file, and what larger tensors left behind doesn't. */
    if (code == 0 && ftruncate(inputs_fd, (off_t)offset) < 0)
        code = prn_fail_errno(err, errno, "size", "shared memory");
    if (code == 0)
        code = prn_executor_bind(executor, places, n, err);
    free(places);
    return code;
}
