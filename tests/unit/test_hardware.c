/* The hardware table, and the YAML reader beneath its file. */
#include "format/yaml.h"
#include "spec/spec.h"
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

struct fixture {
    struct prony_error err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

/* Writes a hardware file, loads it, removes it. */
static int load(struct fixture *f, const char *text, struct prn_hardware_table *ret_table)
{
    char path[] = "/tmp/prony-hardware-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    int code = prn_hardware_load(path, ret_table, &f->err);
    unlink(path);
    return code;
}

static void test_hardware_builtin(void **state)
{
    struct fixture *f = *state;
    struct prn_hardware_table table;
    assert_int_equal(prn_hardware_load(NULL, &table, &f->err), 0);
    static const struct prn_hardware known[] = {
        {"r6i.large", "Intel Ice Lake CPU", 0.126},    {"r7g.large", "AWS Graviton3 CPU", 0.1071},
        {"g4dn.xlarge", "Nvidia T4 GPU", 0.526},       {"g5.xlarge", "Nvidia A10g GPU", 1.006},
        {"r6g.large", "Arm based Graviton2 CPU", NAN}, {"r6i.metal", "Intel Ice Lake CPU", NAN},
        {"r6i.", "Intel Ice Lake CPU", NAN},           {"g5.xlarge.x", "Nvidia A10g GPU", NAN},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(known); i++) {
        struct prn_hardware found = prn_hardware_find(&table, known[i].name);
        assert_string_equal(found.name, known[i].name);
        assert_string_equal(found.processor, known[i].processor);
        assert_true(isnan(known[i].usd_per_hour) ? isnan(found.usd_per_hour)
                                                 : found.usd_per_hour == known[i].usd_per_hour);
    }
    static const char *const unknown[] = {"r6i", "r6ix.large", "m5.large", "", "xr6i.large"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(unknown); i++) {
        struct prn_hardware found = prn_hardware_find(&table, unknown[i]);
        assert_null(found.processor);
        assert_true(isnan(found.usd_per_hour));
    }
    assert_true(isnan(prn_hardware_find(&table, "local").usd_per_hour));
    prn_hardware_release(&table);
}

static void test_hardware_file(void **state)
{
    struct fixture *f = *state;
    struct prn_hardware_table table;
    assert_int_equal(
        load(f,
             "# ours\n"
             "- {name: local, processor: \"The box under the desk\", usd_per_hour: 0.02}\n"
             "- name: r6i.large\n"
             "  usd_per_hour: 0.2\n"
             "- {name: r6i.*, processor: Ours}\n"
             "- {name: r6i.metal, processor: Whole}\n"
             "- {name: lab, processor: ~}\n",
             &table),
        0);
    struct prn_hardware found = prn_hardware_find(&table, "local");
    assert_string_equal(found.processor, "The box under the desk");
    assert_true(found.usd_per_hour == 0.02);
    found = prn_hardware_find(&table, "r6i.large");
    assert_string_equal(found.processor, "Ours");
    assert_true(found.usd_per_hour == 0.2);
    assert_string_equal(prn_hardware_find(&table, "r6i.metal").processor, "Whole");
    assert_true(prn_hardware_find(&table, "g5.xlarge").usd_per_hour == 1.006);
    assert_null(prn_hardware_find(&table, "lab").processor);
    prn_hardware_release(&table);

    assert_int_equal(load(f, "# nothing\n", &table), 0);
    assert_true(prn_hardware_find(&table, "g5.xlarge").usd_per_hour == 1.006);
    prn_hardware_release(&table);
}

static void test_hardware_faults(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *fault;
    } cases[] = {
        {"name: x\n", "line 1: not a list"},
        {"- x\n", "line 1: not a map"},
        {"- name: a\n- processor: x\n", "line 2: needs a 'name'"},
        {"- name: a/b\n", "without '/'"},
        {"- name: a\n  cost: 3\n", "line 2: unknown key 'cost'"},
        {"- name: a\n  usd_per_hour: cheap\n", "line 2: 'usd_per_hour' is not a number"},
        {"- name: a\n  usd_per_hour: \"1\"\n", "line 2: 'usd_per_hour' is not a number"},
        {"- name: a\n  usd_per_hour: -1\n", "is not a number"},
        {"- name: a\n  usd_per_hour: 1e400\n", "is not a number"},
        {"- name: a\n  usd_per_hour: .nan\n", "is not a number"},
        {"- name: a\n  usd_per_hour: [1]\n", "is not a number"},
        {"- name: a.*\n  usd_per_hour: 1\n", "a family ('a.*') has no price"},
        {"- name: a\n- name: a\n", "line 2: 'a' is listed twice"},
        {"- name: a\n  name: b\n", "line 2: key 'name' twice"},
        {"- name: {}\n", "line 1: 'name' is not a text"},
        {"- name: \"a\\eb\"\n", "control character"},
        {"- name: [\n", "not valid YAML"},
        {"a\n---\nb\n", "line 2: a second document"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_hardware_table table;
        assert_int_equal(load(f, cases[i].text, &table), PRONY_EFORMAT);
        assert_contains(f->err.text, cases[i].fault);
    }
    struct prn_hardware_table table;
    assert_int_equal(prn_hardware_load("/nonexistent/x.yaml", &table, &f->err), PRONY_ENOENT);
    assert_int_equal(prn_hardware_load("/", &table, &f->err), PRONY_EIO);
}

static void test_cost(void **state)
{
    (void)state;
    /* 1 ms at 3.6 $/h: a million of them are 1000 s, one dollar. */
    assert_true(fabs(prn_cost_per_million(3.6, 1e6) - 1) < 1e-12);
    assert_true(isnan(prn_cost_per_million(NAN, 1e6)));
}

static struct prn_yaml *yaml_of(struct fixture *f, const char *text)
{
    struct prn_yaml *yaml;
    if (prn_yaml_parse(text, strlen(text), "test", &yaml, &f->err) < 0)
        fail_msg("%s", f->err.text);
    return yaml;
}

static void test_yaml_tree(void **state)
{
    struct prn_yaml *yaml = yaml_of(*state, "a: &x [1, two]\nb:\n  c: *x\n  d: !!str 3\n  e:\n");
    const struct prn_yaml_node *root = prn_yaml_root(yaml);
    assert_int_equal(root->kind, PRN_YAML_MAP);
    assert_string_equal(root->keys[1], "b");
    const struct prn_yaml_node *b = prn_yaml_get(root, "b");
    assert_int_equal(b->line, 3);
    const struct prn_yaml_node *c = prn_yaml_get(b, "c");
    assert_ptr_equal(c, prn_yaml_get(root, "a"));
    double number;
    assert_true(prn_yaml_number(c->items[0], &number) && number == 1);
    assert_false(prn_yaml_number(c->items[1], &number));
    assert_false(prn_yaml_number(prn_yaml_get(b, "d"), &number));
    assert_true(prn_yaml_is_null(prn_yaml_get(b, "e")));
    assert_true(prn_yaml_is_null(prn_yaml_get(b, "f")));
    assert_false(prn_yaml_is_null(c));
    assert_null(prn_yaml_get(c, "a"));
    prn_yaml_free(yaml);
    yaml = yaml_of(*state, "");
    assert_null(prn_yaml_root(yaml));
    prn_yaml_free(yaml);
}

static void expect_yaml_fault(struct fixture *f, const char *text, size_t len, const char *fault)
{
    struct prn_yaml *yaml;
    assert_int_equal(prn_yaml_parse(text, len, "test", &yaml, &f->err), PRONY_EFORMAT);
    assert_contains(f->err.text, fault);
}

static void test_yaml_hostile(void **state)
{
    struct fixture *f = *state;
    struct prn_buffer text = PRN_BUFFER_INIT(1 << 20);
    /* Each level doubles ten times over: small to store, endless to walk. */
    prn_buffer_add(&text, "a0: &a0 x\n");
    for (int i = 1; i < 30; i++)
        prn_buffer_printf(&text, "a%d: &a%d [*a%d, *a%d, *a%d]\n", i, i, i - 1, i - 1, i - 1);
    expect_yaml_fault(f, prn_buffer_text(&text), text.len, "too many values");
    prn_buffer_clear(&text);
    for (int i = 0; i < 500; i++)
        prn_buffer_add(&text, "[");
    expect_yaml_fault(f, prn_buffer_text(&text), text.len, "nested too deep");
    prn_buffer_release(&text);
    expect_yaml_fault(f, "&a [*a]", 7, "line 1: an alias to nothing, or to what it is part of");
    expect_yaml_fault(f, "x: *b", 5, "an alias to nothing");
    expect_yaml_fault(f, "? [a]\n: b", 9, "can't be a key");
    expect_yaml_fault(f, "\"a\\0b\"", 6, "NUL");
    expect_yaml_fault(f, "\xff\xfe\xfd", 3, "not valid YAML");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hardware_builtin, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hardware_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hardware_faults, setup, teardown),
        cmocka_unit_test(test_cost),
        cmocka_unit_test_setup_teardown(test_yaml_tree, setup, teardown),
        cmocka_unit_test_setup_teardown(test_yaml_hostile, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
