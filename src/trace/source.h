/*
 * Where the bytes of a trace come from: a file, standard input or memory, plain or compressed.
 *
 * - The encoding is told from the first bytes, whatever the name says: gzip, zstd, or else plain.
 * - Memory is bounded at any size of input: nothing beyond the struct for plain text, an input
 *   buffer of 128 KiB and the decoder's window (32 KiB for gzip, at most 32 MiB for zstd) for the
 *   rest. Plain files are read straight into the caller's buffer.
 * - Members of gzip and frames of zstd that stand one behind another are one stream.
 * - Damage doesn't swallow what came before it: those bytes are handed out first, then every read
 *   fails in the same way until prn_source_rewind().
 *
 *     struct prn_source *s;
 *     int code = prn_source_open(path, &s, err);
 *     ...
 *     while ((code = prn_source_read(s, buffer, sizeof buffer, &len, err)) == 0 && len > 0)
 *         use(buffer, len);
 *     prn_source_close(s);
 */
#ifndef PRN_TRACE_SOURCE_H
#define PRN_TRACE_SOURCE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prn_source;

/* `path` may be "-" for standard input, whose descriptor stays open in the end. A directory is an
 * error. Waits for the first bytes of a pipe, because they tell the encoding. */
PRONY_MUST_CHECK int prn_source_open(const char *path, struct prn_source **ret_source,
                                     struct prony_error *err);

/* From a descriptor, which is borrowed; `name` is for messages. */
PRONY_MUST_CHECK int prn_source_open_fd(int fd, const char *name, struct prn_source **ret_source,
                                        struct prony_error *err);

/* From memory, which is borrowed until the source is closed: plain or compressed. A `step` > 0
 * hands out at most that many bytes per read, and decodes as many at a time, so that a test can
 * split its input anywhere. */
PRONY_MUST_CHECK int prn_source_open_memory(const void *data, size_t len, size_t step,
                                            struct prn_source **ret_source,
                                            struct prony_error *err);

/* NULL does nothing. */
void prn_source_close(struct prn_source *s);

/* Up to `size` > 0 decoded bytes; *ret_len is 0 only at the end. A compressed stream that is cut or
 * damaged is PRONY_EFORMAT; one that needs more memory than is allowed, PRONY_ELIMIT. */
PRONY_MUST_CHECK int prn_source_read(struct prn_source *s, void *buffer, size_t size,
                                     size_t *ret_len, struct prony_error *err);

/* Whether it can be read again: a regular file or memory. */
bool prn_source_can_rewind(const struct prn_source *s);

/* Back to where reading began. Fails when the file has changed since it was opened, because who
 * reads twice relies on reading the same. */
PRONY_MUST_CHECK int prn_source_rewind(struct prn_source *s, struct prony_error *err);

/* Bytes of the file that were read, as they lie there (compressed), and how many there are; a size
 * of 0 isn't known. The position may be asked for while another thread reads. */
uint64_t prn_source_position(const struct prn_source *s);
uint64_t prn_source_size(const struct prn_source *s);

/* For messages: the path, "standard input" or "memory". */
const char *prn_source_name(const struct prn_source *s);

/* "plain", "gzip" or "zstd". */
const char *prn_source_encoding(const struct prn_source *s);

#endif
