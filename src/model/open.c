/*
 * From a path to a model: the file is mapped, walked over (scan.c), and what is left of it without
 * weights goes through protobuf-c, which allocates from the model's arena, so that everything is
 * freed at once. What isn't a model is named for what it looks like.
 */
#include "model/parts.h"

#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct opened {
    struct prn_model model; /* first: the public face */
    struct prn_arena arena;
    void *map; /* NULL when the bytes belong to the caller */
    size_t map_bytes;
    const struct prn_model_fetch *fetch; /* while it is read; NULL: none */
};

int prn_reader_full(struct prn_reader *r)
{
    if (r->arena->used_bytes < r->arena->limit_bytes / 2)
        return prn_fail_memory(r->err);
    return prn_fail(r->err, PRONY_ELIMIT, "its graph takes more than %zu MiB of memory",
                    r->arena->limit_bytes >> 20);
}

/* What protobuf-c allocates from. It says of a failure only that there was one. */
struct supply {
    struct prn_arena *arena;
    bool failed;
};

static void *take_memory(void *opaque, size_t size)
{
    struct supply *supply = opaque;
    void *memory = prn_arena_alloc(supply->arena, size);
    supply->failed = supply->failed || !memory;
    return memory;
}

static void leave_memory(void *opaque, void *memory)
{
    (void)opaque;
    (void)memory;
}

/* The walk and protobuf-c: the model's messages, in the arena. */
static int unpack(struct prn_reader *r, const void *data, size_t size, bool mapped,
                  Onnx__ModelProto **ret_proto)
{
    struct prn_buffer compact = PRN_BUFFER_INIT(PRN_SCAN_STRUCTURE_MAX);
    int code = prn_scan(data, size, mapped, &compact, &r->payloads, r->err);
    if (code == 0) {
        struct supply supply = {.arena = r->arena};
        ProtobufCAllocator allocator = {
            .alloc = take_memory, .free = leave_memory, .allocator_data = &supply};
        ProtobufCMessage *message =
            protobuf_c_message_unpack(&onnx__model_proto__descriptor, &allocator, compact.len,
                                      (const uint8_t *)prn_buffer_text(&compact));
        *ret_proto = (Onnx__ModelProto *)message;
        if (!message && supply.failed)
            code = prn_reader_full(r);
        else if (!message)
            code = prn_fail(r->err, PRONY_EFORMAT, "it is damaged");
        else if (!(*ret_proto)->graph)
            code = prn_fail(r->err, PRONY_EFORMAT, "it has no graph");
    }
    prn_buffer_release(&compact);
    const char *kind = code == PRONY_EFORMAT ? prn_file_kind(data, size) : NULL;
    return kind ? prn_fail(r->err, code, "it is %s, not an ONNX model", kind) : code;
}

static int compare_locations(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The files that were met, by name. */
static int list_external(struct prn_reader *r)
{
    struct prn_model *model = r->model;
    size_t n = 0;
    model->external_files = PRN_ARENA_ARRAY(r->arena, model->n_external_files + 1, const char *);
    if (!model->external_files)
        return prn_reader_full(r);
    for (size_t i = 0; i < r->external_bytes.capacity && n < model->n_external_files; i++)
        if (r->external_bytes.slots[i].key)
            model->external_files[n++] = r->external_bytes.slots[i].key;
    qsort(model->external_files, n, sizeof *model->external_files, compare_locations);
    return 0;
}

static int parse(struct opened *opened, const void *data, size_t size, struct prony_error *err)
{
    struct prony_error fault = {0};
    struct prn_reader r = {.model = &opened->model,
                           .arena = &opened->arena,
                           .folder_fd = -1,
                           .fetch = opened->fetch,
                           .err = &fault};
    Onnx__ModelProto *proto = NULL;
    int code = !data || size == 0 ? prn_fail(&fault, PRONY_EFORMAT, "it is empty")
                                  : unpack(&r, data, size, opened->map != NULL, &proto);
    if (code == 0)
        code = prn_model_read(&r, proto);
    if (code == 0)
        code = list_external(&r);
    if (r.folder_fd >= 0)
        close(r.folder_fd);
    prn_map_release(&r.external_bytes);
    prn_payloads_release(&r.payloads);
    if (code < 0)
        return prn_fail(err, code, "cannot read '%s': %s", opened->model.path, fault.text);
    return 0;
}

static struct opened *new_opened(const char *path, size_t size)
{
    struct opened *o = calloc(1, sizeof *o);
    if (!o)
        return NULL;
    o->arena = PRN_ARENA_INIT(PRN_READER_BYTES_MAX);
    o->model.file_bytes = size;
    o->model.path = prn_arena_strdup(&o->arena, path);
    if (o->model.path)
        return o;
    free(o);
    return NULL;
}

static int model_open_finish(struct opened *opened, const void *data, size_t size,
                             struct prn_model **ret_model, struct prony_error *err)
{
    opened->model.data = data;
    int code = parse(opened, data, size, err);
    if (code < 0)
        prn_model_free(&opened->model);
    else
        *ret_model = &opened->model;
    return code;
}

int prn_model_parse(const void *data, size_t size, const char *path, struct prn_model **ret_model,
                    struct prony_error *err)
{
    struct opened *opened = new_opened(path, size);
    return opened ? model_open_finish(opened, data, size, ret_model, err) : prn_fail_memory(err);
}

/* A pipe or a device must not make prony wait, so it is opened without blocking and refused. */
static int open_file(const char *path, int *ret_fd, size_t *ret_size, struct prony_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0)
        return prn_fail_errno(err, errno, "read", path);
    struct stat status;
    int code = 0;
    if (fstat(fd, &status) < 0)
        code = prn_fail_errno(err, errno, "read", path);
    else if (S_ISDIR(status.st_mode))
        code = prn_fail(err, PRONY_EFORMAT, "cannot read '%s': it is a folder, not a model", path);
    else if (!S_ISREG(status.st_mode))
        code = prn_fail(err, PRONY_EFORMAT, "cannot read '%s': it isn't a regular file", path);
    if (code < 0) {
        close(fd);
        return code;
    }
    *ret_fd = fd;
    *ret_size = (size_t)status.st_size;
    return 0;
}

int prn_model_open(const char *path, struct prn_model **ret_model, struct prony_error *err)
{
    return prn_model_open_fetching(path, NULL, ret_model, err);
}

int prn_model_open_fetching(const char *path, const struct prn_model_fetch *fetch,
                            struct prn_model **ret_model, struct prony_error *err)
{
    int fd = -1;
    size_t size = 0;
    int code = open_file(path, &fd, &size, err);
    if (code < 0)
        return code;
    struct opened *opened = new_opened(path, size);
    if (!opened) {
        close(fd);
        return prn_fail_memory(err);
    }
    opened->fetch = fetch;
    if (size > 0) {
        void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED) {
            code = prn_fail_errno(err, errno, "map", path);
            close(fd);
            prn_model_free(&opened->model);
            return code;
        }
        opened->map = map;
        opened->map_bytes = size;
        /* Weights are stepped over: reading ahead would only fetch them. */
        madvise(map, size, MADV_RANDOM);
    }
    close(fd);
    return model_open_finish(opened, opened->map, size, ret_model, err);
}

void prn_model_leave_pages(const struct prn_model *model)
{
    const struct opened *opened = (const struct opened *)model;
    if (opened->map)
        madvise(opened->map, opened->map_bytes, MADV_DONTNEED);
}

void prn_model_free(struct prn_model *model)
{
    if (!model)
        return;
    struct opened *opened = (struct opened *)model;
    if (opened->map)
        munmap(opened->map, opened->map_bytes);
    prn_arena_release(&opened->arena);
    free(opened);
}
