#include "trace/memory.h"

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Sizes come from a file: sums that don't fit stay at the end of what does. */
static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (a > 0 ? INT64_MAX : INT64_MIN) : sum;
}

static void join(struct prn_trace_use *a, const struct prn_trace_use *b,
                 int64_t (*growth)(int64_t a, int64_t b))
{
    if (b->events == 0)
        return;
    if (a->events == 0) {
        *a = *b;
        return;
    }
    a->events += b->events;
    a->live_bytes = most(a->live_bytes, b->live_bytes);
    a->waste_bytes = most(a->waste_bytes, b->waste_bytes);
    a->workspace_bytes = most(a->workspace_bytes, b->workspace_bytes);
    a->growth_bytes = growth(a->growth_bytes, b->growth_bytes);
    a->arena_growth_bytes = growth(a->arena_growth_bytes, b->arena_growth_bytes);
}

void prn_trace_use_add(struct prn_trace_use *sum, const struct prn_trace_use *part)
{
    join(sum, part, plus);
}

void prn_trace_use_most(struct prn_trace_use *all, const struct prn_trace_use *run)
{
    join(all, run, most);
}

void prn_trace_run_memory_add(struct prn_trace_run_memory *sum,
                              const struct prn_trace_run_memory *part)
{
    sum->events += part->events;
    sum->live_bytes = most(sum->live_bytes, part->live_bytes);
    sum->waste_bytes = most(sum->waste_bytes, part->waste_bytes);
    sum->peak_bytes = most(sum->peak_bytes, part->peak_bytes);
    sum->arena_bytes = most(sum->arena_bytes, part->arena_bytes);
    sum->growing_nodes += part->growing_nodes;
}

/* Providers beyond the limit share the last entry. */
static struct prn_trace_allocator *find_allocator(struct prn_trace_memory *m,
                                                  const struct prn_symbol *provider, bool *ret_new)
{
    size_t i = 0;
    while (i < m->n && m->allocators[i].provider != provider)
        i++;
    *ret_new = i == m->n && i < PRN_TRACE_ALLOCATORS_MAX;
    i = i < PRN_TRACE_ALLOCATORS_MAX ? i : PRN_TRACE_ALLOCATORS_MAX - 1;
    if (*ret_new)
        m->allocators[m->n++] = (struct prn_trace_allocator){.provider = provider};
    return &m->allocators[i];
}

/* Of an event that shows a new peak. */
static enum prn_trace_peak_when peak_when(const struct prn_trace_mem *mem, bool is_new)
{
    if (mem->peak <= plus(mem->in_use, -mem->in_use_delta))
        return PRN_TRACE_PEAK_BEFORE;
    return is_new && mem->in_use < mem->peak ? PRN_TRACE_PEAK_BY : PRN_TRACE_PEAK_IN;
}

struct prn_trace_use prn_trace_memory_take(struct prn_trace_memory *m,
                                           const struct prn_trace_mem *mem,
                                           const struct prn_symbol *provider,
                                           const struct prn_symbol *name, uint64_t run,
                                           struct prn_trace_run_memory *strand)
{
    bool is_new;
    struct prn_trace_allocator *a = find_allocator(m, provider, &is_new);
    bool rose = mem->peak > a->peak_bytes;
    enum prn_trace_peak_when when = peak_when(mem, is_new);
    bool here = rose && when == PRN_TRACE_PEAK_IN;
    if (rose) {
        a->peak_bytes = mem->peak;
        a->peak_when = when;
        a->peak_node = name;
        a->peak_run = run;
    }
    a->live_bytes = most(a->live_bytes, mem->in_use);
    a->arena_bytes = most(a->arena_bytes, mem->held);
    int64_t waste = mem->in_use - mem->requested;
    struct prn_trace_run_memory now = {.events = 1,
                                       .live_bytes = mem->in_use,
                                       .waste_bytes = waste,
                                       .peak_bytes = mem->peak,
                                       .arena_bytes = mem->held,
                                       .growing_nodes = mem->in_use_delta > 0};
    prn_trace_run_memory_add(strand, &now);
    return (struct prn_trace_use){.events = 1,
                                  .live_bytes = mem->in_use,
                                  .growth_bytes = mem->in_use_delta,
                                  .waste_bytes = waste,
                                  .workspace_bytes = here ? most(mem->peak - mem->in_use, 0) : 0,
                                  .arena_growth_bytes = mem->held_delta};
}

void prn_trace_memory_end_run(struct prn_trace_memory *m, uint64_t run,
                              const struct prn_trace_run_memory *memory)
{
    if (run == 0) {
        m->first_events = memory->events;
        m->first_growing = (uint64_t)memory->growing_nodes;
    } else {
        m->later_events += memory->events;
        m->later_growing += (uint64_t)memory->growing_nodes;
    }
}

bool prn_trace_memory_is_hidden(const struct prn_trace_memory *m)
{
    if (m->first_events == 0 || m->later_events == 0)
        return false;
    double first = (double)m->first_growing / (double)m->first_events;
    double later = (double)m->later_growing / (double)m->later_events;
    return later < first / 2;
}
