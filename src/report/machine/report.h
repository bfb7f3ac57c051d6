/*
 * What a machine can do (measure/machine/machine.h), for people and for other programs: text,
 * Markdown, CSV, and JSON under the schema prony.machine/1 (docs/machine.md,
 * docs/prony.machine.schema.json), which reads back to the same record.
 */
#ifndef PRN_REPORT_MACHINE_REPORT_H
#define PRN_REPORT_MACHINE_REPORT_H

#include "measure/machine/machine.h"
#include "report/profile/report.h"

#define PRN_MACHINE_SCHEMA "prony.machine/1"
#define PRN_MACHINE_TEXT_MAX ((size_t)4 << 20)

/* Its table. As a part of other records it says no schema. */
extern const struct prn_schema prn_machine_schema, prn_machine_part_schema, prn_machine_row_schema;

/* There is no page: HTML is text. */
PRONY_MUST_CHECK int prn_machine_report(const struct prn_machine *machine,
                                        enum prn_report_format format, const struct prn_look *look,
                                        struct prn_buffer *out, struct prony_error *err);

/* `path` may be "-" for standard input. Everything belongs to `arena`. */
PRONY_MUST_CHECK int prn_machine_read_json(const char *path, struct prn_arena *arena,
                                           struct prn_machine *ret_machine,
                                           struct prony_error *err);

/* The first sentence: what it computes and reads per second with all of its cores. */
void prn_machine_verdict(const struct prn_machine *machine, struct prn_buffer *out);

/* "63.1 GFLOP/s", "24.1 GB/s", "126 GOP/s": a rate of a row. */
const char *prn_machine_rate_text(char text[64], const struct prn_machine_row *row);

#endif
