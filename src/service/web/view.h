/* A page that is served to the browsers of this machine, until a signal comes. */
#ifndef PRN_SERVICE_WEB_VIEW_H
#define PRN_SERVICE_WEB_VIEW_H

#include "record/net.h"

PRONY_MUST_CHECK int prn_view_serve(const struct prn_view_options *options,
                                    struct prony_error *err);

#endif
