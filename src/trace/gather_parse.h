/*
 * The syntax tree of a --gather expression, between gather_parse.c, which makes it, and gather.c,
 * which evaluates it.
 *
 * Operators of equal rank make one node with many operands, linked by `next`, instead of a tree
 * that leans to one side. So the tree is only as deep as the brackets and prefixes in the text are
 * nested, which has a limit, and both sides may recurse. A variable is the clause that binds it
 * first: nothing calls itself, so one value for each is enough.
 */
#ifndef PRN_TRACE_GATHER_PARSE_H
#define PRN_TRACE_GATHER_PARSE_H

#include "base/arena.h"
#include "base/error.h"

/* Tokens. Those that are operators also say how an operand is joined to the ones before it. The
 * operators of one rank stand together. */
enum prn_gather_symbol {
    PRN_GATHER_END,
    PRN_GATHER_BAD,
    PRN_GATHER_NUMBER,
    PRN_GATHER_NAME,
    PRN_GATHER_TRUE,
    PRN_GATHER_FALSE,
    PRN_GATHER_FOR,
    PRN_GATHER_IF,
    PRN_GATHER_NOT,
    PRN_GATHER_DOT,
    PRN_GATHER_COMMA,
    PRN_GATHER_OPEN_ROUND,
    PRN_GATHER_CLOSE_ROUND,
    PRN_GATHER_OPEN_SQUARE,
    PRN_GATHER_CLOSE_SQUARE,
    PRN_GATHER_OPEN_CURLY,
    PRN_GATHER_CLOSE_CURLY,
    PRN_GATHER_COLON,
    PRN_GATHER_OR,
    PRN_GATHER_AND,
    PRN_GATHER_LESS,
    PRN_GATHER_LESS_EQUAL,
    PRN_GATHER_GREATER,
    PRN_GATHER_GREATER_EQUAL,
    PRN_GATHER_EQUAL,
    PRN_GATHER_NOT_EQUAL,
    PRN_GATHER_IN,
    PRN_GATHER_NOT_IN,
    PRN_GATHER_PLUS,
    PRN_GATHER_MINUS,
    PRN_GATHER_TIMES,
    PRN_GATHER_FLOOR,
    PRN_GATHER_MODULO,
    PRN_GATHER_POWER,
};

enum prn_gather_kind {
    PRN_GATHER_KIND_NUMBER,
    PRN_GATHER_KIND_VARIABLE,
    PRN_GATHER_KIND_ITEMS,         /* [a, b], (a, b), {a, b}: the operands */
    PRN_GATHER_KIND_SPREAD,        /* *a, among items */
    PRN_GATHER_KIND_COMPREHENSION, /* the operand, for each round of the clauses */
    PRN_GATHER_KIND_RANGE,         /* one to three operands */
    PRN_GATHER_KIND_LIST,          /* one operand; also tuple() */
    PRN_GATHER_KIND_SET,           /* the same, each value once, ascending */
    PRN_GATHER_KIND_SORTED,
    PRN_GATHER_KIND_REVERSED,
    PRN_GATHER_KIND_INDEX, /* a[b] */
    PRN_GATHER_KIND_SLICE, /* a[b:c:d], four operands */
    PRN_GATHER_KIND_NONE,  /* one of those that is left out */
    PRN_GATHER_KIND_NOT,
    PRN_GATHER_KIND_NEGATIVE,
    PRN_GATHER_KIND_POSITIVE,
    PRN_GATHER_KIND_OR, /* two or more operands, as with the rest */
    PRN_GATHER_KIND_AND,
    PRN_GATHER_KIND_COMPARISON,
    PRN_GATHER_KIND_ARITHMETIC,
};

struct prn_gather_clause;

struct prn_gather_node {
    enum prn_gather_kind kind;
    enum prn_gather_symbol op; /* joins this operand to the ones before it */
    size_t at, end;            /* the bytes of the text, with the parentheses around */
    struct prn_gather_node *first;
    struct prn_gather_node *next; /* the next operand of the same node */
    int64_t number;
    size_t name_at, name_len; /* of a variable or function */
    const struct prn_gather_clause *variable;
    struct prn_gather_clause *clauses;
};

/* "for name in list if condition if condition". */
struct prn_gather_clause {
    size_t name_at, name_len;
    struct prn_gather_node *list;
    struct prn_gather_node *conditions; /* linked by `next` */
    struct prn_gather_clause *next;
    /* The first clause of the same comprehension with that name, often this one. As in Python, all
     * of them set one variable, which a later list may use when it is made again. */
    struct prn_gather_clause *variable;
    int64_t value; /* of the variable, now; only in the first clause */
};

/* Where faults are reported. */
struct prn_gather_source {
    const char *text;
    struct prony_error *err; /* may be NULL */
};

/* PRONY_EUSAGE with "--gather: column N: " in front; `at` is in bytes from the text's start. */
int prn_gather_fault(const struct prn_gather_source *source, size_t at, const char *format, ...)
    PRN_PRINTF(3, 4);

/* How many bytes of a piece of the text a message shows. */
static inline int prn_gather_shown(size_t len)
{
    return len > 60 ? 60 : (int)len;
}

/* The most bytes that the tree of a text of `len` bytes takes. */
size_t prn_gather_tree_bytes(size_t len);

/* Parses the text and finds the clause of each variable. The tree lives in the arena. */
PRONY_MUST_CHECK int prn_gather_parse_tree(const struct prn_gather_source *source,
                                           struct prn_arena *arena,
                                           struct prn_gather_node **ret_root);

#endif
