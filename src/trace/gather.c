/*
 * Evaluates --gather expressions. A value is a number or a list; every list has one owner, who
 * hands it on or releases it, so that a comprehension leaves nothing behind from one round to the
 * next. A range stays three numbers until something is added to it. Each node that is evaluated
 * and each value that is put into a list is a step, and steps are limited, which bounds the time
 * and also the memory of all lists together.
 */
#include "trace/gather.h"

#include "base/format.h"
#include "trace/gather_parse.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define EXPRESSION_BYTES_MAX ((size_t)64 * 1024)
#define LIST_VALUES_MAX ((size_t)1000000)
#define STEPS_MAX ((uint64_t)10000000)

#define NUMBER_NEEDED "a number, not a list, is needed"
#define LIST_NEEDED "a list, not a number, is needed"

/* Without `items` it is the range first, first + step, ...; an empty list needs none. */
struct list {
    int64_t *items;
    size_t capacity;
    size_t n;
    int64_t first;
    int64_t step;
};

struct value {
    bool is_list;
    int64_t number;
    struct list list;
};

struct evaluation {
    const struct prn_gather_source *source;
    uint64_t steps;
};

static void release_list(struct list *list)
{
    free(list->items);
    *list = (struct list){0};
}

static int64_t list_item(const struct list *list, size_t i)
{
    /* The distance from the first may need all 64 bits; the sum fits. */
    return list->items ? list->items[i]
                       : (int64_t)((uint64_t)list->first + (uint64_t)i * (uint64_t)list->step);
}

static struct value number_value(int64_t number)
{
    return (struct value){.number = number};
}

static bool is_true(const struct value *v)
{
    return v->is_list ? v->list.n > 0 : v->number != 0;
}

static int fault(const struct evaluation *e, const struct prn_gather_node *node, const char *what)
{
    return prn_gather_fault(e->source, node->at, "%s", what);
}

/* A fault in what stands between two places of the text, which is shown. */
static int fault_shown(const struct evaluation *e, size_t at, size_t end, const char *what)
{
    int shown = prn_gather_shown(end - at);
    return prn_gather_fault(e->source, at, "%.*s%s: %s", shown, e->source->text + at,
                            (size_t)shown < end - at ? "..." : "", what);
}

static int too_many_values(const struct evaluation *e, const struct prn_gather_node *node)
{
    char most[PRN_FORMAT_SIZE];
    return prn_gather_fault(e->source, node->at, "more than %s values in a list",
                            prn_format_integer(most, LIST_VALUES_MAX));
}

static int take_steps(struct evaluation *e, const struct prn_gather_node *node, size_t n)
{
    e->steps += n;
    if (e->steps <= STEPS_MAX)
        return 0;
    char most[PRN_FORMAT_SIZE];
    return prn_gather_fault(e->source, node->at, "this takes more than %s steps",
                            prn_format_integer(most, STEPS_MAX));
}

/* Makes room for `more` values behind those of the list, which has `items` from then on. */
static int extend(struct evaluation *e, const struct prn_gather_node *node, struct list *list,
                  size_t more)
{
    if (more > LIST_VALUES_MAX - list->n)
        return too_many_values(e, node);
    int code = take_steps(e, node, more + (list->items ? 0 : list->n));
    if (code < 0)
        return code;
    size_t capacity = list->n + more;
    if (list->items && capacity <= list->capacity)
        return 0;
    capacity += capacity / 2 + 4;
    int64_t *items = realloc(list->items, capacity * sizeof *items);
    if (!items)
        return prn_fail_memory(e->source->err);
    for (size_t i = 0; i < list->n && !list->items; i++)
        items[i] = list_item(list, i);
    list->items = items;
    list->capacity = capacity;
    return 0;
}

static int append(struct evaluation *e, const struct prn_gather_node *node, struct list *list,
                  int64_t number)
{
    int code = extend(e, node, list, 1);
    if (code == 0)
        list->items[list->n++] = number;
    return code;
}

static int concatenate(struct evaluation *e, const struct prn_gather_node *node, struct list *left,
                       const struct list *right)
{
    int code = extend(e, node, left, right->n);
    if (code < 0)
        return code;
    for (size_t i = 0; i < right->n; i++)
        left->items[left->n++] = list_item(right, i);
    return 0;
}

static int repeat(struct evaluation *e, const struct prn_gather_node *node, struct list *list,
                  int64_t times)
{
    if (times <= 0 || list->n == 0) {
        release_list(list);
        return 0;
    }
    size_t once = list->n;
    if ((uint64_t)times > LIST_VALUES_MAX / once)
        return too_many_values(e, node);
    int code = extend(e, node, list, once * ((size_t)times - 1));
    if (code < 0)
        return code;
    for (int64_t i = 1; i < times; i++) {
        memcpy(list->items + list->n, list->items, once * sizeof *list->items);
        list->n += once;
    }
    return 0;
}

static int evaluate(struct evaluation *e, const struct prn_gather_node *node,
                    struct value *ret_value);

static int evaluate_number(struct evaluation *e, const struct prn_gather_node *node,
                           int64_t *ret_number)
{
    struct value value;
    int code = evaluate(e, node, &value);
    if (code < 0)
        return code;
    if (value.is_list) {
        release_list(&value.list);
        return fault(e, node, NUMBER_NEEDED);
    }
    *ret_number = value.number;
    return 0;
}

static int evaluate_list(struct evaluation *e, const struct prn_gather_node *node,
                         struct list *ret_list)
{
    struct value value;
    int code = evaluate(e, node, &value);
    if (code < 0)
        return code;
    if (!value.is_list)
        return fault(e, node, LIST_NEEDED);
    *ret_list = value.list;
    return 0;
}

static int evaluate_truth(struct evaluation *e, const struct prn_gather_node *node, bool *ret_truth)
{
    struct value value;
    int code = evaluate(e, node, &value);
    if (code < 0)
        return code;
    *ret_truth = is_true(&value);
    release_list(&value.list);
    return 0;
}

static int append_all(struct evaluation *e, const struct prn_gather_node *node, struct list *list)
{
    struct list more;
    int code = evaluate_list(e, node, &more);
    if (code < 0)
        return code;
    code = concatenate(e, node, list, &more);
    release_list(&more);
    return code;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a;
    int64_t y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* sorted(), reversed() and set(), of a list that is made already. */
static int arrange(struct evaluation *e, const struct prn_gather_node *node, struct list *list)
{
    int code = extend(e, node, list, 0);
    if (code == 0)
        code = take_steps(e, node, list->n);
    if (code < 0 || list->n == 0)
        return code;
    if (node->kind == PRN_GATHER_KIND_REVERSED) {
        for (size_t i = 0; i < list->n / 2; i++) {
            int64_t item = list->items[i];
            list->items[i] = list->items[list->n - 1 - i];
            list->items[list->n - 1 - i] = item;
        }
        return 0;
    }
    qsort(list->items, list->n, sizeof *list->items, ascending);
    size_t kept = 1;
    for (size_t i = 1; i < list->n; i++)
        if (node->kind == PRN_GATHER_KIND_SORTED || list->items[i] != list->items[kept - 1])
            list->items[kept++] = list->items[i];
    list->n = kept;
    return 0;
}

/* An index from the end made one from the beginning, and not outside low to high. */
static int64_t clip(int64_t index, int64_t n, int64_t low, int64_t high)
{
    if (index < 0)
        index = index < -n ? -1 : index + n;
    return index < low ? low : index > high ? high : index;
}

/* The three numbers of a slice, with Python's defaults for those that are left out. */
static int evaluate_bounds(struct evaluation *e, const struct prn_gather_node *first, int64_t n,
                           int64_t bounds[3])
{
    bool given[3] = {false};
    size_t i = 0;
    for (const struct prn_gather_node *b = first; b; b = b->next, i++) {
        given[i] = b->kind != PRN_GATHER_KIND_NONE;
        int code = given[i] ? evaluate_number(e, b, &bounds[i]) : 0;
        if (code < 0)
            return code;
        if (i == 2 && given[i] && bounds[i] == 0)
            return fault(e, b, "the step of a slice can't be 0");
    }
    bounds[2] = given[2] ? bounds[2] : 1;
    bool down = bounds[2] < 0;
    int64_t low = down ? -1 : 0;
    int64_t high = down ? n - 1 : n;
    bounds[0] = given[0] ? clip(bounds[0], n, low, high) : down ? high : low;
    bounds[1] = given[1] ? clip(bounds[1], n, low, high) : down ? low : high;
    return 0;
}

static int evaluate_slice(struct evaluation *e, const struct prn_gather_node *node,
                          struct list *ret_list)
{
    struct list base;
    int64_t bounds[3];
    int code = evaluate_list(e, node->first, &base);
    if (code < 0)
        return code;
    code = evaluate_bounds(e, node->first->next, (int64_t)base.n, bounds);
    int64_t stride = code < 0 ? 1 : bounds[2];
    /* A list is so short that no step beyond its length makes a difference. */
    if (stride > (int64_t)LIST_VALUES_MAX || stride < -(int64_t)LIST_VALUES_MAX)
        stride = stride > 0 ? (int64_t)LIST_VALUES_MAX : -(int64_t)LIST_VALUES_MAX;
    for (int64_t i = bounds[0]; code == 0 && (stride > 0 ? i < bounds[1] : i > bounds[1]);
         i += stride)
        code = append(e, node, ret_list, list_item(&base, (size_t)i));
    release_list(&base);
    return code;
}

static int evaluate_index(struct evaluation *e, const struct prn_gather_node *node,
                          struct value *ret_value)
{
    struct list base;
    int64_t index = 0;
    int code = evaluate_list(e, node->first, &base);
    if (code < 0)
        return code;
    code = evaluate_number(e, node->first->next, &index);
    int64_t n = (int64_t)base.n;
    if (code == 0 && (index >= n || index < -n))
        code = fault(e, node->first->next, "the list has no such value");
    if (code == 0)
        *ret_value = number_value(list_item(&base, (size_t)(index < 0 ? index + n : index)));
    release_list(&base);
    return code;
}

static int evaluate_items(struct evaluation *e, const struct prn_gather_node *node,
                          struct list *list)
{
    int code = 0;
    for (const struct prn_gather_node *item = node->first; item && code == 0; item = item->next) {
        int64_t number;
        if (item->kind == PRN_GATHER_KIND_SPREAD) {
            code = append_all(e, item->first, list);
            continue;
        }
        code = evaluate_number(e, item, &number);
        if (code == 0)
            code = append(e, item, list, number);
    }
    return code;
}

static int check_conditions(struct evaluation *e, const struct prn_gather_clause *clause,
                            bool *ret_holds)
{
    bool holds = true;
    for (const struct prn_gather_node *c = clause->conditions; c && holds; c = c->next) {
        int code = evaluate_truth(e, c, &holds);
        if (code < 0)
            return code;
    }
    *ret_holds = holds;
    return 0;
}

static int run_clause(struct evaluation *e, const struct prn_gather_node *node,
                      const struct prn_gather_clause *clause, struct list *out);

/* What one value of a clause's variable leads to: the clauses behind it, or an item. */
static int run_round(struct evaluation *e, const struct prn_gather_node *node,
                     const struct prn_gather_clause *clause, struct list *out)
{
    bool holds;
    int code = check_conditions(e, clause, &holds);
    if (code < 0 || !holds)
        return code;
    if (clause->next)
        return run_clause(e, node, clause->next, out);
    int64_t number;
    code = evaluate_number(e, node->first, &number);
    return code < 0 ? code : append(e, node, out, number);
}

static int run_clause(struct evaluation *e, const struct prn_gather_node *node,
                      const struct prn_gather_clause *clause, struct list *out)
{
    struct list list;
    int code = evaluate_list(e, clause->list, &list);
    if (code < 0)
        return code;
    for (size_t i = 0; i < list.n && code == 0; i++) {
        clause->variable->value = list_item(&list, i);
        code = take_steps(e, node, 1);
        if (code == 0)
            code = run_round(e, node, clause, out);
    }
    release_list(&list);
    return code;
}

/* The number of values; it may be as large as 2^64 - 1. */
static uint64_t range_length(int64_t start, int64_t stop, int64_t step)
{
    if (step > 0 ? start >= stop : start <= stop)
        return 0;
    uint64_t distance =
        step > 0 ? (uint64_t)stop - (uint64_t)start : (uint64_t)start - (uint64_t)stop;
    uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
    return (distance - 1) / stride + 1;
}

static int evaluate_range(struct evaluation *e, const struct prn_gather_node *node,
                          struct list *ret_list)
{
    int64_t numbers[3];
    size_t n = 0;
    for (const struct prn_gather_node *item = node->first; item; item = item->next) {
        int code = evaluate_number(e, item, &numbers[n++]);
        if (code < 0)
            return code;
        if (n == 3 && numbers[2] == 0)
            return fault(e, item, "the step of a range can't be 0");
    }
    int64_t start = n > 1 ? numbers[0] : 0;
    int64_t stop = n > 1 ? numbers[1] : numbers[0];
    int64_t step = n > 2 ? numbers[2] : 1;
    uint64_t length = range_length(start, stop, step);
    if (length > LIST_VALUES_MAX) {
        char has[PRN_FORMAT_SIZE];
        char most[PRN_FORMAT_SIZE];
        return prn_gather_fault(e->source, node->at, "a range of %s values; at most %s are allowed",
                                prn_format_integer(has, length),
                                prn_format_integer(most, LIST_VALUES_MAX));
    }
    *ret_list = (struct list){.n = (size_t)length, .first = start, .step = step};
    return 0;
}

/* False when the result doesn't fit. */
static bool power(int64_t base, int64_t exponent, int64_t *ret_number)
{
    int64_t result = 1;
    for (;;) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result))
            return false;
        exponent >>= 1;
        if (exponent == 0)
            break;
        if (__builtin_mul_overflow(base, base, &base))
            return false;
    }
    *ret_number = result;
    return true;
}

/* Division rounds down and the remainder has the divisor's sign. False when the result doesn't
 * fit. */
static bool divide(int64_t a, int64_t b, enum prn_gather_symbol op, int64_t *ret_number)
{
    /* C leaves the smallest number divided by -1 undefined, and its remainder too. */
    if (b == -1 && op == PRN_GATHER_MODULO) {
        *ret_number = 0;
        return true;
    }
    if (b == -1)
        return !__builtin_sub_overflow(0, a, ret_number);
    int64_t quotient = a / b;
    int64_t remainder = a % b;
    if (remainder != 0 && (remainder < 0) != (b < 0)) {
        quotient--;
        remainder += b;
    }
    *ret_number = op == PRN_GATHER_MODULO ? remainder : quotient;
    return true;
}

/* Joins `operand`, which has the value `right`, to those before it in `node`. */
static int calculate(const struct evaluation *e, const struct prn_gather_node *node,
                     const struct prn_gather_node *operand, int64_t *left, int64_t right)
{
    bool fits = false;
    switch (operand->op) {
    case PRN_GATHER_PLUS:
        fits = !__builtin_add_overflow(*left, right, left);
        break;
    case PRN_GATHER_MINUS:
        fits = !__builtin_sub_overflow(*left, right, left);
        break;
    case PRN_GATHER_TIMES:
        fits = !__builtin_mul_overflow(*left, right, left);
        break;
    case PRN_GATHER_POWER:
        if (right < 0)
            return fault(e, operand, "a negative exponent makes fractions");
        fits = power(*left, right, left);
        break;
    default:
        if (right == 0)
            return fault(e, operand, "division by zero");
        fits = divide(*left, right, operand->op, left);
        break;
    }
    return fits ? 0 : fault_shown(e, node->at, operand->end, "too large");
}

static int wrong_kinds(const struct evaluation *e, const struct prn_gather_node *node,
                       const struct prn_gather_node *operand, const struct value *left)
{
    if (operand->op == PRN_GATHER_PLUS)
        return fault(e, operand, left->is_list ? LIST_NEEDED : NUMBER_NEEDED);
    bool blame_left = left->is_list && operand->op != PRN_GATHER_TIMES;
    return fault(e, blame_left ? node : operand, NUMBER_NEEDED);
}

/* The same for any two values; the result is in `left`, and `right` is spent. */
static int join(struct evaluation *e, const struct prn_gather_node *node,
                const struct prn_gather_node *operand, struct value *left, struct value *right)
{
    if (!left->is_list && !right->is_list)
        return calculate(e, node, operand, &left->number, right->number);
    int code;
    if (operand->op == PRN_GATHER_PLUS && left->is_list && right->is_list) {
        code = concatenate(e, operand, &left->list, &right->list);
    } else if (operand->op == PRN_GATHER_TIMES && !right->is_list) {
        code = repeat(e, operand, &left->list, right->number);
    } else if (operand->op == PRN_GATHER_TIMES && !left->is_list) {
        code = repeat(e, operand, &right->list, left->number);
        if (code == 0) {
            *left = *right;
            return 0;
        }
    } else {
        code = wrong_kinds(e, node, operand, left);
    }
    release_list(&right->list);
    return code;
}

static int evaluate_arithmetic(struct evaluation *e, const struct prn_gather_node *node,
                               struct value *ret_value)
{
    struct value left;
    int code = evaluate(e, node->first, &left);
    if (code < 0)
        return code;
    for (const struct prn_gather_node *operand = node->first->next; operand;
         operand = operand->next) {
        struct value right;
        code = evaluate(e, operand, &right);
        if (code == 0)
            code = join(e, node, operand, &left, &right);
        if (code < 0) {
            release_list(&left.list);
            return code;
        }
    }
    *ret_value = left;
    return 0;
}

static int contains(struct evaluation *e, const struct prn_gather_node *node,
                    const struct list *list, int64_t number, bool *ret_found)
{
    bool found = false;
    if (list->n > 0 && !list->items) {
        __int128 distance = (__int128)number - list->first;
        __int128 index = distance / list->step;
        found = distance % list->step == 0 && index >= 0 && index < (__int128)list->n;
    } else {
        int code = take_steps(e, node, list->n);
        if (code < 0)
            return code;
        for (size_t i = 0; i < list->n && !found; i++)
            found = list->items[i] == number;
    }
    *ret_found = found;
    return 0;
}

static bool compare(int64_t a, int64_t b, enum prn_gather_symbol op)
{
    switch (op) {
    case PRN_GATHER_LESS:
        return a < b;
    case PRN_GATHER_LESS_EQUAL:
        return a <= b;
    case PRN_GATHER_GREATER:
        return a > b;
    case PRN_GATHER_GREATER_EQUAL:
        return a >= b;
    case PRN_GATHER_EQUAL:
        return a == b;
    default:
        return a != b;
    }
}

/* Whether the relation between two neighbours of a comparison holds. */
static int relate(struct evaluation *e, const struct prn_gather_node *before,
                  const struct value *left, const struct prn_gather_node *operand,
                  const struct value *right, bool *ret_holds)
{
    bool is_search = operand->op == PRN_GATHER_IN || operand->op == PRN_GATHER_NOT_IN;
    if (left->is_list)
        return fault(e, before, NUMBER_NEEDED);
    if (right->is_list != is_search)
        return fault(e, operand, is_search ? LIST_NEEDED : NUMBER_NEEDED);
    if (!is_search) {
        *ret_holds = compare(left->number, right->number, operand->op);
        return 0;
    }
    bool found;
    int code = contains(e, operand, &right->list, left->number, &found);
    if (code == 0)
        *ret_holds = found == (operand->op == PRN_GATHER_IN);
    return code;
}

/* a < b < c is a < b and b < c, with b evaluated once, and c only if it matters. */
static int evaluate_comparison(struct evaluation *e, const struct prn_gather_node *node,
                               struct value *ret_value)
{
    struct value left;
    int code = evaluate(e, node->first, &left);
    if (code < 0)
        return code;
    bool holds = true;
    const struct prn_gather_node *before = node->first;
    for (; before->next && holds && code == 0; before = before->next) {
        struct value right = number_value(0);
        code = evaluate(e, before->next, &right);
        if (code == 0)
            code = relate(e, before, &left, before->next, &right, &holds);
        release_list(&left.list);
        left = right;
    }
    release_list(&left.list);
    if (code == 0)
        *ret_value = number_value(holds);
    return code;
}

/* `and` and `or` give the operand that decided. */
static int evaluate_logic(struct evaluation *e, const struct prn_gather_node *node,
                          struct value *ret_value)
{
    struct value value;
    int code = evaluate(e, node->first, &value);
    for (const struct prn_gather_node *operand = node->first->next; operand && code == 0;
         operand = operand->next) {
        if (is_true(&value) == (node->kind == PRN_GATHER_KIND_OR))
            break;
        release_list(&value.list);
        code = evaluate(e, operand, &value);
    }
    if (code == 0)
        *ret_value = value;
    return code;
}

static int evaluate_prefix(struct evaluation *e, const struct prn_gather_node *node,
                           struct value *ret_value)
{
    int64_t number;
    if (node->kind == PRN_GATHER_KIND_NOT) {
        bool truth;
        int code = evaluate_truth(e, node->first, &truth);
        if (code < 0)
            return code;
        number = !truth;
    } else {
        int code = evaluate_number(e, node->first, &number);
        if (code < 0)
            return code;
        if (node->kind == PRN_GATHER_KIND_NEGATIVE && __builtin_sub_overflow(0, number, &number))
            return fault_shown(e, node->at, node->end, "too large");
    }
    *ret_value = number_value(number);
    return 0;
}

static int evaluate_any_list(struct evaluation *e, const struct prn_gather_node *node,
                             struct value *ret_value)
{
    struct list list = {0};
    int code;
    if (node->kind == PRN_GATHER_KIND_ITEMS)
        code = evaluate_items(e, node, &list);
    else if (node->kind == PRN_GATHER_KIND_COMPREHENSION)
        code = run_clause(e, node, node->clauses, &list);
    else if (node->kind == PRN_GATHER_KIND_RANGE)
        code = evaluate_range(e, node, &list);
    else if (node->kind == PRN_GATHER_KIND_SLICE)
        code = evaluate_slice(e, node, &list);
    else
        code = evaluate_list(e, node->first, &list);
    if (code == 0 && (node->kind == PRN_GATHER_KIND_SORTED ||
                      node->kind == PRN_GATHER_KIND_REVERSED || node->kind == PRN_GATHER_KIND_SET))
        code = arrange(e, node, &list);
    if (code < 0)
        release_list(&list);
    else
        *ret_value = (struct value){.is_list = true, .list = list};
    return code;
}

/* On success the caller owns the list in *ret_value, if it is one; a number's list is empty and
 * may be released too. */
static int evaluate(struct evaluation *e, const struct prn_gather_node *node,
                    struct value *ret_value)
{
    int code = take_steps(e, node, 1);
    if (code < 0)
        return code;
    switch (node->kind) {
    case PRN_GATHER_KIND_NUMBER:
        *ret_value = number_value(node->number);
        return 0;
    case PRN_GATHER_KIND_VARIABLE:
        *ret_value = number_value(node->variable->value);
        return 0;
    case PRN_GATHER_KIND_NOT:
    case PRN_GATHER_KIND_NEGATIVE:
    case PRN_GATHER_KIND_POSITIVE:
        return evaluate_prefix(e, node, ret_value);
    case PRN_GATHER_KIND_OR:
    case PRN_GATHER_KIND_AND:
        return evaluate_logic(e, node, ret_value);
    case PRN_GATHER_KIND_COMPARISON:
        return evaluate_comparison(e, node, ret_value);
    case PRN_GATHER_KIND_ARITHMETIC:
        return evaluate_arithmetic(e, node, ret_value);
    case PRN_GATHER_KIND_INDEX:
        return evaluate_index(e, node, ret_value);
    case PRN_GATHER_KIND_SPREAD:
        return fault(e, node, "'*' unpacks a list among the values of another one only");
    default:
        return evaluate_any_list(e, node, ret_value);
    }
}

static int fault_number(const struct evaluation *e, const struct prn_gather_node *root)
{
    size_t len = root->end - root->at;
    int shown = prn_gather_shown(len);
    return prn_gather_fault(e->source, root->at, "this is a number, not a list: write [%.*s%s]",
                            shown, e->source->text + root->at, (size_t)shown < len ? "..." : "");
}

static int evaluate_root(struct evaluation *e, const struct prn_gather_node *root,
                         struct prn_gather *ret_gather)
{
    struct value value;
    int code = evaluate(e, root, &value);
    if (code < 0)
        return code;
    if (!value.is_list)
        return fault_number(e, root);
    code = extend(e, root, &value.list, 0);
    if (code < 0) {
        release_list(&value.list);
        return code;
    }
    *ret_gather = (struct prn_gather){value.list.items, value.list.n};
    return 0;
}

int prn_gather_parse(const char *expression, struct prn_gather *ret_gather, struct prony_error *err)
{
    size_t len = strnlen(expression, EXPRESSION_BYTES_MAX + 1);
    if (len > EXPRESSION_BYTES_MAX)
        return prn_fail(err, PRONY_EUSAGE, "--gather: the expression is longer than %zu bytes",
                        EXPRESSION_BYTES_MAX);
    struct prn_gather_source source = {expression, err};
    struct prn_arena arena = PRN_ARENA_INIT(prn_gather_tree_bytes(len));
    struct prn_gather_node *root;
    int code = prn_gather_parse_tree(&source, &arena, &root);
    struct evaluation e = {.source = &source};
    if (code == 0)
        code = evaluate_root(&e, root, ret_gather);
    prn_arena_release(&arena);
    return code;
}

void prn_gather_release(struct prn_gather *g)
{
    free(g->runs);
    *g = (struct prn_gather){0};
}
