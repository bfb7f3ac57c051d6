#include "base/text.h"

#include <string.h>

size_t prn_utf8_length(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    /* Longer than needed, a surrogate, or beyond U+10FFFF. */
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

bool prn_utf8_printable(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x20 || p[0] == 0x7f)
        return false;
    return prn_utf8_length(text) > 0 && !(p[0] == 0xc2 && p[1] < 0xa0);
}

void prn_text_clean(struct prn_buffer *out, const char *text)
{
    while (*text) {
        size_t len = prn_utf8_length(text);
        if (*text == '\n' || *text == '\t')
            prn_buffer_add_char(out, ' ');
        else if (prn_utf8_printable(text) && strncmp(text, "\xef\xbf\xbd", 3) != 0)
            prn_buffer_append(out, text, len);
        else
            prn_buffer_add_char(out, '?');
        text += len ? len : 1;
    }
}

/* Characters, not bytes: continuation bytes don't count. */
static size_t characters(const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += (text[i] & 0xc0) != 0x80;
    return n;
}

const char *prn_text_wrap(struct prn_buffer *out, const char *text, size_t column, size_t indent,
                          size_t width)
{
    bool first = true;
    while (*text && *text != '\n') {
        size_t len = strcspn(text, " \n");
        size_t word = characters(text, len);
        if (!first && column + 1 + word > width) {
            prn_buffer_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            prn_buffer_add_char(out, ' ');
            column++;
        }
        prn_buffer_append(out, text, len);
        first = false;
        column += word;
        text += len;
        text += strspn(text, " ");
    }
    prn_buffer_add_char(out, '\n');
    return text;
}
