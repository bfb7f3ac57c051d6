/*
 * Wait by user, for both orders of the queue: the service's own queue (service/session/queue.h),
 * with arrivals, holding times and a clock that are simulated.
 *
 *     queue_shares HOSTS HOURS SEED
 *
 * Each line: order, user, sessions that were served, mean and 95th percentile of their waits in
 * seconds, host-hours.
 */
#include "base/random.h"
#include "service/session/queue.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SESSIONS_MAX 20000
#define SECOND 1e9

/* How users behave. One asks for everything at once, each day. */
static const struct user {
    const char *name;
    double every_s, hold_s;
    size_t at_once;
} users[] = {{"nightly", 43200, 600, 200},
             {"ann", 900, 300, 1},
             {"bob", 1200, 120, 1},
             {"cid", 7200, 900, 2}};
#define USERS (sizeof users / sizeof users[0])

struct session {
    const struct user *user;
    double at_s, hold_s, ready_s;
    struct prn_queue_session *place;
};

static struct session sessions[SESSIONS_MAX];

static int by_time(const void *a, const void *b)
{
    const struct session *x = a;
    const struct session *y = b;
    return x->at_s < y->at_s ? -1 : x->at_s > y->at_s;
}

static double exponential(struct prn_random *random, double mean)
{
    return -mean * log(1 - prn_random_double(random));
}

static size_t plan(double until_s, uint64_t seed)
{
    size_t n = 0;
    for (size_t u = 0; u < USERS; u++) {
        struct prn_random random;
        prn_random_seed_named(&random, seed, users[u].name);
        bool regular = users[u].at_once > 2;
        double at_s = regular ? 600 : exponential(&random, users[u].every_s);
        while (at_s < until_s) {
            for (size_t i = 0; i < users[u].at_once && n < SESSIONS_MAX; i++)
                sessions[n++] = (struct session){.user = &users[u],
                                                 .at_s = at_s,
                                                 .hold_s = exponential(&random, users[u].hold_s)};
            at_s += regular ? users[u].every_s : exponential(&random, users[u].every_s);
        }
    }
    qsort(sessions, n, sizeof sessions[0], by_time);
    return n;
}

/* The granted one that ends first; NULL: none. */
static struct session *first_end(size_t n)
{
    struct session *first = NULL;
    for (size_t i = 0; i < n; i++)
        if (sessions[i].place && sessions[i].ready_s >= 0 &&
            (!first || sessions[i].ready_s + sessions[i].hold_s < first->ready_s + first->hold_s))
            first = &sessions[i];
    return first;
}

static void take_grants(struct prn_queue *queue, double now_s)
{
    struct prn_queue_session *granted;
    while ((granted = prn_queue_next_granted(queue)))
        ((struct session *)prn_queue_session_data(granted))->ready_s = now_s;
}

static void ask(struct prn_queue *queue, struct session *s)
{
    static const char *const hardware[] = {"host"};
    struct prn_queue_request request = {.user = s->user->name,
                                        .waiting = PRN_QUEUE_NO_LIMIT,
                                        .quota = PRN_QUEUE_NO_LIMIT,
                                        .hardware = hardware,
                                        .n = 1,
                                        .data = s};
    struct prony_error err;
    s->ready_s = -1;
    if (prn_queue_ask(queue, &request, (int64_t)(s->at_s * SECOND), &s->place, &err) < 0) {
        fprintf(stderr, "queue_shares: %s\n", err.text);
        exit(1);
    }
}

static void simulate(struct prn_queue *queue, size_t n)
{
    size_t next = 0;
    for (;;) {
        struct session *ends = first_end(n);
        double end_s = ends ? ends->ready_s + ends->hold_s : INFINITY;
        if (next < n && sessions[next].at_s <= end_s) {
            ask(queue, &sessions[next]);
            take_grants(queue, sessions[next++].at_s);
        } else if (ends) {
            prn_queue_leave(queue, ends->place, (int64_t)(end_s * SECOND));
            ends->place = NULL;
            take_grants(queue, end_s);
        } else {
            return;
        }
    }
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void report(const char *order, size_t n)
{
    static double waits[SESSIONS_MAX];
    for (size_t u = 0; u < USERS; u++) {
        size_t m = 0;
        double sum = 0;
        double held_s = 0;
        for (size_t i = 0; i < n; i++)
            if (sessions[i].user == &users[u]) {
                waits[m++] = sessions[i].ready_s - sessions[i].at_s;
                sum += waits[m - 1];
                held_s += sessions[i].hold_s;
            }
        qsort(waits, m, sizeof waits[0], by_value);
        printf("%s %s %zu %.1f %.1f %.1f\n", order, users[u].name, m, m ? sum / (double)m : 0,
               m ? waits[m * 95 / 100] : 0, held_s / 3600);
    }
}

int main(int argc, char **argv)
{
    size_t hosts = argc > 1 ? (size_t)strtoul(argv[1], NULL, 10) : 4;
    double hours = argc > 2 ? strtod(argv[2], NULL) : 48;
    uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    for (int fair = 0; fair < 2; fair++) {
        struct prn_queue *queue;
        struct prn_queue_host *host;
        struct prony_error err;
        size_t n = plan(hours * 3600, seed);
        if (prn_queue_new(&queue, &err) < 0)
            return 1;
        prn_queue_set_policy(queue, &(struct prn_queue_policy){fair, PRN_QUEUE_WINDOW_S}, 0);
        for (size_t i = 0; i < hosts; i++)
            if (prn_queue_add_host(queue, "host", NULL, 0, &host, &err) < 0)
                return 1;
        simulate(queue, n);
        report(fair ? "fair" : "first-come", n);
        prn_queue_free(queue);
    }
    return 0;
}
