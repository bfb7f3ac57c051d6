/*
 * Torture: every allocation of an operation fails in turn, once alone and once together with all
 * that come after it. Each time the operation has to report PRONY_ENOMEM, leave its out-parameters
 * alone, and free what it had (AddressSanitizer watches). A program that includes this is linked
 * with --wrap for malloc and its kin (CMakeLists.txt).
 */
#ifndef PRN_TESTS_TORTURE_H
#define PRN_TESTS_TORTURE_H

#include "unit.h"

#include <prony/prony.h>

#include <stdbool.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void *__wrap_reallocarray(void *old, size_t count, size_t size);
char *__wrap_strdup(const char *text);

static struct {
    bool armed;
    bool lasting; /* all after the first fail too */
    size_t fail_at;
    size_t count;
} torture;

static bool refuse(void)
{
    if (!torture.armed)
        return false;
    torture.count++;
    return torture.lasting ? torture.count >= torture.fail_at : torture.count == torture.fail_at;
}

void *__wrap_malloc(size_t size)
{
    return refuse() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return refuse() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return refuse() ? NULL : __real_realloc(old, size);
}

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
    return refuse() ? NULL : __real_reallocarray(old, count, size);
}

char *__wrap_strdup(const char *text)
{
    return refuse() ? NULL : __real_strdup(text);
}

/* Runs the operation until no allocation of it is left to fail. A failure may also end in
 * `tolerated`: PRONY_OK where the operation can do without, or what a foreign library says. */
static void torment(int (*operation)(struct prony_error *err), int tolerated)
{
    for (int lasting = 0; lasting < 2; lasting++) {
        for (size_t n = 1;; n++) {
            struct prony_error err = {.code = 1, .text = "untouched"};
            torture.lasting = lasting;
            torture.fail_at = n;
            torture.count = 0;
            torture.armed = true;
            int code = operation(&err);
            torture.armed = false;
            if (torture.count < n) {
                assert_int_equal(code, 0);
                assert_string_equal(err.text, "untouched");
                assert_in_range(n, 2, 100000); /* it did allocate */
                break;
            }
            bool reported = code == PRONY_ENOMEM && err.code == PRONY_ENOMEM;
            if (!reported && code != tolerated)
                fail_msg("allocation %zu%s: %s, '%s'", n, lasting ? " and later" : "",
                         prony_error_name(code), err.text);
        }
    }
}

#endif
