#include "runtime/site.h"

#include "base/self.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PYTHON_NAME_MAX 32

struct search {
    const struct prn_site_file *file;
    prn_site_visit *visit;
    void *context;
    const char *origin;
};

/* False when it doesn't fit, and then the path is "". */
static bool join(char path[PATH_MAX], const char *folder, const char *name)
{
    int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    if (n >= 0 && n < PATH_MAX)
        return true;
    path[0] = '\0';
    return false;
}

static bool exists(const char *folder, const char *name)
{
    char path[PATH_MAX];
    return join(path, folder, name) && access(path, F_OK) == 0;
}

/* The folder that a path lies in. */
static bool parent(char folder[PATH_MAX], const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash || slash - path >= PATH_MAX)
        return false;
    snprintf(folder, PATH_MAX, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return true;
}

/* Of the names in a folder that begin like this, the one with the highest version. */
static bool newest(const char *folder, const char *beginning, char name[NAME_MAX + 1])
{
    DIR *dir = opendir(folder);
    name[0] = '\0';
    for (struct dirent *e; dir && (e = readdir(dir));)
        if (strncmp(e->d_name, beginning, strlen(beginning)) == 0 &&
            strverscmp(e->d_name, name) > 0)
            snprintf(name, NAME_MAX + 1, "%s", e->d_name);
    if (dir)
        closedir(dir);
    return name[0] != '\0';
}

/* The value of a line "key = value" or, without a key, the first word of the file. */
static bool read_setting(const char *path, const char *key, char value[PATH_MAX])
{
    char line[PATH_MAX];
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        const char *at = line;
        if (key && (strncmp(line, key, strlen(key)) != 0 || !(at = strchr(line, '='))))
            continue;
        at += strspn(at, "= \t");
        int len = (int)strcspn(at, "\r\n");
        while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t'))
            len--;
        found = len > 0 && *at != '#';
        snprintf(value, PATH_MAX, "%.*s", len, at);
    }
    if (file)
        fclose(file);
    return found;
}

/* ---- Places ---- */

static bool try_folder(const struct search *s, const char *folder)
{
    char name[NAME_MAX + 1];
    char path[PATH_MAX];
    return newest(folder, s->file->name, name) && join(path, folder, name) &&
           s->visit(s->context, path, s->origin);
}

static bool try_packages(const struct search *s, const char *prefix, const char *packages)
{
    char site[PATH_MAX];
    char folder[PATH_MAX];
    return join(site, prefix, packages) && join(folder, site, s->file->folder) &&
           try_folder(s, folder);
}

/* What belongs to a Python that is installed below `prefix`; `python` is "python3.11", or NULL for
 * the newest one there. */
static bool try_prefix(const struct search *s, const char *prefix, const char *python)
{
    static const char *const layouts[] = {"lib/%s/site-packages", "lib64/%s/site-packages",
                                          "local/lib/%s/dist-packages", "lib/%s/dist-packages"};
    char lib[PATH_MAX];
    char name[NAME_MAX + 1];
    char packages[2 * NAME_MAX];
    if (!python && join(lib, prefix, "lib") && newest(lib, "python3.", name))
        python = name;
    for (size_t i = 0; python && i < sizeof layouts / sizeof layouts[0]; i++) {
        snprintf(packages, sizeof packages, layouts[i], python);
        if (try_packages(s, prefix, packages))
            return true;
    }
    return try_packages(s, prefix, "lib/python3/dist-packages");
}

/* The user's own packages come before those of the installation. */
static bool try_user(const struct search *s, const char *python)
{
    char local[PATH_MAX];
    char packages[2 * NAME_MAX];
    const char *base = secure_getenv("PYTHONUSERBASE");
    const char *home = secure_getenv("HOME");
    if (!base || base[0] != '/') {
        if (!home || home[0] != '/' || !join(local, home, ".local"))
            return false;
        base = local;
    }
    snprintf(packages, sizeof packages, "lib/%s/site-packages", python);
    return try_packages(s, base, packages);
}

/* An interpreter that is no link to another one: its name has the version, and it lies in bin. */
static bool try_installation(const struct search *s, const char *interpreter)
{
    char folder[PATH_MAX];
    char prefix[PATH_MAX];
    char python[PYTHON_NAME_MAX] = "";
    if (!parent(folder, interpreter) || !parent(prefix, folder))
        return false;
    const char *name = strrchr(interpreter, '/') + 1;
    if (strncmp(name, "python3.", strlen("python3.")) == 0 && strlen(name) < sizeof python)
        memcpy(python, name, strlen(name) + 1);
    return (python[0] && try_user(s, python)) || try_prefix(s, prefix, python[0] ? python : NULL);
}

/* With the packages of the Python that it was made with where its configuration says so. */
static bool try_virtual(const struct search *s, const char *prefix)
{
    char config[PATH_MAX];
    char value[PATH_MAX];
    char python[PATH_MAX];
    char real[PATH_MAX];
    if (try_prefix(s, prefix, NULL))
        return true;
    return join(config, prefix, "pyvenv.cfg") &&
           read_setting(config, "include-system-site-packages", value) &&
           strcasecmp(value, "true") == 0 && read_setting(config, "home", value) &&
           join(python, value, "python3") && realpath(python, real) && try_installation(s, real);
}

/* ---- The Python on PATH ---- */

/* The version that pyenv would choose: that of the environment, of this folder or one above it, or
 * of the user. */
static bool pyenv_version(const char *root, char version[PATH_MAX])
{
    char folder[PATH_MAX];
    char path[PATH_MAX];
    const char *given = secure_getenv("PYENV_VERSION");
    if (given && given[0]) {
        snprintf(version, PATH_MAX, "%s", given);
        return true;
    }
    bool more = getcwd(folder, sizeof folder) != NULL;
    while (more) {
        if (join(path, folder, ".python-version") && read_setting(path, NULL, version))
            return true;
        more = strcmp(folder, "/") != 0 && parent(folder, strcpy(path, folder));
    }
    return join(path, root, "version") && read_setting(path, NULL, version);
}

/* The interpreter of a version, which may be the beginning of one: "3.11" means the newest 3.11. */
static bool pyenv_interpreter(const char *root, char interpreter[PATH_MAX])
{
    char version[PATH_MAX];
    char versions[PATH_MAX];
    char beginning[NAME_MAX + 1];
    char name[NAME_MAX + 1];
    char folder[PATH_MAX];
    if (!pyenv_version(root, version) || !join(versions, root, "versions"))
        return false;
    version[strcspn(version, ": \t")] = '\0'; /* the first of several */
    if (!version[0] || version[0] == '.' || strchr(version, '/') || strlen(version) >= NAME_MAX)
        return false;
    snprintf(beginning, sizeof beginning, "%.*s.", NAME_MAX - 1, version);
    if (exists(versions, version))
        snprintf(name, sizeof name, "%.*s", NAME_MAX, version);
    else if (!newest(versions, beginning, name))
        return false;
    return join(folder, versions, name) && join(interpreter, folder, "bin/python3");
}

static bool try_interpreter(const struct search *s, const char *interpreter)
{
    char folder[PATH_MAX];
    char prefix[PATH_MAX];
    char real[PATH_MAX];
    if (!parent(folder, interpreter) || !parent(prefix, folder))
        return false;
    if (exists(prefix, "pyvenv.cfg"))
        return try_virtual(s, prefix);
    return realpath(interpreter, real) && try_installation(s, real);
}

/* pyenv puts scripts named like the programs into a folder of its own. `ret_more` says whether the
 * next `python3` on PATH is meant instead. */
static bool try_on_path(const struct search *s, const char *folder, bool *ret_more)
{
    char interpreter[PATH_MAX];
    char root[PATH_MAX];
    *ret_more = true;
    if (folder[0] != '/' || !join(interpreter, folder, "python3") || access(interpreter, X_OK) != 0)
        return false;
    const char *name = strrchr(folder, '/') + 1;
    bool shim = strcmp(name, "shims") == 0 && parent(root, folder) && exists(root, "versions");
    if (shim && !pyenv_interpreter(root, interpreter))
        return false;
    *ret_more = false;
    return try_interpreter(s, interpreter);
}

static bool try_path(const struct search *s)
{
    const char *path = secure_getenv("PATH");
    char folder[PATH_MAX];
    bool more = path != NULL;
    bool found = false;
    for (size_t n; more && *path; path += n + (path[n] == ':')) {
        n = strcspn(path, ":");
        snprintf(folder, sizeof folder, "%.*s", (int)(n < PATH_MAX ? n : 0), path);
        for (size_t len = strlen(folder); len > 1 && folder[len - 1] == '/';)
            folder[--len] = '\0';
        found = try_on_path(s, folder, &more);
    }
    return found;
}

/* What is installed beside the Python package that this program is a part of. */
static bool try_own(const struct search *s)
{
    static const char below[] = "/prony/" PRN_BUNDLE "bin";
    char packages[PATH_MAX];
    char folder[PATH_MAX];
    if (!prn_own_folder(packages) || strlen(packages) <= strlen(below))
        return false;
    char *end = packages + strlen(packages) - strlen(below);
    if (strcmp(end, below) != 0)
        return false;
    *end = '\0';
    return join(folder, packages, s->file->folder) && try_folder(s, folder);
}

bool prn_site_search(const struct prn_site_file *file, prn_site_visit *visit, void *context)
{
    struct search s = {file, visit, context, "prony's Python environment"};
    char lib[PATH_MAX];
    if (try_own(&s))
        return true;
    s.origin = "VIRTUAL_ENV";
    const char *environment = secure_getenv("VIRTUAL_ENV");
    if (environment && environment[0] == '/' && try_virtual(&s, environment))
        return true;
    s.origin = "CONDA_PREFIX";
    environment = secure_getenv("CONDA_PREFIX");
    if (environment && environment[0] == '/' &&
        (try_prefix(&s, environment, NULL) ||
         (join(lib, environment, "lib") && try_folder(&s, lib))))
        return true;
    s.origin = "python3 on PATH";
    return try_path(&s);
}
