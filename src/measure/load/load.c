/* Puts backends under load, one after the other: several processes of one backend are started and
 * stay for all of its rows, stopped but for the one that has its block. */
#include "measure/load/load.h"

#include "base/clock.h"
#include "measure/launch.h"
#include "measure/load/parts.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#define BLOCKS_PER_LAUNCH 2
#define BLOCK_RUNS_MIN 10      /* a block is at least as long as so many, one after the other */
#define ROOM_SHARE 0.9         /* of a command's requests: how many come is random */
#define PATIENCE_NS 1000000000 /* at least: a stall is no overload */
#define PATIENCE_SHARE 0.25    /* of a block */
#define ROUNDING 0.999         /* blocks of whole ns may come to a bit less than was asked for */
#define WARM_UP_NS 100e6
#define WARM_UP_RUNS 5
#define CAPACITY_SHARE 0.1 /* of --max-time, at most, to find the capacity for --slo */

static void tell(const struct prn_load_engine *e, double rate_per_s, size_t launch,
                 const struct prn_load_tally *t)
{
    char phase[64] = "under load, closed loop";
    if (!e->request->progress)
        return;
    if (rate_per_s > 0)
        snprintf(phase, sizeof phase, "under load, %.4g/s", rate_per_s);
    struct prn_progress p = {
        .backend = e->result->name,
        .point = prn_result_point(e->profile, e->result)->label,
        .phase = phase,
        .row = (size_t)(e->result - e->profile->results) + 1,
        .rows = e->profile->n_results,
        .launch = (int64_t)launch + 1,
        .launches = (int64_t)e->n_executors,
        .samples = (int64_t)t->n,
        .median_ns = NAN,
        .half_width = NAN,
        .elapsed_s = (double)(prn_clock_ns() - e->start_ns) * 1e-9,
    };
    e->request->progress(e->request->context, &p);
}

/* ---- Blocks ---- */

/* Room for as many arrivals as will surely come when so many are expected; all there is for a
 * closed loop, of which nobody knows. */
static size_t room_for(double expected)
{
    double most = expected > 0 ? expected + 10 * sqrt(expected) + 100 : INFINITY;
    return most < PRN_EXECUTOR_REQUESTS_MAX ? (size_t)most : PRN_EXECUTOR_REQUESTS_MAX;
}

static struct prn_drive_plan plan_block(struct prn_load_engine *e, double rate_per_s,
                                        double block_s)
{
    double expected_per_s = rate_per_s > 0 ? rate_per_s : e->closed_per_s;
    double room_s = PRN_EXECUTOR_REQUESTS_MAX * ROOM_SHARE / expected_per_s;
    double least_s = BLOCK_RUNS_MIN * (double)e->workers / e->closed_per_s;
    double span_s = fmin(fmax(block_s, least_s), room_s);
    struct prn_drive_plan plan = {
        .workers = e->workers,
        .rate = rate_per_s,
        .seed = prn_random_u64(&e->random),
        .most_requests = room_for(rate_per_s > 0 ? rate_per_s * span_s : 0),
        .span_ns = (int64_t)(span_s * 1e9),
    };
    plan.patience_ns = (int64_t)fmax(PATIENCE_NS, PATIENCE_SHARE * (double)plan.span_ns);
    return plan;
}

static int run_block(struct prn_load_engine *e, size_t launch, const struct prn_drive_plan *plan,
                     struct prn_load_tally *tally, struct prony_error *err)
{
    struct prn_executor *x = e->executors[launch];
    struct prn_drive_end end;
    prn_watch_begin(&e->watch, &e->canary, x);
    int code = prn_executor_drive(x, plan, e->requests, &end, err);
    bool disturbed = prn_watch_end(&e->watch, &e->canary, x);
    if (code == 0)
        code = prn_load_tally_add(tally, plan, e->requests, &end, (int32_t)launch, disturbed, err);
    return code;
}

int prn_load_block(struct prn_load_engine *e, size_t launch, double rate_per_s, double block_s,
                   struct prn_load_tally *tally, struct prony_error *err)
{
    struct prn_drive_plan plan = plan_block(e, rate_per_s, block_s);
    tell(e, rate_per_s, launch, tally);
    return run_block(e, launch, &plan, tally, err);
}

/* One block of `block_s` seconds on each process, in random order, at a rate (0: closed loop). A
 * block is shortened to what one command can hold, and lengthened to a few runs. Ends early when
 * a block was given up. PRONY_ECANCELED: what was measured until then is in the tally. */
static int load_round(struct prn_load_engine *e, double rate_per_s, double block_s,
                      struct prn_load_tally *tally, struct prony_error *err)
{
    size_t order[PRN_LOAD_LAUNCHES_MAX];
    int code = 0;
    prn_random_shuffle(&e->random, order, e->n_executors);
    for (size_t i = 0; code == 0 && i < e->n_executors && !tally->gave_up; i++)
        code = prn_load_block(e, order[i], rate_per_s, block_s, tally, err);
    return code;
}

/* ---- Rows ---- */

static int add_row(struct prn_load_engine *e, const struct prn_load_tally *tally, double rate_per_s,
                   bool interrupted, struct prony_error *err)
{
    struct prn_load *load = e->result->load;
    struct prn_load_row *row = &load->rows[load->n_rows];
    int code =
        prn_load_tally_row(tally, rate_per_s > 0 ? rate_per_s : NAN, (int64_t)e->workers, row, err);
    if (code < 0)
        return code;
    row->flags |= e->mismatch ? PRN_LOAD_FLAG_MISMATCH : 0;
    row->flags |= interrupted ? PRN_LOAD_FLAG_INTERRUPTED : 0;
    load->n_rows++;
    return 0;
}

/* Rounds until the requests have come for as long as was asked. */
static int measure_row(struct prn_load_engine *e, double rate_per_s, double duration_s,
                       struct prony_error *err)
{
    struct prn_load_tally tally = PRN_LOAD_TALLY_INIT;
    const double block_s = duration_s / BLOCKS_PER_LAUNCH / (double)e->n_executors;
    /* A block in which nobody happens to come is over at once; its time counts all the same. */
    const double counted_ns = duration_s * 1e9 * (1 - PRN_LOAD_LEAD) * ROUNDING;
    int code = 0;
    do {
        code = load_round(e, rate_per_s, block_s, &tally, err);
    } while (code == 0 && !tally.gave_up && tally.n < PRN_LOAD_REQUESTS_MAX &&
             tally.time_ns < counted_ns);
    /* What there is of a row that was interrupted is kept. */
    int kept = tally.blocks > 0 && (code == 0 || code == PRONY_ECANCELED)
                   ? add_row(e, &tally, rate_per_s, code < 0, err)
                   : 0;
    prn_load_tally_release(&tally);
    return kept < 0 ? kept : code;
}

static int measure_rows(struct prn_load_engine *e, struct prony_error *err)
{
    const struct prn_load_settings *s = e->settings;
    struct prn_load *load = e->result->load;
    double duration_s = s->duration_s > 0 ? s->duration_s : PRN_LOAD_DURATION_DEFAULT_S;
    int code = 0;
    bool closed = s->n_rates == 0 || s->percentile > 0;
    if (closed) {
        bool only_capacity = s->workers == 0 || s->n_rates > 0;
        double most_s = CAPACITY_SHARE * e->profile->settings.max_time_s;
        code = measure_row(e, 0, only_capacity ? fmin(duration_s, most_s) : duration_s, err);
    }
    double capacity_per_s = closed && load->n_rows > 0 ? load->rows[0].achieved_per_s : NAN;
    for (size_t i = 0; code == 0 && i < s->n_rates; i++)
        code = measure_row(e, s->rates[i], duration_s, err);
    if (code == 0 && s->percentile > 0)
        code = prn_slo_search(e, capacity_per_s, &load->slo, err);
    return code;
}

/* ---- Processes ---- */

/* As many as fit into memory at the same time. */
static size_t launches_that_fit(const struct prn_load_engine *e)
{
    int64_t asked = e->profile->settings.launches;
    size_t n = asked <= 0 ? PRN_LAUNCHES_DEFAULT : (size_t)asked;
    n = n > PRN_LOAD_LAUNCHES_MAX ? PRN_LOAD_LAUNCHES_MAX : n;
    int64_t peak_bytes = 0;
    for (size_t i = 0; i < e->result->n_launches; i++) {
        int64_t bytes = e->result->launches[i].peak_bytes;
        peak_bytes = bytes > peak_bytes ? bytes : peak_bytes;
    }
    while (n > 1 && (double)n * (double)peak_bytes > (double)prn_launch_memory())
        n--;
    return n;
}

/* A copy that the next request for outputs doesn't write over. */
static int copy_file(int from_fd, int *ret_fd, struct prony_error *err)
{
    int fd = memfd_create("prony-reference", MFD_CLOEXEC);
    off_t size = lseek(from_fd, 0, SEEK_END);
    off_t offset = 0;
    while (fd >= 0 && offset < size)
        if (sendfile(fd, from_fd, &offset, (size_t)(size - offset)) <= 0)
            break;
    if (fd >= 0 && size >= 0 && offset >= size) {
        *ret_fd = fd;
        return 0;
    }
    int error = errno;
    if (fd >= 0)
        close(fd);
    return prn_fail_errno(err, error, "keep", "outputs");
}

struct reference {
    struct prn_place *places;
    size_t n;
    int fd;
};

static int take_reference(struct prn_load_engine *e, struct prn_executor *x, struct reference *ret,
                          struct prony_error *err)
{
    int fd;
    int code = prn_executor_outputs(x, 0, &e->profile->arena, &ret->places, &ret->n, &fd, err);
    if (code < 0)
        return code;
    code = copy_file(fd, &ret->fd, err);
    close(fd);
    return code;
}

static double inputs_scale(const struct prn_load_engine *e)
{
    const struct prn_inputs *inputs = &e->request->inputs[e->result->point];
    return prn_inputs_scale(inputs->fd, inputs->places, inputs->n);
}

/* Compares what the workers gave with what a lone run gave. */
static int check_lanes(struct prn_load_engine *e, struct prn_executor *x,
                       const struct reference *reference, struct prony_error *err)
{
    int code = 0;
    for (size_t lane = 0; code == 0 && lane < e->workers; lane++) {
        struct prn_place *outputs;
        struct prn_output_check *checks;
        size_t n;
        int fd;
        code = prn_executor_outputs(x, lane, &e->profile->arena, &outputs, &n, &fd, err);
        if (code == PRONY_ERUNTIME) {
            code = 0; /* the others were so quick that it had nothing to do */
            continue;
        }
        if (code < 0)
            return code;
        if (n != reference->n)
            e->mismatch = true;
        else
            code = prn_outputs_compare(reference->fd, reference->places, fd, outputs, n,
                                       &e->profile->arena, &checks, err);
        if (code == 0 && !e->mismatch)
            prn_outputs_allow(checks, outputs, n, inputs_scale(e),
                              prn_result_model(e->profile, e->result)->quantised);
        for (size_t i = 0; code == 0 && !e->mismatch && i < n; i++)
            e->mismatch = prn_output_differs(&checks[i], e->profile->settings.tolerance);
        close(fd);
    }
    return code;
}

/* All workers run until caches, threads and memory are what they will be. */
static int warm_up(struct prn_load_engine *e, struct prn_executor *x, struct prony_error *err)
{
    double run_ns = e->result->stats.median_ns;
    struct prn_drive_plan plan = {
        .workers = e->workers,
        .most_requests = PRN_EXECUTOR_REQUESTS_MAX,
        .span_ns = (int64_t)fmax(WARM_UP_NS, WARM_UP_RUNS * run_ns),
        .patience_ns = PATIENCE_NS,
    };
    struct prn_drive_end end;
    int code = prn_executor_drive(x, &plan, e->requests, &end, err);
    if (code < 0)
        return code;
    struct prn_load_tally tally = PRN_LOAD_TALLY_INIT;
    code = prn_load_tally_add(&tally, &plan, e->requests, &end, 0, false, err);
    if (code == 0 && tally.time_ns > 0 && tally.answered > 0)
        e->closed_per_s = tally.answered / (tally.time_ns * 1e-9);
    prn_load_tally_release(&tally);
    return code;
}

static int start_process(struct prn_load_engine *e, struct prony_error *err)
{
    struct prn_launch launch;
    struct prn_executor *x = NULL;
    struct reference reference = {.fd = -1};
    bool check = !e->checked && e->workers > 1;
    const struct prn_launch_config config = {
        .request = e->request,
        .backend = &e->request->backends[e->result - e->profile->results],
        .point = e->result->point,
        .memory_bytes = prn_launch_memory(),
    };
    int code = prn_launch_open(&config, &x, err);
    if (code < 0)
        return code;
    e->executors[e->n_executors++] = x;
    code = prn_launch_load(&config, x, &launch, err);
    if (code == 0 && check)
        code = take_reference(e, x, &reference, err);
    if (code == 0)
        code = warm_up(e, x, err);
    if (code == 0 && check)
        code = check_lanes(e, x, &reference, err);
    e->checked = true;
    if (reference.fd >= 0)
        close(reference.fd);
    prn_executor_park(x);
    return code;
}

int prn_load_renew(struct prn_load_engine *e, struct prony_error *err)
{
    prn_executor_free(e->executors[0]);
    e->n_executors--;
    memmove(e->executors, e->executors + 1, e->n_executors * sizeof *e->executors);
    return start_process(e, err);
}

static int measure_backend(struct prn_load_engine *e, struct prony_error *err)
{
    size_t n = launches_that_fit(e);
    int code = 0;
    e->closed_per_s = (double)e->workers * 1e9 / fmax(1, e->result->stats.median_ns);
    while (code == 0 && e->n_executors < n)
        code = start_process(e, err);
    if (code == 0)
        code = measure_rows(e, err);
    for (size_t i = 0; i < e->n_executors; i++)
        prn_executor_free(e->executors[i]);
    return code;
}

/* Fills the load of one result; fails only for want of memory. */
static int load_result(const struct prn_measure_request *request,
                       const struct prn_load_settings *settings, struct prn_profile *profile,
                       struct prn_result *result, struct prony_error *err)
{
    struct prn_load *load = PRN_ARENA_NEW(&profile->arena, struct prn_load);
    struct prn_load_engine e = {
        .request = request,
        .settings = settings,
        .profile = profile,
        .result = result,
        .workers = settings->workers > 0 ? (size_t)settings->workers : 1,
        .watch = prn_watch_init(profile->environment.cores),
        .canary = {.best_ns = profile->canary_best_ns},
        .requests = calloc(PRN_EXECUTOR_REQUESTS_MAX, sizeof *e.requests),
        .start_ns = prn_clock_ns(),
    };
    if (load)
        load->rows = PRN_ARENA_ARRAY(&profile->arena, settings->n_rates + 1, struct prn_load_row);
    if (!load || !load->rows || !e.requests) {
        free(e.requests);
        return prn_fail_memory(err);
    }
    prn_random_seed_named(&e.random, profile->settings.seed, "load");
    result->load = load;
    struct prony_error fault = {0};
    int code = measure_backend(&e, &fault);
    free(e.requests);
    if (code < 0) {
        load->error_code = code;
        load->error = prn_arena_strdup(&profile->arena, fault.text);
        if (!load->error)
            load->error = prony_error_text(code);
    }
    return 0;
}

int prn_load_measure(const struct prn_measure_request *request,
                     const struct prn_load_settings *settings, struct prn_profile *profile,
                     struct prony_error *err)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < profile->n_results; i++) {
        struct prn_result *result = &profile->results[i];
        bool cancelled = request->cancelled && *request->cancelled;
        if (cancelled || result->error_code != 0 || result->n_samples == 0)
            continue;
        if (request->checkpoint)
            request->checkpoint(request->context, profile);
        code = load_result(request, settings, profile, result, err);
    }
    return code;
}
