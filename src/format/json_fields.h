/*
 * Takes values out of a JSON tree that nobody trusts. Each function checks the kind and range of
 * one value; the first fault sticks and later calls do nothing, so that a struct is read as a list
 * of fields and checked once, by `code`. A field is a chain of keys and indices on the stack,
 * turned into text only when there is a fault ("results[1].stats.median_ns is not a number").
 * Records are read by their tables (format/schema.h), which call these.
 */
#ifndef PRN_FORMAT_JSON_FIELDS_H
#define PRN_FORMAT_JSON_FIELDS_H

#include "base/arena.h"
#include "format/json.h"

/* Longest text, and most names of flags. */
#define PRN_FIELD_TEXT_MAX 8192
#define PRN_NAMES_MAX 1000

struct prn_fields {
    const char *name; /* of the file */
    const char *what; /* it should be: "profile" */
    struct prn_arena *arena;
    struct prony_error *err;
    int code;      /* the first fault */
    void *context; /* of whoever checks what was read */
};

/* Where a value stands: under a key, or at an index of an array (key NULL). */
struct prn_field {
    const struct prn_field *in;
    const char *key;
    size_t index;
    const json_t *value; /* NULL: absent */
};

/* Records a fault: `what` follows the name of the place, "is out of range". */
void prn_field_fault(struct prn_fields *r, const struct prn_field *p, const char *what);

struct prn_field prn_field_member(const struct prn_field *in, const char *key);
struct prn_field prn_field_element(const struct prn_field *in, size_t index);

/* Zeroed memory of the arena; NULL is a fault. */
void *prn_field_array(struct prn_fields *r, size_t count, size_t size);

/* The text belongs to the arena. */
const char *prn_field_text_at(struct prn_fields *r, const struct prn_field *p);
/* NAN for null. */
double prn_field_number_at(struct prn_fields *r, const struct prn_field *p, double min);
int64_t prn_field_integer_at(struct prn_fields *r, const struct prn_field *p, int64_t min,
                             int64_t max);
bool prn_field_bool_at(struct prn_fields *r, const struct prn_field *p);

/* False, with a fault, when the value isn't an object. */
bool prn_field_is_object(struct prn_fields *r, const struct prn_field *p);

/* Entries of an array; 0, with a fault, when it isn't one or has more than `max`. */
size_t prn_field_count(struct prn_fields *r, const struct prn_field *p, size_t max);

#endif
