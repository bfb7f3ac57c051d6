/*
 * The cache of uploads: files named by their SHA-256, read-only, in one folder.
 *
 * Invariants
 * - A blob is visible only when it is complete, on the disk and right. It is written under a
 *   temporary name while it is hashed, synced, renamed, and the folder synced, before finish
 *   returns.
 * - The files are the truth. The index in the database only remembers what a listing of the folder
 *   can't tell: in which order blobs were used. Whatever a crash leaves of the two is put right at
 *   the next start; a file without a row is hashed again before its first use.
 * - A blob that somebody has a reference to is never evicted. The least recently used of the others
 *   go when the limit needs it.
 * - No error text has a path.
 *
 * All functions may be called from several threads, a writer from one at a time. Writing takes
 * about a millisecond per MiB and finish waits for the disk: neither is for a thread that others
 * wait for.
 */
#ifndef PRN_SERVICE_STORE_BLOBS_H
#define PRN_SERVICE_STORE_BLOBS_H

#include "service/store/state.h"

#include <sys/uio.h>

#define PRN_SHA256_BYTES 32

struct prn_blobs;
struct prn_blob; /* a reference */
struct prn_blob_writer;

/* `folder` is absolute; NULL: the folder "blobs" of the state folder. */
PRONY_MUST_CHECK int prn_blobs_open(const struct prn_state *state, const char *folder,
                                    uint64_t limit_bytes, struct prn_blobs **ret_blobs,
                                    struct prony_error *err);
/* After the last reference and the last writer; NULL does nothing. */
void prn_blobs_close(struct prn_blobs *blobs);

/* Evicts what is over the new limit, as far as nobody uses it. */
void prn_blobs_set_limit(struct prn_blobs *blobs, uint64_t limit_bytes);

/* Saves in which order blobs were used; for a timer of a minute or so. */
void prn_blobs_flush(struct prn_blobs *blobs);

/* A reference to a blob that is there; PRONY_ENOENT otherwise. Counts as a use. */
PRONY_MUST_CHECK int prn_blobs_find(struct prn_blobs *blobs, const uint8_t sha256[PRN_SHA256_BYTES],
                                    struct prn_blob **ret_blob, struct prony_error *err);

struct prn_blob *prn_blob_ref(struct prn_blob *blob);
void prn_blob_release(struct prn_blob *blob); /* NULL does nothing */

/* These live as long as the reference. */
const uint8_t *prn_blob_sha256(const struct prn_blob *blob);
uint64_t prn_blob_bytes(const struct prn_blob *blob);
const char *prn_blob_path(const struct prn_blob *blob); /* absolute; not for messages */

/* Opens it for reading. */
PRONY_MUST_CHECK int prn_blob_open(const struct prn_blob *blob, int *ret_fd,
                                   struct prony_error *err);

/* Puts it into a folder under a name from the wire (checked, and its folders made, as names.h
 * does): the same file where the file system allows that, a read-only copy elsewhere. Keep the
 * reference as long as the name is used, or its room will be counted as free when it isn't.
 * PRONY_EUSAGE: there is one of this name. */
PRONY_MUST_CHECK int prn_blob_link(const struct prn_blob *blob, int folder_fd, const char *name,
                                   struct prony_error *err);

PRONY_MUST_CHECK int prn_blob_writer_new(struct prn_blobs *blobs,
                                         struct prn_blob_writer **ret_writer,
                                         struct prony_error *err);
/* Adds the pieces, in order. PRONY_ELIMIT: the blob doesn't fit, beside what is in use, into the
 * limit or onto the disk. After a failure there is only abort. */
PRONY_MUST_CHECK int prn_blob_writer_write(struct prn_blob_writer *writer,
                                           const struct iovec *pieces, size_t n,
                                           struct prony_error *err);
uint64_t prn_blob_writer_bytes(const struct prn_blob_writer *writer);
/* Frees the writer, whatever it returns. `expected` NULL: any hash will do; another than that:
 * PRONY_EFORMAT, and nothing is left. Two that write the same blob get references to the same. */
PRONY_MUST_CHECK int prn_blob_writer_finish(struct prn_blob_writer *writer,
                                            const uint8_t expected[PRN_SHA256_BYTES],
                                            struct prn_blob **ret_blob, struct prony_error *err);
void prn_blob_writer_abort(struct prn_blob_writer *writer); /* frees it; NULL does nothing */

struct prn_blobs_stats {
    uint64_t blobs, bytes, limit_bytes;
    uint64_t pinned_bytes;  /* of those: in use */
    uint64_t writing_bytes; /* of uploads under way, beside `bytes` */
    uint64_t hits, misses, evictions;
};

void prn_blobs_stats(struct prn_blobs *blobs, struct prn_blobs_stats *ret_stats);

#endif
