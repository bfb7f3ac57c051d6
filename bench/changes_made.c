/*
 * Made histories, to count how often `prony history show` sees a change where there is none, and
 * how often it finds one that is there: changes_made SCENARIO REPORTS AFTER STEP SERIES. It prints
 * how many series show a change, and how many show one within one report of the place, upwards.
 *
 * A report is 5 launches. Launches of a report differ by 0.6 % (standard deviation,
 * docs/measuring.md), reports by what the scenario says; the last AFTER reports take STEP times as
 * long. Nothing depends on the machine: the same arguments give the same counts.
 */
#include "base/random.h"
#include "measure/trend/trend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAUNCHES 5
#define LAUNCH_SD 0.006
#define CANARY_NS 1e5

static const struct scenario {
    const char *name;
    double report_sd;   /* between reports */
    double follows;     /* how much of a report's deviation the next one has, too */
    double disturbed;   /* share of reports that other work disturbed */
    double disturbance; /* which makes them longer by up to this */
} scenarios[] = {
    {"quiet", 0.005, 0, 0, 0},        /* a machine of its own */
    {"shared", 0.02, 0, 0, 0},        /* one that others use, too */
    {"disturbed", 0.01, 0, 0.1, 0.3}, /* now and then by a lot */
    {"drifting", 0.02, 0.5, 0, 0},    /* slow in the morning, slow at noon */
};

/* The logarithm of the level is 0 before the step. */
static void make_series(struct prn_random *r, const struct scenario *s, double step, size_t after,
                        struct prn_trend_series *series)
{
    double last = 0;
    for (size_t i = 0; i < series->n_points; i++) {
        double launches[LAUNCHES];
        double fresh = prn_random_normal(r);
        last = i == 0 ? fresh : s->follows * last + sqrt(1 - s->follows * s->follows) * fresh;
        double level = s->report_sd * last;
        if (prn_random_double(r) < s->disturbed)
            level += s->disturbance * prn_random_double(r);
        if (i + after >= series->n_points)
            level += log(step);
        for (size_t k = 0; k < LAUNCHES; k++)
            launches[k] = level + LAUNCH_SD * prn_random_normal(r);
        series->points[i] =
            (struct prn_trend_point){.origin = {.report = (int64_t)i + 1},
                                     .median_ns = 1e7 * exp(prn_stats_mean(launches, LAUNCHES)),
                                     .log_error = prn_stats_sd(launches, LAUNCHES) / sqrt(LAUNCHES),
                                     .canary_ns = CANARY_NS,
                                     .smallest_difference = 0.005};
    }
}

/* Whether there is a change upwards, near the place of the step. */
static bool found_step(const struct prn_trend_series *s, size_t after)
{
    size_t place = s->n_points - after;
    for (size_t i = 0; i < s->n_changes; i++)
        if (s->changes[i].ratio.estimate > 1 && s->changes[i].at + 1 >= place &&
            s->changes[i].at <= place + 1)
            return true;
    return false;
}

/* Looked at once, or, when it is watched, whenever a report comes, until there is a change. */
static int analyse_series(struct prn_trend_series *s, bool watched, struct prn_arena *arena)
{
    size_t all = s->n_points;
    int code = 0;
    s->n_points = watched && all > PRN_CHANGES_MIN ? PRN_CHANGES_MIN : all;
    while ((code = prn_trend_analyse(s, arena)) == 0 && s->n_points < all && s->n_changes == 0)
        s->n_points++;
    s->n_points = all;
    return code;
}

static int count(const struct scenario *scenario, size_t reports, size_t after, double step,
                 size_t n_series, bool watched)
{
    struct prn_trend_point *points = calloc(reports, sizeof *points);
    size_t shown = 0;
    size_t found = 0;
    struct prn_random random;
    prn_random_seed_named(&random, 22, scenario->name);
    int code = points ? 0 : PRONY_ENOMEM;
    for (size_t i = 0; i < n_series && code == 0; i++) {
        struct prn_trend_series series = {.points = points, .n_points = reports};
        struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 26);
        make_series(&random, scenario, step, after, &series);
        code = analyse_series(&series, watched, &arena);
        shown += series.n_changes > 0;
        found += found_step(&series, after);
        prn_arena_release(&arena);
    }
    if (code == 0)
        printf("%zu %zu\n", shown, found);
    free(points);
    return code;
}

int main(int argc, char **argv)
{
    if (argc < 6) {
        fprintf(stderr, "usage: %s SCENARIO REPORTS AFTER STEP SERIES [watched]\n", argv[0]);
        return 2;
    }
    for (size_t i = 0; i < sizeof scenarios / sizeof scenarios[0]; i++)
        if (strcmp(scenarios[i].name, argv[1]) == 0)
            return count(&scenarios[i], strtoul(argv[2], NULL, 10), strtoul(argv[3], NULL, 10),
                         strtod(argv[4], NULL), strtoul(argv[5], NULL, 10), argc > 6) < 0;
    fprintf(stderr, "%s: no scenario '%s'\n", argv[0], argv[1]);
    return 2;
}
