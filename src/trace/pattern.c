#include "trace/pattern.h"

/* Where the value at `at` ends, if it is like the pattern; else NULL. A piece begins with a byte
 * that can't go on with a number, and numbers are plain digits, so nothing else needs a look. */
static const char *match(const struct prn_pattern *pattern, const char *at, const char *end)
{
    for (size_t i = 0; i < pattern->n; i++) {
        size_t len = (size_t)(pattern->begin[i + 1] - pattern->begin[i]);
        if ((size_t)(end - at) < len || !prn_scan_same(at, pattern->text + pattern->begin[i], len))
            return NULL;
        at += len;
        if (i + 1 == pattern->n)
            break;
        if (!prn_scan_is_digit(*at) || (*at == '0' && prn_scan_is_digit(at[1])))
            return NULL;
        while (prn_scan_is_digit(*at))
            at++;
    }
    return at;
}

/* Remembers the valid value from `at` to `end`, unless it is too long. */
static void remember(struct prn_pattern *pattern, const char *at, const char *end)
{
    size_t len = 0;
    bool quoted = false;
    *pattern = (struct prn_pattern){0};
    for (const char *p = at; p < end; p++) {
        if (*p == '"')
            quoted = !quoted;
        /* Escapes and signs are rare here: not worth a pattern. */
        if (*p == '\\' || (*p == '-' && !quoted) || len == PRN_PATTERN_BYTES ||
            pattern->n == PRN_PATTERN_PIECES) {
            pattern->n = 0;
            return;
        }
        if (quoted || !prn_scan_is_digit(*p)) {
            pattern->text[len++] = *p;
            continue;
        }
        while (prn_scan_is_digit(p[1]))
            p++;
        /* A fraction or an exponent, or digits that begin the value, would be a piece that may go
         * on with a number. */
        if (p[1] == '.' || p[1] == 'e' || p[1] == 'E' || len == 0) {
            pattern->n = 0;
            return;
        }
        pattern->begin[++pattern->n] = (unsigned short)len;
    }
    pattern->begin[++pattern->n] = (unsigned short)len;
}

bool prn_patterns_scan(struct prn_patterns *p, struct prn_scan *s)
{
    for (size_t i = 0; i < PRN_PATTERNS; i++) {
        const char *end = p->items[i].n > 0 ? match(&p->items[i], s->at, s->end) : NULL;
        if (end) {
            s->at = end;
            return true;
        }
    }
    const char *begin = s->at;
    if (!prn_scan_value(s))
        return false;
    remember(&p->items[p->next], begin, s->at);
    p->next = (p->next + 1) % PRN_PATTERNS;
    return true;
}
