/* Writing all of something to a descriptor, through short writes and signals. */
#ifndef PRN_BASE_IO_H
#define PRN_BASE_IO_H

#include <stddef.h>

/* 0, or -1 with errno. */
int prn_write_all(int fd, const void *data, size_t len);
int prn_pwrite_all(int fd, const void *data, size_t len, size_t offset);

#endif
