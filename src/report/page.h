/*
 * Reports as a page: one file of HTML that holds its program, its style and its data, and asks
 * nobody for anything. web/ has the program; the build bundles it into `prn_web` (web.h). The data
 * are the reports' own JSON, with what is too much for a picture thinned (thin.h), and beside each
 * a "view": what the text report says of it, and figures that follow from samples.
 *
 *     struct prn_page page = PRN_PAGE_INIT;
 *     int code = prn_page_add_profile(&page, "resnet50.json", profile, err);
 *     if (code == 0)
 *         code = prn_page_write(&page, &out, err);
 *     prn_page_release(&page);
 *
 * Names are hostile: the JSON has no '<', '>' and '&', so nothing in it ends the element that it
 * stands in, and the program shows texts as texts.
 */
#ifndef PRN_REPORT_PAGE_H
#define PRN_REPORT_PAGE_H

#include "base/buffer.h"
#include "report/look.h"

struct prn_profile;
struct prn_timeline;
struct prn_trace_report;

/* Rows of a table that is sorted by what matters; more are counted. */
#define PRN_PAGE_ROWS_MAX 2000
/* Points of a curve over samples: of one result, and of all together. */
#define PRN_PAGE_SAMPLES_MAX 4000
#define PRN_PAGE_SAMPLES_ALL_MAX 40000
#define PRN_PAGE_BINS 48
#define PRN_PAGE_ECDF 300 /* points of a cumulative distribution, the tail's aside */

#define PRN_PAGE_MAX ((size_t)256 << 20)

struct prn_page {
    struct prn_buffer reports; /* members of a JSON array */
};

/* Of the text report on a page. */
#define PRN_PAGE_TEXT_WIDTH 120

#define PRN_PAGE_INIT ((struct prn_page){PRN_BUFFER_INIT(PRN_PAGE_MAX)})
void prn_page_release(struct prn_page *page);

/* Fails when this prony was built without web/: before long work. */
PRONY_MUST_CHECK int prn_page_check(struct prony_error *err);

/* What the page may do, as a server has to say it (Content-Security-Policy). */
const char *prn_page_policy(void);

/* `name` is what it is called, for example the file that it was read from. */
PRONY_MUST_CHECK int prn_page_add_profile(struct prn_page *page, const char *name,
                                          const struct prn_profile *profile,
                                          struct prony_error *err);

/* Any report as JSON; `text` is the same for people, NULL: there is none. */
PRONY_MUST_CHECK int prn_page_add_json(struct prn_page *page, const char *name, const char *json,
                                       size_t len, const char *text, struct prony_error *err);

/* A timeline may be NULL. */
PRONY_MUST_CHECK int prn_page_add_trace(struct prn_page *page,
                                        const struct prn_trace_report *report,
                                        struct prn_timeline *timeline, struct prony_error *err);

/* All reports of a page that was written before. */
PRONY_MUST_CHECK int prn_page_add_html(struct prn_page *page, const char *name, const char *html,
                                       size_t len, struct prony_error *err);

PRONY_MUST_CHECK int prn_page_write(const struct prn_page *page, struct prn_buffer *out,
                                    struct prony_error *err);

/* The same of a report that `write` makes JSON and text of. */
typedef int prn_page_writer(const void *report, bool json, struct prn_buffer *out,
                            struct prony_error *err);
PRONY_MUST_CHECK int prn_page_add_report(struct prn_page *page, prn_page_writer *write,
                                         const void *report, struct prony_error *err);

/* Of two traces: with a timeline of each. */
PRONY_MUST_CHECK int prn_page_add_traces(struct prn_page *page, prn_page_writer *write,
                                         const void *report,
                                         struct prn_timeline *const timelines[2],
                                         struct prony_error *err);

/* One report alone. */
PRONY_MUST_CHECK int prn_page_of_report(prn_page_writer *write, const void *report,
                                        struct prn_buffer *out, struct prony_error *err);
PRONY_MUST_CHECK int prn_page_of_profile(const struct prn_profile *profile, struct prn_buffer *out,
                                         struct prony_error *err);

/* ---- Used inside src/report only ---- */

/* What a profile's page says beside its JSON, as a JSON object. */
PRONY_MUST_CHECK int prn_page_profile_view(const struct prn_profile *profile,
                                           struct prn_buffer *out, struct prony_error *err);

#endif
