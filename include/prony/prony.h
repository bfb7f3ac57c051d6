/*
 * prony: measures what an inference workload takes and costs on a backend.
 *
 * Invariants
 * - A function that can fail returns 0 or a negative PRONY_E… code. Where a `struct prony_error`
 *   is taken it may be NULL; it is left untouched on success.
 * - Out-parameters are named `ret_…` and are written only on success.
 * - The library never prints, exits or aborts on input, and starts no threads.
 * - Strings are UTF-8 and end in NUL. `const` pointers are borrowed for the call only.
 *
 * Simple use
 *     struct prony_error err;
 *     printf("prony %s\n", prony_version());
 *     if (something(&err) < 0)
 *         fprintf(stderr, "%s\n", err.text);
 */
#ifndef PRONY_PRONY_H
#define PRONY_PRONY_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PRONY_VERSION_MAJOR 0
#define PRONY_VERSION_MINOR 1
#define PRONY_VERSION_PATCH 0

#define PRONY_API __attribute__((visibility("default")))
#define PRONY_MUST_CHECK __attribute__((warn_unused_result))

/* Every error of the library: name, number, text. */
#define PRONY_ERROR_MAP(X)                          \
    X(EUSAGE, -1, "invalid use")                    \
    X(ENOMEM, -2, "out of memory")                  \
    X(EIO, -3, "input or output failed")            \
    X(ENOENT, -4, "not found")                      \
    X(EFORMAT, -5, "malformed input")               \
    X(EUNSUPPORTED, -6, "not supported")            \
    X(ELIMIT, -7, "over a limit")                   \
    X(EUNAVAILABLE, -8, "backend unavailable")      \
    X(ERUNTIME, -9, "the inference runtime failed") \
    X(ECRASH, -10, "the executor process died")     \
    X(ETIMEDOUT, -11, "took too long")              \
    X(ECANCELED, -12, "cancelled")

enum prony_error_code {
    PRONY_OK = 0,
#define PRONY_X(name, number, text) PRONY_##name = number,
    PRONY_ERROR_MAP(PRONY_X)
#undef PRONY_X
};

#define PRONY_ERROR_TEXT_SIZE 512

struct prony_error {
    int code;                         /* one of PRONY_E… */
    char text[PRONY_ERROR_TEXT_SIZE]; /* one line for a person, without a final newline */
};

/* "1.2.3": the version of the library that runs, not of the header. */
PRONY_API const char *prony_version(void);

/* "PRONY_EIO" for PRONY_EIO, "PRONY_OK" for 0; never NULL. */
PRONY_API const char *prony_error_name(int code);

/* A short general text for a code; `struct prony_error` has the particular one. Never NULL. */
PRONY_API const char *prony_error_text(int code);

#ifdef __cplusplus
}
#endif
#endif
