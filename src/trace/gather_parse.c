/*
 * The parser of --gather expressions: recursive descent with one token of look-ahead, one function
 * for each rank of operators. A function returns NULL after a fault, whose code is in the parser.
 * Names are looked up in a second walk, because a comprehension uses its variables before the
 * `for` that binds them.
 */
#include "base/text.h"
#include "trace/gather_parse.h"

#include <stdio.h>
#include <string.h>

/* Brackets, prefixes and exponents inside each other. */
#define DEPTH_MAX 100
/* In the whole expression: an evaluation recurses into each, and so does the look-up of names. */
#define CLAUSES_MAX 100
#define SUBSCRIPTS_MAX 100

#define DIGITS "0123456789"
#define WORD "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_" DIGITS

struct token {
    enum prn_gather_symbol symbol;
    size_t at, len;
};

struct parser {
    const struct prn_gather_source *source;
    struct prn_arena *arena;
    struct token token;
    size_t end; /* of the token before it */
    int depth;
    int n_clauses;
    int n_subscripts;
    int code; /* 0, or the first fault */
};

/* The part of a comprehension's clauses whose variables have a value at some place in the text, and
 * the comprehension around it. */
struct scope {
    struct prn_gather_clause *clauses;
    size_t n_bound;
    const struct scope *outer;
};

static size_t column(const char *text, size_t at)
{
    size_t n = 1;
    for (size_t i = 0; i < at; n++) {
        size_t len = prn_utf8_length(text + i);
        i += len ? len : 1;
    }
    return n;
}

int prn_gather_fault(const struct prn_gather_source *source, size_t at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    prn_vfail(source->err, PRONY_EUSAGE, format, args);
    va_end(args);
    return prn_fail_in(source->err, PRONY_EUSAGE, "--gather: column %zu", column(source->text, at));
}

size_t prn_gather_tree_bytes(size_t len)
{
    /* A byte is at most one token, and a token makes at most a node or a clause; the arena rounds
     * up. */
    return (len + 1) * (sizeof(struct prn_gather_node) + sizeof(struct prn_gather_clause) + 64);
}

static struct token word_token(const char *text, size_t at)
{
    static const struct {
        const char *word;
        enum prn_gather_symbol symbol;
    } keywords[] = {
        {"and", PRN_GATHER_AND},   {"or", PRN_GATHER_OR},       {"not", PRN_GATHER_NOT},
        {"in", PRN_GATHER_IN},     {"if", PRN_GATHER_IF},       {"for", PRN_GATHER_FOR},
        {"True", PRN_GATHER_TRUE}, {"False", PRN_GATHER_FALSE},
    };
    struct token t = {PRN_GATHER_NAME, at, strspn(text + at, WORD)};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(keywords); i++)
        if (strlen(keywords[i].word) == t.len && memcmp(keywords[i].word, text + at, t.len) == 0)
            t.symbol = keywords[i].symbol;
    return t;
}

static struct token sign_token(const char *text, size_t at)
{
    static const struct {
        const char *sign; /* the longer ones first */
        enum prn_gather_symbol symbol;
    } signs[] = {
        {"**", PRN_GATHER_POWER},      {"//", PRN_GATHER_FLOOR},
        {"<=", PRN_GATHER_LESS_EQUAL}, {">=", PRN_GATHER_GREATER_EQUAL},
        {"==", PRN_GATHER_EQUAL},      {"!=", PRN_GATHER_NOT_EQUAL},
        {"<", PRN_GATHER_LESS},        {">", PRN_GATHER_GREATER},
        {"+", PRN_GATHER_PLUS},        {"-", PRN_GATHER_MINUS},
        {"*", PRN_GATHER_TIMES},       {"%", PRN_GATHER_MODULO},
        {"(", PRN_GATHER_OPEN_ROUND},  {")", PRN_GATHER_CLOSE_ROUND},
        {"[", PRN_GATHER_OPEN_SQUARE}, {"]", PRN_GATHER_CLOSE_SQUARE},
        {"{", PRN_GATHER_OPEN_CURLY},  {"}", PRN_GATHER_CLOSE_CURLY},
        {",", PRN_GATHER_COMMA},       {".", PRN_GATHER_DOT},
        {":", PRN_GATHER_COLON},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(signs); i++)
        if (strncmp(text + at, signs[i].sign, strlen(signs[i].sign)) == 0)
            return (struct token){signs[i].symbol, at, strlen(signs[i].sign)};
    size_t len = prn_utf8_length(text + at);
    return (struct token){PRN_GATHER_BAD, at, len ? len : 1};
}

/* The token at or behind `at`. What looks like a number reaches as far as a person would read it,
 * "0x1f" or "1.5", and is judged when it is used. */
static struct token next_token(const char *text, size_t at)
{
    at += strspn(text + at, " \t\r\n\f");
    if (text[at] == '\0')
        return (struct token){PRN_GATHER_END, at, 0};
    if (strchr(DIGITS, text[at]))
        return (struct token){PRN_GATHER_NUMBER, at, strspn(text + at, WORD ".")};
    return strchr(WORD, text[at]) ? word_token(text, at) : sign_token(text, at);
}

static void advance(struct parser *p)
{
    p->end = p->token.at + p->token.len;
    p->token = next_token(p->source->text, p->end);
}

/* Takes the token if it is that symbol. */
static bool take(struct parser *p, enum prn_gather_symbol symbol)
{
    if (p->token.symbol != symbol)
        return false;
    advance(p);
    return true;
}

static void *unexpected(struct parser *p, const char *expected)
{
    const struct token *t = &p->token;
    const char *text = p->source->text + t->at;
    if (t->symbol == PRN_GATHER_END)
        p->code = prn_gather_fault(p->source, t->at, "unexpected end; expected %s", expected);
    else if (t->symbol == PRN_GATHER_BAD && *text == '/')
        p->code = prn_gather_fault(p->source, t->at, "'/' makes fractions; use // to divide");
    else if (t->symbol == PRN_GATHER_BAD && *text == '=')
        p->code = prn_gather_fault(p->source, t->at, "'=' doesn't compare; use ==");
    else
        p->code = prn_gather_fault(p->source, t->at, "unexpected '%.*s'; expected %s",
                                   prn_gather_shown(t->len), text, expected);
    return NULL;
}

/* Takes the bracket that closes the one at `open`; `expected` is what could stand here. */
static bool close_bracket(struct parser *p, enum prn_gather_symbol symbol, size_t open,
                          const char *expected)
{
    if (take(p, symbol))
        return true;
    char text[100];
    snprintf(text, sizeof text, "%s for the '%c' of column %zu", expected, p->source->text[open],
             column(p->source->text, open));
    unexpected(p, text);
    return false;
}

static void *out_of_memory(struct parser *p)
{
    p->code = prn_fail_memory(p->source->err);
    return NULL;
}

static struct prn_gather_node *new_node(struct parser *p, enum prn_gather_kind kind, size_t at)
{
    struct prn_gather_node *node = PRN_ARENA_NEW(p->arena, struct prn_gather_node);
    if (!node)
        return out_of_memory(p);
    node->kind = kind;
    node->at = at;
    node->end = p->end;
    return node;
}

static bool enter(struct parser *p)
{
    if (p->depth == DEPTH_MAX) {
        p->code = prn_gather_fault(p->source, p->token.at, "nested more than %d deep", DEPTH_MAX);
        return false;
    }
    p->depth++;
    return true;
}

static struct prn_gather_node *parse_or(struct parser *p);
static struct prn_gather_node *parse_unary(struct parser *p);

/* An expression inside another one, or the whole. */
static struct prn_gather_node *parse_expression(struct parser *p)
{
    if (!enter(p))
        return NULL;
    struct prn_gather_node *node = parse_or(p);
    p->depth--;
    return node;
}

/* 10, or 16, 8, 2 for what begins with 0x, 0o or 0b. */
static int base_of(const char *digits, size_t len)
{
    static const char letters[] = "xXoObB";
    static const int bases[] = {16, 8, 2};
    const char *letter = len > 2 && digits[0] == '0' ? memchr(letters, digits[1], 6) : NULL;
    return letter ? bases[(letter - letters) / 2] : 10;
}

/* The value of a digit, or the base if it isn't one. */
static int digit_of(char c, int base)
{
    static const char digits[] = "0123456789abcdef";
    const char *at = strchr(digits, c >= 'A' && c <= 'F' ? c - 'A' + 'a' : c);
    return c && at && at - digits < base ? (int)(at - digits) : base;
}

/* As Python writes numbers, with '_' between digits. False when they are something else. */
static bool read_number(const char *digits, size_t len, int64_t *ret_number, bool *ret_overflow)
{
    int base = base_of(digits, len);
    size_t i = base == 10 ? 0 : 2;
    bool zeros = base == 10 && len > 1 && digits[0] == '0';
    int64_t number = 0;
    for (bool between = base != 10; i < len; i++) {
        if (digits[i] == '_' && between && i + 1 < len) {
            between = false;
            continue;
        }
        int digit = digit_of(digits[i], base);
        if (digit == base || (zeros && digit > 0))
            return false;
        *ret_overflow = __builtin_mul_overflow(number, base, &number) ||
                        __builtin_add_overflow(number, digit, &number) || *ret_overflow;
        between = true;
    }
    *ret_number = number;
    return true;
}

static struct prn_gather_node *parse_number(struct parser *p)
{
    const struct token t = p->token;
    const char *digits = p->source->text + t.at;
    int64_t number = 0;
    bool overflow = false;
    bool whole = read_number(digits, t.len, &number, &overflow);
    if (!whole || overflow) {
        p->code = prn_gather_fault(p->source, t.at, "%.*s: %s", prn_gather_shown(t.len), digits,
                                   whole ? "too large" : "not a whole number");
        return NULL;
    }
    advance(p);
    struct prn_gather_node *node = new_node(p, PRN_GATHER_KIND_NUMBER, t.at);
    if (node)
        node->number = number;
    return node;
}

static struct prn_gather_node *parse_truth(struct parser *p)
{
    size_t at = p->token.at;
    int64_t number = p->token.symbol == PRN_GATHER_TRUE;
    advance(p);
    struct prn_gather_node *node = new_node(p, PRN_GATHER_KIND_NUMBER, at);
    if (node)
        node->number = number;
    return node;
}

/* "for name in list", with the conditions behind it. */
static struct prn_gather_clause *parse_clause(struct parser *p)
{
    if (p->n_clauses++ == CLAUSES_MAX) {
        p->code = prn_gather_fault(p->source, p->token.at, "more than %d times 'for'", CLAUSES_MAX);
        return NULL;
    }
    advance(p);
    struct prn_gather_clause *clause = PRN_ARENA_NEW(p->arena, struct prn_gather_clause);
    if (!clause)
        return out_of_memory(p);
    clause->name_at = p->token.at;
    clause->name_len = p->token.len;
    if (!take(p, PRN_GATHER_NAME))
        return unexpected(p, "the name of a variable");
    if (!take(p, PRN_GATHER_IN))
        return unexpected(p, "'in'");
    clause->list = parse_expression(p);
    if (!clause->list)
        return NULL;
    struct prn_gather_node **tail = &clause->conditions;
    while (take(p, PRN_GATHER_IF)) {
        *tail = parse_expression(p);
        if (!*tail)
            return NULL;
        tail = &(*tail)->next;
    }
    return clause;
}

static bool parse_clauses(struct parser *p, struct prn_gather_clause **tail)
{
    while (p->token.symbol == PRN_GATHER_FOR) {
        *tail = parse_clause(p);
        if (!*tail)
            return false;
        tail = &(*tail)->next;
    }
    return true;
}

/* "*list" among items. */
static struct prn_gather_node *parse_spread(struct parser *p)
{
    struct prn_gather_node *node = new_node(p, PRN_GATHER_KIND_SPREAD, p->token.at);
    if (!node)
        return NULL;
    advance(p);
    node->first = parse_expression(p);
    if (!node->first)
        return NULL;
    node->end = node->first->end;
    return node;
}

/* Expressions up to the bracket that closes, which is left; a last comma is allowed, and told. */
static bool parse_items(struct parser *p, enum prn_gather_symbol close,
                        struct prn_gather_node **tail, bool *ret_comma)
{
    bool more = true;
    *ret_comma = false;
    while (more && p->token.symbol != close) {
        *tail = p->token.symbol == PRN_GATHER_TIMES ? parse_spread(p) : parse_expression(p);
        if (!*tail)
            return false;
        tail = &(*tail)->next;
        more = take(p, PRN_GATHER_COMMA);
        *ret_comma = *ret_comma || more;
    }
    return true;
}

/* The clauses of a comprehension, if the only item is the beginning of one. */
static bool parse_comprehension(struct parser *p, struct prn_gather_node *node, bool comma)
{
    bool alone =
        node->first && !node->first->next && !comma && node->first->kind != PRN_GATHER_KIND_SPREAD;
    if (!alone || p->token.symbol != PRN_GATHER_FOR)
        return true;
    node->kind = PRN_GATHER_KIND_COMPREHENSION;
    return parse_clauses(p, &node->clauses);
}

/* [a, b], {a, b}, (a, b), what makes such a list, or a value in parentheses. */
static struct prn_gather_node *parse_brackets(struct parser *p)
{
    static const struct {
        enum prn_gather_symbol open, close;
        const char *of_clauses, *of_items;
    } brackets[] = {
        {PRN_GATHER_OPEN_SQUARE, PRN_GATHER_CLOSE_SQUARE, "'for', 'if' or ']'", "',' or ']'"},
        {PRN_GATHER_OPEN_CURLY, PRN_GATHER_CLOSE_CURLY, "'for', 'if' or '}'", "',' or '}'"},
        {PRN_GATHER_OPEN_ROUND, PRN_GATHER_CLOSE_ROUND, "'for', 'if' or ')'",
         "an operator, ',' or ')'"},
    };
    size_t which = 0;
    while (brackets[which].open != p->token.symbol)
        which++;
    struct prn_gather_node *node = new_node(p, PRN_GATHER_KIND_ITEMS, p->token.at);
    bool comma;
    if (!node)
        return NULL;
    advance(p);
    if (!parse_items(p, brackets[which].close, &node->first, &comma) ||
        !parse_comprehension(p, node, comma) ||
        !close_bracket(p, brackets[which].close, node->at,
                       node->clauses ? brackets[which].of_clauses : brackets[which].of_items))
        return NULL;
    node->end = p->end;
    bool value = brackets[which].open == PRN_GATHER_OPEN_ROUND && node->first &&
                 !node->first->next && !comma && !node->clauses &&
                 node->first->kind != PRN_GATHER_KIND_SPREAD;
    if (!value)
        return node;
    node->first->at = node->at;
    node->first->end = node->end;
    return node->first;
}

static bool is_word(const struct parser *p, const struct token *t, const char *word)
{
    return t->len == strlen(word) && memcmp(p->source->text + t->at, word, t->len) == 0;
}

static int unknown_name(const struct prn_gather_source *source, size_t at, size_t len)
{
    return prn_gather_fault(
        source, at,
        "unknown name '%.*s'; known are range(), list(), tuple(), set(), sorted(), "
        "reversed(), True, False and variables bound by 'for'",
        prn_gather_shown(len), source->text + at);
}

/* The arguments of a call, of which a single one may be a comprehension without brackets. */
static bool parse_arguments(struct parser *p, struct prn_gather_node *node)
{
    size_t open = p->token.at;
    bool comma;
    advance(p);
    if (!parse_items(p, PRN_GATHER_CLOSE_ROUND, &node->first, &comma))
        return false;
    if (p->token.symbol == PRN_GATHER_FOR && node->first && !node->first->next) {
        struct prn_gather_node *list = new_node(p, PRN_GATHER_KIND_COMPREHENSION, node->first->at);
        if (!list)
            return false;
        list->first = node->first;
        node->first = list;
        if (!parse_comprehension(p, list, comma))
            return false;
        list->end = p->end;
    }
    if (!close_bracket(p, PRN_GATHER_CLOSE_ROUND, open, "',' or ')'"))
        return false;
    node->end = p->end;
    return true;
}

static struct prn_gather_node *parse_call(struct parser *p, const struct token *name)
{
    static const struct {
        const char *name;
        enum prn_gather_kind kind;
    } functions[] = {
        {"range", PRN_GATHER_KIND_RANGE},   {"list", PRN_GATHER_KIND_LIST},
        {"tuple", PRN_GATHER_KIND_LIST},    {"set", PRN_GATHER_KIND_SET},
        {"sorted", PRN_GATHER_KIND_SORTED}, {"reversed", PRN_GATHER_KIND_REVERSED},
    };
    size_t i = 0;
    while (i < PRN_ARRAY_SIZE(functions) && !is_word(p, name, functions[i].name))
        i++;
    if (i == PRN_ARRAY_SIZE(functions)) {
        p->code = unknown_name(p->source, name->at, name->len);
        return NULL;
    }
    struct prn_gather_node *node = new_node(p, functions[i].kind, name->at);
    if (!node)
        return NULL;
    node->name_at = name->at;
    node->name_len = name->len;
    if (!parse_arguments(p, node))
        return NULL;
    size_t n = 0;
    for (const struct prn_gather_node *item = node->first; item; item = item->next)
        n++;
    bool is_range = functions[i].kind == PRN_GATHER_KIND_RANGE;
    if (n < 1 || n > (is_range ? 3 : 1)) {
        p->code = prn_gather_fault(p->source, name->at, "%s() takes %s, not %zu", functions[i].name,
                                   is_range ? "one to three numbers" : "one list", n);
        return NULL;
    }
    return node;
}

static struct prn_gather_node *parse_name(struct parser *p)
{
    struct token name = p->token;
    advance(p);
    if (p->token.symbol == PRN_GATHER_OPEN_ROUND)
        return parse_call(p, &name);
    if (p->token.symbol == PRN_GATHER_DOT) {
        p->code = unknown_name(p->source, name.at, name.len);
        return NULL;
    }
    struct prn_gather_node *node = new_node(p, PRN_GATHER_KIND_VARIABLE, name.at);
    if (node) {
        node->name_at = name.at;
        node->name_len = name.len;
    }
    return node;
}

static struct prn_gather_node *parse_atom(struct parser *p)
{
    switch (p->token.symbol) {
    case PRN_GATHER_NUMBER:
        return parse_number(p);
    case PRN_GATHER_TRUE:
    case PRN_GATHER_FALSE:
        return parse_truth(p);
    case PRN_GATHER_NAME:
        return parse_name(p);
    case PRN_GATHER_OPEN_ROUND:
    case PRN_GATHER_OPEN_SQUARE:
    case PRN_GATHER_OPEN_CURLY:
        return parse_brackets(p);
    default:
        return unexpected(p, "a number or a list");
    }
}

/* One part of a slice, up to the ':' or ']' behind it. */
static struct prn_gather_node *parse_bound(struct parser *p)
{
    if (p->token.symbol == PRN_GATHER_COLON || p->token.symbol == PRN_GATHER_CLOSE_SQUARE)
        return new_node(p, PRN_GATHER_KIND_NONE, p->token.at);
    return parse_expression(p);
}

/* "[i]" or "[from:to:step]" behind `base`. */
static struct prn_gather_node *parse_subscript(struct parser *p, struct prn_gather_node *base)
{
    size_t open = p->token.at;
    if (p->n_subscripts++ == SUBSCRIPTS_MAX) {
        p->code = prn_gather_fault(p->source, open, "more than %d subscripts", SUBSCRIPTS_MAX);
        return NULL;
    }
    struct prn_gather_node *node = new_node(p, PRN_GATHER_KIND_INDEX, base->at);
    if (!node)
        return NULL;
    advance(p);
    node->first = base;
    struct prn_gather_node *last = base;
    size_t n = 0;
    do {
        last->next = parse_bound(p);
        if (!last->next)
            return NULL;
        last = last->next;
        n++;
    } while (n < 3 && take(p, PRN_GATHER_COLON));
    if (!close_bracket(p, PRN_GATHER_CLOSE_SQUARE, open, "':' or ']'"))
        return NULL;
    node->end = p->end;
    if (n > 1)
        node->kind = PRN_GATHER_KIND_SLICE;
    return node;
}

static struct prn_gather_node *parse_primary(struct parser *p)
{
    struct prn_gather_node *node = parse_atom(p);
    while (node && p->token.symbol == PRN_GATHER_OPEN_SQUARE)
        node = parse_subscript(p, node);
    return node;
}

/* Operands joined by the operators from `low` to `high`; a single operand stays as it is. */
static struct prn_gather_node *
parse_chain(struct parser *p, enum prn_gather_kind kind, enum prn_gather_symbol low,
            enum prn_gather_symbol high, struct prn_gather_node *(*parse_operand)(struct parser *))
{
    struct prn_gather_node *first = parse_operand(p);
    struct prn_gather_node *chain = first;
    struct prn_gather_node *last = first;
    if (!first)
        return NULL;
    for (;;) {
        enum prn_gather_symbol op = p->token.symbol;
        if (kind == PRN_GATHER_KIND_COMPARISON && take(p, PRN_GATHER_NOT)) {
            if (p->token.symbol != PRN_GATHER_IN)
                return unexpected(p, "'in'");
            op = PRN_GATHER_NOT_IN;
        }
        if (op < low || op > high)
            return chain;
        advance(p);
        if (chain == first) {
            chain = new_node(p, kind, first->at);
            if (!chain)
                return NULL;
            chain->first = first;
        }
        last->next = parse_operand(p);
        if (!last->next)
            return NULL;
        last = last->next;
        last->op = op;
        chain->end = last->end;
    }
}

/* The exponent may have a sign of its own, and is itself a power first: 2**-3**2. */
static struct prn_gather_node *parse_power(struct parser *p)
{
    struct prn_gather_node *base = parse_primary(p);
    if (!base || !take(p, PRN_GATHER_POWER))
        return base;
    struct prn_gather_node *power = new_node(p, PRN_GATHER_KIND_ARITHMETIC, base->at);
    struct prn_gather_node *exponent = power && enter(p) ? parse_unary(p) : NULL;
    if (!exponent)
        return NULL;
    p->depth--;
    exponent->op = PRN_GATHER_POWER;
    base->next = exponent;
    power->first = base;
    power->end = exponent->end;
    return power;
}

static struct prn_gather_node *
parse_prefix(struct parser *p, enum prn_gather_kind kind,
             struct prn_gather_node *(*parse_operand)(struct parser *))
{
    struct prn_gather_node *node = new_node(p, kind, p->token.at);
    if (!node || !enter(p))
        return NULL;
    advance(p);
    node->first = parse_operand(p);
    if (!node->first)
        return NULL;
    node->end = node->first->end;
    p->depth--;
    return node;
}

static struct prn_gather_node *parse_unary(struct parser *p)
{
    if (p->token.symbol == PRN_GATHER_MINUS)
        return parse_prefix(p, PRN_GATHER_KIND_NEGATIVE, parse_unary);
    if (p->token.symbol == PRN_GATHER_PLUS)
        return parse_prefix(p, PRN_GATHER_KIND_POSITIVE, parse_unary);
    return parse_power(p);
}

static struct prn_gather_node *parse_product(struct parser *p)
{
    return parse_chain(p, PRN_GATHER_KIND_ARITHMETIC, PRN_GATHER_TIMES, PRN_GATHER_MODULO,
                       parse_unary);
}

static struct prn_gather_node *parse_sum(struct parser *p)
{
    return parse_chain(p, PRN_GATHER_KIND_ARITHMETIC, PRN_GATHER_PLUS, PRN_GATHER_MINUS,
                       parse_product);
}

static struct prn_gather_node *parse_comparison(struct parser *p)
{
    return parse_chain(p, PRN_GATHER_KIND_COMPARISON, PRN_GATHER_LESS, PRN_GATHER_NOT_IN,
                       parse_sum);
}

static struct prn_gather_node *parse_not(struct parser *p)
{
    if (p->token.symbol == PRN_GATHER_NOT)
        return parse_prefix(p, PRN_GATHER_KIND_NOT, parse_not);
    return parse_comparison(p);
}

static struct prn_gather_node *parse_and(struct parser *p)
{
    return parse_chain(p, PRN_GATHER_KIND_AND, PRN_GATHER_AND, PRN_GATHER_AND, parse_not);
}

static struct prn_gather_node *parse_or(struct parser *p)
{
    return parse_chain(p, PRN_GATHER_KIND_OR, PRN_GATHER_OR, PRN_GATHER_OR, parse_and);
}

/* The first clause with that name; *ret_index counts the ones before it. */
static struct prn_gather_clause *find_clause(const char *text, struct prn_gather_clause *clauses,
                                             size_t name_at, size_t name_len, size_t *ret_index)
{
    size_t i = 0;
    for (struct prn_gather_clause *c = clauses; c; c = c->next, i++) {
        if (c->name_len == name_len && memcmp(text + c->name_at, text + name_at, name_len) == 0) {
            *ret_index = i;
            return c;
        }
    }
    return NULL;
}

/* The clause that binds the name at this place; NULL when none does. As in Python, a name that any
 * clause of a comprehension binds belongs to that comprehension, even where it has no value yet. */
static int look_up(const struct prn_gather_source *source, const struct prn_gather_node *node,
                   const struct scope *scope, const struct prn_gather_clause **ret_clause)
{
    const struct prn_gather_clause *found = NULL;
    for (; scope && !found; scope = scope->outer) {
        size_t i;
        found = find_clause(source->text, scope->clauses, node->name_at, node->name_len, &i);
        if (found && i >= scope->n_bound)
            return prn_gather_fault(source, node->name_at, "'%.*s' is used before its 'for'",
                                    prn_gather_shown(node->name_len), source->text + node->name_at);
    }
    *ret_clause = found;
    return 0;
}

static int resolve(const struct prn_gather_source *source, struct prn_gather_node *node,
                   const struct scope *scope);

static int resolve_all(const struct prn_gather_source *source, struct prn_gather_node *first,
                       const struct scope *scope)
{
    int code = 0;
    for (struct prn_gather_node *node = first; node && code == 0; node = node->next)
        code = resolve(source, node, scope);
    return code;
}

static int resolve_comprehension(const struct prn_gather_source *source,
                                 struct prn_gather_node *node, const struct scope *outer)
{
    struct scope scope = {.clauses = node->clauses, .outer = outer};
    for (struct prn_gather_clause *c = node->clauses; c; c = c->next) {
        /* The first list is evaluated before the comprehension begins. */
        int code = resolve(source, c->list, c == node->clauses ? outer : &scope);
        size_t index;
        c->variable = find_clause(source->text, node->clauses, c->name_at, c->name_len, &index);
        scope.n_bound++;
        if (code == 0)
            code = resolve_all(source, c->conditions, &scope);
        if (code < 0)
            return code;
    }
    return resolve(source, node->first, &scope);
}

static int resolve_name(const struct prn_gather_source *source, struct prn_gather_node *node,
                        const struct scope *scope)
{
    int code = look_up(source, node, scope, &node->variable);
    if (code < 0)
        return code;
    if (node->kind == PRN_GATHER_KIND_VARIABLE && !node->variable)
        return unknown_name(source, node->name_at, node->name_len);
    if (node->kind != PRN_GATHER_KIND_VARIABLE && node->variable)
        return prn_gather_fault(source, node->name_at,
                                "'%.*s' is a variable here and can't be called",
                                (int)node->name_len, source->text + node->name_at);
    return 0;
}

/* Connects the names in a part of the tree to the clauses that bind them. */
static int resolve(const struct prn_gather_source *source, struct prn_gather_node *node,
                   const struct scope *scope)
{
    if (node->kind == PRN_GATHER_KIND_COMPREHENSION)
        return resolve_comprehension(source, node, scope);
    int code = node->name_len ? resolve_name(source, node, scope) : 0;
    return code < 0 ? code : resolve_all(source, node->first, scope);
}

/* A value, or several without brackets: 1, 2, 3. */
static struct prn_gather_node *parse_root(struct parser *p)
{
    struct prn_gather_node *items = new_node(p, PRN_GATHER_KIND_ITEMS, p->token.at);
    bool comma = false;
    if (p->token.symbol == PRN_GATHER_END)
        return parse_expression(p);
    if (!items || !parse_items(p, PRN_GATHER_END, &items->first, &comma))
        return NULL;
    items->end = p->end;
    return comma || items->first->kind == PRN_GATHER_KIND_SPREAD ? items : items->first;
}

int prn_gather_parse_tree(const struct prn_gather_source *source, struct prn_arena *arena,
                          struct prn_gather_node **ret_root)
{
    struct parser p = {.source = source, .arena = arena, .token = next_token(source->text, 0)};
    struct prn_gather_node *root = parse_root(&p);
    if (root && p.token.symbol != PRN_GATHER_END)
        unexpected(&p, "an operator or the end");
    if (p.code < 0)
        return p.code;
    int code = resolve(source, root, NULL);
    if (code == 0)
        *ret_root = root;
    return code;
}
