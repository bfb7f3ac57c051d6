#include "rpc/core.h"

#include <grpc/support/log.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local char fault[128];

/* Nothing of gRPC's log is shown. Of what it says of the system, the last is kept for whoever asked
 * for what failed. */
static void keep_fault(gpr_log_func_args *args)
{
    static const char mark[] = "os_error:\"";
    const char *at = args->message ? strstr(args->message, mark) : NULL;
    if (!at)
        return;
    at += strlen(mark);
    size_t length = strcspn(at, "\"");
    if (length >= sizeof fault)
        length = sizeof fault - 1;
    memcpy(fault, at, length);
    fault[length] = '\0';
}

const char *prn_rpc_fault(void)
{
    return fault[0] ? fault : NULL;
}

void prn_rpc_forget_fault(void)
{
    fault[0] = '\0';
}

static void set_log(void)
{
    /* Who debugs gRPC sees what it says. */
    if (secure_getenv("GRPC_VERBOSITY") || secure_getenv("GRPC_TRACE"))
        return;
    gpr_set_log_function(keep_fault);
    gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR);
}

void prn_rpc_begin(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    /* Signals are for the program's own threads. */
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    pthread_once(&once, set_log);
    grpc_init();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void prn_rpc_end(void)
{
    grpc_shutdown_blocking();
}
