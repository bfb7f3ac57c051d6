#include "record/temporary.h"

#include "base/io.h"
#include "exec/scratch.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int write_file(const char *path, const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return errno;
    int error = prn_write_all(fd, data, size) < 0 ? errno : 0;
    if (close(fd) < 0 && !error)
        error = errno;
    return error;
}

int prn_temporary_write(struct prn_temporary *ret_file, const char *name, const void *data,
                        size_t size, struct prony_error *err)
{
    int code = prn_scratch_make(NULL, ret_file->folder, err);
    if (code < 0)
        return code;
    const char *folder = ret_file->folder;
    int n = snprintf(ret_file->path, sizeof ret_file->path, "%s/%s", folder, name);
    int error =
        n < (int)sizeof ret_file->path ? write_file(ret_file->path, data, size) : ENAMETOOLONG;
    if (error) {
        prn_scratch_remove(folder);
        return prn_fail_errno(err, error, "write a model to", folder);
    }
    return 0;
}

/* ---- Several files ---- */

/* Calls `each` for the folders above a file, from the outside in. */
static int for_folders(char *path, size_t from, int (*each)(const char *folder))
{
    int error = 0;
    for (char *slash = strchr(path + from, '/'); slash && !error; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        error = each(path);
        *slash = '/';
    }
    return error;
}

static int make_folder(const char *path)
{
    return mkdir(path, 0700) < 0 && errno != EEXIST ? errno : 0;
}

static int write_below(const char *folder, const struct prony_file *file, char path[PATH_MAX])
{
    int n = snprintf(path, PATH_MAX, "%s/%s", folder, file->name);
    if (n >= PATH_MAX)
        return ENAMETOOLONG;
    int error = for_folders(path, strlen(folder) + 1, make_folder);
    return error ? error : write_file(path, file->data, file->bytes);
}

int prn_temporary_write_all(struct prn_temporary *ret_files, const struct prony_file *files,
                            size_t n, struct prony_error *err)
{
    int code = prn_scratch_make(NULL, ret_files->folder, err);
    int error = 0;
    assert(n > 0);
    for (size_t i = n; code == 0 && !error && i-- > 0;)
        error = write_below(ret_files->folder, &files[i], ret_files->path);
    if (error) {
        prn_scratch_remove(ret_files->folder);
        return prn_fail_errno(err, error, "write a model to", ret_files->folder);
    }
    return code;
}
