/* What is measured of the service itself, for Prometheus: docs/serve.md lists it. */
#include "service/host/host.h"

#include "base/clock.h"
#include "service/audit.h"
#include "service/slurm/slurm.h"
#include "service/web/http.h"
#include "service/web/metrics.h"

#include <dirent.h>
#include <math.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static const double call_bounds[] = {.0005, .001, .0025, .005, .01, .025, .05, .1,
                                     .25,   .5,   1,     2.5,  5,   10,   60};
static const double wait_bounds[] = {.1, .5, 1, 5, 15, 60, 300, 900, 3600, 14400};
static const double task_bounds[] = {.001, .005, .01, .05, .1, .5, 1, 5, 10, 60, 300, 1800};

static struct prn_meter *counter(struct prn_service *s, const char *name, const char *help)
{
    return prn_metric_meter(prn_metrics_counter(s->metrics, name, help, NULL, NULL), NULL, NULL);
}

static struct prn_meter *gauge(struct prn_service *s, const char *name, const char *help)
{
    return prn_metric_meter(prn_metrics_gauge(s->metrics, name, help, NULL, NULL), NULL, NULL);
}

/* ---- Calls ---- */

void prn_watch_call(struct prn_rpc_call *call, enum prn_status status, const char *text,
                    int64_t took_ns)
{
    struct prn_service *s = prn_rpc_call_service(call);
    const char *user = prn_rpc_call_user(call);
    const char *method = prn_rpc_call_method(call)->name;
    const char *name = method ? strrchr(method, '/') : NULL;
    const char *code = prn_status_name(status);
    name = name ? name + 1 : "other";
    struct prn_metric *calls = prn_metrics_counter(
        s->metrics, "prony_rpc_calls_total", "Calls, by method and gRPC code.", "method", "code");
    struct prn_metric *times =
        prn_metrics_histogram(s->metrics, "prony_rpc_duration_seconds",
                              "Time until a call was answered; of streams, until they ended.",
                              call_bounds, PRN_ARRAY_SIZE(call_bounds), "method", NULL);
    prn_meter_add(prn_metric_meter(calls, name, code), 1);
    prn_meter_observe(prn_metric_meter(times, name, NULL), (double)took_ns * 1e-9);
    if (status != PRN_STATUS_UNAUTHENTICATED && status != PRN_STATUS_PERMISSION_DENIED &&
        status != PRN_STATUS_RESOURCE_EXHAUSTED)
        return;
    prn_meter_add(prn_metric_meter(s->counted.refused,
                                   status == PRN_STATUS_UNAUTHENTICATED     ? "token"
                                   : status == PRN_STATUS_PERMISSION_DENIED ? "permission"
                                                                            : "limit",
                                   NULL),
                  1);
    PRN_LOG(s->log, PRN_LOG_WARNING, "call.refused", PRN_LOG_TEXT("user", user[0] ? user : NULL),
            PRN_LOG_TEXT("from", prn_rpc_call_peer(call)), PRN_LOG_TEXT("method", name),
            PRN_LOG_TEXT("code", code), PRN_LOG_TEXT("error", text));
    PRN_AUDIT(s->audit, "refused", PRN_LOG_TEXT("user", user[0] ? user : NULL),
              PRN_LOG_TEXT("from", prn_rpc_call_peer(call)), PRN_LOG_TEXT("method", method),
              PRN_LOG_TEXT("code", code), PRN_LOG_TEXT("error", text));
}

/* ---- Sessions and their tasks ---- */

void prn_watch_granted_locked(const struct prn_session *session)
{
    double waited_s =
        (double)prn_queue_session_waited_ns(session->place, prn_monotonic_ns()) * 1e-9;
    const char *hardware;
    for (size_t i = 0; (hardware = prn_queue_session_hardware(session->place, i)); i++)
        prn_meter_observe(prn_metric_meter(session->service->counted.granted, hardware, NULL),
                          waited_s);
}

void prn_watch_charged_locked(struct prn_service *s, const char *user, const char *hardware,
                              double held_s, double usd)
{
    struct prn_metric *seconds =
        prn_metrics_counter(s->metrics, "prony_host_seconds_total",
                            "Time that hosts were held, by user and hardware.", "user", "hardware");
    struct prn_metric *dollars = prn_metrics_counter(
        s->metrics, "prony_host_dollars_total",
        "Price of the time that hosts were held, where it is known, by user and hardware.", "user",
        "hardware");
    prn_meter_add(prn_metric_meter(seconds, user, hardware), held_s);
    if (!isnan(usd))
        prn_meter_add(prn_metric_meter(dollars, user, hardware), usd);
}

/* NULL: the executor lives. */
static const char *cause_of_death(int code)
{
    return code == PRONY_ECRASH ? "crash" : code == PRONY_ETIMEDOUT ? "timeout" : NULL;
}

void prn_watch_task_locked(const struct prn_task *task)
{
    static const char *const kinds[] = {
        [PRN_TASK_LOAD] = "load", [PRN_TASK_RUN] = "run", [PRN_TASK_MEASURE] = "measure"};
    struct prn_service *s = task->service;
    const struct prn_session *session = task->session;
    double took_s = (double)(prn_monotonic_ns() - task->start_ns) * 1e-9;
    prn_meter_observe(prn_metric_meter(s->counted.tasks, kinds[task->kind], NULL), took_s);
    if (task->kind == PRN_TASK_MEASURE)
        PRN_LOG(s->log, PRN_LOG_INFO, "measurement", PRN_LOG_TEXT("session", session->label),
                PRN_LOG_TEXT("user", session->owner.user),
                PRN_LOG_INTEGER("backends", session->n_backends), PRN_LOG_NUMBER("took_s", took_s));
    for (size_t i = 0; i < session->n_backends; i++) {
        const char *cause = cause_of_death(task->outcomes[i].code);
        if (!cause)
            continue;
        prn_meter_add(prn_metric_meter(s->counted.deaths, cause, NULL), 1);
        PRN_LOG(s->log, PRN_LOG_WARNING, "executor.died", PRN_LOG_TEXT("cause", cause),
                PRN_LOG_TEXT("during", kinds[task->kind]), PRN_LOG_TEXT("session", session->label),
                PRN_LOG_TEXT("user", session->owner.user),
                PRN_LOG_TEXT("backend", session->backends[i].name),
                PRN_LOG_TEXT("error", task->outcomes[i].error));
    }
}

/* ---- The certificate ---- */

void prn_watch_certificate(struct prn_service *s, const char *pem)
{
    BIO *bio = pem ? BIO_new_mem_buf(pem, -1) : NULL;
    X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    struct tm end = {0};
    if (certificate && ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &end) == 1)
        prn_meter_set(gauge(s, "prony_certificate_expiry_timestamp_seconds",
                            "When the certificate in use expires, since 1970."),
                      (double)timegm(&end));
    X509_free(certificate);
    BIO_free(bio);
}

void prn_watch_reloaded(struct prn_service *s, const char *pem, const char *error)
{
    prn_meter_add(prn_metric_meter(s->counted.certificates, error ? "failed" : "ok", NULL), 1);
    PRN_LOG(s->log, error ? PRN_LOG_ERROR : PRN_LOG_INFO, error ? "config.tls" : "tls.reloaded",
            PRN_LOG_TEXT("error", error));
    if (!error)
        prn_watch_certificate(s, pem);
}

/* ---- Tokens ---- */

void prn_watch_token(void *service, const char *what, const struct prn_identity *whose,
                     const char *id)
{
    struct prn_service *s = service;
    prn_meter_add(prn_metric_meter(s->counted.tokens, what, NULL), 1);
    PRN_LOG(s->log, PRN_LOG_INFO, "token", PRN_LOG_TEXT("change", what),
            PRN_LOG_TEXT("user", whose->user), PRN_LOG_TEXT("role", prn_role_name(whose->role)),
            PRN_LOG_TEXT("id", id));
    PRN_AUDIT(s->audit, "token", PRN_LOG_TEXT("change", what), PRN_LOG_TEXT("user", whose->user),
              PRN_LOG_TEXT("role", prn_role_name(whose->role)), PRN_LOG_TEXT("id", id));
}

/* ---- The process ---- */

static size_t count_descriptors(void)
{
    size_t n = 0;
    DIR *folder = opendir("/proc/self/fd");
    while (folder && readdir(folder))
        n++;
    if (folder)
        closedir(folder);
    return n > 3 ? n - 3 : 0; /* ".", "..", and its own */
}

static void collect_process(struct prn_service *s)
{
    struct rusage used;
    struct rlimit files;
    unsigned long long size = 0;
    unsigned long long resident = 0;
    FILE *memory = fopen("/proc/self/statm", "re");
    if (memory && fscanf(memory, "%llu %llu", &size, &resident) == 2) {
        double page = (double)sysconf(_SC_PAGESIZE);
        prn_meter_set(gauge(s, "process_virtual_memory_bytes", "Virtual memory."),
                      (double)size * page);
        prn_meter_set(gauge(s, "process_resident_memory_bytes", "Resident memory."),
                      (double)resident * page);
    }
    if (memory)
        fclose(memory);
    if (getrusage(RUSAGE_SELF, &used) == 0)
        prn_meter_set(counter(s, "process_cpu_seconds_total", "Processor time, user and system."),
                      (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                          (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6);
    prn_meter_set(gauge(s, "process_open_fds", "Open file descriptors."),
                  (double)count_descriptors());
    if (getrlimit(RLIMIT_NOFILE, &files) == 0)
        prn_meter_set(gauge(s, "process_max_fds", "Most file descriptors that it may open."),
                      (double)files.rlim_cur);
}

/* ---- What there is ---- */

/* Established TCP connections to the ports that it listens on: gRPC doesn't tell. */
static size_t count_connections(const char *path, const int *ports, size_t n_ports)
{
    FILE *table = fopen(path, "re");
    char line[512];
    size_t n = 0;
    while (table && fgets(line, sizeof line, table)) {
        unsigned port;
        unsigned state;
        if (sscanf(line, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x", &port, &state) != 2 || state != 1)
            continue;
        for (size_t i = 0; i < n_ports; i++)
            n += (unsigned)ports[i] == port;
    }
    if (table)
        fclose(table);
    return n;
}

static void collect_connections(struct prn_service *s)
{
    static const char *const tables[] = {"/proc/self/net/tcp", "/proc/self/net/tcp6"};
    struct prn_metric *connections = prn_metrics_gauge(
        s->metrics, "prony_connections", "Established TCP connections.", "protocol", NULL);
    const int http = s->http ? prn_http_port(s->http) : -1;
    size_t grpc_n = 0;
    size_t http_n = 0;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(tables); i++) {
        grpc_n += count_connections(tables[i], s->ports, s->n_ports);
        http_n += count_connections(tables[i], &http, 1);
    }
    prn_meter_set(prn_metric_meter(connections, "grpc", NULL), (double)grpc_n);
    prn_meter_set(prn_metric_meter(connections, "http", NULL), (double)http_n);
}

static void collect_cache(struct prn_service *s)
{
    struct prn_metric *cache = prn_metrics_gauge(
        s->metrics, "prony_cache_bytes", "Bytes of the cache, and its limit.", "kind", NULL);
    struct prn_blobs_stats stats;
    prn_blobs_stats(s->blobs, &stats);
    prn_meter_set(prn_metric_meter(cache, "used", NULL), (double)stats.bytes);
    prn_meter_set(prn_metric_meter(cache, "limit", NULL), (double)stats.limit_bytes);
    prn_meter_set(counter(s, "prony_cache_hits_total", "Files offered that were in the cache."),
                  (double)stats.hits);
    prn_meter_set(counter(s, "prony_cache_misses_total", "Files offered that were not."),
                  (double)stats.misses);
    prn_meter_set(counter(s, "prony_cache_evictions_total", "Files removed to make room."),
                  (double)stats.evictions);
}

static void collect_hosts_locked(struct prn_service *s) PRN_HOLDS(prn_service)
{
    struct prn_metric *hosts = prn_metrics_gauge(
        s->metrics, "prony_hosts", "Hosts, by hardware and state.", "hardware", "state");
    struct prn_metric *waiting = prn_metrics_gauge(
        s->metrics, "prony_sessions_waiting", "Sessions that wait for hardware.", "hardware", NULL);
    struct prn_metric *paused =
        prn_metrics_gauge(s->metrics, "prony_pool_paused",
                          "Whether an administrator has paused the hardware.", "hardware", NULL);
    struct prn_queue_hardware counts;
    for (size_t i = 0; prn_queue_hardware(s->queue, i, &counts); i++) {
        prn_meter_set(prn_metric_meter(hosts, counts.name, "free"), (double)counts.free);
        prn_meter_set(prn_metric_meter(hosts, counts.name, "held"), (double)counts.held);
        prn_meter_set(prn_metric_meter(hosts, counts.name, "disabled"), (double)counts.disabled);
        prn_meter_set(prn_metric_meter(hosts, counts.name, "draining"), (double)counts.draining);
        prn_meter_set(prn_metric_meter(waiting, counts.name, NULL), (double)counts.waiting);
        prn_meter_set(prn_metric_meter(paused, counts.name, NULL), counts.paused);
    }
}

static void collect(void *opaque)
{
    struct prn_service *s = opaque;
    collect_process(s);
    collect_connections(s);
    collect_cache(s);
    prn_meter_set(counter(s, "prony_audit_lost_total", "Lines of the audit log not written."),
                  (double)prn_audit_lost(s->audit));
    prn_service_lock(s);
    prn_meter_set(gauge(s, "prony_sessions", "Open sessions."), (double)s->n_sessions);
    prn_usage_charge_all_locked(s);
    collect_hosts_locked(s);
    prn_slurm_collect_locked(s);
    prn_service_unlock(s);
}

/* ---- The beginning ---- */

/* From the first scrape on, so that the first one counts as a rise. */
static void begin_with_zero(struct prn_service *s)
{
    static const char *const causes[] = {"crash", "timeout"};
    static const char *const reasons[] = {"token", "permission", "limit", "quota", "backend"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(causes); i++)
        prn_metric_meter(s->counted.deaths, causes[i], NULL);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(reasons); i++)
        prn_metric_meter(s->counted.refused, reasons[i], NULL);
    prn_metric_meter(s->counted.tokens, "added", NULL);
    prn_metric_meter(s->counted.tokens, "revoked", NULL);
    prn_metric_meter(s->counted.certificates, "ok", NULL);
    prn_metric_meter(s->counted.certificates, "failed", NULL);
}

void prn_watch_start(struct prn_service *s)
{
    s->metrics = prn_metrics_new();
    prn_metrics_on_write(s->metrics, collect, s);
    s->counted.created = counter(s, "prony_sessions_total", "Sessions created.");
    s->counted.uploads = counter(s, "prony_uploads_total", "Files uploaded.");
    s->counted.slowed =
        counter(s, "prony_refusals_delayed_total",
                "Wrong tokens whose refusal was delayed, because too many came from an address.");
    s->counted.tokens = prn_metrics_counter(s->metrics, "prony_token_changes_total",
                                            "Tokens added and revoked.", "change", NULL);
    s->counted.certificates =
        prn_metrics_counter(s->metrics, "prony_certificate_reloads_total",
                            "Times the certificate was read again.", "outcome", NULL);
    s->counted.uploaded = counter(s, "prony_uploaded_bytes_total", "Bytes uploaded.");
    s->counted.lost = counter(s, "prony_hosts_lost_total", "Hosts lost during a session.");
    s->counted.runs = counter(s, "prony_runs_total", "Run calls answered.");
    s->counted.ended = prn_metrics_counter(s->metrics, "prony_sessions_ended_total",
                                           "Sessions that ended, by why.", "outcome", NULL);
    s->counted.granted = prn_metrics_histogram(
        s->metrics, "prony_session_wait_seconds",
        "Time from asking to getting hosts, of sessions that got them, by hardware.", wait_bounds,
        PRN_ARRAY_SIZE(wait_bounds), "hardware", NULL);
    s->counted.tasks =
        prn_metrics_histogram(s->metrics, "prony_task_duration_seconds",
                              "Time that hosts took for a client's load, run or measurement.",
                              task_bounds, PRN_ARRAY_SIZE(task_bounds), "kind", NULL);
    s->counted.deaths =
        prn_metrics_counter(s->metrics, "prony_executor_deaths_total",
                            "Executors that ended during a run or load, by cause.", "cause", NULL);
    s->counted.refused =
        prn_metrics_counter(s->metrics, "prony_refusals_total",
                            "Calls and sessions refused, by reason.", "reason", NULL);
    begin_with_zero(s);
    prn_meter_set(
        prn_metric_meter(prn_metrics_gauge(s->metrics, "prony_build_info",
                                           "The version, with the value 1.", "version", NULL),
                         prony_version(), NULL),
        1);
    prn_meter_set(gauge(s, "process_start_time_seconds", "When the process started, since 1970."),
                  (double)prn_wall_clock_ms() / 1000);
}
