/* Names that are too long for a table or a sentence, shortened to what tells them apart. Used
 * inside src/report only. */
#ifndef PRN_REPORT_NAMES_H
#define PRN_REPORT_NAMES_H

#include "base/arena.h"
#include "base/error.h"

/* Makes names of at most `width` characters, at least 8: what fits stays as it is; what the long
 * ones have in common at both ends becomes "…", then the middle of what is left; names that would
 * be alike end in a number. No two names of `full` that differ become equal. */
PRONY_MUST_CHECK int prn_names_shorten(const char *const *full, size_t n, size_t width,
                                       struct prn_arena *arena, const char **ret_short);

#endif
