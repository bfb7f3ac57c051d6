/*
 * The stages of a schedule on the hosts of a service (record/remote.h): a session with a host for
 * each, whose hardware is called as the stage's type of device. Batches go from host to host; the
 * inputs go up with the models, and of what comes out the first batches come back.
 *
 *     prn_stage_hosts_open(&setup, models, backend, &hosts, err);
 *     prn_stage_hosts_launch(hosts, &log, err);            as prn_simulation_launch()
 *     prn_stage_hosts_free(hosts);
 */
#ifndef PRN_PIPELINE_SIMULATE_HOSTS_H
#define PRN_PIPELINE_SIMULATE_HOSTS_H

#include "pipeline/simulate/launch.h"
#include "pipeline/simulate/simulate.h"

/* What a host tells of its stage, on its own clock. */
struct prn_stage_told {
    const char *version, *host;
    struct prn_spells runs, sends, arrivals, whole;
    int64_t full_ns, end_ns;
    double growth_bytes, sent_bytes;
};

void prn_stage_told_release(struct prn_stage_told *told);

struct prn_stage_hosts;

/* Waits until all hosts are there. `backend` is without hardware. */
PRONY_MUST_CHECK int prn_stage_hosts_open(const struct prn_simulation_setup *setup,
                                          const struct prn_stage_models *models,
                                          const char *backend, struct prn_stage_hosts **ret_hosts,
                                          struct prony_error *err);
void prn_stage_hosts_free(struct prn_stage_hosts *hosts); /* NULL does nothing */

PRONY_MUST_CHECK int prn_stage_hosts_launch(struct prn_stage_hosts *hosts,
                                            struct prn_simulation_log *ret_log,
                                            struct prony_error *err);
/* After a launch: what the host of a stage calls itself. */
const char *prn_stage_hosts_name(const struct prn_stage_hosts *hosts, size_t stage);

#endif
