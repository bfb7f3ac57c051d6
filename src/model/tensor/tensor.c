/* Tensors in memory, and reading one for an input from a file. */
#include "model/tensor/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Headers around the elements: far more than any writer needs. */
#define FILE_MAX_BYTES (PRN_TENSOR_MAX_BYTES + ((size_t)1 << 20))

void prn_tensor_release(struct prn_tensor *t)
{
    free(t->data);
    t->data = NULL;
    t->bytes = 0;
}

int prn_tensor_fail(struct prony_error *err, int code, const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    prn_vfail(err, code, format, args);
    va_end(args);
    return prn_fail_in(err, code, "cannot read '%s'", name);
}

int prn_tensor_measure(const struct prn_tensor *t, const char *name, int64_t *ret_elements,
                       size_t *ret_bytes, struct prony_error *err)
{
    int64_t elements;
    size_t bytes = 0;
    int code = prn_dims_elements(t->dims, t->rank, &elements);
    if (code == 0 && t->dtype != PRN_DTYPE_STRING)
        code = prn_dtype_bytes(t->dtype, t->dims, t->rank, &bytes);
    if (code == PRONY_EUNSUPPORTED)
        return prn_tensor_fail(err, code, name, "its element type, %d, is not known", t->dtype);
    /* Strings are at least an offset each. */
    if (code < 0 || bytes > PRN_TENSOR_MAX_BYTES ||
        (t->dtype == PRN_DTYPE_STRING && (uint64_t)elements > PRN_TENSOR_MAX_BYTES / 16)) {
        char dims[PRN_RANK_MAX * 21 + 1];
        return prn_tensor_fail(
            err, PRONY_ELIMIT, name, "its shape, %s, is impossible or over %d GiB",
            prn_dims_text(t->dims, t->rank, dims, sizeof dims), (int)(PRN_TENSOR_MAX_BYTES >> 30));
    }
    *ret_elements = elements;
    *ret_bytes = bytes;
    return 0;
}

int prn_tensor_allocate(struct prn_tensor *t, size_t bytes, struct prony_error *err)
{
    t->data = bytes ? malloc(bytes) : NULL;
    t->bytes = bytes;
    return bytes && !t->data ? prn_fail_memory(err) : 0;
}

int prn_tensor_allocate_strings(struct prn_tensor *t, size_t elements, size_t characters,
                                struct prony_error *err)
{
    int code = prn_tensor_allocate(t, (elements + 1) * sizeof(uint64_t) + characters, err);
    if (code == 0)
        *(uint64_t *)t->data = 0;
    return code;
}

void prn_tensor_add_string(struct prn_tensor *t, size_t elements, size_t index, const char *text,
                           size_t len)
{
    uint64_t *offsets = t->data;
    char *characters = (char *)(offsets + elements + 1);
    if (len)
        memcpy(characters + offsets[index], text, len);
    offsets[index + 1] = offsets[index] + len;
}

void prn_tensor_clean_bools(struct prn_tensor *t)
{
    uint8_t *bytes = t->data;
    for (size_t i = 0; t->dtype == PRN_DTYPE_BOOL && i < t->bytes; i++)
        bytes[i] = bytes[i] != 0;
}

/* ---- Files ---- */

static int open_file(const char *path, int *ret_fd, size_t *ret_size, struct prony_error *err)
{
    /* Without O_NONBLOCK a pipe would wait here for a writer. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    int code = 0;
    if (fd < 0 || fstat(fd, &status) < 0)
        code = prn_fail_errno(err, errno, "read", path);
    else if (S_ISDIR(status.st_mode))
        code = prn_fail_errno(err, EISDIR, "read", path);
    else if (!S_ISREG(status.st_mode))
        code = prn_tensor_fail(err, PRONY_EFORMAT, path, "it is not a regular file");
    else if ((uint64_t)status.st_size > FILE_MAX_BYTES)
        code = prn_tensor_fail(err, PRONY_ELIMIT, path, "it is over %d GiB",
                               (int)(PRN_TENSOR_MAX_BYTES >> 30));
    if (code < 0) {
        if (fd >= 0)
            close(fd);
        return code;
    }
    *ret_fd = fd;
    *ret_size = (size_t)status.st_size;
    return 0;
}

static int read_exactly(int fd, void *data, size_t len, const char *path, struct prony_error *err)
{
    char *at = data;
    while (len > 0) {
        ssize_t n = read(fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return prn_fail_errno(err, errno, "read", path);
        if (n == 0)
            return prn_tensor_fail(err, PRONY_EIO, path, "it shrank while it was read");
        at += n;
        len -= (size_t)n;
    }
    return 0;
}

static int read_raw(int fd, size_t size, const char *path, const struct prn_input *input,
                    struct prn_tensor *t, struct prony_error *err)
{
    int64_t elements;
    size_t bytes;
    if (input->dtype == PRN_DTYPE_STRING)
        return prn_tensor_fail(err, PRONY_EUNSUPPORTED, path,
                               "raw bytes can't tell strings apart; use .npy or .pb for input '%s'",
                               input->name);
    t->dtype = input->dtype;
    t->rank = input->rank;
    memcpy(t->dims, input->dims, sizeof t->dims);
    int code = prn_tensor_measure(t, path, &elements, &bytes, err);
    if (code < 0)
        return code;
    if (size != bytes) {
        char dims[PRN_RANK_MAX * 21 + 1];
        return prn_tensor_fail(err, PRONY_EFORMAT, path,
                               "it has %zu bytes, but input '%s' (%s %s) takes %zu", size,
                               input->name, prn_dtype_name(input->dtype),
                               prn_dims_text(input->dims, input->rank, dims, sizeof dims), bytes);
    }
    code = prn_tensor_allocate(t, bytes, err);
    if (code == 0)
        code = read_exactly(fd, t->data, bytes, path, err);
    if (code == 0)
        prn_tensor_clean_bools(t);
    return code;
}

static int read_parsed(int fd, size_t size, const char *path, bool npy,
                       const struct prn_input *input, struct prn_tensor *t, struct prony_error *err)
{
    char *file = malloc(size + 1);
    if (!file)
        return prn_fail_memory(err);
    int code = read_exactly(fd, file, size, path, err);
    if (code == 0)
        code = npy ? prn_tensor_parse_npy_as(file, size, path, input->dtype, t, err)
                   : prn_tensor_parse_pb(file, size, path, t, NULL, err);
    free(file);
    return code;
}

/* The input's shape with '?' where the model leaves a dimension open. */
static const char *wanted_text(const struct prn_input *input, char *buffer, size_t size)
{
    size_t used = 0;
    snprintf(buffer, size, "scalar");
    for (size_t i = 0; i < input->rank && used < size; i++)
        used +=
            (size_t)(input->assumed[i] ? snprintf(buffer + used, size - used, "%s?", i ? "x" : "")
                                       : snprintf(buffer + used, size - used, "%s%lld",
                                                  i ? "x" : "", (long long)input->dims[i]));
    return buffer;
}

/* NumPy has no bfloat16: files that come from it hold the bits as uint16. */
static void take_bits(struct prn_tensor *t, const struct prn_input *input)
{
    if (t->dtype == PRN_DTYPE_UINT16 && input->dtype == PRN_DTYPE_BFLOAT16)
        t->dtype = PRN_DTYPE_BFLOAT16;
}

static int check_fit(const struct prn_tensor *t, const struct prn_input *input, const char *path,
                     struct prony_error *err)
{
    if (t->dtype != input->dtype) {
        char held[32];
        snprintf(held, sizeof held, "%s", prn_dtype_name(t->dtype));
        return prn_fail(err, PRONY_EFORMAT, "cannot use '%s': it holds %s, but input '%s' takes %s",
                        path, held, input->name, prn_dtype_name(input->dtype));
    }
    bool fits = t->rank == input->rank;
    for (size_t i = 0; fits && i < t->rank; i++)
        fits = t->dims[i] == input->dims[i] || input->assumed[i];
    if (fits)
        return 0;
    char held[PRN_RANK_MAX * 21 + 1];
    char wanted[PRN_RANK_MAX * 21 + 1];
    return prn_fail(err, PRONY_EFORMAT, "cannot use '%s': its shape is %s, but input '%s' takes %s",
                    path, prn_dims_text(t->dims, t->rank, held, sizeof held), input->name,
                    wanted_text(input, wanted, sizeof wanted));
}

int prn_tensor_read(const char *path, const struct prn_input *input, struct prn_tensor *ret_tensor,
                    struct prony_error *err)
{
    const char *dot = strrchr(path, '.');
    const char *ending = dot && !strchr(dot, '/') ? dot : "";
    bool npy = strcmp(ending, ".npy") == 0;
    bool raw = strcmp(ending, ".raw") == 0;
    if (!npy && !raw && strcmp(ending, ".pb") != 0)
        return prn_fail(err, PRONY_EUSAGE, "cannot use '%s': it ends in neither .npy, .pb nor .raw",
                        path);
    int fd;
    size_t size;
    int code = open_file(path, &fd, &size, err);
    if (code < 0)
        return code;
    struct prn_tensor t = {0};
    code = raw ? read_raw(fd, size, path, input, &t, err)
               : read_parsed(fd, size, path, npy, input, &t, err);
    close(fd);
    if (code == 0) {
        take_bits(&t, input);
        code = check_fit(&t, input, path, err);
    }
    if (code < 0)
        prn_tensor_release(&t);
    else
        *ret_tensor = t;
    return code;
}
