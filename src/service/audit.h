/*
 * The audit log: who did what, from where; one JSON line each, in a file that only grows. Unlike
 * the log (log.h) it leaves nothing out, however often an event comes. Tokens are masked there, and
 * so they are here.
 *
 *     PRN_AUDIT(s->audit, "session.open", PRN_LOG_TEXT("user", user), PRN_LOG_TEXT("from", peer));
 *
 * prn_audit_reopen() follows a file that was renamed: no line is lost or split. May be called from
 * several threads. `audit` NULL does nothing.
 */
#ifndef PRN_SERVICE_AUDIT_H
#define PRN_SERVICE_AUDIT_H

#include "service/log.h"

struct prn_audit;

/* `path` must live as long; NULL: there is none, and `*ret_audit` is NULL. */
PRONY_MUST_CHECK int prn_audit_open(const char *path, struct prn_audit **ret_audit,
                                    struct prony_error *err);
void prn_audit_close(struct prn_audit *audit); /* NULL does nothing */
/* When it fails, lines go on into the old file. */
PRONY_MUST_CHECK int prn_audit_reopen(struct prn_audit *audit, struct prony_error *err);

/* Lines that couldn't be written. */
uint64_t prn_audit_lost(const struct prn_audit *audit);

void prn_audit_write(struct prn_audit *audit, const char *event, const struct prn_log_field *fields,
                     size_t n);

#define PRN_AUDIT(audit, event, ...)                                               \
    prn_audit_write((audit), (event), (const struct prn_log_field[]){__VA_ARGS__}, \
                    sizeof((const struct prn_log_field[]){__VA_ARGS__}) /          \
                        sizeof(struct prn_log_field))

#endif
