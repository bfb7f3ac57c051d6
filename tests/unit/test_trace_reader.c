/*
 * The reader of events: however the stream is cut, whatever was read before, and whatever is broken
 * in it.
 */
#include "unit.h"

#include "base/buffer.h"
#include "base/random.h"
#include "trace/event.h"
#include "trace/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <zlib.h>

struct setup {
    size_t step;
    size_t window;
    bool recover;
    size_t symbols_max; /* 0: many */
    bool two_threads;
};

struct outcome {
    struct prn_buffer events; /* a line each */
    struct prn_trace_reader_counts counts;
    int code;
    struct prony_error err;
    char first_fault[PRONY_ERROR_TEXT_SIZE];
};

static const char *text_of(const struct prn_symbol *symbol)
{
    return symbol ? symbol->text : "-";
}

static void describe(struct prn_buffer *out, const struct prn_trace_event *e)
{
    static const char *const categories[] = {"none", "node", "kernel", "api", "session", "other"};
    prn_buffer_printf(out, "%s", categories[e->category]);
    if (e->category != PRN_TRACE_NONE)
        prn_buffer_printf(out, " %" PRId64 "+%" PRId64 " %" PRIx64 " %s %d %s %s %s %s %.*s",
                          e->start_ns, e->duration_ns, (uint64_t)e->thread, e->name->symbol.text,
                          e->name->role, text_of(e->op), text_of(e->provider), text_of(e->shape),
                          text_of(e->dimensions), (int)e->args_len, e->args);
    prn_buffer_add_char(out, '\n');
}

static void read_all(const char *text, size_t len, const struct setup *setup, struct outcome *ret)
{
    *ret = (struct outcome){.events = PRN_BUFFER_INIT((size_t)64 << 20)};
    struct prn_source *source;
    assert_int_equal(prn_source_open_memory(text, len, setup->step, &source, &ret->err), 0);
    struct prn_trace_reader_options options = {.recover = setup->recover,
                                               .want_shapes = true,
                                               .want_dimensions = true,
                                               .symbols_max =
                                                   setup->symbols_max ? setup->symbols_max : 10000,
                                               .window_bytes = setup->window,
                                               .two_threads = setup->two_threads};
    struct prn_trace_reader *reader;
    assert_int_equal(prn_trace_reader_new(source, &options, &reader, &ret->err), 0);
    struct prn_trace_event event;
    while ((ret->code = prn_trace_reader_next(reader, &event, &ret->err)) > 0)
        describe(&ret->events, &event);
    ret->counts = *prn_trace_reader_counts(reader);
    const char *fault = prn_trace_reader_first_fault(reader);
    snprintf(ret->first_fault, sizeof ret->first_fault, "%s", fault ? fault : "");
    prn_trace_reader_free(reader);
    prn_source_close(source);
}

static void release(struct outcome *o)
{
    prn_buffer_release(&o->events);
}

static void assert_same(const struct outcome *a, const struct outcome *b, const char *what,
                        size_t at)
{
    if (a->code != b->code ||
        strcmp(prn_buffer_text(&a->events), prn_buffer_text(&b->events)) != 0 ||
        (a->code < 0 && strcmp(a->err.text, b->err.text) != 0) ||
        strcmp(a->first_fault, b->first_fault) != 0 || a->counts.events != b->counts.events ||
        a->counts.passed_over != b->counts.passed_over || a->counts.lost != b->counts.lost)
        fail_msg("%s %zu: %d and %d, '%s' and '%s', %" PRIu64 " and %" PRIu64 " lost, events\n%s"
                 "and\n%s",
                 what, at, a->code, b->code, a->err.text, b->err.text, a->counts.lost,
                 b->counts.lost, prn_buffer_text(&a->events), prn_buffer_text(&b->events));
}

/* A text reads the same in one piece and in pieces of any size, through windows of any size. */
static void assert_split_anywhere(const char *text, size_t len)
{
    for (int recover = 0; recover < 2; recover++) {
        struct outcome whole;
        read_all(text, len, &(struct setup){.recover = recover}, &whole);
        for (size_t step = 1; step < len; step += step < 300 ? 1 : 97) {
            struct outcome split;
            read_all(text, len, &(struct setup){step, 1 + step % 7, recover, 0, false}, &split);
            assert_same(&whole, &split, "step", step);
            release(&split);
            if (step % 5)
                continue;
            read_all(text, len, &(struct setup){step, 10 * step, recover, 0, true}, &split);
            assert_same(&whole, &split, "with two threads, step", step);
            release(&split);
        }
        release(&whole);
    }
}

#define NODE(name, op, more)                                                             \
    "{\"cat\" : \"Node\",\"pid\" :7,\"tid\" :8,\"dur\" :5,\"ts\" :10,\"ph\" : \"X\","    \
    "\"name\" :\"" name "\",\"args\" : {\"op_name\" : \"" op "\",\"provider\" : \"CPU\"" \
    "" more "}}"
#define SHAPES ",\"input_type_shape\" : [{\"float\":[1,3]},{\"int64\":[]}]"
#define RUN                                                                        \
    "{\"cat\" : \"Session\",\"pid\" :7,\"tid\" :8,\"dur\" :50,\"ts\" :1,\"ph\" : " \
    "\"X\",\"name\" :\"model_run\",\"args\" : {}}"
#define KERNEL                                                                         \
    "{\"cat\" : \"Kernel\",\"pid\" :-1,\"tid\" :-1,\"dur\" :4,\"ts\" :677,\"ph\" : "   \
    "\"X\",\"name\" :\"_Z3addPf\",\"args\" : {\"op_name\" : \"Add\",\"stream\" : "     \
    "\"13\",\"block_x\" : \"256\",\"block_y\" : \"1\",\"block_z\" : \"1\",\"grid_x\" " \
    ": \"2\",\"grid_y\" : \"3\",\"grid_z\" : \"4\"}}"

static const char plain[] =
    "[\n" RUN ",\n" NODE("a_kernel_time", "Add", SHAPES) ",\n" KERNEL ",\n" RUN "\n]\n";

static void test_events(void **state)
{
    (void)state;
    struct prn_source *source;
    struct prn_trace_reader *reader;
    struct prn_trace_event e;
    struct prony_error err;
    assert_int_equal(prn_source_open_memory(plain, strlen(plain), 0, &source, &err), 0);
    struct prn_trace_reader_options options = {
        .want_shapes = true, .want_dimensions = true, .symbols_max = 10};
    assert_int_equal(prn_trace_reader_new(source, &options, &reader, &err), 0);
    assert_int_equal(prn_trace_reader_next(reader, &e, &err), 1);
    assert_int_equal(e.category, PRN_TRACE_SESSION);
    assert_int_equal(e.name->role, PRN_TRACE_ROLE_MODEL_RUN);
    assert_int_equal(e.start_ns, 1000);
    assert_int_equal(e.duration_ns, 50000);
    assert_null(e.op);
    const struct prn_trace_name *run = e.name;
    assert_int_equal(prn_trace_reader_next(reader, &e, &err), 1);
    assert_int_equal(e.category, PRN_TRACE_NODE);
    assert_int_equal(e.name->role, PRN_TRACE_ROLE_KERNEL_TIME);
    assert_string_equal(e.name->symbol.text, "a_kernel_time");
    assert_string_equal(e.op->text, "Add");
    assert_string_equal(e.provider->text, "CPU");
    assert_string_equal(e.shape->text, "float(1x3),int64()");
    assert_null(e.dimensions);
    const struct prn_symbol *add = e.op;
    assert_int_equal(prn_trace_reader_next(reader, &e, &err), 1);
    assert_int_equal(e.category, PRN_TRACE_KERNEL);
    assert_string_equal(e.dimensions->text, "b256x1x1,g2x3x4");
    assert_ptr_equal(e.op, add);
    assert_memory_equal(e.args, "{\"op_name\"", 10);
    assert_int_equal(e.args[e.args_len - 1], '}');
    assert_int_equal(prn_trace_reader_next(reader, &e, &err), 1);
    assert_ptr_equal(e.name, run);
    assert_int_equal(prn_trace_reader_next(reader, &e, &err), 0);
    assert_int_equal(prn_trace_reader_next(reader, &e, &err), 0);
    assert_int_equal(prn_trace_reader_counts(reader)->bytes, strlen(plain));
    assert_int_equal(prn_trace_reader_counts(reader)->events, 4);
    assert_null(prn_trace_reader_first_fault(reader));
    prn_trace_reader_free(reader);
    prn_trace_reader_free(NULL);
    prn_source_close(source);
}

static void test_split_anywhere(void **state)
{
    (void)state;
    assert_split_anywhere(plain, strlen(plain));
    static const char *const texts[] = {
        "\xef\xbb\xbf [" RUN " , " RUN " ] ",
        "{\"a\":[{\"b\":null}],\"traceEvents\":[" RUN "," KERNEL
        "],\"c\":\"\\u00e9\xc3\xa9\",\"d\":1}",
        "[\n" RUN ",\n" NODE("a\"b_kernel_time", "Add", SHAPES) ",\n" KERNEL ",\n" RUN "\n]\n",
        "[" RUN "," NODE("\xf0\x9f\x98\xb9\\ud83d\\ude39\xe9_kernel_time", "Add", "") "," RUN "]",
        "[" RUN ",,\n\n" RUN " " RUN "\n,\n]",
        "[ { \n                                                                        \"cat\":1, "
        "{                                                      \"cat\":\"x\"},"
        "{                                                       \"ts\":1}," RUN "]",
        "[" RUN "," NODE("a", "Add", ",\"input_type_shape\":[{\"float\":[1],\"int\":[2]}]") "," RUN,
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(texts); i++)
        assert_split_anywhere(texts[i], strlen(texts[i]));
}

/* The same event in other spellings. */
static void test_spellings(void **state)
{
    (void)state;
    static const char *const same[] = {
        "[" NODE("a_kernel_time", "Add", SHAPES) "]",
        "{\"traceEvents\":[" NODE("a_kernel_time", "Add", SHAPES) "]}",
        "{\"displayTimeUnit\":\"ms\",\"traceEvents\" : [" NODE(
            "a_kernel_time", "Add", SHAPES) "] , \"otherData\":{\"name\":[1,{}]},\"x\":-1.5e3 }",
        "{\"\\u0074raceEvents\":[" NODE("a_kernel_time", "Add", SHAPES) "]}",
        "[{\"args\":{\"input_type_shape\" : "
        "[{\"float\":[1,3]},{\"int64\":[]}],\"provider\":\"CPU\","
        "\"op_name\":\"Add\"},\"name\":\"a_kernel_time\",\"ph\":\"X\",\"ts\":10,\"dur\":5,\"tid\":"
        "8,"
        "\"pid\":7,\"cat\":\"Node\"}]",
        "[\n  {\n    \"name\": \"a_kernel_time\",\n    \"cat\": \"Node\",\n    \"ts\": 10,\n"
        "    \"dur\": 5,\n    \"tid\": 8,\n    \"args\": {\n      \"op_name\": \"Add\",\n"
        "      \"provider\": \"CPU\",\n      \"input_type_shape\": [\n        {\n          "
        "\"float\": "
        "[\n            1,\n            3\n          ]\n        },\n        {\n          "
        "\"int64\": "
        "[]\n        }\n      ]\n    }\n  }\n]\n",
        "[{\"\\u0063at\":\"N\\u006fde\",\"na\\u006de\":\"a\\u005fkernel_time\",\"\\u0074s\":1e1,"
        "\"dur\":5.000,\"tid\":8,\"\\u0061rgs\":{"
        "\"\\u006f\\u0070\\u005f\\u006e\\u0061\\u006d\\u0065\":"
        "\"\\u0041dd\",\"provider\":\"\\u0043PU\","
        "\"\\u0069\\u006e\\u0070\\u0075\\u0074\\u005f\\u0074\\"
        "u0079\\u0070\\u0065\\u005f\\u0073\\u0068\\u0061\\u0070\\u0065\":[{\"f\\u006coat\":[1,3]},{"
        "\"int64\":[]}]}}]",
        "[{\"cat\":\"Node\",\"name\":null,\"name\":\"a_kernel_time\",\"ts\":0.01e3,\"dur\":50e-1,"
        "\"tid\":8,\"unknown\":{\"a\":[]},\"unknown\":1,\"args\":{\"op_name\":\"Add\",\"provider\":"
        "\"CPU\",\"block_x\":null,\"stream\":null,\"output_type_shape\":null,\"x\":null,"
        "\"input_type_shape\":\"float(1x3),int64()\"}}]",
    };
    struct prn_buffer first = PRN_BUFFER_INIT(10000);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(same); i++) {
        struct outcome o;
        read_all(same[i], strlen(same[i]), &(struct setup){0}, &o);
        if (o.code < 0)
            fail_msg("text %zu: %s", i, o.err.text);
        char *args = strstr(o.events.data, " {"); /* those are as they stand */
        assert_non_null(args);
        *args = '\0';
        if (i == 0)
            prn_buffer_add(&first, o.events.data);
        assert_string_equal(o.events.data, prn_buffer_text(&first));
        release(&o);
    }
    prn_buffer_release(&first);
}

static void test_passed_over(void **state)
{
    (void)state;
    static const char *const events[] = {
        "{}",
        "{\"cat\":\"Node\"}",
        "{\"name\":\"a\",\"dur\":1,\"args\":{}}",
        "{\"cat\":null,\"name\":\"a\",\"dur\":1,\"args\":{}}",
        "{\"cat\":\"Node\",\"dur\":1,\"args\":{}}",
        "{\"cat\":\"Node\",\"name\":\"a\",\"args\":{}}",
        "{\"cat\":\"Node\",\"name\":\"a\",\"dur\":null,\"args\":{}}",
        "{\"cat\":\"Node\",\"name\":\"a\",\"dur\":1}",
        "{\"cat\":\"Node\",\"name\":\"a\",\"dur\":1,\"args\":null}",
        "{\"cat\":\"Node\",\"name\":null,\"dur\":1,\"args\":{}}",
        "{\"cat\":\"\",\"dur\":1,\"name\":\"\",\"args\":{\"input_type_shape\":[{\"f\":[1],\"g\":[]}"
        "]}}",
        "{\"cat\":\"\",\"dur\":1,\"name\":\"\",\"args\":{\"input_type_shape\":[{\"f\":[1],\"g\":[]}"
        "]}}",
    };
    struct prn_buffer text = PRN_BUFFER_INIT(10000);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(events); i++)
        prn_buffer_printf(&text, "%s%s", i ? "," : "[", events[i]);
    prn_buffer_add(&text, "," RUN "]");
    struct outcome o;
    read_all(text.data, text.len, &(struct setup){0}, &o);
    assert_int_equal(o.code, 0);
    assert_int_equal(o.counts.events, PRN_ARRAY_SIZE(events) + 1);
    assert_int_equal(o.counts.passed_over, PRN_ARRAY_SIZE(events));
    release(&o);
    prn_buffer_release(&text);
}

static void test_dimensions(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "b-1x-1x-1,g-1x-1x-1"},
        {"\"block_x\":\"256\"", "b256x-1x-1,g-1x-1x-1"},
        {"\"grid_z\":\"4\",\"block_y\":2", "b-1x2x-1,g-1x-1x4"},
        {"\"block_x\":null,\"grid_x\":\"\"", "b-1x-1x-1,gx-1x-1"},
        {"\"block_x\":\"-1\",\"grid_y\":-1", "b-1x-1x-1,g-1x-1x-1"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        char text[300];
        int n =
            snprintf(text, sizeof text,
                     "[{\"cat\":\"Kernel\",\"name\":\"k\",\"dur\":1,\"args\":{%s}}]", cases[i][0]);
        struct outcome o;
        read_all(text, (size_t)n, &(struct setup){0}, &o);
        assert_int_equal(o.code, 0);
        assert_contains(o.events.data, cases[i][1]);
        release(&o);
    }
}

/* ---- Faults ---- */

struct fault {
    const char *text;
    const char *message; /* from the byte on */
};

/* Bytes are counted from 0 and lines from 1, by hand. */
static const struct fault faults[] = {
    {"", "byte 0, line 1: the file is empty; 0 events before it"},
    {" \n ", "byte 3, line 2: the file is empty; 0 events before it"},
    {"x", "byte 0, line 1: not a trace: it is neither a JSON array nor an object; 0 events"},
    {"\n\n 12", "byte 3, line 3: not a trace"},
    {"\xef\xbb\xbf\"a\"", "byte 3, line 1: not a trace"},
    {"\xef\xbb[", "byte 0, line 1: not a trace"},
    {"\x7f\x45\x4c\x46", "byte 0, line 1: not a trace: it is a program or library"},
    {"PK\x03\x04", "byte 0, line 1: not a trace: it is a ZIP archive"},
    {"<!DOCTYPE html>", "byte 0, line 1: not a trace: it is an HTML page"},
    {"\x08\x08\x12", "byte 0, line 1: not a trace: it is an ONNX model"},
    {"{\"schema\":\"prony.profile/1\",\"a\":1}",
     "byte 33, line 1: not a trace: it is saved by prony (prony.profile/1)"},
    {"{}", "byte 1, line 1: not a trace: it has no \"traceEvents\""},
    {"{\"a\":1\n}", "byte 7, line 2: not a trace: it has no \"traceEvents\""},
    {"{\"traceEvents\":{}}", "byte 15, line 1: \"traceEvents\" is not an array"},
    {"{\"traceEvents\":[],\n\"traceEvents\":[]}", "byte 19, line 2: a duplicate key"},
    {"{\"traceEvents\":[] \"a\":1}", "byte 18, line 1: expected ',' or '}' here"},
    {"{\"traceEvents\":[],}", "byte 18, line 1: expected a key here"},
    {"{\"traceEvents\":[],\"a\"}", "byte 21, line 1: expected ':' here"},
    {"{\"traceEvents\":[],\"a\":x}", "byte 22, line 1: not a value"},
    {"{\"traceEvents\":[]", "byte 17, line 1: the trace is cut off; 0 events"},
    {"[", "byte 1, line 1: the trace is cut off inside an event; 0 events before it (--recover"},
    {"[1]", "byte 1, line 1: expected an event here; 0 events before it (--recover"},
    {"[{},1]", "byte 4, line 1: expected an event here; 1 event before it"},
    {"[{},\n]", "byte 5, line 2: expected an event here; 1 event before it"},
    {"[,{}]", "byte 1, line 1: expected an event here"},
    {"[{},,{}]", "byte 4, line 1: expected an event here; 1 event"},
    {"[{}\n{}]", "byte 4, line 2: expected ',' or ']' here; 1 event"},
    {"[{}}]", "byte 3, line 1: expected ',' or ']' here"},
    {"[{},{}", "byte 6, line 1: the trace is cut off; 2 events before it"},
    {"[{},{", "byte 5, line 1: the trace is cut off inside an event; 1 event before it"},
    {"[{}]]", "byte 4, line 1: there is text after the end of the trace; 1 event"},
    {"[{}]\n[{}]", "byte 5, line 2: there is text after the end"},
    {"[{]", "byte 2, line 1: expected a key here"},
    {"[{\"a\":1,}]", "byte 8, line 1: expected a key here"},
    {"[{\"a\" 1}]", "byte 6, line 1: expected ':' here"},
    {"[{\"a\":1 \"b\":2}]", "byte 8, line 1: expected ',' or '}' here"},
    {"[{\"ts\":\"1\"}]", "byte 7, line 1: expected a number here"},
    {"[{\"ts\":1e30}]", "byte 7, line 1: a time that is out of range"},
    {"[{\"dur\":-1}]", "byte 8, line 1: a negative duration"},
    {"[{\"dur\":01}]", "byte 8, line 1: a number with a leading zero"},
    {"[{\"dur\":1.}]", "byte 10, line 1: expected a digit here"},
    {"[{\"cat\":1}]", "byte 8, line 1: expected a string here"},
    {"[{\"name\":1}]", "byte 9, line 1: expected a string here"},
    {"[{\"args\":[]}]", "byte 9, line 1: args is not an object"},
    {"[{\"args\":{,}}]", "byte 10, line 1: expected a key here"},
    {"[{\"args\":{\"op_name\":1}}]", "byte 20, line 1: expected a string here"},
    {"[{\"args\":{\"block_x\":[]}}]", "byte 20, line 1: not a dimension of a kernel"},
    {"[{\"args\":{\"block_x\":\"123456789012345678901234567890123\"}}]",
     "byte 20, line 1: not a dimension of a kernel"},
    {"[{\"args\":{\"input_type_shape\":1}}]", "byte 29, line 1: expected a list of shapes here"},
    {"[{\"ts\":1,\n\"ts\":2}]", "byte 10, line 2: a duplicate key"},
    {"[{\"args\":{\"op_name\":\"a\",\"op_\\u006eame\":\"a\"}}]",
     "byte 24, line 1: a duplicate key"},
    {"[{\"name\":\"a\nb\"}]", "byte 11, line 1: a control character inside a string"},
    {"[{\"name\":\"a\"b\"}]", "byte 12, line 1: expected ',' or '}' here"},
    {"[{\"name\":\"a\\b\\c\"}]", "byte 14, line 1: invalid escape"},
    {"[{\"name\":\"\\u12x4\"}]", "byte 14, line 1: \\u needs four hexadecimal digits"},
    {"[{\"name\":\"ab\xff\"}]", "byte 12, line 1: not UTF-8"},
    {"[{\"name\":\"ab\xe2\x82\"}]", "byte 12, line 1: not UTF-8"},
    {"[{\"x\":tru}]", "byte 9, line 1: not a value"},
    {"[{\"x\":[1,]}]", "byte 9, line 1: not a value"},
    {"[{\"cat\":\"\",\"dur\":1,\"name\":\"\",\"args\":{\"input_type_shape\":[1]}}]",
     "byte 57, line 1: expected a shape here"},
    {"[{\"cat\":\"\",\"dur\":1,\"name\":\"\",\"args\":{\"input_type_shape\":[{\"f\":1}]}}]",
     "byte 62, line 1: a list of dimensions is missing"},
    {"[{\"cat\":\"\",\"dur\":1,\"name\":\"\",\"args\":{\"output_type_shape\":[{\"f\":[null]}]}}]",
     "byte 64, line 1: a dimension that is not a number"},
};

static void test_faults(void **state)
{
    (void)state;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(faults); i++) {
        char expected[300];
        snprintf(expected, sizeof expected, "'memory': %s", faults[i].message);
        size_t len = strlen(faults[i].text);
        for (size_t step = 0; step < 4; step++) {
            struct outcome o;
            read_all(faults[i].text, len, &(struct setup){.step = step, .window = step}, &o);
            if (o.code != PRONY_EFORMAT || strncmp(o.err.text, expected, strlen(expected)) != 0)
                fail_msg("%s\ngave %d '%s'", faults[i].text, o.code, o.err.text);
            release(&o);
        }
    }
    /* A NUL is as wrong as anything. */
    static const char nul[] = "[{\"name\":\"a\0\"}]";
    struct outcome o;
    read_all(nul, sizeof nul - 1, &(struct setup){0}, &o);
    assert_contains(o.err.text, "byte 11, line 1: a control character inside a string");
    release(&o);
}

/* Over many windows, the byte and the line are still right. */
static void test_fault_far_away(void **state)
{
    (void)state;
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)8 << 20);
    prn_buffer_add(&text, "[\n");
    for (int i = 0; i < 4000; i++)
        prn_buffer_add(&text, RUN ",\n\n");
    char expected[100];
    snprintf(expected, sizeof expected, "byte %zu, line 8002: expected an event here; 4000 events",
             text.len);
    prn_buffer_add(&text, "!");
    for (size_t step = 0; step < 3; step++) {
        struct outcome o;
        read_all(text.data, text.len, &(struct setup){step * 100, step * 50, false, 0, false}, &o);
        assert_contains(o.err.text, expected);
        release(&o);
    }
    prn_buffer_release(&text);
}

static size_t count_lines(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* Cut at any byte: a message, and with recovery all events that were whole. */
static void test_cut_anywhere(void **state)
{
    (void)state;
    static const char *const texts[] = {
        plain,
        "{\"a\":{\"name\":1},\"traceEvents\":[" RUN
        ",\n" NODE("a_kernel_time", "Add", SHAPES) "],\"b\":[1,{\"cat\":2}]}",
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(texts); i++) {
        struct outcome whole;
        read_all(texts[i], strlen(texts[i]), &(struct setup){0}, &whole);
        assert_int_equal(whole.code, 0);
        size_t end = strlen(texts[i]) - (i == 0 ? 1 : 0); /* a last newline isn't missed */
        size_t begin = (size_t)(strchr(texts[i], '[') + 1 - texts[i]);
        const char *last_bracket = strstr(texts[i], i == 0 ? "\n]" : "],\"b\"");
        for (size_t len = 0; len < end; len++) {
            struct outcome strict, lenient;
            read_all(texts[i], len, &(struct setup){0}, &strict);
            read_all(texts[i], len, &(struct setup){.recover = true}, &lenient);
            assert_int_equal(strict.code, PRONY_EFORMAT);
            assert_contains(strict.err.text, len == 0 ? "is empty" : "cut off");
            char place[40];
            snprintf(place, sizeof place, "byte %zu, ", len);
            assert_contains(strict.err.text, place);
            if (len < begin) {
                assert_int_equal(lenient.code, PRONY_EFORMAT);
            } else {
                assert_int_equal(lenient.code, 0);
                const char *events = prn_buffer_text(&lenient.events);
                assert_string_equal(events, prn_buffer_text(&strict.events));
                assert_memory_equal(events, prn_buffer_text(&whole.events), strlen(events));
                assert_string_not_equal(lenient.first_fault, "");
                /* One event is lost where the cut went through one. */
                bool inside = texts[i] + len < last_bracket && texts[i][len - 1] != ',' &&
                              texts[i][len - 1] != '[' && texts[i][len - 1] != '\n' &&
                              strncmp(texts[i] + len - 2, "}}", 2) != 0 &&
                              strncmp(texts[i] + len - 3, "{}}", 3) != 0;
                if (inside)
                    assert_int_equal(lenient.counts.lost, 1);
                assert_in_range(lenient.counts.lost, 0, 1);
                assert_int_equal(count_lines(events), lenient.counts.events);
            }
            release(&strict);
            release(&lenient);
        }
        release(&whole);
    }
}

/* What is broken in the middle of others, the number that is lost with it, and the fault. */
static void test_recover(void **state)
{
    (void)state;
#define BROKEN "{\"cat\" : \"Node\",\"pid\" :7,\"dur\" 5,\"name\" :\"a_kernel_time\"}"
    static const struct {
        const char *text; /* %s stands for a good event */
        unsigned good, lost, repaired;
        const char *fault;
    } cases[] = {
        {"[\n" BROKEN ",\n%s,\n%s\n]", 2, 1, 0, "byte 33, line 2"},
        {"[\n%s,\n" BROKEN ",\n%s\n]", 2, 1, 0, "line 3"},
        {"[\n%s,\n%s,\n" BROKEN "\n]", 2, 1, 0, "line 4"},
        {"[" BROKEN ",%s,%s]", 2, 1, 0, "byte 32, line 1"},
        {"[%s," BROKEN ",%s]", 2, 1, 0, "line 1"},
        {"[%s,%s," BROKEN "]", 2, 1, 0, "line 1"},
        {"[%s,  \n " NODE("a\\b\\c_kernel_time", "Add", "") " \n ,  \n%s]", 3, 0, 1, ""},
        {"[\n%s,\n" NODE("a\\", "Add", "") ",\n%s\n]", 3, 0, 1, ""},
        {"[\n%s,\n" NODE("\"", "Add", "") ",\n" NODE("\"\"", "Add", "") ",\n%s\n]", 4, 0, 2, ""},
        {"[%s,\n" NODE("a\",\"cat\":\"b", "Add", "") ",%s]", 3, 0, 1, ""},
        {"[%s,\n" NODE("a\xff", "Add", "") ",%s]", 2, 1, 0, "not UTF-8"},
        {"[%s %s]", 2, 0, 0, "expected ',' or ']' here"},
        {"[%s\n%s\n%s]", 3, 0, 0, "line 2: expected ',' or ']' here"},
        {"[%s,,%s]", 2, 0, 0, "expected an event here"},
        {"[,%s,\n,\n,%s,\n]", 2, 0, 0, "byte 1, line 1: expected an event here"},
        {"{\"traceEvents\":[%s,],\"x\":1}", 1, 0, 0, "expected an event here"},
        {"[%s,1,%s]", 2, 1, 0, "expected an event here"},
        {"[%s,null,%s]", 2, 1, 0, "expected an event here"},
        {"[%s,{\"cat\":\"Node\",\"args\":{\"a\":[,%s,%s]", 3, 1, 0, "not a value"},
        {"[%s,{\"ts\":1,\"dur\":-5},%s]", 2, 1, 0, "a negative duration"},
        {"[%s,{\"ts\":99999999999999999999},%s]", 2, 1, 0, "a time that is out of range"},
        {"[%s,{\"pid\":[%s,%s", 3, 1, 0, "the trace is cut off inside an event"},
        {"[%s]trailing", 1, 0, 0, "text after the end of the trace"},
        {"{\"traceEvents\":[%s],\"a\":}", 1, 0, 0, "not a value"},
        {"{\"traceEvents\":[%s]", 1, 0, 0, "the trace is cut off"},
        {"{\"traceEvents\":[%s],\"a\":[1", 1, 0, 0, "the trace is cut off"},
        {"[garbage", 0, 1, 0, "expected an event here"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_buffer text = PRN_BUFFER_INIT(10000);
        const char *p = cases[i].text;
        for (const char *next; (next = strstr(p, "%s")); p = next + 2) {
            prn_buffer_append(&text, p, (size_t)(next - p));
            prn_buffer_add(&text, RUN);
        }
        prn_buffer_add(&text, p);
        for (size_t step = 0; step < 9; step++) {
            struct outcome o;
            read_all(text.data, text.len, &(struct setup){step, step, true, 0, step % 2}, &o);
            if (o.code != 0 || o.counts.lost != cases[i].lost || o.counts.events != cases[i].good ||
                o.counts.repaired != cases[i].repaired || !strstr(o.first_fault, cases[i].fault))
                fail_msg("%s\ngave %d, %" PRIu64 " events, %" PRIu64 " lost, %" PRIu64
                         " repaired, '%s'",
                         text.data, o.code, o.counts.events, o.counts.lost, o.counts.repaired,
                         o.first_fault);
            assert_null(strstr(prn_buffer_text(&o.events), "none"));
            release(&o);
        }
        prn_buffer_release(&text);
    }
}

static void test_deep_nesting(void **state)
{
    (void)state;
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 20);
    prn_buffer_add(&text, "[" RUN ",{\"x\":");
    size_t begin = text.len;
    for (int i = 0; i < 100000; i++)
        prn_buffer_add_char(&text, '[');
    struct outcome o;
    read_all(text.data, text.len, &(struct setup){0}, &o);
    char place[60];
    snprintf(place, sizeof place, "byte %zu, line 1: nested too deeply", begin + 512);
    assert_contains(o.err.text, place);
    release(&o);
    read_all(text.data, text.len, &(struct setup){.recover = true}, &o);
    assert_int_equal(o.code, 0);
    assert_int_equal(o.counts.lost, 1);
    release(&o);
    prn_buffer_release(&text);
}

/* Brackets that are never closed: each event hides the next ones, and reading all of it again for
 * each would take 500 times as long. */
static void test_hidden_events(void **state)
{
    (void)state;
    enum { EVENTS = 500, BYTES = 2000 };
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)2 << 20);
    prn_buffer_add(&text, "[" RUN ",");
    for (int i = 0; i < EVENTS; i++) {
        prn_buffer_add(&text, "{\"pid\":[");
        for (int k = 0; k < BYTES / 2; k++)
            prn_buffer_add(&text, "0,");
    }
    struct outcome o;
    read_all(text.data, text.len, &(struct setup){.recover = true}, &o);
    assert_int_equal(o.code, 0);
    assert_int_equal(o.counts.events, 1);
    assert_in_range(o.counts.lost, 20, EVENTS / 2);
    release(&o);
    prn_buffer_release(&text);
}

/* Not a trace, and too much of it: nothing that could be called an event. */
static void test_huge_value_before_events(void **state)
{
    (void)state;
    struct prn_buffer text = PRN_BUFFER_INIT(2 * PRN_TRACE_EVENT_MAX);
    prn_buffer_add(&text, "{\"samples\":[");
    while (text.len <= PRN_TRACE_EVENT_MAX + (4 << 20))
        prn_buffer_add(&text, "12345678,12345678,12345678,12345678,");
    struct outcome o;
    read_all(text.data, text.len, &(struct setup){.recover = true}, &o);
    assert_int_equal(o.code, PRONY_ELIMIT);
    assert_contains(o.err.text, "a value of over 16 MiB before any event; 0 events");
    release(&o);
    prn_buffer_release(&text);
}

/* An event of just under 16 MiB is read, one over it isn't, whatever it is that is long. */
static void test_huge_events(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "{\"cat\":\"Node\",\"name\":\"",
        "{\"a\\n",
        "{\"cat\":\"Node\",\"dur\":1,\"args\":{},\"name\":\"\\u0041",
        "{\"cat\":\"Node\",\"dur\":1,\"name\":\"x\",\"args\":{\"op_name\":\"\\n",
        "{\"cat\":\"Node\",\"dur\":1,\"name\":\"x\",\"args\":{\"input_type_shape\":\"",
    };
    static const char *const tails[] = {"\"}", "\":1}", "\"}", "\"}}", "\"}}"};
    size_t size = PRN_TRACE_EVENT_MAX + 1000;
    char *text = malloc(size);
    assert_non_null(text);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(heads); i++)
        for (int over = 0; over < 2; over++) {
            memset(text, 'x', size);
            text[0] = '[';
            memcpy(text + 1, heads[i], strlen(heads[i]));
            size_t end = over ? size : PRN_TRACE_EVENT_MAX - 10;
            memcpy(text + end - strlen(tails[i]) - 1, tails[i], strlen(tails[i]));
            text[end - 1] = ']';
            struct outcome o;
            read_all(text, end, &(struct setup){.two_threads = i % 2}, &o);
            if (over) {
                struct outcome lost;
                read_all(text, end, &(struct setup){.recover = true, .two_threads = i % 2}, &lost);
                assert_int_equal(lost.code, 0);
                assert_int_equal(lost.counts.lost, 1);
                assert_contains(lost.first_fault, "an event of over 16 MiB");
                release(&lost);
                assert_int_equal(o.code, PRONY_ELIMIT);
                assert_contains(o.err.text, "byte 1, line 1: an event of over 16 MiB; 0 events");
            } else if (o.code != 0 || o.counts.events != 1) {
                /* Texts that are kept have a limit of their own. */
                fail_msg("head %zu: %d, '%s'", i, o.code, o.err.text);
            }
            release(&o);
        }
    free(text);
}

/* Names beyond the limit still come out right; other texts say what there is too much of. */
static void test_limits(void **state)
{
    (void)state;
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)1 << 20);
    for (int kind = 0; kind < 4; kind++) {
        prn_buffer_clear(&text);
        for (int i = 0; i < 30; i++) {
            int n = i % 10;
            prn_buffer_printf(&text,
                              "%s{\"cat\":\"%s\",\"dur\":%d,\"name\":\"n%d_kernel_time\",\"args\":{"
                              "\"op_name\":\"o%d\",\"input_type_shape\":[{\"f\":[%d]}],\"block_x\":"
                              "%d}}",
                              i ? "," : "[", kind == 3 ? "Kernel" : "Node", i, n, kind == 1 ? n : 0,
                              kind == 2 ? n : 0, kind == 3 ? n : 0);
        }
        prn_buffer_add(&text, "]");
        struct outcome few, many;
        read_all(text.data, text.len, &(struct setup){.symbols_max = 4}, &few);
        read_all(text.data, text.len, &(struct setup){0}, &many);
        static const char *const over[] = {"", "operators", "input shapes", "kernel dimensions"};
        if (kind == 0) {
            assert_same(&few, &many, "kind", 0);
        } else {
            assert_int_equal(few.code, PRONY_ELIMIT);
            char expected[60];
            snprintf(expected, sizeof expected, "over 4 distinct %s", over[kind]);
            assert_contains(few.err.text, expected);
        }
        release(&few);
        release(&many);
    }
    prn_buffer_release(&text);
}

/* Compressed data that ends in the middle: what came before is there. */
static void test_damaged_stream(void **state)
{
    (void)state;
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)8 << 20);
    prn_buffer_add(&text, "[\n" NODE("a\"", "Add", "") ",\n");
    for (int i = 0; i < 20000; i++)
        prn_buffer_printf(&text, "{\"cat\":\"x\",\"name\":\"n\",\"dur\":%d,\"args\":{}},\n",
                          i * 7919 % 10007);
    unsigned char *packed = malloc(text.len);
    assert_non_null(packed);
    z_stream z = {.next_in = (unsigned char *)text.data,
                  .avail_in = (unsigned)text.len,
                  .next_out = packed,
                  .avail_out = (unsigned)text.len};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t len = z.total_out;
    deflateEnd(&z);
    for (size_t keep = len / 8; keep < len - len / 16; keep += len / 8) {
        struct outcome o;
        read_all((const char *)packed, keep, &(struct setup){.recover = true}, &o);
        if (o.code != 0)
            fail_msg("%zu of %zu bytes: %s", keep, len, o.err.text);
        assert_in_range(o.counts.events, 1, 19999);
        assert_in_range(o.counts.lost, 1, 2);
        release(&o);
        read_all((const char *)packed, keep, &(struct setup){0}, &o);
        assert_int_equal(o.code, PRONY_EFORMAT);
        release(&o);
    }
    free(packed);
    prn_buffer_release(&text);
}

/* ---- The parser's memory ---- */

/* Pieces that are alike: prefixes of each other, other spellings of the same, and the same with
 * other spaces. */
static const char *const names[] = {
    "a_kernel_time",
    "a_kernel_tim",
    "a_kernel_time2",
    "a\\u005fkernel_time",
    "a_kernel_time\\\"",
    "a_kernel_time\\\",",
    "",
    "b_kernel_time",
    "\\u0062_kernel_time",
    "\xc3\xa9_kernel_time",
    "\\u00e9_kernel_time",
    "x::Execute",
    "model_run",
};
static const char *const ops[] = {"Add", "Ad", "Addd", "\\u0041dd", "", "A\\\"dd"};
static const char *const shapes[] = {
    "[{\"float\":[1,3]}]",
    "[{\"float\":[1,3]} ]",
    "[{\"float\":[1, 3]}]",
    "[{\"float\":[1,3]},{\"float\":[1,3]}]",
    "[{\"float\":[1,3]},{\"float\":[1,3]},{\"int64\":[2]}]",
    "[{\"float\":[1,31]}]",
    "[{\"flo\\u0061t\":[1,3]}]",
    "[]",
    "[ ]",
    "[{}]",
    "\"float(1x3)\"",
    "\"float(1x3\"",
    "\"\"",
    "null",
};
static const char *const categories[] = {"Node", "Kernel", "Session", "Api", "No\\u0064e"};

/* Values that aren't read, alike but for their numbers; some are no JSON. */
static const char *const unread[] = {
    "{\"a\":1,\"b\":[20,3]}",
    "{\"a\":10,\"b\":[2,333]}",
    "{\"a\":0,\"b\":[0,0]}",
    "{\"a\":01,\"b\":[0,0]}",
    "{\"a\":1.5,\"b\":[0,0]}",
    "{\"a\":1e3,\"b\":[0,0]}",
    "{\"a\":-1,\"b\":[0,0]}",
    "{\"a\":,\"b\":[0,0]}",
    "{\"a\" :1,\"b\":[0,0]}",
    "{\"a\":\"1\",\"b\":2}",
    "{\"a\":\"12\",\"b\":2}",
    "{\"1\":1}",
    "{\"12\":1}",
    "[1]",
    "[1,2]",
    "[12]",
    "[12 ]",
    "[]",
    "[[1],[2],{}]",
    "[[12],[3],{}]",
    "{\"a\":\"\\\"1\",\"b\":1}",
    "\"1\"",
    "12",
};

#define PICK(random, array) array[prn_random_below(random, PRN_ARRAY_SIZE(array))]

static void random_event(struct prn_random *random, struct prn_buffer *out)
{
    char parts[4][400];
    snprintf(parts[0], sizeof parts[0], "\"cat\":\"%s\"", PICK(random, categories));
    snprintf(parts[1], sizeof parts[1], "\"dur\":%d", (int)prn_random_below(random, 100));
    snprintf(parts[2], sizeof parts[2], "\"name\"%s:\"%s\"", prn_random_below(random, 4) ? "" : " ",
             PICK(random, names));
    int n = snprintf(parts[3], sizeof parts[3], "\"args\":{\"op_name\":\"%s\"", PICK(random, ops));
    if (prn_random_below(random, 3))
        n += snprintf(parts[3] + n, sizeof parts[3] - (size_t)n, ",\"input_type_shape\":%s",
                      PICK(random, shapes));
    if (prn_random_below(random, 3))
        n += snprintf(parts[3] + n, sizeof parts[3] - (size_t)n, ",\"output_type_shape\":%s",
                      PICK(random, shapes));
    if (prn_random_below(random, 3) == 0)
        n += snprintf(parts[3] + n, sizeof parts[3] - (size_t)n,
                      ",\"provider\":\"%s\",\"grid_x\":%d", PICK(random, ops),
                      (int)prn_random_below(random, 3));
    if (prn_random_below(random, 3) == 0)
        n += snprintf(parts[3] + n, sizeof parts[3] - (size_t)n, ",\"%s\":%s",
                      prn_random_below(random, 2) ? "thread_scheduling_stats" : "x",
                      PICK(random, unread));
    snprintf(parts[3] + n, sizeof parts[3] - (size_t)n, "}");
    size_t first = (size_t)prn_random_below(random, 4);
    prn_buffer_add_char(out, '{');
    for (size_t i = 0; i < 4; i++)
        prn_buffer_printf(out, "%s%s", i ? "," : "", parts[(first + i) % 4]);
    prn_buffer_add_char(out, '}');
}

/* In the order and with the spaces of ONNX Runtime; the beginning is nearly always the same. */
static void usual_event(struct prn_random *random, struct prn_buffer *out)
{
    static const char *const heads[] = {
        "{\"cat\" : \"Node\",\"pid\" :7,\"tid\" :7,\"dur\" :",
        "{\"cat\" : \"Node\",\"pid\" :7,\"tid\" :8,\"dur\" :",
        "{\"cat\" : \"Kernel\",\"pid\" :-1,\"tid\" :-1,\"dur\" :",
        "{\"cat\" : null,\"pid\" :7,\"tid\" :7,\"dur\" :",
        "{\"cat\" : \"Node\",\"dur\" :",
    };
    static const char *const times[] = {
        "5",    "0",     "12345", "-3", "1e2", "1.25", "01",
        "null", "\"5\"", "5 ",    "5e", "",    "-0",   "99999999999999999999"};
    static const char *const middles[] = {",\"ts\" :", ", \"ts\" :", ",\"ts\":", ",\"dur\" :"};
    static const char *const tails[] = {",\"ph\" : \"X\",\"name\" :", ",\"ph\" : null,\"name\" :",
                                        ",\"name\" :", ",\"ph\" : \"X\",\"args\" :"};
    static const char *const ends[] = {"}",        "}", "}", ",\"dur\" :1}", ",\"name\" :\"x\"}",
                                       ",\"z\":1}"};
    /* Mostly the first of each, so that there is something to remember. */
    bool usual = prn_random_below(random, 3) > 0;
    prn_buffer_add(out, usual ? heads[prn_random_below(random, 3)] : PICK(random, heads));
    prn_buffer_add(out, usual ? "17" : PICK(random, times));
    prn_buffer_add(out, usual ? middles[0] : PICK(random, middles));
    prn_buffer_add(out, prn_random_below(random, 4) ? "170" : PICK(random, times));
    prn_buffer_add(out, prn_random_below(random, 4) ? tails[0] : PICK(random, tails));
    prn_buffer_printf(out, prn_random_below(random, 9) ? "\"%s\"" : "null", PICK(random, names));
    prn_buffer_printf(out, ",\"args\" : {\"op_name\" : \"%s\"}", PICK(random, ops));
    prn_buffer_add(out, PICK(random, ends));
}

static const struct prn_trace_reader_options all = {.want_shapes = true, .want_dimensions = true};

/* Parses one event that stands alone in its block; appends what it says. */
static void parse_one(struct prn_event_parser *p, const char *text, size_t len,
                      struct prn_buffer *out)
{
    char *copy = calloc(1, len + PRN_SCAN_PADDING);
    assert_non_null(copy);
    memcpy(copy, text, len);
    struct prn_scan s = {.at = copy, .end = copy + len};
    struct prn_trace_event event;
    if (prn_event_parse(p, &s, &event)) {
        prn_buffer_printf(out, "%zu bytes: ", (size_t)(s.at - copy));
        describe(out, &event);
    } else {
        prn_buffer_printf(out, "%s at %zu\n", s.fault ? s.fault : "more", (size_t)(s.at - copy));
    }
    assert_int_equal(p->error, 0);
    free(copy);
}

/* Whatever came before, an event says what it says to a parser that knows nothing. */
static void test_memory_changes_nothing(void **state)
{
    (void)state;
    for (size_t symbols_max = 3; symbols_max <= 1000; symbols_max += 997) {
        struct prn_random random;
        prn_random_seed(&random, symbols_max);
        struct prn_event_parser warm;
        prn_event_parser_init(&warm, &all, 1000);
        /* Only names may be too many, so only they are limited. */
        warm.name_texts.limit = symbols_max;
        struct prn_buffer text = PRN_BUFFER_INIT(10000);
        struct prn_buffer a = PRN_BUFFER_INIT(10000);
        struct prn_buffer b = PRN_BUFFER_INIT(10000);
        for (int i = 0; i < 8000; i++) {
            prn_buffer_clear(&text);
            prn_buffer_clear(&a);
            prn_buffer_clear(&b);
            (i % 2 ? usual_event : random_event)(&random, &text);
            /* Sometimes broken, or cut, which must not leave anything wrong behind. */
            if (i % 5 == 0)
                text.data[prn_random_below(&random, text.len)] = "\"\\{}[],:x\x01\xc3"[i / 5 % 11];
            size_t len = i % 7 ? text.len : (size_t)prn_random_below(&random, text.len);
            struct prn_event_parser fresh;
            prn_event_parser_init(&fresh, &all, 1000);
            parse_one(&warm, text.data, len, &a);
            parse_one(&fresh, text.data, len, &b);
            prn_event_parser_release(&fresh);
            if (strcmp(prn_buffer_text(&a), prn_buffer_text(&b)) != 0)
                fail_msg("event %d: %.*s\nis %snot %s", i, (int)len, text.data, a.data, b.data);
        }
        prn_buffer_release(&text);
        prn_buffer_release(&a);
        prn_buffer_release(&b);
        prn_event_parser_release(&warm);
    }
}

/* Two threads say what one says, of good traces and broken ones. */
static void test_two_threads(void **state)
{
    (void)state;
    for (int broken = 0; broken < 3; broken++) {
        struct prn_random random;
        prn_random_seed(&random, (uint64_t)broken);
        struct prn_buffer text = PRN_BUFFER_INIT((size_t)16 << 20);
        prn_buffer_add(&text, "{\"a\":1,\"traceEvents\":[");
        for (int i = 0; i < 6000; i++) {
            size_t begin = text.len;
            prn_buffer_add(&text, i ? ",\n" : "");
            if (broken == 0)
                prn_buffer_printf(&text, i % 3 ? RUN : i % 2 ? KERNEL : "{\"name\":\"%d\"}", i);
            else
                random_event(&random, &text);
            if (broken == 2 && i % 100 == 99)
                text.data[begin + prn_random_below(&random, text.len - begin)] = '"';
        }
        prn_buffer_add(&text, "\n],\"b\":{}}");
        for (int recover = 0; recover < 2; recover++)
            for (size_t window = 500; window < 500000; window *= 9) {
                struct setup setup = {.window = window, .recover = recover, .symbols_max = 9};
                struct outcome one, two;
                read_all(text.data, text.len, &setup, &one);
                setup.two_threads = true;
                read_all(text.data, text.len, &setup, &two);
                assert_same(&one, &two, "window", window);
                if (recover)
                    assert_int_equal(one.code, 0);
                release(&one);
                release(&two);
            }
        prn_buffer_release(&text);
    }
}

/* The same in a row, by hand: each event after one that made the parser expect another. */
static void test_wrong_guesses(void **state)
{
    (void)state;
    static const char *const nodes[] = {
        NODE("first_kernel_time", "Add", SHAPES),
        NODE("second_kernel_time", "Mul", ",\"input_type_shape\" : [{\"float\":[1,3]}]"),
        NODE("first_kernel_time", "Add", SHAPES),
        NODE("second_kernel_tim", "Mul", ",\"input_type_shape\" : [{\"float\":[1,3]}]"),
        NODE("first_kernel_time", "Add", SHAPES),
        NODE("second_kernel_time2", "Mul", ",\"input_type_shape\" : [{\"float\":[1,33]}]"),
        NODE("first_kernel_time", "Add", SHAPES),
        NODE("secon\\u0064_kernel_time", "M\\u0075l",
             ",\"input_type_shape\" : [{\"float\":[1 ,3]}]"),
        NODE("first_kernel_time", "Add", ",\"input_type_shape\" : [{\"float\":[1,3]}]"),
        NODE("second_kernel_time", "Mu",
             ",\"input_type_shape\" : [{\"float\":[1,3]},{\"float\":[1,3]}]"),
        NODE("first_kernel_time", "Addd", ""),
        NODE("second_kernel_time", "Mul", ",\"input_type_shape\" : []"),
    };
    static const char *const expected[][3] = {
        {"first_kernel_time", "Add", "float(1x3),int64()"},
        {"second_kernel_time", "Mul", "float(1x3)"},
        {"first_kernel_time", "Add", "float(1x3),int64()"},
        {"second_kernel_tim", "Mul", "float(1x3)"},
        {"first_kernel_time", "Add", "float(1x3),int64()"},
        {"second_kernel_time2", "Mul", "float(1x33)"},
        {"first_kernel_time", "Add", "float(1x3),int64()"},
        {"second_kernel_time", "Mul", "float(1x3)"},
        {"first_kernel_time", "Add", "float(1x3)"},
        {"second_kernel_time", "Mu", "float(1x3),float(1x3)"},
        {"first_kernel_time", "Addd", "-"},
        {"second_kernel_time", "Mul", ""},
    };
    struct prn_event_parser p;
    prn_event_parser_init(&p, &all, 100);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(nodes); i++) {
        size_t len = strlen(nodes[i]);
        char *copy = calloc(1, len + PRN_SCAN_PADDING);
        assert_non_null(copy);
        memcpy(copy, nodes[i], len);
        struct prn_scan s = {.at = copy, .end = copy + len};
        struct prn_trace_event e;
        assert_true(prn_event_parse(&p, &s, &e));
        assert_string_equal(e.name->symbol.text, expected[i][0]);
        assert_string_equal(e.op->text, expected[i][1]);
        assert_string_equal(text_of(e.shape), expected[i][2]);
        free(copy);
    }
    prn_event_parser_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_split_anywhere),
        cmocka_unit_test(test_spellings),
        cmocka_unit_test(test_passed_over),
        cmocka_unit_test(test_dimensions),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_fault_far_away),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_recover),
        cmocka_unit_test(test_deep_nesting),
        cmocka_unit_test(test_hidden_events),
        cmocka_unit_test(test_huge_events),
        cmocka_unit_test(test_huge_value_before_events),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_damaged_stream),
        cmocka_unit_test(test_memory_changes_nothing),
        cmocka_unit_test(test_wrong_guesses),
        cmocka_unit_test(test_two_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
