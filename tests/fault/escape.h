/* Attempts to get out of the sandbox, or to do harm from inside it. */
#ifndef PRN_TESTS_ESCAPE_H
#define PRN_TESTS_ESCAPE_H

/* Tries the attempt of that name and says on standard error what came of it, "escape NAME: done" or
 * "escape NAME: denied (why)". What `target` is depends on the attempt. 0 when it was done. */
int escape_try(const char *name, const char *target);

#endif
