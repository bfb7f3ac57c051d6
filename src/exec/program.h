/*
 * Which program runs `prony executor`. prony itself runs itself; a program that only links libprony
 * has to find prony: where the caller says, where PRONY_PROGRAM says, beside or in the same prefix
 * as the library, on PATH.
 */
#ifndef PRN_EXEC_PROGRAM_H
#define PRN_EXEC_PROGRAM_H

#include "base/error.h"

#include <limits.h>

/* `wanted`: what the caller says; NULL: nothing. PRONY_EUNAVAILABLE names what is missing. */
PRONY_MUST_CHECK int prn_program_find(const char *wanted, char ret_path[PATH_MAX],
                                      struct prony_error *err);

#endif
