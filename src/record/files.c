#include "record/files.h"

#include "base/array.h"
#include "model/external.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Takes the descriptor. */
static int add(struct prn_files *files, const char *name, int fd, struct prony_error *err)
{
    struct prn_remote_file *items = prn_array_grow(files->items, files->n, sizeof *items);
    files->items = items ? items : files->items;
    const char *copy = prn_arena_strdup(&files->arena, name);
    if (!items || !copy) {
        close(fd);
        return prn_fail_memory(err);
    }
    items[files->n++] = (struct prn_remote_file){.name = copy, .fd = fd};
    return 0;
}

int prn_files_add(struct prn_files *files, const char *name, const char *path,
                  struct prony_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? prn_fail_errno(err, errno, "open", path) : add(files, name, fd, err);
}

static int add_external(struct prn_files *files, const char *path, const struct prn_model *model,
                        struct prony_error *err)
{
    int folder;
    int code = prn_external_folder(path, &folder, err);
    if (code < 0)
        return code;
    for (size_t i = 0; code == 0 && i < model->n_external_files; i++) {
        const char *location = model->external_files[i];
        int fd = prn_external_open(folder, location);
        if (strcmp(location, PRN_FILES_MODEL) == 0)
            code = prn_fail(err, PRONY_EUNSUPPORTED,
                            "'%s' keeps data in '%s', which is what a service calls the model",
                            path, location);
        if (code == 0 && fd < 0)
            code = prn_fail_errno(err, errno, "open", location);
        else if (code < 0 && fd >= 0)
            close(fd);
        else if (code == 0)
            code = add(files, location, fd, err);
    }
    close(folder);
    return code;
}

int prn_files_add_model(struct prn_files *files, const char *path, const struct prn_model *model,
                        struct prony_error *err)
{
    int code = prn_files_add(files, PRN_FILES_MODEL, path, err);
    if (code == 0 && model->n_external_files > 0)
        code = add_external(files, path, model, err);
    return code;
}

void prn_files_release(struct prn_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        close(files->items[i].fd);
    free(files->items);
    prn_arena_release(&files->arena);
}
