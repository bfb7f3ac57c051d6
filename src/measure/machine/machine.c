#include "measure/machine/machine.h"

#include "base/clock.h"
#include "measure/canary.h"
#include "measure/machine/kernels.h"
#include "measure/machine/topology.h"
#include "measure/measure.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* A unit lasts this long, or less where the time allowed is short. */
#define UNIT_NS 50e6
#define UNIT_MIN_NS 1e6
/* A calibration takes at least this long: less says little. */
#define CALIBRATION_NS 1e6
/* Part of the time allowed for units themselves. */
#define UNITS_SHARE 0.6
/* Units before the timed one, as a part of it: they fill caches and wake wide registers. */
#define WARMUP 16
/* What is read from memory is so many times as large as the caches. */
#define PAST_CACHES 4
#define PAST_CACHES_MIN_BYTES ((int64_t)64 << 20)
/* Part of the memory that is available. */
#define MEMORY_SHARE 4
/* So much larger than the level before must be what is to miss it. */
#define LEVEL_STEP 1.5
/* Of the units, those that may be repeated, and those that may be disturbed without a warning. */
#define REDO_SHARE 4

/* What is measured: a row of the record in the making. */
struct figure {
    const struct prn_machine_kernel *kernel;
    struct prn_machine_row row;
    size_t bytes; /* of each thread's buffer; 0: it computes */
    int64_t passes;
    double units[PRN_MACHINE_ROUNDS];
    size_t n_units;
};

struct measuring {
    const struct prn_machine_request *request;
    struct prn_arena *arena;
    struct prn_topology topology;
    int64_t available_bytes;
    struct figure *figures;
    size_t n_figures;
    void **buffers; /* one per core; NULL: none */
    size_t *buffer_bytes;
    struct prn_canary canary;
    int64_t start_ns;
    int64_t redone, disturbed;
};

/* ---- A unit ---- */

struct unit {
    const struct figure *figure;
    int n;
    atomic_int ready;
    atomic_bool abandoned; /* not all threads could be started */
};

struct lane {
    struct unit *unit;
    int cpu;
    void *buffer;
    pthread_t thread;
    int64_t start_ns, end_ns;
};

static void *lane_main(void *context)
{
    struct lane *lane = context;
    struct unit *unit = lane->unit;
    const struct figure *f = unit->figure;
    bool past = strcmp(f->row.of, PRN_MACHINE_MEMORY) == 0;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET((size_t)lane->cpu, &own);
    /* Without it the kernel may still choose the same core. */
    (void)pthread_setaffinity_np(pthread_self(), sizeof own, &own);
    f->kernel->pass(lane->buffer, f->bytes, f->passes / WARMUP, past);
    atomic_fetch_add(&unit->ready, 1);
    while (atomic_load(&unit->ready) < unit->n && !atomic_load(&unit->abandoned))
        sched_yield();
    lane->start_ns = prn_clock_ns();
    if (!atomic_load(&unit->abandoned))
        f->kernel->pass(lane->buffer, f->bytes, f->passes, past);
    lane->end_ns = prn_clock_ns();
    return NULL;
}

/* Runs the figure's kernel on its threads; how long that took, from the first that began to the
 * last that ended. */
static int unit_run(const struct measuring *m, const struct figure *f, double *ret_ns,
                    struct prony_error *err)
{
    struct unit unit = {.figure = f, .n = (int)f->row.threads};
    struct lane lanes[PRN_MACHINE_THREADS_MAX];
    int started = 0;
    for (; started < unit.n; started++) {
        lanes[started] = (struct lane){
            .unit = &unit, .cpu = m->topology.cores[started].cpu, .buffer = m->buffers[started]};
        if (pthread_create(&lanes[started].thread, NULL, lane_main, &lanes[started]) != 0)
            break;
    }
    if (started < unit.n)
        atomic_store(&unit.abandoned, true);
    int64_t start_ns = INT64_MAX;
    int64_t end_ns = 0;
    for (int i = 0; i < started; i++) {
        pthread_join(lanes[i].thread, NULL);
        start_ns = lanes[i].start_ns < start_ns ? lanes[i].start_ns : start_ns;
        end_ns = lanes[i].end_ns > end_ns ? lanes[i].end_ns : end_ns;
    }
    if (started < unit.n)
        return prn_fail(err, PRONY_EIO, "cannot start %d threads", unit.n);
    *ret_ns = fmax(1, (double)(end_ns - start_ns));
    return 0;
}

/* Operations or bytes of a unit, of all its threads. */
static double work_of(const struct figure *f)
{
    size_t moved =
        f->kernel->kind == PRN_MACHINE_TRIAD ? prn_kernel_triad_bytes(f->bytes) : f->bytes;
    double of_pass = f->kernel->kind == PRN_MACHINE_COMPUTE ? f->kernel->operations : (double)moved;
    return of_pass * (double)f->passes * (double)f->row.threads;
}

/* So many passes that a unit takes `unit_ns`. */
static int calibrate(const struct measuring *m, struct figure *f, double unit_ns,
                     struct prony_error *err)
{
    double ns = 0;
    int code = 0;
    for (f->passes = 1; code == 0; f->passes *= 8) {
        code = unit_run(m, f, &ns, err);
        if (ns >= CALIBRATION_NS || f->passes > INT64_MAX / 1024)
            break;
    }
    f->passes = (int64_t)fmax(1, round((double)f->passes * unit_ns / fmax(1, ns)));
    return code;
}

/* Runs a unit between two canaries, and again if these say that something else ran; the faster one
 * counts. */
static int take_unit(struct measuring *m, struct figure *f, struct prony_error *err)
{
    const int64_t redo_max = (int64_t)(m->n_figures * PRN_MACHINE_ROUNDS / REDO_SHARE);
    double best_ns = INFINITY;
    bool disturbed = true;
    int code = 0;
    for (int i = 0; code == 0 && disturbed && i < 2; i++) {
        double ns = INFINITY;
        if (i > 0 && m->redone >= redo_max)
            break;
        m->redone += i;
        double before_ns = prn_canary_run(&m->canary);
        code = unit_run(m, f, &ns, err);
        double after_ns = prn_canary_run(&m->canary);
        disturbed = prn_canary_disturbed(&m->canary, fmax(before_ns, after_ns));
        best_ns = fmin(best_ns, ns);
    }
    m->disturbed += disturbed;
    if (code == 0)
        f->units[f->n_units++] = work_of(f) / (best_ns * 1e-9);
    return code;
}

/* ---- What is measured ---- */

static void add_figure(struct measuring *m, enum prn_machine_kind kind, const char *of,
                       int64_t threads, int64_t capacity_bytes, int64_t thread_bytes)
{
    const struct prn_machine_kernel *kernel = prn_machine_kernel(kind, of);
    if (!kernel)
        return;
    struct figure *f = &m->figures[m->n_figures++];
    size_t bytes =
        thread_bytes > 0 ? (size_t)thread_bytes / PRN_KERNEL_BLOCK * PRN_KERNEL_BLOCK : 0;
    *f = (struct figure){.kernel = kernel,
                         .row = {.kind = kind,
                                 .of = of,
                                 .instructions = kernel->instructions,
                                 .threads = threads,
                                 .capacity_bytes = capacity_bytes,
                                 .working_bytes = bytes ? (int64_t)bytes * threads : -1},
                         .bytes = bytes};
    for (int64_t i = 0; i < threads; i++)
        if (m->buffer_bytes[i] < bytes)
            m->buffer_bytes[i] = bytes;
}

static void add_moving(struct measuring *m, const char *of, int64_t threads, int64_t capacity_bytes,
                       int64_t thread_bytes)
{
    add_figure(m, PRN_MACHINE_READ, of, threads, capacity_bytes, thread_bytes);
    add_figure(m, PRN_MACHINE_TRIAD, of, threads, capacity_bytes, thread_bytes);
}

static void add_threads(struct measuring *m, int64_t threads)
{
    static const char *const precisions[] = {PRN_MACHINE_FLOAT32, PRN_MACHINE_BFLOAT16,
                                             PRN_MACHINE_INT8};
    static const char *const levels[PRN_CACHE_LEVELS_MAX] = {"L1", "L2", "L3", "L4"};
    const struct prn_topology *t = &m->topology;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(precisions); i++)
        add_figure(m, PRN_MACHINE_COMPUTE, precisions[i], threads, -1, -1);
    int64_t caches_bytes = 0;
    double before_bytes = 0;
    for (size_t i = 0; i < t->n_levels; i++) {
        /* Half of a cache, so that nothing else in it matters. */
        double own_bytes = (double)prn_topology_share(t, i, (size_t)threads);
        int64_t capacity_bytes = prn_topology_capacity(t, i, (size_t)threads);
        if (own_bytes / 2 >= LEVEL_STEP * before_bytes && own_bytes / 2 >= PRN_KERNEL_BLOCK)
            add_moving(m, levels[i], threads, capacity_bytes, (int64_t)own_bytes / 2);
        before_bytes = own_bytes;
        caches_bytes += capacity_bytes;
    }
    int64_t bytes = PAST_CACHES * caches_bytes;
    if (bytes < PAST_CACHES_MIN_BYTES)
        bytes = PAST_CACHES_MIN_BYTES;
    if (m->available_bytes >= 0 && bytes > m->available_bytes / MEMORY_SHARE)
        bytes = m->available_bytes / MEMORY_SHARE;
    if (bytes >= 2 * caches_bytes && bytes / threads >= PRN_KERNEL_BLOCK)
        add_moving(m, PRN_MACHINE_MEMORY, threads, -1, bytes / threads);
}

/* The numbers of threads that are asked for, or one, and one per core. */
static int add_figures(struct measuring *m, struct prony_error *err)
{
    const struct prn_machine_request *r = m->request;
    const int64_t cores = (int64_t)m->topology.n_cores;
    const int64_t usual[] = {1, cores};
    const int64_t *threads = r->n_threads > 0 ? r->threads : usual;
    size_t n = r->n_threads > 0 ? r->n_threads : cores > 1 ? 2 : 1;
    for (size_t i = 0; i < n; i++)
        if (threads[i] > cores)
            return prn_fail(err, PRONY_EUSAGE, "%lld threads are more than the %lld cores here",
                            (long long)threads[i], (long long)cores);
    const size_t kinds = 3 + 2 * (PRN_CACHE_LEVELS_MAX + 1);
    m->figures = PRN_ARENA_ARRAY(m->arena, n * kinds, struct figure);
    m->buffers = PRN_ARENA_ARRAY(m->arena, m->topology.n_cores, void *);
    m->buffer_bytes = PRN_ARENA_ARRAY(m->arena, m->topology.n_cores, size_t);
    if (!m->figures || !m->buffers || !m->buffer_bytes)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        add_threads(m, threads[i]);
    return 0;
}

/* ---- Buffers ---- */

static void buffers_release(struct measuring *m)
{
    for (size_t i = 0; m->buffers && i < m->topology.n_cores; i++)
        if (m->buffers[i])
            munmap(m->buffers[i], m->buffer_bytes[i]);
}

/* Writes its buffer, so that the pages are those next to its core. */
static void *touch_main(void *context)
{
    struct lane *lane = context;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET((size_t)lane->cpu, &own);
    (void)pthread_setaffinity_np(pthread_self(), sizeof own, &own);
    memset(lane->buffer, 0, (size_t)lane->end_ns);
    return NULL;
}

static int buffers_make(struct measuring *m, struct prony_error *err)
{
    for (size_t i = 0; i < m->topology.n_cores; i++) {
        if (m->buffer_bytes[i] == 0)
            continue;
        void *memory = mmap(NULL, m->buffer_bytes[i], PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
            return prn_fail_memory(err);
        m->buffers[i] = memory;
        /* Small pages would make it a test of the table of pages. */
        (void)madvise(memory, m->buffer_bytes[i], MADV_HUGEPAGE);
        struct lane lane = {.cpu = m->topology.cores[i].cpu,
                            .buffer = memory,
                            .end_ns = (int64_t)m->buffer_bytes[i]};
        if (pthread_create(&lane.thread, NULL, touch_main, &lane) != 0)
            return prn_fail(err, PRONY_EIO, "cannot start a thread");
        pthread_join(lane.thread, NULL);
    }
    return 0;
}

/* ---- All of it ---- */

static double elapsed_s(const struct measuring *m)
{
    return (double)(prn_clock_ns() - m->start_ns) * 1e-9;
}

static bool cancelled(const struct measuring *m)
{
    return m->request->cancelled && *m->request->cancelled;
}

static void show_progress(const struct measuring *m, const struct figure *f, int round)
{
    char line[160];
    if (!m->request->progress)
        return;
    snprintf(line, sizeof line, "round %d/%d: %s%s%s, %lld thread%s", round + 1, PRN_MACHINE_ROUNDS,
             f->row.of, f->row.kind == PRN_MACHINE_COMPUTE ? "" : " ",
             f->row.kind == PRN_MACHINE_COMPUTE ? "" : prn_machine_kind_names[f->row.kind],
             (long long)f->row.threads, f->row.threads == 1 ? "" : "s");
    m->request->progress(m->request->context, elapsed_s(m), line);
}

/* Rounds until there are enough, the time is over, or somebody has had enough. */
static int take_rounds(struct measuring *m, struct prony_error *err)
{
    double units = (double)m->n_figures * PRN_MACHINE_ROUNDS;
    double unit_ns =
        fmax(UNIT_MIN_NS, fmin(UNIT_NS, m->request->max_time_s * 1e9 * UNITS_SHARE / units));
    int code = 0;
    for (int round = 0; code == 0 && round < PRN_MACHINE_ROUNDS; round++) {
        if (round >= PRN_MACHINE_ROUNDS_MIN && elapsed_s(m) > m->request->max_time_s)
            break;
        for (size_t i = 0; code == 0 && i < m->n_figures; i++) {
            if (cancelled(m))
                return round > 0 ? 0 : prn_fail(err, PRONY_ECANCELED, "interrupted");
            show_progress(m, &m->figures[i], round);
            if (round == 0)
                code = calibrate(m, &m->figures[i], unit_ns, err);
            if (code == 0)
                code = take_unit(m, &m->figures[i], err);
        }
    }
    return code;
}

void prn_machine_summarise(double *units, size_t n, struct prn_machine_row *row)
{
    size_t half = (n + 1) / 2;
    prn_stats_sort(units, n);
    struct prn_interval interval = prn_stats_amount_interval(units + (n - half), half);
    bool enough = half >= PRN_UNITS_MIN;
    row->units = (int64_t)half;
    row->per_s = interval.estimate;
    row->low_per_s = enough ? interval.low : NAN;
    row->high_per_s = enough ? interval.high : NAN;
}

static int make_record(struct measuring *m, struct prn_machine *ret, struct prony_error *err)
{
    char text[32];
    time_t seconds = time(NULL);
    struct tm utc;
    struct prn_environment environment;
    int64_t taken = 0;
    int64_t caches_bytes = m->topology.n_levels > 0 ? 0 : -1;
    for (size_t i = 0; i < m->topology.n_levels; i++)
        caches_bytes += prn_topology_capacity(&m->topology, i, m->topology.n_cores);
    struct prn_machine_row *rows = PRN_ARENA_ARRAY(m->arena, m->n_figures, struct prn_machine_row);
    if (!rows || prn_environment_read(&environment, m->arena) < 0)
        return prn_fail_memory(err);
    for (size_t i = 0; i < m->n_figures; i++) {
        taken += (int64_t)m->figures[i].n_units;
        prn_machine_summarise(m->figures[i].units, m->figures[i].n_units, &m->figures[i].row);
        rows[i] = m->figures[i].row;
    }
    gmtime_r(&seconds, &utc);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    struct prn_machine machine = {.prony_version = prony_version(),
                                  .created = prn_arena_strdup(m->arena, text),
                                  .cpu = environment.cpu,
                                  .cores = (int64_t)m->topology.n_cores,
                                  .caches_bytes = caches_bytes,
                                  .max_time_s = m->request->max_time_s,
                                  .rounds = taken / (int64_t)m->n_figures,
                                  .redone_units = m->redone,
                                  .noisy = m->disturbed > taken / REDO_SHARE,
                                  .interrupted = cancelled(m),
                                  .n_rows = m->n_figures,
                                  .rows = rows};
    prn_machine_fingerprint(text);
    machine.fingerprint = prn_arena_strdup(m->arena, text);
    if (!machine.created || !machine.fingerprint)
        return prn_fail_memory(err);
    *ret = machine;
    return 0;
}

int prn_machine_measure(const struct prn_machine_request *request, struct prn_arena *arena,
                        struct prn_machine *ret_machine, struct prony_error *err)
{
    struct measuring m = {.request = request,
                          .arena = arena,
                          .available_bytes = prn_memory_available(),
                          .start_ns = prn_clock_ns()};
    if (!prn_topology_read(&m.topology, arena))
        return prn_fail_memory(err);
    int code = add_figures(&m, err);
    if (code == 0)
        code = buffers_make(&m, err);
    if (code == 0)
        code = take_rounds(&m, err);
    if (code == 0)
        code = make_record(&m, ret_machine, err);
    buffers_release(&m);
    return code;
}

/* ---- Which machine ---- */

void prn_machine_fingerprint(char text[PRN_MACHINE_FINGERPRINT_SIZE])
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_environment e;
    struct prn_topology t = {0};
    struct prn_buffer seen = PRN_BUFFER_INIT(4096);
    if (prn_environment_read(&e, &arena) == 0 && prn_topology_read(&t, &arena)) {
        /* As a history tells machines apart, and by their caches. */
        prn_buffer_printf(&seen, "%s, %lld cores, %zu", e.cpu, (long long)e.cores, t.n_cores);
        for (size_t i = 0; i < t.n_levels; i++)
            prn_buffer_printf(&seen, ", %lld", (long long)prn_topology_capacity(&t, i, t.n_cores));
    }
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, 64 bits */
    for (size_t i = 0; i < seen.len; i++)
        hash = (hash ^ (unsigned char)seen.data[i]) * 0x100000001b3u;
    snprintf(text, PRN_MACHINE_FINGERPRINT_SIZE, "%016llx", (unsigned long long)hash);
    prn_buffer_release(&seen);
    prn_arena_release(&arena);
}
