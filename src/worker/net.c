/* What libprony_net.so exports, and all of it (record/net.h). */
#include "record/net.h"

#include "rpc/remote.h"
#include "service/service.h"
#include "service/web/view.h"
#include "worker/job.h"
#include "worker/worker.h"

#define TEXT(number) #number
#define VERSION(major, minor, patch) TEXT(major) "." TEXT(minor) "." TEXT(patch)

PRONY_API extern const struct prn_net prn_net;

const struct prn_net prn_net = {
    .version = VERSION(PRONY_VERSION_MAJOR, PRONY_VERSION_MINOR, PRONY_VERSION_PATCH),
    .remote = &prn_remote_operations,
    .serve = prn_serve,
    .backup = prn_backup_command,
    .work = prn_work,
    .token = prn_token_command,
    .job = prn_job_main,
    .view = prn_view_serve,
};
