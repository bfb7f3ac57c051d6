/* Tables of fields: what one row brings, and what each kind of row reads and writes. */
#include "unit.h"

#include "format/json_fields.h"
#include "format/schema.h"

/* ---- A field is added in one place ---- */

#define THING_LIST(X)                   \
    X(TEXT, name, "What it is called.") \
    X(INTEGER, bytes, "How large it is; null: not known.", .flags = PRN_NULL)
/* The one place. */
#define LARGER_LIST(X) THING_LIST(X) X(NUMBER, added_ns, "How long it took.")

struct thing {
    THING_LIST(PRN_DECLARE)
};
#define PRN_OF struct thing
static const struct prn_member thing_members[] = {THING_LIST(PRN_DESCRIBE)};
static const struct prn_schema thing_schema = PRN_SCHEMA("Thing", thing_members, "A thing.");
#undef PRN_OF

struct larger {
    LARGER_LIST(PRN_DECLARE)
};
#define PRN_OF struct larger
static const struct prn_member larger_members[] = {LARGER_LIST(PRN_DESCRIBE)};
static const struct prn_schema larger_schema = PRN_SCHEMA("Thing", larger_members, "A thing.");
#undef PRN_OF

static void test_added_field(void **state)
{
    (void)state;
    struct prony_error err = {0};
    struct prn_arena arena = PRN_ARENA_INIT(100000);
    struct prn_buffer json = PRN_BUFFER_INIT(10000);
    struct prn_buffer csv = PRN_BUFFER_INIT(10000);
    struct larger written = {"a,b", -1, 2.5};
    struct larger found = {0};
    struct thing small = {0};
    struct prn_fields r = {.name = "x", .what = "thing", .arena = &arena, .err = &err};

    assert_int_equal(prn_schema_write_json(&larger_schema, &written, &json, &err), 0);
    assert_string_equal(prn_buffer_text(&json), "{\n  \"name\": \"a,b\",\n  \"bytes\": null,\n"
                                                "  \"added_ns\": 2.5\n}\n");
    const char *text = prn_buffer_text(&json);
    assert_int_equal(prn_schema_parse_json(&r, text, json.len, &larger_schema, &found), 0);
    assert_string_equal(found.name, "a,b");
    assert_int_equal(found.bytes, -1);
    assert_near(found.added_ns, 2.5, 0);
    /* Who doesn't know the field reads the rest. */
    assert_int_equal(prn_schema_parse_json(&r, text, json.len, &thing_schema, &small), 0);
    assert_string_equal(small.name, "a,b");

    struct prn_table *table = prn_table_new();
    prn_schema_columns(table, &larger_schema);
    prn_schema_cells(table, &larger_schema, &written);
    prn_schema_cells(table, &larger_schema, NULL);
    assert_int_equal(prn_table_write(table, PRN_TABLE_STYLE_CSV, &csv, &err), 0);
    assert_string_equal(prn_buffer_text(&csv), "name,bytes,added_ns\n\"a,b\",,2.5\n,,\n");
    prn_table_free(table);
    prn_buffer_release(&json);
    prn_buffer_release(&csv);
    prn_arena_release(&arena);
}

/* ---- Every kind ---- */

enum colour { RED, GREEN };
static const struct prn_name colours[] = {{RED, "red"}, {GREEN, "green"}, {0, NULL}};
static const struct prn_name bits[] = {{1, "ONE"}, {2, "TWO"}, {0, NULL}};

struct point {
    int32_t x;
    int64_t y;
};

struct all {
    enum colour colour;
    unsigned flags;
    bool sure;
    signed char maybe;
    size_t n_points;
    struct point *points;
    struct thing thing;
    struct thing *other;
    bool has_part;
    double part_s;
};

#define PRN_OF struct point
static const struct prn_member x_members[] = {
    {.kind = PRN_KIND_INTEGER, PRN_AT(x), .max = INT32_MAX}};
static const struct prn_schema x_schema = PRN_SCHEMA(NULL, x_members, NULL);
static const struct prn_member y_members[] = {{.kind = PRN_KIND_INTEGER, PRN_AT(y), .min = -5}};
static const struct prn_schema y_schema = PRN_SCHEMA(NULL, y_members, NULL);
#undef PRN_OF

#define PRN_OF struct all
static const struct prn_member part_members[] = {
    PRN_NUMBER(part_s, "Its time.", .key = "time_s", .flags = PRN_FINITE)};
static const struct prn_schema part_schema =
    PRN_SCHEMA("Part", part_members, "A part.", PRN_PRESENT(has_part));
static const struct prn_member all_members[] = {
    PRN_CONSTANT("schema", "prony.test/1"),
    PRN_CHOICE(colour, colours, "Which."),
    PRN_FLAGS(flags, bits, "Reasons."),
    PRN_BOOL(sure, "Known."),
    PRN_BOOL(maybe, "Perhaps.", .flags = PRN_OMIT),
    PRN_ARRAY(points, n_points, &x_schema, "Across.", .key = "x", .min = 1, .max = 3),
    PRN_ARRAY(points, n_points, &y_schema, "Along.", .key = "y", .flags = PRN_ALONGSIDE),
    PRN_INLINE(thing, &thing_schema),
    PRN_OBJECT(other, &thing_schema, "Another.", .flags = PRN_POINTER | PRN_NULL | PRN_OLD),
    PRN_PART("part", &part_schema, "Or null.", .flags = PRN_NULL),
};
static const struct prn_schema all_schema = PRN_SCHEMA("All", all_members, "Every kind.");
#undef PRN_OF

#define ALL_JSON                                                                              \
    "{\n  \"schema\": \"prony.test/1\",\n  \"colour\": \"green\",\n  \"flags\": [\"TWO\"],\n" \
    "  \"sure\": true,\n  \"x\": [1, 2],\n  \"y\": [-5, 4],\n  \"name\": \"n\",\n"            \
    "  \"bytes\": 7,\n  \"other\": null,\n  \"part\": {\n    \"time_s\": 0.5\n  }\n}\n"

static int parse_all(const char *text, struct prn_arena *arena, struct all *all,
                     struct prony_error *err)
{
    struct prn_fields r = {.name = "x", .what = "test", .arena = arena, .err = err};
    return prn_schema_parse_json(&r, text, strlen(text), &all_schema, all);
}

static void test_there_and_back(void **state)
{
    (void)state;
    struct prony_error err = {0};
    struct prn_arena arena = PRN_ARENA_INIT(100000);
    struct prn_buffer out = PRN_BUFFER_INIT(10000);
    struct all all = {0};
    assert_int_equal(parse_all(ALL_JSON, &arena, &all, &err), 0);
    assert_int_equal(all.colour, GREEN);
    assert_int_equal(all.maybe, -1);
    assert_int_equal(all.n_points, 2);
    assert_int_equal(all.points[1].x, 2);
    assert_int_equal(all.points[0].y, -5);
    assert_true(all.has_part);
    assert_int_equal(prn_schema_write_json(&all_schema, &all, &out, &err), 0);
    assert_string_equal(prn_buffer_text(&out), ALL_JSON);
    prn_schema_clear(&all_schema, &all);
    assert_true(!all.has_part && isnan(all.part_s) && all.thing.bytes == -1 && !all.points);
    prn_buffer_release(&out);
    prn_arena_release(&arena);
}

static void test_faults(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *fault;
    } cases[] = {
        {"\"green\"", "\"blue\"", "colour is not one of red, green"},
        {"\"green\"", "null", "colour is not a text"},
        {"[\"TWO\"]", "[\"TWO\", \"SIX\"]", "flags[1] is not one of ONE, TWO"},
        {"[1, 2]", "[1, 4294967296]", "x[1] is out of range"},
        {"[1, 2]", "[]", "x has too few entries"},
        {"[1, 2]", "[1, 2, 3, 4]", "x has too many entries"},
        {"[-5, 4]", "[-5]", "y is not as long as x"},
        {"[-5, 4]", "[-6, 4]", "y[0] is out of range"},
        {"\"sure\": true", "\"sure\": 1", "sure is not true or false"},
        {"\"sure\": true", "\"sore\": true", "sure is missing"},
        {"\"bytes\": 7", "\"bytes\": -7", "bytes is out of range"},
        {"null", "[]", "other is not an object"},
        {"0.5", "null", "part.time_s is not a number"},
        {"0.5", "-0.5", "part.time_s is out of range"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prony_error err = {0};
        struct prn_arena arena = PRN_ARENA_INIT(100000);
        char text[1000];
        const char *at = strstr(ALL_JSON, cases[i].from);
        struct all all = {.sure = true};
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - ALL_JSON), ALL_JSON, cases[i].to,
                 at + strlen(cases[i].from));
        assert_int_equal(parse_all(text, &arena, &all, &err), PRONY_EFORMAT);
        assert_contains(err.text, cases[i].fault);
        assert_true(all.n_points == 0 && !all.thing.name); /* written on success only */
        prn_arena_release(&arena);
    }
}

/* What a file of an earlier version lacks isn't known. */
static void test_missing(void **state)
{
    (void)state;
    struct prony_error err = {0};
    struct prn_arena arena = PRN_ARENA_INIT(100000);
    struct all all = {.other = (struct thing *)&all};
    assert_int_equal(parse_all("{\"colour\": \"red\", \"flags\": [], \"sure\": false, \"x\": [0], "
                               "\"y\": [0], \"name\": \"\", \"bytes\": null, \"part\": null}",
                               &arena, &all, &err),
                     0);
    assert_null(all.other);
    assert_false(all.has_part);
    assert_int_equal(all.thing.bytes, -1);
    prn_arena_release(&arena);
}

/* For tests/cli/test_schemas.py, which makes types of it. */
static int print_schema(void)
{
    struct prony_error err;
    struct prn_buffer out = PRN_BUFFER_INIT(100000);
    int code = prn_schema_describe(&larger_schema, "prony.thing/1", NULL, true, &out, &err);
    fputs(prn_buffer_text(&out), stdout);
    prn_buffer_release(&out);
    return code < 0;
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "schema") == 0)
        return print_schema();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_added_field),
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_missing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
