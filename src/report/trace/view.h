/* A trace made ready for reports: rows in order, names as they are shown. */
#ifndef PRN_REPORT_TRACE_VIEW_H
#define PRN_REPORT_TRACE_VIEW_H

#include "format/json.h"
#include "report/prose.h"
#include "report/trace/report.h"

struct prn_trace_rows {
    const struct prn_trace_table *table;
    const struct prn_trace_group **groups; /* longest first */
    size_t n;                              /* all */
    size_t shown;                          /* the first ones */
    const char *const *names;              /* of kernels: demangled, of those shown */
};

/* One kernel under one operator with its shapes. */
struct prn_trace_mapping_row {
    const struct prn_trace_group *kernel;
    int64_t op_ns;                 /* of the operator's kernels, over all runs */
    double op_count, kernel_count; /* per run; all figures are whole sums, divided once */
    double kernel_average_us, kernel_total_us, op_us, op_average_us;
    double kernel_pct, op_pct;
};

struct prn_trace_report {
    const struct prn_trace *trace;
    struct prn_trace_report_options options;
    struct prn_trace_rows cpu, gpu;
    struct prn_trace_mapping_row *mapping;
    size_t n_mapping;
    struct prn_arena arena;
    const char *demangler_fault; /* NULL: none */
};

/* The name that a group is shown by: a node without "_kernel_time". Written into `out`. */
const char *prn_trace_node_name(const struct prn_symbol *symbol, struct prn_buffer *out);

/* Prose of the width that the options ask for. */
struct prn_prose prn_trace_prose(const struct prn_trace_report_options *options, bool markdown,
                                 struct prn_buffer *out);

/* What shows the columns that a table has no room for. */
#define PRN_TRACE_MORE "--format csv or a wider terminal"

/* The columns and cells of what CPU times are grouped by; `op_title` is the operator's in CSV. */
void prn_trace_key_columns(struct prn_table *t, unsigned by, bool exact, const char *op_title);
void prn_trace_key_cells(struct prn_table *t, unsigned by, const struct prn_trace_key *key);

/* The same for a GPU kernel that is shown as `name`. */
void prn_trace_kernel_columns(struct prn_table *t, const struct prn_trace_report_options *options,
                              bool exact);
void prn_trace_kernel_cells(struct prn_table *t, const struct prn_trace_report_options *options,
                            const char *name, const struct prn_trace_key *key);

/* The names of `n` kernels for people, in `arena`. If the demangler fails they are `names`, and
 * *ret_fault says why, in the arena too. */
PRONY_MUST_CHECK int prn_trace_demangle(const char *demangler, const char *const *names, size_t n,
                                        struct prn_arena *arena, const char *const **ret_names,
                                        const char **ret_fault, struct prony_error *err);

/* The same as members of a JSON object, with a kernel's dimensions; `scratch` is for the name. */
void prn_trace_key_members(struct prn_json_writer *w, const struct prn_trace_key *key,
                           struct prn_buffer *scratch);

/* The CPU or GPU table. */
PRONY_MUST_CHECK int prn_trace_rows_write(const struct prn_trace_report *r,
                                          const struct prn_trace_rows *rows,
                                          enum prn_table_style style, struct prn_buffer *out,
                                          struct prony_error *err);
PRONY_MUST_CHECK int prn_trace_mapping_write(const struct prn_trace_report *r,
                                             enum prn_table_style style, struct prn_buffer *out,
                                             struct prony_error *err);
PRONY_MUST_CHECK int prn_trace_ledger_write(const struct prn_trace_report *r,
                                            enum prn_table_style style, struct prn_buffer *out,
                                            struct prony_error *err);

/* Memory: of groups as a record, the trace's own as JSON, all as text. Nothing is written of a
 * trace that doesn't tell. */
extern const struct prn_schema prn_trace_use_schema;
PRONY_MUST_CHECK int prn_trace_memory_json(struct prn_json_writer *w, const struct prn_trace *t,
                                           struct prony_error *err);
PRONY_MUST_CHECK int prn_trace_memory_text(const struct prn_trace_report *r, bool markdown,
                                           struct prn_buffer *out, struct prony_error *err);

/* The memory of two traces, as far as both tell. */
PRONY_MUST_CHECK int prn_trace_memory_compare_text(const struct prn_trace_comparison *c,
                                                   const struct prn_trace *a,
                                                   const struct prn_trace *b,
                                                   const struct prn_trace_report_options *options,
                                                   bool markdown, struct prn_buffer *out,
                                                   struct prony_error *err);
void prn_trace_memory_compare_json(struct prn_json_writer *w, const struct prn_trace_comparison *c,
                                   const struct prn_trace *a, const struct prn_trace *b,
                                   struct prn_buffer *scratch);

/* Appends the verdict. */
PRONY_MUST_CHECK int prn_trace_verdict(const struct prn_trace_report *r, struct prn_buffer *out,
                                       struct prony_error *err);

/* Text and Markdown, and JSON: each the whole report. */
PRONY_MUST_CHECK int prn_trace_text_write(const struct prn_trace_report *r, bool markdown,
                                          struct prn_buffer *out, struct prony_error *err);
PRONY_MUST_CHECK int prn_trace_json_write(const struct prn_trace_report *r, struct prn_buffer *out,
                                          struct prony_error *err);

#endif
