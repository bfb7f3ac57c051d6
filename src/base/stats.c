#include "base/stats.h"

#include <math.h>
#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

void prn_stats_sort(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare);
}

double prn_stats_quantile(const double *sorted, size_t n, double q)
{
    double position = q * (double)(n - 1);
    size_t i = (size_t)position;
    if (i + 1 >= n)
        return sorted[n - 1];
    return sorted[i] + (position - (double)i) * (sorted[i + 1] - sorted[i]);
}

double prn_stats_median(const double *sorted, size_t n)
{
    return prn_stats_quantile(sorted, n, 0.5);
}

double prn_stats_mean(const double *values, size_t n)
{
    double mean = 0;
    for (size_t i = 0; i < n; i++)
        mean += (values[i] - mean) / (double)(i + 1);
    return mean;
}

double prn_stats_sd(const double *values, size_t n)
{
    if (n < 2)
        return 0;
    double mean = prn_stats_mean(values, n);
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (values[i] - mean) * (values[i] - mean);
    return sqrt(sum / (double)(n - 1));
}

/* Continued fraction of the incomplete beta function (Lentz's method). */
static double beta_fraction(double a, double b, double x)
{
    const double tiny = 1e-300;
    double c = 1;
    double d = 1 - (a + b) * x / (a + 1);
    d = 1 / (fabs(d) < tiny ? tiny : d);
    double h = d;
    for (int m = 1; m < 300; m++) {
        double term[2] = {m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                          -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))};
        double factor = 1;
        for (int k = 0; k < 2; k++) {
            d = 1 + term[k] * d;
            d = 1 / (fabs(d) < tiny ? tiny : d);
            c = 1 + term[k] / c;
            c = fabs(c) < tiny ? tiny : c;
            factor = d * c;
            h *= factor;
        }
        if (fabs(factor - 1) < 1e-15)
            break;
    }
    return h;
}

static double incomplete_beta(double a, double b, double x)
{
    if (x <= 0)
        return 0;
    if (x >= 1)
        return 1;
    double front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(a, b, x) / a;
    return 1 - front * beta_fraction(b, a, 1 - x) / b;
}

double prn_stats_student_cdf(double t, double df)
{
    double tail = 0.5 * incomplete_beta(df / 2, 0.5, df / (df + t * t));
    return t > 0 ? 1 - tail : tail;
}

double prn_stats_student_quantile(double p, double df)
{
    if (p < 0.5)
        return -prn_stats_student_quantile(1 - p, df);
    double low = 0;
    double high = 1;
    while (prn_stats_student_cdf(high, df) < p && high < 1e12)
        high *= 2;
    for (int i = 0; i < 200 && high - low > 1e-12 * high; i++) {
        double middle = (low + high) / 2;
        if (prn_stats_student_cdf(middle, df) < p)
            low = middle;
        else
            high = middle;
    }
    return (low + high) / 2;
}

size_t prn_stats_percentile_need(double p)
{
    static const struct {
        double p;
        size_t need;
    } needs[] = {{0.5, 1}, {0.9, 64}, {0.95, 130}, {0.99, 662}, {0.999, 6636}};
    size_t n = sizeof needs / sizeof needs[0];
    for (size_t i = 0; i < n; i++)
        if (p <= needs[i].p + 1e-9)
            return needs[i].need;
    return SIZE_MAX;
}

double prn_stats_process_difference(double ns)
{
    return ns < 1e5 ? 0.5 : 0.05;
}

struct prn_interval prn_stats_interval(double mean, double sd, uint64_t n)
{
    struct prn_interval r = {.low = -INFINITY, .estimate = mean, .high = INFINITY};
    if (n >= 2) {
        double half = prn_stats_student_quantile(0.975, (double)(n - 1)) * sd / sqrt((double)n);
        r.low = mean - half;
        r.high = mean + half;
    }
    return r;
}

struct prn_interval prn_stats_mean_interval(const double *units, size_t n)
{
    return prn_stats_interval(prn_stats_mean(units, n), prn_stats_sd(units, n), n);
}

struct prn_interval prn_stats_amount_interval(const double *units, size_t n)
{
    struct prn_interval r = prn_stats_mean_interval(units, n);
    r.low = isfinite(r.low) ? fmax(r.low, 0) : r.low;
    return r;
}

struct prn_welch prn_stats_welch(const double *a, size_t n_a, const double *b, size_t n_b)
{
    double mean = prn_stats_mean(a, n_a) - prn_stats_mean(b, n_b);
    struct prn_welch r = {.difference = {-INFINITY, mean, INFINITY}, .p = NAN};
    if (n_a < 2 || n_b < 2)
        return r;
    double sd_a = prn_stats_sd(a, n_a);
    double sd_b = prn_stats_sd(b, n_b);
    double variance_a = sd_a * sd_a / (double)n_a;
    double variance_b = sd_b * sd_b / (double)n_b;
    double variance = variance_a + variance_b;
    double half = 0;
    r.p = mean == 0 ? 1 : 0; /* for units that don't vary at all */
    if (variance > 0) {
        double share_a = variance_a / variance;
        double share_b = variance_b / variance;
        double df =
            1 / (share_a * share_a / (double)(n_a - 1) + share_b * share_b / (double)(n_b - 1));
        half = prn_stats_student_quantile(0.975, df) * sqrt(variance);
        r.p = 2 * prn_stats_student_cdf(-fabs(mean) / sqrt(variance), df);
    }
    r.difference.low = mean - half;
    r.difference.high = mean + half;
    return r;
}

static int compare_targets(const void *a, const void *b)
{
    return compare(*(const double *const *)a, *(const double *const *)b);
}

int prn_stats_holm(const double *p, size_t n, double *adjusted)
{
    const double **order = calloc(n ? n : 1, sizeof *order);
    if (!order)
        return PRONY_ENOMEM;
    size_t known = 0;
    for (size_t i = 0; i < n; i++) {
        adjusted[i] = NAN;
        if (!isnan(p[i]))
            order[known++] = &p[i];
    }
    qsort(order, known, sizeof *order, compare_targets);
    double most = 0;
    for (size_t i = 0; i < known; i++) {
        most = fmin(1, fmax(most, (double)(known - i) * *order[i]));
        adjusted[order[i] - p] = most;
    }
    free(order);
    return 0;
}

/* ---- Rank sums ---- */

#define RANKS_EXACT 32
/* Ranks are doubled, so that those that equal values share are whole. */
#define RANK_SUM_MAX (RANKS_EXACT * (RANKS_EXACT + 1))

struct ranks {
    size_t n;              /* values of both */
    double sum;            /* of the first sample's ranks, doubled */
    double tied;           /* sum of t³ - t over groups of t equal values */
    int each[RANKS_EXACT]; /* doubled, ascending; only as many as fit */
};

/* Walks over both sorted samples at once, one group of equal values after the other. */
static struct ranks rank_values(const double *a, size_t n_a, const double *b, size_t n_b)
{
    struct ranks r = {.n = n_a + n_b};
    size_t i = 0;
    size_t k = 0;
    while (i < n_a || k < n_b) {
        double value = k == n_b || (i < n_a && a[i] < b[k]) ? a[i] : b[k];
        size_t before = i + k;
        size_t own = i;
        while (i < n_a && a[i] <= value)
            i++;
        while (k < n_b && b[k] <= value)
            k++;
        double equal = (double)(i + k - before);
        double rank = 2 * (double)before + equal + 1;
        r.sum += rank * (double)(i - own);
        r.tied += equal * equal * equal - equal;
        for (size_t at = before; at < i + k && at < RANKS_EXACT; at++)
            r.each[at] = (int)rank;
    }
    return r;
}

/* Counts the ways to choose n_a of the ranks, by their sum. */
static double exact_rank_sum(const struct ranks *r, size_t n_a)
{
    static const size_t width = RANK_SUM_MAX + 1;
    double ways[(RANKS_EXACT + 1) * (RANK_SUM_MAX + 1)] = {1};
    for (size_t item = 0; item < r->n; item++)
        for (size_t k = item + 1 < n_a ? item + 1 : n_a; k > 0; k--)
            for (size_t sum = (size_t)r->each[item]; sum < width; sum++)
                ways[k * width + sum] += ways[(k - 1) * width + sum - (size_t)r->each[item]];
    double mean = (double)n_a * (double)(r->n + 1);
    double all = 0;
    double far = 0;
    for (size_t sum = 0; sum < width; sum++) {
        all += ways[n_a * width + sum];
        if (fabs((double)sum - mean) >= fabs(r->sum - mean))
            far += ways[n_a * width + sum];
    }
    return far / all;
}

double prn_stats_rank_sum(const double *a, size_t n_a, const double *b, size_t n_b)
{
    struct ranks r = rank_values(a, n_a, b, n_b);
    if (n_a == 0 || n_b == 0)
        return 1;
    if (r.n <= RANKS_EXACT)
        return exact_rank_sum(&r, n_a);
    double n = (double)r.n;
    double off = fabs(r.sum - (double)n_a * (n + 1)) / 2;
    double variance = (double)n_a * (double)n_b / 12 * (n + 1 - r.tied / (n * (n - 1)));
    /* Half a step, because sums are whole and the normal distribution isn't. */
    return variance > 0 && off > 0.5 ? erfc((off - 0.5) / sqrt(2 * variance)) : 1;
}

/* ---- Values that depend on those before ---- */

struct placed {
    double value;
    size_t place;
};

static int by_value(const void *a, const void *b)
{
    const struct placed *x = a;
    const struct placed *y = b;
    return (x->value > y->value) - (x->value < y->value);
}

/* Ranks from -1 to 1, by place; equal values share theirs. */
static void rank_places(struct placed *sorted, size_t n, double *ranks)
{
    qsort(sorted, n, sizeof *sorted, by_value);
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && sorted[end].value <= sorted[i].value)
            end++;
        for (size_t k = i; k < end; k++)
            ranks[sorted[k].place] = ((double)i + (double)end - (double)n) / (double)n;
        i = end;
    }
}

double prn_stats_persistence(const double *values, size_t n)
{
    if (n < 8)
        return 1;
    struct placed *sorted = calloc(n, sizeof *sorted);
    double *ranks = calloc(n, sizeof *ranks);
    double r = NAN;
    if (sorted && ranks) {
        double own = 0;
        double neighbours = 0;
        for (size_t i = 0; i < n; i++)
            sorted[i] = (struct placed){values[i], i};
        rank_places(sorted, n, ranks);
        for (size_t i = 0; i < n; i++) {
            own += ranks[i] * ranks[i];
            neighbours += i > 0 ? ranks[i] * ranks[i - 1] : 0;
        }
        r = own > 0 ? neighbours / own : 0;
        /* Few values make it look smaller than it is. */
        r += (1 + 4 * r) / (double)n;
        r = r < 0 ? 0 : r > 0.9 ? 0.9 : r;
    }
    free(sorted);
    free(ranks);
    return (1 + r) / (1 - r);
}

double prn_stats_p_of_z(double z)
{
    return erfc(fabs(z) / sqrt(2));
}

double prn_stats_z_of_p(double p)
{
    double low = 0;
    double high = 39; /* beyond it p is 0 */
    for (int i = 0; i < 60; i++) {
        double z = (low + high) / 2;
        if (prn_stats_p_of_z(z) > p)
            low = z;
        else
            high = z;
    }
    return (low + high) / 2;
}
