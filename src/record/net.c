#include "record/net.h"

#include "base/self.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY "libprony_net.so"

/* "" when there is none beside this program or library: in a build folder, an installed library's,
 * an installed program's or a Python package's. */
static void find_beside(char path[PATH_MAX])
{
    static const char *const places[] = {"", "prony/", "../" PRN_LIBDIR "/prony/", "../",
                                         PRN_BUNDLE PRN_LIBDIR "/prony/"};
    char folder[PATH_MAX];
    bool found = false;
    for (size_t i = 0; prn_own_folder(folder) && !found && i < PRN_ARRAY_SIZE(places); i++)
        found = snprintf(path, PATH_MAX, "%s/%s" LIBRARY, folder, places[i]) < PATH_MAX &&
                access(path, F_OK) == 0;
    if (!found)
        path[0] = '\0';
}

int prn_net_load(const struct prn_net **ret_net, struct prony_error *err)
{
    const char *named = secure_getenv("PRONY_NET_LIB");
    char path[PATH_MAX];
    if (named && *named)
        snprintf(path, sizeof path, "%s", named);
    else
        find_beside(path);
    if (!path[0])
        return prn_fail(err, PRONY_EUNAVAILABLE,
                        "cannot use the network: " LIBRARY " is not beside prony; "
                        "PRONY_NET_LIB can name it");
    /* It is never unloaded: gRPC has threads. */
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    const struct prn_net *net = handle ? dlsym(handle, PRN_NET_SYMBOL) : NULL;
    if (!net)
        return prn_fail(err, PRONY_EUNAVAILABLE, "cannot load '%s': %s", path, dlerror());
    if (strcmp(net->version, prony_version()) != 0)
        return prn_fail(err, PRONY_EUNAVAILABLE, "'%s' belongs to prony %s, but this is %s", path,
                        net->version, prony_version());
    *ret_net = net;
    return 0;
}
