/* The option parser, on a table with one option of each kind. */
#include "unit.h"

#include "cli/command.h"

struct options {
    bool quiet;
    const char *output;
    struct prn_strings backends;
    int64_t repeats;
    double time;
    double precision;
    int format;
    struct prn_strings filters;
};

static const char *const formats[] = {"text", "json", "csv", NULL};

static const struct prn_option table[] = {
    {.kind = PRN_OPTION_GROUP, .help = "What to do"},
    {.kind = PRN_OPTION_FLAG,
     .letter = 'q',
     .name = "quiet",
     .help = "Say less.",
     .offset = offsetof(struct options, quiet)},
    {.kind = PRN_OPTION_TEXT,
     .letter = 'o',
     .name = "output",
     .value = "FILE",
     .help = "Where to.",
     .offset = offsetof(struct options, output)},
    {.kind = PRN_OPTION_LIST,
     .letter = 'b',
     .name = "backend",
     .value = "SPEC",
     .help = "On what.",
     .offset = offsetof(struct options, backends)},
    {.kind = PRN_OPTION_COUNT,
     .name = "repeats",
     .value = "N",
     .help = "How often.",
     .min = 1,
     .max = 1e6,
     .offset = offsetof(struct options, repeats)},
    {.kind = PRN_OPTION_NUMBER,
     .name = "time",
     .value = "SECONDS",
     .help = "How long.",
     .min = 0,
     .max = 1e300,
     .offset = offsetof(struct options, time)},
    {.kind = PRN_OPTION_PERCENT,
     .name = "precision",
     .value = "P",
     .help = "How well.",
     .min = 0.001,
     .max = 0.5,
     .offset = offsetof(struct options, precision)},
    {.kind = PRN_OPTION_CHOICE,
     .name = "format",
     .value = "F",
     .help = "As what.",
     .choices = formats,
     .offset = offsetof(struct options, format)},
    {.kind = PRN_OPTION_WORDS,
     .letter = 'f',
     .name = "filter",
     .value = "PATTERN...",
     .help = "What of it.",
     .offset = offsetof(struct options, filters)},
    {0},
};

static const struct prn_option_alias aliases[] = {{"bs", "backend"}, {"qq", "quiet"}, {0}};

static const struct prn_command command = {
    .name = "test",
    .arguments = "MODEL",
    .options = table,
    .aliases = aliases,
    .options_size = sizeof(struct options),
    .min_arguments = 1,
    .max_arguments = 2,
};

#define WORDS_MAX 16

struct parsed {
    struct options options;
    struct prn_strings arguments;
    bool help;
    struct prony_error err;
    int code;
    char *words[WORDS_MAX];
    char storage[1024];
};

/* Parses words that are separated by single spaces. */
static void parse(struct parsed *p, const char *line)
{
    memset(p, 0, sizeof *p);
    snprintf(p->storage, sizeof p->storage, "%s", line);
    int n = 0;
    for (char *rest = p->storage; rest && *rest && n < WORDS_MAX;)
        p->words[n++] = strsep(&rest, " ");
    p->code =
        prn_command_parse(&command, n, p->words, &p->options, &p->arguments, &p->help, &p->err);
}

static void release(struct parsed *p)
{
    prn_command_release(&command, &p->options, &p->arguments);
}

static void test_every_kind(void **state)
{
    (void)state;
    struct parsed p;
    parse(&p, "-q m.onnx -o out --backend=a -b b -bc --repeats 30 --time=1.5 --precision 1% "
              "--format json");
    assert_int_equal(p.code, 0);
    assert_true(p.options.quiet);
    assert_string_equal(p.options.output, "out");
    assert_int_equal(p.options.backends.n, 3);
    assert_string_equal(p.options.backends.items[0], "a");
    assert_string_equal(p.options.backends.items[1], "b");
    assert_string_equal(p.options.backends.items[2], "c");
    assert_int_equal(p.options.repeats, 30);
    assert_near(p.options.time, 1.5, 0);
    assert_near(p.options.precision, 0.01, 1e-18);
    assert_int_equal(p.options.format, 1);
    assert_int_equal(p.arguments.n, 1);
    assert_string_equal(p.arguments.items[0], "m.onnx");
    assert_false(p.help);
    release(&p);
}

/* A word that is an alias is one; "-bs" isn't "-b" with "s" for a value. */
static void test_aliases(void **state)
{
    (void)state;
    struct parsed p;
    parse(&p, "-bs one -bs=two -bst -qq m.onnx");
    assert_int_equal(p.code, 0);
    assert_true(p.options.quiet);
    assert_int_equal(p.options.backends.n, 3);
    assert_string_equal(p.options.backends.items[0], "one");
    assert_string_equal(p.options.backends.items[1], "two");
    assert_string_equal(p.options.backends.items[2], "st");
    release(&p);
    parse(&p, "m.onnx -bs");
    assert_int_equal(p.code, PRONY_EUSAGE);
    assert_string_equal(p.err.text, "option '--backend' needs a value (SPEC)");
    release(&p);
    parse(&p, "m.onnx -qq=1");
    assert_string_equal(p.err.text, "option '--quiet' takes no value");
    release(&p);
    assert_string_equal(prn_command_alias(&command, &table[1]), "qq");
    assert_null(prn_command_alias(&command, &table[2]));
}

static void test_arguments(void **state)
{
    (void)state;
    struct parsed p;
    parse(&p, "- -- -q");
    assert_int_equal(p.code, 0);
    assert_int_equal(p.arguments.n, 2);
    assert_string_equal(p.arguments.items[0], "-");
    assert_string_equal(p.arguments.items[1], "-q");
    assert_false(p.options.quiet);
    release(&p);
    parse(&p, "m -o -q");
    assert_string_equal(p.options.output, "-q");
    release(&p);
    parse(&p, "m --output= --backend=x=y");
    assert_string_equal(p.options.output, "");
    assert_string_equal(p.options.backends.items[0], "x=y");
    release(&p);
    parse(&p, "m -o=out -b=x=y");
    assert_string_equal(p.options.output, "out");
    assert_string_equal(p.options.backends.items[0], "x=y");
    release(&p);
}

static void test_last_one_wins(void **state)
{
    (void)state;
    struct parsed p;
    parse(&p, "m --repeats 1 --repeats 2 -o a -o b --format csv --format text");
    assert_int_equal(p.options.repeats, 2);
    assert_string_equal(p.options.output, "b");
    assert_int_equal(p.options.format, 0);
    release(&p);
}

static void assert_words(const char *line, const char *filters, const char *arguments)
{
    struct parsed p;
    parse(&p, line);
    if (p.code < 0)
        fail_msg("'%s' gave '%s'", line, p.err.text);
    char text[2][200] = {"", ""};
    const struct prn_strings *lists[] = {&p.options.filters, &p.arguments};
    for (size_t k = 0; k < 2; k++)
        for (size_t i = 0, n = 0; i < lists[k]->n; i++)
            n += (size_t)snprintf(text[k] + n, sizeof text[k] - n, "%s%s", i ? " " : "",
                                  lists[k]->items[i]);
    assert_string_equal(text[0], filters);
    assert_string_equal(text[1], arguments);
    release(&p);
}

/* Every word up to the next option, again and again. */
static void test_words(void **state)
{
    (void)state;
    assert_words("m --filter a", "a", "m");
    assert_words("m --filter a b* [c]", "a b* [c]", "m");
    assert_words("m -f a b -q", "a b", "m");
    assert_words("m -f a b -q n", "a b", "m n");
    assert_words("m -fa b --filter=c d -f e", "a b c d e", "m");
    assert_words("--filter a b -- m", "a b", "m");
    assert_words("m --filter=", "", "m");
    assert_words("m -f -a", "-a", "m"); /* the first is a value whatever it is */
    struct parsed p;
    parse(&p, "m --filter");
    assert_int_equal(p.code, PRONY_EUSAGE);
    assert_contains(p.err.text, "option '--filter' needs a value (PATTERN...)");
    release(&p);
    parse(&p, "--filter a m");
    assert_int_equal(p.code, PRONY_EUSAGE);
    assert_contains(p.err.text,
                    "--filter takes every word up to the next option: put the argument");
    release(&p);
    parse(&p, "-q");
    assert_string_equal(p.err.text, "an argument is missing: MODEL");
    release(&p);
}

static void test_help(void **state)
{
    (void)state;
    struct parsed p;
    parse(&p, "--help --nonsense");
    assert_int_equal(p.code, 0);
    assert_true(p.help);
    release(&p);
    parse(&p, "a b c d -h");
    assert_int_equal(p.code, 0);
    assert_true(p.help);
    release(&p);
    parse(&p, "m -- --help");
    assert_false(p.help);
    release(&p);
}

static void test_misuse(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", "an argument is missing: MODEL"},
        {"a b c", "unexpected argument 'c'"},
        {"m --frob", "unknown option '--frob'"},
        {"m --frob=1", "unknown option '--frob'"},
        {"m --=1", "unknown option '--'"},
        {"m -x", "unknown option '-x'"},
        {"m --quiet=1", "option '--quiet' takes no value"},
        {"m -qv", "option '-q' takes no value"},
        {"m --output", "option '--output' needs a value (FILE)"},
        {"m -b", "option '--backend' needs a value (SPEC)"},
        {"m --format yaml", "--format: 'yaml' is not one of text, json, csv"},
        {"m --format=", "--format: '' is not one of text, json, csv"},
        {"m --repeats", "option '--repeats' needs a value (N)"},
        {"m --repeats=", "--repeats: '' is not a whole number"},
        {"m --repeats x", "--repeats: 'x' is not a whole number"},
        {"m --repeats 3x", "--repeats: '3x' is not a whole number"},
        {"m --repeats 1.5", "--repeats: '1.5' is not a whole number"},
        {"m --repeats 0x10", "--repeats: '0x10' is not a whole number"},
        {"m --repeats 0", "--repeats: 0 is not between 1 and 1000000"},
        {"m --repeats -3", "--repeats: -3 is not between 1 and 1000000"},
        {"m --repeats 99999999999999999999", "99999999999999999999 is not between"},
        {"m --time nan", "--time: 'nan' is not a number"},
        {"m --time inf", "--time: 'inf' is not a number"},
        {"m --time 0x1p3", "--time: '0x1p3' is not a number"},
        {"m --time 1,5", "--time: '1,5' is not a number"},
        {"m --time 5%", "--time: '5%' is not a number"},
        {"m --time .", "--time: '.' is not a number"},
        {"m --time -1", "--time: -1 is less than 0"},
        {"m --time 1e999", "--time: 1e999 is too large"},
        {"m --precision %", "--precision: '%' is not a number"},
        {"m --precision 1%%", "--precision: '1%%' is not a number"},
        {"m --precision 60%", "--precision: 60% is not between 0.1% and 50%"},
        {"m --precision 2", "--precision: write '2%' for 2 percent"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct parsed p;
        parse(&p, cases[i][0]);
        if (p.code != PRONY_EUSAGE || p.err.code != PRONY_EUSAGE ||
            !strstr(p.err.text, cases[i][1]))
            fail_msg("'%s' gave %d, '%s'", cases[i][0], p.code, p.err.text);
        release(&p);
    }
}

/* A double holds whole numbers up to 2^53 only; a seed has more. */
static void test_large_counts_are_exact(void **state)
{
    (void)state;
    static const struct prn_option wide[] = {
        {.kind = PRN_OPTION_COUNT, .name = "seed", .value = "N", .min = -1e19, .max = 1e19},
        {0},
    };
    const struct prn_command seeded = {
        .name = "seeded", .arguments = "", .options = wide, .options_size = sizeof(int64_t)};
    static const char *const texts[] = {"9007199254740993", "9223372036854775807",
                                        "-9223372036854775808"};
    static const int64_t values[] = {9007199254740993, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < 3; i++) {
        char word[64];
        snprintf(word, sizeof word, "--seed=%s", texts[i]);
        char *words[] = {word};
        int64_t seed = 0;
        struct prn_strings arguments = {0};
        bool help;
        assert_int_equal(prn_command_parse(&seeded, 1, words, &seed, &arguments, &help, NULL), 0);
        assert_true(seed == values[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_kind),    cmocka_unit_test(test_arguments),
        cmocka_unit_test(test_last_one_wins), cmocka_unit_test(test_help),
        cmocka_unit_test(test_misuse),        cmocka_unit_test(test_large_counts_are_exact),
        cmocka_unit_test(test_words),         cmocka_unit_test(test_aliases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
