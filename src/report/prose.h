/*
 * Sentences below and above tables: paragraphs that are wrapped lines in a text report and bullets
 * in a Markdown one. A paragraph is composed in `line` and ended by a flush; whatever it holds is
 * made safe to show.
 *
 *     struct prn_prose p = prn_prose_init(look, out);
 *     prn_buffer_printf(&p.line, "%s took ", name);
 *     prn_prose_paragraph(&p, "%d ms.", ms);
 *     prn_prose_release(&p);
 */
#ifndef PRN_REPORT_PROSE_H
#define PRN_REPORT_PROSE_H

#include "base/buffer.h"
#include "report/look.h"

#include <stdbool.h>

struct prn_prose {
    struct prn_look look;
    bool markdown;          /* as in `look` */
    struct prn_buffer line; /* the paragraph being composed */
    struct prn_buffer *out;
};

struct prn_prose prn_prose_init(const struct prn_look *look, struct prn_buffer *out);
void prn_prose_release(struct prn_prose *p);

/* Ends the paragraph that is in `line`; as text it begins at column `indent`. */
void prn_prose_flush(struct prn_prose *p, size_t indent);

/* Ends the paragraph that is in `line` as the verdict of a report: a paragraph of its own in both
 * styles, and emphasised in Markdown. */
void prn_prose_verdict(struct prn_prose *p);

/* Ends the paragraph that is in `line` as a warning: what limits trust, and what to do about it. */
void prn_prose_warning(struct prn_prose *p);

/* Adds to `line` and ends it. */
void prn_prose_paragraph(struct prn_prose *p, const char *format, ...) PRN_PRINTF(2, 3);

/* What didn't fit a part is missing from the whole: `out` gets the error of `part`. */
void prn_prose_pass_error(struct prn_prose *p, const struct prn_buffer *part);

/* A heading, between empty lines: of any length, or of a few words. */
void prn_prose_heading(struct prn_prose *p, const char *format, ...) PRN_PRINTF(2, 3);
void prn_heading(struct prn_buffer *out, bool markdown, const char *format, ...) PRN_PRINTF(3, 4);

/* Colours the lines that `out` has from `start` on, if the look has colours. */
enum prn_paint { PRN_PAINT_BOLD, PRN_PAINT_GOOD, PRN_PAINT_WARNING };
void prn_paint(const struct prn_look *look, enum prn_paint paint, struct prn_buffer *out,
               size_t start);

/* Appends text to Markdown so that it stays text. */
void prn_markdown_text(struct prn_buffer *out, const char *text);

#endif
