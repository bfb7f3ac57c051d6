#include "report/profile_parts.h"

#include "measure/profile.h"

#include <math.h>
#include <string.h>

#define FLAGS_MAX 1000

void prn_part_write_interval(struct prn_json_writer *w, const char *key, struct prn_interval i)
{
    if (!isfinite(i.estimate)) {
        prn_json_null(w, key);
        return;
    }
    prn_json_object(w, key);
    prn_json_number(w, "estimate", i.estimate);
    prn_json_number(w, "low", i.low);
    prn_json_number(w, "high", i.high);
    prn_json_end(w);
}

struct prn_interval prn_part_read_interval(struct prn_fields *r, const struct prn_field *in,
                                           const char *key)
{
    struct prn_field p = prn_field_member(in, key);
    struct prn_interval i = {NAN, NAN, NAN};
    if (json_is_null(p.value) || !prn_field_is_object(r, &p))
        return i;
    i.estimate = prn_field_number_or_null(r, &p, "estimate");
    i.low = prn_field_number_or_null(r, &p, "low");
    i.high = prn_field_number_or_null(r, &p, "high");
    return i;
}

void prn_part_write_error(struct prn_json_writer *w, int code, const char *message)
{
    if (code == 0) {
        prn_json_null(w, "error");
        return;
    }
    prn_json_object(w, "error");
    prn_json_text(w, "code", prony_error_name(code));
    prn_json_text(w, "message", message ? message : prony_error_text(code));
    prn_json_end(w);
}

const char *prn_part_read_error(struct prn_fields *r, const struct prn_field *in, int *ret_code)
{
    struct prn_field p = prn_field_member(in, "error");
    if (json_is_null(p.value) || !prn_field_is_object(r, &p))
        return NULL;
    const char *name = prn_field_text(r, &p, "code");
    const char *message = prn_field_text(r, &p, "message");
    int found = 0;
#define PRONY_X(symbol, number, text)                \
    if (name && strcmp(name, "PRONY_" #symbol) == 0) \
        found = number;
    PRONY_ERROR_MAP(PRONY_X)
#undef PRONY_X
    struct prn_field code = prn_field_member(&p, "code");
    if (found == 0)
        prn_field_fault(r, &code, "is not an error code");
    *ret_code = found;
    return message;
}

unsigned prn_part_read_flags(struct prn_fields *r, const struct prn_field *in)
{
    struct prn_field p = prn_field_member(in, "flags");
    size_t n = prn_field_count(r, &p, FLAGS_MAX);
    unsigned flags = 0;
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field flag = prn_field_element(&p, i);
        const char *name = prn_field_text_at(r, &flag);
        unsigned found = 0;
#define PRN_X(symbol, bit, meaning)         \
    if (name && strcmp(name, #symbol) == 0) \
        found = bit;
        PRN_FLAG_MAP(PRN_X)
#undef PRN_X
        if (!found)
            prn_field_fault(r, &flag, "is not a flag");
        flags |= found;
    }
    return flags;
}
