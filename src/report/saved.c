#include "report/saved.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

const struct prn_saved prn_saved[PRN_SAVED_COUNT] = {
#define PRN_X(kind, text, command, schema) [PRN_SAVED_##kind] = {text, command, schema},
    PRN_SAVED_MAP(PRN_X)
#undef PRN_X
};

static bool begins(const char *head, size_t length, const char *with)
{
    return length >= strlen(with) && memcmp(head, with, strlen(with)) == 0;
}

/* The value of the first "schema" in the head of a JSON object. */
static enum prn_saved_kind kind_by_schema(const char *head, size_t length)
{
    static const char key[] = "\"schema\"";
    const char *at = memmem(head, length, key, strlen(key));
    if (!at)
        return PRN_SAVED_UNKNOWN;
    const char *end = head + length;
    at += strlen(key);
    while (at < end && (isspace((unsigned char)*at) || *at == ':'))
        at++;
    for (int kind = 0; at < end && *at == '"' && kind < PRN_SAVED_COUNT; kind++)
        if (prn_saved[kind].schema &&
            begins(at + 1, (size_t)(end - at - 1), prn_saved[kind].schema))
            return (enum prn_saved_kind)kind;
    return PRN_SAVED_UNKNOWN;
}

enum prn_saved_kind prn_saved_kind_of(const char *head, size_t length)
{
    size_t at = begins(head, length, "\xef\xbb\xbf") ? 3 : 0;
    while (at < length && isspace((unsigned char)head[at]))
        at++;
    const char first = at < length ? head[at] : '\0';
    if (length >= at + 6 && (strncasecmp(head + at, "<html", 5) == 0 ||
                             (length >= at + 14 && !strncasecmp(head + at, "<!doctype html", 14))))
        return PRN_SAVED_PAGE;
    /* A trace is an array of events, an object that has one, or compressed. */
    if (first == '[' || memmem(head, length, "\"traceEvents\"", 13) ||
        begins(head, length, "\x1f\x8b") || begins(head, length, "\x28\xb5\x2f\xfd"))
        return PRN_SAVED_TRACE;
    /* The first field of a model is its IR version, a small number. */
    if (length > 2 && head[0] == 8 && head[1] > 0 && head[1] < 32)
        return PRN_SAVED_MODEL;
    return first == '{' ? kind_by_schema(head, length) : PRN_SAVED_UNKNOWN;
}

/* The beginning of the file; 0: it can't be read, or isn't a regular file. */
static size_t read_head(const char *path, char head[PRN_SAVED_HEAD])
{
    struct stat status;
    /* Opening a pipe may wait, and reading it takes from whoever reads next. */
    if (stat(path, &status) < 0 || !S_ISREG(status.st_mode))
        return 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t length = read(fd, head, PRN_SAVED_HEAD);
    close(fd);
    return length < 0 ? 0 : (size_t)length;
}

enum prn_saved_kind prn_saved_kind_at(const char *path)
{
    char head[PRN_SAVED_HEAD];
    return prn_saved_kind_of(head, read_head(path, head));
}

enum prn_saved_kind prn_saved_proved_at(const char *path)
{
    char head[PRN_SAVED_HEAD];
    const size_t length = read_head(path, head);
    const enum prn_saved_kind kind = prn_saved_kind_of(head, length);
    const char *sign = kind == PRN_SAVED_TRACE ? "\"cat\"" : kind == PRN_SAVED_PAGE ? "prony" : "";
    return memmem(head, length, sign, strlen(sign)) ? kind : PRN_SAVED_UNKNOWN;
}
