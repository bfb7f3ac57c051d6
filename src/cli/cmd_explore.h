/* A trace as 'prony explore' shows it without options, for 'prony view'. */
#ifndef PRN_CLI_CMD_EXPLORE_H
#define PRN_CLI_CMD_EXPLORE_H

#include "base/error.h"

struct prn_page; /* report/page.h */

PRONY_MUST_CHECK int prn_trace_page_add(struct prn_page *page, const char *path,
                                        struct prony_error *err);

#endif
