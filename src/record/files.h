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

/* The model's file and its external data, in a folder of its own there; "": in the topmost. */
PRONY_MUST_CHECK int prn_files_add_model(struct prn_files *files, const char *folder,
                                         const char *path, const struct prn_model *model,
                                         struct prony_error *err);
/* Closes all of them. */
void prn_files_release(struct prn_files *files);

/* ---- All files of a measurement ---- */

struct prn_files_wanted {
    struct prn_texts models;   /* paths; at least one */
    struct prn_texts inputs;   /* "NAME=ones", "NAME=@FILE" */
    const char *inputs_folder; /* with input_0.pb, …; NULL: none */
};

/* What they are called there. */
struct prn_files_sent {
    uint64_t model;
    struct prn_texts models; /* the first is PRN_FILES_MODEL */
    struct prn_texts inputs;
    const char *inputs_folder; /* NULL: none */
};

/* Sends the models and the files that the inputs name to a session with n backends. A host that
 * can't take a file can't measure either, and will say so. Texts belong to `arena`. */
PRONY_MUST_CHECK int prn_files_send(const struct prn_remote_ops *ops, struct prn_remote *connection,
                                    const struct prn_files_wanted *wanted, size_t n_backends,
                                    struct prn_arena *arena, struct prn_files_sent *ret_sent,
                                    struct prony_error *err);

#endif
