/*
 * A trace says the same thing thousands of times: run after run the same nodes come in the same
 * order, with the same operators and shapes. So each name remembers what came with it and which
 * names came next. The parser compares the bytes at hand with that first: equal bytes that were
 * valid once are valid again, and mean the same. Only times, and whatever is new, are parsed.
 *
 * A remembered value is only compared where it ends by itself (strings and arrays do, numbers
 * don't), so that the bytes behind it can't change its meaning.
 */
#include "trace/event.h"

#include "base/array.h"

#include <stdlib.h>
#include <string.h>

#define SCRATCH_MAX PRN_TRACE_EVENT_MAX
#define RAW_SHAPE_MAX ((size_t)4096) /* longer ones are parsed each time */
#define DIMENSION_MAX 32

enum event_key { KEY_CAT, KEY_PID, KEY_TID, KEY_DUR, KEY_TS, KEY_PH, KEY_NAME, KEY_ARGS };

/* Those of `args` that are read, and those that are only known, so that one that comes twice is
 * found. */
#define ARGS_KEYS(X)                           \
    X(OP, "op_name")                           \
    X(PROVIDER, "provider")                    \
    X(INPUTS, "input_type_shape")              \
    X(OUTPUTS, "output_type_shape")            \
    X(BLOCK_X, "block_x")                      \
    X(BLOCK_Y, "block_y")                      \
    X(BLOCK_Z, "block_z")                      \
    X(GRID_X, "grid_x")                        \
    X(GRID_Y, "grid_y")                        \
    X(GRID_Z, "grid_z")                        \
    X(STREAM, "stream")                        \
    X(IN_USE, "mem_bytes_in_use")              \
    X(REQUESTED, "mem_bytes_requested_in_use") \
    X(IN_USE_DELTA, "mem_in_use_delta")        \
    X(PEAK, "mem_in_use_peak")                 \
    X(HELD, "mem_arena_held")                  \
    X(HELD_DELTA, "mem_arena_held_delta")      \
    X(FIRST_UNREAD, "node_index")              \
    X(THREADS, "thread_scheduling_stats")      \
    X(ACTIVATION, "activation_size")           \
    X(PARAMETER, "parameter_size")             \
    X(OUTPUT, "output_size")                   \
    X(REQUESTED_DELTA, "mem_requested_in_use_delta")

enum args_key {
#define X(name, text) ARG_##name,
    ARGS_KEYS(X)
#undef X
        ARG_COUNT,
};

static const struct {
    char text[32]; /* and the quote behind it; prn_scan_same reads as many bytes */
    size_t len;
} args_keys[] = {
#define X(name, key) {key "\"", sizeof key},
    ARGS_KEYS(X)
#undef X
};

#define KEY_UNKNOWN (-1)

struct span {
    const char *text; /* NULL: absent */
    size_t len;
};

/* An event as it stands, before texts are looked up. */
struct raw_event {
    unsigned keys; /* bits of those that were there, and weren't null */
    enum prn_trace_category category;
    int64_t start_ns, duration_ns, thread;
    struct prn_trace_name *name;
    struct prn_scan_string args_text[2];            /* ARG_OP, ARG_PROVIDER */
    struct span shapes[2];                          /* ARG_INPUTS, ARG_OUTPUTS */
    const struct prn_trace_shapes *known_shapes[2]; /* when remembered */
    struct span dimensions[6];
    int64_t stream;
    int64_t memory[ARG_HELD_DELTA - ARG_IN_USE + 1];
    unsigned args;
    struct span args_as_is;
};

void prn_event_parser_init(struct prn_event_parser *p,
                           const struct prn_trace_reader_options *options, size_t symbols_max)
{
    *p = (struct prn_event_parser){.arena = PRN_ARENA_INIT(PRN_TRACE_TEXTS_MAX(symbols_max)),
                                   .symbols_max = symbols_max,
                                   .want_shapes = options->want_shapes,
                                   .want_dimensions = options->want_dimensions,
                                   .transient_text = PRN_BUFFER_INIT(SCRATCH_MAX),
                                   .scratch = PRN_BUFFER_INIT(SCRATCH_MAX)};
    struct prn_symbols empty = PRN_SYMBOLS_INIT(symbols_max, &p->arena);
    p->name_texts = p->ops = p->providers = p->shapes = p->dimensions = empty;
}

void prn_event_parser_release(struct prn_event_parser *p)
{
    prn_symbols_release(&p->name_texts);
    prn_symbols_release(&p->ops);
    prn_symbols_release(&p->providers);
    prn_symbols_release(&p->shapes);
    prn_symbols_release(&p->dimensions);
    prn_map_release(&p->shapes_by_raw);
    prn_buffer_release(&p->transient_text);
    prn_buffer_release(&p->scratch);
    prn_arena_release(&p->arena);
    free(p->names);
    free(p->raw_shapes);
}

static bool fail(struct prn_event_parser *p, int code, const char *over)
{
    p->error = code;
    p->over = over;
    return false;
}

/* What an escaped string stands for, in the scratch buffer. */
static bool decode(struct prn_event_parser *p, struct prn_scan_string *string)
{
    char *text = malloc(string->len + 1);
    if (!text)
        return fail(p, PRONY_ENOMEM, NULL);
    size_t len = prn_scan_decode(string, text);
    prn_buffer_clear(&p->scratch);
    prn_buffer_append(&p->scratch, text, len);
    free(text);
    if (p->scratch.error)
        return fail(p, p->scratch.error, NULL);
    *string = (struct prn_scan_string){.text = prn_buffer_text(&p->scratch), .len = len};
    return true;
}

static inline bool decoded(struct prn_event_parser *p, struct prn_scan_string *string)
{
    return !string->escaped || decode(p, string);
}

/* ---- Names ---- */

static bool ends_in(const char *text, size_t len, const char *end)
{
    size_t n = strlen(end);
    return len >= n && memcmp(text + len - n, end, n) == 0;
}

static enum prn_trace_role role_of(const char *text, size_t len)
{
    if (ends_in(text, len, PRN_TRACE_KERNEL_TIME))
        return PRN_TRACE_ROLE_KERNEL_TIME;
    if (len == 9 && memcmp(text, "model_run", 9) == 0)
        return PRN_TRACE_ROLE_MODEL_RUN;
    if (ends_in(text, len, "::Execute"))
        return PRN_TRACE_ROLE_EXECUTE;
    return PRN_TRACE_ROLE_NONE;
}

static bool use_transient(struct prn_event_parser *p, const char *text, size_t len,
                          struct prn_trace_name **ret_name)
{
    prn_buffer_clear(&p->transient_text);
    prn_buffer_append(&p->transient_text, text, len);
    if (p->transient_text.error)
        return fail(p, p->transient_text.error, NULL);
    const char *copy = prn_buffer_text(&p->transient_text);
    p->transient = (struct prn_trace_name){
        .symbol = {.text = copy, .len = len}, .role = role_of(copy, len), .transient = true};
    *ret_name = &p->transient;
    return true;
}

/* Escaped and unescaped spellings of a text have one symbol; only a text without characters that
 * need escaping may be compared as it stands. */
static bool needs_escape(const struct prn_symbol *symbol)
{
    for (size_t i = 0; i < symbol->len; i++)
        if ((unsigned char)symbol->text[i] < 0x20 || symbol->text[i] == '"' ||
            symbol->text[i] == '\\')
            return true;
    return false;
}

static int add_name(struct prn_event_parser *p, const struct prn_symbol *symbol)
{
    size_t n = symbol->id;
    struct prn_trace_name **names = prn_array_grow(p->names, n, sizeof(struct prn_trace_name *));
    if (!names)
        return PRONY_ENOMEM;
    p->names = names;
    struct prn_trace_name *name = PRN_ARENA_NEW(&p->arena, struct prn_trace_name);
    p->names[n] = name;
    if (!name)
        return prn_arena_has_room(&p->arena, sizeof *name) ? PRONY_ENOMEM : PRONY_ELIMIT;
    name->symbol = *symbol;
    name->role = role_of(symbol->text, symbol->len);
    name->plain = !needs_escape(symbol);
    return 0;
}

static bool find_name(struct prn_event_parser *p, const char *text, size_t len,
                      struct prn_trace_name **ret_name)
{
    const struct prn_symbol *symbol;
    size_t before = p->name_texts.n;
    int code = prn_symbols_get(&p->name_texts, text, len, &symbol);
    if (code == 0 && p->name_texts.n > before)
        code = add_name(p, symbol);
    if (code == PRONY_ELIMIT || (code == 0 && !p->names[symbol->id]))
        return use_transient(p, text, len, ret_name);
    if (code < 0)
        return fail(p, code, NULL);
    *ret_name = p->names[symbol->id];
    return true;
}

int prn_event_name(struct prn_event_parser *p, const char *text, size_t len,
                   struct prn_trace_name **ret_name)
{
    return find_name(p, text, len, ret_name) ? 0 : p->error;
}

/* Whether the string at `at` is `symbol`'s, quotes included. */
static inline bool same_string(const struct prn_scan *s, const struct prn_symbol *symbol)
{
    return (size_t)(s->end - s->at) > symbol->len + 1 && s->at[symbol->len + 1] == '"' &&
           memcmp(s->at + 1, symbol->text, symbol->len) == 0;
}

/* The name that this event likely has. */
static inline struct prn_trace_name *guess_name(const struct prn_event_parser *p)
{
    return p->anchor && p->since < PRN_TRACE_AFTER ? p->anchor->after[p->since] : NULL;
}

static void follow_name(struct prn_event_parser *p, struct prn_trace_name *name, bool kernel)
{
    if (p->anchor && p->since < PRN_TRACE_AFTER && p->anchor->after[p->since] != name &&
        name->plain)
        p->anchor->after[p->since] = name;
    p->since = kernel ? p->since + 1 : 0;
    if (!kernel)
        p->anchor = name->transient ? NULL : name;
}

static bool parse_name(struct prn_event_parser *p, struct prn_scan *s, struct raw_event *e)
{
    struct prn_trace_name *guess = guess_name(p);
    if (*s->at == '"' && guess && same_string(s, &guess->symbol)) {
        s->at += guess->symbol.len + 2;
        e->name = guess;
        return true;
    }
    struct prn_scan_string string;
    return prn_scan_text(s, &string) && decoded(p, &string) &&
           find_name(p, string.text, string.len, &e->name);
}

/* ---- Shapes ---- */

/* One dimension, as it stands. */
static bool shape_dimension(struct prn_scan *s, struct prn_buffer *out)
{
    const char *begin = s->at;
    if (*s->at != '-' && !prn_scan_is_digit(*s->at))
        return prn_scan_fail(s, "a dimension that is not a number");
    if (!prn_scan_value(s))
        return false;
    prn_buffer_append(out, begin, (size_t)(s->at - begin));
    return true;
}

static bool expect(struct prn_scan *s, char c, const char *fault)
{
    prn_scan_space(s);
    if (*s->at != c)
        return prn_scan_fail(s, fault);
    s->at++;
    prn_scan_space(s);
    return true;
}

/* `"float":[1,3]` → float(1x3); `s->at` is behind '{'. */
static bool shape_map(struct prn_event_parser *p, struct prn_scan *s, struct prn_buffer *out)
{
    struct prn_scan_string type;
    prn_scan_space(s);
    if (!prn_scan_text(s, &type) || !decoded(p, &type))
        return false;
    prn_buffer_append(out, type.text, type.len);
    prn_buffer_add_char(out, '(');
    if (!expect(s, ':', "expected ':' here") || !expect(s, '[', "a list of dimensions is missing"))
        return false;
    for (bool first = true; *s->at != ']'; first = false) {
        if (!first && !expect(s, ',', "expected ',' or ']' here"))
            return false;
        prn_buffer_add(out, first ? "" : "x");
        if (!shape_dimension(s, out))
            return false;
        prn_scan_space(s);
    }
    s->at++;
    prn_buffer_add_char(out, ')');
    prn_scan_space(s);
    while (*s->at == ',') {
        p->odd = true;
        s->at++;
        prn_scan_space(s);
        if (!prn_scan_text(s, &type) || !expect(s, ':', "expected ':' here") || !prn_scan_value(s))
            return false;
        prn_scan_space(s);
    }
    return expect(s, '}', "expected '}' here");
}

/* `[{"float":[1,3]},…]` → "float(1x3),…". */
static bool shape_list(struct prn_event_parser *p, struct prn_scan *s, struct prn_buffer *out)
{
    s->at++;
    prn_scan_space(s);
    for (bool first = true; *s->at != ']'; first = false) {
        if (!first && !expect(s, ',', "expected ',' or ']' here"))
            return false;
        prn_buffer_add(out, first ? "" : ",");
        if (!expect(s, '{', "expected a shape here"))
            return false;
        if (*s->at == '}') {
            prn_buffer_add(out, "none()");
            s->at++;
        } else if (!shape_map(p, s, out)) {
            return false;
        }
        prn_scan_space(s);
    }
    s->at++;
    return true;
}

/* What the shapes at `raw` say. A string stands for itself. */
static bool shape_text(struct prn_event_parser *p, struct prn_scan *s, const struct span *raw,
                       struct prn_buffer *out)
{
    struct prn_scan inside = {.at = raw->text, .end = s->end};
    struct prn_scan_string string;
    bool ok;
    if (*inside.at == '"') {
        ok = prn_scan_text(&inside, &string) && decoded(p, &string);
        if (ok)
            prn_buffer_append(out, string.text, string.len);
    } else {
        ok = shape_list(p, &inside, out);
    }
    if (!ok && !p->error) {
        s->at = inside.at;
        s->fault = inside.fault;
    }
    return ok;
}

/* Remembers raw text → symbol, while there is room. */
static const struct prn_trace_shapes *
remember_shapes(struct prn_event_parser *p, const struct span *raw, const struct prn_symbol *shape)
{
    size_t n = p->n_raw_shapes;
    if (n >= p->symbols_max || raw->len > RAW_SHAPE_MAX)
        return NULL;
    struct prn_trace_shapes **items =
        prn_array_grow(p->raw_shapes, n, sizeof(struct prn_trace_shapes *));
    if (!items)
        return NULL;
    p->raw_shapes = items;
    struct prn_trace_shapes *shapes = PRN_ARENA_NEW(&p->arena, struct prn_trace_shapes);
    char *copy = prn_arena_strndup(&p->arena, raw->text, raw->len);
    if (!shapes || !copy || prn_map_set_n(&p->shapes_by_raw, copy, raw->len, n) < 0)
        return NULL;
    *shapes = (struct prn_trace_shapes){.raw = {.text = copy, .len = raw->len}, .shape = shape};
    p->raw_shapes[p->n_raw_shapes++] = shapes;
    return shapes;
}

/* `*known` may stay NULL although this succeeds: then the shapes weren't worth remembering. */
static bool resolve_shapes(struct prn_event_parser *p, struct prn_scan *s, const struct span *raw,
                           const struct prn_trace_shapes **known,
                           const struct prn_symbol **ret_shape)
{
    size_t i = prn_map_get_n(&p->shapes_by_raw, raw->text, raw->len);
    if (i != PRN_MAP_NONE) {
        *known = p->raw_shapes[i];
        *ret_shape = (*known)->shape;
        return true;
    }
    struct prn_buffer text = PRN_BUFFER_INIT(SCRATCH_MAX);
    const struct prn_symbol *shape = NULL;
    bool ok = shape_text(p, s, raw, &text);
    int code = text.error;
    if (ok && code == 0 && p->want_shapes)
        code = prn_symbols_get(&p->shapes, prn_buffer_text(&text), text.len, &shape);
    prn_buffer_release(&text);
    if (!ok)
        return false;
    if (code < 0)
        return fail(p, code, PRN_EVENT_SHAPES);
    *known = p->odd ? NULL : remember_shapes(p, raw, shape);
    *ret_shape = shape;
    return true;
}

static bool parse_shapes(struct prn_scan *s, const struct prn_trace_shapes *guess, int which,
                         struct raw_event *e)
{
    if (guess && (size_t)(s->end - s->at) >= guess->raw.len &&
        memcmp(s->at, guess->raw.text, guess->raw.len) == 0) {
        e->known_shapes[which] = guess;
        s->at += guess->raw.len;
        return true;
    }
    const char *begin = s->at;
    if (*begin != '[' && *begin != '"')
        return prn_scan_fail(s, "expected a list of shapes here");
    if (!prn_scan_value(s))
        return false;
    e->shapes[which] = (struct span){.text = begin, .len = (size_t)(s->at - begin)};
    return true;
}

/* ---- Members ---- */

#define KEY(text, id)                           \
    if (memcmp(p, text "\"", sizeof text) == 0) \
    return *ret_len = sizeof text, id

/* `p` is behind the opening quote; the length includes the closing one. */
static int event_key(const char *p, size_t *ret_len)
{
    switch (*p) {
    case 'c':
        KEY("cat", KEY_CAT);
        break;
    case 'p':
        KEY("pid", KEY_PID);
        KEY("ph", KEY_PH);
        break;
    case 't':
        KEY("tid", KEY_TID);
        KEY("ts", KEY_TS);
        break;
    case 'd':
        KEY("dur", KEY_DUR);
        break;
    case 'n':
        KEY("name", KEY_NAME);
        break;
    case 'a':
        KEY("args", KEY_ARGS);
        break;
    default:
        break;
    }
    return KEY_UNKNOWN;
}

/* The keys of `args` come in random order, so branches on them would be guessed wrong. Instead, the
 * bytes that tell ONNX Runtime's keys apart lead to a guess that is learned while reading, and then
 * compared. */
static inline size_t key_slot(const char *text)
{
    uint64_t word;
    memcpy(&word, text, sizeof word);
    return (word * 0x9e3779b97f4a7c15u + (unsigned char)text[14] * 0xc2b2ae3d27d4eb4fu) >> 53;
}

static int search_key(const char *text, size_t len)
{
    for (int key = 0; key < ARG_COUNT; key++)
        if (args_keys[key].len == len + 1 && memcmp(args_keys[key].text, text, len) == 0)
            return key;
    return KEY_UNKNOWN;
}

/* `:` and the space around it; a known key that was seen already is a fault at `begin`. */
static inline bool end_key(struct prn_scan *s, const char *begin, int key, unsigned *seen)
{
    if (s->at[0] == ' ' && s->at[1] == ':') { /* as ONNX Runtime writes it */
        s->at += s->at[2] == ' ' ? 3 : 2;
    } else {
        prn_scan_space(s);
        if (*s->at != ':')
            return prn_scan_fail(s, "expected ':' here");
        s->at++;
    }
    prn_scan_space(s);
    if (key == KEY_UNKNOWN)
        return true;
    if (*seen >> key & 1) {
        s->at = begin;
        return prn_scan_fail(s, "a duplicate key");
    }
    *seen |= 1u << key;
    return true;
}

static bool parse_event_key(struct prn_event_parser *p, struct prn_scan *s, unsigned *seen,
                            int *ret_key)
{
    if (*s->at != '"')
        return prn_scan_fail(s, "expected a key here");
    const char *begin = s->at;
    struct prn_scan_string string;
    size_t len;
    int key = event_key(s->at + 1, &len);
    if (key != KEY_UNKNOWN) {
        s->at += len + 1;
    } else if (!prn_scan_text(s, &string)) {
        return false;
    } else if (string.escaped) {
        /* A key spelled with escapes is as good as one without. */
        if (!decoded(p, &string))
            return false;
        char text[8] = {0};
        memcpy(text, string.text, string.len < 6 ? string.len : 6);
        text[string.len < 6 ? string.len : 6] = '"';
        key = event_key(text, &len);
    }
    *ret_key = key;
    return end_key(s, begin, key, seen);
}

static inline bool parse_args_key(struct prn_event_parser *p, struct prn_scan *s, unsigned *seen,
                                  int *ret_key)
{
    if (*s->at != '"')
        return prn_scan_fail(s, "expected a key here");
    const char *begin = s->at;
    unsigned char *slot = &p->key_slots[key_slot(begin + 1)];
    int key = *slot;
    if (prn_scan_same(begin + 1, args_keys[key].text, args_keys[key].len)) {
        s->at += args_keys[key].len + 1;
    } else {
        struct prn_scan_string string;
        if (!prn_scan_text(s, &string) || !decoded(p, &string))
            return false;
        key = search_key(string.text, string.len);
        if (key != KEY_UNKNOWN)
            *slot = (unsigned char)key;
    }
    *ret_key = key;
    return end_key(s, begin, key, seen);
}

/* After a member: true with `*ret_done` at the object's end. */
static inline bool next_member(struct prn_scan *s, bool *ret_done)
{
    prn_scan_space(s);
    if (*s->at == ',') {
        s->at++;
        prn_scan_space(s);
        *ret_done = false;
        return true;
    }
    if (*s->at != '}')
        return prn_scan_fail(s, "expected ',' or '}' here");
    s->at++;
    *ret_done = true;
    return true;
}

static bool skip_value(struct prn_scan *s)
{
    struct prn_scan_string string;
    return *s->at == '"' ? prn_scan_text(s, &string) : prn_scan_value(s);
}

/* A string, or a number as it stands. */
static bool parse_dimension(struct prn_scan *s, struct span *dimension)
{
    const char *begin = s->at;
    if (!skip_value(s))
        return false;
    bool quoted = *begin == '"';
    *dimension =
        (struct span){.text = begin + quoted, .len = (size_t)(s->at - begin) - (quoted ? 2 : 0)};
    if (dimension->len > DIMENSION_MAX || *begin == '{' || *begin == '[') {
        s->at = begin;
        return prn_scan_fail(s, "not a dimension of a kernel");
    }
    return true;
}

/* A thread or stream is only told from others: equal bytes are the same one. */
static bool parse_identity(struct prn_scan *s, int64_t *ret_identity)
{
    const char *begin = s->at;
    if (!skip_value(s))
        return false;
    uint64_t hash = 0;
    for (const char *p = begin; p < s->at; p++)
        hash = hash * 0x100000001b3u + (unsigned char)*p;
    *ret_identity = (int64_t)hash;
    return true;
}

/* Bytes, as a string or a number. What is neither, or doesn't fit, tells nothing. */
static bool parse_bytes(struct prn_scan *s, int key, struct raw_event *e)
{
    const char *p = s->at;
    if (!skip_value(s))
        return false;
    p += *p == '"';
    bool negative = *p == '-';
    p += negative;
    int64_t value = 0;
    const char *digits = p;
    while (prn_scan_is_digit(*p) && p - digits < 18)
        value = 10 * value + (*p++ - '0');
    bool ended = p > digits && (*p == '"' || p == s->at);
    if (!ended)
        e->args &= ~(1u << key);
    e->memory[key - ARG_IN_USE] = negative ? -value : value;
    return true;
}

static bool parse_arg(struct prn_event_parser *p, struct prn_scan *s, int key,
                      const struct prn_trace_name *guess, struct raw_event *e)
{
    if (key >= ARG_FIRST_UNREAD || key == KEY_UNKNOWN)
        return *s->at == '{' || *s->at == '[' ? prn_patterns_scan(&p->patterns, s) : skip_value(s);
    if (*s->at == 'n') {
        e->args &= ~(1u << key); /* null is as good as absent */
        return prn_scan_value(s);
    }
    switch (key) {
    case ARG_OP:
    case ARG_PROVIDER:
        return prn_scan_text(s, &e->args_text[key - ARG_OP]);
    case ARG_INPUTS:
        return parse_shapes(s, guess ? guess->inputs : NULL, 0, e);
    case ARG_OUTPUTS:
        return parse_shapes(s, guess ? guess->outputs : NULL, 1, e);
    case ARG_STREAM:
        return parse_identity(s, &e->stream);
    case ARG_IN_USE:
    case ARG_REQUESTED:
    case ARG_IN_USE_DELTA:
    case ARG_PEAK:
    case ARG_HELD:
    case ARG_HELD_DELTA:
        return parse_bytes(s, key, e);
    default:
        return parse_dimension(s, &e->dimensions[key - ARG_BLOCK_X]);
    }
}

/* `at` is '{'; true when nothing is in it. */
static inline bool open_object(struct prn_scan *s)
{
    s->at++;
    prn_scan_space(s);
    if (*s->at != '}')
        return false;
    s->at++;
    return true;
}

static bool parse_args(struct prn_event_parser *p, struct prn_scan *s, struct raw_event *e)
{
    if (*s->at != '{')
        return prn_scan_fail(s, "args is not an object");
    const struct prn_trace_name *guess = e->name ? e->name : guess_name(p);
    const char *begin = s->at;
    bool done = open_object(s);
    while (!done) {
        int key = KEY_UNKNOWN;
        if (!parse_args_key(p, s, &e->args, &key) || !parse_arg(p, s, key, guess, e) ||
            !next_member(s, &done))
            return false;
    }
    e->args_as_is = (struct span){.text = begin, .len = (size_t)(s->at - begin)};
    return true;
}

static bool parse_category(struct prn_event_parser *p, struct prn_scan *s, struct raw_event *e)
{
    struct prn_scan_string cat;
    if (!prn_scan_text(s, &cat) || !decoded(p, &cat))
        return false;
    if (cat.len == 4 && memcmp(cat.text, "Node", 4) == 0)
        e->category = PRN_TRACE_NODE;
    else if (cat.len == 6 && memcmp(cat.text, "Kernel", 6) == 0)
        e->category = PRN_TRACE_KERNEL;
    else if (cat.len == 3 && memcmp(cat.text, "Api", 3) == 0)
        e->category = PRN_TRACE_API;
    else if (cat.len == 7 && memcmp(cat.text, "Session", 7) == 0)
        e->category = PRN_TRACE_SESSION;
    else
        e->category = PRN_TRACE_OTHER;
    return true;
}

static bool parse_duration(struct prn_scan *s, struct raw_event *e)
{
    const char *begin = s->at;
    if (!prn_scan_microseconds(s, &e->duration_ns))
        return false;
    if (e->duration_ns < 0) {
        s->at = begin;
        return prn_scan_fail(s, "a negative duration");
    }
    return true;
}

static bool parse_member(struct prn_event_parser *p, struct prn_scan *s, int key,
                         struct raw_event *e)
{
    if (*s->at == 'n' && key != KEY_UNKNOWN) {
        e->keys &= ~(1u << key); /* null is as good as absent */
        return prn_scan_value(s);
    }
    switch (key) {
    case KEY_CAT:
        return parse_category(p, s, e);
    case KEY_TID:
        return parse_identity(s, &e->thread);
    case KEY_DUR:
        return parse_duration(s, e);
    case KEY_TS:
        return prn_scan_microseconds(s, &e->start_ns);
    case KEY_NAME:
        return parse_name(p, s, e);
    case KEY_ARGS:
        return parse_args(p, s, e);
    default:
        return skip_value(s);
    }
}

/* ---- Texts ---- */

static bool find_text(struct prn_event_parser *p, struct prn_symbols *table,
                      const struct prn_symbol *guess, struct prn_scan_string *string,
                      const char *kind, const struct prn_symbol **ret_symbol)
{
    if (guess && !string->escaped && guess->len == string->len &&
        memcmp(guess->text, string->text, string->len) == 0) {
        *ret_symbol = guess;
        return true;
    }
    if (!decoded(p, string))
        return false;
    int code = prn_symbols_get(table, string->text, string->len, ret_symbol);
    return code == 0 || fail(p, code, kind);
}

/* "b256x1x1,g1x1x1"; -1 where a dimension isn't told. */
static bool find_dimensions(struct prn_event_parser *p, const struct raw_event *e,
                            const struct prn_symbol **ret_symbol)
{
    static const char *const before[] = {"b", "x", "x", ",g", "x", "x"};
    char text[6 * (DIMENSION_MAX + 2) + 1];
    size_t len = 0;
    for (size_t i = 0; i < 6; i++) {
        const struct span *d = &e->dimensions[i];
        for (const char *c = before[i]; *c; c++)
            text[len++] = *c;
        memcpy(text + len, d->text ? d->text : "-1", d->text ? d->len : 2);
        len += d->text ? d->len : 2;
    }
    const struct prn_symbol *last = e->name->dimensions;
    if (last && last->len == len && memcmp(last->text, text, len) == 0) {
        *ret_symbol = last;
        return true;
    }
    int code = prn_symbols_get(&p->dimensions, text, len, ret_symbol);
    return code == 0 || fail(p, code, PRN_EVENT_DIMENSIONS);
}

static bool find_shapes(struct prn_event_parser *p, struct prn_scan *s, struct raw_event *e,
                        const struct prn_symbol **ret_shape)
{
    const struct prn_symbol *shapes[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        if (e->known_shapes[i])
            shapes[i] = e->known_shapes[i]->shape;
        else if (e->shapes[i].text &&
                 !resolve_shapes(p, s, &e->shapes[i], &e->known_shapes[i], &shapes[i]))
            return false;
    }
    *ret_shape = shapes[0];
    return true;
}

static bool find_texts(struct prn_event_parser *p, struct prn_scan *s, struct raw_event *e,
                       struct prn_trace_event *event)
{
    struct prn_trace_name *name = e->name;
    if (e->args >> ARG_OP & 1 &&
        !find_text(p, &p->ops, name->op, &e->args_text[0], PRN_EVENT_OPS, &event->op))
        return false;
    if (e->args >> ARG_PROVIDER & 1 &&
        !find_text(p, &p->providers, name->provider, &e->args_text[1], PRN_EVENT_PROVIDERS,
                   &event->provider))
        return false;
    if (e->category == PRN_TRACE_KERNEL && p->want_dimensions &&
        !find_dimensions(p, e, &event->dimensions))
        return false;
    if (!find_shapes(p, s, e, &event->shape))
        return false;
    name->op = event->op;
    name->provider = event->provider;
    name->dimensions = event->dimensions;
    name->inputs = e->known_shapes[0];
    name->outputs = e->known_shapes[1];
    return true;
}

/* The members as they come, up to the first that isn't where ONNX Runtime puts it: 7 when the name
 * was reached in order. */
static const int frame_keys[] = {KEY_CAT, KEY_PID, KEY_TID, KEY_DUR, KEY_TS, KEY_PH, KEY_NAME};

static void note_member(struct prn_frame_members *m, size_t *n, int key, const char *value,
                        const char *end)
{
    if (*n >= PRN_ARRAY_SIZE(frame_keys) || frame_keys[*n] != key || *value == 'n') {
        *n = SIZE_MAX;
        return;
    }
    if (key == KEY_DUR) {
        m->duration = value;
        m->duration_end = end;
    } else if (key == KEY_TS) {
        m->start = value;
        m->start_end = end;
    } else if (key == KEY_NAME) {
        m->name = value;
    }
    ++*n;
}

static bool parse_members(struct prn_event_parser *p, struct prn_scan *s, struct raw_event *e)
{
    struct prn_frame_members members = {.begin = s->at};
    size_t in_order = 0;
    bool done = open_object(s);
    while (!done) {
        int key = KEY_UNKNOWN;
        if (!parse_event_key(p, s, &e->keys, &key))
            return false;
        const char *value = s->at;
        if (!parse_member(p, s, key, e))
            return false;
        if (in_order < PRN_ARRAY_SIZE(frame_keys))
            note_member(&members, &in_order, key, value, s->at);
        if (!next_member(s, &done))
            return false;
    }
    if (in_order == PRN_ARRAY_SIZE(frame_keys)) {
        members.category = e->category;
        members.thread = e->thread;
        prn_frames_learn(&p->frames, &members);
    }
    return true;
}

/* The same behind a beginning that is known. */
static bool parse_framed(struct prn_event_parser *p, struct prn_scan *s,
                         const struct prn_frame_match *known, struct raw_event *e)
{
    bool done = false;
    e->keys = 0;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(frame_keys); i++)
        e->keys |= 1u << frame_keys[i];
    e->category = known->category;
    e->thread = known->thread;
    e->start_ns = known->start_ns;
    e->duration_ns = known->duration_ns;
    if (!parse_member(p, s, KEY_NAME, e) || !next_member(s, &done))
        return false;
    while (!done) {
        int key = KEY_UNKNOWN;
        if (!parse_event_key(p, s, &e->keys, &key) || !parse_member(p, s, key, e) ||
            !next_member(s, &done))
            return false;
    }
    return true;
}

/* All of it or nothing: ONNX Runtime writes these together. */
static void take_memory(const struct raw_event *e, struct prn_trace_mem *ret_mem)
{
    const unsigned all = ((1u << (ARG_HELD_DELTA + 1)) - 1) & ~((1u << ARG_IN_USE) - 1);
    if ((e->args & all) != all)
        return;
    const int64_t *m = e->memory;
    struct prn_trace_mem mem = {.in_use = m[0],
                                .requested = m[ARG_REQUESTED - ARG_IN_USE],
                                .in_use_delta = m[ARG_IN_USE_DELTA - ARG_IN_USE],
                                .peak = m[ARG_PEAK - ARG_IN_USE],
                                .held = m[ARG_HELD - ARG_IN_USE],
                                .held_delta = m[ARG_HELD_DELTA - ARG_IN_USE]};
    mem.known = mem.in_use >= 0 && mem.requested >= 0 && mem.peak >= 0 && mem.held >= 0;
    *ret_mem = mem;
}

bool prn_event_parse(struct prn_event_parser *p, struct prn_scan *s,
                     struct prn_trace_event *ret_event)
{
    const unsigned needed = 1u << KEY_CAT | 1u << KEY_DUR | 1u << KEY_NAME | 1u << KEY_ARGS;
    struct raw_event e = {0};
    struct prn_frame_match known;
    if (*s->at != '{')
        return prn_scan_fail(s, "expected an event here");
    if (!(prn_frames_match(&p->frames, s, &known) ? parse_framed(p, s, &known, &e)
                                                  : parse_members(p, s, &e)))
        return false;
    struct prn_trace_event event = {.args = e.args_as_is.text, .args_len = e.args_as_is.len};
    if ((e.keys & needed) == needed) {
        event.category = e.category;
        event.start_ns = e.start_ns;
        event.duration_ns = e.duration_ns;
        event.thread = e.category == PRN_TRACE_KERNEL ? e.stream : e.thread;
        event.name = e.name;
        take_memory(&e, &event.memory);
        p->odd = false;
        if (!find_texts(p, s, &e, &event))
            return false;
        if (p->odd)
            event.category = PRN_TRACE_NONE;
        follow_name(p, e.name, e.category == PRN_TRACE_KERNEL);
    }
    *ret_event = event;
    return true;
}
