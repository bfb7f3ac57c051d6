#include "format/json_fields.h"

#include <math.h>

static void add_place(struct prn_buffer *out, const struct prn_field *p)
{
    if (!p->in)
        return;
    add_place(out, p->in);
    if (!p->key)
        prn_buffer_printf(out, "[%zu]", p->index);
    else
        prn_buffer_printf(out, "%s%s", p->in->in ? "." : "", p->key);
}

void prn_field_fault(struct prn_fields *r, const struct prn_field *p, const char *what)
{
    if (r->code < 0)
        return;
    struct prn_buffer where = PRN_BUFFER_INIT(4096);
    add_place(&where, p);
    r->code = prn_fail(r->err, PRONY_EFORMAT, "'%s' is not a valid %s: %s %s", r->name, r->what,
                       prn_buffer_text(&where), what);
    prn_buffer_release(&where);
}

struct prn_field prn_field_member(const struct prn_field *in, const char *key)
{
    return (struct prn_field){in, key, 0, json_object_get(in->value, key)};
}

struct prn_field prn_field_element(const struct prn_field *in, size_t index)
{
    return (struct prn_field){in, NULL, index, json_array_get(in->value, index)};
}

void *prn_field_array(struct prn_fields *r, size_t count, size_t size)
{
    void *array = prn_arena_array(r->arena, count, size);
    if (!array && r->code == 0)
        r->code = prn_fail_memory(r->err);
    return array;
}

/* ---- Values ---- */

static bool is_absent(struct prn_fields *r, const struct prn_field *p)
{
    if (!p->value)
        prn_field_fault(r, p, "is missing");
    return !p->value;
}

const char *prn_field_text_at(struct prn_fields *r, const struct prn_field *p)
{
    if (is_absent(r, p))
        return NULL;
    if (!json_is_string(p->value)) {
        prn_field_fault(r, p, "is not a text");
        return NULL;
    }
    if (json_string_length(p->value) > PRN_FIELD_TEXT_MAX) {
        prn_field_fault(r, p, "is too long");
        return NULL;
    }
    const char *copy = prn_arena_strdup(r->arena, json_string_value(p->value));
    if (!copy && r->code == 0)
        r->code = prn_fail_memory(r->err);
    return copy;
}

double prn_field_number_at(struct prn_fields *r, const struct prn_field *p, double min)
{
    if (is_absent(r, p) || json_is_null(p->value))
        return NAN;
    if (!json_is_number(p->value)) {
        prn_field_fault(r, p, "is not a number");
        return NAN;
    }
    double value = json_number_value(p->value);
    if (!isfinite(value) || value < min) {
        prn_field_fault(r, p, "is out of range");
        return NAN;
    }
    return value;
}

int64_t prn_field_integer_at(struct prn_fields *r, const struct prn_field *p, int64_t min,
                             int64_t max)
{
    if (is_absent(r, p))
        return 0;
    if (!json_is_integer(p->value)) {
        prn_field_fault(r, p, "is not an integer");
        return 0;
    }
    int64_t value = json_integer_value(p->value);
    if (value < min || value > max) {
        prn_field_fault(r, p, "is out of range");
        return 0;
    }
    return value;
}

bool prn_field_bool_at(struct prn_fields *r, const struct prn_field *p)
{
    if (!is_absent(r, p) && !json_is_boolean(p->value))
        prn_field_fault(r, p, "is not true or false");
    return json_is_true(p->value);
}

bool prn_field_is_object(struct prn_fields *r, const struct prn_field *p)
{
    if (is_absent(r, p))
        return false;
    if (!json_is_object(p->value))
        prn_field_fault(r, p, "is not an object");
    return json_is_object(p->value);
}

size_t prn_field_count(struct prn_fields *r, const struct prn_field *p, size_t max)
{
    if (is_absent(r, p))
        return 0;
    if (!json_is_array(p->value)) {
        prn_field_fault(r, p, "is not an array");
        return 0;
    }
    if (json_array_size(p->value) > max) {
        prn_field_fault(r, p, "has too many entries");
        return 0;
    }
    return json_array_size(p->value);
}
