/*
 * Which rows of a sweep are measured together. All executors of a group are alive at the same time,
 * so a group must fit into memory; rows of one point are compared in pairs, so they stay together
 * where that is possible.
 */
#ifndef PRN_MEASURE_GROUPS_H
#define PRN_MEASURE_GROUPS_H

#include <stddef.h>
#include <stdint.h>

/* Most rows of a group, whatever they take: each is a process with a handful of descriptors. */
#define PRN_GROUP_ROWS_MAX 64

struct prn_group_row {
    size_t point;  /* rows of one point stand next to each other */
    int64_t bytes; /* that its executor will take */
    size_t group;  /* result, from 0, rising */
};

/* Assigns groups in the order of the rows and returns how many there are. A row that is too large
 * by itself is a group of its own. `available_bytes` is negative when it isn't known. */
size_t prn_groups_plan(struct prn_group_row *rows, size_t n, int64_t available_bytes);

#endif
