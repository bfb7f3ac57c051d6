/* Two threads must read what one reads: the same events, faults and counts, whatever the window. */
#include "unit.h"

#include "base/buffer.h"
#include "base/random.h"
#include "trace/reader.h"

#include <stdlib.h>

#define TEXT_MAX ((size_t)16 << 20)

static const char *const trap = "a},\\n{\\\"cat\\\" : \\\"Node\\\",{";

/* Events of several kinds, with texts that look like the beginning of one. */
static void add_event(struct prn_buffer *out, struct prn_random *random, size_t i)
{
    unsigned kind = (unsigned)prn_random_below(random, 8);
    prn_buffer_add(out, i ? ",\n" : "");
    if (kind == 0)
        prn_buffer_printf(out,
                          "{\"cat\" : \"Kernel\",\"pid\" :-1,\"tid\" :-1,\"dur\" :%zu,\"ts\" :%zu,"
                          "\"ph\" : \"X\",\"name\" :\"kernel%u\",\"args\" : {\"stream\" : \"%u\","
                          "\"op_name\" : \"Conv\",\"block_x\" : \"%u\",\"grid_x\" : \"7\"}}",
                          i % 91, i, (unsigned)prn_random_below(random, 5), kind,
                          (unsigned)prn_random_below(random, 9));
    else if (kind == 1)
        prn_buffer_printf(out, "{\"cat\" : \"Session\",\"ph\" : \"M\",\"name\" :\"%zu\"}", i);
    else if (kind == 2)
        prn_buffer_printf(out,
                          "{\"cat\" : \"Session\",\"pid\" :1,\"tid\" :1,\"dur\" :9,\"ts\" :%zu,"
                          "\"name\" :\"%s\",\"args\" : {\"x\" : [{\"a\":1},{\"cat\":2}]}}",
                          i, trap);
    else
        prn_buffer_printf(
            out,
            "{\"cat\" : \"Node\",\"pid\" :1,\"tid\" :1,\"dur\" :%zu,\"ts\" :%zu,\"ph\" "
            ": \"X\",\"name\" :\"node%u_kernel_time\",\"args\" : {\"op_name\" : \"%s\","
            "\"input_type_shape\" : [{\"float\":[1,%u]}],\"provider\" : \"CPU\"}}",
            i % 1000, i, (unsigned)prn_random_below(random, 300),
            prn_random_below(random, 2) ? "Add" : "Mul", (unsigned)prn_random_below(random, 4));
}

static void make_trace(struct prn_buffer *out, size_t events, bool broken)
{
    struct prn_random random;
    prn_random_seed(&random, 7);
    prn_buffer_add(out, "[\n");
    for (size_t i = 0; i < events; i++) {
        add_event(out, &random, i);
        if (broken && i % 97 == 13)
            prn_buffer_add(out, ",\n{\"cat\" : \"Node\",\"name\" :\"with \"quotes\",\"dur\" :1}");
        if (broken && i % 5000 == 4000) {
            prn_buffer_add(out, ",\n{\"cat\" : \"Node\",\"name\" :\"");
            for (size_t k = 0; k < 100000; k++)
                prn_buffer_add_char(out, 'x');
            prn_buffer_add(out, "\"}");
        }
    }
    prn_buffer_add(out, "\n]\n");
    assert_int_equal(out->error, 0);
}

static const char *text(const struct prn_symbol *symbol)
{
    return symbol ? symbol->text : "-";
}

static void describe(const struct prn_trace_event *e, struct prn_buffer *out)
{
    prn_buffer_printf(out, "%d %lld %lld %s %s %s %s %s %.*s\n", e->category,
                      (long long)e->start_ns, (long long)e->duration_ns,
                      e->name ? e->name->symbol.text : "-", text(e->op), text(e->provider),
                      text(e->shape), text(e->dimensions), (int)e->args_len, e->args);
}

/* Everything that reading gives, as text. */
static void read_all(const struct prn_buffer *trace, size_t step,
                     const struct prn_trace_reader_options *options, struct prn_buffer *out)
{
    struct prn_source *source;
    struct prn_trace_reader *reader;
    struct prn_trace_event event;
    struct prony_error err = {0};
    int code;
    assert_int_equal(prn_source_open_memory(trace->data, trace->len, step, &source, &err), 0);
    assert_int_equal(prn_trace_reader_new(source, options, &reader, &err), 0);
    prn_buffer_clear(out);
    while ((code = prn_trace_reader_next(reader, &event, &err)) > 0)
        describe(&event, out);
    const struct prn_trace_reader_counts *counts = prn_trace_reader_counts(reader);
    const char *fault = prn_trace_reader_first_fault(reader);
    prn_buffer_printf(out, "%d %s %llu %llu %llu %s\n", code, code < 0 ? err.text : "",
                      (unsigned long long)counts->events, (unsigned long long)counts->passed_over,
                      (unsigned long long)counts->lost, fault ? fault : "");
    prn_trace_reader_free(reader);
    prn_source_close(source);
    assert_int_equal(out->error, 0);
}

static void check_same(bool broken, bool recover, size_t symbols_max)
{
    static const size_t windows[] = {4096, 30000, (size_t)1 << 20};
    static const size_t steps[] = {0, 5000};
    struct prn_buffer trace = PRN_BUFFER_INIT(TEXT_MAX);
    struct prn_buffer one = PRN_BUFFER_INIT(TEXT_MAX);
    struct prn_buffer two = PRN_BUFFER_INIT(TEXT_MAX);
    struct prn_trace_reader_options options = {.recover = recover,
                                               .want_shapes = true,
                                               .want_dimensions = true,
                                               .symbols_max = symbols_max};
    make_trace(&trace, 12000, broken);
    read_all(&trace, 0, &options, &one);
    options.two_threads = true;
    for (size_t w = 0; w < PRN_ARRAY_SIZE(windows); w++)
        for (size_t s = 0; s < PRN_ARRAY_SIZE(steps); s++) {
            options.window_bytes = windows[w];
            read_all(&trace, steps[s], &options, &two);
            if (one.len != two.len || memcmp(one.data, two.data, one.len) != 0)
                fail_msg("window %zu, step %zu", windows[w], steps[s]);
        }
    prn_buffer_release(&trace);
    prn_buffer_release(&one);
    prn_buffer_release(&two);
}

static void test_good(void **state)
{
    (void)state;
    check_same(false, false, 10000);
}

static void test_first_fault(void **state)
{
    (void)state;
    check_same(true, false, 10000);
}

static void test_recovered(void **state)
{
    (void)state;
    check_same(true, true, 10000);
}

/* Names that no longer fit into the table are read all the same. */
static void test_many_names(void **state)
{
    (void)state;
    check_same(false, false, 40);
}

/* A lane that is given up while it works must neither hang nor touch freed memory. */
static void test_given_up(void **state)
{
    (void)state;
    struct prn_buffer trace = PRN_BUFFER_INIT(TEXT_MAX);
    make_trace(&trace, 5000, false);
    for (size_t stop = 1; stop < 5000; stop = stop * 3 + 1) {
        struct prn_trace_reader_options options = {
            .symbols_max = 1000, .window_bytes = (size_t)100 << 10, .two_threads = true};
        struct prn_source *source;
        struct prn_trace_reader *reader;
        struct prn_trace_event event;
        struct prony_error err;
        assert_int_equal(prn_source_open_memory(trace.data, trace.len, 0, &source, &err), 0);
        assert_int_equal(prn_trace_reader_new(source, &options, &reader, &err), 0);
        for (size_t i = 0; i < stop; i++)
            assert_int_equal(prn_trace_reader_next(reader, &event, &err), 1);
        prn_trace_reader_free(reader);
        prn_source_close(source);
    }
    prn_buffer_release(&trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),      cmocka_unit_test(test_first_fault),
        cmocka_unit_test(test_recovered), cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
