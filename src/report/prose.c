#include "report/prose.h"

#include "base/text.h"

#include <string.h>

struct prn_prose prn_prose_init(const struct prn_look *look, struct prn_buffer *out)
{
    struct prn_prose p = {
        .look = *look, .markdown = look->markdown, .line = PRN_BUFFER_INIT(out->limit), .out = out};
    if (p.look.width == 0)
        p.look.width = PRN_LOOK_WIDTH;
    if (p.look.width < PRN_LOOK_WIDTH_MIN)
        p.look.width = PRN_LOOK_WIDTH_MIN;
    return p;
}

void prn_prose_release(struct prn_prose *p)
{
    prn_buffer_release(&p->line);
}

void prn_prose_pass_error(struct prn_prose *p, const struct prn_buffer *part)
{
    if (part->error && !p->out->error)
        p->out->error = part->error;
}

void prn_prose_flush(struct prn_prose *p, size_t indent)
{
    struct prn_buffer clean = PRN_BUFFER_INIT(p->out->limit);
    prn_text_clean(&clean, prn_buffer_text(&p->line));
    if (p->markdown) {
        prn_buffer_add(p->out, "- ");
        prn_markdown_text(p->out, prn_buffer_text(&clean));
        prn_buffer_add_char(p->out, '\n');
    } else {
        prn_buffer_printf(p->out, "%*s", (int)indent, "");
        prn_text_wrap(p->out, prn_buffer_text(&clean), indent, indent + 2, p->look.width);
    }
    prn_prose_pass_error(p, &p->line);
    prn_prose_pass_error(p, &clean);
    prn_buffer_release(&clean);
    prn_buffer_clear(&p->line);
}

void prn_prose_verdict(struct prn_prose *p)
{
    struct prn_buffer clean = PRN_BUFFER_INIT(p->out->limit);
    if (!p->markdown) {
        size_t start = p->out->len;
        prn_prose_flush(p, 0);
        prn_paint(&p->look, PRN_PAINT_BOLD, p->out, start);
        return;
    }
    prn_text_clean(&clean, prn_buffer_text(&p->line));
    prn_buffer_add(p->out, "**");
    prn_markdown_text(p->out, prn_buffer_text(&clean));
    prn_buffer_add(p->out, "**\n");
    prn_prose_pass_error(p, &p->line);
    prn_prose_pass_error(p, &clean);
    prn_buffer_release(&clean);
    prn_buffer_clear(&p->line);
}

void prn_prose_warning(struct prn_prose *p)
{
    struct prn_buffer line = PRN_BUFFER_INIT(p->out->limit);
    size_t start = p->out->len;
    prn_buffer_printf(&line, "%s%s", p->markdown ? "" : "! ", prn_buffer_text(&p->line));
    prn_prose_pass_error(p, &p->line);
    prn_prose_pass_error(p, &line);
    prn_buffer_release(&p->line);
    p->line = line;
    prn_prose_flush(p, 0);
    if (!p->markdown)
        prn_paint(&p->look, PRN_PAINT_WARNING, p->out, start);
}

void prn_paint(const struct prn_look *look, enum prn_paint paint, struct prn_buffer *out,
               size_t start)
{
    static const char *const codes[] = {
        [PRN_PAINT_BOLD] = "1", [PRN_PAINT_GOOD] = "32", [PRN_PAINT_WARNING] = "33"};
    if (!look->colour || out->error || out->len <= start)
        return;
    struct prn_buffer plain = PRN_BUFFER_INIT(out->limit);
    prn_buffer_append(&plain, out->data + start, out->len - start);
    out->len = start;
    for (const char *p = prn_buffer_text(&plain); *p;) {
        size_t len = strcspn(p, "\n");
        if (len > 0) {
            prn_buffer_printf(out, "\033[%sm", codes[paint]);
            prn_buffer_append(out, p, len);
            prn_buffer_add(out, "\033[0m");
        }
        p += len;
        if (*p) {
            prn_buffer_add_char(out, '\n');
            p++;
        }
    }
    if (plain.error)
        out->error = plain.error;
    prn_buffer_release(&plain);
}

void prn_prose_paragraph(struct prn_prose *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    prn_buffer_vprintf(&p->line, format, args);
    va_end(args);
    prn_prose_flush(p, 0);
}

static bool is_word(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

void prn_markdown_text(struct prn_buffer *out, const char *text)
{
    for (const char *p = text; *p; p++) {
        bool inside_word = p > text && is_word(p[-1]) && is_word(p[1]);
        bool link = *p == '(' && p > text && p[-1] == ']';
        if (strchr("\\`*~", *p) || link || (*p == '_' && !inside_word))
            prn_buffer_add_char(out, '\\');
        if (*p == '<')
            prn_buffer_add(out, "&lt;");
        else if (*p == '&')
            prn_buffer_add(out, "&amp;");
        else
            prn_buffer_add_char(out, *p);
    }
}

static void write_heading(struct prn_prose *p)
{
    struct prn_buffer clean = PRN_BUFFER_INIT(p->out->limit);
    prn_text_clean(&clean, prn_buffer_text(&p->line));
    prn_buffer_add(p->out, p->markdown ? "\n## " : "\n");
    if (p->markdown)
        prn_markdown_text(p->out, prn_buffer_text(&clean));
    else
        prn_text_wrap(p->out, prn_buffer_text(&clean), 0, 2, p->look.width);
    prn_buffer_add(p->out, p->markdown ? "\n\n" : "\n");
    prn_prose_pass_error(p, &p->line);
    prn_prose_pass_error(p, &clean);
    prn_buffer_release(&clean);
    prn_buffer_clear(&p->line);
}

void prn_prose_heading(struct prn_prose *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    prn_buffer_vprintf(&p->line, format, args);
    va_end(args);
    write_heading(p);
}

void prn_heading(struct prn_buffer *out, bool markdown, const char *format, ...)
{
    struct prn_prose p = prn_prose_init(&(struct prn_look){.markdown = markdown}, out);
    va_list args;
    va_start(args, format);
    prn_buffer_vprintf(&p.line, format, args);
    va_end(args);
    write_heading(&p);
    prn_prose_release(&p);
}
