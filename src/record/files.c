#include "record/files.h"

#include "base/array.h"
#include "model/external.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define INPUTS_FOLDER "inputs"
#define TEST_DATA_FOLDER "inputs/test_data"
#define MODELS_FOLDER "models"

static bool is_there(const struct prn_files *files, const char *name)
{
    for (size_t i = 0; i < files->n; i++)
        if (strcmp(files->items[i].name, name) == 0)
            return true;
    return false;
}

/* Takes the descriptor; the name is copied. */
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

static int add_file(struct prn_files *files, const char *name, const char *path,
                    struct prony_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? prn_fail_errno(err, errno, "open", path) : add(files, name, fd, err);
}

/* A name in a folder there. */
static int join(const char *folder, const char *name, char *ret_path, struct prony_error *err)
{
    if (snprintf(ret_path, PATH_MAX, "%s%s", folder, name) >= PATH_MAX)
        return prn_fail(err, PRONY_ELIMIT, "the name '%.64s...' is too long", name);
    return 0;
}

static int add_external(struct prn_files *files, const char *folder, const char *path,
                        const struct prn_model *model, struct prony_error *err)
{
    int here;
    int code = prn_external_folder(path, &here, err);
    if (code < 0)
        return code;
    for (size_t i = 0; code == 0 && i < model->n_external_files; i++) {
        const char *location = model->external_files[i];
        char name[PATH_MAX];
        code = join(folder, location, name, err);
        if (code == 0 && is_there(files, name))
            code = prn_fail(err, PRONY_EUNSUPPORTED,
                            "'%s' keeps data in '%s', which is what a service calls another file",
                            path, location);
        int fd = code == 0 ? prn_external_open(here, location) : -1;
        if (code == 0)
            code =
                fd < 0 ? prn_fail_errno(err, errno, "open", location) : add(files, name, fd, err);
    }
    close(here);
    return code;
}

int prn_files_add_model(struct prn_files *files, const char *folder, const char *path,
                        const struct prn_model *model, struct prony_error *err)
{
    char name[PATH_MAX];
    int code = join(folder, PRN_FILES_MODEL, name, err);
    if (code == 0)
        code = add_file(files, name, path, err);
    if (code == 0 && model->n_external_files > 0)
        code = add_external(files, folder, path, model, err);
    return code;
}

void prn_files_release(struct prn_files *files)
{
    for (size_t i = 0; i < files->n; i++)
        close(files->items[i].fd);
    free(files->items);
    prn_arena_release(&files->arena);
}

/* ---- All files of a measurement ---- */

/* What is behind the last dot, where it can be part of any name. */
static const char *extension(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *dot = strrchr(slash ? slash : path, '.');
    size_t len = dot ? strlen(dot) : 0;
    return len > 1 && len < 16 && strspn(dot + 1, "abcdefghijklmnopqrstuvwxyz0123456789") == len - 1
               ? dot
               : "";
}

/* "NAME=@somewhere/x.npy" goes up as inputs/0.npy. */
static int add_input(struct prn_files *files, const char *text, size_t i, struct prn_arena *arena,
                     const char **ret_text, struct prony_error *err)
{
    struct prn_input_source source;
    char name[64];
    int code = prn_input_source_parse(text, arena, &source, err);
    *ret_text = text;
    if (code < 0 || !source.file)
        return code;
    snprintf(name, sizeof name, INPUTS_FOLDER "/%zu%s", i, extension(source.file));
    struct prn_buffer renamed = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_buffer_printf(&renamed, "%s=@%s", source.name, name);
    code = prn_buffer_error(&renamed, err);
    *ret_text = code == 0 ? prn_arena_strdup(arena, prn_buffer_text(&renamed)) : NULL;
    prn_buffer_release(&renamed);
    if (code == 0 && !*ret_text)
        code = prn_fail_memory(err);
    return code == 0 ? add_file(files, name, source.file, err) : code;
}

/* Whether a text "NAME=…" says what this input is. */
static bool is_named(const struct prn_texts *texts, const char *input, struct prn_arena *arena)
{
    for (size_t i = 0; i < texts->n; i++) {
        struct prn_input_source source;
        if (prn_input_source_parse(texts->items[i], arena, &source, NULL) == 0 &&
            strcmp(source.name, input) == 0)
            return true;
    }
    return false;
}

/* What the folder of inputs has for a model, unless another one sent it. */
static int add_folder(struct prn_files *files, const struct prn_files_wanted *wanted,
                      const struct prn_model *model, struct prn_arena *arena,
                      struct prony_error *err)
{
    const char *folder = wanted->inputs_folder;
    int code = 0;
    for (size_t i = 0; code == 0 && i < model->n_inputs; i++) {
        char name[64];
        char path[PATH_MAX];
        snprintf(name, sizeof name, TEST_DATA_FOLDER "/input_%zu.pb", i);
        if (is_there(files, name) || is_named(&wanted->inputs, model->inputs[i]->name, arena))
            continue;
        if (snprintf(path, sizeof path, "%s/input_%zu.pb", folder, i) >= PATH_MAX)
            return prn_fail(err, PRONY_EUSAGE, "--inputs: the path is too long");
        code = add_file(files, name, path, err);
    }
    return code;
}

/* The first model lies where a service looks for one, the others in folders of their own. */
static int add_one(struct prn_files *files, const struct prn_files_wanted *wanted, size_t i,
                   struct prn_arena *arena, const char **ret_file, struct prony_error *err)
{
    struct prn_model *model;
    char folder[32] = "";
    char name[64];
    if (i > 0)
        snprintf(folder, sizeof folder, MODELS_FOLDER "/%zu/", i);
    snprintf(name, sizeof name, "%s" PRN_FILES_MODEL, folder);
    *ret_file = prn_arena_strdup(arena, name);
    int code =
        *ret_file ? prn_model_open(wanted->models.items[i], &model, err) : prn_fail_memory(err);
    if (code < 0)
        return code;
    code = prn_files_add_model(files, folder, wanted->models.items[i], model, err);
    if (code == 0 && wanted->inputs_folder)
        code = add_folder(files, wanted, model, arena, err);
    prn_model_free(model);
    return code;
}

static int add_wanted(struct prn_files *files, const struct prn_files_wanted *wanted,
                      struct prn_arena *arena, struct prn_files_sent *sent, struct prony_error *err)
{
    const char **models = PRN_ARENA_ARRAY(arena, wanted->models.n, const char *);
    const char **inputs = PRN_ARENA_ARRAY(arena, wanted->inputs.n + 1, const char *);
    int code = models && inputs ? 0 : prn_fail_memory(err);
    for (size_t i = 0; code == 0 && i < wanted->inputs.n; i++)
        code = add_input(files, wanted->inputs.items[i], i, arena, &inputs[i], err);
    for (size_t i = 0; code == 0 && i < wanted->models.n; i++)
        code = add_one(files, wanted, i, arena, &models[i], err);
    sent->models = (struct prn_texts){models, wanted->models.n};
    sent->inputs = (struct prn_texts){inputs, wanted->inputs.n};
    sent->inputs_folder = wanted->inputs_folder ? TEST_DATA_FOLDER : NULL;
    return code;
}

int prn_files_send(const struct prn_remote_ops *ops, struct prn_remote *connection,
                   const struct prn_files_wanted *wanted, size_t n_backends,
                   struct prn_arena *arena, struct prn_files_sent *ret_sent,
                   struct prony_error *err)
{
    struct prn_files files = PRN_FILES_INIT;
    struct prn_files_sent sent = {0};
    struct prn_remote_model model = {0};
    struct prony_error *failures = calloc(n_backends, sizeof *failures);
    int code = failures ? add_wanted(&files, wanted, arena, &sent, err) : prn_fail_memory(err);
    if (code == 0)
        code = ops->upload(connection, &model, files.items, files.n, failures, err);
    sent.model = model.id;
    if (code == 0)
        *ret_sent = sent;
    prn_files_release(&files);
    free(failures);
    return code;
}
