#include "service_unit.h"

#include "base/clock.h"
#include "service/store/blobs.h"

#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define MIB ((size_t)1 << 20)

struct store {
    struct prn_state *state;
    struct prn_blobs *blobs;
};

static struct store store_open(const char *path, uint64_t limit)
{
    struct store s = {0};
    assert_done(prn_state_open(path, true, &s.state, err));
    assert_done(prn_blobs_open(s.state, NULL, limit, &s.blobs, err));
    return s;
}

static void store_close(struct store *s)
{
    prn_blobs_close(s->blobs);
    prn_state_close(s->state);
}

/* The content of a blob follows from its seed and size. */
static void fill(char *data, size_t size, uint64_t seed)
{
    uint64_t x = seed * 2654435761u + 1;
    for (size_t i = 0; i < size; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        data[i] = (char)(x >> 56);
    }
}

static void hash_of(const void *data, size_t size, uint8_t hash[PRN_SHA256_BYTES])
{
    assert_int_equal(EVP_Digest(data, size, hash, NULL, EVP_sha256(), NULL), 1);
}

/* Writes in pieces of an odd size, several per call. */
static int write_all(struct prn_blob_writer *writer, const char *data, size_t size, size_t chunk,
                     struct prony_error *err)
{
    int code = 0;
    for (size_t at = 0; code == 0 && at < size; at += chunk) {
        struct iovec pieces[200];
        size_t n = 0, end = size - at < chunk ? size : at + chunk;
        for (size_t from = at; from < end; from += 8191, n++)
            pieces[n] = (struct iovec){(char *)(uintptr_t)(data + from),
                                       end - from < 8191 ? end - from : 8191};
        code = prn_blob_writer_write(writer, pieces, n, err);
    }
    return code;
}

static int put(struct prn_blobs *blobs, const char *data, size_t size, const uint8_t *expected,
               struct prn_blob **ret_blob, struct prony_error *err)
{
    struct prn_blob_writer *writer = NULL;
    int code = prn_blob_writer_new(blobs, &writer, err);
    if (code < 0)
        return code;
    code = write_all(writer, data, size, MIB, err);
    if (code == 0)
        return prn_blob_writer_finish(writer, expected, ret_blob, err);
    prn_blob_writer_abort(writer);
    return code;
}

/* One of a seed and size, in the cache. */
static struct prn_blob *put_seed(struct prn_blobs *blobs, size_t size, uint64_t seed)
{
    char *data = malloc(size + 1);
    assert_non_null(data);
    fill(data, size, seed);
    struct prn_blob *blob = NULL;
    assert_done(put(blobs, data, size, NULL, &blob, err));
    free(data);
    return blob;
}

static void hash_file(const char *path, uint8_t hash[PRN_SHA256_BYTES], uint64_t *size)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0 && fstat(fd, &st) == 0);
    char *data = malloc((size_t)st.st_size + 1);
    assert_int_equal(read(fd, data, (size_t)st.st_size), st.st_size);
    hash_of(data, (size_t)st.st_size, hash);
    *size = (uint64_t)st.st_size;
    free(data);
    close(fd);
}

static void assert_right(const struct prn_blob *blob)
{
    uint8_t hash[PRN_SHA256_BYTES];
    uint64_t size = 0;
    hash_file(prn_blob_path(blob), hash, &size);
    assert_memory_equal(hash, prn_blob_sha256(blob), PRN_SHA256_BYTES);
    assert_int_equal(size, prn_blob_bytes(blob));
}

/* Files in the folder of blobs, `temporary` of them without a final name. */
static size_t count_files(const struct unit_folder *folder, size_t *temporary)
{
    char path[128];
    snprintf(path, sizeof path, "%s/blobs", folder->path);
    DIR *d = opendir(path);
    assert_non_null(d);
    size_t n = 0;
    *temporary = 0;
    for (const struct dirent *e; (e = readdir(d));) {
        n += e->d_name[0] != '.';
        *temporary += strncmp(e->d_name, "tmp-", 4) == 0;
    }
    closedir(d);
    return n;
}

static void assert_files(const struct unit_folder *folder, size_t expected)
{
    size_t temporary = 0;
    assert_int_equal(count_files(folder, &temporary), expected);
    assert_int_equal(temporary, 0);
}

static void keeps_blobs_of_all_sizes(void **state)
{
    const struct unit_folder *folder = *state;
    static const size_t sizes[] = {0,           1,       4095,           4096,
                                   300000,      MIB,     2 * MIB,        2 * MIB + 1,
                                   6 * MIB - 1, 6 * MIB, 9 * MIB + 4097, 17 * MIB};
    uint8_t hashes[PRN_ARRAY_SIZE(sizes)][PRN_SHA256_BYTES];
    struct store s = store_open(folder->path, 200 * MIB);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(sizes); i++) {
        struct prn_blob *blob = put_seed(s.blobs, sizes[i], i);
        assert_int_equal(prn_blob_bytes(blob), sizes[i]);
        assert_right(blob);
        memcpy(hashes[i], prn_blob_sha256(blob), PRN_SHA256_BYTES);
        struct stat st;
        assert_int_equal(stat(prn_blob_path(blob), &st), 0);
        assert_int_equal(st.st_mode & 0777, 0400);
        prn_blob_release(blob);
    }
    assert_files(folder, PRN_ARRAY_SIZE(sizes));
    store_close(&s);
    s = store_open(folder->path, 200 * MIB);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(sizes); i++) {
        struct prn_blob *blob = NULL;
        assert_done(prn_blobs_find(s.blobs, hashes[i], &blob, err));
        assert_int_equal(prn_blob_bytes(blob), sizes[i]);
        prn_blob_release(blob);
    }
    struct prn_blobs_stats stats;
    prn_blobs_stats(s.blobs, &stats);
    assert_int_equal(stats.blobs, PRN_ARRAY_SIZE(sizes));
    assert_int_equal(stats.hits, PRN_ARRAY_SIZE(sizes));
    assert_int_equal(stats.pinned_bytes, 0);
    assert_int_equal(stats.writing_bytes, 0);
    store_close(&s);
}

static void leaves_nothing_of_wrong_and_aborted_ones(void **state)
{
    const struct unit_folder *folder = *state;
    struct store s = store_open(folder->path, 100 * MIB);
    char *data = malloc(5 * MIB);
    uint8_t hash[PRN_SHA256_BYTES];
    fill(data, 5 * MIB, 1);
    hash_of(data, 5 * MIB, hash);
    hash[31] ^= 1;
    struct prn_blob *blob = NULL;
    int descriptors = unit_descriptors();
    static const size_t sizes[] = {0, 100, 5 * MIB};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(sizes); i++) {
        assert_refused(put(s.blobs, data, sizes[i], hash, &blob, err), PRONY_EFORMAT,
                       "another SHA-256");
        struct prn_blob_writer *writer = NULL;
        assert_done(prn_blob_writer_new(s.blobs, &writer, err));
        assert_done(write_all(writer, data, sizes[i], MIB, err));
        assert_int_equal(prn_blob_writer_bytes(writer), sizes[i]);
        prn_blob_writer_abort(writer);
    }
    assert_files(folder, 0);
    assert_int_equal(unit_descriptors(), descriptors);
    assert_refused(prn_blobs_find(s.blobs, hash, &blob, err), PRONY_ENOENT, "no such blob");
    hash[31] ^= 1;
    assert_done(put(s.blobs, data, 5 * MIB, hash, &blob, err));
    prn_blob_release(blob);
    free(data);
    store_close(&s);
}

static void holds_the_same_bytes_once(void **state)
{
    const struct unit_folder *folder = *state;
    struct store s = store_open(folder->path, 100 * MIB);
    struct prn_blob *first = put_seed(s.blobs, 3 * MIB, 7);
    struct prn_blob *second = put_seed(s.blobs, 3 * MIB, 7);
    assert_ptr_equal(first, second);
    assert_files(folder, 1);
    struct prn_blobs_stats stats;
    prn_blobs_stats(s.blobs, &stats);
    assert_int_equal(stats.bytes, 3 * MIB);
    assert_int_equal(stats.pinned_bytes, 3 * MIB);
    prn_blob_release(first);
    prn_blob_release(second);
    store_close(&s);
}

static void evicts_the_oldest_but_nothing_in_use(void **state)
{
    const struct unit_folder *folder = *state;
    struct store s = store_open(folder->path, 10 * MIB);
    uint8_t hashes[5][PRN_SHA256_BYTES];
    struct prn_blob *blob, *pinned = NULL;
    for (size_t i = 0; i < 5; i++) {
        blob = put_seed(s.blobs, 2 * MIB, i);
        memcpy(hashes[i], prn_blob_sha256(blob), PRN_SHA256_BYTES);
        prn_blob_release(blob);
    }
    assert_done(prn_blobs_find(s.blobs, hashes[0], &pinned, err)); /* 1 is the oldest now */
    prn_blob_release(put_seed(s.blobs, 3 * MIB, 10));
    assert_int_equal(prn_blobs_find(s.blobs, hashes[1], &blob, NULL), PRONY_ENOENT);
    assert_int_equal(prn_blobs_find(s.blobs, hashes[2], &blob, NULL), PRONY_ENOENT);
    assert_done(prn_blobs_find(s.blobs, hashes[3], &blob, err));
    prn_blob_release(blob);
    assert_files(folder, 4);

    char *data = calloc(1, 11 * MIB);
    assert_refused(put(s.blobs, data, 9 * MIB, NULL, &blob, err), PRONY_ELIMIT, "does not fit");
    assert_files(folder, 1); /* what was in use, and only that */
    assert_right(pinned);
    assert_done(put(s.blobs, data, 8 * MIB, NULL, &blob, err));
    assert_refused(put(s.blobs, data, 1, NULL, &blob, err), PRONY_ELIMIT, "does not fit");
    prn_blob_release(blob);
    prn_blobs_set_limit(s.blobs, 1); /* the pinned one stays, until it is let go */
    assert_files(folder, 1);
    prn_blob_release(prn_blob_ref(pinned));
    assert_files(folder, 1);
    prn_blob_release(pinned);
    assert_files(folder, 0);
    struct prn_blobs_stats stats;
    prn_blobs_stats(s.blobs, &stats);
    assert_int_equal(stats.bytes, 0);
    assert_int_equal(stats.blobs, 0);
    assert_int_equal(stats.writing_bytes, 0);
    assert_int_equal(stats.pinned_bytes, 0);
    free(data);
    store_close(&s);
}

static void remembers_the_order_of_use(void **state)
{
    const struct unit_folder *folder = *state;
    struct store s = store_open(folder->path, 100 * MIB);
    uint8_t hashes[3][PRN_SHA256_BYTES];
    struct prn_blob *blob = NULL;
    for (size_t i = 0; i < 3; i++) {
        blob = put_seed(s.blobs, 1000 + i, i);
        memcpy(hashes[i], prn_blob_sha256(blob), PRN_SHA256_BYTES);
        prn_blob_release(blob);
        int64_t now = prn_wall_clock_ms();
        while (prn_wall_clock_ms() == now) { /* times are in milliseconds */
        }
    }
    assert_done(prn_blobs_find(s.blobs, hashes[0], &blob, err));
    prn_blob_release(blob);
    store_close(&s);
    s = store_open(folder->path, 2500);
    assert_int_equal(prn_blobs_find(s.blobs, hashes[1], &blob, NULL), PRONY_ENOENT);
    assert_done(prn_blobs_find(s.blobs, hashes[0], &blob, err));
    prn_blob_release(blob);
    store_close(&s);
}

static void adopts_files_but_only_right_ones(void **state)
{
    const struct unit_folder *folder = *state;
    struct store s = store_open(folder->path, 100 * MIB);
    uint8_t good[PRN_SHA256_BYTES], bad[PRN_SHA256_BYTES], gone[PRN_SHA256_BYTES],
        again[PRN_SHA256_BYTES];
    struct prn_blob *blob = NULL;
    char paths[4][256];
    uint8_t *const hashes[] = {good, bad, gone, again};
    for (size_t i = 0; i < 4; i++) {
        blob = put_seed(s.blobs, 5000, i);
        memcpy(hashes[i], prn_blob_sha256(blob), PRN_SHA256_BYTES);
        snprintf(paths[i], sizeof paths[i], "%s", prn_blob_path(blob));
        prn_blob_release(blob);
    }
    sqlite3 *db = NULL;
    assert_done(prn_state_connect(s.state, true, &db, err));
    store_close(&s);
    assert_done(prn_db_exec(db, "DELETE FROM blobs", err)); /* as if none had been saved */
    sqlite3_close(db);
    assert_int_equal(unlink(paths[2]), 0);
    for (size_t i = 1; i < 4; i += 2) { /* same size, other bytes */
        assert_int_equal(chmod(paths[i], 0600), 0);
        int fd = open(paths[i], O_WRONLY);
        assert_int_equal(pwrite(fd, "x!", 2, 77), 2);
        close(fd);
    }
    char stray[256];
    snprintf(stray, sizeof stray, "%s/blobs/tmp-123", folder->path);
    close(open(stray, O_CREAT | O_WRONLY, 0600));

    s = store_open(folder->path, 100 * MIB);
    assert_files(folder, 3);
    assert_done(prn_blobs_find(s.blobs, good, &blob, err));
    assert_right(blob);
    prn_blob_release(blob);
    assert_refused(prn_blobs_find(s.blobs, bad, &blob, err), PRONY_ENOENT, "no such blob");
    assert_refused(prn_blobs_find(s.blobs, gone, &blob, err), PRONY_ENOENT, "no such blob");
    blob = put_seed(s.blobs, 5000, 3); /* a right one takes the place of a wrong one */
    assert_memory_equal(prn_blob_sha256(blob), again, PRN_SHA256_BYTES);
    assert_right(blob);
    prn_blob_release(blob);
    assert_files(folder, 2);
    store_close(&s);
}

static void forgets_rows_without_files(void **state)
{
    const struct unit_folder *folder = *state;
    struct store s = store_open(folder->path, 100 * MIB);
    struct prn_blob *blob = put_seed(s.blobs, 5000, 1);
    uint8_t hash[PRN_SHA256_BYTES];
    memcpy(hash, prn_blob_sha256(blob), PRN_SHA256_BYTES);
    assert_int_equal(unlink(prn_blob_path(blob)), 0);
    prn_blob_release(blob);
    store_close(&s);
    s = store_open(folder->path, 100 * MIB);
    assert_int_equal(prn_blobs_find(s.blobs, hash, &blob, NULL), PRONY_ENOENT);
    struct prn_blobs_stats stats;
    prn_blobs_stats(s.blobs, &stats);
    assert_int_equal(stats.bytes, 0);
    store_close(&s);
}

static void links_into_folders(void **state)
{
    const struct unit_folder *folder = *state;
    struct store s = store_open(folder->path, 100 * MIB);
    struct prn_blob *blob = put_seed(s.blobs, 3 * MIB + 5, 1);
    int fd = -1;
    assert_done(prn_folder_make(folder->fd, "session", &fd, err));
    assert_done(prn_blob_link(blob, fd, "weights/0", err));
    assert_refused(prn_blob_link(blob, fd, "weights/0", err), PRONY_EUSAGE, "already");
    assert_refused(prn_blob_link(blob, fd, "../x", err), PRONY_EFORMAT, "'..'");
    assert_refused(prn_blob_link(blob, fd, "weights/0/x", err), PRONY_EUSAGE, "needs a folder");
    struct stat original, linked;
    assert_int_equal(stat(prn_blob_path(blob), &original), 0);
    assert_int_equal(fstatat(fd, "weights/0", &linked, 0), 0);
    assert_int_equal(original.st_ino, linked.st_ino);
    close(fd);
    assert_done(prn_folder_remove(folder->fd, "session", err));
    assert_right(blob);
    int opened = -1;
    assert_done(prn_blob_open(blob, &opened, err));
    close(opened);
    prn_blob_release(blob);
    store_close(&s);
}

static void copies_to_another_file_system(void **state)
{
    const struct unit_folder *folder = *state;
    char path[] = "/dev/shm/prony-unit-XXXXXX";
    struct stat here, there;
    if (!mkdtemp(path))
        skip();
    assert_int_equal(stat(path, &there), 0);
    assert_int_equal(fstat(folder->fd, &here), 0);
    int fd = open(path, O_RDONLY | O_DIRECTORY);
    if (here.st_dev == there.st_dev) {
        close(fd);
        rmdir(path);
        skip();
    }
    struct store s = store_open(folder->path, 100 * MIB);
    struct prn_blob *blob = put_seed(s.blobs, 3 * MIB + 5, 1);
    assert_done(prn_blob_link(blob, fd, "copy", err));
    assert_refused(prn_blob_link(blob, fd, "copy", err), PRONY_EUSAGE, "already");
    char copy[64];
    uint8_t hash[PRN_SHA256_BYTES];
    uint64_t size = 0;
    snprintf(copy, sizeof copy, "%s/copy", path);
    hash_file(copy, hash, &size);
    assert_memory_equal(hash, prn_blob_sha256(blob), PRN_SHA256_BYTES);
    assert_int_equal(fstatat(fd, "copy", &there, 0), 0);
    assert_int_equal(there.st_mode & 0777, 0400);
    unlink(copy);
    rmdir(path);
    close(fd);
    prn_blob_release(blob);
    store_close(&s);
}

static void says_when_a_file_is_too_large(void **state)
{
    const struct unit_folder *folder = *state;
    struct store s = store_open(folder->path, 100 * MIB);
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){5 * MIB, before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    char *data = calloc(1, 20 * MIB);
    struct prn_blob *blob = NULL;
    assert_refused(put(s.blobs, data, 20 * MIB, NULL, &blob, err), PRONY_ELIMIT, "too large");
    assert_refused(put(s.blobs, data, 5 * MIB + 1, NULL, &blob, err), PRONY_ELIMIT, "too large");
    struct prn_blob_writer *writer = NULL; /* without buffers */
    assert_done(prn_blob_writer_new(s.blobs, &writer, err));
    assert_done(write_all(writer, data, 1000, 100, err));
    assert_refused(write_all(writer, data, 20 * MIB, MIB, err), PRONY_ELIMIT, "too large");
    prn_blob_writer_abort(writer);
    assert_files(folder, 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_done(put(s.blobs, data, 5 * MIB, NULL, &blob, err));
    prn_blob_release(blob);
    free(data);
    store_close(&s);
}

/* In a process of its own, which must not return into cmocka. */
#define check(condition)                                            \
    do {                                                            \
        if (!(condition)) {                                         \
            fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            _exit(1);                                               \
        }                                                           \
    } while (0)

static bool write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return written;
}

/* Namespaces in which one may mount. Who isn't mapped to anybody couldn't make files. */
static bool may_mount(void)
{
    char users[64];
    char groups[64];
    snprintf(users, sizeof users, "%u %u 1", geteuid(), geteuid());
    snprintf(groups, sizeof groups, "%u %u 1", getegid(), getegid());
    if (geteuid() == 0)
        return unshare(CLONE_NEWNS) == 0;
    return unshare(CLONE_NEWNS | CLONE_NEWUSER) == 0 && write_text("/proc/self/uid_map", users) &&
           write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/gid_map", groups);
}

/* On a disk of its own, where that can be had. 77: it can't. */
static void fill_a_disk(const char *disk)
{
    if (!may_mount() || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
        mount("tmpfs", disk, "tmpfs", 0, "size=16m,mode=0700") < 0)
        _exit(77);
    struct store s = {0};
    char *content = calloc(1, 40 * MIB);
    check(content && prn_state_open(disk, true, &s.state, NULL) == 0);
    check(prn_blobs_open(s.state, NULL, 100 * MIB, &s.blobs, NULL) == 0);
    struct prn_blob *kept = NULL, *blob = NULL;
    struct prony_error err = {0};
    struct prn_blobs_stats stats;
    struct stat st;
    check(put(s.blobs, content, 4 * MIB, NULL, &kept, NULL) == 0);
    check(put(s.blobs, content, 4 * MIB + 1, NULL, &blob, NULL) == 0);
    prn_blob_release(blob);
    check(put(s.blobs, content, 40 * MIB, NULL, &blob, &err) == PRONY_ELIMIT);
    check(strstr(err.text, "the disk of the service is full") && !strchr(err.text, '/'));
    prn_blobs_stats(s.blobs, &stats);
    check(stats.blobs == 1 && stats.writing_bytes == 0); /* the other went to make room */
    check(stat(prn_blob_path(kept), &st) == 0 && st.st_size == (off_t)(4 * MIB));
    check(put(s.blobs, content, 8 * MIB, NULL, &blob, NULL) == 0);
    prn_blob_release(blob);
    prn_blob_release(kept);
    store_close(&s);
    free(content);
    _exit(0);
}

static void survives_a_full_disk(void **state)
{
    const struct unit_folder *folder = *state;
    char disk[sizeof folder->path + sizeof "/disk"];
    snprintf(disk, sizeof disk, "%s/disk", folder->path);
    assert_int_equal(mkdir(disk, 0700), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        fill_a_disk(disk);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip();
    assert_int_equal(status, 0);
}

struct crowd {
    struct prn_blobs *blobs;
    unsigned id;
    int failed;
};

/* Writes, finds and drops blobs that the others use too. */
static void *be_busy(void *context)
{
    struct crowd *c = context;
    char *data = malloc(3 * MIB);
    for (unsigned i = 0; data && i < 24; i++) {
        unsigned seed = (c->id + i) % 6;
        size_t size = seed % 2 ? 2 * MIB + 300 * seed : 20000 + seed;
        uint8_t hash[PRN_SHA256_BYTES];
        struct prn_blob *blob = NULL;
        fill(data, size, seed);
        EVP_Digest(data, size, hash, NULL, EVP_sha256(), NULL);
        int code = prn_blobs_find(c->blobs, hash, &blob, NULL);
        if (code == PRONY_ENOENT)
            code = put(c->blobs, data, size, hash, &blob, NULL);
        if (code == 0) {
            char *back = malloc(size);
            int fd = -1;
            if (prn_blob_bytes(blob) != size || prn_blob_open(blob, &fd, NULL) < 0 || !back ||
                read(fd, back, size) != (ssize_t)size || memcmp(back, data, size) != 0)
                c->failed = 1;
            if (fd >= 0)
                close(fd);
            free(back);
            prn_blob_release(blob);
        } else if (code != PRONY_ELIMIT) /* others may have it all in use */
            c->failed = 1;
        if (i % 5 == 0)
            prn_blobs_flush(c->blobs);
    }
    free(data);
    return NULL;
}

static void serves_a_crowd(void **state)
{
    const struct unit_folder *folder = *state;
    struct store s = store_open(folder->path, 6 * MIB); /* not enough for all: evictions */
    struct crowd crowd[8];
    pthread_t threads[8];
    for (unsigned i = 0; i < 8; i++) {
        crowd[i] = (struct crowd){.blobs = s.blobs, .id = i};
        assert_int_equal(pthread_create(&threads[i], NULL, be_busy, &crowd[i]), 0);
    }
    for (unsigned i = 0; i < 8; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(crowd[i].failed, 0);
    }
    struct prn_blobs_stats stats;
    prn_blobs_stats(s.blobs, &stats);
    assert_int_equal(stats.writing_bytes, 0);
    assert_int_equal(stats.pinned_bytes, 0);
    assert_true(stats.bytes <= 6 * MIB);
    assert_files(folder, stats.blobs);
    store_close(&s);
}

/* Writes blobs until it is killed, and tells which are done. */
static void write_until_killed(const char *path, int pipe_fd, unsigned round)
{
    struct store s = {0};
    char *data = malloc(4 * MIB);
    if (!data || prn_state_open(path, true, &s.state, NULL) < 0 ||
        prn_blobs_open(s.state, NULL, 24 * MIB, &s.blobs, NULL) < 0)
        _exit(1);
    for (unsigned i = 0;; i++) {
        struct prn_blob *blob = NULL;
        size_t size = i % 3 ? 3000 * (i % 50) : 3 * MIB + i;
        fill(data, size, (uint64_t)round << 32 | i);
        if (put(s.blobs, data, size, NULL, &blob, NULL) < 0)
            _exit(1);
        if (write(pipe_fd, prn_blob_sha256(blob), PRN_SHA256_BYTES) != PRN_SHA256_BYTES)
            _exit(1);
        prn_blob_release(blob);
    }
}

/* All that is there must be right, and what was told last, which can't have been evicted, there. */
static void check_after_kill(const struct unit_folder *folder, int pipe_fd)
{
    uint8_t hash[PRN_SHA256_BYTES], last[PRN_SHA256_BYTES];
    bool told = false;
    while (read(pipe_fd, hash, sizeof hash) == sizeof hash) {
        memcpy(last, hash, sizeof hash);
        told = true;
    }
    struct store s = store_open(folder->path, 24 * MIB);
    struct prn_blobs_stats stats;
    prn_blobs_stats(s.blobs, &stats);
    assert_files(folder, stats.blobs);
    char path[128];
    snprintf(path, sizeof path, "%s/blobs", folder->path);
    DIR *d = opendir(path);
    for (const struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        char file[512], name[65] = "";
        uint64_t size = 0;
        snprintf(file, sizeof file, "%s/%s", path, e->d_name);
        hash_file(file, hash, &size);
        for (size_t i = 0; i < sizeof hash; i++)
            snprintf(name + 2 * i, 3, "%02x", hash[i]);
        assert_string_equal(name, e->d_name);
    }
    closedir(d);
    if (told) {
        struct prn_blob *blob = NULL;
        assert_done(prn_blobs_find(s.blobs, last, &blob, err));
        prn_blob_release(blob);
    }
    store_close(&s);
}

static void survives_being_killed(void **state)
{
    const struct unit_folder *folder = *state;
    srand(4711);
    for (unsigned round = 0; round < 50; round++) {
        int ends[2];
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_until_killed(folder->path, ends[1], round);
        close(ends[1]);
        /* Killed at a random moment after a random number of blobs, of which there may be none. */
        uint8_t hash[PRN_SHA256_BYTES];
        for (int i = rand() % 8; i > 0; i--)
            if (read(ends[0], hash, sizeof hash) != sizeof hash)
                break;
        struct timespec moment = {.tv_nsec = (rand() % 4000) * 1000L};
        nanosleep(&moment, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status)); /* it didn't fail by itself */
        check_after_kill(folder, ends[0]);
        close(ends[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        unit_test_in_folder(keeps_blobs_of_all_sizes),
        unit_test_in_folder(leaves_nothing_of_wrong_and_aborted_ones),
        unit_test_in_folder(holds_the_same_bytes_once),
        unit_test_in_folder(evicts_the_oldest_but_nothing_in_use),
        unit_test_in_folder(remembers_the_order_of_use),
        unit_test_in_folder(adopts_files_but_only_right_ones),
        unit_test_in_folder(forgets_rows_without_files),
        unit_test_in_folder(links_into_folders),
        unit_test_in_folder(copies_to_another_file_system),
        unit_test_in_folder(says_when_a_file_is_too_large),
        unit_test_in_folder(survives_a_full_disk),
        unit_test_in_folder(serves_a_crowd),
        unit_test_in_folder(survives_being_killed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
