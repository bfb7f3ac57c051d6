/* Files on their way to a service, open, each under the name that it will have there. */
#ifndef PRN_RECORD_FILES_H
#define PRN_RECORD_FILES_H

#include "record/remote.h"

/* Under which a model's own file goes up; its external data keeps its names. */
#define PRN_FILES_MODEL "model.onnx"

struct prn_files {
    struct prn_arena arena;
    size_t n;
    struct prn_remote_file *items;
};

#define PRN_FILES_INIT ((struct prn_files){.arena = PRN_ARENA_INIT((size_t)16 << 20)})

/* Opens a file; the name is copied. */
PRONY_MUST_CHECK int prn_files_add(struct prn_files *files, const char *name, const char *path,
                                   struct prony_error *err);
/* The model's file and its external data. */
PRONY_MUST_CHECK int prn_files_add_model(struct prn_files *files, const char *path,
                                         const struct prn_model *model, struct prony_error *err);
/* Closes all of them. */
void prn_files_release(struct prn_files *files);

#endif
