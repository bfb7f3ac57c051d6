/*
 * A stage is a thread that takes batches from the belt before it, has its executor work on them and
 * puts what comes out on the belt behind it. The first stage takes what it is let have: one batch
 * at a time at first, then as many as it can. Whoever fails first says why and stops all others:
 * belts end waiting, and executors are told by the flag that they look at.
 */
#include "pipeline/simulate/launch.h"

#include "base/clock.h"
#include "base/io.h"
#include "measure/launch.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ARENA_BYTES ((size_t)64 << 20)
#define LONE_BATCHES_MIN 3
#define FULL_BATCHES_MIN 10
#define FILL_MAX 20         /* batches after which a pipeline counts as full */
#define LOOK_NS 100000000   /* how often the user's wish to end is looked at */
#define STOPPED 1           /* no failure: others ended the launch */
#define WAIT_TOLERANCE 0.10 /* of the time that its runs take */
#define WAIT_GRACE_NS 20e3  /* per batch: whoever hands it over has the core a little longer */

struct stage {
    struct launch *launch;
    const struct prn_stage_setup *setup;
    size_t index;
    struct prn_stage_process process;
    struct prn_belt in, out; /* around the link behind the one before, and behind this one */
    struct prn_belt spares;  /* batches for what this stage gives */
    int64_t waited_ns; /* that its threads waited for a core, until it was ready and from then on */
    pthread_t thread, link_thread;
    bool has_thread, has_link_thread;
};

struct launch {
    const struct prn_simulation_setup *setup;
    struct prn_simulation_log *log;
    struct stage *stages;
    struct prn_belt spares; /* batches that came from another host */
    pthread_t receiver;
    bool has_receiver;
    int stop; /* what executors look at; atomic */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_cond_t stopping; /* apart, so that links sleep undisturbed */
    /* Guarded by the lock: */
    size_t ready;       /* stages that have loaded their model */
    size_t begun, done; /* batches */
    size_t most;        /* that may be in the pipeline */
    bool alone;         /* what is begun is alone */
    bool over;          /* the last batch has gone round */
    bool stopped;
    int code; /* of the first failure */
    struct prony_error failure;
};

/* ---- Processes ---- */

int prn_stage_process_start(const struct prn_simulation_setup *setup,
                            const struct prn_stage_setup *stage, const volatile int *cancelled,
                            struct prn_stage_process *process, struct prony_error *err)
{
    process->inputs_fd = memfd_create("prony-inputs", MFD_CLOEXEC);
    if (process->inputs_fd < 0)
        return prn_fail_errno(err, errno, "create", "shared memory");
    struct prn_executor_config config = {
        .program = setup->request->program,
        .inputs_fd = process->inputs_fd,
        .timeout_s = setup->request->timeout_s,
        .memory_bytes = prn_launch_memory(),
        .cancelled = cancelled,
    };
    int64_t load_ns;
    int code = prn_executor_spawn(&config, &process->executor, err);
    if (code == 0)
        code =
            prn_executor_open(process->executor, &setup->runtime, stage->path, stage->folder, err);
    if (code < 0)
        return code;
    process->before_bytes = prn_executor_resident(process->executor);
    return prn_executor_load(process->executor, stage->path, &load_ns, err);
}

void prn_stage_process_stop(struct prn_stage_process *process)
{
    prn_executor_free(process->executor);
    process->executor = NULL;
    if (process->inputs_fd >= 0)
        close(process->inputs_fd);
    process->inputs_fd = -1;
}

int prn_stage_process_work(const struct prn_stage_process *process,
                           const struct prn_stage_setup *stage, const struct prn_batch *in,
                           struct prn_batch *out, int64_t *ret_run_ns, struct prony_error *err)
{
    size_t n;
    int code = prn_batch_send(in, stage->names, stage->n_names, process->executor,
                              process->inputs_fd, err);
    if (code == 0)
        code = prn_executor_run(process->executor, 0, 1, 0, ret_run_ns, &n, err);
    if (code == 0)
        code = prn_batch_receive(out, process->executor, err);
    return code;
}

/* ---- What is kept ---- */

int prn_kept_copy(struct prn_kept *kept, const struct prn_batch *batch, struct prn_arena *arena,
                  struct prony_error *err)
{
    kept->places = PRN_ARENA_ARRAY(arena, batch->n + 1, struct prn_place);
    if (!kept->places)
        return prn_fail_memory(err);
    for (size_t i = 0; i < batch->n; i++) {
        kept->places[i] = batch->places[i];
        kept->places[i].name = prn_arena_strdup(arena, batch->places[i].name);
        if (!kept->places[i].name)
            return prn_fail_memory(err);
    }
    kept->fd = memfd_create("prony-kept", MFD_CLOEXEC);
    if (kept->fd < 0 || prn_pwrite_all(kept->fd, batch->data, batch->bytes, 0) < 0)
        return prn_fail_errno(err, errno, "keep", "outputs");
    kept->n = batch->n;
    return 0;
}

void prn_kept_release(struct prn_kept *kept)
{
    if (kept->fd >= 0)
        close(kept->fd);
    kept->fd = -1;
}

/* ---- Stopping ---- */

static void stop(struct launch *l)
{
    __atomic_store_n(&l->stop, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&l->lock);
    l->stopped = true;
    pthread_cond_broadcast(&l->changed);
    pthread_cond_broadcast(&l->stopping);
    pthread_mutex_unlock(&l->lock);
    for (size_t i = 0; i < l->setup->n_stages; i++) {
        prn_belt_stop(&l->stages[i].in);
        prn_belt_stop(&l->stages[i].out);
    }
    if (l->setup->links)
        l->setup->links->stop(l->setup->links->context);
}

/* The first failure counts; those that stopping causes don't. */
static void fail(struct launch *l, int code, const struct prony_error *err)
{
    pthread_mutex_lock(&l->lock);
    if (l->code == 0 && !l->stopped) {
        l->code = code;
        l->failure = *err;
    }
    pthread_mutex_unlock(&l->lock);
    stop(l);
}

/* ---- Stages ---- */

/* The next batch for the first stage, once it may have one; NULL when the launch is stopped. */
static const struct prn_batch *next_source(struct launch *l, size_t *ret_number, bool *ret_alone)
{
    pthread_mutex_lock(&l->lock);
    while (!l->stopped && l->begun - l->done >= l->most)
        pthread_cond_wait(&l->changed, &l->lock);
    bool stopped = l->stopped;
    size_t number = l->begun;
    *ret_number = number;
    *ret_alone = l->alone;
    l->begun += !stopped;
    pthread_mutex_unlock(&l->lock);
    return stopped ? NULL : l->setup->sources[number % PRN_SIMULATION_SOURCES];
}

static int finish_batch(struct launch *l, const struct prn_batch *out, int64_t end_ns)
{
    struct prn_spell spell = {
        .number = out->number, .alone = out->alone, .begin_ns = out->begin_ns, .end_ns = end_ns};
    pthread_mutex_lock(&l->lock);
    int code = prn_spells_add(&l->log->whole, &spell);
    l->done++;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return code;
}

/* Hands what the stage made to the link behind it, or counts it at the end. */
static int hand_on(struct stage *s, struct prn_batch *out, int64_t end_ns, struct prony_error *err)
{
    struct launch *l = s->launch;
    if (l->setup->links || s->index + 1 < l->setup->n_stages) {
        if (prn_belt_put(&s->out, &out->item))
            return 0;
        prn_batch_free(out);
        return STOPPED;
    }
    int code = finish_batch(l, out, end_ns);
    if (!prn_belt_put(&s->spares, &out->item))
        prn_batch_free(out);
    return code < 0 ? prn_fail_memory(err) : 0;
}

static int keep(struct stage *s, const struct prn_batch *out, struct prony_error *err)
{
    struct prn_simulation_log *log = s->launch->log;
    log->link_bytes[s->index] = 0;
    for (size_t i = 0; i < s->setup->n_hands_on; i++) {
        const struct prn_place *place = prn_batch_find(out, s->setup->hands_on[i]);
        log->link_bytes[s->index] += place ? (double)place->bytes : 0;
    }
    if (!s->setup->results)
        return 0;
    return prn_kept_copy(&log->kept[out->number * log->n_stages + s->index], out,
                         &log->arenas[s->index], err);
}

static bool is_first(const struct stage *s)
{
    return s->launch->setup->links ? s->launch->setup->links->first : s->index == 0;
}

static int work_on(struct stage *s, const struct prn_batch *in, struct prn_batch *out,
                   struct prony_error *err)
{
    struct prn_spell spell = {.number = out->number, .alone = out->alone};
    spell.begin_ns = prn_clock_ns();
    if (is_first(s))
        out->begin_ns = spell.begin_ns;
    int code = prn_stage_process_work(&s->process, s->setup, in, out, &spell.run_ns, err);
    spell.end_ns = prn_clock_ns();
    if (code == 0 && out->number < PRN_SIMULATION_SOURCES)
        code = keep(s, out, err);
    if (code == 0 && prn_spells_add(&s->launch->log->stages[s->index], &spell) < 0)
        code = prn_fail_memory(err);
    if (code < 0) {
        prn_batch_free(out);
        return code;
    }
    return hand_on(s, out, spell.end_ns, err);
}

/* What its process took, while it is there. */
static void look_at_process(struct stage *s)
{
    int64_t threads;
    int64_t peak = prn_executor_peak(s->process.executor);
    int64_t waited = prn_executor_waited_ns(s->process.executor, &threads);
    bool known = peak >= 0 && s->process.before_bytes >= 0;
    s->launch->log->growth_bytes[s->index] = known ? (double)(peak - s->process.before_bytes) : NAN;
    s->waited_ns = waited >= 0 && s->waited_ns >= 0 ? waited - s->waited_ns : 0;
}

static struct prn_batch *spare(struct stage *s)
{
    struct prn_batch *batch = (struct prn_batch *)prn_belt_pick(&s->spares);
    return batch ? batch : prn_batch_new();
}

/* One batch of the first stage, which nobody hands to it. */
static int step_first(struct stage *s, struct prony_error *err)
{
    size_t number;
    bool alone;
    const struct prn_batch *in = next_source(s->launch, &number, &alone);
    if (!in)
        return STOPPED;
    struct prn_batch *out = spare(s);
    if (!out)
        return prn_fail_memory(err);
    out->number = number;
    out->alone = alone;
    return work_on(s, in, out, err);
}

static int step(struct stage *s, struct prony_error *err)
{
    struct prn_batch *in = (struct prn_batch *)prn_belt_take(&s->in);
    if (!in)
        return STOPPED;
    if (in->last) {
        look_at_process(s);
        if (!prn_belt_put(&s->out, &in->item))
            prn_batch_free(in);
        return STOPPED;
    }
    struct prn_batch *out = spare(s);
    int code = out ? 0 : prn_fail_memory(err);
    if (code == 0) {
        out->number = in->number;
        out->alone = in->alone;
        out->begin_ns = in->begin_ns;
        code = work_on(s, in, out, err);
    }
    if (!prn_belt_put(s->index > 0 ? &s[-1].spares : &s->launch->spares, &in->item))
        prn_batch_free(in);
    return code;
}

static int launch_start(struct stage *s, struct prony_error *err)
{
    struct launch *l = s->launch;
    /* The executor inherits what its thread may use. */
    if (s->setup->pinned && sched_setaffinity(0, sizeof s->setup->cores, &s->setup->cores) < 0)
        return prn_fail(err, PRONY_EIO, "cannot be pinned to its cores: %s", strerror(errno));
    int code = prn_stage_process_start(l->setup, s->setup, &l->stop, &s->process, err);
    if (code < 0)
        return code;
    int64_t threads;
    s->waited_ns = prn_executor_waited_ns(s->process.executor, &threads);
    pthread_mutex_lock(&l->lock);
    l->ready++;
    if (s->index == 0)
        snprintf(l->log->version, sizeof l->log->version, "%s",
                 prn_executor_version(s->process.executor));
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return 0;
}

/* A core of its own that a stage's threads had to wait for was somebody else's meanwhile. */
static bool had_to_wait(const struct launch *l)
{
    for (size_t i = 0; i < l->setup->n_stages; i++) {
        const struct prn_spells *spells = &l->log->stages[i];
        double allowed_ns = WAIT_GRACE_NS * (double)spells->n;
        for (size_t k = 0; k < spells->n; k++)
            allowed_ns += WAIT_TOLERANCE * (double)spells->items[k].run_ns;
        if (l->stages[i].setup->pinned && (double)l->stages[i].waited_ns > allowed_ns)
            return true;
    }
    return false;
}

static void *run_stage(void *context)
{
    struct stage *s = context;
    struct prony_error err = {0};
    int code = launch_start(s, &err);
    while (code == 0)
        code = is_first(s) ? step_first(s, &err) : step(s, &err);
    if (code < 0) {
        prn_fail_in(&err, code, "%s", s->setup->label);
        fail(s->launch, code, &err);
    }
    prn_stage_process_stop(&s->process);
    return NULL;
}

/* ---- Links ---- */

/* Waits until the time is over, or the launch; false: the launch. */
static bool carry(struct launch *l, double s)
{
    struct timespec until = prn_timespec(prn_monotonic_ns() + (int64_t)(1e9 * s));
    pthread_mutex_lock(&l->lock);
    int error = 0;
    while (!l->stopped && s > 0 && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&l->stopping, &l->lock, &until);
    bool stopped = l->stopped;
    pthread_mutex_unlock(&l->lock);
    return !stopped;
}

/* What is over, is so for whoever waits in conduct(). */
static void end_ring(struct launch *l)
{
    pthread_mutex_lock(&l->lock);
    l->over = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

/* Sends a batch to the next host, and keeps it for another one. */
static int send_on(struct stage *s, struct prn_batch *batch, struct prony_error *err)
{
    struct launch *l = s->launch;
    const struct prn_stage_links *links = l->setup->links;
    struct prn_spell spell = {.number = batch->number, .alone = batch->alone};
    int code = links->wait(links->context, err);
    spell.begin_ns = prn_clock_ns();
    static const char *const none[1];
    bool tensors = s->setup->n_hands_on > 0 && !batch->last;
    if (code == 0)
        code = links->send(links->context, batch, tensors ? s->setup->hands_on : none,
                           tensors ? s->setup->n_hands_on : 0, err);
    spell.end_ns = prn_clock_ns();
    if (code == 0 && !batch->last && prn_spells_add(&l->log->links[s->index], &spell) < 0)
        code = prn_fail_memory(err);
    if (code == 0 && batch->last && !links->first)
        end_ring(l);
    if (!prn_belt_put(&s->spares, &batch->item))
        prn_batch_free(batch);
    return code;
}

static void *run_sender(void *context)
{
    struct stage *s = context;
    struct launch *l = s->launch;
    struct prony_error err = {0};
    struct prn_batch *batch;
    int code = l->setup->links->open_out(l->setup->links->context, &err);
    for (bool last = false; code == 0 && !last;) {
        batch = (struct prn_batch *)prn_belt_take(&s->out);
        last = !batch || batch->last;
        code = batch ? send_on(s, batch, &err) : 0;
    }
    if (code < 0) {
        prn_fail_in(&err, code, "%s", s->setup->label);
        fail(l, code, &err);
    }
    return NULL;
}

/* One batch from the host before; the first stage hears of what has come out at the end. */
static int take_arrival(struct stage *s, struct prn_batch *batch, struct prony_error *err)
{
    struct launch *l = s->launch;
    const struct prn_stage_links *links = l->setup->links;
    int code = links->receive(links->context, batch, err);
    int64_t now = prn_clock_ns();
    struct prn_spell spell = {.number = batch->number, .end_ns = now};
    bool last = code == 0 && batch->last;
    if (code == 0 && !last && prn_spells_add(&l->log->arrivals, &spell) < 0)
        code = prn_fail_memory(err);
    if (code == 0 && !links->first) {
        if (prn_belt_put(&s->in, &batch->item))
            return last ? STOPPED : 0;
        prn_batch_free(batch);
        return STOPPED;
    }
    if (code == 0 && !last && finish_batch(l, batch, now) < 0)
        code = prn_fail_memory(err);
    if (!prn_belt_put(&l->spares, &batch->item))
        prn_batch_free(batch);
    if (last)
        end_ring(l);
    return code < 0 ? code : last ? STOPPED : 0;
}

static void *run_receiver(void *context)
{
    struct stage *s = context;
    struct launch *l = s->launch;
    struct prony_error err = {0};
    int code = l->setup->links->open_in(l->setup->links->context, &err);
    while (code == 0) {
        struct prn_batch *batch = (struct prn_batch *)prn_belt_pick(&l->spares);
        batch = batch ? batch : prn_batch_new();
        code = batch ? take_arrival(s, batch, &err) : prn_fail_memory(&err);
    }
    if (code < 0) {
        prn_fail_in(&err, code, "%s", s->setup->label);
        fail(l, code, &err);
    }
    return NULL;
}

static void *run_link(void *context)
{
    struct stage *s = context;
    struct launch *l = s->launch;
    struct prn_batch *batch;
    while ((batch = (struct prn_batch *)prn_belt_take(&s->out))) {
        struct prn_spell spell = {
            .number = batch->number, .alone = batch->alone, .begin_ns = prn_clock_ns()};
        bool carried = carry(l, s->setup->link_s);
        spell.end_ns = prn_clock_ns();
        if (carried && prn_spells_add(&l->log->links[s->index], &spell) < 0) {
            struct prony_error err;
            fail(l, prn_fail_memory(&err), &err);
            carried = false;
        }
        if (!carried || !prn_belt_put(&s[1].in, &batch->item)) {
            prn_batch_free(batch);
            break;
        }
    }
    return NULL;
}

/* ---- The whole ---- */

/* Waits until all stages are ready, `done` batches are done (all that were begun, if `empty`), and
 * `until_ns` has come; or until something fails. */
struct goal {
    size_t ready, done;
    bool empty, over;
    int64_t until_ns;
};

static bool reached(const struct launch *l, const struct goal *g)
{
    return l->ready >= g->ready && l->done >= g->done && (!g->empty || l->done == l->begun) &&
           (!g->over || l->over) && prn_clock_ns() >= g->until_ns;
}

static int wait_for(struct launch *l, const struct goal *g, const char *doing)
{
    const volatile int *cancelled = l->setup->request->models.cancelled;
    while (!l->stopped && !reached(l, g)) {
        if (cancelled && __atomic_load_n(cancelled, __ATOMIC_RELAXED)) {
            l->code = prn_fail(&l->failure, PRONY_ECANCELED, "interrupted while %s", doing);
            l->stopped = true;
            break;
        }
        struct timespec until = prn_timespec(prn_monotonic_ns() + LOOK_NS);
        pthread_cond_timedwait(&l->changed, &l->lock, &until);
    }
    return l->stopped ? STOPPED : 0;
}

static void allow(struct launch *l, size_t most, bool alone)
{
    l->most = most;
    l->alone = alone;
    pthread_cond_broadcast(&l->changed);
}

static int64_t after(double s)
{
    return prn_clock_ns() + (int64_t)(1e9 * s);
}

static int64_t last_end(const struct launch *l)
{
    return l->log->whole.items[l->log->whole.n - 1].end_ns;
}

/* How many batches fit into the pipeline: after so many it is full. */
static size_t batches_to_fill(const struct launch *l)
{
    const struct prn_pipeline *p = l->setup->request->models.pipeline;
    size_t n = l->setup->links ? l->setup->links->n : l->setup->n_stages;
    double fit = (double)n + (double)(n - 1) * (double)(p->buffers_in + p->buffers_out + 1);
    return fit < FILL_MAX ? (size_t)fit : FILL_MAX;
}

/* Sends the last batch round, behind which nothing comes; there is room for it. */
static bool send_last(struct launch *l)
{
    struct prn_batch *batch = prn_batch_new();
    if (!batch) {
        l->code = prn_fail_memory(&l->failure);
        l->stopped = true;
        return false;
    }
    batch->last = true;
    pthread_mutex_unlock(&l->lock);
    if (!prn_belt_put(&l->stages[0].out, &batch->item))
        prn_batch_free(batch);
    pthread_mutex_lock(&l->lock);
    return true;
}

/* One batch at a time, then as many as there is room for. Under the lock. */
static void conduct(struct launch *l)
{
    double duration_s = l->setup->request->duration_s;
    const struct prn_stage_links *links = l->setup->links;
    struct goal goal = {.ready = l->setup->n_stages};
    if (links && !links->first) {
        goal.over = true;
        (void)wait_for(l, &goal, "working");
        return;
    }
    if (wait_for(l, &goal, "loading the stages"))
        return;
    allow(l, 1, true);
    /* Stages of other hosts may still be loading. */
    goal = (struct goal){.done = PRN_TALLY_WARMUPS};
    if (wait_for(l, &goal, "loading the stages"))
        return;
    goal = (struct goal){.done = PRN_TALLY_WARMUPS + LONE_BATCHES_MIN,
                         .until_ns = after(duration_s / 2)};
    if (wait_for(l, &goal, "measuring latency"))
        return;
    allow(l, 0, true);
    goal = (struct goal){.empty = true};
    if (wait_for(l, &goal, "measuring latency"))
        return;
    allow(l, SIZE_MAX, false);
    goal = (struct goal){.done = l->done + batches_to_fill(l)};
    if (wait_for(l, &goal, "filling the pipeline"))
        return;
    l->log->full_ns = last_end(l);
    goal = (struct goal){.done = l->done + FULL_BATCHES_MIN, .until_ns = after(duration_s)};
    if (wait_for(l, &goal, "measuring throughput"))
        return;
    l->log->end_ns = last_end(l);
    for (size_t i = 0; i < l->setup->n_stages; i++)
        look_at_process(&l->stages[i]);
    if (!links)
        return;
    allow(l, 0, false);
    goal = (struct goal){.empty = true};
    if (wait_for(l, &goal, "emptying the pipeline"))
        return;
    goal = (struct goal){.over = send_last(l)};
    (void)wait_for(l, &goal, "ending");
}

static int start_threads(struct launch *l, struct prony_error *err)
{
    size_t n = l->setup->n_stages;
    for (size_t i = 0; i < n; i++) {
        struct stage *s = &l->stages[i];
        int error = pthread_create(&s->thread, NULL, run_stage, s);
        s->has_thread = error == 0;
        if (!error && (l->setup->links || i + 1 < n)) {
            error =
                pthread_create(&s->link_thread, NULL, l->setup->links ? run_sender : run_link, s);
            s->has_link_thread = error == 0;
        }
        if (!error && l->setup->links) {
            error = pthread_create(&l->receiver, NULL, run_receiver, s);
            l->has_receiver = error == 0;
        }
        if (error)
            return prn_fail(err, PRONY_EIO, "cannot start a thread: %s", strerror(error));
    }
    return 0;
}

static void launch_drain(struct prn_belt *belt)
{
    struct prn_belt_item *item;
    while ((item = prn_belt_pick(belt)))
        prn_batch_free((struct prn_batch *)item);
    prn_belt_release(belt);
}

static void init_stage(struct launch *l, size_t i)
{
    const struct prn_pipeline *p = l->setup->request->models.pipeline;
    struct stage *s = &l->stages[i];
    *s = (struct stage){
        .launch = l, .setup = &l->setup->stages[i], .index = i, .process = {.inputs_fd = -1}};
    prn_belt_init(&s->in, (size_t)p->buffers_in);
    prn_belt_init(&s->out, (size_t)p->buffers_out);
    prn_belt_init(&s->spares, SIZE_MAX / 2);
}

static void join(struct launch *l)
{
    for (size_t i = 0; i < l->setup->n_stages; i++) {
        if (l->stages[i].has_thread)
            pthread_join(l->stages[i].thread, NULL);
        if (l->stages[i].has_link_thread)
            pthread_join(l->stages[i].link_thread, NULL);
    }
    if (l->has_receiver)
        pthread_join(l->receiver, NULL);
}

static int launch_run(struct launch *l, struct prony_error *err)
{
    pthread_mutex_init(&l->lock, NULL);
    prn_condition_init(&l->changed);
    prn_condition_init(&l->stopping);
    prn_belt_init(&l->spares, SIZE_MAX / 2);
    for (size_t i = 0; i < l->setup->n_stages; i++)
        init_stage(l, i);
    int code = start_threads(l, err);
    if (code == 0) {
        pthread_mutex_lock(&l->lock);
        conduct(l);
        pthread_mutex_unlock(&l->lock);
    }
    stop(l);
    join(l);
    l->log->disturbed = code == 0 && l->code == 0 && had_to_wait(l);
    if (code == 0 && l->code < 0)
        code = prn_fail(err, l->code, "%s", l->failure.text);
    for (size_t i = 0; i < l->setup->n_stages; i++) {
        launch_drain(&l->stages[i].in);
        launch_drain(&l->stages[i].out);
        launch_drain(&l->stages[i].spares);
    }
    launch_drain(&l->spares);
    pthread_cond_destroy(&l->changed);
    pthread_cond_destroy(&l->stopping);
    pthread_mutex_destroy(&l->lock);
    return code;
}

int prn_simulation_log_init(struct prn_simulation_log *log, size_t n, struct prony_error *err)
{
    *log = (struct prn_simulation_log){.arena = PRN_ARENA_INIT(ARENA_BYTES), .n_stages = n};
    log->stages = PRN_ARENA_ARRAY(&log->arena, n, struct prn_spells);
    log->links = PRN_ARENA_ARRAY(&log->arena, n, struct prn_spells);
    log->link_bytes = PRN_ARENA_ARRAY(&log->arena, n, double);
    log->growth_bytes = PRN_ARENA_ARRAY(&log->arena, n, double);
    log->kept = PRN_ARENA_ARRAY(&log->arena, n * PRN_SIMULATION_SOURCES, struct prn_kept);
    log->arenas = PRN_ARENA_ARRAY(&log->arena, n, struct prn_arena);
    if (!log->stages || !log->links || !log->link_bytes || !log->growth_bytes || !log->kept ||
        !log->arenas) {
        prn_arena_release(&log->arena);
        return prn_fail_memory(err);
    }
    for (size_t i = 0; i < n * PRN_SIMULATION_SOURCES; i++)
        log->kept[i].fd = -1;
    for (size_t i = 0; i < n; i++)
        log->arenas[i] = PRN_ARENA_INIT(ARENA_BYTES);
    return 0;
}

int prn_simulation_launch(const struct prn_simulation_setup *setup,
                          struct prn_simulation_log *ret_log, struct prony_error *err)
{
    struct prn_simulation_log log;
    struct launch l = {.setup = setup, .log = &log};
    int code = prn_simulation_log_init(&log, setup->n_stages, err);
    if (code < 0)
        return code;
    l.stages = PRN_ARENA_ARRAY(&log.arena, setup->n_stages, struct stage);
    code = l.stages ? launch_run(&l, err) : prn_fail_memory(err);
    if (code < 0)
        prn_simulation_log_release(&log);
    else
        *ret_log = log;
    return code;
}

void prn_simulation_log_release(struct prn_simulation_log *log)
{
    for (size_t i = 0; i < log->n_stages; i++) {
        free(log->stages[i].items);
        free(log->links[i].items);
        prn_arena_release(&log->arenas[i]);
    }
    for (size_t i = 0; i < log->n_stages * PRN_SIMULATION_SOURCES; i++)
        prn_kept_release(&log->kept[i]);
    free(log->whole.items);
    free(log->arrivals.items);
    prn_arena_release(&log->arena);
}
