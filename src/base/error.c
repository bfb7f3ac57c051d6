#include "base/error.h"

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

/* Makes a message safe for a terminal and a log: one line, no control characters. */
static void sanitise(char *text)
{
    for (unsigned char *p = (unsigned char *)text; *p; p++)
        if (*p < 0x20 || *p == 0x7f)
            *p = *p == '\n' || *p == '\t' ? ' ' : '?';
    for (size_t n = strlen(text); n > 0 && text[n - 1] == ' '; n--)
        text[n - 1] = '\0';
}

static void fill(struct prony_error *err, int code, const char *format, va_list args)
{
    int n = vsnprintf(err->text, sizeof err->text, format, args);
    if (n < 0)
        snprintf(err->text, sizeof err->text, "%s", prony_error_text(code));
    else if ((size_t)n >= sizeof err->text)
        memcpy(err->text + sizeof err->text - 4, "...", 4);
    sanitise(err->text);
    err->code = code;
}

int prn_fail(struct prony_error *err, int code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        fill(err, code, format, args);
        va_end(args);
    }
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
