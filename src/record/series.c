#include "record/series.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Room that a series always gets, whatever the budget says. */
#define CAPACITY_MIN 16

void prn_series_release(struct prn_series_builder *s)
{
    free(s->kept);
    *s = (struct prn_series_builder){0};
}

void prn_series_clear(struct prn_series_builder *s)
{
    *s = (struct prn_series_builder){.kept = s->kept, .capacity = s->capacity};
}

int prn_series_reserve(struct prn_series_builder *s, size_t n, struct prn_series_budget *budget)
{
    if (n <= s->capacity - s->n_kept || s->capacity == PRN_SERIES_MAX)
        return 0;
    size_t capacity = s->capacity ? s->capacity : CAPACITY_MIN;
    while (capacity < PRN_SERIES_MAX && capacity - s->n_kept < n)
        capacity *= 2;
    size_t more = capacity - s->capacity;
    bool affordable = more <= budget->samples_left;
    if (!affordable && s->capacity > 0)
        return 0;
    if (!affordable) {
        capacity = CAPACITY_MIN;
        more = budget->samples_left < capacity ? budget->samples_left : capacity;
    }
    int64_t *kept = reallocarray(s->kept, capacity, sizeof *kept);
    if (!kept)
        return PRONY_ENOMEM;
    s->kept = kept;
    s->capacity = capacity;
    budget->samples_left -= more;
    return 0;
}

static void thin_out(struct prn_series_builder *s)
{
    for (size_t i = 0; 2 * i < s->n_kept; i++)
        s->kept[i] = s->kept[2 * i];
    s->n_kept = (s->n_kept + 1) / 2;
    s->stride *= 2;
}

static void keep(struct prn_series_builder *s, int64_t ns)
{
    if (s->n_kept == s->capacity) {
        thin_out(s);
        if (s->count & (s->stride - 1))
            return;
    }
    s->kept[s->n_kept++] = ns;
}

void prn_series_add(struct prn_series_builder *s, int64_t ns)
{
    if (s->count == 0) {
        s->stride = 1;
        s->min = s->max = ns;
    }
    if ((s->count & (s->stride - 1)) == 0)
        keep(s, ns);
    s->count++;
    /* Welford's method: no cancellation, however long the recording. */
    double distance = (double)ns - s->mean;
    s->mean += distance / (double)s->count;
    s->squares += distance * ((double)ns - s->mean);
    s->min = ns < s->min ? ns : s->min;
    s->max = ns > s->max ? ns : s->max;
}

int prn_series_finish(const struct prn_series_builder *s, struct prn_arena *arena,
                      struct prn_series *ret_series)
{
    struct prn_series series = {
        .count = s->count, .mean_ns = NAN, .sd_ns = NAN, .min_ns = NAN, .max_ns = NAN};
    series.samples_ns = PRN_ARENA_ARRAY(arena, s->n_kept + 1, int64_t);
    if (!series.samples_ns)
        return PRONY_ENOMEM;
    if (s->count > 0) {
        series.mean_ns = s->mean;
        series.sd_ns = s->count > 1 ? sqrt(s->squares / (double)(s->count - 1)) : 0;
        series.min_ns = (double)s->min;
        series.max_ns = (double)s->max;
        series.n_samples = s->n_kept;
        memcpy(series.samples_ns, s->kept, s->n_kept * sizeof *s->kept);
    }
    *ret_series = series;
    return 0;
}
