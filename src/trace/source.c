/*
 * Three layers. fetch() takes raw bytes from a descriptor or from memory; take() puts the bytes
 * that were read to tell the encoding in front of them and counts; a decoder, unless the bytes are
 * plain, turns them into text. Both decoders share one shape: a step consumes some of the input
 * buffer, produces some output, and keeps a record of whether a member (gzip) or frame (zstd) is
 * open, for the end of the file is a fault inside one. A fault is kept in the source, so that what
 * was decoded before it can be handed out first.
 */
#include "trace/source.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define INPUT_BYTES ((size_t)128 * 1024)
#define MAGIC_BYTES 4
/* What one call of a decoder may produce; zlib counts in unsigned int. */
#define OUTPUT_BYTES_MAX ((size_t)1 << 30)
#define ZSTD_WINDOW_LOG_MAX 25 /* 32 MiB */
#define GZIP_MAGIC_0 0x1f
#define GZIP_MAGIC_1 0x8b

enum encoding {
    ENCODING_PLAIN,
    ENCODING_GZIP,
    ENCODING_ZSTD,
};

static const char *const encoding_names[] = {"plain", "gzip", "zstd"};

struct prn_source {
    int fd; /* -1: memory */
    bool owns_fd;
    bool rewindable;
    off_t start; /* of a regular file: where reading began */
    struct timespec modified;
    uint64_t size;          /* 0: not known */
    _Atomic uint64_t taken; /* raw bytes that left take(); another thread may look */
    const unsigned char *memory;
    size_t memory_at;
    size_t step; /* 0: no limit */

    unsigned char head[MAGIC_BYTES]; /* read to tell the encoding, and not yet taken */
    size_t head_at, head_len;

    enum encoding encoding;
    z_stream zlib;
    ZSTD_DStream *zstd;
    size_t zstd_wants;    /* bytes that it would like next; 0 between frames */
    unsigned char *input; /* NULL when plain */
    size_t input_at, input_len;
    bool holds_output; /* the decoder may have more without more input */
    bool open;         /* inside a member or frame */
    bool padding;      /* zeros behind the last member of gzip */
    uint64_t decoded;
    struct prony_error fault; /* code 0: none */
    char name[];
};

/* ---- Raw bytes ---- */

/* read() that outlasts signals, and a descriptor that somebody else made non-blocking. */
static ssize_t read_patiently(int fd, void *buffer, size_t size)
{
    for (;;) {
        ssize_t n = read(fd, buffer, size);
        if (n >= 0 || (errno != EINTR && errno != EAGAIN))
            return n;
        if (errno == EAGAIN)
            poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, -1);
    }
}

/* Whether a regular file ends before the size that it had. Files whose size was never true, as
 * under /sys, still claim the same and don't count. */
static bool has_shrunk(const struct prn_source *s)
{
    struct stat now;
    return s->rewindable && s->taken < s->size && fstat(s->fd, &now) == 0 &&
           now.st_size < s->start + (off_t)s->size;
}

static int fetch(struct prn_source *s, void *buffer, size_t size, size_t *ret_len,
                 struct prony_error *err)
{
    if (s->fd < 0) {
        size_t left = (size_t)s->size - s->memory_at;
        size_t n = size < left ? size : left;
        if (s->step && n > s->step)
            n = s->step;
        if (n)
            memcpy(buffer, s->memory + s->memory_at, n);
        s->memory_at += n;
        *ret_len = n;
        return 0;
    }
    ssize_t n = read_patiently(s->fd, buffer, size);
    if (n < 0)
        return prn_fail_errno(err, errno, "read", s->name);
    if (n == 0 && has_shrunk(s))
        return prn_fail(err, PRONY_EIO, "cannot read '%s': it became shorter while it was read",
                        s->name);
    *ret_len = (size_t)n;
    return 0;
}

static int take(struct prn_source *s, void *buffer, size_t size, size_t *ret_len,
                struct prony_error *err)
{
    size_t n = s->head_len - s->head_at;
    if (n > 0) {
        if (n > size)
            n = size;
        memcpy(buffer, s->head + s->head_at, n);
        s->head_at += n;
    } else {
        int code = fetch(s, buffer, size, &n, err);
        if (code < 0)
            return code;
    }
    s->taken += n;
    *ret_len = n;
    return 0;
}

/* ---- Decoders ---- */

static const char *describe_zlib(const z_stream *z, int result)
{
    return z->msg ? z->msg : zError(result);
}

static int keep_damage(struct prn_source *s, const char *what)
{
    return prn_fail(&s->fault, PRONY_EFORMAT,
                    "cannot read '%s': its %s data is damaged after %" PRIu64 " decoded bytes (%s)",
                    s->name, encoding_names[s->encoding], s->decoded, what);
}

/* Nothing is wrong with zlib's own allocator, but this one can be made to fail in a test. */
static voidpf zlib_alloc(voidpf opaque, uInt items, uInt size)
{
    (void)opaque;
    return calloc(items, size);
}

static void zlib_free(voidpf opaque, voidpf address)
{
    (void)opaque;
    free(address);
}

/* Between members: another one begins, or zeros fill up a block of a tape, as gzip(1) allows. */
static int pass_member_end(struct prn_source *s)
{
    if (!s->padding && s->input[s->input_at] == GZIP_MAGIC_0) {
        inflateReset(&s->zlib);
        s->open = true;
        return 0;
    }
    s->padding = true;
    while (s->input_at < s->input_len && s->input[s->input_at] == 0)
        s->input_at++;
    return s->input_at == s->input_len ? 0 : keep_damage(s, "what follows is not gzip");
}

static int step_gzip(struct prn_source *s, void *buffer, size_t size, size_t *ret_len)
{
    *ret_len = 0;
    if (!s->open && s->input_at < s->input_len) {
        int code = pass_member_end(s);
        if (code < 0 || !s->open)
            return code;
    }
    s->zlib.next_in = s->input + s->input_at;
    s->zlib.avail_in = (uInt)(s->input_len - s->input_at);
    s->zlib.next_out = buffer;
    s->zlib.avail_out = (uInt)size;
    int result = inflate(&s->zlib, Z_NO_FLUSH);
    s->input_at = s->input_len - s->zlib.avail_in;
    *ret_len = size - s->zlib.avail_out;
    s->decoded += *ret_len;
    if (result == Z_MEM_ERROR)
        return prn_fail_memory(&s->fault);
    if (result == Z_STREAM_END)
        s->open = false;
    else if (result != Z_OK && result != Z_BUF_ERROR)
        return keep_damage(s, describe_zlib(&s->zlib, result));
    s->holds_output = s->open && *ret_len == size;
    return 0;
}

/* Zstd gets no more than it asks for, which is a block at a time: when one is damaged, a call that
 * had also decoded those before it would lose them. */
static int step_zstd(struct prn_source *s, void *buffer, size_t size, size_t *ret_len)
{
    size_t left = s->input_len - s->input_at;
    size_t wanted = s->zstd_wants ? s->zstd_wants : 1;
    ZSTD_inBuffer in = {s->input, s->input_at + (wanted < left ? wanted : left), s->input_at};
    ZSTD_outBuffer out = {buffer, size, 0};
    *ret_len = 0;
    size_t result = ZSTD_decompressStream(s->zstd, &out, &in);
    if (!ZSTD_isError(result)) {
        s->input_at = in.pos;
        s->zstd_wants = result;
        s->open = result != 0;
        s->holds_output = s->open && out.pos == size;
        s->decoded += out.pos;
        *ret_len = out.pos;
        return 0;
    }
    switch (ZSTD_getErrorCode(result)) {
    case ZSTD_error_memory_allocation:
        return prn_fail_memory(&s->fault);
    case ZSTD_error_frameParameter_windowTooLarge:
        return prn_fail(&s->fault, PRONY_ELIMIT,
                        "cannot read '%s': it was compressed with a window of more than %d MiB; "
                        "compress it again without --ultra and --long",
                        s->name, 1 << (ZSTD_WINDOW_LOG_MAX - 20));
    default:
        return keep_damage(s, ZSTD_getErrorName(result));
    }
}

/* Called when all input was used up; none is left at the end of the file. */
static int refill(struct prn_source *s, struct prony_error *err)
{
    size_t len;
    int code = take(s, s->input, INPUT_BYTES, &len, err);
    if (code < 0)
        return code;
    s->input_at = 0;
    s->input_len = len;
    if (len == 0 && s->open)
        prn_fail(&s->fault, PRONY_EFORMAT,
                 "cannot read '%s': its %s data is cut off after %" PRIu64 " decoded bytes",
                 s->name, encoding_names[s->encoding], s->decoded);
    return 0;
}

static int decode(struct prn_source *s, void *buffer, size_t size, size_t *ret_len,
                  struct prony_error *err)
{
    size_t produced = 0;
    if (size > OUTPUT_BYTES_MAX)
        size = OUTPUT_BYTES_MAX;
    while (produced == 0 && s->fault.code == 0) {
        if (s->input_at == s->input_len && !s->holds_output) {
            int code = refill(s, err);
            if (code < 0)
                return code;
            if (s->input_len == 0)
                break;
        }
        /* A fault stays in the source, for now or for the next read. */
        (void)(s->encoding == ENCODING_GZIP ? step_gzip(s, buffer, size, &produced)
                                            : step_zstd(s, buffer, size, &produced));
    }
    if (produced == 0 && s->fault.code != 0) {
        if (err)
            *err = s->fault;
        return s->fault.code;
    }
    *ret_len = produced;
    return 0;
}

static int start_decoder(struct prn_source *s, struct prony_error *err)
{
    s->open = true;
    if (s->encoding == ENCODING_PLAIN)
        return 0;
    s->input = malloc(INPUT_BYTES);
    if (!s->input)
        return prn_fail_memory(err);
    if (s->encoding == ENCODING_GZIP) {
        s->zlib.zalloc = zlib_alloc;
        s->zlib.zfree = zlib_free;
        /* 16 asks for gzip's header and check sum around the data. */
        int result = inflateInit2(&s->zlib, MAX_WBITS + 16);
        if (result == Z_OK)
            return 0;
        return result == Z_MEM_ERROR
                   ? prn_fail_memory(err)
                   : prn_fail(err, PRONY_EUNSUPPORTED, "cannot read '%s': zlib says: %s", s->name,
                              describe_zlib(&s->zlib, result));
    }
    s->zstd = ZSTD_createDStream();
    if (!s->zstd)
        return prn_fail_memory(err);
    size_t result = ZSTD_DCtx_setParameter(s->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX);
    if (ZSTD_isError(result))
        return prn_fail(err, PRONY_EUNSUPPORTED, "cannot read '%s': zstd says: %s", s->name,
                        ZSTD_getErrorName(result));
    return 0;
}

/* ---- Opening ---- */

static enum encoding recognise(const unsigned char *head, size_t len)
{
    static const unsigned char zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
    static const unsigned char skippable[] = {0x2a, 0x4d, 0x18};
    if (len >= 2 && head[0] == GZIP_MAGIC_0 && head[1] == GZIP_MAGIC_1)
        return ENCODING_GZIP;
    if (len >= 4 && memcmp(head, zstd, 4) == 0)
        return ENCODING_ZSTD;
    if (len >= 4 && (head[0] & 0xf0) == 0x50 && memcmp(head + 1, skippable, 3) == 0)
        return ENCODING_ZSTD;
    return ENCODING_PLAIN;
}

/* Puts everything but the decoder back to the beginning. */
static int go_to_start(struct prn_source *s, struct prony_error *err)
{
    if (s->fd >= 0 && lseek(s->fd, s->start, SEEK_SET) < 0)
        return prn_fail_errno(err, errno, "rewind", s->name);
    s->memory_at = 0;
    s->head_at = s->head_len = 0;
    s->taken = 0;
    return 0;
}

/* Reads the first bytes and prepares for all of them. */
static int source_begin(struct prn_source *s, struct prony_error *err)
{
    size_t n = 1;
    while (n > 0 && s->head_len < MAGIC_BYTES) {
        int code = fetch(s, s->head + s->head_len, MAGIC_BYTES - s->head_len, &n, err);
        if (code < 0)
            return code;
        s->head_len += n;
    }
    s->encoding = recognise(s->head, s->head_len);
    /* Where that is possible the first read begins on a page of the file. */
    int code = s->rewindable ? go_to_start(s, err) : 0;
    return code < 0 ? code : start_decoder(s, err);
}

/* Finds out what is behind the descriptor. */
static int look_at_file(struct prn_source *s, struct prony_error *err)
{
    struct stat st;
    if (fstat(s->fd, &st) < 0)
        return prn_fail_errno(err, errno, "read", s->name);
    if (S_ISDIR(st.st_mode))
        return prn_fail_errno(err, EISDIR, "read", s->name);
    off_t at = S_ISREG(st.st_mode) ? lseek(s->fd, 0, SEEK_CUR) : -1;
    if (at < 0)
        return 0;
    s->rewindable = true;
    s->start = at;
    s->modified = st.st_mtim;
    s->size = st.st_size > at ? (uint64_t)(st.st_size - at) : 0;
    /* Only advice: whether it is taken doesn't matter. */
    (void)posix_fadvise(s->fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    return 0;
}

static struct prn_source *source_new(const char *name)
{
    size_t len = strlen(name);
    struct prn_source *s = calloc(1, sizeof *s + len + 1);
    if (s) {
        s->fd = -1;
        memcpy(s->name, name, len);
    }
    return s;
}

int prn_source_open_fd(int fd, const char *name, struct prn_source **ret_source,
                       struct prony_error *err)
{
    struct prn_source *s = source_new(name);
    if (!s)
        return prn_fail_memory(err);
    s->fd = fd;
    int code = look_at_file(s, err);
    if (code == 0)
        code = source_begin(s, err);
    if (code < 0) {
        prn_source_close(s);
        return code;
    }
    *ret_source = s;
    return 0;
}

int prn_source_open(const char *path, struct prn_source **ret_source, struct prony_error *err)
{
    int fd;
    if (strcmp(path, "-") == 0)
        return prn_source_open_fd(STDIN_FILENO, "standard input", ret_source, err);
    do {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    } while (fd < 0 && errno == EINTR);
    if (fd < 0)
        return prn_fail_errno(err, errno, "open", path);
    int code = prn_source_open_fd(fd, path, ret_source, err);
    if (code == 0)
        (*ret_source)->owns_fd = true;
    else
        close(fd);
    return code;
}

int prn_source_open_memory(const void *data, size_t len, size_t step,
                           struct prn_source **ret_source, struct prony_error *err)
{
    struct prn_source *s = source_new("memory");
    if (!s)
        return prn_fail_memory(err);
    s->memory = data;
    s->size = len;
    s->step = step;
    s->rewindable = true;
    int code = source_begin(s, err);
    if (code < 0) {
        prn_source_close(s);
        return code;
    }
    *ret_source = s;
    return 0;
}

void prn_source_close(struct prn_source *s)
{
    if (!s)
        return;
    if (s->owns_fd && s->fd >= 0)
        close(s->fd);
    inflateEnd(&s->zlib);
    ZSTD_freeDStream(s->zstd);
    free(s->input);
    free(s);
}

/* ---- Use ---- */

int prn_source_read(struct prn_source *s, void *buffer, size_t size, size_t *ret_len,
                    struct prony_error *err)
{
    assert(size > 0);
    if (s->step && size > s->step)
        size = s->step;
    return s->encoding == ENCODING_PLAIN ? take(s, buffer, size, ret_len, err)
                                         : decode(s, buffer, size, ret_len, err);
}

bool prn_source_can_rewind(const struct prn_source *s)
{
    return s->rewindable;
}

static bool has_changed(const struct prn_source *s, const struct stat *now)
{
    uint64_t size = now->st_size > s->start ? (uint64_t)(now->st_size - s->start) : 0;
    return size != s->size || now->st_mtim.tv_sec != s->modified.tv_sec ||
           now->st_mtim.tv_nsec != s->modified.tv_nsec;
}

int prn_source_rewind(struct prn_source *s, struct prony_error *err)
{
    struct stat now;
    if (!s->rewindable)
        return prn_fail(err, PRONY_EUNSUPPORTED, "cannot read '%s' twice: it is not a file",
                        s->name);
    if (s->fd >= 0 && fstat(s->fd, &now) < 0)
        return prn_fail_errno(err, errno, "read", s->name);
    if (s->fd >= 0 && has_changed(s, &now))
        return prn_fail(err, PRONY_EIO, "cannot read '%s' again: it has changed since", s->name);
    int code = go_to_start(s, err);
    if (code < 0)
        return code;
    s->input_at = s->input_len = 0;
    s->zstd_wants = 0;
    s->decoded = 0;
    s->open = true;
    s->holds_output = s->padding = false;
    s->fault.code = 0;
    if (s->encoding == ENCODING_GZIP)
        inflateReset(&s->zlib);
    if (s->encoding == ENCODING_ZSTD)
        ZSTD_DCtx_reset(s->zstd, ZSTD_reset_session_only);
    return 0;
}

uint64_t prn_source_position(const struct prn_source *s)
{
    return s->taken;
}

uint64_t prn_source_size(const struct prn_source *s)
{
    return s->size;
}

const char *prn_source_name(const struct prn_source *s)
{
    return s->name;
}

const char *prn_source_encoding(const struct prn_source *s)
{
    return encoding_names[s->encoding];
}
