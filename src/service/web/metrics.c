#include "service/web/metrics.h"

#include "base/lock.h"
#include "base/format.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define VALUE_SIZE 64 /* of a label's value, with its NUL */

enum kind { COUNTER, GAUGE, HISTOGRAM };

struct prn_meter {
    struct prn_metric *metric;
    char values[2][VALUE_SIZE];
    uint64_t number;   /* the bits of a double: its value, so that it can be changed atomically */
    uint64_t counts[]; /* histograms, whose value is their sum: of each bucket alone */
};

struct prn_metric {
    struct prn_metrics *metrics;
    struct prn_metric *next;
    enum kind kind;
    const char *name, *help;
    const char *labels[2];
    const double *bounds; /* of buckets; those of other kinds have none */
    size_t n_bounds;
    size_t n_meters;
    struct prn_meter *meters[PRN_METERS_MAX];
};

struct collector {
    struct collector *next;
    void (*collect)(void *context);
    void *context;
};

PRN_LOCK(lists);

struct prn_metrics {
    pthread_mutex_t lock; /* of the lists; numbers are changed without */
    struct prn_metric *first PRN_GUARDED(lists), **last PRN_GUARDED(lists);
    struct collector *collectors PRN_GUARDED(lists);
};

PRN_LOCK_FUNCTIONS(lists, struct prn_metrics, lock)

struct prn_metrics *prn_metrics_new(void) PRN_ALONE
{
    struct prn_metrics *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    pthread_mutex_init(&m->lock, NULL);
    m->last = &m->first;
    return m;
}

void prn_metrics_free(struct prn_metrics *metrics) PRN_ALONE
{
    if (!metrics)
        return;
    for (struct prn_metric *metric = metrics->first, *next; metric; metric = next) {
        next = metric->next;
        for (size_t i = 0; i < metric->n_meters; i++)
            free(metric->meters[i]);
        free(metric);
    }
    for (struct collector *c = metrics->collectors, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    pthread_mutex_destroy(&metrics->lock);
    free(metrics);
}

static struct prn_meter *add_meter(struct prn_metric *metric, const char *const values[2])
{
    size_t buckets = metric->kind == HISTOGRAM ? metric->n_bounds + 1 : 0;
    struct prn_meter *meter = calloc(1, sizeof *meter + buckets * sizeof meter->counts[0]);
    if (!meter)
        return NULL;
    meter->metric = metric;
    for (size_t i = 0; i < 2; i++)
        if (metric->labels[i])
            strncpy(meter->values[i], values[i] ? values[i] : "", VALUE_SIZE - 1);
    metric->meters[metric->n_meters++] = meter;
    return meter;
}

static struct prn_metric *add_metric(struct prn_metrics *metrics, const struct prn_metric *like)
{
    if (!metrics)
        return NULL;
    lists_lock(metrics);
    struct prn_metric *metric = metrics->first;
    while (metric && strcmp(metric->name, like->name) != 0)
        metric = metric->next;
    if (!metric && (metric = calloc(1, sizeof *metric))) {
        *metric = *like;
        metric->metrics = metrics;
        *metrics->last = metric;
        metrics->last = &metric->next;
        if (!like->labels[0] && !like->labels[1])
            add_meter(metric, (const char *const[2]){NULL, NULL});
    }
    lists_unlock(metrics);
    return metric;
}

struct prn_metric *prn_metrics_counter(struct prn_metrics *metrics, const char *name,
                                       const char *help, const char *label1, const char *label2)
{
    return add_metric(metrics,
                      &(struct prn_metric){
                          .kind = COUNTER, .name = name, .help = help, .labels = {label1, label2}});
}

struct prn_metric *prn_metrics_gauge(struct prn_metrics *metrics, const char *name,
                                     const char *help, const char *label1, const char *label2)
{
    return add_metric(metrics,
                      &(struct prn_metric){
                          .kind = GAUGE, .name = name, .help = help, .labels = {label1, label2}});
}

struct prn_metric *prn_metrics_histogram(struct prn_metrics *metrics, const char *name,
                                         const char *help, const double *bounds, size_t n,
                                         const char *label1, const char *label2)
{
    return add_metric(metrics, &(struct prn_metric){.kind = HISTOGRAM,
                                                    .name = name,
                                                    .help = help,
                                                    .labels = {label1, label2},
                                                    .bounds = bounds,
                                                    .n_bounds = n});
}

static struct prn_meter *find_meter(const struct prn_metric *metric, const char *const values[2])
{
    for (size_t i = 0; i < metric->n_meters; i++) {
        bool same = true;
        for (size_t k = 0; same && k < 2; k++)
            same = !metric->labels[k] || strncmp(metric->meters[i]->values[k],
                                                 values[k] ? values[k] : "", VALUE_SIZE - 1) == 0;
        if (same)
            return metric->meters[i];
    }
    return NULL;
}

struct prn_meter *prn_metric_meter(struct prn_metric *metric, const char *value1,
                                   const char *value2)
{
    static const char *const other[2] = {"other", "other"};
    if (!metric)
        return NULL;
    const char *const values[2] = {value1, value2};
    lists_lock(metric->metrics);
    struct prn_meter *meter = find_meter(metric, values);
    if (!meter && metric->n_meters < PRN_METERS_MAX - 1)
        meter = add_meter(metric, values);
    else if (!meter)
        meter = metric->n_meters == PRN_METERS_MAX ? metric->meters[PRN_METERS_MAX - 1]
                                                   : add_meter(metric, other);
    lists_unlock(metric->metrics);
    return meter;
}

static double number_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

void prn_meter_add(struct prn_meter *meter, double amount)
{
    if (!meter)
        return;
    uint64_t old = __atomic_load_n(&meter->number, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&meter->number, &old, bits_of(number_of(old) + amount),
                                        true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

void prn_meter_set(struct prn_meter *meter, double value)
{
    if (meter)
        __atomic_store_n(&meter->number, bits_of(value), __ATOMIC_RELAXED);
}

void prn_meter_observe(struct prn_meter *meter, double value)
{
    if (!meter)
        return;
    size_t i = 0;
    while (i < meter->metric->n_bounds && value > meter->metric->bounds[i])
        i++;
    __atomic_add_fetch(&meter->counts[i], 1, __ATOMIC_RELAXED);
    prn_meter_add(meter, value);
}

double prn_meter_value(const struct prn_meter *meter)
{
    return meter ? number_of(__atomic_load_n(&meter->number, __ATOMIC_RELAXED)) : 0;
}

void prn_metrics_on_write(struct prn_metrics *metrics, void (*collect)(void *context),
                          void *context)
{
    struct collector *c = metrics ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return;
    c->collect = collect;
    c->context = context;
    lists_lock(metrics);
    c->next = metrics->collectors;
    metrics->collectors = c;
    lists_unlock(metrics);
}

static void write_escaped(struct prn_buffer *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\n')
            prn_buffer_add(out, "\\n");
        else if (*text == '"' || *text == '\\')
            prn_buffer_printf(out, "\\%c", *text);
        else
            prn_buffer_add_char(out, *text);
    }
}

/* "name_suffix{label="value",le="bound"} "; `le` NULL: without. */
static void write_name(struct prn_buffer *out, const struct prn_meter *meter, const char *suffix,
                       const char *le)
{
    const struct prn_metric *metric = meter->metric;
    char separator = '{';
    prn_buffer_printf(out, "%s%s", metric->name, suffix);
    for (size_t i = 0; i < 2; i++) {
        if (!metric->labels[i])
            continue;
        prn_buffer_printf(out, "%c%s=\"", separator, metric->labels[i]);
        write_escaped(out, meter->values[i]);
        prn_buffer_add_char(out, '"');
        separator = ',';
    }
    if (le) {
        prn_buffer_printf(out, "%cle=\"%s\"", separator, le);
        separator = ',';
    }
    prn_buffer_add(out, separator == '{' ? " " : "} ");
}

static void write_number(struct prn_buffer *out, double value)
{
    char text[PRN_FORMAT_SIZE];
    if (isfinite(value))
        prn_buffer_printf(out, "%s\n", prn_format_shortest(text, value));
    else
        prn_buffer_add(out, isnan(value) ? "NaN\n" : value > 0 ? "+Inf\n" : "-Inf\n");
}

/* The count is that of the last bucket, whatever was observed meanwhile. */
static void write_histogram(struct prn_buffer *out, const struct prn_meter *meter)
{
    const struct prn_metric *metric = meter->metric;
    char bound[PRN_FORMAT_SIZE];
    uint64_t n = 0;
    for (size_t i = 0; i <= metric->n_bounds; i++) {
        n += __atomic_load_n(&meter->counts[i], __ATOMIC_RELAXED);
        write_name(out, meter, "_bucket",
                   i < metric->n_bounds ? prn_format_shortest(bound, metric->bounds[i]) : "+Inf");
        prn_buffer_printf(out, "%llu\n", (unsigned long long)n);
    }
    write_name(out, meter, "_sum", NULL);
    write_number(out, prn_meter_value(meter));
    write_name(out, meter, "_count", NULL);
    prn_buffer_printf(out, "%llu\n", (unsigned long long)n);
}

static void write_metric(struct prn_buffer *out, const struct prn_metric *metric)
{
    static const char *const types[] = {"counter", "gauge", "histogram"};
    prn_buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", metric->name, metric->help, metric->name,
                      types[metric->kind]);
    for (size_t i = 0; i < metric->n_meters; i++) {
        if (metric->kind == HISTOGRAM) {
            write_histogram(out, metric->meters[i]);
            continue;
        }
        write_name(out, metric->meters[i], "", NULL);
        write_number(out, prn_meter_value(metric->meters[i]));
    }
}

void prn_metrics_write(struct prn_metrics *metrics, struct prn_buffer *out)
{
    if (!metrics)
        return;
    /* Collectors are never removed, and they take the lock themselves. */
    lists_lock(metrics);
    const struct collector *collector = metrics->collectors;
    lists_unlock(metrics);
    for (; collector; collector = collector->next)
        collector->collect(collector->context);
    lists_lock(metrics);
    for (const struct prn_metric *metric = metrics->first; metric; metric = metric->next)
        write_metric(out, metric);
    lists_unlock(metrics);
}
