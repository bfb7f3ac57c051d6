/*
 * The bootstrap of a ratio of medians, without resampling. The k-th smallest of n draws from a
 * sample is the sample's quantile at the k-th smallest of n uniform numbers, and that one follows a
 * beta distribution with parameters k and n - k + 1. So each replicate costs one or two variates
 * and a search, whatever n is.
 *
 * Whether the two differ at all is asked by permutation: how often would a random division of all
 * units into groups of these sizes look as different? While both samples are known exactly the look
 * is at ranks. Of larger ones it is at the medians: with d the difference between the shares of the
 * groups that lie below the median of all units, the groups' medians are the quantiles of all units
 * at 1/2 ∓ d times the other group's share, and d is normal.
 */
#include "base/random.h"
#include "base/sketch.h"

#include <math.h>

#define REPLICATES 4000
/* Replicates cut off at each end of the 95 % interval. */
#define TAIL (REPLICATES / 40)
/* Most units of a sample whose ranks are looked at. */
#define RANKED_MAX 1024

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

/* Of n draws. */
static double replicate_median(const struct prn_sketch_order *o, uint64_t n,
                               struct prn_random *random)
{
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

static uint64_t independent_units(const struct prn_sketch_order *o, double persistence)
{
    double n = round((double)o->sketch->count / persistence);
    return n > 2 ? (uint64_t)n : 2;
}

/* The middle 95 % of the bootstrap's ratios. */
static void replicate(const struct prn_sketch_order *a, const struct prn_sketch_order *b,
                      const double persistence[2], uint64_t seed, struct prn_interval *ratio)
{
    uint64_t n_a = independent_units(a, persistence[0]);
    uint64_t n_b = independent_units(b, persistence[1]);
    double ratios[REPLICATES];
    struct prn_random random;
    prn_random_seed(&random, seed);
    for (int i = 0; i < REPLICATES; i++) {
        double below = replicate_median(a, n_a, &random);
        double above = replicate_median(b, n_b, &random);
        /* A ratio of two zeros says nothing: it counts as no change. */
        ratios[i] = below > 0 || above > 0 ? above / below : 1;
    }
    prn_stats_sort(ratios, REPLICATES);
    ratio->low = ratios[TAIL - 1];
    ratio->high = ratios[REPLICATES - TAIL];
}

/* ---- Permutation ---- */

/* The value with k others before it in both samples together. */
static double joint_value(const struct prn_sketch_order *a, const struct prn_sketch_order *b,
                          uint64_t k)
{
    uint64_t n_a = a->sketch->count;
    uint64_t n_b = b->sketch->count;
    uint64_t low = k > n_b ? k - n_b : 0;
    uint64_t high = k < n_a ? k : n_a;
    /* How many of the k are a's: the fewest for which the next of a isn't before the last of b. */
    while (low < high) {
        uint64_t i = (low + high) / 2;
        if (prn_sketch_order_value(a, i) >= prn_sketch_order_value(b, k - i - 1))
            high = i;
        else
            low = i + 1;
    }
    double next_a = low < n_a ? prn_sketch_order_value(a, low) : INFINITY;
    double next_b = k - low < n_b ? prn_sketch_order_value(b, k - low) : INFINITY;
    return fmin(next_a, next_b);
}

static double joint_quantile(const struct prn_sketch_order *a, const struct prn_sketch_order *b,
                             double q)
{
    uint64_t n = a->sketch->count + b->sketch->count;
    double place = fmin(fmax(q, 0), 1) * (double)(n - 1);
    uint64_t rank = (uint64_t)place;
    double low = joint_value(a, b, rank);
    double high = rank + 1 < n ? joint_value(a, b, rank + 1) : low;
    return low + (place - (double)rank) * (high - low);
}

/* As a share of the smaller one, which orders like the logarithm of the ratio; of zeros there is no
 * share. */
static double distance_of(double one, double other, bool relative)
{
    double distance = fabs(other - one);
    return relative && distance > 0 ? distance / fmin(one, other) : distance;
}

/* The smallest d, to one side, at which the medians are as far apart as `effect`; INFINITY: they
 * never are. */
static double find_shift(const struct prn_sketch_order *a, const struct prn_sketch_order *b,
                         bool relative, double effect, double sign)
{
    double n_a = (double)a->sketch->count;
    double n_b = (double)b->sketch->count;
    double share_a = n_a / (n_a + n_b);
    double most = 0.5 / fmin(share_a, 1 - share_a);
    double low = 0;
    double high = most;
    for (int i = 0; i < 40; i++) {
        double d = (low + high) / 2;
        double one = joint_quantile(a, b, 0.5 - sign * d * (1 - share_a));
        double other = joint_quantile(a, b, 0.5 + sign * d * share_a);
        if (distance_of(one, other, relative) >= effect)
            high = d;
        else
            low = d;
    }
    return high < most ? high : INFINITY;
}

static double permuted_medians(const struct prn_sketch_order *a, const struct prn_sketch_order *b,
                               double median_a, double median_b)
{
    bool relative = median_a > 0 && median_b > 0;
    double effect = distance_of(median_a, median_b, relative);
    double sd = sqrt((1 / (double)a->sketch->count + 1 / (double)b->sketch->count) / 4);
    if (!(effect > 0))
        return 1;
    return erfc(find_shift(a, b, relative, effect, 1) / sd / sqrt(2)) / 2 +
           erfc(find_shift(a, b, relative, effect, -1) / sd / sqrt(2)) / 2;
}

/* All values of a sketch that knows them. */
static size_t list_values(const struct prn_sketch_order *o, double values[RANKED_MAX])
{
    size_t n = (size_t)o->sketch->count;
    for (size_t i = 0; i < n; i++)
        values[i] = prn_sketch_order_value(o, i);
    return n;
}

static bool is_ranked(const struct prn_sketch *s)
{
    return prn_sketch_is_exact(s) && s->count <= RANKED_MAX;
}

static double permute(const struct prn_sketch_order *a, const struct prn_sketch_order *b,
                      double median_a, double median_b)
{
    if (!is_ranked(a->sketch) || !is_ranked(b->sketch))
        return permuted_medians(a, b, median_a, median_b);
    double values_a[RANKED_MAX];
    double values_b[RANKED_MAX];
    size_t n_a = list_values(a, values_a);
    size_t n_b = list_values(b, values_b);
    return prn_stats_rank_sum(values_a, n_a, values_b, n_b);
}

/* What is left of a p when units depend on those before them. */
static double weaken(double p, const struct prn_sketch *a, const struct prn_sketch *b,
                     const double persistence[2])
{
    double n_a = (double)a->count;
    double n_b = (double)b->count;
    double variance = (persistence[0] / n_a + persistence[1] / n_b) / (1 / n_a + 1 / n_b);
    return variance > 1 && p < 1 ? prn_stats_p_of_z(prn_stats_z_of_p(p) / sqrt(variance)) : p;
}

/* What the resolution alone leaves possible: without spread, units can't tell more. */
static double p_of_resolution(double effect, double variance, double df)
{
    if (effect == 0)
        return 1;
    return 2 * prn_stats_student_cdf(-fabs(effect) / sqrt(variance), df);
}

/* How far an end of the interval is from the estimate, as a logarithm, with `error` besides. */
static double reach(double end, double estimate, double error)
{
    return hypot(log(end / estimate), error);
}

struct prn_ratio prn_sketch_median_ratio(const struct prn_sketch *a, const struct prn_sketch *b,
                                         double resolution, uint64_t seed,
                                         const double persistence[2])
{
    static const double none[2] = {1, 1};
    const double *factors = persistence ? persistence : none;
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
    replicate(&order_a, &order_b, factors, seed, &r.ratio);
    double floor_a = floor_variance(&order_a, median_a, resolution);
    double floor_b = floor_variance(&order_b, median_b, resolution);
    double df = (double)(units - 1);
    r.p = weaken(permute(&order_a, &order_b, median_a, median_b), a, b, factors);
    if (!(median_a > 0 && median_b > 0)) {
        r.p = fmax(r.p, p_of_resolution(median_b - median_a, floor_a + floor_b, df));
        r.ratio.low = r.ratio.high = NAN;
        return r;
    }
    double floor = floor_a / (median_a * median_a) + floor_b / (median_b * median_b);
    double error = prn_stats_student_quantile(0.975, df) * sqrt(floor);
    double estimate = r.ratio.estimate;
    r.ratio.low = estimate * exp(-reach(r.ratio.low, estimate, error));
    r.ratio.high = estimate * exp(reach(r.ratio.high, estimate, error));
    r.p = fmax(r.p, p_of_resolution(log(estimate), floor, df));
    return r;
}
