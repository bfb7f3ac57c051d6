/*
 * What a trace says, for people and programs: text, Markdown, CSV, JSON. Text rounds and shortens;
 * CSV and JSON have every digit.
 */
#ifndef PRN_REPORT_TRACE_REPORT_H
#define PRN_REPORT_TRACE_REPORT_H

#include "base/table.h"
#include "trace/compare.h"

/* JSON lists the runs of a trace that has no more than this. */
#define PRN_TRACE_RUNS_LISTED 10000

#define PRN_TRACE_REPORT_MAX ((size_t)1 << 30)

enum prn_trace_format {
    PRN_TRACE_FORMAT_TEXT,
    PRN_TRACE_FORMAT_JSON,
    PRN_TRACE_FORMAT_CSV,
    PRN_TRACE_FORMAT_MD,
    PRN_TRACE_FORMAT_PERFETTO,
    PRN_TRACE_FORMAT_HTML, /* page.h makes it */
};

/* Their names, ending in NULL. */
extern const char *const prn_trace_formats[];

struct prn_trace_report_options {
    size_t count; /* rows of a table, at most */
    size_t width; /* of a text table; 0: no limit */
    bool kernel_shapes, kernel_dimensions, mapping;
    const char *demangler; /* NULL: kernel names stay as they are */
};

/* view.c chooses the rows; text.c, table.c and json.c write them. */
struct prn_trace_report;

/* Sorts and demangles. `trace` is borrowed. */
PRONY_MUST_CHECK int prn_trace_report_new(const struct prn_trace *trace,
                                          const struct prn_trace_report_options *options,
                                          struct prn_trace_report **ret_report,
                                          struct prony_error *err);
void prn_trace_report_free(struct prn_trace_report *r);

/* What a reader should know before believing the numbers: one call per sentence. Of a trace, and of
 * a report of it, which also says what became of kernel names. */
typedef void prn_trace_say(void *context, const char *sentence);
void prn_trace_warnings(const struct prn_trace *trace, prn_trace_say *say, void *context);
void prn_trace_report_warnings(const struct prn_trace_report *r, prn_trace_say *say, void *context);

PRONY_MUST_CHECK int prn_trace_report_write(const struct prn_trace_report *r,
                                            enum prn_trace_format format, struct prn_buffer *out,
                                            struct prony_error *err);

enum prn_trace_csv { PRN_TRACE_CSV_CPU, PRN_TRACE_CSV_GPU, PRN_TRACE_CSV_MAPPING };

/* One table, as profile_explorer.py names its columns, and more behind them. Nothing is written for
 * a table without rows. */
PRONY_MUST_CHECK int prn_trace_report_csv(const struct prn_trace_report *r,
                                          enum prn_trace_csv which, struct prn_buffer *out,
                                          struct prony_error *err);

struct prn_page;
struct prn_timeline;

/* Two traces side by side: not as HTML, or as a part of a page, where a timeline may be NULL. */
PRONY_MUST_CHECK int prn_trace_comparison_page(const struct prn_trace_comparison *c,
                                               const struct prn_trace *a, const struct prn_trace *b,
                                               const struct prn_trace_report_options *options,
                                               struct prn_timeline *const timelines[2],
                                               struct prn_page *page, struct prony_error *err);
PRONY_MUST_CHECK int prn_trace_comparison_write(const struct prn_trace_comparison *c,
                                                const struct prn_trace *a,
                                                const struct prn_trace *b,
                                                const struct prn_trace_report_options *options,
                                                enum prn_trace_format format,
                                                struct prn_buffer *out, struct prony_error *err);

/* Events as a trace that Perfetto's page opens: begin, each event, end. */
struct prn_perfetto;
PRONY_MUST_CHECK int prn_perfetto_new(int fd, const char *name, struct prn_perfetto **ret_perfetto,
                                      struct prony_error *err);
PRONY_MUST_CHECK int prn_perfetto_event(struct prn_perfetto *p, const struct prn_trace_event *event,
                                        uint64_t run, struct prony_error *err);
PRONY_MUST_CHECK int prn_perfetto_end(struct prn_perfetto *p, struct prony_error *err);
void prn_perfetto_free(struct prn_perfetto *p);

#endif
