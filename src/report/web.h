/* What the build made of web/: the page in two parts, between which the data stand. */
#ifndef PRN_REPORT_WEB_H
#define PRN_REPORT_WEB_H

#include <stddef.h>

struct prn_web {
    const char *head, *tail; /* NULL: built without Node */
    size_t head_bytes, tail_bytes;
    const char *policy;  /* Content-Security-Policy */
    const char *missing; /* why there is no page */
};

extern const struct prn_web prn_web;

#endif
