/*
 * Makes a trace of any size from a recorded one, by repeating its runs.
 *
 *     trace_grow [--gpu] RECORDED BYTES OUTPUT
 *
 * The first copy keeps its bytes. In further ones each run starts later, and is quicker by a random
 * part of up to an eighth: both ends of an event move alike, so that what was inside another event
 * stays inside; a node then loses up to a sixteenth of its own. All other bytes are the recorded
 * ones, with the order of arguments, which ONNX Runtime changes from event to event. With --gpu,
 * each node launches up to three kernels and sometimes a copy. The same input gives the same
 * output.
 *
 * The recorded trace is in memory, what is written isn't.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OUTPUT_BUFFER_BYTES (1 << 20)
#define NUMBER_DIGITS 20
#define GAP_US 50
#define NAME_BYTES_MAX 512

/* One line of the trace: three pieces of text, between them the duration and the time. */
struct event {
    const char *text;
    const char *dur_text, *ts_text;
    const char *after_dur, *after_ts;
    const char *end;
    int64_t dur, ts;
    bool is_node;
    uint32_t node_hash;
    const char *op_name;
    size_t op_name_length;
};

struct run {
    size_t first, end;
    int64_t start;
};

struct trace {
    struct event *events;
    struct run *runs;
    size_t n_events, n_runs;
    /* Events before the first run's: the loading of the model. */
    size_t n_loading;
    int64_t span;
};

struct output {
    FILE *file;
    uint64_t bytes;
    uint64_t random;
    bool gpu;
};

static _Noreturn void fail(const char *subject, const char *what)
{
    fprintf(stderr, "trace_grow: %s: %s\n", subject, what);
    exit(1);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        fail("memory", "none left");
    return memory;
}

/* xorshift64: quick, and the same everywhere. */
static uint64_t next_random(struct output *out)
{
    out->random ^= out->random << 13;
    out->random ^= out->random >> 7;
    out->random ^= out->random << 17;
    return out->random;
}

static uint32_t hash(const char *text, size_t length)
{
    uint32_t value = 2166136261u;
    for (size_t i = 0; i < length; i++)
        value = (value ^ (unsigned char)text[i]) * 16777619u;
    return value;
}

static char *read_file(const char *path, size_t *ret_bytes)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        fail(path, "cannot be read");
    long bytes = ftell(file);
    char *text = allocate((size_t)bytes + 1, 1);
    rewind(file);
    if (fread(text, 1, (size_t)bytes, file) != (size_t)bytes)
        fail(path, "cannot be read");
    fclose(file);
    *ret_bytes = (size_t)bytes;
    return text;
}

static const char *find(const char *text, const char *end, const char *key)
{
    size_t length = strlen(key);
    const char *found = memmem(text, (size_t)(end - text), key, length);
    return found ? found + length : NULL;
}

static _Noreturn void fail_event(void)
{
    fail("trace", "an event is not as ONNX Runtime writes it");
}

static size_t length_to_quote(const char *text, const char *end)
{
    const char *quote = memchr(text, '"', (size_t)(end - text));
    if (!quote || quote - text > NAME_BYTES_MAX)
        fail_event();
    return (size_t)(quote - text);
}

static struct event parse_event(const char *text, const char *end)
{
    struct event e = {.text = text, .end = end};
    const char *dur = find(text, end, "\"dur\" :");
    const char *ts = dur ? find(dur, end, "\"ts\" :") : NULL;
    const char *name = ts ? find(ts, end, "\"name\" :\"") : NULL;
    if (!name)
        fail_event();
    char *stop;
    e.dur_text = dur;
    e.dur = strtoll(dur, &stop, 10);
    e.after_dur = stop;
    e.ts_text = ts;
    e.ts = strtoll(ts, &stop, 10);
    e.after_ts = stop;
    const char *op_name = find(name, end, "\"op_name\" : \"");
    if (op_name) {
        e.is_node = true;
        e.node_hash = hash(name, length_to_quote(name, end));
        e.op_name = op_name;
        e.op_name_length = length_to_quote(op_name, end);
    }
    return e;
}

static bool ends_run(const struct event *e)
{
    static const char name[] = "\"name\" :\"model_run\"";
    return memmem(e->text, (size_t)(e->end - e->text), name, sizeof name - 1) != NULL;
}

static struct trace parse(char *text, size_t bytes)
{
    struct trace t = {0};
    size_t lines = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    t.events = allocate(lines + 1, sizeof *t.events);
    t.runs = allocate(lines + 1, sizeof *t.runs);
    const char *end = text + bytes;
    size_t first = 0;
    for (const char *line = text; line < end;) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        if (!stop)
            stop = end;
        const char *next = stop + 1;
        if (stop > line && stop[-1] == ',')
            stop--;
        if (stop > line && *line == '{') {
            t.events[t.n_events] = parse_event(line, stop);
            const struct event *e = &t.events[t.n_events++];
            if (e->is_node && first == 0)
                first = t.n_loading = t.n_events - 1;
            if (ends_run(e)) {
                t.runs[t.n_runs++] =
                    (struct run){.first = first, .end = t.n_events, .start = e->ts};
                first = t.n_events;
                t.span = e->ts + e->dur - t.runs[0].start + GAP_US;
            }
        }
        line = next;
    }
    if (t.n_runs == 0 || t.n_loading == 0)
        fail("trace", "there is no run in it");
    return t;
}

static void write_text(struct output *out, const char *text, size_t length)
{
    out->bytes += length;
    if (fwrite_unlocked(text, 1, length, out->file) != length)
        fail("output", "cannot be written");
}

static char *put_text(char *p, const char *text, size_t length)
{
    memcpy(p, text, length);
    return p + length;
}

static char *put_number(char *p, int64_t value)
{
    char digits[NUMBER_DIGITS];
    size_t n = 0;
    do {
        digits[n++] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    while (n > 0)
        *p++ = digits[--n];
    return p;
}

static void write_event(struct output *out, const struct event *e, int64_t dur, int64_t ts)
{
    char head[512];
    size_t before = (size_t)(e->dur_text - e->text);
    size_t between = (size_t)(e->ts_text - e->after_dur);
    if (before + between + 2 * NUMBER_DIGITS + 2 > sizeof head)
        fail_event();
    char *p = head;
    if (out->bytes > 2)
        p = put_text(p, ",\n", 2);
    p = put_text(p, e->text, before);
    p = put_number(p, dur);
    p = put_text(p, e->after_dur, between);
    p = put_number(p, ts);
    write_text(out, head, (size_t)(p - head));
    write_text(out, e->after_ts, (size_t)(e->end - e->after_ts));
}

static const char *const kernel_names[] = {
    "_ZN4nets4cuda18elementwise_kernelILi256ELi4EfNS0_7AddFuncIfEEEEvPT1_PKS4_T2_i",
    "_ZN4nets4cuda18elementwise_kernelILi256ELi4EfNS0_7MulFuncIfEEEEvPT1_PKS4_T2_i",
    "_ZN4nets4cuda18elementwise_kernelILi128ELi2E6__halfNS0_8GeluFuncIS2_EEEEvPT1_PKS5_T2_i",
    "_ZN4nets4cuda14softmax_kernelILi1024EffEEvPT0_PKT1_ii",
    "_ZN4nets4cuda17layer_norm_kernelIfffLi512EEEvPT_PKT0_PKT1_S7_if",
    "_ZN4nets4cuda13reduce_kernelINS0_6SumOpsIfEELi4EEEvT_PKfPfll",
    "_ZN4nets4cuda13reduce_kernelINS0_6MaxOpsIfEELi4EEEvT_PKfPfll",
    "_ZN4nets4cuda16transpose_kernelIfLi32ELi8EEEvPT_PKS2_iii",
    "_ZN4nets4cuda13gather_kernelIflEEvPT_PKS2_PKT0_ll",
    "_ZN4nets4gemm11tile_kernelINS0_6ConfigILi128ELi128ELi32ELb1EEEfEEvPKT0_S6_PS4_iii",
    "_ZN4nets4gemm11tile_kernelINS0_6ConfigILi256ELi64ELi16ELb0EEEfEEvPKT0_S6_PS4_iii",
    "_ZN4nets4gemm14splitk_combineIfLi8EEEvPT_PKS2_i",
    "_ZN4nets4conv15winograd_kernelILi4ELi3EfEEvPT1_PKS2_S5_iiii",
    "_ZN4nets4conv15implicit_kernelIfLi64ELi64EEEvPT_PKS2_S5_S5_iiiii",
    "_ZN4nets4conv16depthwise_kernelIfLi3ELi1EEEvPT_PKS2_S5_iii",
    "ampere_sgemm_128x64_tn",
};
#define N_KERNEL_NAMES (sizeof kernel_names / sizeof *kernel_names)

/* The order of a kernel's arguments is random too, as it is in recorded events. */
static void shuffle(struct output *out, uint8_t *items, size_t count)
{
    uint64_t random = next_random(out);
    for (size_t i = count; i > 1; i--) {
        size_t other = random % i;
        random /= i;
        uint8_t held = items[i - 1];
        items[i - 1] = items[other];
        items[other] = held;
    }
}

static void write_kernel(struct output *out, const struct event *node, const char *name,
                         const int dims[6], int64_t dur, int64_t ts)
{
    enum { N_DIMS = 6, OP_NAME = 6, STREAM = 7, N_ARGS = 8 };
    static const char *const keys[N_DIMS] = {"block_x", "block_y", "block_z",
                                             "grid_x",  "grid_y",  "grid_z"};
    uint8_t order[N_ARGS] = {0, 1, 2, 3, 4, 5, OP_NAME, STREAM};
    shuffle(out, order, N_ARGS);
    char line[1024];
    int n = snprintf(line, sizeof line,
                     ",\n{\"cat\" : \"Kernel\",\"pid\" :-1,\"tid\" :-1,\"dur\" :%" PRId64
                     ",\"ts\" :%" PRId64 ",\"ph\" : \"X\",\"name\" :\"%s\",\"args\" : {",
                     dur, ts, name);
    for (size_t i = 0; i < N_ARGS; i++) {
        char *p = line + n;
        size_t room = sizeof line - (size_t)n;
        const char *comma = i > 0 ? "," : "";
        if (order[i] == OP_NAME)
            n += snprintf(p, room, "%s\"op_name\" : \"%.*s\"", comma, (int)node->op_name_length,
                          node->op_name);
        else if (order[i] == STREAM)
            n += snprintf(p, room, "%s\"stream\" : \"13\"", comma);
        else
            n += snprintf(p, room, "%s\"%s\" : \"%d\"", comma, keys[order[i]], dims[order[i]]);
    }
    write_text(out, line, (size_t)n);
    write_text(out, "}}", 2);
}

/* A node launches the same kernels in each run; only their times vary. */
static void write_kernels(struct output *out, const struct event *node, int64_t dur, int64_t ts)
{
    uint32_t seed = node->node_hash;
    uint32_t kernels = seed % 3 + 1;
    for (uint32_t i = 0; i < kernels; i++) {
        uint32_t choice = (seed >> 3) + hash(node->op_name, node->op_name_length) + i * 7;
        int dims[] = {32 << (choice % 5),         1, 1, (int)(seed >> (8 + i) & 1023) + 1,
                      (int)(seed >> 20 & 15) + 1, 1};
        int64_t part = dur / (kernels + 1);
        write_kernel(out, node, kernel_names[choice % N_KERNEL_NAMES], dims,
                     part - (int64_t)(next_random(out) % ((uint64_t)part / 4 + 1)), ts + part * i);
    }
    if (seed % 8 == 0) {
        static const int none[] = {-1, -1, -1, -1, -1, -1};
        write_kernel(out, node, seed & 8 ? "MemcpyHostToDevice" : "MemcpyDeviceToDevice", none,
                     (int64_t)(next_random(out) % 8) + 1, ts + dur);
    }
}

static void write_run(struct output *out, const struct trace *t, const struct run *run,
                      int64_t later, bool as_recorded)
{
    enum { ONE = 1024 };
    int64_t scale = as_recorded ? ONE : ONE - (int64_t)(next_random(out) % (ONE / 8));
    for (size_t i = run->first; i < run->end; i++) {
        const struct event *e = &t->events[i];
        int64_t start = (e->ts - run->start) * scale / ONE;
        int64_t dur = (e->ts + e->dur - run->start) * scale / ONE - start;
        if (!as_recorded && e->is_node)
            dur -= (int64_t)(next_random(out) % ((uint64_t)dur / 16 + 1));
        write_event(out, e, dur, run->start + later + start);
        if (out->gpu && e->is_node)
            write_kernels(out, e, dur, run->start + later + start);
    }
}

int main(int argc, char **argv)
{
    bool gpu = argc > 1 && strcmp(argv[1], "--gpu") == 0;
    char **args = argv + 1 + gpu;
    if (argc - gpu != 4) {
        fprintf(stderr, "usage: trace_grow [--gpu] RECORDED BYTES OUTPUT\n");
        return 2;
    }
    size_t bytes;
    char *text = read_file(args[0], &bytes);
    struct trace t = parse(text, bytes);
    uint64_t wanted = strtoull(args[1], NULL, 10);
    struct output out = {.file = fopen(args[2], "wb"), .random = 0x9e3779b97f4a7c15u, .gpu = gpu};
    if (!out.file || setvbuf(out.file, NULL, _IOFBF, OUTPUT_BUFFER_BYTES) != 0)
        fail(args[2], "cannot be written");

    write_text(&out, "[\n", 2);
    for (size_t i = 0; i < t.n_loading; i++)
        write_event(&out, &t.events[i], t.events[i].dur, t.events[i].ts);
    size_t run = 0;
    int64_t later = 0;
    do {
        write_run(&out, &t, &t.runs[run], later, later == 0);
        if (++run == t.n_runs) {
            run = 0;
            later += t.span;
        }
    } while (out.bytes < wanted);
    write_text(&out, "\n]\n", 3);
    if (fclose(out.file) != 0)
        fail(args[2], "cannot be written");
    free(t.events);
    free(t.runs);
    free(text);
    return 0;
}
