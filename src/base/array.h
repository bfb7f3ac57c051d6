/* Arrays that grow one by one. They double at powers of two, so no capacity needs to be kept. */
#ifndef PRN_BASE_ARRAY_H
#define PRN_BASE_ARRAY_H

#include <stddef.h>
#include <stdlib.h>

/* The array with room for one more than the `n` items that it holds; NULL when out of memory, and
 * then it is as it was. */
static inline void *prn_array_grow(void *array, size_t n, size_t item_size)
{
    return (n & (n - 1)) == 0 ? reallocarray(array, n ? 2 * n : 1, item_size) : array;
}

#endif
