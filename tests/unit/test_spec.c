/* Backend specs. */
#include "spec/spec.h"
#include "unit.h"

#include <stdlib.h>

struct fixture {
    struct prn_arena arena;
    struct prony_error err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->arena = PRN_ARENA_INIT((size_t)1 << 20);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    prn_arena_release(&f->arena);
    free(f);
    return 0;
}

static struct prn_spec parsed(struct fixture *f, const char *text)
{
    struct prn_spec spec;
    if (prn_spec_parse(text, true, &f->arena, &spec, &f->err) < 0)
        fail_msg("%s", f->err.text);
    return spec;
}

static void test_spec_parts(void **state)
{
    struct prn_spec spec =
        parsed(*state, " g5.xlarge / onnxrt-cuda [ fp16 , threads = 2,x=,a b=c d]");
    assert_string_equal(spec.hardware, "g5.xlarge");
    assert_string_equal(spec.software, "onnxrt-cuda");
    assert_int_equal(spec.n_options, 4);
    assert_string_equal(prn_spec_option(&spec, "fp16"), "");
    assert_string_equal(prn_spec_option(&spec, "threads"), "2");
    assert_string_equal(prn_spec_option(&spec, "x"), "");
    assert_string_equal(prn_spec_option(&spec, "a b"), "c d");
    assert_null(prn_spec_option(&spec, "thread"));
    assert_string_equal(spec.name, "g5.xlarge/onnxrt-cuda[fp16,threads=2,x,a b=c d]");
}

static void test_spec_short(void **state)
{
    struct fixture *f = *state;
    assert_string_equal(parsed(f, "onnxrt-cpu").name, "local/onnxrt-cpu");
    assert_string_equal(parsed(f, "onnxrt-cpu[]").name, "local/onnxrt-cpu");
    /* A path in an option is not the '/' of the spec. */
    struct prn_spec spec = parsed(f, "onnxrt-cpu[ort.cache=/tmp/x]");
    assert_string_equal(spec.hardware, "local");
    assert_string_equal(prn_spec_option(&spec, "ort.cache"), "/tmp/x");
    assert_int_equal(prn_spec_parse("onnxrt-cpu", false, &f->arena, &spec, &f->err), PRONY_EUSAGE);
    assert_contains(f->err.text, "no '/'");
}

static void test_spec_faults(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *fault;
    } cases[] = {
        {"", "no software"},
        {"a/", "no software after"},
        {"/a", "no hardware"},
        {" / ", "no hardware"},
        {"a/b/c", "a second '/'"},
        {"a/b]", "a ']' without '['"},
        {"a/b[c", "a '[' without ']'"},
        {"a/b[c[d]", "a second '['"},
        {"a/b[c]d", "text after"},
        {"a/b[c][d]", "text after"},
        {"a/b[c=d=e]", "a second '='"},
        {"a/b[,]", "without a name"},
        {"a/b[c,]", "without a name"},
        {"a/b[=c]", "without a name"},
        {"a/b[c,c=1]", "an option twice"},
        {"a/b\n", "control character"},
        {"a/b[\x7f]", "control character"},
        {"[c]", "no software"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_spec spec = {.name = "untouched"};
        int code = prn_spec_parse(cases[i].text, true, &f->arena, &spec, &f->err);
        assert_int_equal(code, PRONY_EUSAGE);
        assert_string_equal(spec.name, "untouched");
        assert_contains(f->err.text, cases[i].fault);
    }
}

static void test_spec_limits(void **state)
{
    struct fixture *f = *state;
    struct prn_spec spec;
    struct prn_buffer text = PRN_BUFFER_INIT(1 << 20);
    prn_buffer_add(&text, "a/b[");
    for (int i = 0; i < 300; i++)
        prn_buffer_printf(&text, "%so%d", i ? "," : "", i);
    prn_buffer_add(&text, "]");
    assert_true(prn_spec_parse(prn_buffer_text(&text), true, &f->arena, &spec, &f->err) < 0);
    assert_contains(f->err.text, "too many options");
    for (int i = 0; i < 3000; i++)
        prn_buffer_add(&text, "xx");
    assert_true(prn_spec_parse(prn_buffer_text(&text), true, &f->arena, &spec, &f->err) < 0);
    assert_contains(f->err.text, "too long");
    prn_buffer_release(&text);

    struct prn_arena none = PRN_ARENA_INIT(0);
    assert_int_equal(prn_spec_parse("a/b[c]", true, &none, &spec, &f->err), PRONY_ENOMEM);
    prn_arena_release(&none);
}

static void test_spec_equal(void **state)
{
    struct fixture *f = *state;
    struct prn_spec a = parsed(f, "local/x[a=1,b]");
    struct prn_spec b = parsed(f, "x[ b , a = 1 ]");
    assert_true(prn_spec_equal(&a, &b));
    static const char *const others[] = {"x[a=1]",   "x[a=1,c]",       "x[a=2,b]",
                                         "y[a=1,b]", "other/x[a=1,b]", "x[a=1,b,c]"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(others); i++) {
        b = parsed(f, others[i]);
        assert_false(prn_spec_equal(&a, &b));
        assert_false(prn_spec_equal(&b, &a));
    }
}

static void test_spec_lists(void **state)
{
    struct fixture *f = *state;
    struct prn_named_spec *specs;
    size_t n;
    static const char *const want[] = {
        "local/onnxrt-cpu[opt=off,threads=1,spin]", "local/onnxrt-cpu[opt=off,threads=2,spin]",
        "local/onnxrt-cpu[opt=off,threads=4,spin]", "local/onnxrt-cpu[opt=all,threads=1,spin]",
        "local/onnxrt-cpu[opt=all,threads=2,spin]", "local/onnxrt-cpu[opt=all,threads=4,spin]"};
    assert_int_equal(prn_spec_expand("onnxrt-cpu[opt=off|all, threads = 1 | 2|4,spin]", true,
                                     &f->arena, &specs, &n, &f->err),
                     0);
    assert_int_equal(n, PRN_ARRAY_SIZE(want));
    for (size_t i = 0; i < n; i++) {
        assert_string_equal(specs[i].text, want[i]);
        assert_null(specs[i].name);
    }
    assert_int_equal(prn_spec_expand("a/b", true, &f->arena, &specs, &n, &f->err), 0);
    assert_int_equal(n, 1);
    assert_string_equal(specs[0].text, "a/b");
}

static void test_spec_names(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *name, *spec;
    } cases[] = {
        {"x", NULL, "local/x"},
        {"x[lib=/a=b/c]", NULL, NULL}, /* the second '=' is a fault of the spec */
        {"new=x[a=1]", "new", "local/x[a=1]"},
        {" the new one = h/x", "the new one", "h/x"},
        {"a/b=c=h/x", "a/b=c", "h/x"},
        {"é=x", "é", "local/x"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_named_spec *specs;
        size_t n;
        int code = prn_spec_expand(cases[i].text, true, &f->arena, &specs, &n, &f->err);
        assert_int_equal(code, cases[i].spec ? 0 : PRONY_EUSAGE);
        if (!cases[i].spec)
            continue;
        assert_int_equal(n, 1);
        assert_string_equal(specs[0].text, cases[i].spec);
        if (cases[i].name)
            assert_string_equal(specs[0].name, cases[i].name);
        else
            assert_null(specs[0].name);
    }
    static const char *const want[] = {"new a=1 c=x", "new a=1 c=y", "new a=2 c=x", "new a=2 c=y"};
    struct prn_named_spec *specs;
    size_t n;
    assert_int_equal(
        prn_spec_expand("new=h/x[a=1|2,b=3,c=x|y]", true, &f->arena, &specs, &n, &f->err), 0);
    assert_int_equal(n, PRN_ARRAY_SIZE(want));
    for (size_t i = 0; i < n; i++)
        assert_string_equal(specs[i].name, want[i]);
    assert_string_equal(specs[1].text, "h/x[a=1,b=3,c=y]");
}

static void test_spec_list_faults(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *fault;
    } cases[] = {
        {"b[c=1||2]", "an empty item"},
        {"b[c=|]", "an empty item"},
        {"b[c=1| ]", "an empty item"},
        {"b[c=1|2| 1]", "an item twice"},
        {"b[c=1|2", "a '[' without ']'"},
        {"=b", "no name before the '='"},
        {" =b[c=1|2]", "no name before the '='"},
        {"a=", "no software"},
        {"a\nb=c", "a control character"},
        {"a[1]=b", "text after the ']'"},
        {"b[a=1|2|3|4|5|6|7|8|9|10|11,b=1|2|3|4|5|6|7|8|9|10,c=1|2|3|4|5|6|7|8|9|10]",
         "more than 1000 combinations"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_named_spec *specs;
        size_t n = 7;
        assert_int_equal(prn_spec_expand(cases[i].text, true, &f->arena, &specs, &n, &f->err),
                         PRONY_EUSAGE);
        assert_int_equal(n, 7);
        assert_contains(f->err.text, cases[i].fault);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_spec_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spec_short, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spec_faults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spec_limits, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spec_equal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spec_lists, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spec_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_spec_list_faults, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
