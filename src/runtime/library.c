#include "runtime/library.h"

#include "base/buffer.h"
#include "base/self.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *try_load(const char *name, struct prn_buffer *tried)
{
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        const char *reason = dlerror();
        /* A path that isn't there is not worth a line of the loader's. */
        bool absent = strchr(name, '/') ? access(name, F_OK) != 0
                                        : reason && strstr(reason, "cannot open shared object");
        prn_buffer_printf(tried, "%s'%s' (%s)", tried->len ? ", " : "", name,
                          absent ? "not found" : reason);
    }
    return handle;
}

/* What set-up fetched lies beside this program or library. */
static void *try_beside(const struct prn_library_search *s, struct prn_buffer *tried)
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
    void *handle = NULL;
    if (!prn_own_folder(folder))
        return NULL;
    for (size_t i = 0; !handle && i < PRN_ARRAY_SIZE(places); i++) {
        struct prn_buffer path = PRN_BUFFER_INIT(2 * PATH_MAX);
        prn_buffer_printf(&path, "%s/%s/%s%s%s", folder, places[i].path,
                          places[i].has_folders ? s->folder : "", places[i].has_folders ? "/" : "",
                          s->names[0]);
        if (!path.error && access(prn_buffer_text(&path), F_OK) == 0)
            handle = try_load(prn_buffer_text(&path), tried);
        prn_buffer_release(&path);
    }
    return handle;
}

static void *search_all(const struct prn_library_search *s, const char *wanted,
                        struct prn_buffer *tried)
{
    const char *from_environment = getenv(s->variable);
    if (wanted)
        return try_load(wanted, tried);
    if (from_environment && from_environment[0])
        return try_load(from_environment, tried);
    void *handle = NULL;
    for (size_t i = 0; !handle && i < PRN_LIBRARY_NAMES_MAX && s->names[i]; i++)
        handle = try_load(s->names[i], tried);
    return handle ? handle : try_beside(s, tried);
}

int prn_library_load(const struct prn_library_search *search, const char *wanted, void **ret_handle,
                     char *ret_path, size_t size, struct prony_error *err)
{
    struct prn_buffer tried = PRN_BUFFER_INIT(4096);
    void *handle = search_all(search, wanted, &tried);
    int code = 0;
    if (!handle)
        code = prn_fail(err, PRONY_EUNAVAILABLE, "cannot load %s: %s; tried %s", search->title,
                        search->how_to_get, prn_buffer_text(&tried));
    prn_buffer_release(&tried);
    if (code < 0)
        return code;
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map)
        snprintf(ret_path, size, "%s", map->l_name);
    *ret_handle = handle;
    return 0;
}
