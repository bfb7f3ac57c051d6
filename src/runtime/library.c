#include "runtime/library.h"

#include "base/buffer.h"
#include "base/self.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct attempt {
    struct prn_library *library;
    struct prn_buffer broken; /* what is there and can't be loaded, and why */
};

static bool try_load(struct attempt *a, const char *name, const char *origin)
{
    struct link_map *map = NULL;
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *reason = dlerror();
        bool absent = strchr(name, '/') ? access(name, F_OK) != 0
                                        : reason && strstr(reason, "cannot open shared object");
        if (!absent)
            prn_buffer_printf(&a->broken, "%s%s", a->broken.len ? "; " : "", reason);
        return false;
    }
    a->library->handle = handle;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map)
        snprintf(a->library->path, sizeof a->library->path, "%s", map->l_name);
    snprintf(a->library->origin, sizeof a->library->origin, "%s", origin);
    return true;
}

/* What set-up fetched lies beside this program or library. */
static bool try_beside(struct attempt *a, const struct prn_library_search *s)
{
    static const struct {
        const char *path;
        bool has_folders; /* one for each runtime */
    } places[] = {{"deps", true},
                  {"../lib/prony", false},
                  {"prony", false},
                  {"../" PRN_LIBDIR "/prony", false},
                  {"../deps", true}};
    char folder[PATH_MAX];
    char real[PATH_MAX];
    bool loaded = false;
    if (!prn_own_folder(folder))
        return false;
    for (size_t i = 0; !loaded && i < PRN_ARRAY_SIZE(places); i++) {
        struct prn_buffer path = PRN_BUFFER_INIT(2 * PATH_MAX);
        prn_buffer_printf(&path, "%s/%s/%s%s%s", folder, places[i].path,
                          places[i].has_folders ? s->folder : "", places[i].has_folders ? "/" : "",
                          s->names[0]);
        if (!path.error && realpath(prn_buffer_text(&path), real))
            loaded = try_load(a, real, "beside prony");
        prn_buffer_release(&path);
    }
    return loaded;
}

static bool visit_site(void *context, const char *path, const char *origin)
{
    return try_load(context, path, origin);
}

static bool search_all(struct attempt *a, const struct prn_library_search *s)
{
    if (try_beside(a, s) || prn_site_search(&s->site, visit_site, a))
        return true;
    bool loaded = false;
    for (size_t i = 0; !loaded && i < PRN_LIBRARY_NAMES_MAX && s->names[i]; i++)
        loaded = try_load(a, s->names[i], "the loader's path");
    return loaded;
}

/* A file that was asked for, and by what: {"/opt/libonnxruntime.so", "--ort-lib"}. */
struct wanted {
    const char *path; /* NULL: none */
    const char *by;
};

/* The variable beside a library's own that says which option has set that. */
static void name_origin(const struct prn_library_search *s, char name[64])
{
    snprintf(name, 64, "%s_BY", s->variable);
}

static struct wanted wanted_by(const struct prn_library_search *s,
                               const struct prn_runtime_config *config)
{
    const char *path = prn_runtime_option_of(config, "lib", config->loaded);
    if (path)
        return (struct wanted){path, "lib="};
    if (config->library)
        return (struct wanted){config->library, "the session's options"};
    char origin[64];
    name_origin(s, origin);
    const char *by = secure_getenv(origin);
    return (struct wanted){secure_getenv(s->variable), by ? by : s->variable};
}

static int load_wanted(struct attempt *a, const struct prn_library_search *s,
                       const struct wanted *wanted, struct prony_error *err)
{
    if (try_load(a, wanted->path, wanted->by))
        return 0;
    const char *reason = "the file does not exist";
    if (a->broken.len)
        reason = prn_buffer_text(&a->broken);
    else if (!strchr(wanted->path, '/'))
        reason = "the loader does not find it; a file of this folder begins with ./";
    return prn_fail(err, PRONY_EUNAVAILABLE, "cannot load %s from '%s' (%s): %s", s->title,
                    wanted->path, wanted->by, reason);
}

static int load_any(struct attempt *a, const struct prn_library_search *s, struct prony_error *err)
{
    if (search_all(a, s))
        return 0;
    if (a->broken.len)
        return prn_fail(err, PRONY_EUNAVAILABLE, "cannot load %s: %s; %s", s->title,
                        prn_buffer_text(&a->broken), s->how_to_get);
    return prn_fail(err, PRONY_EUNAVAILABLE, "%s was not found; %s", s->title, s->how_to_get);
}

int prn_library_load(const struct prn_library_search *search,
                     const struct prn_runtime_config *config, struct prn_library *ret_library,
                     struct prony_error *err)
{
    struct attempt a = {.library = ret_library, .broken = PRN_BUFFER_INIT(4096)};
    const struct wanted wanted = wanted_by(search, config);
    int code = wanted.path && wanted.path[0] ? load_wanted(&a, search, &wanted, err)
                                             : load_any(&a, search, err);
    prn_buffer_release(&a.broken);
    return code;
}

int prn_library_choose(const struct prn_library_search *search, const char *path,
                       struct prony_error *err)
{
    char origin[64];
    char by[64];
    name_origin(search, origin);
    snprintf(by, sizeof by, "--%s", search->option);
    /* A name without a folder is the loader's to find. */
    if (strchr(path, '/') && access(path, R_OK) < 0)
        return prn_fail(err, PRONY_EUNAVAILABLE, "cannot load %s from '%s' (%s): %s", search->title,
                        path, by, strerror(errno));
    if (setenv(search->variable, path, 1) < 0 || setenv(origin, by, 1) < 0)
        return prn_fail_memory(err);
    return 0;
}

bool prn_library_is_chosen(const struct prn_library_search *search)
{
    const char *path = secure_getenv(search->variable);
    return path && path[0];
}

const char *prn_library_chosen_for(const struct prn_library_choice *choice,
                                   const struct prn_runtime_ops *ops)
{
    return choice->path && ops->search && strcmp(choice->option, ops->search->option) == 0
               ? choice->path
               : NULL;
}
