/* What --rate, --concurrency, --duration and --slo say. */
#include "measure/load/load.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define RATE_MIN 1e-3
#define RATE_MAX 1e7

struct unit {
    const char *name;
    double factor;
};

/* A number, digits with a point and an exponent, that ends where its unit begins; NAN otherwise. */
static double number_at(const char *text, const char **ret_end)
{
    char *end;
    double value = strtod(text, &end);
    *ret_end = end;
    bool plain = end > text && strspn(text, "+.0123456789eE-") >= (size_t)(end - text);
    return plain && isfinite(value) ? value : NAN;
}

/* The number with its unit; NAN when either isn't one. */
static double measured(const char *text, size_t len, const struct unit *units, size_t n)
{
    const char *end;
    double value = number_at(text, &end);
    size_t rest = text + len > end ? (size_t)(text + len - end) : 0;
    for (size_t i = 0; i < n; i++)
        if (strlen(units[i].name) == rest && strncmp(end, units[i].name, rest) == 0)
            return value * units[i].factor;
    return NAN;
}

static int parse_rate(const char *text, size_t len, struct prn_load_settings *s,
                      struct prony_error *err)
{
    static const struct unit units[] = {{"/s", 1}, {"/min", 1.0 / 60}, {"/h", 1.0 / 3600}};
    double rate = measured(text, len, units, PRN_ARRAY_SIZE(units));
    if (isnan(rate))
        return prn_fail(err, PRONY_EUSAGE,
                        "--rate: '%.*s' is not a rate: write '100/s', '6000/min' or '0.5/s'",
                        (int)len, text);
    if (!(rate >= RATE_MIN && rate <= RATE_MAX))
        return prn_fail(err, PRONY_EUSAGE, "--rate: %.*s is not between %g/s and %.0f/s", (int)len,
                        text, RATE_MIN, RATE_MAX);
    if (s->n_rates == PRN_LOAD_RATES_MAX)
        return prn_fail(err, PRONY_EUSAGE, "--rate: more than %d rates", PRN_LOAD_RATES_MAX);
    s->rates[s->n_rates++] = rate;
    return 0;
}

int prn_load_parse_rates(const char *text, struct prn_load_settings *settings,
                         struct prony_error *err)
{
    for (;;) {
        size_t len = strcspn(text, ",");
        int code = parse_rate(text, len, settings, err);
        if (code < 0 || !text[len])
            return code;
        text += len + 1;
    }
}

int prn_load_parse_slo(const char *text, struct prn_load_settings *settings,
                       struct prony_error *err)
{
    static const struct unit units[] = {
        {"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    static const struct unit percentiles[] = {
        {"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}};
    const char *equals = strchr(text, '=');
    double percentile = NAN;
    for (size_t i = 0; equals && i < PRN_ARRAY_SIZE(percentiles); i++)
        if (strlen(percentiles[i].name) == (size_t)(equals - text) &&
            strncmp(text, percentiles[i].name, (size_t)(equals - text)) == 0)
            percentile = percentiles[i].factor;
    if (isnan(percentile))
        return prn_fail(err, PRONY_EUSAGE,
                        "--slo: '%s' is not a limit: write 'p99=20ms' (p50, p90, p95, p99, p99.9)",
                        text);
    double limit = measured(equals + 1, strlen(equals + 1), units, PRN_ARRAY_SIZE(units));
    if (isnan(limit))
        return prn_fail(err, PRONY_EUSAGE,
                        "--slo: '%s' is not a time: write '20ms' (ns, us, ms or s)", equals + 1);
    if (!(limit >= 1 && limit <= 1e13))
        return prn_fail(err, PRONY_EUSAGE, "--slo: '%s' is not between 1 ns and 10000 s",
                        equals + 1);
    settings->percentile = percentile;
    settings->limit_ns = limit;
    return 0;
}

bool prn_load_wanted(const struct prn_load_settings *s)
{
    return s->n_rates > 0 || s->workers > 0 || s->percentile > 0;
}

int prn_load_check(const struct prn_load_settings *s, struct prony_error *err)
{
    if (s->duration_s > 0 && s->n_rates == 0 && s->workers == 0)
        return prn_fail(err, PRONY_EUSAGE, "--duration needs --rate or --concurrency%s",
                        s->percentile > 0 ? "; --max-time limits --slo" : "");
    for (size_t i = 0; i < s->n_rates; i++)
        for (size_t k = 0; k < i; k++)
            if (s->rates[i] == s->rates[k])
                return prn_fail(err, PRONY_EUSAGE, "--rate: %g/s is given twice", s->rates[i]);
    return 0;
}
