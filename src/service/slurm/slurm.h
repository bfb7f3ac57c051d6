/*
 * Hosts from Slurm: when sessions wait for the hardware of a pool of type slurm, jobs are submitted
 * that run `prony worker`; the workers dial in, serve sessions, and leave.
 *
 * - As many jobs as waiting sessions need, up to the pool's limit, and none that nobody needs.
 * - Slurm's programs are run by one thread, without the service's lock; nobody waits for them.
 * - A job's script has a key that lets one worker in, once. With it the worker gets a token, which
 *   is good until the job has ended; the service keeps hashes of both.
 * - What a restart must find again is in the database (slurm_store.h). A job of this service's name
 *   that isn't there is an orphan, and is cancelled.
 */
#ifndef PRN_SERVICE_SLURM_SLURM_H
#define PRN_SERVICE_SLURM_SLURM_H

#include "service/host/host.h"

/* Before anybody can call: jobs of an earlier process are known again. */
PRONY_MUST_CHECK int prn_slurm_open(struct prn_service *s, struct prony_error *err) PRN_ALONE;
/* At the start and after each change of the configuration, which was checked
 * (slurm_command.h). `address` is where the service listens, for pools that don't name another;
 * NULL: as before. */
PRONY_MUST_CHECK int prn_slurm_start_locked(struct prn_service *s, const char *address,
                                            struct prony_error *err) PRN_HOLDS(prn_service);
/* Without the lock, after the last session: cancels all jobs. */
void prn_slurm_stop(struct prn_service *s);
void prn_slurm_free(struct prn_service *s) PRN_ALONE;

/* Something has changed that may change what is
 * needed: sessions, hosts, the configuration. */
void prn_slurm_wake_locked(struct prn_service *s) PRN_HOLDS(prn_service);

/* Without the lock: whether it is the token of a job's worker. */
bool prn_slurm_identify(struct prn_service *s, const char *token,
                        struct prn_identity *ret_identity);
/* A worker that is a job's says hello, or is gone. */
PRONY_MUST_CHECK int prn_slurm_attach_locked(struct prn_host *host, const Prony__Hello *hello,
                                             struct prony_error *err) PRN_HOLDS(prn_service);
void prn_slurm_detach_locked(struct prn_host *host) PRN_HOLDS(prn_service);
/* Workers.Join */
void prn_join(struct prn_rpc_call *call, struct prn_bytes *message);

/* What Slurm says, for people; in `arena`, NULL: nothing. Of a hardware; to who waits for it, at a
 * place from 1; of a worker. */
char *prn_slurm_note_locked(struct prn_service *s, const char *hardware, struct prn_arena *arena)
    PRN_HOLDS(prn_service);
char *prn_slurm_place_note_locked(struct prn_service *s, const char *hardware, size_t place,
                                  struct prn_arena *arena) PRN_HOLDS(prn_service);
char *prn_slurm_worker_note_locked(const struct prn_host *host, struct prn_arena *arena)
    PRN_HOLDS(prn_service);
/* Sets the gauges. */
void prn_slurm_collect_locked(struct prn_service *s) PRN_HOLDS(prn_service);

#endif
