#include "service/session/line.h"

bool prn_line_before(const struct prn_line_node *a, const struct prn_line_node *b)
{
    return a->rank < b->rank || (a->rank == b->rank && a->ticket < b->ticket);
}

/* What makes it a heap too, and so keeps it shallow: as good as random, and the same each time. */
static uint64_t weight(const struct prn_line_node *node)
{
    uint64_t x = node->ticket * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static size_t count_of(const struct prn_line_node *node)
{
    return node ? node->count : 0;
}

static void recount(struct prn_line_node *node)
{
    node->count = 1 + count_of(node->left) + count_of(node->right);
}

/* Where the pointer to the node is. */
static struct prn_line_node **owner_of(struct prn_line *line, const struct prn_line_node *node)
{
    if (!node->up)
        return &line->root;
    return node->up->left == node ? &node->up->left : &node->up->right;
}

static void hang(struct prn_line_node **at, struct prn_line_node *up, struct prn_line_node *node)
{
    *at = node;
    if (node)
        node->up = up;
}

/* The node takes the place of the one above it. */
static void rotate_up(struct prn_line *line, struct prn_line_node *node)
{
    struct prn_line_node *above = node->up;
    hang(owner_of(line, above), above->up, node);
    if (above->left == node) {
        hang(&above->left, above, node->right);
        hang(&node->right, node, above);
    } else {
        hang(&above->right, above, node->left);
        hang(&node->left, node, above);
    }
    recount(above);
    recount(node);
}

void prn_line_join(struct prn_line *line, struct prn_line_node *node)
{
    struct prn_line_node *up = NULL;
    struct prn_line_node **at = &line->root;
    while (*at) {
        up = *at;
        up->count++;
        at = prn_line_before(node, up) ? &up->left : &up->right;
    }
    node->left = node->right = NULL;
    node->count = 1;
    node->up = up;
    *at = node;
    while (node->up && weight(node) < weight(node->up))
        rotate_up(line, node);
}

void prn_line_leave(struct prn_line *line, struct prn_line_node *node)
{
    while (node->left || node->right) {
        struct prn_line_node *l = node->left;
        struct prn_line_node *r = node->right;
        rotate_up(line, !r || (l && weight(l) < weight(r)) ? l : r);
    }
    *owner_of(line, node) = NULL;
    for (struct prn_line_node *up = node->up; up; up = up->up)
        up->count--;
    node->up = NULL;
}

size_t prn_line_length(const struct prn_line *line)
{
    return count_of(line->root);
}

size_t prn_line_place(const struct prn_line_node *node)
{
    size_t place = count_of(node->left) + 1;
    for (; node->up; node = node->up)
        if (node->up->right == node)
            place += count_of(node->up->left) + 1;
    return place;
}

static struct prn_line_node *leftmost(struct prn_line_node *node)
{
    while (node && node->left)
        node = node->left;
    return node;
}

static struct prn_line_node *rightmost(struct prn_line_node *node)
{
    while (node && node->right)
        node = node->right;
    return node;
}

struct prn_line_node *prn_line_first(const struct prn_line *line)
{
    return leftmost(line->root);
}

struct prn_line_node *prn_line_last(const struct prn_line *line)
{
    return rightmost(line->root);
}

struct prn_line_node *prn_line_next(const struct prn_line_node *node)
{
    if (node->right)
        return leftmost(node->right);
    while (node->up && node->up->right == node)
        node = node->up;
    return node->up;
}

struct prn_line_node *prn_line_previous(const struct prn_line_node *node)
{
    if (node->left)
        return rightmost(node->left);
    while (node->up && node->up->left == node)
        node = node->up;
    return node->up;
}
