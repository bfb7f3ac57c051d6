/* YAML that is written: layout, quoting, and that what was read isn't changed by it. */
#include "unit.h"

#include "format/yaml_write.h"

static const char *written(const struct prn_yaml_node *root)
{
    static struct prn_buffer out;
    struct prony_error err;
    prn_buffer_release(&out);
    out = PRN_BUFFER_INIT((size_t)1 << 20);
    assert_non_null(root);
    assert_int_equal(prn_yaml_write(root, &out, &err), 0);
    return prn_buffer_text(&out);
}

/* What a text is when it was read and written. */
static void check_again(const char *text, const char *expected)
{
    struct prn_yaml *yaml;
    struct prony_error err;
    assert_int_equal(prn_yaml_parse(text, strlen(text), "text", &yaml, &err), 0);
    assert_string_equal(written(prn_yaml_root(yaml)), expected);
    prn_yaml_free(yaml);
}

static void layout(void **state)
{
    (void)state;
    check_again("b: {y: 1, x: [1, 2]}\na:\n- [1,\n  2]\n- {k: v}\n- []\n- - - deep\n",
                "a:\n- [1, 2]\n- {k: v}\n- []\n- - [deep]\nb:\n  x: [1, 2]\n  y: 1\n");
    check_again("[]", "[]\n");
    check_again("{}", "{}\n");
    check_again("a: # nothing\nb: ~\nc: {d: }\n", "a: null\nb: ~\nc: {d: null}\n");
}

static void texts_stay_texts(void **state)
{
    (void)state;
    check_again("- '1'\n- \"true\"\n- !!str 2.5\n- ''\n- 'plain'\n- 1\n- true\n",
                "['1', 'true', '2.5', '', plain, 1, true]\n");
    check_again("'1': a\n2: b\n", "{'1': a, 2: b}\n");
    check_again("- 'a: b'\n- 'x, y'\n- \"tab\\there\"\n", "['a: b', 'x, y', \"tab\\there\"]\n");
    check_again("!!int \"8\"", "8\n");
}

static void numbers(void **state)
{
    (void)state;
    static const struct {
        double value;
        const char *text;
    } cases[] = {{2, "2.0\n"},
                 {0.1, "0.1\n"},
                 {1e-5, "1.0e-05\n"},
                 {1.5e300, "1.5e+300\n"},
                 {0.36892950534820557, "0.36892950534820557\n"},
                 {0, "0.0\n"}};
    struct prn_arena arena = PRN_ARENA_INIT(100000);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++)
        assert_string_equal(written(prn_yaml_new_real(&arena, cases[i].value)), cases[i].text);
    assert_string_equal(written(prn_yaml_new_integer(&arena, INT64_MIN)), "-9223372036854775808\n");
    prn_arena_release(&arena);
}

static void changes_are_copies(void **state)
{
    (void)state;
    static const char text[] = "b: [1, 2]\na: x\n";
    struct prn_arena arena = PRN_ARENA_INIT(100000);
    struct prn_yaml *yaml;
    struct prony_error err;
    assert_int_equal(prn_yaml_parse(text, strlen(text), "text", &yaml, &err), 0);
    const struct prn_yaml_node *root = prn_yaml_root(yaml);
    const struct prn_yaml_node *list = prn_yaml_get(root, "b");
    list = prn_yaml_with_item(&arena, list, 2, prn_yaml_new_integer(&arena, 3));
    list = prn_yaml_with_item(&arena, list, 0, prn_yaml_new_text(&arena, "0"));
    const struct prn_yaml_node *changed = prn_yaml_with(&arena, root, "b", list);
    changed = prn_yaml_with(&arena, changed, "c", prn_yaml_new_map(&arena));
    assert_string_equal(written(changed), "a: x\nb: ['0', 2, 3]\nc: {}\n");
    assert_int_equal(changed->weight, 7);
    assert_string_equal(written(root), "a: x\nb: [1, 2]\n");
    assert_null(prn_yaml_with(&arena, changed, "d", NULL));
    prn_yaml_free(yaml);
    prn_arena_release(&arena);
}

static void what_cannot_be_written(void **state)
{
    (void)state;
    struct prn_arena arena = PRN_ARENA_INIT(100000);
    struct prn_buffer out = PRN_BUFFER_INIT(1000);
    struct prony_error err;
    assert_int_equal(prn_yaml_write(prn_yaml_new_text(&arena, "\xff"), &out, &err), PRONY_EFORMAT);
    assert_contains(err.text, "not UTF-8");
    prn_buffer_release(&out);
    out = PRN_BUFFER_INIT(10);
    assert_int_equal(prn_yaml_write(prn_yaml_new_text(&arena, "much too long"), &out, &err),
                     PRONY_ELIMIT);
    prn_buffer_release(&out);
    prn_arena_release(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layout),
        cmocka_unit_test(texts_stay_texts),
        cmocka_unit_test(numbers),
        cmocka_unit_test(changes_are_copies),
        cmocka_unit_test(what_cannot_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
