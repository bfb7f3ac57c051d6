/*
 * Layers as JSON: the report, "prony.layer-profile/1", of which a client reads back what it can't
 * know itself; one layer of it, which a host sends as soon as it is measured; and the order that
 * makes a host measure.
 */
#ifndef PRN_REPORT_LAYERS_JSON_H
#define PRN_REPORT_LAYERS_JSON_H

#include "format/schema.h"
#include "pipeline/layers/plan.h"

#define PRN_LAYERS_SCHEMA "prony.layer-profile/1"

/* The table of the report. */
extern const struct prn_schema prn_layers_schema;

PRONY_MUST_CHECK int prn_layers_write_json(const struct prn_layer_measurement *measurement,
                                           const struct prn_layer_profile *profile,
                                           struct prn_buffer *out, struct prony_error *err);

/* Reads the runtime, the CPU and the whole; the rest of the measurement is left as it is. Texts
 * belong to `arena`, as below. */
PRONY_MUST_CHECK int prn_layers_parse_json(const char *text, size_t len, struct prn_arena *arena,
                                           struct prn_layer_measurement *measurement,
                                           struct prony_error *err);

PRONY_MUST_CHECK int prn_layer_write_json(const struct prn_layer_entry *entry,
                                          const struct prn_layer_row *row, struct prn_buffer *out,
                                          struct prony_error *err);
PRONY_MUST_CHECK int prn_layer_parse_json(const char *text, size_t len, struct prn_arena *arena,
                                          struct prn_layer_entry *ret_entry,
                                          struct prn_layer_row *ret_row, struct prony_error *err);

PRONY_MUST_CHECK int prn_layer_order_write_json(const struct prn_layer_order *order,
                                                struct prn_buffer *out, struct prony_error *err);
PRONY_MUST_CHECK int prn_layer_order_parse_json(const char *text, struct prn_arena *arena,
                                                struct prn_layer_order *ret_order,
                                                struct prony_error *err);

#endif
