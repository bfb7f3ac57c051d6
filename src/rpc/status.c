#include "rpc/server.h"

enum prn_status prn_status_of(int code)
{
    switch (code) {
    case 0:
        return PRN_STATUS_OK;
    case PRONY_EUSAGE:
    case PRONY_EFORMAT:
        return PRN_STATUS_INVALID_ARGUMENT;
    case PRONY_ENOENT:
        return PRN_STATUS_NOT_FOUND;
    case PRONY_ENOMEM:
    case PRONY_ELIMIT:
        return PRN_STATUS_RESOURCE_EXHAUSTED;
    case PRONY_EUNSUPPORTED:
        return PRN_STATUS_FAILED_PRECONDITION;
    case PRONY_EUNAVAILABLE:
        return PRN_STATUS_UNAVAILABLE;
    case PRONY_ETIMEDOUT:
        return PRN_STATUS_DEADLINE_EXCEEDED;
    case PRONY_ECANCELED:
        return PRN_STATUS_CANCELLED;
    case PRONY_EDENIED:
        return PRN_STATUS_PERMISSION_DENIED;
    default:
        return PRN_STATUS_INTERNAL;
    }
}

const char *prn_status_name(enum prn_status status)
{
    static const char *const names[] = {"OK",
                                        "CANCELLED",
                                        "UNKNOWN",
                                        "INVALID_ARGUMENT",
                                        "DEADLINE_EXCEEDED",
                                        "NOT_FOUND",
                                        "ALREADY_EXISTS",
                                        "PERMISSION_DENIED",
                                        "RESOURCE_EXHAUSTED",
                                        "FAILED_PRECONDITION",
                                        "ABORTED",
                                        "OUT_OF_RANGE",
                                        "UNIMPLEMENTED",
                                        "INTERNAL",
                                        "UNAVAILABLE",
                                        "DATA_LOSS",
                                        "UNAUTHENTICATED"};
    return (size_t)status < PRN_ARRAY_SIZE(names) ? names[status] : "UNKNOWN";
}

int prn_status_code(enum prn_status status)
{
    switch (status) {
    case PRN_STATUS_OK:
        return 0;
    case PRN_STATUS_CANCELLED:
        return PRONY_ECANCELED;
    case PRN_STATUS_INVALID_ARGUMENT:
    case PRN_STATUS_OUT_OF_RANGE:
    case PRN_STATUS_ALREADY_EXISTS:
        return PRONY_EUSAGE;
    case PRN_STATUS_DEADLINE_EXCEEDED:
        return PRONY_ETIMEDOUT;
    case PRN_STATUS_NOT_FOUND:
        return PRONY_ENOENT;
    case PRN_STATUS_PERMISSION_DENIED:
    case PRN_STATUS_UNAUTHENTICATED:
        return PRONY_EDENIED;
    case PRN_STATUS_RESOURCE_EXHAUSTED:
        return PRONY_ELIMIT;
    case PRN_STATUS_FAILED_PRECONDITION:
    case PRN_STATUS_UNIMPLEMENTED:
        return PRONY_EUNSUPPORTED;
    case PRN_STATUS_ABORTED:
    case PRN_STATUS_UNAVAILABLE:
        return PRONY_EUNAVAILABLE;
    default:
        return PRONY_ERUNTIME;
    }
}
