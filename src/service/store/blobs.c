/*
 * All blobs are in memory, in a hash table; those that nobody refers to also stand in a list in the
 * order of their last use. One lock guards both, and under it files are only renamed, never read,
 * written or removed: a blob that is evicted gets a temporary name there, and is removed later, so
 * that an upload of the same bytes can't lose its file to the eviction of the old one.
 *
 * Large uploads go around the page cache, whose fresh pages cost more than the hash does: they are
 * hashed and copied into a few buffers, which are used again and again, and two threads write full
 * ones to the disk meanwhile. Small uploads, and those for which no buffers are left, are written
 * as any file; both end in the same fsync.
 */
#include "service/store/blobs.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/text.h"
#include "instance/names.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER "blobs"
#define TEMPORARY "tmp-"
#define NAME_LENGTH (2 * PRN_SHA256_BYTES)

/* Pieces of one system call. */
#define PIECES_MAX 64
/* An upload whose first chunk is smaller is a small one. */
#define DIRECT_MIN (256 << 10)
/* What a large one has: while one buffer is filled, two can be on their way. */
#define BUFFERS 3
#define BUFFER_BYTES (2 << 20)
#define ALIGNMENT 4096
/* Uploads that can have buffers at the same time, and threads that write them. */
#define SLABS 4
#define THREADS 2
/* So much of another is written before the kernel is asked to put it on the disk. */
#define WRITEBACK_BYTES (8 << 20)

struct prn_blob {
    struct prn_blobs *blobs;
    struct prn_blob *next;          /* of the same bucket */
    struct prn_blob *older, *newer; /* in the list of those that nobody refers to */
    uint8_t sha256[PRN_SHA256_BYTES];
    uint64_t bytes;
    size_t refs;
    int64_t used_ms;
    bool dirty;   /* `used_ms` isn't saved yet */
    bool listed;  /* in the table */
    bool checked; /* the file is known to be right */
    const char *name;
    char path[]; /* ends in the name */
};

/* A part of an upload, being filled or on its way to the disk. */
struct buffer {
    struct buffer *next; /* in the queue */
    struct prn_blob_writer *writer;
    char *data;
    size_t used;
    uint64_t offset;
    bool busy; /* belongs to the threads */
};

enum { SAVE, FORGET, USED, N_STATEMENTS };

static const char *const sql[N_STATEMENTS] = {
    [SAVE] = "INSERT OR REPLACE INTO blobs (sha256, bytes, used_ms) VALUES (?, ?, ?)",
    [FORGET] = "DELETE FROM blobs WHERE sha256 = ?",
    [USED] = "UPDATE blobs SET used_ms = ?2 WHERE sha256 = ?1",
};

PRN_LOCK(table);
PRN_LOCK(database);
PRN_LOCK(line);

struct prn_blobs {
    pthread_mutex_t lock;
    int folder_fd;
    char folder[PATH_MAX];
    uint64_t seed;
    unsigned bits; /* 2^bits buckets */
    struct prn_blob **buckets PRN_GUARDED(table);
    struct prn_blob *oldest PRN_GUARDED(table), *newest PRN_GUARDED(table);
    struct prn_blobs_stats stats PRN_GUARDED(table);
    uint64_t temporaries PRN_GUARDED(table); /* made so far */

    pthread_mutex_t db_lock; /* never taken with `lock` held, nor the other way round */
    sqlite3 *db PRN_GUARDED(database);
    sqlite3_stmt *statements[N_STATEMENTS] PRN_GUARDED(database);

    pthread_mutex_t queue_lock; /* of all below, and of what is busy */
    pthread_cond_t given, done;
    struct buffer *first PRN_GUARDED(line), **last PRN_GUARDED(line);
    struct {
        char *memory; /* NULL: not needed so far */
        bool taken;
    } slabs[SLABS];
    bool stop PRN_GUARDED(line);
    size_t n_threads;
    pthread_t threads[THREADS];
};

PRN_LOCK_FUNCTIONS(table, struct prn_blobs, lock)
PRN_LOCK_FUNCTIONS(database, struct prn_blobs, db_lock)
PRN_LOCK_FUNCTIONS(line, struct prn_blobs, queue_lock)

struct prn_blob_writer {
    struct prn_blobs *blobs;
    int fd;
    char name[32];
    uint64_t bytes;   /* accepted */
    uint64_t started; /* of those: on their way to the disk */
    EVP_MD_CTX *hash;
    int slab;             /* -1: none */
    struct buffer *fills; /* one of the buffers */
    struct buffer buffers[BUFFERS];
    int error; /* of the threads, an errno */
};

/* Files that lost their name, to be removed without the lock. */
struct doomed {
    char name[32];
    uint8_t sha256[PRN_SHA256_BYTES];
};

static size_t bucket_of(const struct prn_blobs *b, const uint8_t *sha256)
{
    /* The seed keeps uploaders from choosing collisions. */
    uint64_t start;
    memcpy(&start, sha256, sizeof start);
    return (size_t)(((start ^ b->seed) * (b->seed | 1)) >> (64 - b->bits));
}

static struct prn_blob *lookup_locked(const struct prn_blobs *b, const uint8_t *sha256)
    PRN_HOLDS(table)
{
    struct prn_blob *blob = b->buckets[bucket_of(b, sha256)];
    while (blob && memcmp(blob->sha256, sha256, PRN_SHA256_BYTES) != 0)
        blob = blob->next;
    return blob;
}

static void grow_table_locked(struct prn_blobs *b) PRN_HOLDS(table)
{
    struct prn_blob **old = b->buckets;
    size_t n = (size_t)1 << b->bits;
    struct prn_blob **buckets = calloc(2 * n, sizeof(struct prn_blob *));
    if (!buckets)
        return; /* longer chains will do */
    b->buckets = buckets;
    b->bits++;
    for (size_t i = 0; i < n; i++) {
        for (struct prn_blob *blob = old[i], *next; blob; blob = next) {
            next = blob->next;
            size_t to = bucket_of(b, blob->sha256);
            blob->next = buckets[to];
            buckets[to] = blob;
        }
    }
    free(old);
}

static void table_add_locked(struct prn_blobs *b, struct prn_blob *blob) PRN_HOLDS(table)
{
    if (b->stats.blobs >= (uint64_t)1 << b->bits)
        grow_table_locked(b);
    size_t i = bucket_of(b, blob->sha256);
    blob->next = b->buckets[i];
    b->buckets[i] = blob;
    blob->listed = true;
    b->stats.blobs++;
    b->stats.bytes += blob->bytes;
}

static void table_remove_locked(struct prn_blobs *b, struct prn_blob *blob) PRN_HOLDS(table)
{
    struct prn_blob **at = &b->buckets[bucket_of(b, blob->sha256)];
    while (*at != blob)
        at = &(*at)->next;
    *at = blob->next;
    blob->listed = false;
    b->stats.blobs--;
    b->stats.bytes -= blob->bytes;
}

static void list_add_locked(struct prn_blobs *b, struct prn_blob *blob) PRN_HOLDS(table)
{
    blob->older = b->newest;
    blob->newer = NULL;
    *(b->newest ? &b->newest->newer : &b->oldest) = blob;
    b->newest = blob;
}

static void list_remove(struct prn_blobs *b, struct prn_blob *blob)
{
    *(blob->older ? &blob->older->newer : &b->oldest) = blob->newer;
    *(blob->newer ? &blob->newer->older : &b->newest) = blob->older;
}

static struct prn_blob *pin_locked(struct prn_blob *blob) PRN_HOLDS(table)
{
    struct prn_blobs *b = blob->blobs;
    if (blob->refs++ == 0) {
        list_remove(b, blob);
        b->stats.pinned_bytes += blob->bytes;
    }
    blob->used_ms = prn_wall_clock_ms();
    blob->dirty = true;
    return blob;
}

static struct prn_blob *blob_new(struct prn_blobs *b, const uint8_t *sha256, uint64_t bytes)
{
    size_t start = strlen(b->folder) + 1;
    struct prn_blob *blob = calloc(1, sizeof *blob + start + NAME_LENGTH + 1);
    if (!blob)
        return NULL;
    blob->blobs = b;
    blob->bytes = bytes;
    memcpy(blob->sha256, sha256, PRN_SHA256_BYTES);
    snprintf(blob->path, start + 1, "%s/", b->folder);
    prn_text_hex(sha256, PRN_SHA256_BYTES, blob->path + start);
    blob->name = blob->path + start;
    return blob;
}

static void temporary_name(struct prn_blobs *b, char name[32])
{
    snprintf(name, 32, TEMPORARY "%llu",
             (unsigned long long)__atomic_fetch_add(&b->temporaries, 1, __ATOMIC_RELAXED));
}

/* Takes the blob out of everything but the hands that hold it. */
static void doom_locked(struct prn_blobs *b, struct prn_blob *blob, struct doomed *ret_doomed)
    PRN_HOLDS(table)
{
    temporary_name(b, ret_doomed->name);
    memcpy(ret_doomed->sha256, blob->sha256, PRN_SHA256_BYTES);
    /* Should it fail, then the file is gone already, or is adopted at the next start. */
    renameat(b->folder_fd, blob->name, b->folder_fd, ret_doomed->name);
    table_remove_locked(b, blob);
}

static void bury(struct prn_blobs *b, const struct doomed *doomed)
{
    unlinkat(b->folder_fd, doomed->name, 0);
    database_lock(b);
    sqlite3_bind_blob(b->statements[FORGET], 1, doomed->sha256, PRN_SHA256_BYTES, SQLITE_STATIC);
    /* A row that stays is dropped at the next start. */
    int code = prn_db_run(b->db, b->statements[FORGET], NULL);
    (void)code;
    database_unlock(b);
}

/* Evicts the blob that nobody has used for the longest time, if there is one and, unless `always`,
 * if `room` more bytes don't fit under the limit. Gives the lock up meanwhile. */
static bool evict_locked(struct prn_blobs *b, uint64_t room, bool always) PRN_HOLDS(table)
{
    struct prn_blob *blob = b->oldest;
    uint64_t used = b->stats.bytes + b->stats.writing_bytes;
    bool fits = used <= b->stats.limit_bytes && room <= b->stats.limit_bytes - used;
    if (!blob || (fits && !always))
        return false;
    struct doomed doomed;
    list_remove(b, blob);
    doom_locked(b, blob, &doomed);
    b->stats.evictions++;
    table_unlock(b);
    bury(b, &doomed);
    free(blob);
    table_lock(b);
    return true;
}

struct prn_blob *prn_blob_ref(struct prn_blob *blob)
{
    table_lock(blob->blobs);
    pin_locked(blob);
    table_unlock(blob->blobs);
    return blob;
}

void prn_blob_release(struct prn_blob *blob)
{
    if (!blob)
        return;
    struct prn_blobs *b = blob->blobs;
    table_lock(b);
    bool last = --blob->refs == 0;
    bool unlisted = last && !blob->listed;
    if (last && blob->listed) {
        b->stats.pinned_bytes -= blob->bytes;
        blob->used_ms = prn_wall_clock_ms();
        blob->dirty = true;
        list_add_locked(b, blob);
        while (evict_locked(b, 0, false)) {
        }
    }
    table_unlock(b);
    if (unlisted)
        free(blob);
}

const uint8_t *prn_blob_sha256(const struct prn_blob *blob)
{
    return blob->sha256;
}

uint64_t prn_blob_bytes(const struct prn_blob *blob)
{
    return blob->bytes;
}

const char *prn_blob_path(const struct prn_blob *blob)
{
    return blob->path;
}

int prn_blob_open(const struct prn_blob *blob, int *ret_fd, struct prony_error *err)
{
    int fd = openat(blob->blobs->folder_fd, blob->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return prn_fail_errno(err, errno, "open blob", blob->name);
    *ret_fd = fd;
    return 0;
}

/* Hashes a file; 0 or an errno. */
static int hash_file(int folder_fd, const char *name, uint8_t ret_hash[PRN_SHA256_BYTES])
{
    enum { SIZE = 256 << 10 };
    int fd = openat(folder_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno;
    char *buffer = malloc(SIZE);
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    int error = buffer && hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) == 1 ? 0 : ENOMEM;
    ssize_t n = 1;
    while (!error && n != 0) {
        n = read(fd, buffer, SIZE);
        if (n > 0)
            EVP_DigestUpdate(hash, buffer, (size_t)n);
        else if (n < 0 && errno != EINTR)
            error = errno;
    }
    if (!error)
        EVP_DigestFinal_ex(hash, ret_hash, NULL);
    EVP_MD_CTX_free(hash);
    free(buffer);
    close(fd);
    return error;
}

static void save(struct prn_blobs *b, const struct prn_blob *blob)
{
    database_lock(b);
    sqlite3_stmt *s = b->statements[SAVE];
    sqlite3_bind_blob(s, 1, blob->sha256, PRN_SHA256_BYTES, SQLITE_STATIC);
    sqlite3_bind_int64(s, 2, (int64_t)blob->bytes);
    sqlite3_bind_int64(s, 3, prn_wall_clock_ms());
    /* A file without a row is adopted at the next start. */
    int code = prn_db_run(b->db, s, NULL);
    (void)code;
    database_unlock(b);
}

/* A file that nothing tells of is hashed before its first use; a wrong one is dropped. The caller
 * has a reference, which is lost with a failure. */
static int check_adopted(struct prn_blob *blob, struct prony_error *err)
{
    struct prn_blobs *b = blob->blobs;
    uint8_t hash[PRN_SHA256_BYTES];
    int error = hash_file(b->folder_fd, blob->name, hash);
    bool right = !error && memcmp(hash, blob->sha256, PRN_SHA256_BYTES) == 0;
    struct doomed doomed;
    bool drop = false;
    table_lock(b);
    if (right || blob->checked) /* or an upload has replaced it meanwhile */
        right = blob->checked = true;
    else if ((drop = !error && blob->listed)) {
        b->stats.pinned_bytes -= blob->bytes;
        doom_locked(b, blob, &doomed);
    }
    table_unlock(b);
    if (drop)
        bury(b, &doomed);
    if (right) {
        save(b, blob);
        return 0;
    }
    prn_blob_release(blob);
    if (error)
        return prn_fail(err, error == ENOMEM ? PRONY_ENOMEM : PRONY_EIO,
                        "cannot read a blob of the cache: %s", strerror(error));
    return prn_fail(err, PRONY_ENOENT, "no such blob");
}

int prn_blobs_find(struct prn_blobs *blobs, const uint8_t sha256[PRN_SHA256_BYTES],
                   struct prn_blob **ret_blob, struct prony_error *err)
{
    table_lock(blobs);
    struct prn_blob *blob = lookup_locked(blobs, sha256);
    bool checked = blob && pin_locked(blob)->checked;
    blobs->stats.hits += blob != NULL;
    blobs->stats.misses += blob == NULL;
    table_unlock(blobs);
    if (!blob)
        return prn_fail(err, PRONY_ENOENT, "no such blob");
    int code = checked ? 0 : check_adopted(blob, err);
    if (code == 0)
        *ret_blob = blob;
    return code;
}

static int copy_file(int from, int to, uint64_t bytes)
{
    if (ioctl(to, FICLONE, from) == 0)
        return 0;
    off_t offset = 0;
    while ((uint64_t)offset < bytes) {
        ssize_t n = sendfile(to, from, &offset, bytes - (uint64_t)offset);
        if (n < 0 && errno != EINTR)
            return -1;
        if (n == 0) {
            errno = EIO;
            return -1;
        }
    }
    return 0;
}

/* 0, or -1 with errno, and then there is nothing. */
static int copy_to(const struct prn_blob *blob, int folder_fd, const char *name)
{
    int from = openat(blob->blobs->folder_fd, blob->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (from < 0)
        return -1;
    int to = openat(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0400);
    int result = to < 0 ? -1 : copy_file(from, to, blob->bytes);
    int error = errno;
    if (to >= 0 && close(to) < 0 && result == 0) {
        result = -1;
        error = errno;
    }
    if (to >= 0 && result < 0)
        unlinkat(folder_fd, name, 0);
    close(from);
    errno = error;
    return result;
}

/* What goes wrong with files is told without their paths; a full disk is a limit. */
static int fail_store(struct prony_error *err, int error, const char *what)
{
    if (error == ENOMEM)
        return prn_fail_memory(err);
    bool full = error == ENOSPC || error == EDQUOT;
    return prn_fail(err, full || error == EFBIG ? PRONY_ELIMIT : PRONY_EIO, "cannot store %s: %s",
                    what, full ? "the disk of the service is full" : strerror(error));
}

int prn_blob_link(const struct prn_blob *blob, int folder_fd, const char *name,
                  struct prony_error *err)
{
    int fd = -1;
    const char *last = NULL;
    int code = prn_name_folder(folder_fd, name, &fd, &last, err);
    if (code < 0)
        return code;
    int result = linkat(blob->blobs->folder_fd, blob->name, fd, last, 0);
    /* Another file system, one without links, or too many of them. */
    if (result < 0 && errno != EEXIST && errno != ENOENT)
        result = copy_to(blob, fd, last);
    int error = errno;
    close(fd);
    if (result == 0)
        return 0;
    if (error == EEXIST)
        return prn_fail(err, PRONY_EUSAGE, "there is a file '%s' already", name);
    return fail_store(err, error, "a file of the model");
}

int prn_blob_writer_new(struct prn_blobs *blobs, struct prn_blob_writer **ret_writer,
                        struct prony_error *err)
{
    struct prn_blob_writer *w = calloc(1, sizeof *w);
    if (!w)
        return prn_fail_memory(err);
    w->blobs = blobs;
    w->slab = -1;
    w->hash = EVP_MD_CTX_new();
    temporary_name(blobs, w->name);
    w->fd = openat(blobs->folder_fd, w->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                   0400);
    int code = 0;
    if (w->fd < 0)
        code = fail_store(err, errno, "an upload");
    else if (!w->hash || EVP_DigestInit_ex(w->hash, EVP_sha256(), NULL) != 1)
        code = prn_fail_memory(err);
    if (code < 0)
        prn_blob_writer_abort(w);
    else
        *ret_writer = w;
    return code;
}

/* Waits until the threads have nothing of the upload; 0 or the first errno. */
static int blobs_drain(struct prn_blob_writer *w)
{
    line_lock(w->blobs);
    for (size_t i = 0; i < BUFFERS; i++)
        while (w->buffers[i].busy)
            pthread_cond_wait(&w->blobs->done, &w->blobs->queue_lock);
    int error = w->error;
    line_unlock(w->blobs);
    return error;
}

static void writer_free(struct prn_blob_writer *w)
{
    if (w->slab >= 0) {
        int error = blobs_drain(w);
        (void)error; /* the upload has failed or ended already */
        line_lock(w->blobs);
        w->blobs->slabs[w->slab].taken = false;
        line_unlock(w->blobs);
    }
    if (w->fd >= 0)
        close(w->fd);
    EVP_MD_CTX_free(w->hash);
    free(w);
}

/* Gives back the room that the upload took. */
static void give_back(struct prn_blobs *b, uint64_t bytes)
{
    table_lock(b);
    b->stats.writing_bytes -= bytes;
    table_unlock(b);
}

void prn_blob_writer_abort(struct prn_blob_writer *writer)
{
    if (!writer)
        return;
    if (writer->fd >= 0)
        unlinkat(writer->blobs->folder_fd, writer->name, 0);
    give_back(writer->blobs, writer->bytes);
    writer_free(writer);
}

uint64_t prn_blob_writer_bytes(const struct prn_blob_writer *writer)
{
    return writer->bytes;
}

/* Drops written bytes from the front of the pieces. */
static void advance(struct iovec **pieces, size_t *n, size_t written)
{
    while (*n > 0 && written >= (*pieces)->iov_len) {
        written -= (*pieces)->iov_len;
        (*pieces)++;
        (*n)--;
    }
    if (*n > 0) {
        (*pieces)->iov_base = (char *)(*pieces)->iov_base + written;
        (*pieces)->iov_len -= written;
    }
}

static void write_plainly_from_now(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags & ~O_DIRECT);
}

/* Writes some pieces at an offset, which moves on; 0 or an errno. A full disk is met by evicting
 * blobs, as long as there are any to evict. */
static int write_some(struct prn_blob_writer *w, struct iovec *pieces, size_t n, uint64_t *offset)
{
    advance(&pieces, &n, 0);
    while (n > 0) {
        ssize_t written = pwritev(w->fd, pieces, (int)n, (off_t)*offset);
        if (written >= 0) {
            *offset += (uint64_t)written;
            advance(&pieces, &n, (size_t)written);
            continue;
        }
        int error = errno;
        bool again = error == EINTR;
        if (error == ENOSPC || error == EDQUOT) {
            table_lock(w->blobs);
            again = evict_locked(w->blobs, 0, true);
            table_unlock(w->blobs);
        } else if (error == EINVAL && (fcntl(w->fd, F_GETFL) & O_DIRECT)) {
            /* A file system with a finer idea of alignment; or what a short write has left. */
            write_plainly_from_now(w->fd);
            again = true;
        }
        if (!again)
            return error;
    }
    return 0;
}

static int write_pieces(struct prn_blob_writer *w, const struct iovec *pieces, size_t n)
{
    uint64_t offset = w->bytes;
    int error = 0;
    while (!error && n > 0) {
        struct iovec some[PIECES_MAX];
        size_t k = n < PIECES_MAX ? n : PIECES_MAX;
        memcpy(some, pieces, k * sizeof *some);
        error = write_some(w, some, k, &offset);
        pieces += k;
        n -= k;
    }
    if (offset - w->started >= WRITEBACK_BYTES) {
        /* Only a beginning; what fails here fails again where it is looked at. */
        sync_file_range(w->fd, (off_t)w->started, (off_t)(offset - w->started),
                        SYNC_FILE_RANGE_WRITE);
        w->started = offset;
    }
    return error;
}

static void hash_pieces(struct prn_blob_writer *w, const struct iovec *pieces, size_t n)
{
    for (size_t i = 0; i < n; i++)
        EVP_DigestUpdate(w->hash, pieces[i].iov_base, pieces[i].iov_len);
}

static void *write_buffers(void *context)
{
    struct prn_blobs *b = context;
    line_lock(b);
    while (!b->stop) {
        struct buffer *buffer = b->first;
        if (!buffer) {
            pthread_cond_wait(&b->given, &b->queue_lock);
            continue;
        }
        b->first = buffer->next;
        if (!b->first)
            b->last = &b->first;
        line_unlock(b);
        struct iovec piece = {buffer->data, buffer->used};
        uint64_t offset = buffer->offset;
        int error = write_some(buffer->writer, &piece, 1, &offset);
        line_lock(b);
        if (error && !buffer->writer->error)
            buffer->writer->error = error;
        buffer->busy = false;
        pthread_cond_broadcast(&b->done);
    }
    line_unlock(b);
    return NULL;
}

/* Gives the upload its buffers, if there are any left and the file can be written around the page
 * cache. */
static void take_buffers(struct prn_blob_writer *w)
{
    struct prn_blobs *b = w->blobs;
    int flags = fcntl(w->fd, F_GETFL);
    if (fcntl(w->fd, F_SETFL, flags | O_DIRECT) < 0)
        return;
    line_lock(b);
    for (int i = 0; w->slab < 0 && b->n_threads > 0 && i < SLABS; i++) {
        if (!b->slabs[i].memory)
            b->slabs[i].memory = aligned_alloc(ALIGNMENT, (size_t)BUFFERS * BUFFER_BYTES);
        if (!b->slabs[i].memory || b->slabs[i].taken)
            continue;
        b->slabs[i].taken = true;
        w->slab = i;
    }
    line_unlock(b);
    if (w->slab < 0) {
        write_plainly_from_now(w->fd);
        return;
    }
    for (size_t i = 0; i < BUFFERS; i++)
        w->buffers[i] =
            (struct buffer){.writer = w, .data = b->slabs[w->slab].memory + i * BUFFER_BYTES};
    w->fills = &w->buffers[0];
}

/* Hands a full buffer to the threads and waits until the next is empty; 0 or an errno. */
static int change_buffer(struct prn_blob_writer *w)
{
    struct prn_blobs *b = w->blobs;
    struct buffer *full = w->fills;
    struct buffer *next = full + 1 < w->buffers + BUFFERS ? full + 1 : w->buffers;
    line_lock(b);
    full->busy = true;
    full->next = NULL;
    *b->last = full;
    b->last = &full->next;
    pthread_cond_signal(&b->given);
    while (next->busy)
        pthread_cond_wait(&b->done, &b->queue_lock);
    int error = w->error;
    line_unlock(b);
    next->offset = full->offset + full->used;
    next->used = 0;
    w->fills = next;
    return error;
}

/* Hashes and copies, piece by piece, so that the copy finds in the processor's cache what the hash
 * has read. 0 or an errno. */
static int fill_buffers(struct prn_blob_writer *w, const struct iovec *pieces, size_t n)
{
    int error = 0;
    for (size_t i = 0; i < n; i++) {
        const char *data = pieces[i].iov_base;
        size_t left = pieces[i].iov_len;
        while (left > 0 && !error) {
            struct buffer *buffer = w->fills;
            size_t room = BUFFER_BYTES - buffer->used;
            size_t part = left < room ? left : room;
            EVP_DigestUpdate(w->hash, data, part);
            memcpy(buffer->data + buffer->used, data, part);
            buffer->used += part;
            data += part;
            left -= part;
            if (buffer->used == BUFFER_BYTES)
                error = change_buffer(w);
        }
    }
    return error;
}

/* Puts the rest of the upload on the disk; 0 or an errno. */
static int sync_upload(struct prn_blob_writer *w)
{
    int error = w->slab >= 0 ? blobs_drain(w) : 0;
    if (!error && w->slab >= 0 && w->fills->used > 0) {
        /* The end has any length, and only whole blocks can go around the page cache. */
        struct iovec piece = {w->fills->data, w->fills->used};
        uint64_t offset = w->fills->offset;
        write_plainly_from_now(w->fd);
        error = write_some(w, &piece, 1, &offset);
    }
    return error ? error : fsync(w->fd) < 0 ? errno : 0;
}

/* Makes room under the limit and takes it. */
static int take_room(struct prn_blobs *b, uint64_t bytes, struct prony_error *err)
{
    table_lock(b);
    while (evict_locked(b, bytes, false)) {
    }
    uint64_t used = b->stats.bytes + b->stats.writing_bytes;
    uint64_t limit = b->stats.limit_bytes;
    bool fits = used <= limit && bytes <= limit - used;
    if (fits)
        b->stats.writing_bytes += bytes;
    table_unlock(b);
    return fits ? 0
                : prn_fail(err, PRONY_ELIMIT,
                           "the upload does not fit into the cache, which holds %llu bytes",
                           (unsigned long long)limit);
}

int prn_blob_writer_write(struct prn_blob_writer *writer, const struct iovec *pieces, size_t n,
                          struct prony_error *err)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += pieces[i].iov_len;
    int code = take_room(writer->blobs, bytes, err);
    if (code < 0)
        return code;
    int error;
    if (writer->bytes == 0 && bytes >= DIRECT_MIN && writer->slab < 0)
        take_buffers(writer);
    if (writer->slab >= 0)
        error = fill_buffers(writer, pieces, n);
    else {
        hash_pieces(writer, pieces, n);
        error = write_pieces(writer, pieces, n);
    }
    if (error) {
        give_back(writer->blobs, bytes);
        return fail_store(err, error, "an upload");
    }
    writer->bytes += bytes;
    return 0;
}

/* The upload's file becomes the blob's. 0 or an errno. */
static int adopt_upload_locked(struct prn_blob_writer *w, struct prn_blob *fresh,
                               struct prn_blob *present) PRN_HOLDS(table)
{
    struct prn_blobs *b = w->blobs;
    if (renameat(b->folder_fd, w->name, b->folder_fd, fresh->name) < 0)
        return errno;
    b->stats.writing_bytes -= w->bytes;
    w->bytes = 0;
    if (present) { /* a file that nobody had looked at; whoever does so now may have the wrong one
                    */
        b->stats.bytes += fresh->bytes - present->bytes;
        b->stats.pinned_bytes += present->refs > 0 ? fresh->bytes - present->bytes : 0;
        present->bytes = fresh->bytes;
        present->checked = true;
        pin_locked(present);
        return 0;
    }
    fresh->checked = true;
    table_add_locked(b, fresh);
    list_add_locked(b, fresh);
    pin_locked(fresh);
    return 0;
}

/* Makes the upload visible, unless another has just done that with the same bytes. */
static int publish(struct prn_blob_writer *w, const uint8_t *hash, struct prn_blob **ret_blob,
                   struct prony_error *err)
{
    struct prn_blobs *b = w->blobs;
    struct prn_blob *fresh = blob_new(b, hash, w->bytes);
    if (!fresh)
        return prn_fail_memory(err);
    table_lock(b);
    struct prn_blob *blob = lookup_locked(b, hash);
    int error = 0;
    if (blob && blob->checked)
        pin_locked(blob);
    else {
        error = adopt_upload_locked(w, fresh, blob);
        blob = blob ? blob : fresh;
    }
    table_unlock(b);
    if (error || blob != fresh)
        free(fresh);
    if (error)
        return fail_store(err, error, "an upload");
    *ret_blob = blob;
    return 0;
}

/* With what is there already, nobody needs a second copy on the disk. NULL: it isn't. */
static struct prn_blob *pin_present(struct prn_blobs *b, const uint8_t *sha256)
{
    table_lock(b);
    struct prn_blob *blob = lookup_locked(b, sha256);
    blob = blob && blob->checked ? pin_locked(blob) : NULL;
    table_unlock(b);
    return blob;
}

int prn_blob_writer_finish(struct prn_blob_writer *writer, const uint8_t expected[PRN_SHA256_BYTES],
                           struct prn_blob **ret_blob, struct prony_error *err)
{
    struct prn_blobs *b = writer->blobs;
    uint8_t hash[EVP_MAX_MD_SIZE];
    struct prn_blob *blob = NULL;
    int code = 0;
    if (EVP_DigestFinal_ex(writer->hash, hash, NULL) != 1)
        code = prn_fail_memory(err);
    else if (expected && memcmp(hash, expected, PRN_SHA256_BYTES) != 0)
        code = prn_fail(err, PRONY_EFORMAT, "the upload has another SHA-256 than was announced");
    if (code == 0 && !(blob = pin_present(b, hash))) {
        int error = sync_upload(writer);
        code = error ? fail_store(err, error, "an upload") : publish(writer, hash, &blob, err);
    }
    prn_blob_writer_abort(writer);
    /* The name must be on the disk too, also if it was another who gave it. */
    if (code == 0 && fsync(b->folder_fd) < 0) {
        code = fail_store(err, errno, "an upload");
        prn_blob_release(blob);
    }
    if (code == 0) {
        save(b, blob);
        *ret_blob = blob;
    }
    return code;
}

void prn_blobs_set_limit(struct prn_blobs *blobs, uint64_t limit_bytes)
{
    table_lock(blobs);
    blobs->stats.limit_bytes = limit_bytes;
    while (evict_locked(blobs, 0, false)) {
    }
    table_unlock(blobs);
}

void prn_blobs_stats(struct prn_blobs *blobs, struct prn_blobs_stats *ret_stats)
{
    table_lock(blobs);
    *ret_stats = blobs->stats;
    table_unlock(blobs);
}

struct use {
    uint8_t sha256[PRN_SHA256_BYTES];
    int64_t used_ms;
};

/* Copies what isn't saved, so that the lock isn't held while it is. NULL: nothing, or no memory. */
static struct use *take_uses_locked(struct prn_blobs *b, size_t *ret_n) PRN_HOLDS(table)
{
    size_t n = 0, buckets = (size_t)1 << b->bits;
    struct use *uses = calloc(b->stats.blobs + 1, sizeof *uses);
    for (size_t i = 0; uses && i < buckets; i++) {
        for (struct prn_blob *blob = b->buckets[i]; blob; blob = blob->next) {
            if (!blob->dirty || !blob->checked)
                continue;
            memcpy(uses[n].sha256, blob->sha256, PRN_SHA256_BYTES);
            uses[n++].used_ms = blob->used_ms;
            blob->dirty = false;
        }
    }
    *ret_n = n;
    return uses;
}

void prn_blobs_flush(struct prn_blobs *blobs)
{
    size_t n = 0;
    table_lock(blobs);
    struct use *uses = take_uses_locked(blobs, &n);
    table_unlock(blobs);
    if (!uses)
        return;
    database_lock(blobs);
    int code = n > 0 ? prn_db_exec(blobs->db, "BEGIN IMMEDIATE", NULL) : 0;
    for (size_t i = 0; code == 0 && i < n; i++) {
        sqlite3_stmt *s = blobs->statements[USED];
        sqlite3_bind_blob(s, 1, uses[i].sha256, PRN_SHA256_BYTES, SQLITE_STATIC);
        sqlite3_bind_int64(s, 2, uses[i].used_ms);
        code = prn_db_run(blobs->db, s, NULL);
    }
    /* What couldn't be saved is only the order of eviction after the next start. */
    if (n > 0)
        sqlite3_exec(blobs->db, code == 0 ? "COMMIT" : "ROLLBACK", NULL, NULL, NULL);
    database_unlock(blobs);
    free(uses);
}

static bool hash_of_name(const char *name, uint8_t ret_sha256[PRN_SHA256_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    if (strlen(name) != NAME_LENGTH)
        return false;
    for (size_t i = 0; i < PRN_SHA256_BYTES; i++) {
        const char *high = strchr(digits, name[2 * i]), *low = strchr(digits, name[2 * i + 1]);
        if (!high || !low)
            return false;
        ret_sha256[i] = (uint8_t)((high - digits) << 4 | (low - digits));
    }
    return true;
}

/* Removes what uploads under way have left, and takes in every file with the name of a blob, not
 * yet checked. Others are none of our business. */
static int scan_folder(struct prn_blobs *b, struct prony_error *err) PRN_ALONE
{
    int fd = openat(b->folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (!folder) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return prn_fail_errno(err, error, "read folder", FOLDER);
    }
    int code = 0;
    const struct dirent *entry;
    while (code == 0 && (entry = readdir(folder))) {
        uint8_t sha256[PRN_SHA256_BYTES];
        struct stat st;
        if (strncmp(entry->d_name, TEMPORARY, strlen(TEMPORARY)) == 0)
            unlinkat(b->folder_fd, entry->d_name, 0);
        if (!hash_of_name(entry->d_name, sha256) ||
            fstatat(b->folder_fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            !S_ISREG(st.st_mode))
            continue;
        struct prn_blob *blob = blob_new(b, sha256, (uint64_t)st.st_size);
        if (blob)
            table_add_locked(b, blob);
        else
            code = prn_fail_memory(err);
    }
    closedir(folder);
    return code;
}

/* Rows tell which files are right and when they were used; one without its file is deleted. */
static int read_rows(struct prn_blobs *b, struct prony_error *err) PRN_ALONE
{
    sqlite3_stmt *rows = NULL;
    int code = prn_db_prepare(b->db, "SELECT sha256, bytes, used_ms FROM blobs ORDER BY used_ms",
                              &rows, err);
    while (prn_db_next(b->db, rows, &code, err)) {
        const void *sha256 = sqlite3_column_blob(rows, 0);
        bool ours = sqlite3_column_bytes(rows, 0) == PRN_SHA256_BYTES;
        struct prn_blob *blob = ours ? lookup_locked(b, sha256) : NULL;
        if (blob && blob->bytes == (uint64_t)sqlite3_column_int64(rows, 1)) {
            blob->checked = true;
            blob->used_ms = sqlite3_column_int64(rows, 2);
            list_add_locked(b, blob);
        } else {
            sqlite3_bind_blob(b->statements[FORGET], 1, sha256, sqlite3_column_bytes(rows, 0),
                              SQLITE_TRANSIENT);
            code = prn_db_run(b->db, b->statements[FORGET], err);
        }
    }
    sqlite3_finalize(rows);
    return code;
}

static int blobs_load(struct prn_blobs *b, struct prony_error *err) PRN_ALONE
{
    int code = scan_folder(b, err);
    if (code == 0)
        code = prn_db_exec(b->db, "BEGIN IMMEDIATE", err);
    if (code == 0)
        code = read_rows(b, err);
    if (code == 0)
        code = prn_db_exec(b->db, "COMMIT", err);
    /* A file without a row was finished right before the end: it is among the latest. */
    for (size_t i = 0; code == 0 && i < (size_t)1 << b->bits; i++)
        for (struct prn_blob *blob = b->buckets[i]; blob; blob = blob->next)
            if (!blob->checked)
                list_add_locked(b, blob);
    return code;
}

/* The one that was asked for, or one in the state folder. */
static int open_folder(struct prn_blobs *b, const struct prn_state *state, const char *folder,
                       struct prony_error *err)
{
    int n = folder ? snprintf(b->folder, sizeof b->folder, "%s", folder)
                   : snprintf(b->folder, sizeof b->folder, "%s/" FOLDER, prn_state_folder(state));
    if (n >= (int)sizeof b->folder)
        return prn_fail_errno(err, ENAMETOOLONG, "use folder", folder ? folder : FOLDER);
    return folder ? prn_state_folder_open(folder, &b->folder_fd, err)
                  : prn_state_subfolder(state, FOLDER, &b->folder_fd, err);
}

static int blobs_prepare(struct prn_blobs *b, const struct prn_state *state, const char *folder,
                         struct prony_error *err) PRN_ALONE
{
    b->bits = 8;
    b->buckets = calloc((size_t)1 << b->bits, sizeof(struct prn_blob *));
    if (!b->buckets)
        return prn_fail_memory(err);
    if (getrandom(&b->seed, sizeof b->seed, 0) != sizeof b->seed)
        return prn_fail_errno(err, errno, "get random bytes for", FOLDER);
    int code = open_folder(b, state, folder, err);
    if (code == 0)
        code = prn_state_connect(state, false, &b->db, err);
    for (size_t i = 0; code == 0 && i < N_STATEMENTS; i++)
        code = prn_db_prepare(b->db, sql[i], &b->statements[i], err);
    if (code == 0)
        code = blobs_load(b, err);
    return code;
}

int prn_blobs_open(const struct prn_state *state, const char *folder, uint64_t limit_bytes,
                   struct prn_blobs **ret_blobs, struct prony_error *err) PRN_ALONE
{
    struct prn_blobs *b = calloc(1, sizeof *b);
    if (!b)
        return prn_fail_memory(err);
    b->folder_fd = -1;
    pthread_mutex_init(&b->lock, NULL);
    pthread_mutex_init(&b->db_lock, NULL);
    pthread_mutex_init(&b->queue_lock, NULL);
    pthread_cond_init(&b->given, NULL);
    pthread_cond_init(&b->done, NULL);
    b->last = &b->first;
    int code = blobs_prepare(b, state, folder, err);
    if (code < 0) {
        prn_blobs_close(b);
        return code;
    }
    /* Without threads everything works, only slower. */
    while (b->n_threads < THREADS &&
           pthread_create(&b->threads[b->n_threads], NULL, write_buffers, b) == 0)
        b->n_threads++;
    prn_blobs_set_limit(b, limit_bytes);
    *ret_blobs = b;
    return 0;
}

void prn_blobs_close(struct prn_blobs *blobs) PRN_ALONE
{
    if (!blobs)
        return;
    line_lock(blobs);
    blobs->stop = true;
    pthread_cond_broadcast(&blobs->given);
    line_unlock(blobs);
    for (size_t i = 0; i < blobs->n_threads; i++)
        pthread_join(blobs->threads[i], NULL);
    for (size_t i = 0; i < SLABS; i++)
        free(blobs->slabs[i].memory);
    if (blobs->buckets && blobs->statements[N_STATEMENTS - 1])
        prn_blobs_flush(blobs);
    for (size_t i = 0; blobs->buckets && i < (size_t)1 << blobs->bits; i++) {
        for (struct prn_blob *blob = blobs->buckets[i], *next; blob; blob = next) {
            next = blob->next;
            assert(blob->refs == 0);
            free(blob);
        }
    }
    free(blobs->buckets);
    for (size_t i = 0; i < N_STATEMENTS; i++)
        sqlite3_finalize(blobs->statements[i]);
    sqlite3_close(blobs->db);
    if (blobs->folder_fd >= 0)
        close(blobs->folder_fd);
    pthread_cond_destroy(&blobs->done);
    pthread_cond_destroy(&blobs->given);
    pthread_mutex_destroy(&blobs->queue_lock);
    pthread_mutex_destroy(&blobs->db_lock);
    pthread_mutex_destroy(&blobs->lock);
    free(blobs);
}
