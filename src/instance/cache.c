#include "instance/cache.h"

#include "base/io.h"

#include <openssl/evp.h>

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)64 << 10)
#define NAME_LENGTH 64 /* digits of a SHA-256 */

/* ---- The folder ---- */

static bool is_private(const char *folder)
{
    struct stat status;
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool known = fstat(fd, &status) == 0;
    close(fd);
    return known && status.st_uid == geteuid() && (status.st_mode & 077) == 0;
}

bool prn_cache_folder(char ret_folder[PATH_MAX])
{
    const char *named = secure_getenv("PRONY_CACHE");
    const char *caches = secure_getenv("XDG_CACHE_HOME");
    const char *home = secure_getenv("HOME");
    int n = 0;
    if (named)
        n = snprintf(ret_folder, PATH_MAX, "%s", named);
    else if (caches && caches[0] == '/')
        n = snprintf(ret_folder, PATH_MAX, "%s/prony/compiled", caches);
    else if (home && home[0] == '/')
        n = snprintf(ret_folder, PATH_MAX, "%s/.cache/prony/compiled", home);
    if (n <= 0 || n >= PATH_MAX - NAME_LENGTH - 16 || ret_folder[0] != '/')
        return false;
    struct prony_error ignored; /* without a folder nothing is kept */
    return prn_make_folders(ret_folder, &ignored) == 0 && is_private(ret_folder);
}

/* ---- Names ---- */

static void add_text(EVP_MD_CTX *hash, const char *text)
{
    EVP_DigestUpdate(hash, text ? text : "", text ? strlen(text) + 1 : 1);
}

static bool add_file(EVP_MD_CTX *hash, const char *path)
{
    unsigned char piece[PIECE_BYTES];
    ssize_t n;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    while ((n = read(fd, piece, sizeof piece)) > 0)
        EVP_DigestUpdate(hash, piece, (size_t)n);
    close(fd);
    return n == 0;
}

/* Compilers make code for the very processor that they run on. */
static void add_processor(EVP_MD_CTX *hash)
{
    static const char *const kinds[] = {"vendor_id", "cpu family", "model",    "stepping",
                                        "flags",     "Features",   "CPU part", "CPU variant"};
    char *line = NULL;
    size_t size = 0;
    FILE *file = fopen("/proc/cpuinfo", "re");
    while (file && getline(&line, &size, file) > 1) /* the first one ends with an empty line */
        for (size_t i = 0; i < PRN_ARRAY_SIZE(kinds); i++)
            if (strncmp(line, kinds[i], strlen(kinds[i])) == 0) {
                add_text(hash, line);
                break;
            }
    if (file)
        fclose(file);
    free(line);
}

bool prn_cache_path(const char *folder, const struct prn_runtime_config *config,
                    const char *version, const char *model_path, char ret_path[PATH_MAX])
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    EVP_MD_CTX *hash = EVP_MD_CTX_new();
    if (!hash || EVP_DigestInit_ex(hash, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(hash);
        return false;
    }
    add_text(hash, prony_version());
    add_text(hash, version);
    add_text(hash, config->software);
    for (size_t i = 0; i < config->n_options; i++) {
        add_text(hash, config->options[i].key);
        add_text(hash, config->options[i].value);
    }
    add_processor(hash);
    const bool whole = add_file(hash, model_path) && EVP_DigestFinal_ex(hash, digest, &n) == 1;
    EVP_MD_CTX_free(hash);
    int length = snprintf(ret_path, PATH_MAX, "%.*s/", PATH_MAX - NAME_LENGTH - 16, folder);
    for (unsigned i = 0; whole && i < n; i++)
        length += snprintf(ret_path + length, PATH_MAX - (size_t)length, "%02x", digest[i]);
    return whole;
}

/* ---- Keeping ---- */

struct kept {
    char name[NAME_LENGTH + 1];
    int64_t bytes;
    struct timespec used;
};

static int by_age(const void *a, const void *b)
{
    const struct timespec *x = &((const struct kept *)a)->used;
    const struct timespec *y = &((const struct kept *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Those of a folder; what is called otherwise isn't ours. */
static struct kept *list_kept(int folder_fd, size_t *ret_n)
{
    struct kept *list = NULL;
    size_t n = 0;
    int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        struct stat status;
        if (strspn(entry->d_name, "0123456789abcdef") != NAME_LENGTH ||
            entry->d_name[NAME_LENGTH] != '\0' ||
            fstatat(folder_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        struct kept *longer = reallocarray(list, n + 1, sizeof *list);
        if (!longer)
            break;
        list = longer;
        list[n] = (struct kept){.bytes = status.st_size, .used = status.st_mtim};
        memcpy(list[n++].name, entry->d_name, NAME_LENGTH + 1);
    }
    if (folder)
        closedir(folder);
    *ret_n = n;
    return list;
}

static void forget_oldest(int folder_fd, int64_t bytes_max)
{
    size_t n;
    int64_t bytes = 0;
    struct kept *list = list_kept(folder_fd, &n);
    for (size_t i = 0; i < n; i++)
        bytes += list[i].bytes;
    if (n > 0)
        qsort(list, n, sizeof *list, by_age);
    for (size_t i = 0; i < n && bytes > bytes_max; i++)
        if (unlinkat(folder_fd, list[i].name, 0) == 0)
            bytes -= list[i].bytes;
    free(list);
}

/* A copy: whoever made the file may still write to it. */
static bool copy_to(int fd, int64_t bytes, int copy_fd)
{
    unsigned char piece[PIECE_BYTES];
    for (int64_t done = 0; done < bytes;) {
        ssize_t n = pread(fd, piece, sizeof piece, done);
        if (n <= 0 || prn_pwrite_all(copy_fd, piece, (size_t)n, (size_t)done) < 0)
            return false;
        done += n;
    }
    return true;
}

void prn_cache_keep(const char *path, int fd, int64_t bytes_max)
{
    struct stat status;
    char folder[PATH_MAX];
    char name[64];
    const char *slash = strrchr(path, '/');
    if (!slash || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode) || status.st_size <= 0 ||
        status.st_size > PRN_CACHE_FILE_BYTES_MAX)
        return;
    snprintf(folder, sizeof folder, "%.*s", (int)(slash - path), path);
    int folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder_fd < 0)
        return;
    snprintf(name, sizeof name, "new-%ld-%p", (long)getpid(), (const void *)folder);
    int copy_fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool copied = copy_fd >= 0 && copy_to(fd, status.st_size, copy_fd);
    if (copy_fd >= 0)
        close(copy_fd);
    if (copied && renameat(folder_fd, name, folder_fd, slash + 1) == 0)
        forget_oldest(folder_fd, bytes_max);
    else if (copy_fd >= 0)
        unlinkat(folder_fd, name, 0);
    close(folder_fd);
}

void prn_cache_touch(const char *path)
{
    utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);
}
