/*
 * A job: profile one model, or several side by side, from the texts that a user gives to the
 * finished profile. What `prony profile` runs, and what any other front end would.
 */
#ifndef PRN_MEASURE_JOB_H
#define PRN_MEASURE_JOB_H

#include "measure/backends.h"
#include "measure/load/load.h"

struct prn_job;

/* Where a job is measured instead of on this machine. */
struct prn_job_place {
    /* Backends that exist there, and profile->results with what they are. Memory of the backends
     * belongs to `arena`. */
    int (*resolve)(void *context, const struct prn_job *job, const struct prn_texts *texts,
                   struct prn_arena *arena, struct prn_profile *profile,
                   struct prn_spec **ret_backends, size_t *ret_n, struct prony_error *err);
    /* Fills the results, one for each point and backend, and what follows from them. */
    int (*measure)(void *context, const struct prn_job *job, const struct prn_spec *backends,
                   size_t n, struct prn_profile *profile, struct prony_error *err);
    void *context;
};

struct prn_job_model {
    const char *name; /* NULL: the file's */
    const char *path;
};

struct prn_job {
    const struct prn_job_model *models;
    size_t n_models;
    struct prn_texts backends; /* specs, with lists; none: every runtime that is found here */
    struct prn_texts dims;     /* "batch=8", "batch=1,2,4" */
    struct prn_texts shapes;   /* "NAME=1x3x224x224", or several of them */
    struct prn_texts inputs;   /* "NAME=ones" */
    const char *inputs_folder; /* NULL: none */
    const char *hardware_file; /* NULL: none */
    const char *hardware;      /* what this machine is called in specs; NULL: "local" */
    struct prn_settings settings;
    bool tolerance_by_model;       /* nobody said which: it depends on how the model computes */
    bool ops;                      /* also find out where the time goes, by operator and node */
    bool memory;                   /* also find out where the memory goes */
    struct prn_load_settings load; /* nothing asked for: no load */
    double timeout_s;
    const volatile int *cancelled;
    void (*progress)(void *context, const struct prn_progress *progress);
    prn_checkpoint *checkpoint; /* NULL: none */
    void *context;
    /* An interrupted profile to go on with; NULL: none. It must have passed prn_resume_check(), and
     * prn_resume_settings() have chosen the settings. Points and backends that the texts leave out
     * are taken from it; what contradicts it is refused. */
    const struct prn_profile *resume;
    const struct prn_job_place *place; /* NULL: here */
};

/* Fails when the model, an input or a backend's name is wrong. A backend that fails to run is a
 * result with an error. */
PRONY_MUST_CHECK int prn_job_run(const struct prn_job *job, struct prn_profile **ret_profile,
                                 struct prony_error *err);

#endif
