/*
 * Counters, gauges and histograms, written as Prometheus reads them.
 *
 * A metric has a name ("prony_…"), a help text and up to two labels. A meter is what counts for one
 * combination of label values; there are at most PRN_METERS_MAX per metric, the last of them for
 * all further values together, "other": what comes from the wire can't make it grow. Meters are
 * never removed, so a pointer may be kept, and changing one takes no lock.
 *
 *     calls = prn_metrics_counter(m, "prony_rpc_calls_total", "Calls, by outcome.", "method",
 *                                 "code");
 *     prn_meter_add(prn_metric_meter(calls, "Run", "OK"), 1);
 *
 * Out of memory, functions return NULL, and changing NULL does nothing: metrics never stop a
 * service. All functions may be called from several threads.
 */
#ifndef PRN_SERVICE_WEB_METRICS_H
#define PRN_SERVICE_WEB_METRICS_H

#include "base/buffer.h"

#define PRN_METERS_MAX 256

struct prn_metrics;
struct prn_metric;
struct prn_meter;

struct prn_metrics *prn_metrics_new(void);
void prn_metrics_free(struct prn_metrics *metrics); /* NULL does nothing */

/* Texts are constants; labels may be NULL. A metric of a name that is there already is returned.
 * Metrics without labels have their one meter from the beginning. */
struct prn_metric *prn_metrics_counter(struct prn_metrics *metrics, const char *name,
                                       const char *help, const char *label1, const char *label2);
struct prn_metric *prn_metrics_gauge(struct prn_metrics *metrics, const char *name,
                                     const char *help, const char *label1, const char *label2);
/* Of values in base units; `bounds` are constants, rising, and a last one, infinity, is added. */
struct prn_metric *prn_metrics_histogram(struct prn_metrics *metrics, const char *name,
                                         const char *help, const double *bounds, size_t n,
                                         const char *label1, const char *label2);
/* Values are copied; NULL where there is no label. */
struct prn_meter *prn_metric_meter(struct prn_metric *metric, const char *value1,
                                   const char *value2);

void prn_meter_add(struct prn_meter *meter, double amount); /* counters and gauges */
void prn_meter_set(struct prn_meter *meter, double value);  /* gauges */

void prn_meter_observe(struct prn_meter *meter, double value); /* histograms */

double prn_meter_value(const struct prn_meter *meter);

/* Called at the beginning of each prn_metrics_write(), to set gauges. */
void prn_metrics_on_write(struct prn_metrics *metrics, void (*collect)(void *context),
                          void *context);

/* Appends the text exposition, version 0.0.4. */
void prn_metrics_write(struct prn_metrics *metrics, struct prn_buffer *out);

#endif
