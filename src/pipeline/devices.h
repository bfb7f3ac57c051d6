/* Which hosts there are: `devices.yml`, a map of device types to lists of host names. */
#ifndef PRN_PIPELINE_DEVICES_H
#define PRN_PIPELINE_DEVICES_H

#include "base/arena.h"
#include "base/error.h"

struct prn_device_hosts {
    const char *type;
    const char *const *hosts; /* in the file's order */
    size_t n;
};

/* Reads the file; the array and what it points to live in `arena`. A host is in it only once. */
PRONY_MUST_CHECK int prn_devices_read(const char *path, struct prn_arena *arena,
                                      struct prn_device_hosts **ret_types, size_t *ret_n,
                                      struct prony_error *err);

#endif
