/* How a service is, as JSON: "prony.status/1", for scripts and for the service's page. */
#ifndef PRN_REPORT_STATUS_JSON_H
#define PRN_REPORT_STATUS_JSON_H

#include "base/buffer.h"
#include "record/remote_status.h"

/* Who looks at the page; what it needs to know besides. */
struct prn_status_viewer {
    const char *user;
    bool admin;
    const char *signed_in_by; /* "token" or "loopback" */
    int64_t time_ms;          /* the service's clock, since 1970 */
    size_t sessions_left_out, workers_left_out;
};

/* `viewer` NULL: nobody in particular. */
void prn_status_write_json(const struct prn_remote_status *status,
                           const struct prn_status_viewer *viewer, struct prn_buffer *out);

#endif
