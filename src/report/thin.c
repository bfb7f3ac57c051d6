#include "report/thin.h"

#include <stdlib.h>

size_t prn_thin_series(const int64_t *values, size_t n, size_t most,
                       struct prn_thin_bucket *buckets)
{
    size_t n_buckets = n < most ? n : most;
    for (size_t i = 0; i < n_buckets; i++) {
        /* Divided first: n * i might not fit. */
        size_t first = n / n_buckets * i + n % n_buckets * i / n_buckets;
        size_t next = n / n_buckets * (i + 1) + n % n_buckets * (i + 1) / n_buckets;
        struct prn_thin_bucket *b = &buckets[i];
        *b = (struct prn_thin_bucket){first, next - first, values[first], values[first]};
        for (size_t k = first + 1; k < next; k++) {
            b->low = values[k] < b->low ? values[k] : b->low;
            b->high = values[k] > b->high ? values[k] : b->high;
        }
    }
    return n_buckets;
}

struct prn_thin_histogram prn_thin_histogram(const int64_t *sorted, size_t n, size_t bins,
                                             uint64_t *counts)
{
    size_t quarter = n / 4;
    double third = (double)sorted[3 * quarter];
    double cut = third + 6 * (third - (double)sorted[quarter]);
    struct prn_thin_histogram h = {.low = sorted[0], .high = sorted[n - 1]};
    if (cut > (double)h.low && cut < (double)h.high)
        h.high = (int64_t)cut;
    double width = (double)h.high - (double)h.low;
    for (size_t i = 0; i < bins; i++)
        counts[i] = 0;
    for (size_t i = 0; i < n; i++) {
        if (sorted[i] > h.high) {
            h.above = n - i;
            break;
        }
        double place = width > 0 ? ((double)sorted[i] - (double)h.low) / width : 0;
        size_t bin = (size_t)(place * (double)bins);
        counts[bin < bins ? bin : bins - 1]++;
    }
    return h;
}

static int compare_numbers(int64_t a, int64_t b)
{
    return (a > b) - (a < b);
}

static int by_duration(const void *a, const void *b)
{
    const struct prn_thin_span *first = a;
    const struct prn_thin_span *second = b;
    int order = compare_numbers(second->duration_ns, first->duration_ns);
    return order ? order : compare_numbers(first->start_ns, second->start_ns);
}

static int by_start(const void *a, const void *b)
{
    const struct prn_thin_span *first = a;
    const struct prn_thin_span *second = b;
    int order = compare_numbers(first->start_ns, second->start_ns);
    return order ? order : compare_numbers(second->duration_ns, first->duration_ns);
}

static int by_lane(const void *a, const void *b)
{
    const struct prn_thin_rest *first = a;
    const struct prn_thin_rest *second = b;
    int order = compare_numbers(first->lane, second->lane);
    return order ? order : compare_numbers(first->pixel, second->pixel);
}

static uint32_t pixel_of(int64_t at_ns, int64_t start_ns, int64_t duration_ns, size_t pixels)
{
    double place = duration_ns > 0 ? ((double)at_ns - (double)start_ns) / (double)duration_ns : 0;
    double pixel = place * (double)pixels;
    return pixel <= 0 ? 0 : pixel >= (double)pixels ? (uint32_t)pixels - 1 : (uint32_t)pixel;
}

/* Adds up neighbours of the same lane and pixel; returns how many are left. */
static size_t merge(struct prn_thin_rest *rest, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        if (kept > 0 && by_lane(&rest[kept - 1], &rest[i]) == 0) {
            rest[kept - 1].count += rest[i].count;
            rest[kept - 1].busy_ns += rest[i].busy_ns;
        } else {
            rest[kept++] = rest[i];
        }
    }
    return kept;
}

int prn_thin_spans(struct prn_thin_span *spans, size_t n, size_t most, int64_t start_ns,
                   int64_t duration_ns, size_t pixels, struct prn_arena *arena,
                   struct prn_thin_spans *ret_thinned, struct prony_error *err)
{
    struct prn_thin_spans thinned = {.n = n < most ? n : most};
    size_t n_rest = n - thinned.n;
    if (n_rest > 0) {
        qsort(spans, n, sizeof *spans, by_duration);
        thinned.rest = PRN_ARENA_ARRAY(arena, n_rest, struct prn_thin_rest);
        if (!thinned.rest)
            return prn_fail_memory(err);
    }
    for (size_t i = 0; i < n_rest; i++) {
        const struct prn_thin_span *span = &spans[thinned.n + i];
        thinned.rest[i] = (struct prn_thin_rest){
            span->lane, pixel_of(span->start_ns, start_ns, duration_ns, pixels), 1,
            span->duration_ns};
    }
    if (n_rest > 0)
        qsort(thinned.rest, n_rest, sizeof *thinned.rest, by_lane);
    thinned.n_rest = merge(thinned.rest, n_rest);
    if (thinned.n > 0)
        qsort(spans, thinned.n, sizeof *spans, by_start);
    *ret_thinned = thinned;
    return 0;
}
