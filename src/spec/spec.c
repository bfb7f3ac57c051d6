/* Parses backend specs. The text is cut with pointers only; a piece is copied when it is known to
 * be good, so a rejected spec leaves nothing behind but a little arena. */
#include "spec/spec.h"

#include <string.h>

#define SPEC_LENGTH_MAX 4096
#define SPEC_OPTIONS_MAX 256

/* A stretch of the text. */
struct piece {
    const char *at;
    size_t len;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

static struct piece trimmed(const char *at, const char *end)
{
    while (at < end && is_space(*at))
        at++;
    while (end > at && is_space(end[-1]))
        end--;
    return (struct piece){at, (size_t)(end - at)};
}

static bool same_piece(struct piece a, struct piece b)
{
    return a.len == b.len && memcmp(a.at, b.at, a.len) == 0;
}

/* The fault must stay readable behind a text of any length. */
static int fault(struct prony_error *err, const char *text, const char *what)
{
    const char *more = strlen(text) > 200 ? "..." : "";
    return prn_fail(err, PRONY_EUSAGE, "bad backend '%.200s%s': %s", text, more, what);
}

static int check_characters(const char *text, struct prony_error *err)
{
    size_t len = strnlen(text, SPEC_LENGTH_MAX + 1);
    if (len > SPEC_LENGTH_MAX)
        return fault(err, text, "it is too long");
    for (const char *p = text; *p; p++)
        if (((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7f)
            return fault(err, text, "it contains a control character");
    return 0;
}

/* "hardware/software", or "software" alone where that is allowed. */
static int parse_names(const char *text, const char *end, bool allow_short,
                       struct piece *ret_hardware, struct piece *ret_software,
                       struct prony_error *err)
{
    const char *slash = memchr(text, '/', (size_t)(end - text));
    if (!slash && !allow_short)
        return fault(err, text, "no '/'; it is written hardware/software[option,key=value]");
    struct piece hardware = {"local", strlen("local")};
    struct piece software = trimmed(slash ? slash + 1 : text, end);
    if (slash)
        hardware = trimmed(text, slash);
    if (hardware.len == 0)
        return fault(err, text, "no hardware before the '/'");
    if (software.len == 0)
        return fault(err, text, slash ? "no software after the '/'" : "no software");
    if (memchr(software.at, '/', software.len))
        return fault(err, text, "a second '/'");
    if (memchr(text, '=', (size_t)(end - text)))
        return fault(err, text, "a name cannot be given here");
    *ret_hardware = hardware;
    *ret_software = software;
    return 0;
}

static int parse_option(const char *text, const char *at, const char *end, struct piece *ret_key,
                        struct piece *ret_value, struct prony_error *err)
{
    const char *equals = memchr(at, '=', (size_t)(end - at));
    struct piece key = trimmed(at, equals ? equals : end);
    struct piece value = equals ? trimmed(equals + 1, end) : (struct piece){end, 0};
    if (key.len == 0)
        return fault(err, text, "an option without a name");
    if (memchr(value.at, '=', value.len))
        return fault(err, text, "a second '=' in an option");
    *ret_key = key;
    *ret_value = value;
    return 0;
}

/* What stands between the brackets; [at, end) has none of them. */
static int parse_options(const char *text, const char *at, const char *end, struct piece *keys,
                         struct piece *values, size_t *ret_n, struct prony_error *err)
{
    size_t n = 0;
    bool more = trimmed(at, end).len > 0;
    while (more) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        const char *stop = comma ? comma : end;
        if (n == SPEC_OPTIONS_MAX)
            return fault(err, text, "too many options");
        int code = parse_option(text, at, stop, &keys[n], &values[n], err);
        if (code < 0)
            return code;
        for (size_t i = 0; i < n; i++)
            if (same_piece(keys[i], keys[n]))
                return fault(err, text, "an option twice");
        n++;
        more = comma != NULL;
        at = stop + 1;
    }
    *ret_n = n;
    return 0;
}

/* Finds the brackets: *ret_open is the '[' or the end of the text, *ret_close the ']' or the end.
 */
static int find_brackets(const char *text, const char **ret_open, const char **ret_close,
                         struct prony_error *err)
{
    const char *open = text + strcspn(text, "[]");
    if (*open == ']')
        return fault(err, text, "a ']' without '['");
    const char *close = open;
    if (*open == '[') {
        close = open + 1 + strcspn(open + 1, "[]");
        if (*close == '[')
            return fault(err, text, "a second '['");
        if (*close == '\0')
            return fault(err, text, "a '[' without ']'");
        if (trimmed(close + 1, close + strlen(close)).len > 0)
            return fault(err, text, "text after the ']'");
    }
    *ret_open = open;
    *ret_close = close;
    return 0;
}

/* Writes the canonical text. */
static const char *canonical_name(const struct prn_spec *spec, struct prn_arena *arena)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)4 * SPEC_LENGTH_MAX);
    prn_buffer_printf(&out, "%s/%s", spec->hardware, spec->software);
    for (size_t i = 0; i < spec->n_options; i++) {
        const struct prn_spec_option *option = &spec->options[i];
        prn_buffer_printf(&out, "%c%s%s%s", i ? ',' : '[', option->key, option->value[0] ? "=" : "",
                          option->value);
    }
    if (spec->n_options > 0)
        prn_buffer_add_char(&out, ']');
    const char *name = out.error ? NULL : prn_arena_strdup(arena, prn_buffer_text(&out));
    prn_buffer_release(&out);
    return name;
}

int prn_spec_parse(const char *text, bool allow_short, struct prn_arena *arena,
                   struct prn_spec *ret_spec, struct prony_error *err)
{
    const char *open = text;
    const char *close = text;
    struct piece hardware = {0};
    struct piece software = {0};
    struct piece keys[SPEC_OPTIONS_MAX];
    struct piece values[SPEC_OPTIONS_MAX];
    size_t n = 0;
    int code = check_characters(text, err);
    if (code == 0)
        code = find_brackets(text, &open, &close, err);
    if (code == 0)
        code = parse_names(text, open, allow_short, &hardware, &software, err);
    if (code == 0 && close > open)
        code = parse_options(text, open + 1, close, keys, values, &n, err);
    if (code < 0)
        return code;

    struct prn_spec_option *options = PRN_ARENA_ARRAY(arena, n, struct prn_spec_option);
    struct prn_spec spec = {.hardware = prn_arena_strndup(arena, hardware.at, hardware.len),
                            .software = prn_arena_strndup(arena, software.at, software.len),
                            .n_options = n,
                            .options = options};
    if (!options || !spec.hardware || !spec.software)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        options[i].key = prn_arena_strndup(arena, keys[i].at, keys[i].len);
        options[i].value = prn_arena_strndup(arena, values[i].at, values[i].len);
        if (!options[i].key || !options[i].value)
            return prn_fail_memory(err);
    }
    spec.name = canonical_name(&spec, arena);
    if (!spec.name)
        return prn_fail_memory(err);
    *ret_spec = spec;
    return 0;
}

/* The values that one option takes: its list, cut at each '|'. */
struct value_list {
    const char **items;
    size_t n;
};

static int split_value(const char *text, const char *value, struct prn_arena *arena,
                       struct value_list *ret_list, struct prony_error *err)
{
    size_t n = 1;
    for (const char *p = value; *p; p++)
        n += *p == '|';
    struct value_list list = {.items = PRN_ARENA_ARRAY(arena, n, const char *), .n = n};
    if (!list.items)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        const char *end = value + strcspn(value, "|");
        struct piece item = trimmed(value, end);
        if (n > 1 && item.len == 0)
            return fault(err, text, "an empty item in a list");
        list.items[i] = prn_arena_strndup(arena, item.at, item.len);
        if (!list.items[i])
            return prn_fail_memory(err);
        for (size_t k = 0; k < i; k++)
            if (strcmp(list.items[k], list.items[i]) == 0)
                return fault(err, text, "an item twice in a list");
        value = end + 1;
    }
    *ret_list = list;
    return 0;
}

/* The name, and what tells one combination from the others. */
static const char *combined_name(const char *name, const struct prn_spec *spec,
                                 const struct value_list *lists, struct prn_arena *arena)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)4 * SPEC_LENGTH_MAX);
    prn_buffer_add(&out, name);
    for (size_t i = 0; i < spec->n_options; i++)
        if (lists[i].n > 1)
            prn_buffer_printf(&out, " %s=%s", spec->options[i].key, spec->options[i].value);
    const char *copy = out.error ? NULL : prn_arena_strdup(arena, prn_buffer_text(&out));
    prn_buffer_release(&out);
    return copy;
}

static int combine(const struct prn_spec *spec, const char *name, const struct value_list *lists,
                   size_t number, struct prn_arena *arena, struct prn_named_spec *ret_spec)
{
    struct prn_spec_option *options =
        PRN_ARENA_ARRAY(arena, spec->n_options, struct prn_spec_option);
    struct prn_spec one = *spec;
    if (!options)
        return PRONY_ENOMEM;
    for (size_t i = spec->n_options; i-- > 0;) {
        options[i].key = spec->options[i].key;
        options[i].value = lists[i].items[number % lists[i].n];
        number /= lists[i].n;
    }
    one.options = options;
    ret_spec->text = canonical_name(&one, arena);
    ret_spec->name = name ? combined_name(name, &one, lists, arena) : NULL;
    return ret_spec->text && (!name || ret_spec->name) ? 0 : PRONY_ENOMEM;
}

int prn_spec_split(const char *text, struct prn_arena *arena, struct prn_named_spec *ret_spec,
                   struct prony_error *err)
{
    const char *end = text + strcspn(text, "[]");
    const char *equals = end;
    while (equals > text && equals[-1] != '=')
        equals--;
    if (equals == text) {
        *ret_spec = (struct prn_named_spec){.text = text};
        return 0;
    }
    struct piece name = trimmed(text, equals - 1);
    int code = check_characters(text, err);
    if (code == 0 && name.len == 0)
        code = fault(err, text, "no name before the '='");
    if (code < 0)
        return code;
    struct prn_named_spec spec = {.name = prn_arena_strndup(arena, name.at, name.len),
                                  .text = equals};
    if (!spec.name)
        return prn_fail_memory(err);
    *ret_spec = spec;
    return 0;
}

int prn_spec_expand(const char *text, bool allow_short, struct prn_arena *arena,
                    struct prn_named_spec **ret_specs, size_t *ret_n, struct prony_error *err)
{
    struct prn_spec spec;
    struct prn_named_spec given;
    int code = prn_spec_split(text, arena, &given, err);
    if (code == 0)
        code = prn_spec_parse(given.text, allow_short, arena, &spec, err);
    if (code < 0)
        return code;
    size_t n = 1;
    struct value_list *lists = PRN_ARENA_ARRAY(arena, spec.n_options, struct value_list);
    if (!lists)
        return prn_fail_memory(err);
    for (size_t i = 0; i < spec.n_options; i++) {
        code = split_value(text, spec.options[i].value, arena, &lists[i], err);
        if (code < 0)
            return code;
        if (n > PRN_SPEC_EXPANSION_MAX / lists[i].n)
            return fault(err, text, "its lists make more than 1000 combinations");
        n *= lists[i].n;
    }
    struct prn_named_spec *specs = PRN_ARENA_ARRAY(arena, n, struct prn_named_spec);
    if (!specs)
        return prn_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        if (combine(&spec, given.name, lists, i, arena, &specs[i]) < 0)
            return prn_fail_memory(err);
    *ret_specs = specs;
    *ret_n = n;
    return 0;
}

const char *prn_spec_option(const struct prn_spec *spec, const char *key)
{
    for (size_t i = 0; i < spec->n_options; i++)
        if (strcmp(spec->options[i].key, key) == 0)
            return spec->options[i].value;
    return NULL;
}

bool prn_spec_equal(const struct prn_spec *a, const struct prn_spec *b)
{
    if (strcmp(a->hardware, b->hardware) != 0 || strcmp(a->software, b->software) != 0 ||
        a->n_options != b->n_options)
        return false;
    /* Keys don't repeat, so equal counts and one direction are enough. */
    for (size_t i = 0; i < a->n_options; i++) {
        const char *value = prn_spec_option(b, a->options[i].key);
        if (!value || strcmp(value, a->options[i].value) != 0)
            return false;
    }
    return true;
}
