#include "exec/program.h"

#include "base/self.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether folder/name is a program; `path` is written only then. */
static bool try_path(const char *folder, size_t folder_len, const char *name, char path[PATH_MAX])
{
    char candidate[PATH_MAX];
    struct stat status;
    int n = snprintf(candidate, sizeof candidate, "%.*s/%s", (int)folder_len, folder, name);
    if (folder_len >= PATH_MAX || n >= PATH_MAX || stat(candidate, &status) < 0 ||
        !S_ISREG(status.st_mode) || access(candidate, X_OK) < 0)
        return false;
    memcpy(path, candidate, (size_t)n + 1);
    return true;
}

/* Beside the library (a build folder), or in the prefix that it was installed into. */
static bool try_beside(char path[PATH_MAX])
{
    char folder[PATH_MAX];
    if (!prn_own_folder(folder))
        return false;
    size_t len = strlen(folder);
    if (try_path(folder, len, "prony", path) || try_path(folder, len, PRN_BUNDLE "bin/prony", path))
        return true;
    /* PRN_LIBDIR is "lib" or deeper, "lib/x86_64-linux-gnu": its parts are left upwards. */
    char up[PATH_MAX] = "../bin/prony";
    for (const char *c = PRN_LIBDIR; (c = strchr(c, '/')) && strlen(up) < sizeof up - 4; c++) {
        memmove(up + 3, up, strlen(up) + 1);
        memcpy(up, "../", 3);
    }
    return try_path(folder, len, up, path);
}

static bool try_search_path(char path[PATH_MAX])
{
    const char *folder = secure_getenv("PATH");
    while (folder && *folder) {
        size_t len = strcspn(folder, ":");
        if (len > 0 && try_path(folder, len, "prony", path))
            return true;
        folder += len + (folder[len] == ':');
    }
    return false;
}

/* A program that was named must be there: another one would be a surprise. */
static int check_named(const char *who, const char *wanted, char ret_path[PATH_MAX],
                       struct prony_error *err)
{
    char path[PATH_MAX];
    if (!realpath(wanted, path) || access(path, X_OK) < 0)
        return prn_fail(err, PRONY_EUNAVAILABLE, "cannot run '%s' (from %s): %s", wanted, who,
                        strerror(errno));
    memcpy(ret_path, path, strlen(path) + 1);
    return 0;
}

int prony_program(char **ret_path, struct prony_error *err)
{
    char path[PATH_MAX];
    if (!ret_path)
        return prn_fail(err, PRONY_EUSAGE, "ret_path is needed");
    int code = prn_program_find(NULL, path, err);
    if (code < 0)
        return code;
    char *copy = strdup(path);
    if (!copy)
        return prn_fail_memory(err);
    *ret_path = copy;
    return 0;
}

int prn_program_find(const char *wanted, char ret_path[PATH_MAX], struct prony_error *err)
{
    if (wanted)
        return check_named("the option 'program'", wanted, ret_path, err);
    const char *named = secure_getenv("PRONY_PROGRAM");
    if (named && *named)
        return check_named("PRONY_PROGRAM", named, ret_path, err);
    if (try_beside(ret_path) || try_search_path(ret_path))
        return 0;
    return prn_fail(err, PRONY_EUNAVAILABLE,
                    "cannot find the program 'prony', which runs models, beside the library or on "
                    "PATH; set PRONY_PROGRAM");
}
