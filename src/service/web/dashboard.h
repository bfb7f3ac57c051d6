/* The HTTP server of the service: metrics, health, and the page with what it asks for. */
#ifndef PRN_SERVICE_WEB_DASHBOARD_H
#define PRN_SERVICE_WEB_DASHBOARD_H

#include "service/service.h"
#include "service/web/http.h"

PRONY_MUST_CHECK int prn_dashboard_start(struct prn_service *s, const struct prn_http_tls *tls,
                                         struct prony_error *err) PRN_ALONE;
void prn_dashboard_stop(struct prn_service *s); /* more than once is fine */

#endif
