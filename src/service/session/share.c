#include "service/session/share.h"

#include "base/array.h"

#include <math.h>
#include <stdlib.h>

/* Of a user who hasn't ended any session yet. */
#define FIRST_MEAN_S 60.0
/* The newest session's part of the mean. */
#define NEWEST 0.125

void prn_shares_release(struct prn_shares *shares)
{
    free(shares->of);
    *shares = PRN_SHARES_INIT;
}

struct prn_share *prn_share_of(struct prn_shares *shares, const void *hardware)
{
    for (size_t i = 0; i < shares->n; i++)
        if (shares->of[i].hardware == hardware)
            return &shares->of[i];
    struct prn_share *of = prn_array_grow(shares->of, shares->n, sizeof *of);
    if (!of)
        return NULL;
    shares->of = of;
    of[shares->n] = (struct prn_share){.hardware = hardware};
    return &of[shares->n++];
}

static double seconds(int64_t ns)
{
    return (double)ns * 1e-9;
}

static double known_or_first(double mean_s)
{
    return mean_s > 0 ? mean_s : FIRST_MEAN_S;
}

static double used_s(const struct prn_share *share, int64_t now_ns, double window_s)
{
    return share->used_s * exp(-seconds(now_ns - share->as_of_ns) / window_s);
}

static void add_used(struct prn_share *share, double host_s, int64_t now_ns, double window_s)
{
    share->used_s = used_s(share, now_ns, window_s) + host_s;
    share->as_of_ns = now_ns;
}

void prn_share_wait(struct prn_share *share, bool joins)
{
    share->waiting += joins ? 1 : SIZE_MAX;
}

void prn_share_grant(struct prn_share *share, int64_t now_ns)
{
    share->waiting--;
    share->held++;
    share->since_s += seconds(now_ns);
}

void prn_share_give_back(struct prn_shares *shares, struct prn_share *share, int64_t granted_ns,
                         int64_t now_ns, double window_s)
{
    double took_s = seconds(now_ns - granted_ns);
    share->held--;
    share->since_s = share->held > 0 ? share->since_s - seconds(granted_ns) : 0;
    add_used(share, took_s, now_ns, window_s);
    shares->drift_s += took_s - known_or_first(shares->expected_s);
    shares->mean_s =
        shares->mean_s > 0 ? shares->mean_s + NEWEST * (took_s - shares->mean_s) : took_s;
}

void prn_share_add_past(struct prn_share *share, double host_s, double ago_s, int64_t now_ns,
                        double window_s)
{
    add_used(share, host_s * exp(-ago_s / window_s), now_ns, window_s);
}

double prn_share_debt_s(const struct prn_shares *shares, const struct prn_share *share,
                        size_t hosts, int64_t now_ns, double window_s)
{
    double mean_s = known_or_first(shares->mean_s);
    double so_far_s = (double)share->held * seconds(now_ns) - share->since_s;
    double held_s = fmax(so_far_s, (double)share->held * mean_s);
    double all_s = used_s(share, now_ns, window_s) + held_s + (double)share->waiting * mean_s;
    return all_s / (double)(hosts > 0 ? hosts : 1);
}

bool prn_shares_drifted(struct prn_shares *shares, size_t waiting)
{
    double bearable_s = known_or_first(shares->expected_s) * fmax(1, (double)waiting / 8);
    if (fabs(shares->drift_s) < bearable_s)
        return false;
    shares->drift_s = 0;
    shares->expected_s = shares->mean_s;
    return true;
}
