#define PRN_BASE_ERROR_C
#include "base/error.h"
#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *prony_error_name(int code)
{
    switch (code) {
#define PRONY_X(name, number, text) \
    case number:                    \
        return "PRONY_" #name;
        PRONY_ERROR_MAP(PRONY_X)
#undef PRONY_X
    default:
        return code == 0 ? "PRONY_OK" : "PRONY_EUNKNOWN";
    }
}

const char *prony_error_text(int code)
{
    switch (code) {
#define PRONY_X(name, number, text) \
    case number:                    \
        return text;
        PRONY_ERROR_MAP(PRONY_X)
#undef PRONY_X
    default:
        return code == 0 ? "success" : "unknown error";
    }
}

/* Makes a message safe for a terminal and a log: one line of valid UTF-8 without control
 * characters. */
static void sanitise(char *text)
{
    char *out = text;
    for (const char *p = text; *p;) {
        size_t n = prn_utf8_length(p);
        if (prn_utf8_printable(p)) {
            memmove(out, p, n);
            out += n;
        } else {
            *out++ = *p == '\n' || *p == '\t' ? ' ' : '?';
        }
        p += n ? n : 1;
    }
    while (out > text && out[-1] == ' ')
        out--;
    *out = '\0';
}

/* Ends a text that fills its buffer in "...", without leaving half a character before it. */
static void mark_cut(char *text, size_t size)
{
    size_t at = size - sizeof "...";
    while (at > 0 && (text[at] & 0xc0) == 0x80)
        at--;
    memcpy(text + at, "...", sizeof "...");
}

int prn_vfail(struct prony_error *err, int code, const char *format, va_list args)
{
    if (err) {
        int n = vsnprintf(err->text, sizeof err->text, format, args);
        if (n < 0)
            snprintf(err->text, sizeof err->text, "%s", prony_error_text(code));
        else if ((size_t)n >= sizeof err->text)
            mark_cut(err->text, sizeof err->text);
        sanitise(err->text);
        err->code = code;
    }
    return code;
}

int prn_fail(struct prony_error *err, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    prn_vfail(err, code, format, args);
    va_end(args);
    return code;
}

int prn_fail_errno(struct prony_error *err, int error_number, const char *verb, const char *subject)
{
    int code = error_number == ENOENT   ? PRONY_ENOENT
               : error_number == ENOMEM ? PRONY_ENOMEM
                                        : PRONY_EIO;
    return prn_fail(err, code, "cannot %s '%s': %s", verb, subject, strerror(error_number));
}

int prn_fail_memory(struct prony_error *err)
{
    return prn_fail(err, PRONY_ENOMEM, "out of memory");
}

int prn_fail_in(struct prony_error *err, int code, const char *format, ...)
{
    if (err) {
        char inner[PRONY_ERROR_TEXT_SIZE];
        memcpy(inner, err->text, sizeof inner);
        char prefix[PRONY_ERROR_TEXT_SIZE];
        va_list args;
        va_start(args, format);
        vsnprintf(prefix, sizeof prefix, format, args);
        va_end(args);
        return prn_fail(err, code, "%s: %s", prefix, inner);
    }
    return code;
}
