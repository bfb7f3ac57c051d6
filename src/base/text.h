/*
 * UTF-8 text of unknown origin: names in models, files and arguments may hold anything.
 */
#ifndef PRN_BASE_TEXT_H
#define PRN_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

/* Length in bytes of the valid UTF-8 sequence at `text`, which ends in NUL; 0 when the bytes aren't
 * UTF-8. The NUL itself has length 1. */
size_t prn_utf8_length(const char *text);

/* Whether the sequence at `text` is fit for a terminal: valid and not a control character (C0, DEL,
 * or C1, which some terminals obey too). */
bool prn_utf8_printable(const char *text);

#endif
