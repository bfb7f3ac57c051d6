/*
 * The bootstrap of a ratio of medians, without resampling. The k-th smallest of n draws from a
 * sample is the sample's quantile at the k-th smallest of n uniform numbers, and that one follows a
 * beta distribution with parameters k and n - k + 1. So each replicate costs one or two variates
 * and a search, whatever n is.
 */
#include "base/random.h"
#include "base/sketch.h"

#include <math.h>

#define REPLICATES 4000
/* Replicates cut off at each end of the 95 % interval. */
#define TAIL (REPLICATES / 40)

/* Gamma variate with shape ≥ 1 (the method of Marsaglia and Tsang). */
static double random_gamma(struct prn_random *random, double shape)
{
    double d = shape - 1.0 / 3;
    double c = 1 / sqrt(9 * d);
    for (;;) {
        double x = prn_random_normal(random);
        double v = 1 + c * x;
        if (v <= 0)
            continue;
        v = v * v * v;
        double u = 1 - prn_random_double(random);
        if (u < 1 - 0.0331 * x * x * x * x || log(u) < 0.5 * x * x + d * (1 - v + log(v)))
            return d * v;
    }
}

static double random_beta(struct prn_random *random, double a, double b)
{
    double x = random_gamma(random, a);
    return x / (x + random_gamma(random, b));
}

/* The value that n draws from the sample would find at `u` of [0, 1]. */
static double value_at(const struct prn_sketch_order *o, double u)
{
    uint64_t n = o->sketch->count;
    uint64_t rank = (uint64_t)(u * (double)n);
    return prn_sketch_order_value(o, rank < n ? rank : n - 1);
}

static double replicate_median(const struct prn_sketch_order *o, struct prn_random *random)
{
    uint64_t n = o->sketch->count;
    uint64_t k = (n + 1) / 2;
    double above = (double)(n - k);
    double u = random_beta(random, (double)k, above + 1);
    double value = value_at(o, u);
    if (n % 2 == 1)
        return value;
    /* The next one is the smallest of n - k uniform numbers in (u, 1). */
    double next = u + (1 - u) * (1 - pow(1 - prn_random_double(random), 1 / above));
    return (value + value_at(o, next)) / 2;
}

/* The squared error of a median that shrinks neither with the spread of the data nor with their
 * number: the median of rounded values is the rounded median. */
static double floor_variance(const struct prn_sketch_order *o, double median, double resolution)
{
    double bucket = prn_sketch_order_error(o, o->sketch->count / 2) * median;
    return resolution * resolution + bucket * bucket;
}

struct moments {
    double mean;
    double m2; /* sum of squared deviations */
};

struct replicates {
    double ratios[REPLICATES];
    double log_variance;        /* of their logarithms; infinite if a median was 0 */
    double difference_variance; /* of the medians' differences */
};

/* Value number `n`, from 1 on. */
static void add_moment(struct moments *m, double value, int n)
{
    double delta = value - m->mean;
    m->mean += delta / n;
    m->m2 += delta * (value - m->mean);
}

static void replicate(const struct prn_sketch_order *a, const struct prn_sketch_order *b,
                      uint64_t seed, struct replicates *replicates)
{
    struct prn_random random;
    prn_random_seed(&random, seed);
    struct moments logs = {0};
    struct moments differences = {0};
    for (int i = 0; i < REPLICATES; i++) {
        double below = replicate_median(a, &random);
        double above = replicate_median(b, &random);
        /* A ratio of two zeros says nothing: it counts as no change. */
        double ratio = below > 0 || above > 0 ? above / below : 1;
        add_moment(&logs, log(ratio), i + 1);
        add_moment(&differences, above - below, i + 1);
        replicates->ratios[i] = ratio;
    }
    replicates->log_variance = isfinite(logs.m2) ? logs.m2 / (REPLICATES - 1) : INFINITY;
    replicates->difference_variance = differences.m2 / (REPLICATES - 1);
    prn_stats_sort(replicates->ratios, REPLICATES);
}

static double p_value(double effect, double variance, double df)
{
    if (effect == 0)
        return 1;
    return 2 * prn_stats_student_cdf(-fabs(effect) / sqrt(variance), df);
}

/* How far an end of the interval is from the estimate, as a logarithm, with `error` besides. */
static double distance(double end, double estimate, double error)
{
    return hypot(log(end / estimate), error);
}

struct prn_ratio prn_sketch_median_ratio(const struct prn_sketch *a, const struct prn_sketch *b,
                                         double resolution, uint64_t seed)
{
    double median_a = prn_sketch_quantile(a, 0.5);
    double median_b = prn_sketch_quantile(b, 0.5);
    uint64_t units = a->count < b->count ? a->count : b->count;
    struct prn_ratio r = {.ratio = {NAN, median_b / median_a, NAN}, .p = NAN};
    if (units == 0) {
        r.p = 1;
        return r;
    }
    if (!(median_a > 0 || median_b > 0))
        return r;
    if (units < 2) {
        r.ratio.low = -INFINITY;
        r.ratio.high = INFINITY;
        r.p = 1;
        return r;
    }
    struct prn_sketch_order order_a;
    struct prn_sketch_order order_b;
    prn_sketch_order_init(&order_a, a);
    prn_sketch_order_init(&order_b, b);
    struct replicates replicates;
    replicate(&order_a, &order_b, seed, &replicates);
    double floor_a = floor_variance(&order_a, median_a, resolution);
    double floor_b = floor_variance(&order_b, median_b, resolution);
    double df = (double)(units - 1);
    if (!isfinite(replicates.log_variance))
        r.p = p_value(median_b - median_a, replicates.difference_variance + floor_a + floor_b, df);
    if (!(median_a > 0 && median_b > 0))
        return r;
    double floor = floor_a / (median_a * median_a) + floor_b / (median_b * median_b);
    double error = prn_stats_student_quantile(0.975, df) * sqrt(floor);
    double estimate = r.ratio.estimate;
    r.ratio.low = estimate * exp(-distance(replicates.ratios[TAIL - 1], estimate, error));
    r.ratio.high = estimate * exp(distance(replicates.ratios[REPLICATES - TAIL], estimate, error));
    if (isfinite(replicates.log_variance))
        r.p = p_value(log(estimate), replicates.log_variance + floor, df);
    return r;
}
