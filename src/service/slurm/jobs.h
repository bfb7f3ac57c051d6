/* Jobs of Slurm as the service knows them. Used by src/service/slurm*.c only; all of it is under
 * the service's lock, but only the thread of slurm.c adds and frees jobs, so it may keep a pointer
 * to one while it has given the lock up. */
#ifndef PRN_SERVICE_SLURM_JOBS_H
#define PRN_SERVICE_SLURM_JOBS_H

#include "service/slurm/slurm.h"
#include "service/slurm/command.h"
#include "service/slurm/store.h"

#define PRN_SLURM_LABEL_SIZE 9
#define PRN_SLURM_TROUBLE_SIZE PRONY_ERROR_TEXT_SIZE

struct prn_slurm_job {
    uint64_t id; /* Slurm's; 0: it is being submitted */
    char label[PRN_SLURM_LABEL_SIZE];
    char hardware[256];
    uint8_t key[PRN_TOKEN_HASH_BYTES], token[PRN_TOKEN_HASH_BYTES];
    bool has_key, has_token; /* a key that was used is no more */
    int64_t used_ns;         /* when the key was used; 0: not since the service started */
    bool joined;             /* its worker was there once */
    bool listed;             /* squeue knows it */
    bool odd;                /* the last list lacked it */
    unsigned missed;         /* lists in a row without it, when nobody knew of it */
    bool dirty;              /* the database doesn't know it like this */
    struct prn_host *host;   /* its worker; NULL: not connected */
    struct prn_slurm_row row;
    int64_t join_by_ns;         /* 0: it doesn't run yet, or has joined */
    int64_t idle_ns;            /* since when its worker is free; 0: it isn't */
    bool cancel;                /* nobody needs it */
    int64_t cancelled_ns;       /* when Slurm was last told so; 0: not yet */
    bool leaving;               /* its worker takes no further session, */
    bool told;                  /* and was told to go */
    struct prn_slurm_job *next; /* submitted after it */
};

/* What went wrong lately with a hardware's jobs. */
struct prn_slurm_pool {
    char hardware[256];
    size_t failures;  /* in a row */
    bool full;        /* Slurm takes no further job as long as the service has these */
    int64_t retry_ns; /* no job is submitted before */
    char trouble[PRN_SLURM_TROUBLE_SIZE];
    struct prn_slurm_pool *next;
};

struct prn_slurm {
    struct prn_service *service;
    struct prn_slurm_store *store;
    pthread_t thread;
    bool running;
    pthread_cond_t wake;
    volatile int stopping;
    bool changed PRN_LOCKED; /* since the thread last looked */
    char *address;
    struct prn_slurm_job *jobs PRN_LOCKED;
    struct prn_slurm_pool *pools PRN_LOCKED;
    int64_t poll_ns PRN_LOCKED;   /* when squeue is asked next */
    int64_t asked_ns PRN_LOCKED;  /* when it was asked what jobs' rows say */
    int64_t silent_ns PRN_LOCKED; /* since when Slurm doesn't answer; 0: it does */
    int64_t doubt_ns PRN_LOCKED;  /* until when there may be a job that isn't known */
    char silence[PRN_SLURM_TROUBLE_SIZE];
    struct prn_metric *failed;
};

/* A job that isn't cancelled and whose worker isn't there: it will come, or come back. */
bool prn_slurm_job_is_coming(const struct prn_slurm_job *job);
/* The state of a hardware; NULL: out of memory. */
struct prn_slurm_pool *prn_slurm_pool_of_locked(struct prn_slurm *slurm, const char *hardware)
    PRN_HOLDS(prn_service);
/* The configuration of a pool of type slurm; NULL: there is none any more. */
const struct prn_config_pool *prn_slurm_config(const struct prn_service *s, const char *hardware);
/* A hardware can't be had: whoever waits for it, and asks, is told why. */
void prn_slurm_fail_waiting_locked(struct prn_service *s, const char *hardware, const char *why)
    PRN_HOLDS(prn_service);

#endif
