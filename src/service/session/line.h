/*
 * A line in which everybody has a rank: who joins stands behind those of the same or a lower rank,
 * and may leave from anywhere. Joining, leaving, and the place of one who stands in it cost the
 * logarithm of the line's length (a treap whose nodes count what is below them). Nodes are parts of
 * the owner's structs; a node is in one line at most.
 */
#ifndef PRN_SERVICE_SESSION_LINE_H
#define PRN_SERVICE_SESSION_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct prn_line_node {
    int64_t rank;
    uint64_t ticket; /* the owner's, no two the same: decides between equal ranks */
    struct prn_line_node *up, *left, *right;
    size_t count; /* in the tree of which it is the root */
};

struct prn_line {
    struct prn_line_node *root;
};

/* `rank` and `ticket` are set, and stay as they are while it is in the line. */
void prn_line_join(struct prn_line *line, struct prn_line_node *node);
void prn_line_leave(struct prn_line *line, struct prn_line_node *node);

bool prn_line_before(const struct prn_line_node *a, const struct prn_line_node *b);
size_t prn_line_length(const struct prn_line *line);
/* From 1. */
size_t prn_line_place(const struct prn_line_node *node);

/* NULL: there is none. */
struct prn_line_node *prn_line_first(const struct prn_line *line);
struct prn_line_node *prn_line_last(const struct prn_line *line);
struct prn_line_node *prn_line_next(const struct prn_line_node *node);
struct prn_line_node *prn_line_previous(const struct prn_line_node *node);

#endif
