/*
 * The pass over the events. What an event belongs to is looked up once per name and remembered
 * there (struct seen): in a trace the same few events come again and again, so most cost two
 * comparisons and two additions.
 */
#include "trace/trace.h"

#include "base/array.h"
#include "base/format.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define GROUPS_BYTES_MAX ((size_t)256 << 20)
#define PROGRESS_EVENTS 65536
#define SEEN_MAX 8 /* of a name */

/* Stands for the shapes of a kernel that no node launched. */
static const struct prn_symbol unknown_shape = {.text = "unknown", .len = 7};

/* What was found out about events of a name that say the same; the next one of that name may say
 * something else. */
struct seen {
    struct seen *next;
    bool kernel; /* a kernel's event, not a node's */
    const struct prn_symbol *op, *provider, *shape, *dimensions;
    bool passes; /* the filter */
    struct prn_trace_group *groups[3];
};

struct kernel_counts {
    uint64_t kernels, unresolved;
};

/* What a thread has done for runs that haven't ended. */
struct strand {
    int64_t thread;
    bool runs;         /* the thread has ended a run */
    uint64_t events;   /* nodes and kernels that belong to no run yet */
    int64_t oldest_ns; /* where the earliest of its nodes begins; INT64_MAX: none */
    const struct prn_trace_name *first; /* node that came first; NULL: none, or not remembered */
    struct kernel_counts kernels;
    struct prn_trace_run_memory memory;
    struct prn_ledger *ledger;
};

/* A kernel that came after the last `model_run` so far. */
struct late_kernel {
    const struct prn_trace_name *name; /* NULL: one that isn't remembered */
    struct prn_trace_group *groups[2]; /* of the tables `gpu` and `mapping` */
    int64_t start_ns, duration_ns;
};

/* What is known of the file being read. */
struct file {
    uint64_t first_run;
    struct prn_trace_reader_counts before; /* counts of the files before it */
    uint64_t kernels;                      /* in runs, selected or not */
    bool from_runtime;                     /* an event is of a category that ONNX Runtime writes */
};

struct pass {
    struct prn_trace *trace;
    const struct prn_trace_options *options;
    struct prn_run_selection *selection;
    struct strand strands[PRN_TRACE_STRANDS_MAX];
    size_t n_strands;
    size_t current; /* strand of the last event that isn't a kernel's */
    struct late_kernel *late;
    size_t n_late;
    size_t groups_left;
    struct prn_trace_files *files;
    struct file file;
    int64_t shift_ns, latest_ns; /* of events for `on_event`: where their file begins; their end */
    bool selected;               /* the run being read is */
    bool launched;               /* a node came before, inside the selection */
    const struct prn_symbol *launch_shape; /* of that node; NULL: it has none */
    struct kernel_counts first;
    uint64_t pending_events; /* other than nodes and kernels */
    struct prn_trace_run last_run;
    struct seen transient; /* of a name that isn't remembered */
    bool overflow;
};

/* ---- Groups ---- */

static int grow_table(struct prn_trace_table *table)
{
    struct prn_trace_group **groups =
        prn_array_grow(table->groups, table->n, sizeof(struct prn_trace_group *));
    if (!groups)
        return PRONY_ENOMEM;
    table->groups = groups;
    return 0;
}

/* Symbols are unique, so a key is told by its pointers. */
static int find_group(struct pass *p, struct prn_trace_table *table,
                      const struct prn_trace_key *key, struct prn_trace_group **ret_group,
                      struct prony_error *err)
{
    size_t i = prn_map_get_n(&table->by_key, (const char *)key, sizeof *key);
    if (i == PRN_MAP_NONE) {
        if (p->groups_left == 0)
            return prn_fail(err, PRONY_ELIMIT,
                            "'%s': over %zu distinct groups; --filter or grouping by less makes "
                            "fewer, --max-groups raises the limit",
                            p->trace->name, p->options->groups_max);
        struct prn_trace_group *group = PRN_ARENA_NEW(&p->trace->arena, struct prn_trace_group);
        if (!group || grow_table(table) < 0)
            return prn_fail_memory(err);
        group->key = *key;
        if (prn_map_set_n(&table->by_key, (const char *)&group->key, sizeof *key, table->n) < 0)
            return prn_fail_memory(err);
        i = table->n++;
        table->groups[i] = group;
        p->groups_left--;
    }
    *ret_group = table->groups[i];
    return 0;
}

static void add(struct pass *p, struct prn_trace_sum *sum, uint64_t count, int64_t ns)
{
    sum->count += count;
    if (__builtin_add_overflow(sum->ns, ns, &sum->ns)) {
        p->overflow = true;
        sum->ns = INT64_MAX; /* so that it stays a duration until the trace is refused */
    }
}

/* Puts a group on the list of those that a strand has touched. */
static int list_touched(struct prn_trace_table *table, size_t strand, struct prn_trace_group *group)
{
    struct prn_trace_touched *touched = &table->touched[strand];
    if (touched->n == touched->capacity) {
        size_t capacity = touched->capacity ? 2 * touched->capacity : 64;
        struct prn_trace_group **groups =
            reallocarray(touched->groups, capacity, sizeof(struct prn_trace_group *));
        if (!groups)
            return PRONY_ENOMEM;
        touched->groups = groups;
        touched->capacity = capacity;
    }
    touched->groups[touched->n++] = group;
    return 0;
}

static int grow_pending(struct prn_trace_group *group, size_t strand)
{
    struct prn_trace_sum *pending = reallocarray(group->pending, strand + 1, sizeof *pending);
    if (!pending)
        return PRONY_ENOMEM;
    memset(pending + group->n_pending, 0, (strand + 1 - group->n_pending) * sizeof *pending);
    group->pending = pending;
    group->n_pending = strand + 1;
    return 0;
}

static int touch(struct pass *p, struct prn_trace_table *table, size_t strand,
                 struct prn_trace_group *group, const struct prn_trace_sum *sum)
{
    if (strand >= group->n_pending && grow_pending(group, strand) < 0)
        return PRONY_ENOMEM;
    if (group->pending[strand].count == 0 && list_touched(table, strand, group) < 0)
        return PRONY_ENOMEM;
    add(p, &group->pending[strand], sum->count, sum->ns);
    prn_trace_use_add(&group->pending[strand].memory, &sum->memory);
    return 0;
}

/* An event of a group, in the strand that is being read. */
static int touch_event(struct pass *p, struct prn_trace_table *table, struct prn_trace_group *group,
                       int64_t ns, const struct prn_trace_use *memory)
{
    struct prn_trace_sum sum = {.count = 1, .ns = ns};
    if (memory)
        sum.memory = *memory;
    return touch(p, table, p->current, group, &sum);
}

static int add_to_order(struct prn_trace_order *order, int64_t ns)
{
    if (order->n == PRN_TRACE_ORDER_MAX)
        return 0;
    float *times = prn_array_grow(order->ns, order->n, sizeof *times);
    if (!times)
        return PRONY_ENOMEM;
    order->ns = times;
    times[order->n++] = (float)ns;
    return 0;
}

/* Puts one run's sum into the totals. */
static int settle(struct pass *p, struct prn_trace_table *table, struct prn_trace_group *group,
                  const struct prn_trace_sum *sum, struct prony_error *err)
{
    add(p, &group->total, sum->count, sum->ns);
    add(p, &table->total, sum->count, sum->ns);
    if (table->with_statistics && prn_sketch_add(&group->per_run, (double)sum->ns) < 0)
        return prn_fail_memory(err);
    if (table->with_statistics && add_to_order(&group->order, sum->ns) < 0)
        return prn_fail_memory(err);
    return 0;
}

/* What a strand holds of a table is settled, or dropped if the run isn't selected. */
static int end_run_of_table(struct pass *p, struct prn_trace_table *table, size_t strand,
                            uint64_t run, struct prony_error *err)
{
    struct prn_trace_touched *touched = &table->touched[strand];
    int code = 0;
    for (size_t i = 0; i < touched->n; i++) {
        struct prn_trace_group *group = touched->groups[i];
        struct prn_trace_sum *pending = &group->pending[strand];
        if (run == 0)
            group->first = *pending;
        if (p->selected || run == 0)
            prn_trace_use_most(&group->memory, &pending->memory);
        if (p->selected && code == 0)
            code = settle(p, table, group, pending, err);
        *pending = (struct prn_trace_sum){0};
    }
    touched->n = 0;
    return code;
}

/* Run 0 was left out, but is all there is. */
static int settle_first(struct pass *p, struct prn_trace_table *table, struct prony_error *err)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < table->n; i++)
        if (table->groups[i]->first.count > 0)
            code = settle(p, table, table->groups[i], &table->groups[i]->first, err);
    return code;
}

/* ---- Events ---- */

static bool matches(const struct prn_trace_options *options, const struct prn_symbol *symbol)
{
    for (size_t i = 0; i < options->n_filters; i++)
        if (prn_text_glob(options->filters[i], symbol->text))
            return true;
    return false;
}

/* The strand of a thread. A program may start a thread for every run, so one that holds nothing is
 * used again when there are no more. */
static size_t find_strand(struct pass *p, int64_t thread)
{
    if (p->current < p->n_strands && p->strands[p->current].thread == thread)
        return p->current;
    size_t unused = PRN_TRACE_STRANDS_MAX - 1;
    for (size_t i = 0; i < p->n_strands; i++) {
        if (p->strands[i].thread == thread)
            return i;
        if (p->strands[i].events == 0)
            unused = i;
    }
    size_t i = p->n_strands < PRN_TRACE_STRANDS_MAX ? p->n_strands++ : unused;
    struct strand *s = &p->strands[i];
    if (s->events == 0)
        *s = (struct strand){.oldest_ns = INT64_MAX, .ledger = s->ledger};
    s->thread = thread;
    return i;
}

static bool passes(const struct prn_trace_options *options, const struct prn_trace_event *event)
{
    return options->n_filters == 0 || !event->op || matches(options, event->op) ||
           matches(options, &event->name->symbol);
}

static int fail_names(const struct pass *p, struct prony_error *err)
{
    return prn_fail(err, PRONY_ELIMIT,
                    "'%s': over %zu distinct event names, or %zu MiB of texts; --max-groups raises "
                    "the limit",
                    p->trace->name, p->options->groups_max,
                    PRN_TRACE_TEXTS_MAX(p->options->groups_max) >> 20);
}

static int find_cpu_groups(struct pass *p, const struct prn_trace_event *event, struct seen *seen,
                           struct prony_error *err)
{
    struct prn_trace *t = p->trace;
    for (size_t i = 0; i < 2; i++) {
        unsigned by = t->cpu[i].by;
        if (by == 0)
            continue;
        if (by & PRN_TRACE_BY_NODE && event->name->transient)
            return fail_names(p, err);
        struct prn_trace_key key = {.node = by & PRN_TRACE_BY_NODE ? &event->name->symbol : NULL,
                                    .op = by & (PRN_TRACE_BY_OP | PRN_TRACE_BY_NODE) ? event->op
                                                                                     : NULL,
                                    .provider = by & PRN_TRACE_BY_PROVIDER ? event->provider : NULL,
                                    .shape = by & PRN_TRACE_BY_SHAPE ? seen->shape : NULL};
        int code = find_group(p, &t->cpu[i], &key, &seen->groups[i], err);
        if (code < 0)
            return code;
    }
    if (!p->options->mapping)
        return 0;
    struct prn_trace_key key = {.op = event->op, .shape = seen->shape};
    return find_group(p, &t->mapped, &key, &seen->groups[2], err);
}

/* WebGPU's kernels are called "node&operator&program". False: this one isn't. */
static bool split_api(const struct prn_symbol *name, struct prn_symbol ret_parts[2])
{
    const char *program = strrchr(name->text, '&');
    const char *op = program ? memrchr(name->text, '&', (size_t)(program - name->text)) : NULL;
    if (!op)
        return false;
    ret_parts[0] = (struct prn_symbol){.text = op + 1, .len = (size_t)(program - op) - 1};
    ret_parts[1] = (struct prn_symbol){.text = program + 1, .len = strlen(program + 1)};
    return true;
}

/* The kernel's name, and its operator if it is known. */
static int find_program(struct pass *p, const struct prn_trace_event *event,
                        const struct prn_symbol **ret_program, const struct prn_symbol **ret_op,
                        struct prony_error *err)
{
    struct prn_symbol parts[2];
    *ret_program = &event->name->symbol;
    *ret_op = event->op;
    if (event->category != PRN_TRACE_API || !split_api(&event->name->symbol, parts))
        return 0;
    struct prn_symbols *programs = &p->trace->programs;
    int code = prn_symbols_get(programs, parts[0].text, parts[0].len, ret_op);
    if (code == 0)
        code = prn_symbols_get(programs, parts[1].text, parts[1].len, ret_program);
    return code == PRONY_ELIMIT ? fail_names(p, err) : code < 0 ? prn_fail_memory(err) : 0;
}

static int find_gpu_groups(struct pass *p, const struct prn_trace_event *event, struct seen *seen,
                           struct prony_error *err)
{
    struct prn_trace *t = p->trace;
    if (event->name->transient)
        return fail_names(p, err);
    const struct prn_symbol *program, *op;
    int code = find_program(p, event, &program, &op, err);
    if (code < 0)
        return code;
    struct prn_trace_key key = {.node = program,
                                .shape = p->options->kernel_shapes ? seen->shape : NULL,
                                .dimensions =
                                    p->options->kernel_dimensions ? event->dimensions : NULL};
    code = find_group(p, &t->gpu, &key, &seen->groups[0], err);
    if (code < 0 || !p->options->mapping || !op)
        return code;
    key = (struct prn_trace_key){
        .node = program, .op = op, .shape = seen->shape, .dimensions = event->dimensions};
    return find_group(p, &t->mapping, &key, &seen->groups[1], err);
}

static bool is_kernel(const struct prn_trace_event *event)
{
    return event->category == PRN_TRACE_KERNEL || event->category == PRN_TRACE_API;
}

static bool is_seen(const struct seen *seen, const struct prn_trace_event *event, bool kernel,
                    const struct prn_symbol *shape)
{
    return seen->kernel == kernel && seen->op == event->op && seen->provider == event->provider &&
           seen->shape == shape && seen->dimensions == event->dimensions;
}

/* An entry to fill: a new one, or the oldest when a name has enough of them. */
static struct seen *new_seen(struct pass *p, struct prn_trace_name *name)
{
    size_t n = 0;
    if (name->transient)
        return &p->transient;
    for (struct seen **at = (struct seen **)&name->user; *at; at = &(*at)->next)
        if (++n == SEEN_MAX) {
            struct seen *oldest = *at;
            *at = NULL;
            return oldest;
        }
    return PRN_ARENA_NEW(&p->trace->arena, struct seen);
}

/* What is known of an event with this name, operator, provider, shapes and dimensions. */
static int look_up(struct pass *p, const struct prn_trace_event *event,
                   const struct prn_symbol *shape, struct seen **ret_seen, struct prony_error *err)
{
    bool kernel = is_kernel(event);
    struct prn_trace_name *name = event->name;
    for (struct seen *seen = name->user; seen; seen = seen->next)
        if (is_seen(seen, event, kernel, shape)) {
            *ret_seen = seen;
            return 0;
        }
    struct seen *seen = new_seen(p, name);
    if (!seen)
        return prn_fail_memory(err);
    *seen = (struct seen){.kernel = kernel,
                          .op = event->op,
                          .provider = event->provider,
                          .shape = shape,
                          .dimensions = event->dimensions,
                          .passes = passes(p->options, event)};
    int code = 0;
    if (seen->passes && (kernel || event->op))
        code = (kernel ? find_gpu_groups : find_cpu_groups)(p, event, seen, err);
    if (code < 0)
        return code;
    if (!name->transient) {
        seen->next = name->user;
        name->user = seen;
    }
    *ret_seen = seen;
    return 0;
}

/* Kernels that follow are this node's, if it is inside the selection. Run 0 may turn out to be all
 * there is, so it is treated as if it were. */
static void launch(struct pass *p, const struct prn_trace_event *event)
{
    if (!p->selected && p->trace->n_runs > 0)
        return;
    p->launched = true;
    p->launch_shape = event->shape;
}

/* Kernels since the last run are kept: no other may follow. */
static int keep_late(struct pass *p, const struct prn_trace_event *event, const struct seen *seen)
{
    if (p->n_late == PRN_TRACE_ORT_EVENTS_MAX)
        return 0;
    struct late_kernel *late = prn_array_grow(p->late, p->n_late, sizeof *late);
    if (!late)
        return PRONY_ENOMEM;
    p->late = late;
    late[p->n_late++] = (struct late_kernel){.name = event->name->transient ? NULL : event->name,
                                             .groups = {seen->groups[0], seen->groups[1]},
                                             .start_ns = event->start_ns,
                                             .duration_ns = event->duration_ns};
    return 0;
}

static int take_kernel(struct pass *p, const struct prn_trace_event *event, struct prony_error *err)
{
    bool by_shape = p->options->kernel_shapes || p->options->mapping;
    bool named = event->category == PRN_TRACE_API; /* says itself what it belongs to */
    const struct prn_symbol *shape =
        by_shape && p->launch_shape && !named ? p->launch_shape : &unknown_shape;
    struct seen *seen;
    int code = look_up(p, event, shape, &seen, err);
    if (code < 0 || !seen->passes)
        return code;
    struct strand *strand = &p->strands[p->current];
    strand->events++;
    strand->kernels.kernels++;
    if (!p->launched && !named && !strstr(event->name->symbol.text, "hipMem"))
        strand->kernels.unresolved++;
    if (touch_event(p, &p->trace->gpu, seen->groups[0], event->duration_ns, NULL) < 0 ||
        (seen->groups[1] &&
         touch_event(p, &p->trace->mapping, seen->groups[1], event->duration_ns, NULL) < 0) ||
        keep_late(p, event, seen) < 0)
        return prn_fail_memory(err);
    if (event->name->role == PRN_TRACE_ROLE_KERNEL_TIME)
        launch(p, event);
    return 0;
}

static int add_to_ledger(struct pass *p, const struct prn_trace_event *event)
{
    struct strand *strand = &p->strands[p->current];
    if (!strand->ledger && !(strand->ledger = prn_ledger_new()))
        return PRONY_ENOMEM;
    if (event->name->role == PRN_TRACE_ROLE_EXECUTE)
        return prn_ledger_execute(strand->ledger, event->start_ns, event->duration_ns);
    strand->events++;
    if (strand->oldest_ns == INT64_MAX)
        strand->first = event->name->transient ? NULL : event->name;
    if (event->start_ns < strand->oldest_ns)
        strand->oldest_ns = event->start_ns;
    return prn_ledger_node(strand->ledger, event->thread, event->start_ns, event->duration_ns);
}

static struct prn_trace_use take_memory(struct pass *p, const struct prn_trace_event *event)
{
    struct prn_trace *t = p->trace;
    if (!event->memory.known)
        return (struct prn_trace_use){0};
    return prn_trace_memory_take(&t->memory, &event->memory, event->provider,
                                 event->name->transient ? NULL : &event->name->symbol, t->n_runs,
                                 &p->strands[p->current].memory);
}

static int take_node(struct pass *p, const struct prn_trace_event *event, struct prony_error *err)
{
    struct prn_trace *t = p->trace;
    if (add_to_ledger(p, event) < 0)
        return prn_fail_memory(err);
    struct prn_trace_use use = take_memory(p, event);
    const struct prn_symbol *shape = event->shape ? event->shape : &unknown_shape;
    struct seen *seen;
    int code = look_up(p, event, shape, &seen, err);
    if (code < 0 || !seen->passes)
        return code;
    launch(p, event);
    if (!event->op) {
        t->without_op++;
        return 0;
    }
    struct prn_trace_table *tables[] = {&t->cpu[0], &t->cpu[1], &t->mapped};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(tables); i++)
        if (seen->groups[i] &&
            touch_event(p, tables[i], seen->groups[i], event->duration_ns, &use) < 0)
            return prn_fail_memory(err);
    return 0;
}

/* ---- Runs ---- */

/* Whether the run began before the one before it had ended. */
static bool overlaps(const struct pass *p, const struct prn_trace_event *event)
{
    /* The difference, because the sum may not fit. */
    int64_t since;
    bool far = __builtin_sub_overflow(event->start_ns, p->last_run.start_ns, &since);
    return p->trace->n_runs > p->file.first_run && !far && since < p->last_run.duration_ns;
}

static int add_run(struct pass *p, const struct prn_trace_event *event, int64_t node_ns,
                   const struct prn_trace_run_memory *memory)
{
    struct prn_trace *t = p->trace;
    struct prn_trace_run run = {event->start_ns, event->duration_ns, node_ns, *memory};
    uint64_t n = t->n_runs;
    t->overlapping += overlaps(p, event);
    p->last_run = run;
    if (p->options->runs_max > 0 && n >= p->options->runs_max)
        return 0;
    struct prn_trace_run *runs = prn_array_grow(t->runs, n, sizeof *runs);
    if (!runs)
        return PRONY_ENOMEM;
    t->runs = runs;
    t->runs[n] = run;
    return 0;
}

static int settle_ledger(struct prn_trace *t, const struct prn_ledger_run *run,
                         struct prony_error *err)
{
    const int64_t values[PRN_LEDGER_ROW_COUNT] = {
#define PRN_X(name, field, title) [PRN_LEDGER_##name] = run->field,
        PRN_LEDGER_ROWS(PRN_X)
#undef PRN_X
            [PRN_LEDGER_TOTAL] = run->total};
    for (size_t i = 0; i < PRN_LEDGER_ROW_COUNT; i++) {
        t->ledger_ns[i] += (double)values[i];
        if (prn_sketch_add(&t->ledger[i], (double)values[i]) < 0)
            return prn_fail_memory(err);
    }
    if (add_to_order(&t->order, run->total) < 0)
        return prn_fail_memory(err);
    t->ledger_node_sum_ns += (double)run->node_sum;
    t->ledger_nested_ns += (double)run->nested;
    t->ledger_nodes += run->nodes;
    t->ledger_approximate |= run->approximate;
    t->has_ledger = true;
    return 0;
}

static void settle_kernels(struct prn_trace *t, const struct kernel_counts *counts)
{
    t->kernels += counts->kernels;
    t->kernels_unresolved += counts->unresolved;
}

/* The five tables, with what each is for. */
static void list_tables(struct prn_trace *t, struct prn_trace_table *ret_tables[5])
{
    struct prn_trace_table *tables[] = {&t->cpu[0], &t->cpu[1], &t->gpu, &t->mapping, &t->mapped};
    memcpy(ret_tables, tables, sizeof tables);
}

/* Moves what one strand holds to another. */
static int absorb(struct pass *p, size_t into, size_t from, struct prony_error *err)
{
    struct prn_trace_table *tables[5];
    list_tables(p->trace, tables);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(tables); i++) {
        struct prn_trace_touched *touched = &tables[i]->touched[from];
        for (size_t g = 0; g < touched->n; g++) {
            struct prn_trace_sum sum = touched->groups[g]->pending[from];
            if (touch(p, tables[i], into, touched->groups[g], &sum) < 0)
                return prn_fail_memory(err);
            touched->groups[g]->pending[from] = (struct prn_trace_sum){0};
        }
        touched->n = 0;
    }
    struct strand *a = &p->strands[into];
    struct strand *b = &p->strands[from];
    if (!a->ledger && !(a->ledger = prn_ledger_new()))
        return prn_fail_memory(err);
    if (b->ledger && prn_ledger_absorb(a->ledger, b->ledger) < 0)
        return prn_fail_memory(err);
    a->kernels.kernels += b->kernels.kernels;
    a->kernels.unresolved += b->kernels.unresolved;
    a->events += b->events;
    prn_trace_run_memory_add(&a->memory, &b->memory);
    b->memory = (struct prn_trace_run_memory){0};
    b->events = 0;
    b->kernels = (struct kernel_counts){0};
    b->oldest_ns = INT64_MAX;
    return 0;
}

/* Whether `other` worked for the run of `own` that began at `start_ns`. A thread that begins with
 * the same node is in a run of its own, which hasn't ended. */
static bool works_for(const struct strand *other, const struct strand *own, int64_t start_ns)
{
    if (other->runs || other->events == 0)
        return false;
    return own->events == 0 || (other->oldest_ns >= start_ns && other->first != own->first);
}

/* Takes over what other threads did for the run of strand `own`. */
static int gather_strands(struct pass *p, size_t own, const struct prn_trace_event *event,
                          struct prony_error *err)
{
    int code = 0;
    const struct strand before = p->strands[own];
    for (size_t i = 0; code == 0 && i < p->n_strands; i++)
        if (i != own && works_for(&p->strands[i], &before, event->start_ns))
            code = absorb(p, own, i, err);
    return code;
}

/* The groups' part of a run's end. */
static int end_run_of_groups(struct pass *p, size_t own, uint64_t run, struct prony_error *err)
{
    struct strand *strand = &p->strands[own];
    struct prn_trace_table *tables[5];
    list_tables(p->trace, tables);
    int code = 0;
    for (size_t i = 0; code == 0 && i < PRN_ARRAY_SIZE(tables); i++)
        code = end_run_of_table(p, tables[i], own, run, err);
    p->file.kernels += strand->kernels.kernels;
    if (run == 0)
        p->first = strand->kernels;
    if (p->selected)
        settle_kernels(p->trace, &strand->kernels);
    else if (run == 0)
        p->launched = false;
    if (!p->launched)
        p->launch_shape = NULL;
    strand->kernels = (struct kernel_counts){0};
    strand->events = 0;
    strand->oldest_ns = INT64_MAX;
    p->pending_events = 0;
    p->n_late = 0;
    return code;
}

static int end_run(struct pass *p, const struct prn_trace_event *event, struct prony_error *err)
{
    struct prn_trace *t = p->trace;
    size_t own = p->current;
    struct prn_ledger_run ledger = {.total = event->duration_ns};
    int code = gather_strands(p, own, event, err);
    if (code < 0)
        return code;
    p->strands[own].runs = true;
    if (!p->strands[own].ledger && !(p->strands[own].ledger = prn_ledger_new()))
        return prn_fail_memory(err);
    prn_ledger_close(p->strands[own].ledger, event->start_ns, event->duration_ns, &ledger);
    const struct prn_trace_run_memory memory = p->strands[own].memory;
    p->strands[own].memory = (struct prn_trace_run_memory){0};
    prn_trace_memory_end_run(&t->memory, t->n_runs, &memory);
    code = end_run_of_groups(p, own, t->n_runs, err);
    if (code == 0 && p->selected)
        code = settle_ledger(t, &ledger, err);
    if (t->n_runs == 0)
        t->first_ledger = ledger;
    if (code == 0 && add_run(p, event, ledger.node, &memory) < 0)
        code = prn_fail_memory(err);
    t->n_runs++;
    p->selected = prn_run_selection_has(p->selection, t->n_runs);
    return code;
}

static int64_t saturated_sum(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (a > 0 ? INT64_MAX : INT64_MIN) : sum;
}

/* Hands an event out, on the clock of all files. */
static int show(struct pass *p, const struct prn_trace_event *event, struct prony_error *err)
{
    struct prn_trace_event shifted = *event;
    shifted.start_ns = saturated_sum(event->start_ns, p->shift_ns);
    int64_t end_ns = saturated_sum(shifted.start_ns, event->duration_ns);
    p->latest_ns = end_ns > p->latest_ns ? end_ns : p->latest_ns;
    return p->options->on_event(p->options->context, &shifted, p->trace->n_runs, err);
}

static int take(struct pass *p, const struct prn_trace_event *event, struct prony_error *err)
{
    p->file.from_runtime = p->file.from_runtime || event->category != PRN_TRACE_OTHER ||
                           event->name->role != PRN_TRACE_ROLE_NONE;
    if (p->selected && p->options->on_event) {
        int code = show(p, event, err);
        if (code < 0)
            return code;
    }
    if (!is_kernel(event) || p->n_strands == 0)
        p->current = find_strand(p, event->thread);
    if (is_kernel(event))
        return take_kernel(p, event, err);
    switch (event->name->role) {
    case PRN_TRACE_ROLE_KERNEL_TIME:
        return take_node(p, event, err);
    case PRN_TRACE_ROLE_MODEL_RUN:
        return end_run(p, event, err);
    case PRN_TRACE_ROLE_EXECUTE:
        p->trace->has_execute = true;
        p->pending_events++;
        return add_to_ledger(p, event) < 0 ? prn_fail_memory(err) : 0;
    default:
        p->pending_events++;
        return 0;
    }
}

/* ---- Kernels after the last run ---- */

/* The run of this file in which a kernel began. Runs are listed as they ended. */
static uint64_t run_at(const struct pass *p, int64_t ns)
{
    const struct prn_trace *t = p->trace;
    uint64_t low = p->file.first_run;
    uint64_t high = t->n_runs;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (t->runs[middle].start_ns <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > p->file.first_run ? low - 1 : t->n_runs;
}

/* Whether the kernels' clock is the trace's: then none begins before the first run. */
static bool is_on_clock(const struct pass *p)
{
    const struct prn_trace *t = p->trace;
    for (size_t i = 0; i < p->n_late; i++)
        if (p->late[i].start_ns < t->runs[p->file.first_run].start_ns)
            return false;
    return t->overlapping == 0;
}

/* How many kernels each run has if all have the same ones in the same order; 0: they don't. */
static size_t kernels_per_run(const struct pass *p)
{
    uint64_t runs = p->trace->n_runs - p->file.first_run;
    if (p->n_late % runs != 0)
        return 0;
    size_t period = p->n_late / runs;
    for (size_t i = period; i < p->n_late; i++)
        if (p->late[i].name != p->late[i - period].name)
            return 0;
    return period;
}

/* The end of the kernels of `run`, of which the first is `begin`. */
static size_t end_of_run(const struct pass *p, uint64_t run, size_t begin, size_t period)
{
    size_t end = begin;
    if (period > 0)
        return begin + period;
    while (end < p->n_late && run_at(p, p->late[end].start_ns) <= run)
        end++;
    return end;
}

static void forget_pending(struct prn_trace_table *table)
{
    for (size_t s = 0; s < PRN_TRACE_STRANDS_MAX; s++) {
        struct prn_trace_touched *touched = &table->touched[s];
        for (size_t i = 0; i < touched->n; i++)
            touched->groups[i]->pending[s] = (struct prn_trace_sum){0};
        touched->n = 0;
    }
}

static int by_start(const void *a, const void *b)
{
    const struct late_kernel *x = a;
    const struct late_kernel *y = b;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* Adds the kernels from `begin` up to before `end` to a run that has ended. */
static int add_to_run(struct pass *p, uint64_t run, size_t begin, size_t end,
                      struct prony_error *err)
{
    struct prn_trace_table *tables[] = {&p->trace->gpu, &p->trace->mapping};
    p->current = 0;
    p->selected = prn_run_selection_has(p->selection, run);
    for (size_t i = begin; i < end; i++)
        for (size_t k = 0; k < PRN_ARRAY_SIZE(tables); k++)
            if (p->late[i].groups[k] &&
                touch_event(p, tables[k], p->late[i].groups[k], p->late[i].duration_ns, NULL) < 0)
                return prn_fail_memory(err);
    struct kernel_counts counts = {.kernels = end - begin};
    if (run == 0)
        p->first.kernels += counts.kernels;
    if (p->selected)
        settle_kernels(p->trace, &counts);
    int code = end_run_of_table(p, tables[0], 0, run, err);
    return code < 0 ? code : end_run_of_table(p, tables[1], 0, run, err);
}

/* Kernels that a provider wrote after the last run are given to the runs, if it can be told to
 * which. Only where no run had kernels of its own: those would be counted in two parts. */
static int assign_late(struct pass *p, uint64_t *ret_assigned, struct prony_error *err)
{
    struct prn_trace *t = p->trace;
    bool all_known = p->options->runs_max == 0 || t->n_runs <= p->options->runs_max;
    if (p->n_late == 0 || p->file.kernels > 0 || !all_known)
        return 0;
    bool on_clock = is_on_clock(p);
    size_t period = on_clock ? 0 : kernels_per_run(p);
    if (!on_clock && period == 0)
        return 0;
    if (on_clock)
        qsort(p->late, p->n_late, sizeof *p->late, by_start);
    forget_pending(&t->gpu);
    forget_pending(&t->mapping);
    size_t begin = 0;
    int code = 0;
    for (uint64_t run = p->file.first_run; code == 0 && run < t->n_runs; run++) {
        size_t end = end_of_run(p, run, begin, period);
        code = add_to_run(p, run, begin, end, err);
        begin = end;
    }
    *ret_assigned = p->n_late;
    return code;
}

static uint64_t count_pending(const struct pass *p)
{
    uint64_t n = p->pending_events;
    for (size_t i = 0; i < p->n_strands; i++)
        n += p->strands[i].events;
    return n;
}

/* ---- The whole ---- */

/* Run 0 is all there is. */
static int use_first_run(struct pass *p, struct prony_error *err)
{
    struct prn_trace *t = p->trace;
    struct prn_trace_table *tables[5];
    list_tables(t, tables);
    int code = 0;
    for (size_t i = 0; code == 0 && i < PRN_ARRAY_SIZE(tables); i++)
        code = settle_first(p, tables[i], err);
    settle_kernels(t, &p->first);
    if (code == 0 && !t->whole_is_one_run)
        code = settle_ledger(t, &t->first_ledger, err);
    t->includes_warm_up = true;
    return code;
}

static int finish_runs(struct pass *p, struct prony_error *err)
{
    struct prn_trace *t = p->trace;
    int code = 0;
    if (t->n_runs == 0) {
        t->whole_is_one_run = true;
        for (size_t i = 1; code == 0 && i < p->n_strands; i++)
            code = absorb(p, 0, i, err);
        if (code == 0)
            code = end_run_of_groups(p, 0, 0, err);
    }
    uint64_t n_runs = t->n_runs ? t->n_runs : 1;
    if (code == 0)
        code = prn_run_selection_check(p->selection, n_runs, err);
    if (code < 0)
        return code;
    bool first_only = n_runs == 1 && prn_run_selection_is_default(p->selection);
    if (first_only && p->options->on_event)
        return prn_fail(err, PRONY_EUSAGE, "'%s' has only one run; use --start 0 to see it",
                        t->name);
    t->n_selected = first_only ? 1 : prn_run_selection_count(p->selection, n_runs);
    struct prn_buffer list = PRN_BUFFER_INIT((size_t)1 << 16);
    prn_run_selection_describe(p->selection, n_runs, &list);
    t->selected = prn_buffer_detach(&list);
    t->overruled = prn_run_selection_overrules(p->selection);
    const char *missing = prn_run_selection_missing(p->selection);
    t->missing = missing ? strdup(missing) : NULL;
    if (!t->selected || (missing && !t->missing))
        return prn_fail_memory(err);
    return first_only ? use_first_run(p, err) : 0;
}

/* Runs without an event of a group count as well: it took no time in them. */
static void fill_zeros(struct prn_trace *t)
{
    struct prn_trace_table *tables[5];
    list_tables(t, tables);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(tables); i++)
        for (size_t g = 0; tables[i]->with_statistics && g < tables[i]->n; g++) {
            struct prn_sketch *s = &tables[i]->groups[g]->per_run;
            if (s->count > 0 && s->count < t->n_selected)
                prn_sketch_add_zeros(s, t->n_selected - s->count);
        }
}

static int fail_empty(const struct pass *p, struct prony_error *err)
{
    const struct prn_trace *t = p->trace;
    const char *fault = prn_trace_reader_first_fault(t->reader);
    if (fault)
        return prn_fail(err, PRONY_EFORMAT, "no event is left: %s", fault);
    uint64_t bytes = prn_trace_reader_counts(t->reader)->bytes - p->file.before.bytes;
    return prn_fail(err, PRONY_EFORMAT,
                    "'%s': the trace has no events; all of its %" PRIu64 " bytes were read",
                    prn_source_name(p->files->source), bytes);
}

/* Other programs write events in the same format. */
static int fail_foreign(const struct pass *p, uint64_t events, struct prony_error *err)
{
    char text[PRN_FORMAT_SIZE];
    bool one = events == 1;
    return prn_fail(err, PRONY_EFORMAT,
                    "'%s' is not a trace of ONNX Runtime: %s%s%s%s one that it writes",
                    prn_source_name(p->files->source),
                    prn_trace_reader_is_kineto(p->trace->reader)
                        ? "it looks like one of PyTorch's profiler (Kineto); "
                        : "",
                    one ? "its only event is not" : "none of its ",
                    one ? "" : prn_format_integer(text, events), one ? "" : " events is");
}

static int check_file(const struct pass *p, uint64_t events, struct prony_error *err)
{
    if (events == 0)
        return fail_empty(p, err);
    if (!p->file.from_runtime)
        return fail_foreign(p, events, err);
    if (p->files->n > 1 && p->trace->n_runs == p->file.first_run)
        return prn_fail(err, PRONY_EFORMAT,
                        "'%s' has no 'model_run' event: leave it out, or read it by itself",
                        prn_source_name(p->files->source));
    return 0;
}

static int list_file(struct pass *p, uint64_t events, struct prony_error *err)
{
    struct prn_trace *t = p->trace;
    const char *name = prn_source_name(p->files->source);
    struct prn_trace_file file = {.name = prn_arena_strndup(&t->arena, name, strlen(name)),
                                  .first_run = p->file.first_run,
                                  .n_runs = t->n_runs - p->file.first_run,
                                  .events = events};
    struct prn_trace_file *files = prn_array_grow(t->files, t->n_files, sizeof *files);
    if (files)
        t->files = files;
    if (!files || !file.name)
        return prn_fail_memory(err);
    t->files[t->n_files++] = file;
    return 0;
}

/* What belongs to no run of this file doesn't belong to the next one's. */
static void forget_file(struct pass *p)
{
    struct prn_trace_table *tables[5];
    list_tables(p->trace, tables);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(tables); i++)
        forget_pending(tables[i]);
    for (size_t i = 0; i < p->n_strands; i++) {
        if (p->strands[i].ledger)
            prn_ledger_clear(p->strands[i].ledger);
        p->strands[i] = (struct strand){.oldest_ns = INT64_MAX, .ledger = p->strands[i].ledger};
    }
    p->n_strands = p->current = p->n_late = 0;
    p->pending_events = 0;
    p->launched = false;
    p->launch_shape = NULL;
    p->shift_ns = p->latest_ns;
    p->file = (struct file){.first_run = p->trace->n_runs,
                            .before = *prn_trace_reader_counts(p->trace->reader)};
}

/* The end of a file: 1 when there is another one, which is open then. */
static int end_file(struct pass *p, struct prony_error *err)
{
    struct prn_trace *t = p->trace;
    uint64_t events = prn_trace_reader_counts(t->reader)->events - p->file.before.events;
    uint64_t assigned = 0;
    int code = check_file(p, events, err);
    if (code == 0)
        code = list_file(p, events, err);
    if (code == 0 && t->n_runs > 0) {
        code = assign_late(p, &assigned, err);
        t->outside += count_pending(p) - assigned;
        t->late_kernels += assigned;
    }
    if (code == 0)
        code = prn_trace_files_next(p->files, err);
    if (code <= 0)
        return code;
    forget_file(p);
    prn_trace_reader_continue(t->reader, p->files->source);
    return 1;
}

static int trace_finish(struct pass *p, struct prony_error *err)
{
    struct prn_trace *t = p->trace;
    t->counts = *prn_trace_reader_counts(t->reader);
    const char *fault = prn_trace_reader_first_fault(t->reader);
    if (fault && !(t->first_fault = strdup(fault)))
        return prn_fail_memory(err);
    int code = finish_runs(p, err);
    if (code == 0 && p->overflow)
        code =
            prn_fail(err, PRONY_EFORMAT, "'%s': the durations add up to over 290 years", t->name);
    if (code == 0)
        fill_zeros(t);
    return code;
}

static int read_file(struct pass *p, struct prony_error *err)
{
    struct prn_trace *t = p->trace;
    const struct prn_trace_options *o = p->options;
    const struct prn_trace_reader_counts *counts = prn_trace_reader_counts(t->reader);
    struct prn_trace_event event;
    int code;
    p->selected = prn_run_selection_has(p->selection, t->n_runs);
    while ((code = prn_trace_reader_next(t->reader, &event, err)) > 0) {
        code = event.category == PRN_TRACE_NONE ? 0 : take(p, &event, err);
        if (code < 0)
            return code;
        if (o->on_progress && counts->events % PROGRESS_EVENTS == 0)
            o->on_progress(o->context, p->files, counts->events, t->n_runs);
    }
    return code;
}

static int read_events(struct pass *p, struct prony_error *err)
{
    int code;
    do {
        code = read_file(p, err);
        if (code == 0)
            code = end_file(p, err);
    } while (code > 0);
    return code < 0 ? code : trace_finish(p, err);
}

static int count_runs_of_file(struct prn_trace_reader *reader, uint64_t *runs,
                              struct prony_error *err)
{
    struct prn_trace_event event;
    int code;
    while ((code = prn_trace_reader_next(reader, &event, err)) > 0)
        *runs += event.category != PRN_TRACE_NONE && !is_kernel(&event) &&
                 event.name->role == PRN_TRACE_ROLE_MODEL_RUN;
    return code;
}

/* A pass of its own, for indices from the end. */
static int count_runs(const struct pass *p, const struct prn_trace_reader_options *options,
                      uint64_t *ret_runs, struct prony_error *err)
{
    struct prn_trace_files *files = p->files;
    if (!prn_trace_files_can_rewind(files))
        return prn_fail(err, PRONY_EUSAGE,
                        "'%s' can be read only once; to count runs from the end, name a file",
                        p->trace->name);
    struct prn_trace_reader *reader;
    int code = prn_trace_reader_new(files->source, options, &reader, err);
    if (code < 0)
        return code;
    uint64_t runs = 0;
    do {
        code = count_runs_of_file(reader, &runs, err);
        if (code == 0)
            code = prn_trace_files_next(files, err);
        if (code > 0)
            prn_trace_reader_continue(reader, files->source);
    } while (code > 0);
    prn_trace_reader_free(reader);
    if (code == 0)
        code = prn_trace_files_rewind(files, err);
    if (code == 0)
        *ret_runs = runs ? runs : 1;
    return code;
}

static int select_runs(struct pass *p, const struct prn_trace_reader_options *options,
                       struct prony_error *err)
{
    int code = prn_run_selection_new(&p->options->runs, &p->selection, err);
    if (code < 0)
        return code;
    /* Who wants to see the events must know before they come whether run 0 is the only one. */
    bool only_one = p->options->on_event && prn_run_selection_is_default(p->selection) &&
                    prn_trace_files_can_rewind(p->files);
    if (!only_one && !prn_run_selection_needs_total(p->selection))
        return 0;
    uint64_t runs = 0;
    code = count_runs(p, options, &runs, err);
    if (code == 0 && only_one && runs == 1) {
        struct prn_run_choice first = {.start = 0, .end = PRN_RUN_UNSET};
        prn_run_selection_free(p->selection);
        p->selection = NULL;
        p->trace->includes_warm_up = true;
        code = prn_run_selection_new(&first, &p->selection, err);
    }
    return code < 0 ? code : prn_run_selection_resolve(p->selection, runs, err);
}

/* "a.json", or "a.json and 3 others". */
static char *name_trace(const struct prn_trace_files *files)
{
    struct prn_buffer name = PRN_BUFFER_INIT((size_t)1 << 16);
    prn_buffer_add(&name, prn_source_name(files->source));
    if (files->n > 1)
        prn_buffer_printf(&name, " and %zu other%s", files->n - 1, files->n == 2 ? "" : "s");
    return prn_buffer_detach(&name);
}

static void init_tables(struct prn_trace *t, const struct prn_trace_options *options)
{
    for (size_t i = 0; i < 2; i++) {
        t->cpu[i].by = options->by[i];
        t->cpu[i].with_statistics = true;
    }
    t->gpu.with_statistics = true;
}

static int read_trace(struct prn_trace *t, struct prn_trace_files *files,
                      const struct prn_trace_options *options, struct prony_error *err)
{
    bool by_shape = (options->by[0] | options->by[1]) & PRN_TRACE_BY_SHAPE;
    struct prn_trace_reader_options reading = {
        .recover = options->recover,
        .two_threads = options->two_threads,
        .want_dimensions = options->kernel_dimensions || options->mapping,
        .want_shapes = by_shape || options->kernel_shapes || options->mapping,
        .symbols_max = options->groups_max};
    struct pass p = {
        .trace = t, .options = options, .files = files, .groups_left = options->groups_max};
    t->arena = PRN_ARENA_INIT(GROUPS_BYTES_MAX);
    init_tables(t, options);
    t->programs = PRN_SYMBOLS_INIT(options->groups_max, &t->arena);
    t->name = name_trace(files);
    int code = t->name ? 0 : prn_fail_memory(err);
    if (code == 0)
        code = select_runs(&p, &reading, err);
    if (code == 0)
        code = prn_trace_reader_new(files->source, &reading, &t->reader, err);
    if (code == 0)
        code = read_events(&p, err);
    for (size_t i = 0; i < PRN_TRACE_STRANDS_MAX; i++)
        prn_ledger_free(p.strands[i].ledger);
    free(p.late);
    prn_run_selection_free(p.selection);
    return code;
}

int prn_trace_read(struct prn_trace_files *files, const struct prn_trace_options *options,
                   struct prn_trace **ret_trace, struct prony_error *err)
{
    struct prn_trace_options o = *options;
    if (o.groups_max == 0)
        o.groups_max = PRN_TRACE_GROUPS_MAX;
    struct prn_trace *t = calloc(1, sizeof *t);
    if (!t)
        return prn_fail_memory(err);
    int code = read_trace(t, files, &o, err);
    if (code < 0)
        prn_trace_free(t);
    else
        *ret_trace = t;
    return code;
}

static void release_table(struct prn_trace_table *table)
{
    for (size_t i = 0; i < table->n; i++) {
        prn_sketch_release(&table->groups[i]->per_run);
        free(table->groups[i]->order.ns);
        free(table->groups[i]->pending);
    }
    for (size_t i = 0; i < PRN_TRACE_STRANDS_MAX; i++)
        free(table->touched[i].groups);
    prn_map_release(&table->by_key);
    free(table->groups);
}

void prn_trace_free(struct prn_trace *t)
{
    if (!t)
        return;
    struct prn_trace_table *tables[5];
    list_tables(t, tables);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(tables); i++)
        release_table(tables[i]);
    for (size_t i = 0; i < PRN_LEDGER_ROW_COUNT; i++)
        prn_sketch_release(&t->ledger[i]);
    prn_trace_reader_free(t->reader);
    prn_symbols_release(&t->programs);
    prn_arena_release(&t->arena);
    free(t->name);
    free(t->first_fault);
    free(t->selected);
    free(t->missing);
    free(t->files);
    free(t->runs);
    free(t->order.ns);
    free(t);
}

const struct prn_trace_file *prn_trace_cut_file(const struct prn_trace *t)
{
    for (size_t i = 0; i < t->n_files; i++)
        if (t->files[i].events >= PRN_TRACE_ORT_EVENTS_MAX)
            return &t->files[i];
    return NULL;
}

size_t prn_trace_node_length(const struct prn_symbol *event_name)
{
    size_t end = sizeof PRN_TRACE_KERNEL_TIME - 1;
    size_t len = event_name->len;
    if (len < end || memcmp(event_name->text + len - end, PRN_TRACE_KERNEL_TIME, end) != 0)
        return len;
    len -= end;
    return len > 0 && event_name->text[len - 1] == '_' ? len - 1 : len;
}

/* NULL first, then by text. */
static int compare_texts(const struct prn_symbol *a, const struct prn_symbol *b)
{
    return a && b ? strcmp(a->text, b->text) : (a != NULL) - (b != NULL);
}

static int by_duration(const void *a, const void *b)
{
    const struct prn_trace_group *x = *(const struct prn_trace_group *const *)a;
    const struct prn_trace_group *y = *(const struct prn_trace_group *const *)b;
    if (x->total.ns != y->total.ns)
        return x->total.ns < y->total.ns ? 1 : -1;
    int order = compare_texts(x->key.op, y->key.op);
    order = order ? order : compare_texts(x->key.node, y->key.node);
    order = order ? order : compare_texts(x->key.provider, y->key.provider);
    order = order ? order : compare_texts(x->key.shape, y->key.shape);
    return order ? order : compare_texts(x->key.dimensions, y->key.dimensions);
}

int prn_trace_sorted(const struct prn_trace_table *table,
                     const struct prn_trace_group ***ret_groups, size_t *ret_n,
                     struct prony_error *err)
{
    const struct prn_trace_group **groups = calloc(table->n + 1, sizeof(struct prn_trace_group *));
    if (!groups)
        return prn_fail_memory(err);
    size_t n = 0;
    for (size_t i = 0; i < table->n; i++)
        if (table->groups[i]->total.count > 0)
            groups[n++] = table->groups[i];
    qsort(groups, n, sizeof(struct prn_trace_group *), by_duration);
    *ret_groups = groups;
    *ret_n = n;
    return 0;
}
