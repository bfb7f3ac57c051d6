/*
 * Tensors: their declared size against the data that the file has, and external data, which must
 * lie in a regular file beneath the model's folder.
 */
#include "model/external.h"
#include "model/parts.h"
#include "model/typed.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int fail(struct prn_reader *r, const struct prn_constant *c, int code, const char *what)
{
    return prn_fail(r->err, code, "tensor '%s' %s", c->name, what);
}

/* ---- External data ---- */

static int fail_location(struct prn_reader *r, const struct prn_constant *c, int code,
                         const char *what)
{
    return prn_fail(r->err, code, "tensor '%s': its external data '%s' %s", c->name,
                    c->external_location, what);
}

/* The whole text must be a decimal number. */
static bool parse_number(const char *text, uint64_t *ret_value)
{
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *ret_value = value;
    return *end == '\0' && errno == 0;
}

static bool has_parent_step(const char *path)
{
    for (;;) {
        size_t len = strcspn(path, "/");
        if (len == 2 && memcmp(path, "..", 2) == 0)
            return true;
        if (path[len] == '\0')
            return false;
        path += len + 1;
    }
}

static int open_folder(struct prn_reader *r)
{
    return r->folder_fd >= 0 ? 0 : prn_external_folder(r->model->path, &r->folder_fd, r->err);
}

static int fail_open(struct prn_reader *r, const struct prn_constant *c, int error_number)
{
    switch (error_number) {
    case ENOENT:
    case ENOTDIR:
        return fail_location(r, c, PRONY_ENOENT, "is missing");
    case ELOOP:
        return fail_location(
            r, c, PRONY_EFORMAT,
            "is a symbolic link, or is reached through one; put the file itself beside the "
            "model");
    case EXDEV:
        return fail_location(r, c, PRONY_EFORMAT, "is outside the model's folder");
    case ENOSYS:
        return fail_location(r, c, PRONY_EUNSUPPORTED,
                             "can't be opened safely: this needs Linux 5.6 (openat2)");
    default:
        return fail_location(r, c, PRONY_EIO, strerror(error_number));
    }
}

/* The size of the file, asked once per file: thousands of tensors share one. */
static int external_file_size(struct prn_reader *r, const struct prn_constant *c, size_t *ret_size)
{
    *ret_size = prn_map_get(&r->external_bytes, c->external_location);
    if (*ret_size != PRN_MAP_NONE)
        return 0;
    int code = open_folder(r);
    if (code == 0 && r->fetch)
        code = r->fetch->file(r->fetch->context, c->external_location, r->err);
    if (code < 0)
        return code;
    int fd = prn_external_open(r->folder_fd, c->external_location);
    if (fd < 0)
        return fail_open(r, c, errno);
    struct stat status;
    int failed = fstat(fd, &status) < 0 ? errno : 0;
    close(fd);
    if (failed)
        return fail_open(r, c, failed);
    if (!S_ISREG(status.st_mode))
        return fail_location(r, c, PRONY_EFORMAT, "isn't a regular file");
    *ret_size = (size_t)status.st_size;
    if (prn_map_set(&r->external_bytes, c->external_location, *ret_size) < 0)
        return prn_fail_memory(r->err);
    r->model->n_external_files++;
    return 0;
}

static int read_external(struct prn_reader *r, const Onnx__TensorProto *tensor,
                         struct prn_constant *c)
{
    bool has_length = false;
    bool bad = false;
    for (size_t i = 0; i < tensor->n_external_data; i++) {
        const char *key = tensor->external_data[i]->key;
        const char *value = tensor->external_data[i]->value;
        if (!key || !value)
            continue;
        if (strcmp(key, "location") == 0) {
            c->external_location = value;
        } else if (strcmp(key, "offset") == 0) {
            bad = bad || !parse_number(value, &c->external_offset);
        } else if (strcmp(key, "length") == 0) {
            has_length = true;
            bad = bad || !parse_number(value, &c->external_length);
        }
    }
    const char *location = c->external_location;
    if (!location || !*location)
        return fail(r, c, PRONY_EFORMAT, "has external data without a location");
    if (bad)
        return fail_location(r, c, PRONY_EFORMAT, "has an offset or length that is not a number");
    if (location[0] == '/')
        return fail_location(r, c, PRONY_EFORMAT, "is an absolute path");
    if (has_parent_step(location))
        return fail_location(r, c, PRONY_EFORMAT, "leaves the model's folder ('..')");
    int bits = prn_dtype_bits(c->dtype);
    if (bits == 0 && !has_length)
        return fail_location(r, c, PRONY_EFORMAT, "has no length");
    if (!has_length)
        c->external_length = c->bytes;
    if (bits == 0)
        c->bytes = (size_t)c->external_length;
    if (c->external_length != c->bytes)
        return prn_fail(r->err, PRONY_EFORMAT,
                        "tensor '%s': its external data '%s' is %" PRIu64
                        " bytes long, its shape needs %zu",
                        c->name, location, c->external_length, c->bytes);
    size_t size;
    int code = external_file_size(r, c, &size);
    if (code < 0)
        return code;
    if (c->external_offset > size || c->external_length > size - c->external_offset)
        return prn_fail(r->err, PRONY_EFORMAT,
                        "tensor '%s': its external data ends at byte %" PRIu64 " + %" PRIu64
                        " of '%s', which has %zu",
                        c->name, c->external_offset, c->external_length, location, size);
    return 0;
}

/* ---- Typed fields ---- */

static int fail_count(struct prn_reader *r, const struct prn_constant *c, uint64_t found,
                      const char *unit, uint64_t needed)
{
    return prn_fail(r->err, PRONY_EFORMAT,
                    "tensor '%s' has %" PRIu64 " %s of data, its type and shape need %" PRIu64,
                    c->name, found, unit, needed);
}

static int read_typed(struct prn_reader *r, const struct prn_payload *p, struct prn_constant *c)
{
    if (p->typed_mixed || (p->typed_field && p->typed_field != prn_typed_field(c->dtype)))
        return fail(r, c, PRONY_EFORMAT, "has data of a different type than it declares");
    uint64_t entries = c->bytes / prn_typed_entry_bytes(c->dtype);
    if (p->typed_exact ? p->typed_entries != entries
                       : entries < p->typed_entries || entries > p->typed_bytes)
        return fail_count(r, c, p->typed_entries, "entries", entries);
    if (c->bytes == 0 || c->bytes > PRN_READER_DECODE_MAX || !p->typed_exact)
        return 0;
    uint8_t *data = prn_arena_alloc(r->arena, c->bytes);
    if (!data)
        return prn_reader_full(r);
    if (!prn_typed_decode(p->message, p->message_len, c->dtype, data, c->bytes))
        return fail(r, c, PRONY_EFORMAT, "has damaged data");
    c->data = data;
    return 0;
}

/* ---- All of it ---- */

static int read_inline(struct prn_reader *r, const struct prn_payload *p, struct prn_constant *c)
{
    if (c->dtype == PRN_DTYPE_STRING) {
        if (p->n_strings != (uint64_t)c->elements)
            return fail_count(r, c, p->n_strings, "strings", (uint64_t)c->elements);
        return 0;
    }
    bool sized = prn_dtype_bits(c->dtype) > 0;
    if (!sized)
        c->bytes = p->raw_len;
    if (!p->raw)
        return sized ? read_typed(r, p, c) : 0;
    if (p->raw_len != c->bytes)
        return fail_count(r, c, p->raw_len, "bytes", c->bytes);
    c->data = p->raw;
    return 0;
}

int prn_constant_read(struct prn_reader *r, const Onnx__TensorProto *tensor,
                      struct prn_constant *ret_constant)
{
    struct prn_constant c = {.name = tensor->name ? tensor->name : "",
                             .dtype = tensor->data_type,
                             .rank = tensor->n_dims,
                             .dims = tensor->dims};
    struct prn_payload payload;
    if (!prn_payload_of(&r->payloads, tensor, &payload))
        return fail(r, &c, PRONY_EFORMAT, "is damaged");
    if (c.dtype == PRN_DTYPE_UNDEFINED)
        return fail(r, &c, PRONY_EFORMAT, "has no element type");
    if (c.rank > PRN_RANK_MAX)
        return prn_fail(r->err, PRONY_ELIMIT, "tensor '%s' has %zu dimensions, more than %d",
                        c.name, c.rank, PRN_RANK_MAX);
    if (prn_dims_elements(c.dims, c.rank, &c.elements) < 0 ||
        prn_dtype_bytes(c.dtype, c.dims, c.rank, &c.bytes) == PRONY_ELIMIT) {
        char dims[PRN_RANK_MAX * 21 + 1];
        return prn_fail(r->err, PRONY_ELIMIT, "tensor '%s' has an invalid shape, %s", c.name,
                        prn_dims_text(c.dims, c.rank, dims, sizeof dims));
    }
    int code = tensor->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL
                   ? read_external(r, tensor, &c)
                   : read_inline(r, &payload, &c);
    if (code == 0)
        *ret_constant = c;
    return code;
}
