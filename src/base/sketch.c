/*
 * Bucket edges are powers of one number, gamma, so that a bucket is the same share of its value
 * everywhere. A value's position is its logarithm to the base gamma; the fine buckets are one unit
 * of position wide and cover [first, first + PRN_SKETCH_FINE). On either side follow buckets whose
 * outer edges are 1, 2, 4, 8, … units away. When clearly more than OUTSIDE_SHARE of the values are
 * outside on one side, gamma is squared: pairs of fine buckets become one, and the half that gets
 * free is put on that side. So the odd run that is 100 times slower costs no resolution.
 *
 * Each bucket also knows the smallest and the largest value in it, to 1/256 of its width. Times are
 * whole microseconds, so many values are often the same: without it they would seem to be spread
 * over the width of a bucket.
 */
#include "base/sketch.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#define FIRST_CAPACITY 4
#define FINEST_GAMMA 1.005
#define OUTSIDE_SHARE 0.04
#define STEPS 256 /* in the width of a bucket */

enum side { SIDE_UNDER, SIDE_OVER };

struct prn_sketch_buckets {
    double log_gamma;
    int64_t first; /* position of the first fine bucket; even, so that pairs merge exactly */
    uint64_t outside[2];
    uint32_t count[PRN_SKETCH_BUCKETS]; /* from low to high; would stop at UINT32_MAX */
    uint8_t low[PRN_SKETCH_BUCKETS];    /* step of the smallest value, where count isn't 0 */
    uint8_t high[PRN_SKETCH_BUCKETS];
};

void prn_sketch_release(struct prn_sketch *s)
{
    free(s->values);
    free(s->buckets);
    *s = PRN_SKETCH_INIT;
}

/* The lower edge of bucket i, which is the upper edge of the one before. */
static double bucket_edge(const struct prn_sketch_buckets *b, int i)
{
    int above = i - PRN_SKETCH_SIDE - PRN_SKETCH_FINE;
    int below = PRN_SKETCH_SIDE - i;
    if (above > 0)
        return (double)(b->first + PRN_SKETCH_FINE + (INT64_C(1) << (above - 1)));
    if (below > 0)
        return (double)(b->first - (INT64_C(1) << (below - 1)));
    return (double)(b->first - below);
}

/* Which of the buckets on a side, counted outwards, holds what is `distance` ≥ 0 away. */
static int side_index(double distance)
{
    if (distance < 1)
        return 0;
    if (distance >= (double)(1 << (PRN_SKETCH_SIDE - 2)))
        return PRN_SKETCH_SIDE - 1;
    return ilogb(distance) + 1;
}

static int bucket_at(const struct prn_sketch_buckets *b, double position)
{
    double offset = position - (double)b->first;
    if (offset < 0)
        return PRN_SKETCH_SIDE - 1 - side_index(-offset);
    if (offset >= PRN_SKETCH_FINE)
        return PRN_SKETCH_SIDE + PRN_SKETCH_FINE + side_index(offset - PRN_SKETCH_FINE);
    return PRN_SKETCH_SIDE + (int)offset;
}

static uint8_t step_at(const struct prn_sketch_buckets *b, int i, double position)
{
    double low = bucket_edge(b, i);
    double step = (position - low) / (bucket_edge(b, i + 1) - low) * STEPS;
    return step <= 0 ? 0 : step >= STEPS - 1 ? STEPS - 1 : (uint8_t)step;
}

static double step_position(const struct prn_sketch_buckets *b, int i, uint8_t step)
{
    double low = bucket_edge(b, i);
    return low + (bucket_edge(b, i + 1) - low) * (step + 0.5) / STEPS;
}

/* Counts n values that lie between two positions in bucket i. */
static void put(struct prn_sketch_buckets *b, int i, double low, double high, uint32_t n)
{
    uint8_t low_step = step_at(b, i, low);
    uint8_t high_step = step_at(b, i, high);
    if (b->count[i] == 0 || low_step < b->low[i])
        b->low[i] = low_step;
    if (b->count[i] == 0 || high_step > b->high[i])
        b->high[i] = high_step;
    if (__builtin_add_overflow(b->count[i], n, &b->count[i]))
        b->count[i] = UINT32_MAX;
    if (i < PRN_SKETCH_SIDE)
        b->outside[SIDE_UNDER] += n;
    else if (i >= PRN_SKETCH_SIDE + PRN_SKETCH_FINE)
        b->outside[SIDE_OVER] += n;
}

/* The position of value j of the bucket's, as if they were evenly spread. */
static double spread_position(const struct prn_sketch_buckets *b, int i, uint64_t j)
{
    double low = step_position(b, i, b->low[i]);
    double high = step_position(b, i, b->high[i]);
    double share = b->count[i] < 2 ? 0.5 : (double)j / (double)(b->count[i] - 1);
    return low + (high - low) * share;
}

/* Squares gamma and puts the fine buckets that get free on `side`. */
static void widen(struct prn_sketch_buckets *b, enum side side)
{
    struct prn_sketch_buckets old = *b;
    *b = (struct prn_sketch_buckets){.log_gamma = 2 * old.log_gamma};
    b->first = old.first / 2 - (side == SIDE_UNDER ? PRN_SKETCH_FINE / 2 : 0);
    if (b->first % 2 != 0)
        b->first += side == SIDE_UNDER ? 1 : -1;
    for (int i = 0; i < PRN_SKETCH_BUCKETS; i++) {
        uint32_t n = old.count[i];
        if (n == 0)
            continue;
        double low = step_position(&old, i, old.low[i]) / 2;
        double high = step_position(&old, i, old.high[i]) / 2;
        int target = bucket_at(b, low);
        if (target == bucket_at(b, high)) {
            put(b, target, low, high, n);
            continue;
        }
        /* Only buckets on the sides are cut, and they hold few values. */
        for (uint32_t j = 0; j < n; j++) {
            double position = spread_position(&old, i, j) / 2;
            put(b, bucket_at(b, position), position, position, 1);
        }
    }
}

static void put_value(struct prn_sketch_buckets *b, double value)
{
    double position = log(value) / b->log_gamma;
    put(b, bucket_at(b, position), position, position, 1);
}

/* How many of n values may be outside on one side. Gamma never gets smaller again, so the allowance
 * adds three times the standard deviation of a count that is right on average. */
static double allowance(uint64_t n)
{
    double mean = OUTSIDE_SHARE * (double)n;
    return mean + 3 * sqrt(mean);
}

/* Chooses the finest buckets that leave no more values outside than allowed, and the place where
 * the median is in their middle if both ends allow it. */
static void place(struct prn_sketch_buckets *b, const double *values)
{
    size_t outside = (size_t)allowance(PRN_SKETCH_EXACT);
    double low = log(values[outside]);
    double high = log(values[PRN_SKETCH_EXACT - 1 - outside]);
    b->log_gamma = log(FINEST_GAMMA);
    while ((high - low) / b->log_gamma > PRN_SKETCH_FINE - 4)
        b->log_gamma *= 2;
    double first = floor(log(values[PRN_SKETCH_EXACT / 2]) / b->log_gamma) - PRN_SKETCH_FINE / 2.0;
    first = fmin(first, floor(low / b->log_gamma));
    first = fmax(first, ceil(high / b->log_gamma) - PRN_SKETCH_FINE + 2);
    b->first = 2 * (int64_t)floor(first / 2);
}

static int start_buckets(struct prn_sketch *s)
{
    struct prn_sketch_buckets *b = calloc(1, sizeof *b);
    if (!b)
        return PRONY_ENOMEM;
    place(b, s->values);
    for (size_t i = 0; i < PRN_SKETCH_EXACT; i++)
        put_value(b, s->values[i]);
    free(s->values);
    s->values = NULL;
    s->capacity = 0;
    s->buckets = b;
    return 0;
}

static int grow(struct prn_sketch *s)
{
    uint32_t capacity = s->capacity ? 2 * s->capacity : FIRST_CAPACITY;
    double *values = realloc(s->values, capacity * sizeof *values);
    if (!values)
        return PRONY_ENOMEM;
    s->values = values;
    s->capacity = capacity;
    return 0;
}

static void insert_exact(struct prn_sketch *s, double value)
{
    size_t i = (size_t)(s->count - s->zeros);
    for (; i > 0 && s->values[i - 1] > value; i--)
        s->values[i] = s->values[i - 1];
    s->values[i] = value;
}

static void insert_bucket(struct prn_sketch_buckets *b, double value, uint64_t before)
{
    put_value(b, value);
    double most = allowance(before + 1);
    for (int side = SIDE_UNDER; side <= SIDE_OVER; side++)
        while ((double)b->outside[side] > most)
            widen(b, (enum side)side);
}

/* Chan's formula for two samples, of which the second is n times the same value. */
static void add_moments(struct prn_sketch *s, double value, uint64_t n)
{
    double before = (double)s->count;
    double after = before + (double)n;
    double delta = value - s->mean;
    s->m2 += delta * delta * before * ((double)n / after);
    s->mean += delta * ((double)n / after);
    s->min = s->count == 0 || value < s->min ? value : s->min;
    s->max = s->count == 0 || value > s->max ? value : s->max;
    s->count += n;
}

int prn_sketch_add(struct prn_sketch *s, double value)
{
    assert(isfinite(value) && value >= 0);
    if (!(value > 0)) {
        prn_sketch_add_zeros(s, 1);
        return 0;
    }
    uint64_t above = s->count - s->zeros;
    int r = 0;
    if (!s->buckets && above == PRN_SKETCH_EXACT)
        r = start_buckets(s);
    else if (!s->buckets && above == s->capacity)
        r = grow(s);
    if (r != 0)
        return r;
    if (s->buckets)
        insert_bucket(s->buckets, value, above);
    else
        insert_exact(s, value);
    s->least = above == 0 || value < s->least ? value : s->least;
    add_moments(s, value, 1);
    return 0;
}

void prn_sketch_add_zeros(struct prn_sketch *s, uint64_t n)
{
    if (n == 0)
        return;
    add_moments(s, 0, n);
    s->zeros += n;
}

void prn_sketch_order_init(struct prn_sketch_order *o, const struct prn_sketch *s)
{
    o->sketch = s;
    uint64_t end = 0;
    for (int i = 0; s->buckets && i < PRN_SKETCH_BUCKETS; i++)
        o->end[i] = end += s->buckets->count[i];
}

/* The first bucket that ends after `rank`. */
static int find_bucket(const struct prn_sketch_order *o, uint64_t rank)
{
    int low = 0;
    int high = PRN_SKETCH_BUCKETS - 1;
    while (low < high) {
        int middle = (low + high) / 2;
        if (o->end[middle] > rank)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

double prn_sketch_order_value(const struct prn_sketch_order *o, uint64_t rank)
{
    const struct prn_sketch *s = o->sketch;
    assert(rank < s->count);
    if (rank < s->zeros)
        return 0;
    rank -= s->zeros;
    const struct prn_sketch_buckets *b = s->buckets;
    if (!b)
        return s->values[rank];
    int i = find_bucket(o, rank);
    uint64_t start = i > 0 ? o->end[i - 1] : 0;
    double value = exp(spread_position(b, i, rank - start) * b->log_gamma);
    /* The extremes are known exactly. */
    if (rank == 0 || value < s->least)
        return s->least;
    if (rank == s->count - s->zeros - 1 || value > s->max)
        return s->max;
    return value;
}

double prn_sketch_order_error(const struct prn_sketch_order *o, uint64_t rank)
{
    const struct prn_sketch *s = o->sketch;
    const struct prn_sketch_buckets *b = s->buckets;
    if (!b || rank < s->zeros)
        return 0;
    int i = find_bucket(o, rank - s->zeros);
    double uneven = 1;
    if (i >= PRN_SKETCH_SIDE && i < PRN_SKETCH_SIDE + PRN_SKETCH_FINE) {
        double own = b->count[i];
        uneven = (fabs(own - b->count[i - 1]) + fabs(own - b->count[i + 1])) / (2 * own);
        uneven = fmin(uneven, 1);
    }
    double width = step_position(b, i, b->high[i]) - step_position(b, i, b->low[i]);
    double step = (bucket_edge(b, i + 1) - bucket_edge(b, i)) / STEPS;
    /* A place that may be anywhere in a width has a standard deviation of 1/√12 of it. */
    return hypot(uneven * width / sqrt(12), step) * b->log_gamma;
}

double prn_sketch_quantile(const struct prn_sketch *s, double q)
{
    if (s->count == 0)
        return NAN;
    struct prn_sketch_order order;
    prn_sketch_order_init(&order, s);
    double place = q * (double)(s->count - 1);
    uint64_t rank = (uint64_t)place;
    if (rank + 1 >= s->count)
        return s->max;
    double low = prn_sketch_order_value(&order, rank);
    double high = prn_sketch_order_value(&order, rank + 1);
    return low + (place - (double)rank) * (high - low);
}

double prn_sketch_mean(const struct prn_sketch *s)
{
    return s->count == 0 ? NAN : s->mean;
}

double prn_sketch_sd(const struct prn_sketch *s)
{
    return s->count < 2 ? 0 : sqrt(s->m2 / (double)(s->count - 1));
}

struct prn_interval prn_sketch_mean_interval(const struct prn_sketch *s)
{
    if (s->count < PRN_UNITS_MIN)
        return (struct prn_interval){-INFINITY, prn_sketch_mean(s), INFINITY};
    struct prn_interval r = prn_stats_interval(prn_sketch_mean(s), prn_sketch_sd(s), s->count);
    r.low = fmax(r.low, 0); /* no value is below it */
    return r;
}

bool prn_sketch_is_exact(const struct prn_sketch *s)
{
    return !s->buckets;
}

size_t prn_sketch_bytes(const struct prn_sketch *s)
{
    return s->buckets ? sizeof *s->buckets : s->capacity * sizeof *s->values;
}
