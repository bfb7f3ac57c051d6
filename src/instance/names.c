/*
 * Folders are walked with openat() and O_NOFOLLOW, one part at a time, since each may have to be
 * made first; a part has no slash and is neither "." nor "..", so each step stays inside. That
 * holds on every kernel and file system.
 */
#include "instance/names.h"

#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FOLDER_FLAGS (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

static const char *fault_of_part(const char *part, size_t length)
{
    if (length == 0)
        return "has an empty part";
    if (length > PRN_NAME_PART_MAX)
        return "has a part of more than 255 bytes";
    if (part[0] == '.' && (length == 1 || (length == 2 && part[1] == '.')))
        return "has a part '.' or '..'";
    return NULL;
}

/* NULL: none. */
static const char *fault_of_name(const char *name, size_t length)
{
    if (length == 0)
        return "is empty";
    if (length > PRN_NAME_MAX)
        return "is longer than 1024 bytes";
    if (memchr(name, '\0', length))
        return "has a NUL inside";
    if (name[0] == '/')
        return "is not relative";
    char text[PRN_NAME_MAX + 1];
    memcpy(text, name, length);
    text[length] = '\0';
    for (const char *c = text; *c; c += prn_utf8_length(c))
        if (!prn_utf8_printable(c))
            return "has control characters, or bytes that are not UTF-8";
    const char *fault = NULL;
    size_t depth = 0;
    for (const char *part = text; !fault && part; depth++) {
        const char *slash = strchr(part, '/');
        fault = fault_of_part(part, slash ? (size_t)(slash - part) : strlen(part));
        part = slash ? slash + 1 : NULL;
    }
    return fault ? fault : depth > PRN_NAME_DEPTH_MAX ? "has more than 16 parts" : NULL;
}

int prn_name_check(const char *name, size_t length, struct prony_error *err)
{
    const char *fault = fault_of_name(name, length);
    if (!fault)
        return 0;
    int shown = (int)(length < 80 ? length : 80);
    return prn_fail(err, PRONY_EFORMAT, "file name '%.*s%s' %s", shown, name ? name : "",
                    length > 80 ? "..." : "", fault);
}

/* Without the path of the folder, which is nobody's business. */
static int fail_part(struct prony_error *err, int error, const char *name)
{
    if (error == ELOOP || error == ENOTDIR)
        return prn_fail(err, PRONY_EUSAGE, "file name '%s' needs a folder where a file is", name);
    return prn_fail_errno(err, error, "use file name", name);
}

int prn_name_folder(int folder_fd, const char *name, int *ret_fd, const char **ret_last,
                    struct prony_error *err)
{
    int code = prn_name_check(name, strlen(name), err);
    if (code < 0)
        return code;
    int fd = openat(folder_fd, ".", FOLDER_FLAGS);
    if (fd < 0)
        return fail_part(err, errno, name);
    const char *part = name;
    for (const char *slash; (slash = strchr(part, '/')); part = slash + 1) {
        char folder[PRN_NAME_PART_MAX + 1];
        snprintf(folder, sizeof folder, "%.*s", (int)(slash - part), part);
        int next = -1;
        if (mkdirat(fd, folder, 0700) == 0 || errno == EEXIST)
            next = openat(fd, folder, FOLDER_FLAGS);
        int error = errno;
        close(fd);
        if (next < 0)
            return fail_part(err, error, name);
        fd = next;
    }
    *ret_fd = fd;
    *ret_last = part;
    return 0;
}

int prn_name_open(int folder_fd, const char *name, int *ret_fd, struct prony_error *err)
{
    int code = prn_name_check(name, strlen(name), err);
    if (code < 0)
        return code;
    int fd = openat(folder_fd, ".", FOLDER_FLAGS);
    const char *part = name;
    while (fd >= 0) {
        const char *slash = strchr(part, '/');
        char text[PRN_NAME_PART_MAX + 1];
        snprintf(text, sizeof text, "%.*s", (int)(slash ? slash - part : PRN_NAME_PART_MAX), part);
        /* O_NONBLOCK: a pipe of that name must not hold anybody up. */
        int next = openat(fd, text,
                          slash ? FOLDER_FLAGS
                                : O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        int error = errno;
        close(fd);
        errno = error;
        fd = next;
        if (!slash)
            break;
        part = slash + 1;
    }
    if (fd < 0)
        return prn_fail_errno(err, errno, "open", name);
    *ret_fd = fd;
    return 0;
}

int prn_folder_make(int parent_fd, const char *name, int *ret_fd, struct prony_error *err)
{
    if (mkdirat(parent_fd, name, 0700) < 0)
        return prn_fail_errno(err, errno, "create folder", name);
    int fd = openat(parent_fd, name, FOLDER_FLAGS);
    if (fd < 0)
        return prn_fail_errno(err, errno, "open folder", name);
    *ret_fd = fd;
    return 0;
}

/* Opens a folder of ours to empty it, whatever its mode is. */
static DIR *open_to_empty(int parent_fd, const char *name)
{
    int fd = openat(parent_fd, name, FOLDER_FLAGS);
    if (fd < 0 && errno == EACCES && fchmodat(parent_fd, name, 0700, AT_SYMLINK_NOFOLLOW) == 0)
        fd = openat(parent_fd, name, FOLDER_FLAGS);
    if (fd < 0)
        return NULL;
    fchmod(fd, 0700); /* if it fails, so does what comes */
    DIR *folder = fdopendir(fd);
    if (!folder)
        close(fd);
    return folder;
}

/* Moves a folder up to the top of its tree, under a name that is free there. */
static int move_up(int from_fd, const char *name, int top_fd, unsigned long *counter)
{
    for (bool opened = false;;) {
        char moved[32];
        snprintf(moved, sizeof moved, "moved-%lu", (*counter)++);
        if (renameat2(from_fd, name, top_fd, moved, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno == EEXIST)
            continue;
        /* One that can't be written to can't be moved. */
        if (errno != EACCES || opened || fchmodat(from_fd, name, 0700, AT_SYMLINK_NOFOLLOW) < 0)
            return -1;
        opened = true;
    }
}

/* Empties a folder of a tree: files are removed, folders moved up. 0, or -1 with errno. */
static int flatten(int top_fd, const char *name, unsigned long *counter)
{
    DIR *folder = open_to_empty(top_fd, name);
    if (!folder)
        return errno == ENOENT ? 0 : -1;
    int result = 0;
    const struct dirent *entry;
    while (result == 0 && (entry = readdir(folder))) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        result = unlinkat(dirfd(folder), entry->d_name, 0);
        if (result < 0 && (errno == EISDIR || errno == EPERM))
            result = move_up(dirfd(folder), entry->d_name, top_fd, counter);
        if (result < 0 && errno == ENOENT)
            result = 0;
    }
    int error = errno;
    closedir(folder);
    errno = error;
    return result;
}

/* Removes what is in the top folder, and meets the folders that were moved up in later rounds. So
 * neither depth nor descriptors depend on what somebody has made there. What is gone meanwhile,
 * because a process that used the folder tidies up after itself, is as good as removed. */
static int empty_tree(DIR *top)
{
    unsigned long counter = 0;
    for (bool again = true; again;) {
        again = false;
        rewinddir(top);
        const struct dirent *entry;
        while ((entry = readdir(top))) {
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
                continue;
            if (unlinkat(dirfd(top), entry->d_name, 0) == 0 || errno == ENOENT)
                continue;
            if (errno != EISDIR && errno != EPERM)
                return -1;
            if (flatten(dirfd(top), entry->d_name, &counter) < 0 ||
                (unlinkat(dirfd(top), entry->d_name, AT_REMOVEDIR) < 0 && errno != ENOENT))
                return -1;
            again = true;
        }
    }
    return 0;
}

int prn_folder_remove(int parent_fd, const char *name, struct prony_error *err)
{
    DIR *top = open_to_empty(parent_fd, name);
    if (!top)
        return errno == ENOENT ? 0 : prn_fail_errno(err, errno, "remove folder", name);
    int result = empty_tree(top);
    int error = errno;
    closedir(top);
    if (result == 0 && unlinkat(parent_fd, name, AT_REMOVEDIR) < 0) {
        result = -1;
        error = errno;
    }
    return result == 0 ? 0 : prn_fail_errno(err, error, "remove folder", name);
}
