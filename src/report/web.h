/* What the build made of web/: the page of reports in two parts, between which the data stand, and
 * the page of the service. */
#ifndef PRN_REPORT_WEB_H
#define PRN_REPORT_WEB_H

#include <stddef.h>

struct prn_web {
    const char *head, *tail; /* NULL: built without Node */
    size_t head_bytes, tail_bytes;
    const char *policy; /* Content-Security-Policy */
    const char *dashboard;
    size_t dashboard_bytes;
    const char *dashboard_policy;
    const char *missing; /* why there are no pages */
};

extern const struct prn_web prn_web;

#endif
