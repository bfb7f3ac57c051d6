#include "pipeline/simulate/tally.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>

/* Figures of a stage, and of the pipeline. */
enum figure { ALONE, ALONE_HANDLING, TOGETHER, HANDLING, BUSY, LINK, FIGURES };
enum total { LATENCY, FULL_LATENCY, PERIOD, TOTALS };

/* Independent values of one figure. */
struct units {
    double *items;
    size_t n;
};

struct prn_simulate_tally {
    size_t n_stages, launches;
    size_t lone_batches, batches;
    struct units *stages; /* FIGURES per stage */
    struct units totals[TOTALS];
    double *memory;
};

int prn_spells_add(struct prn_spells *spells, const struct prn_spell *spell)
{
    struct prn_spell *items = prn_array_grow(spells->items, spells->n, sizeof *items);
    if (!items)
        return PRONY_ENOMEM;
    spells->items = items;
    items[spells->n++] = *spell;
    return 0;
}

struct prn_simulate_tally *prn_tally_new(size_t n_stages, size_t launches)
{
    struct prn_simulate_tally *t = calloc(1, sizeof *t);
    size_t n_units = n_stages * FIGURES;
    if (!t)
        return NULL;
    *t = (struct prn_simulate_tally){.n_stages = n_stages, .launches = launches};
    t->stages = calloc(n_units, sizeof *t->stages);
    t->memory = calloc((n_units + TOTALS) * launches, sizeof *t->memory);
    if (!t->stages || !t->memory) {
        prn_tally_free(t);
        return NULL;
    }
    for (size_t i = 0; i < n_units; i++)
        t->stages[i].items = t->memory + i * launches;
    for (size_t i = 0; i < TOTALS; i++)
        t->totals[i].items = t->memory + (n_units + i) * launches;
    return t;
}

void prn_tally_free(struct prn_simulate_tally *t)
{
    if (!t)
        return;
    free(t->stages);
    free(t->memory);
    free(t);
}

/* ---- Adding ---- */

typedef double value_of(const struct prn_spell *spell, const struct prn_spell *former);

static double run_s(const struct prn_spell *spell, const struct prn_spell *former)
{
    (void)former;
    return 1e-9 * (double)spell->run_ns;
}

static double span_s(const struct prn_spell *spell, const struct prn_spell *former)
{
    (void)former;
    return 1e-9 * (double)(spell->end_ns - spell->begin_ns);
}

static double rest_s(const struct prn_spell *spell, const struct prn_spell *former)
{
    return span_s(spell, former) - run_s(spell, former);
}

static double gap_s(const struct prn_spell *spell, const struct prn_spell *former)
{
    return 1e-9 * (double)(spell->end_ns - former->end_ns);
}

static bool counts(const struct prn_tally_launch *l, const struct prn_spell *spell, bool alone)
{
    if (alone)
        return spell->alone && spell->number >= PRN_TALLY_WARMUPS;
    return !spell->alone && spell->end_ns > l->full_ns && spell->end_ns <= l->end_ns;
}

static size_t count(const struct prn_tally_launch *l, const struct prn_spells *spells, bool alone)
{
    size_t n = 0;
    for (size_t i = 0; i < spells->n; i++)
        n += counts(l, &spells->items[i], alone);
    return n;
}

/* Adds the mean of the launch. A spell that counts is never the first: the warm-ups come before
 * it. */
static void add(const struct prn_tally_launch *l, const struct prn_spells *spells, bool alone,
                value_of *value, struct units *units)
{
    size_t n = 0;
    double sum = 0;
    for (size_t i = 1; i < spells->n; i++) {
        if (!counts(l, &spells->items[i], alone))
            continue;
        sum += value(&spells->items[i], &spells->items[i - 1]);
        n++;
    }
    if (n > 0)
        units->items[units->n++] = sum / (double)n;
}

void prn_tally_add(struct prn_simulate_tally *t, const struct prn_tally_launch *l)
{
    for (size_t i = 0; i < t->n_stages; i++) {
        struct units *figures = t->stages + i * FIGURES;
        const struct prn_spells *stage = &l->stages[i];
        add(l, stage, true, run_s, &figures[ALONE]);
        add(l, stage, true, rest_s, &figures[ALONE_HANDLING]);
        add(l, stage, false, run_s, &figures[TOGETHER]);
        add(l, stage, false, rest_s, &figures[HANDLING]);
        double busy_s = 0;
        for (size_t k = 0; k < stage->n; k++)
            if (counts(l, &stage->items[k], false))
                busy_s += span_s(&stage->items[k], NULL);
        double full_s = 1e-9 * (double)(l->end_ns - l->full_ns);
        figures[BUSY].items[figures[BUSY].n++] = full_s > 0 ? fmin(1, busy_s / full_s) : NAN;
        if (i + 1 < t->n_stages)
            add(l, &l->links[i], false, span_s, &figures[LINK]);
    }
    add(l, l->whole, true, span_s, &t->totals[LATENCY]);
    add(l, l->whole, false, span_s, &t->totals[FULL_LATENCY]);
    add(l, l->whole, false, gap_s, &t->totals[PERIOD]);
    t->lone_batches += count(l, l->whole, true);
    t->batches += count(l, l->whole, false);
}

/* ---- Figures ---- */

static double mean(const struct units *units)
{
    return units->n > 0 ? prn_stats_mean(units->items, units->n) : NAN;
}

static struct prn_interval interval(const struct units *units)
{
    if (units->n < PRN_UNITS_MIN)
        return (struct prn_interval){NAN, mean(units), NAN};
    return prn_stats_amount_interval(units->items, units->n);
}

/* The first of the longest. */
static void find_bottleneck(struct prn_simulation *s)
{
    double longest = -1;
    for (size_t i = 0; i < s->n_stages; i++) {
        const struct prn_simulated_stage *stage = &s->stages[i];
        double takes = stage->together_s.estimate + stage->handling_s.estimate;
        if (takes > longest) {
            longest = takes;
            s->bottleneck = i;
            s->bottleneck_is_link = false;
        }
        if (s->links && stage->link_s.estimate > longest) {
            longest = stage->link_s.estimate;
            s->bottleneck = i;
            s->bottleneck_is_link = true;
        }
    }
}

void prn_tally_finish(const struct prn_simulate_tally *t, struct prn_simulation *s)
{
    s->expected_period_s = s->expected_latency_s = 0;
    for (size_t i = 0; i < t->n_stages; i++) {
        const struct units *figures = t->stages + i * FIGURES;
        struct prn_simulated_stage *stage = &s->stages[i];
        stage->alone_s = interval(&figures[ALONE]);
        stage->alone_handling_s = mean(&figures[ALONE_HANDLING]);
        stage->together_s = interval(&figures[TOGETHER]);
        stage->handling_s = interval(&figures[HANDLING]);
        stage->busy = mean(&figures[BUSY]);
        stage->link_s = interval(&figures[LINK]);
        double takes = stage->alone_s.estimate + stage->alone_handling_s;
        double link = i + 1 < t->n_stages ? stage->link_s.estimate : 0;
        s->expected_period_s = fmax(s->expected_period_s, fmax(takes, link));
        s->expected_latency_s += takes + link;
    }
    s->latency_s = interval(&t->totals[LATENCY]);
    s->full_latency_s = interval(&t->totals[FULL_LATENCY]);
    s->period_s = interval(&t->totals[PERIOD]);
    s->launches = t->launches;
    s->lone_batches = t->lone_batches;
    s->batches = t->batches;
    find_bottleneck(s);
}
