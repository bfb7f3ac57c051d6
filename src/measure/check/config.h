/*
 * The file of `prony check` (docs/check.md is its reference): which models, where their old
 * versions come from, what to measure them on, and how much worse the new ones may be.
 *
 * What was read is complete and right: what the file says for all models has been given to each,
 * relative paths begin at the file's own folder, and names are unique. Errors name the file, the
 * line and the key.
 */
#ifndef PRN_MEASURE_CHECK_CONFIG_H
#define PRN_MEASURE_CHECK_CONFIG_H

#include "measure/backends.h"
#include "measure/profile.h"

#define PRN_CHECK_MODELS_MAX 100

/* Where the old version of a model comes from. */
enum prn_check_source {
    PRN_CHECK_SOURCE_NONE, /* the file doesn't say */
    PRN_CHECK_SOURCE_FILE,
    PRN_CHECK_SOURCE_GIT,
    PRN_CHECK_SOURCE_REPORT, /* it is gone, but a profile of it was saved */
};

struct prn_check_old {
    enum prn_check_source source;
    const char *path;     /* of the model or the report; of GIT: where the file was, or NULL */
    const char *revision; /* of GIT */
};

/* How much worse a figure may be, as a fraction; NAN: no limit. */
struct prn_check_limits {
    double time, memory, size;
    bool outputs;     /* they must be the same */
    double tolerance; /* up to this error; NAN: up to rounding */
};

struct prn_check_model {
    const char *name;
    const char *path;    /* of the new version */
    const char *written; /* the same as the file has it, relative to `folder` */
    struct prn_check_old old;
    struct prn_texts backends, dims, shapes, inputs; /* as struct prn_job takes them */
    const char *inputs_folder;                       /* NULL: none */
    struct prn_check_limits limits;
};

struct prn_check_config {
    struct prn_arena arena;
    const char *path;
    const char *folder; /* where relative paths begin */
    struct prn_settings settings;
    double timeout_s;
    struct prn_check_model *models;
    size_t n_models;
};

PRONY_MUST_CHECK int prn_check_config_read(const char *path, struct prn_check_config *ret_config,
                                           struct prony_error *err);
/* The same with a file's content; `path` stands for its path. */
PRONY_MUST_CHECK int prn_check_config_parse(const char *text, size_t len, const char *path,
                                            struct prn_check_config *ret_config,
                                            struct prony_error *err);
void prn_check_config_release(struct prn_check_config *config);

#endif
