#include "worker/files.h"

#include "base/io.h"
#include "base/text.h"
#include "exec/scratch.h"
#include "rpc/messages.h"
#include "rpc/relay.h"
#include "instance/names.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define SHA256_BYTES 32
#define BLOBS "blobs"
#define BLOB_NAME_SIZE (2 * SHA256_BYTES + 1)
#define PARTIAL "partial" /* what is being fetched */
#define FETCH_METHOD "/prony.Workers/Fetch"
#define SILENCE_S 60   /* after which a service that sends nothing is given up */
#define PATIENCE_S 0.2 /* of one wait, between looks at whether it was cancelled */

struct prn_worker_files {
    struct prn_channel *channel;
    const volatile int *cancelled;
    struct prn_scratch scratch; /* gone with the session, and with the worker, however that ends */
    bool opened;
    char folder[PATH_MAX]; /* the same without symbolic links */
    int folder_fd, blobs_fd;
};

const char *prn_worker_files_folder(const struct prn_worker_files *files)
{
    return files->folder;
}

static int make_folders(struct prn_worker_files *f, struct prony_error *err)
{
    struct prony_error where; /* which is nobody's business */
    int code = prn_scratch_open(NULL, &f->scratch, &where);
    if (code < 0)
        return prn_fail(err, code, "cannot make a folder for files: %s", prony_error_text(code));
    f->opened = true;
    /* The executor's rules are about the real place. */
    if (!realpath(f->scratch.folder, f->folder))
        return prn_fail(err, PRONY_EIO, "cannot make a folder for files: %s", strerror(errno));
    f->folder_fd = open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (f->folder_fd < 0)
        return prn_fail(err, PRONY_EIO, "cannot open a folder for files: %s", strerror(errno));
    return prn_folder_make(f->folder_fd, BLOBS, &f->blobs_fd, err);
}

int prn_worker_files_new(struct prn_channel *channel, const volatile int *cancelled,
                         struct prn_worker_files **ret_files, struct prony_error *err)
{
    struct prn_worker_files *f = calloc(1, sizeof *f);
    if (!f)
        return prn_fail_memory(err);
    f->channel = channel;
    f->cancelled = cancelled;
    f->folder_fd = f->blobs_fd = -1;
    int code = make_folders(f, err);
    if (code < 0)
        prn_worker_files_free(f);
    else
        *ret_files = f;
    return code;
}

void prn_worker_files_free(struct prn_worker_files *f)
{
    if (!f)
        return;
    if (f->blobs_fd >= 0)
        close(f->blobs_fd);
    if (f->folder_fd >= 0)
        close(f->folder_fd);
    if (f->opened)
        prn_scratch_close(&f->scratch);
    free(f);
}

/* ---- Fetching ---- */

struct fetch {
    const Prony__ModelFile *file;
    EVP_MD_CTX *hash;
    int fd;
    uint64_t bytes;
};

/* Adds a FetchChunk. The pieces go from where they came to the disk. */
static int add_chunk(struct fetch *fetch, const struct prn_bytes *message, struct prony_error *err)
{
    struct prn_range chunk;
    int code = prn_relay_read_chunk(message, &chunk, err);
    if (code < 0)
        return code;
    if (chunk.length > fetch->file->bytes - fetch->bytes)
        return prn_fail(err, PRONY_EFORMAT, "the file '%s' is longer than was said",
                        fetch->file->name);
    fetch->bytes += chunk.length;
    const void *data;
    size_t length;
    while (prn_bytes_next(message, &chunk, &data, &length)) {
        if (EVP_DigestUpdate(fetch->hash, data, length) != 1)
            return prn_fail_memory(err);
        if (prn_write_all(fetch->fd, data, length) < 0)
            return prn_fail_errno(err, errno, "write", fetch->file->name);
    }
    return 0;
}

static int receive_all(struct prn_worker_files *f, struct prn_stream *stream, struct fetch *fetch,
                       struct prony_error *err)
{
    double silent_s = 0;
    for (;;) {
        struct prn_bytes *message = NULL;
        if (__atomic_load_n(f->cancelled, __ATOMIC_RELAXED))
            return prn_fail(err, PRONY_ECANCELED, "interrupted while fetching files");
        int code = prn_stream_receive(stream, PATIENCE_S, &message, err);
        if (code == PRONY_ETIMEDOUT && (silent_s += PATIENCE_S) < SILENCE_S)
            continue;
        if (code < 0 || !message)
            return code;
        silent_s = 0;
        code = add_chunk(fetch, message, err);
        prn_bytes_free(message);
        if (code < 0)
            return code;
    }
}

static int check_fetched(const struct fetch *fetch, struct prony_error *err)
{
    uint8_t hash[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (EVP_DigestFinal_ex(fetch->hash, hash, &length) != 1)
        return prn_fail_memory(err);
    if (fetch->bytes != fetch->file->bytes)
        return prn_fail(err, PRONY_EFORMAT, "the file '%s' is shorter than was said",
                        fetch->file->name);
    if (length != SHA256_BYTES || memcmp(hash, fetch->file->sha256.data, SHA256_BYTES) != 0)
        return prn_fail(err, PRONY_EFORMAT, "the file '%s' came with another hash than was said",
                        fetch->file->name);
    return 0;
}

static int transfer(struct prn_worker_files *f, struct fetch *fetch, struct prony_error *err)
{
    Prony__FetchRequest request = PRONY__FETCH_REQUEST__INIT;
    request.sha256 = fetch->file->sha256;
    struct prn_stream *stream;
    int code = prn_stream_open(f->channel, FETCH_METHOD, 0, &stream, err);
    if (code < 0)
        return code;
    code = prn_stream_send(stream, prn_rpc_pack(&request.base), SILENCE_S, err);
    if (code == 0)
        code = prn_stream_end(stream, err);
    if (code == 0)
        code = receive_all(f, stream, fetch, err);
    prn_stream_free(stream);
    return code < 0 ? code : check_fetched(fetch, err);
}

/* Leaves the file in the folder of blobs, under `name`, or nothing. */
static int fetch_blob(struct prn_worker_files *f, const Prony__ModelFile *file, const char *name,
                      struct prony_error *err)
{
    struct statvfs disk;
    if (fstatvfs(f->blobs_fd, &disk) == 0 && file->bytes / disk.f_frsize >= disk.f_bavail)
        return prn_fail(err, PRONY_ELIMIT, "the worker has no room for '%s'", file->name);
    struct fetch fetch = {.file = file, .hash = EVP_MD_CTX_new()};
    fetch.fd =
        openat(f->blobs_fd, PARTIAL, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0400);
    int code = 0;
    if (fetch.fd < 0)
        code = prn_fail_errno(err, errno, "write", file->name);
    else if (!fetch.hash || EVP_DigestInit_ex(fetch.hash, EVP_sha256(), NULL) != 1)
        code = prn_fail_memory(err);
    else
        code = transfer(f, &fetch, err);
    EVP_MD_CTX_free(fetch.hash);
    if (fetch.fd >= 0)
        close(fetch.fd);
    if (code == 0 && renameat(f->blobs_fd, PARTIAL, f->blobs_fd, name) < 0)
        code = prn_fail_errno(err, errno, "keep", file->name);
    if (code < 0)
        unlinkat(f->blobs_fd, PARTIAL, 0);
    return code;
}

/* ---- Placing ---- */

static void name_blob(const Prony__ModelFile *file, char name[BLOB_NAME_SIZE])
{
    prn_text_hex(file->sha256.data, SHA256_BYTES, name);
}

/* Across file systems there are no links. */
static int copy_file(const char *from, int folder_fd, const char *last, struct prony_error *err)
{
    int in = open(from, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    int out = in < 0 ? -1 : openat(folder_fd, last, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
    ssize_t n = out < 0 ? -1 : 1;
    while (n > 0)
        n = sendfile(out, in, NULL, (size_t)1 << 30);
    int code = n < 0 ? prn_fail_errno(err, errno, "copy", last) : 0;
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    return code;
}

static int link_file(struct prn_worker_files *f, const Prony__ModelFile *file, bool local,
                     int folder_fd, const char *last, struct prony_error *err)
{
    char blob[BLOB_NAME_SIZE];
    if (local && file->path) {
        if (linkat(AT_FDCWD, file->path, folder_fd, last, 0) == 0)
            return 0;
        return errno == EEXIST
                   ? prn_fail(err, PRONY_EUSAGE, "two files are called '%s'", file->name)
                   : copy_file(file->path, folder_fd, last, err);
    }
    name_blob(file, blob);
    if (faccessat(f->blobs_fd, blob, F_OK, 0) < 0) {
        int code = fetch_blob(f, file, blob, err);
        if (code < 0)
            return code;
    }
    if (linkat(f->blobs_fd, blob, folder_fd, last, 0) < 0)
        return errno == EEXIST
                   ? prn_fail(err, PRONY_EUSAGE, "two files are called '%s'", file->name)
                   : prn_fail_errno(err, errno, "place", file->name);
    return 0;
}

static int place_file(struct prn_worker_files *f, const Prony__ModelFile *file, bool local,
                      int folder_fd, struct prony_error *err)
{
    const char *last;
    int fd;
    if (file->sha256.len != SHA256_BYTES)
        return prn_fail(err, PRONY_EFORMAT, "a hash has %zu bytes instead of %d", file->sha256.len,
                        SHA256_BYTES);
    int code = prn_name_folder(folder_fd, file->name, &fd, &last, err);
    if (code < 0)
        return code;
    code = link_file(f, file, local, fd, last, err);
    close(fd);
    return code;
}

int prn_worker_files_place(struct prn_worker_files *f, const char *name,
                           Prony__ModelFile *const *list, size_t n, bool local,
                           char ret_path[PATH_MAX], struct prony_error *err)
{
    int fd;
    if (n == 0 || n > PRN_WORKER_FILES_MAX)
        return prn_fail(err, PRONY_EUSAGE, "a model has between 1 and %d files, not %zu",
                        PRN_WORKER_FILES_MAX, n);
    if (snprintf(ret_path, PATH_MAX, "%s/%s", f->folder, name) >= PATH_MAX)
        return prn_fail_errno(err, ENAMETOOLONG, "make", name);
    int code = prn_folder_remove(f->folder_fd, name, err);
    if (code == 0)
        code = prn_folder_make(f->folder_fd, name, &fd, err);
    if (code < 0)
        return code;
    for (size_t i = 0; code == 0 && i < n; i++)
        code = place_file(f, list[i], local, fd, err);
    close(fd);
    if (code < 0) {
        int ignored = prn_folder_remove(f->folder_fd, name, NULL);
        (void)ignored;
    }
    return code;
}
