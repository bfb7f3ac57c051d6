/* The headers that cmocka wants before its own, and small helpers that the unit tests share. */
#ifndef PRN_TESTS_UNIT_H
#define PRN_TESTS_UNIT_H

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* A path in tests/data, to which the folder of the tests has a link; good until the next call. */
static inline const char *unit_data(const char *name)
{
    static char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(n > 0);
    path[n] = '\0';
    char *end = strrchr(path, '/');
    snprintf(end, sizeof path - (size_t)(end - path), "/../data/%s", name);
    return path;
}

/* How many descriptors are open, for tests that look for lost ones. */
static inline int unit_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    int count = 0;
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

#define assert_near(actual, expected, tolerance)                                      \
    do {                                                                              \
        double near_a = (actual), near_b = (expected), near_t = (tolerance);          \
        if (!(fabs(near_a - near_b) <= near_t))                                       \
            fail_msg("%s is %.17g, not %.17g ± %g", #actual, near_a, near_b, near_t); \
    } while (0)

#define assert_contains(text, part)                              \
    do {                                                         \
        const char *contains_t = (text);                         \
        if (!strstr(contains_t, (part)))                         \
            fail_msg("'%s' is not in '%s'", (part), contains_t); \
    } while (0)

#endif
