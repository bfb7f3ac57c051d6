#include "unit.h"

#include "base/buffer.h"
#include "base/io.h"
#include "base/random.h"
#include "trace/source.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

/* ---- Inputs ---- */

enum { LONG_BYTES = 300000, GZIP_EXTRA = 1000 };

static char long_text[LONG_BYTES];
static const char short_text[] =
    "[{\"cat\" : \"Session\",\"name\" :\"model_run\"}, aaaaaaaaaaaaaaaa]";

/* Something like a trace: words that repeat, numbers that don't. */
static int make_text(void **state)
{
    (void)state;
    struct prn_random random;
    prn_random_seed(&random, 4);
    for (size_t at = 0; at < LONG_BYTES;) {
        char line[80];
        int n = snprintf(line, sizeof line, "{\"dur\" :%u,\"name\" :\"Conv\"},\n",
                         (unsigned)prn_random_below(&random, 1000000));
        size_t len = (size_t)n < LONG_BYTES - at ? (size_t)n : LONG_BYTES - at;
        memcpy(long_text + at, line, len);
        at += len;
    }
    return 0;
}

static void add_gzip(struct prn_buffer *out, const char *text, size_t len)
{
    size_t room = len + GZIP_EXTRA;
    unsigned char *packed = malloc(room);
    assert_non_null(packed);
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    unsigned char *copy = malloc(len + 1);
    assert_non_null(copy);
    memcpy(copy, text, len);
    z.next_in = copy;
    z.avail_in = (uInt)len;
    z.next_out = packed;
    z.avail_out = (uInt)room;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    prn_buffer_append(out, packed, room - z.avail_out);
    deflateEnd(&z);
    free(copy);
    free(packed);
}

/* A frame with a check sum and without the content's size, so that the window stays as asked. */
static void add_zstd(struct prn_buffer *out, const char *text, size_t len, int window_log)
{
    ZSTD_CCtx *context = ZSTD_createCCtx();
    assert_non_null(context);
    ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    if (window_log)
        assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(context, ZSTD_c_windowLog, window_log)));
    size_t room = ZSTD_compressBound(len) + 64;
    char *packed = malloc(room);
    assert_non_null(packed);
    ZSTD_inBuffer in = {text, len, 0};
    ZSTD_outBuffer part = {packed, room, 0};
    assert_false(ZSTD_isError(ZSTD_compressStream2(context, &part, &in, ZSTD_e_continue)));
    assert_int_equal(ZSTD_compressStream2(context, &part, &in, ZSTD_e_end), 0);
    prn_buffer_append(out, packed, part.pos);
    free(packed);
    ZSTD_freeCCtx(context);
}

static void add_skippable(struct prn_buffer *out)
{
    static const unsigned char frame[] = {0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 'a', 'b', 'c'};
    prn_buffer_append(out, frame, sizeof frame);
}

static struct prn_buffer packed(const char *encoding, const char *text, size_t len)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
    if (strcmp(encoding, "gzip") == 0)
        add_gzip(&out, text, len);
    else if (strcmp(encoding, "zstd") == 0)
        add_zstd(&out, text, len, 0);
    else
        prn_buffer_append(&out, text, len);
    assert_int_equal(out.error, 0);
    return out;
}

static const char *const encodings[] = {"plain", "gzip", "zstd"};

/* ---- Reading all of it ---- */

/* Appends all that comes, `size` bytes at a time; 0 or what the last read said. */
static int drain(struct prn_source *s, size_t size, struct prn_buffer *out, struct prony_error *err)
{
    char *buffer = malloc(size);
    assert_non_null(buffer);
    size_t len = 0;
    int code;
    uint64_t position = prn_source_position(s);
    while ((code = prn_source_read(s, buffer, size, &len, err)) == 0 && len > 0) {
        assert_true(len <= size);
        assert_true(prn_source_position(s) >= position);
        position = prn_source_position(s);
        prn_buffer_append(out, buffer, len);
    }
    free(buffer);
    return code;
}

static int read_memory(const void *data, size_t len, size_t step, size_t size,
                       struct prn_buffer *out, struct prony_error *err)
{
    struct prn_source *s = NULL;
    assert_int_equal(prn_source_open_memory(data, len, step, &s, NULL), 0);
    int code = drain(s, size, out, err);
    if (code == 0)
        assert_int_equal(prn_source_position(s), len);
    prn_source_close(s);
    return code;
}

static void expect(const struct prn_buffer *in, size_t step, const char *text, size_t len)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
    struct prony_error err = {.text = "untouched"};
    int code = read_memory(in->data, in->len, step, 4096, &out, &err);
    if (code < 0)
        fail_msg("%s", err.text);
    assert_string_equal(err.text, "untouched");
    assert_int_equal(out.len, len);
    assert_memory_equal(prn_buffer_text(&out), text, len);
    prn_buffer_release(&out);
}

static void refuse(const struct prn_buffer *in, int code, const char *message)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
    struct prony_error err = {0};
    assert_int_equal(read_memory(in->data, in->len, 0, 4096, &out, &err), code);
    assert_int_equal(err.code, code);
    assert_contains(err.text, message);
    prn_buffer_release(&out);
}

/* ---- Memory ---- */

static void test_split_anywhere(void **state)
{
    (void)state;
    static const size_t steps[] = {0, 1, 2, 3, 5, 4096, LONG_BYTES};
    for (size_t e = 0; e < PRN_ARRAY_SIZE(encodings); e++)
        for (size_t i = 0; i < PRN_ARRAY_SIZE(steps); i++) {
            size_t len = steps[i] && steps[i] < 4096 ? 3000 : LONG_BYTES;
            struct prn_buffer in = packed(encodings[e], long_text, len);
            expect(&in, steps[i], long_text, len);
            prn_buffer_release(&in);
        }
}

static void test_read_sizes(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 7, 4095, 65536, (size_t)1 << 20};
    for (size_t e = 0; e < PRN_ARRAY_SIZE(encodings); e++) {
        struct prn_buffer in = packed(encodings[e], long_text, LONG_BYTES);
        for (size_t i = 0; i < PRN_ARRAY_SIZE(sizes); i++) {
            struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
            assert_int_equal(read_memory(in.data, in.len, 0, sizes[i], &out, NULL), 0);
            assert_int_equal(out.len, LONG_BYTES);
            assert_memory_equal(out.data, long_text, LONG_BYTES);
            prn_buffer_release(&out);
        }
        prn_buffer_release(&in);
    }
}

/* A step limits what a read gives, in every encoding. */
static void test_step(void **state)
{
    (void)state;
    for (size_t e = 0; e < PRN_ARRAY_SIZE(encodings); e++) {
        struct prn_buffer in = packed(encodings[e], short_text, strlen(short_text));
        struct prn_source *s = NULL;
        assert_int_equal(prn_source_open_memory(in.data, in.len, 3, &s, NULL), 0);
        assert_string_equal(prn_source_encoding(s), encodings[e]);
        assert_string_equal(prn_source_name(s), "memory");
        assert_int_equal(prn_source_size(s), in.len);
        assert_int_equal(prn_source_position(s), 0);
        char buffer[100];
        size_t len = 0;
        assert_int_equal(prn_source_read(s, buffer, sizeof buffer, &len, NULL), 0);
        assert_in_range(len, 1, 3);
        prn_source_close(s);
        prn_buffer_release(&in);
    }
}

static void test_empty_and_tiny(void **state)
{
    (void)state;
    struct prn_buffer in = PRN_BUFFER_INIT(100);
    expect(&in, 0, "", 0);
    static const char *const tiny[] = {"[", "[]", "\x1f", "\x28\xb5\x2f", "P*M", "PAR1"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(tiny); i++) {
        prn_buffer_clear(&in);
        prn_buffer_add(&in, tiny[i]);
        expect(&in, 0, tiny[i], strlen(tiny[i]));
    }
    prn_buffer_release(&in);
    for (size_t e = 0; e < PRN_ARRAY_SIZE(encodings); e++) {
        in = packed(encodings[e], "", 0);
        expect(&in, 0, "", 0);
        prn_buffer_release(&in);
    }
    prn_source_close(NULL);
}

/* What stands behind one another is one stream, empty parts and frames to skip included. */
static void test_concatenated(void **state)
{
    (void)state;
    static const size_t steps[] = {0, 1, 3};
    struct prn_buffer gzip = PRN_BUFFER_INIT(100000);
    add_gzip(&gzip, "", 0);
    add_gzip(&gzip, "one ", 4);
    add_gzip(&gzip, "", 0);
    add_gzip(&gzip, "two", 3);
    add_gzip(&gzip, "", 0);
    struct prn_buffer zstd = PRN_BUFFER_INIT(100000);
    add_skippable(&zstd);
    add_zstd(&zstd, "one ", 4, 0);
    add_zstd(&zstd, "", 0, 0);
    add_skippable(&zstd);
    add_zstd(&zstd, "two", 3, 0);
    add_skippable(&zstd);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(steps); i++) {
        expect(&gzip, steps[i], "one two", 7);
        expect(&zstd, steps[i], "one two", 7);
    }
    prn_buffer_release(&gzip);
    prn_buffer_release(&zstd);
}

static void test_after_the_end(void **state)
{
    (void)state;
    static const char zeros[70000];
    char after[40];
    snprintf(after, sizeof after, "after %zu decoded bytes", strlen(short_text));
    struct prn_buffer in = packed("gzip", short_text, strlen(short_text));
    prn_buffer_append(&in, zeros, 1);
    expect(&in, 1, short_text, strlen(short_text));
    prn_buffer_append(&in, zeros, sizeof zeros);
    prn_buffer_append(&in, zeros, sizeof zeros);
    expect(&in, 0, short_text, strlen(short_text));
    prn_buffer_add(&in, "x");
    refuse(&in, PRONY_EFORMAT, "what follows is not gzip");
    prn_buffer_release(&in);

    static const char *const garbage[] = {"x", "\x1f", "\x1f\x8b", "\x1fx"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(garbage); i++) {
        in = packed("gzip", short_text, strlen(short_text));
        prn_buffer_add(&in, garbage[i]);
        refuse(&in, PRONY_EFORMAT, after);
        prn_buffer_release(&in);
    }
    in = packed("zstd", short_text, strlen(short_text));
    prn_buffer_add(&in, "garbage");
    refuse(&in, PRONY_EFORMAT, after);
    prn_buffer_release(&in);
}

/* Cut at every byte: what could be decoded comes first and is right, then the fault. */
static void test_cut(void **state)
{
    (void)state;
    for (size_t e = 1; e < PRN_ARRAY_SIZE(encodings); e++) {
        struct prn_buffer in = packed(encodings[e], long_text, 5000);
        for (size_t cut = 4; cut < in.len; cut++) {
            struct prn_buffer out = PRN_BUFFER_INIT(100000);
            struct prony_error err = {0};
            assert_int_equal(read_memory(in.data, cut, 0, 777, &out, &err), PRONY_EFORMAT);
            char message[100];
            snprintf(message, sizeof message,
                     "cannot read 'memory': its %s data is cut off after %zu decoded bytes",
                     encodings[e], out.len);
            assert_string_equal(err.text, message);
            assert_true(out.len <= 5000);
            assert_memory_equal(prn_buffer_text(&out), long_text, out.len);
            prn_buffer_release(&out);
        }
        prn_buffer_release(&in);
    }
}

/* Every bit of every byte wrong in turn: the check sums find it, unless it is a bit without
 * meaning. */
static void test_damaged(void **state)
{
    (void)state;
    for (size_t e = 1; e < PRN_ARRAY_SIZE(encodings); e++) {
        struct prn_buffer in = packed(encodings[e], long_text, 600);
        size_t found = 0;
        for (size_t bit = 32; bit < in.len * 8; bit++) {
            in.data[bit / 8] = (char)(in.data[bit / 8] ^ (1 << (bit % 8)));
            struct prn_buffer out = PRN_BUFFER_INIT(100000);
            struct prony_error err = {0};
            int code = read_memory(in.data, in.len, 0, 100, &out, &err);
            if (code == 0) {
                assert_int_equal(out.len, 600);
                assert_memory_equal(out.data, long_text, 600);
            } else if (code != PRONY_ELIMIT) {
                assert_int_equal(code, PRONY_EFORMAT);
                found++;
            }
            in.data[bit / 8] = (char)(in.data[bit / 8] ^ (1 << (bit % 8)));
            prn_buffer_release(&out);
        }
        assert_true(found > in.len * 7);
        prn_buffer_release(&in);
    }
}

/* What comes before a fault is handed out. A fault stays until the source is rewound; then the same
 * comes again. */
static void test_fault_stays(void **state)
{
    (void)state;
    for (size_t e = 1; e < PRN_ARRAY_SIZE(encodings); e++) {
        struct prn_buffer in = packed(encodings[e], long_text, LONG_BYTES);
        in.data[in.len / 2] ^= 0x55;
        struct prn_source *s = NULL;
        assert_int_equal(prn_source_open_memory(in.data, in.len, 0, &s, NULL), 0);
        size_t first_len = 0;
        for (int round = 0; round < 2; round++) {
            struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
            struct prony_error err = {0};
            struct prony_error again = {0};
            size_t len = 12345;
            char byte;
            assert_int_equal(drain(s, 1000, &out, &err), PRONY_EFORMAT);
            assert_contains(err.text, "damaged after ");
            assert_int_equal(prn_source_read(s, &byte, 1, &len, &again), PRONY_EFORMAT);
            assert_string_equal(again.text, err.text);
            assert_int_equal(prn_source_read(s, &byte, 1, &len, NULL), PRONY_EFORMAT);
            assert_int_equal(len, 12345);
            if (round == 0)
                first_len = out.len;
            assert_int_equal(out.len, first_len);
            assert_in_range(out.len, LONG_BYTES / 4, LONG_BYTES);
            assert_memory_equal(out.data, long_text, LONG_BYTES / 4);
            prn_buffer_release(&out);
            assert_int_equal(prn_source_rewind(s, NULL), 0);
            assert_int_equal(prn_source_position(s), 0);
        }
        prn_source_close(s);
        prn_buffer_release(&in);
    }
}

static void test_zstd_window(void **state)
{
    (void)state;
    struct prn_buffer in = PRN_BUFFER_INIT(1000000);
    add_zstd(&in, long_text, LONG_BYTES, 25);
    expect(&in, 0, long_text, LONG_BYTES);
    prn_buffer_clear(&in);
    add_zstd(&in, long_text, LONG_BYTES, 26);
    refuse(&in, PRONY_ELIMIT, "window of more than 32 MiB; compress it again without --ultra");
    prn_buffer_release(&in);
}

static void test_rewind_memory(void **state)
{
    (void)state;
    for (size_t e = 0; e < PRN_ARRAY_SIZE(encodings); e++) {
        struct prn_buffer in = packed(encodings[e], long_text, LONG_BYTES);
        struct prn_source *s = NULL;
        assert_int_equal(prn_source_open_memory(in.data, in.len, 0, &s, NULL), 0);
        assert_true(prn_source_can_rewind(s));
        char some[5];
        size_t len = 0;
        assert_int_equal(prn_source_read(s, some, sizeof some, &len, NULL), 0);
        for (int round = 0; round < 3; round++) {
            struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
            assert_int_equal(prn_source_rewind(s, NULL), 0);
            assert_int_equal(drain(s, 1000, &out, NULL), 0);
            assert_int_equal(out.len, LONG_BYTES);
            assert_memory_equal(out.data, long_text, LONG_BYTES);
            prn_buffer_release(&out);
        }
        prn_source_close(s);
        prn_buffer_release(&in);
    }
}

/* ---- Files ---- */

static char scratch_path[] = "/tmp/prony-source-XXXXXX";

static void write_scratch(const struct prn_buffer *content)
{
    int fd = open(scratch_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(prn_write_all(fd, content->data, content->len), 0);
    close(fd);
}

static void test_file(void **state)
{
    (void)state;
    int before = unit_descriptors();
    for (size_t e = 0; e < PRN_ARRAY_SIZE(encodings); e++) {
        struct prn_buffer in = packed(encodings[e], long_text, LONG_BYTES);
        write_scratch(&in);
        struct prn_source *s = NULL;
        assert_int_equal(prn_source_open(scratch_path, &s, NULL), 0);
        assert_string_equal(prn_source_name(s), scratch_path);
        assert_string_equal(prn_source_encoding(s), encodings[e]);
        assert_int_equal(prn_source_size(s), in.len);
        assert_true(prn_source_can_rewind(s));
        for (int round = 0; round < 2; round++) {
            struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
            assert_int_equal(drain(s, 65536, &out, NULL), 0);
            assert_int_equal(prn_source_position(s), in.len);
            assert_int_equal(out.len, LONG_BYTES);
            assert_memory_equal(out.data, long_text, LONG_BYTES);
            prn_buffer_release(&out);
            assert_int_equal(prn_source_rewind(s, NULL), 0);
        }
        prn_source_close(s);
        prn_buffer_release(&in);
    }
    assert_int_equal(unit_descriptors(), before);
}

static void refuse_path(const char *path, int code, const char *message)
{
    struct prn_source *untouched = (struct prn_source *)&code;
    struct prn_source *s = untouched;
    struct prony_error err = {0};
    int before = unit_descriptors();
    assert_int_equal(prn_source_open(path, &s, &err), code);
    assert_ptr_equal(s, untouched);
    assert_contains(err.text, message);
    assert_contains(err.text, path);
    assert_int_equal(unit_descriptors(), before);
}

static void test_bad_paths(void **state)
{
    (void)state;
    refuse_path("/nonexistent/trace.json", PRONY_ENOENT, "No such file");
    refuse_path("/tmp", PRONY_EIO, "Is a directory");
    refuse_path("/proc/self/mem", PRONY_EIO, "Input/output error");
    struct prn_source *s = NULL;
    assert_int_equal(prn_source_open("/dev/null", &s, NULL), 0);
    assert_false(prn_source_can_rewind(s));
    assert_int_equal(prn_source_size(s), 0);
    prn_source_close(s);
}

static void test_file_changes(void **state)
{
    (void)state;
    struct prn_buffer in = packed("plain", long_text, LONG_BYTES);
    struct prn_source *s = NULL;
    struct prony_error err = {0};
    char buffer[1000];
    size_t len = 0;
    write_scratch(&in);
    assert_int_equal(prn_source_open(scratch_path, &s, NULL), 0);
    assert_int_equal(prn_source_read(s, buffer, sizeof buffer, &len, NULL), 0);
    assert_int_equal(truncate(scratch_path, (off_t)len), 0);
    assert_int_equal(prn_source_read(s, buffer, sizeof buffer, &len, &err), PRONY_EIO);
    assert_contains(err.text, "shorter");
    assert_int_equal(prn_source_rewind(s, &err), PRONY_EIO);
    assert_contains(err.text, "changed");
    prn_source_close(s);

    /* One that grows is read as far as it goes, but not twice. */
    write_scratch(&in);
    assert_int_equal(prn_source_open(scratch_path, &s, NULL), 0);
    int fd = open(scratch_path, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_int_equal(prn_write_all(fd, "more", 4), 0);
    close(fd);
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
    assert_int_equal(drain(s, 65536, &out, NULL), 0);
    assert_int_equal(out.len, LONG_BYTES + 4);
    assert_int_equal(prn_source_rewind(s, NULL), PRONY_EIO);
    prn_source_close(s);
    prn_buffer_release(&out);
    prn_buffer_release(&in);
}

/* ---- Pipes and standard input ---- */

/* A process that writes to `fd` in pieces, waiting `pause_us` before each. */
static pid_t start_writer(int fd, int other_fd, const struct prn_buffer *content, size_t piece,
                          useconds_t pause_us)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return child;
    close(other_fd);
    for (size_t at = 0; at < content->len; at += piece) {
        size_t left = content->len - at;
        usleep(pause_us);
        if (prn_write_all(fd, content->data + at, left < piece ? left : piece) < 0)
            _exit(1);
    }
    _exit(0);
}

static void expect_child(pid_t child)
{
    int status = -1;
    while (waitpid(child, &status, 0) < 0)
        assert_int_equal(errno, EINTR);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* Runs with `fd` as standard input, which is put back afterwards. */
static int swap_stdin(int fd)
{
    int saved = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    if (saved < 0)
        saved = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(dup2(fd, STDIN_FILENO) == STDIN_FILENO);
    close(fd);
    return saved;
}

static void drain_stdin(const char *encoding, const char *text, size_t len)
{
    struct prn_source *s = NULL;
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
    assert_int_equal(prn_source_open("-", &s, NULL), 0);
    assert_string_equal(prn_source_name(s), "standard input");
    assert_string_equal(prn_source_encoding(s), encoding);
    assert_int_equal(prn_source_position(s), 0);
    assert_int_equal(drain(s, 10000, &out, NULL), 0);
    assert_int_equal(out.len, len);
    assert_memory_equal(out.data, text, len);
    prn_buffer_release(&out);
    prn_source_close(s);
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
}

static volatile sig_atomic_t alarms;

static void on_alarm(int number)
{
    (void)number;
    alarms++;
}

/* A slow writer, a descriptor that doesn't block, and signals all the time. */
static void pass_pipe(const char *encoding, int flags)
{
    struct prn_buffer in = packed(encoding, short_text, strlen(short_text));
    int ends[2];
    assert_int_equal(pipe2(ends, O_CLOEXEC | flags), 0);
    pid_t writer = start_writer(ends[1], ends[0], &in, 3, 2000);
    close(ends[1]);
    int saved = swap_stdin(ends[0]);
    alarms = 0;
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 700}, {0, 700}}, NULL);
    drain_stdin(encoding, short_text, strlen(short_text));
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    assert_true(alarms > 0);
    close(swap_stdin(saved));
    expect_child(writer);
    prn_buffer_release(&in);
}

static void test_pipes(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = on_alarm};
    struct sigaction before;
    sigaction(SIGALRM, &action, &before);
    int descriptors = unit_descriptors();
    for (size_t e = 0; e < PRN_ARRAY_SIZE(encodings); e++) {
        pass_pipe(encodings[e], 0);
        pass_pipe(encodings[e], O_NONBLOCK);
    }
    assert_int_equal(unit_descriptors(), descriptors);
    sigaction(SIGALRM, &before, NULL);
}

static void test_fifo(void **state)
{
    (void)state;
    struct prn_buffer in = packed("zstd", long_text, LONG_BYTES);
    unlink(scratch_path);
    assert_int_equal(mkfifo(scratch_path, 0600), 0);
    pid_t writer = fork();
    if (writer == 0) {
        int fd = open(scratch_path, O_WRONLY);
        _exit(prn_write_all(fd, in.data, in.len) < 0);
    }
    struct prn_source *s = NULL;
    struct prony_error err = {0};
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
    assert_int_equal(prn_source_open(scratch_path, &s, NULL), 0);
    assert_int_equal(drain(s, 4096, &out, NULL), 0);
    assert_int_equal(out.len, LONG_BYTES);
    assert_memory_equal(out.data, long_text, LONG_BYTES);
    assert_int_equal(prn_source_position(s), in.len);
    assert_int_equal(prn_source_size(s), 0);
    assert_false(prn_source_can_rewind(s));
    assert_int_equal(prn_source_rewind(s, &err), PRONY_EUNSUPPORTED);
    assert_contains(err.text, "twice");
    prn_source_close(s);
    expect_child(writer);
    unlink(scratch_path);
    prn_buffer_release(&out);
    prn_buffer_release(&in);
}

/* A file as standard input is read from where it stands, and again from there. */
static void test_stdin_file(void **state)
{
    (void)state;
    struct prn_buffer in = packed("plain", long_text, 5000);
    write_scratch(&in);
    int fd = open(scratch_path, O_RDONLY | O_CLOEXEC);
    assert_int_equal(lseek(fd, 1000, SEEK_SET), 1000);
    int saved = swap_stdin(fd);
    struct prn_source *s = NULL;
    struct prn_buffer out = PRN_BUFFER_INIT(10000);
    assert_int_equal(prn_source_open("-", &s, NULL), 0);
    assert_int_equal(prn_source_size(s), 4000);
    assert_int_equal(drain(s, 333, &out, NULL), 0);
    assert_int_equal(prn_source_rewind(s, NULL), 0);
    assert_int_equal(drain(s, 4000, &out, NULL), 0);
    assert_int_equal(prn_source_position(s), 4000);
    prn_source_close(s);
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0);
    close(swap_stdin(saved));
    assert_int_equal(out.len, 8000);
    assert_memory_equal(out.data, long_text + 1000, 4000);
    assert_memory_equal(out.data + 4000, long_text + 1000, 4000);
    prn_buffer_release(&out);
    prn_buffer_release(&in);
}

static int set_up(void **state)
{
    int fd = mkstemp(scratch_path);
    if (fd < 0)
        return -1;
    close(fd);
    return make_text(state);
}

static int tear_down(void **state)
{
    (void)state;
    unlink(scratch_path);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_split_anywhere),
        cmocka_unit_test(test_read_sizes),
        cmocka_unit_test(test_step),
        cmocka_unit_test(test_empty_and_tiny),
        cmocka_unit_test(test_concatenated),
        cmocka_unit_test(test_after_the_end),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_fault_stays),
        cmocka_unit_test(test_zstd_window),
        cmocka_unit_test(test_rewind_memory),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_bad_paths),
        cmocka_unit_test(test_file_changes),
        cmocka_unit_test(test_pipes),
        cmocka_unit_test(test_fifo),
        cmocka_unit_test(test_stdin_file),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
