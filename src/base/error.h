/*
 * Errors inside the library. A failing function fills a `struct prony_error` once, where the fault
 * is known, and everybody above passes the code on; prn_fail_in() may put a subject in front.
 */
#ifndef PRN_BASE_ERROR_H
#define PRN_BASE_ERROR_H

#include <prony/prony.h>

#include <stdarg.h>

#define PRN_PRINTF(text, first) __attribute__((format(printf, text, first)))
#define PRN_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

/* Fills `err` (if any) and returns `code`. Control characters and bytes that aren't UTF-8 are
 * replaced, so that hostile names in a message can't move the cursor; text that is too long ends in
 * "...". */
int prn_fail(struct prony_error *err, int code, const char *format, ...) PRN_PRINTF(3, 4);

int prn_vfail(struct prony_error *err, int code, const char *format, va_list args) PRN_PRINTF(3, 0);

/* "cannot VERB 'subject': strerror(error_number)"; ENOENT and ENOMEM keep their own codes. */
int prn_fail_errno(struct prony_error *err, int error_number, const char *verb,
                   const char *subject);

/* Out of memory, always with the same words. */
int prn_fail_memory(struct prony_error *err);

/* Puts "format: " in front of the text that `err` has already, and returns `code`. */
int prn_fail_in(struct prony_error *err, int code, const char *format, ...) PRN_PRINTF(3, 4);

/* A static analyser that sees one file at a time has to be told that a failure isn't 0. */
#if defined(__clang_analyzer__) && !defined(PRN_BASE_ERROR_C)
#define prn_fail(err, code, ...) ((void)(prn_fail)((err), (code), __VA_ARGS__), (code))
#define prn_fail_in(err, code, ...) ((void)(prn_fail_in)((err), (code), __VA_ARGS__), (code))
#define prn_fail_errno(...) ((void)(prn_fail_errno)(__VA_ARGS__), PRONY_EIO)
#define prn_fail_memory(err) ((void)(prn_fail_memory)(err), PRONY_ENOMEM)
#endif

#endif
