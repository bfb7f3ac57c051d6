/*
 * UTF-8 text of unknown origin: names in models, files and arguments may hold anything. Patterns
 * for such names. And lines of prose.
 */
#ifndef PRN_BASE_TEXT_H
#define PRN_BASE_TEXT_H

#include "base/buffer.h"

/* Number of characters (code points) of a UTF-8 text; bytes that aren't UTF-8 count one each. */
size_t prn_text_width(const char *text);

/* Length in bytes of the valid UTF-8 sequence at `text`, which ends in NUL; 0 when the bytes aren't
 * UTF-8. The NUL itself has length 1. */
size_t prn_utf8_length(const char *text);

/* Whether the sequence at `text` is fit for a terminal: valid and not a control character (C0, DEL,
 * or C1, which some terminals obey too). */
bool prn_utf8_printable(const char *text);

/* The bytes in lower-case hexadecimal digits, and a NUL: 2 * n + 1 characters. */
void prn_text_hex(const void *bytes, size_t n, char *ret_digits);

/* Whether a text is fit for a name: something in it, UTF-8, no control characters. */
bool prn_text_is_name(const char *text);

/* What a file is, as "a ZIP archive" or "text", when its first bytes tell; else NULL. */
const char *prn_file_kind(const void *data, size_t len);

/* Appends text as one line for a terminal: newlines and tabs become spaces; what isn't printable,
 * and the U+FFFD that stands for such bytes in JSON, become '?'. */
void prn_text_clean(struct prn_buffer *out, const char *text);

/* Appends text, with its middle replaced by "…" where it is over `width` characters. */
void prn_text_shorten(struct prn_buffer *out, const char *text, size_t width);

/* Appends the words of one paragraph, breaking lines before `width` characters; a word is cut
 * only where it is longer than a line. The first line goes on at `column`, the others are indented
 * by `indent`. Returns where the paragraph ended: at a newline or the end of the text. */
const char *prn_text_wrap(struct prn_buffer *out, const char *text, size_t column, size_t indent,
                          size_t width);

/* Of the words, the one that `word` was probably meant to be: nearest in letters that are wrong,
 * missing, too many or swapped, and near enough; NULL: none. NULL words are passed over. */
const char *prn_text_nearest(const char *word, const char *const *words, size_t n);

/* Whether all of the text matches the pattern: `*` stands for any characters, `?` for one, `[seq]`
 * for one of the sequence and `[!seq]` for one that isn't in it, both with ranges like a-z; upper
 * and lower case differ. A `]` right behind the opening is part of the sequence, and a `[` that
 * nothing closes is itself. Nothing is an escape; `[*]` stands for a star. A byte that isn't UTF-8
 * is a character. Time is at most proportional to the product of the lengths. */
bool prn_text_glob(const char *pattern, const char *text);

#endif
