#include "format/schema.h"

#include "format/json_fields.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bound on what a report has to lay out, where a table gives no other. */
#define ENTRIES_MAX 100000

/* Names in tables are short and few. */
#define NAME_SIZE 128
#define FAULT_SIZE 1024

static const char *key_of(const struct prn_member *m)
{
    return m->key && m->kind != PRN_KIND_CONSTANT ? m->key : m->name;
}

/* A record that is one value. */
static bool is_bare(const struct prn_schema *s)
{
    return !s->members[0].name;
}

const char *prn_name_of(const struct prn_name *names, int64_t value)
{
    for (; names->name; names++)
        if (names->value == value)
            return names->name;
    return NULL;
}

/* ---- Values of a struct ---- */

static int64_t get_integer(const struct prn_member *m, const char *record)
{
    int64_t wide;
    int32_t narrow;
    if (m->bytes == sizeof wide) {
        memcpy(&wide, record + m->offset, sizeof wide);
        return wide;
    }
    memcpy(&narrow, record + m->offset, sizeof narrow);
    return narrow;
}

static void set_integer(const struct prn_member *m, char *record, int64_t value)
{
    int32_t narrow = (int32_t)value;
    if (m->bytes == sizeof value)
        memcpy(record + m->offset, &value, sizeof value);
    else
        memcpy(record + m->offset, &narrow, sizeof narrow);
}

static double get_number(const struct prn_member *m, const char *record)
{
    double value;
    memcpy(&value, record + m->offset, sizeof value);
    return value;
}

static void set_number(const struct prn_member *m, char *record, double value)
{
    memcpy(record + m->offset, &value, sizeof value);
}

static void *get_pointer(const struct prn_member *m, const char *record)
{
    void *value;
    memcpy(&value, record + m->offset, sizeof value);
    return value;
}

static void set_pointer(const struct prn_member *m, char *record, const void *value)
{
    memcpy(record + m->offset, &value, sizeof value);
}

static signed char get_bool(const struct prn_member *m, const char *record)
{
    return (signed char)record[m->offset];
}

static size_t get_count(const struct prn_member *m, const char *record)
{
    size_t n;
    memcpy(&n, record + m->count, sizeof n);
    return n;
}

/* The record of an object; NULL when there is none. */
static const char *get_record(const struct prn_member *m, const char *record)
{
    if (m->flags & PRN_POINTER)
        return record ? get_pointer(m, record) : NULL;
    return record ? record + m->offset : NULL;
}

static bool is_unknown(const struct prn_member *m, const char *record);

static bool is_null(const struct prn_schema *s, const char *record)
{
    static const char zero[sizeof(size_t)];
    if (!record)
        return true;
    if (s->present_bytes)
        return memcmp(record + s->present, zero, s->present_bytes) == 0;
    return is_unknown(&s->members[0], record);
}

static bool is_unknown(const struct prn_member *m, const char *record)
{
    switch (m->kind) {
    case PRN_KIND_TEXT:
    case PRN_KIND_ARRAY:
        return !get_pointer(m, record);
    case PRN_KIND_NUMBER:
        return !isfinite(get_number(m, record));
    case PRN_KIND_INTEGER:
        return get_integer(m, record) < 0;
    case PRN_KIND_BOOL:
        return get_bool(m, record) < 0;
    case PRN_KIND_CHOICE:
        return !prn_name_of(m->names, get_integer(m, record));
    case PRN_KIND_OBJECT:
        return m->flags & PRN_POINTER ? !get_pointer(m, record)
                                      : is_null(m->schema, get_record(m, record));
    case PRN_KIND_INLINE:
        return is_null(m->schema, get_record(m, record));
    case PRN_KIND_FLAGS:
    case PRN_KIND_CONSTANT:
        break;
    }
    return false;
}

static bool is_empty(const struct prn_member *m, const char *record)
{
    if (m->kind == PRN_KIND_ARRAY)
        return get_count(m, record) == 0;
    if (m->kind == PRN_KIND_INTEGER && !(m->flags & PRN_NULL))
        return get_integer(m, record) <= 0;
    return is_unknown(m, record);
}

static void clear_member(const struct prn_member *m, char *record)
{
    size_t none = 0;
    if (m->kind == PRN_KIND_NUMBER)
        set_number(m, record, NAN);
    else if (m->kind == PRN_KIND_INTEGER)
        set_integer(m, record, m->flags & (PRN_NULL | PRN_KEYED) ? -1 : 0);
    else if (m->kind == PRN_KIND_BOOL)
        record[m->offset] = m->flags & PRN_OMIT ? -1 : 0;
    else if (m->schema && !(m->flags & PRN_POINTER) && m->kind != PRN_KIND_ARRAY)
        prn_schema_clear(m->schema, record + m->offset);
    else
        memset(record + m->offset, 0, m->bytes);
    if (m->kind == PRN_KIND_ARRAY && m->bytes)
        memcpy(record + m->count, &none, sizeof none);
}

void prn_schema_clear(const struct prn_schema *s, void *record)
{
    for (size_t i = 0; i < s->n_members; i++)
        clear_member(&s->members[i], record);
    if (s->present_bytes == sizeof(bool))
        ((char *)record)[s->present] = false;
}

/* ---- Writing ---- */

static void write_members(struct prn_json_writer *w, const struct prn_schema *s,
                          const char *record);

static void write_flags(struct prn_json_writer *w, const char *key, const struct prn_name *names,
                        unsigned flags)
{
    prn_json_array_compact(w, key);
    for (; names->name; names++)
        if (flags & (uint64_t)names->value)
            prn_json_text(w, NULL, names->name);
    prn_json_end(w);
}

static void write_array(struct prn_json_writer *w, const char *key, const struct prn_member *m,
                        const char *record)
{
    const char *items = get_pointer(m, record);
    size_t n = get_count(m, record);
    enum prn_kind kind = m->schema->members[0].kind;
    bool compact = is_bare(m->schema) && (kind == PRN_KIND_INTEGER || kind == PRN_KIND_NUMBER);
    (compact ? prn_json_array_compact : prn_json_array)(w, key);
    for (size_t i = 0; i < n; i++, items += m->schema->bytes)
        if (m->flags & PRN_NULL_ITEMS && is_null(m->schema, items))
            prn_json_null(w, NULL);
        else
            prn_schema_write(w, NULL, m->schema, items);
    prn_json_end(w);
}

static void write_value(struct prn_json_writer *w, const char *key, const struct prn_member *m,
                        const char *record)
{
    if (m->write) {
        m->write(w, key, record);
        return;
    }
    if (m->flags & PRN_NULL && is_unknown(m, record)) {
        prn_json_null(w, key);
        return;
    }
    switch (m->kind) {
    case PRN_KIND_TEXT:
        prn_json_text(w, key, get_pointer(m, record));
        break;
    case PRN_KIND_NUMBER:
        prn_json_number(w, key, get_number(m, record));
        break;
    case PRN_KIND_INTEGER:
        prn_json_integer(w, key, get_integer(m, record));
        break;
    case PRN_KIND_BOOL:
        prn_json_bool(w, key, get_bool(m, record) > 0);
        break;
    case PRN_KIND_CHOICE:
        prn_json_text(w, key, prn_name_of(m->names, get_integer(m, record)));
        break;
    case PRN_KIND_FLAGS:
        write_flags(w, key, m->names, (unsigned)get_integer(m, record));
        break;
    case PRN_KIND_CONSTANT:
        prn_json_text(w, key, m->key);
        break;
    case PRN_KIND_OBJECT:
        prn_schema_write(w, key, m->schema, get_record(m, record));
        break;
    case PRN_KIND_INLINE:
        write_members(w, m->schema, get_record(m, record));
        break;
    case PRN_KIND_ARRAY:
        write_array(w, key, m, record);
        break;
    }
}

static void write_members(struct prn_json_writer *w, const struct prn_schema *s, const char *record)
{
    for (size_t i = 0; i < s->n_members; i++) {
        const struct prn_member *m = &s->members[i];
        if (!(m->flags & w->without) && !(m->flags & PRN_OMIT && is_empty(m, record)))
            write_value(w, key_of(m), m, record);
    }
}

void prn_schema_write(struct prn_json_writer *w, const char *key, const struct prn_schema *s,
                      const void *record)
{
    if (is_bare(s)) {
        write_value(w, key, &s->members[0], record);
        return;
    }
    prn_json_object(w, key);
    write_members(w, s, record);
    prn_json_end(w);
}

int prn_schema_write_json(const struct prn_schema *s, const void *record, struct prn_buffer *out,
                          struct prony_error *err)
{
    struct prn_json_writer w = prn_json_writer_init(out);
    prn_schema_write(&w, NULL, s, record);
    return prn_buffer_error(out, err);
}

/* ---- Reading ---- */

static void read_members(struct prn_fields *r, const struct prn_field *at,
                         const struct prn_schema *s, char *record);
static void read_value(struct prn_fields *r, const struct prn_field *at, const struct prn_member *m,
                       char *record);

static int64_t read_name(struct prn_fields *r, const struct prn_field *at,
                         const struct prn_name *names)
{
    const char *name = prn_field_text_at(r, at);
    for (const struct prn_name *n = names; name && n->name; n++)
        if (strcmp(name, n->name) == 0)
            return n->value;
    char fault[FAULT_SIZE] = "is not one of ";
    size_t len = strlen(fault);
    for (const struct prn_name *n = names; n->name && len < sizeof fault; n++)
        len += (size_t)snprintf(fault + len, sizeof fault - len, "%s%s", n == names ? "" : ", ",
                                n->name);
    prn_field_fault(r, at, fault);
    return 0;
}

static unsigned read_flags(struct prn_fields *r, const struct prn_field *at,
                           const struct prn_name *names)
{
    size_t n = prn_field_count(r, at, PRN_NAMES_MAX);
    unsigned flags = 0;
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field flag = prn_field_element(at, i);
        flags |= (unsigned)read_name(r, &flag, names);
    }
    return flags;
}

static void read_item(struct prn_fields *r, const struct prn_field *at, const struct prn_member *m,
                      char *item)
{
    /* What stands alongside is part of records that were read before. */
    if (!(m->flags & PRN_ALONGSIDE))
        prn_schema_clear(m->schema, item);
    if (m->flags & PRN_NULL_ITEMS && json_is_null(at->value))
        return;
    if (is_bare(m->schema))
        read_value(r, at, &m->schema->members[0], item);
    else
        read_members(r, at, m->schema, item);
}

/* Memory for an array's entries; that of the row before for another column of it. */
static char *make_items(struct prn_fields *r, const struct prn_field *at,
                        const struct prn_member *m, char *record, size_t n)
{
    if (m->flags & PRN_ALONGSIDE) {
        const struct prn_member *first = m;
        char fault[NAME_SIZE];
        while (first->flags & PRN_ALONGSIDE)
            first--;
        snprintf(fault, sizeof fault, "is not as long as %s", key_of(first));
        if (n != get_count(m, record))
            prn_field_fault(r, at, fault);
        return get_pointer(m, record);
    }
    char *items = r->code == 0 ? prn_field_array(r, n, m->schema->bytes) : NULL;
    set_pointer(m, record, items);
    return items;
}

static void read_array(struct prn_fields *r, const struct prn_field *at, const struct prn_member *m,
                       char *record)
{
    size_t n = prn_field_count(r, at, m->max ? (size_t)m->max : ENTRIES_MAX);
    if ((int64_t)n < m->min)
        prn_field_fault(r, at, "has too few entries");
    char *items = make_items(r, at, m, record, n);
    for (size_t i = 0; i < n && r->code == 0; i++) {
        struct prn_field item = prn_field_element(at, i);
        read_item(r, &item, m, items + i * m->schema->bytes);
    }
    if (r->code == 0)
        memcpy(record + m->count, &n, sizeof n);
}

static void read_object(struct prn_fields *r, const struct prn_field *at,
                        const struct prn_member *m, char *record)
{
    char *object = record + m->offset;
    if (m->flags & PRN_POINTER) {
        object = r->code == 0 ? prn_field_array(r, 1, m->schema->bytes) : NULL;
        if (!object)
            return;
        prn_schema_clear(m->schema, object);
        set_pointer(m, record, object);
    }
    read_members(r, at, m->schema, object);
}

/* The kind's own way. */
static void read_kind(struct prn_fields *r, const struct prn_field *at, const struct prn_member *m,
                      char *record)
{
    switch (m->kind) {
    case PRN_KIND_TEXT:
        set_pointer(m, record, prn_field_text_at(r, at));
        break;
    case PRN_KIND_NUMBER:
        set_number(m, record, prn_field_number_at(r, at, (double)m->min));
        break;
    case PRN_KIND_INTEGER:
        set_integer(m, record, prn_field_integer_at(r, at, m->min, m->max ? m->max : INT64_MAX));
        break;
    case PRN_KIND_BOOL:
        record[m->offset] = (char)prn_field_bool_at(r, at);
        break;
    case PRN_KIND_CHOICE:
        set_integer(m, record, read_name(r, at, m->names));
        break;
    case PRN_KIND_FLAGS:
        set_integer(m, record, read_flags(r, at, m->names));
        break;
    case PRN_KIND_OBJECT:
        read_object(r, at, m, record);
        break;
    case PRN_KIND_ARRAY:
        read_array(r, at, m, record);
        break;
    case PRN_KIND_INLINE:
    case PRN_KIND_CONSTANT:
        break;
    }
}

static void read_value(struct prn_fields *r, const struct prn_field *at, const struct prn_member *m,
                       char *record)
{
    if (!at->value && m->flags & (PRN_OLD | PRN_OMIT))
        return;
    if (m->read) {
        m->read(r, at, record);
        return;
    }
    if (json_is_null(at->value) && m->flags & PRN_NULL)
        return;
    if (json_is_null(at->value) && m->flags & PRN_FINITE)
        prn_field_fault(r, at, "is not a number");
    read_kind(r, at, m, record);
}

static void read_members(struct prn_fields *r, const struct prn_field *at,
                         const struct prn_schema *s, char *record)
{
    if (!prn_field_is_object(r, at))
        return;
    for (size_t i = 0; i < s->n_members && r->code == 0; i++) {
        const struct prn_member *m = &s->members[i];
        struct prn_field place = prn_field_member(at, key_of(m));
        if (m->kind == PRN_KIND_INLINE && m->read)
            m->read(r, at, record);
        else if (m->kind == PRN_KIND_INLINE)
            read_members(r, at, m->schema, record + m->offset);
        else if (m->read || !m->write || m->bytes)
            read_value(r, &place, m, record);
    }
    if (s->present_bytes == sizeof(bool))
        record[s->present] = true;
    if (s->check && r->code == 0)
        s->check(r, at, record);
}

void prn_schema_read(struct prn_fields *r, const struct prn_field *at, const struct prn_schema *s,
                     void *record)
{
    prn_schema_clear(s, record);
    read_members(r, at, s, record);
}

int prn_schema_parse_json(struct prn_fields *r, const char *text, size_t len,
                          const struct prn_schema *s, void *record)
{
    json_t *root;
    int code = prn_json_parse(text, len, r->name, &root, r->err);
    if (code < 0)
        return code;
    void *found = malloc(s->bytes);
    if (found) {
        memcpy(found, record, s->bytes);
        prn_schema_read(r, &(struct prn_field){.value = root}, s, found);
    } else {
        r->code = prn_fail_memory(r->err);
    }
    json_decref(root);
    if (r->code == 0)
        memcpy(record, found, s->bytes);
    free(found);
    return r->code;
}

/* ---- CSV ---- */

/* "ratio", "ratio_low", "ratio_high": what an interval is of needs no further name. */
static void column_name(char name[NAME_SIZE], const char *prefix, const struct prn_member *m)
{
    bool itself = prefix && strcmp(m->name, "estimate") == 0;
    snprintf(name, NAME_SIZE, "%s%s%s", prefix ? prefix : "", prefix && !itself ? "_" : "",
             itself ? "" : key_of(m));
}

static void add_columns(struct prn_table *t, const char *prefix, const struct prn_schema *s)
{
    char name[NAME_SIZE];
    for (size_t i = 0; i < s->n_members; i++) {
        const struct prn_member *m = &s->members[i];
        if (m->kind == PRN_KIND_ARRAY || m->kind == PRN_KIND_CONSTANT)
            continue;
        if (m->kind == PRN_KIND_OBJECT || m->kind == PRN_KIND_INLINE) {
            add_columns(t, m->kind == PRN_KIND_OBJECT ? key_of(m) : prefix, m->schema);
            continue;
        }
        column_name(name, prefix, m);
        prn_table_column(t, name, PRN_TABLE_ALIGN_LEFT);
    }
}

void prn_schema_columns(struct prn_table *t, const struct prn_schema *s)
{
    add_columns(t, NULL, s);
}

static void add_flags(struct prn_table *t, const struct prn_name *names, unsigned flags)
{
    char text[FAULT_SIZE] = "";
    size_t len = 0;
    for (; names->name && len < sizeof text; names++)
        if (flags & (uint64_t)names->value)
            len += (size_t)snprintf(text + len, sizeof text - len, "%s%s", len ? " " : "",
                                    names->name);
    prn_table_cell(t, "%s", text);
}

static void add_cell(struct prn_table *t, const struct prn_member *m, const char *record)
{
    if (is_unknown(m, record))
        prn_table_cell(t, "%s", "");
    else if (m->kind == PRN_KIND_TEXT)
        prn_table_cell_text(t, get_pointer(m, record));
    else if (m->kind == PRN_KIND_NUMBER)
        prn_table_cell_exact(t, get_number(m, record));
    else if (m->kind == PRN_KIND_INTEGER)
        prn_table_cell(t, "%lld", (long long)get_integer(m, record));
    else if (m->kind == PRN_KIND_BOOL)
        prn_table_cell(t, "%s", get_bool(m, record) ? "yes" : "no");
    else if (m->kind == PRN_KIND_CHOICE)
        prn_table_cell(t, "%s", prn_name_of(m->names, get_integer(m, record)));
    else
        add_flags(t, m->names, (unsigned)get_integer(m, record));
}

void prn_schema_cells(struct prn_table *t, const struct prn_schema *s, const void *record)
{
    for (size_t i = 0; i < s->n_members; i++) {
        const struct prn_member *m = &s->members[i];
        if (m->kind == PRN_KIND_OBJECT || m->kind == PRN_KIND_INLINE)
            prn_schema_cells(t, m->schema, get_record(m, record));
        else if (m->kind != PRN_KIND_ARRAY && m->kind != PRN_KIND_CONSTANT && !record)
            prn_table_cell(t, "%s", "");
        else if (m->kind != PRN_KIND_ARRAY && m->kind != PRN_KIND_CONSTANT)
            add_cell(t, m, record);
    }
}

/* ---- JSON Schema ---- */

static void describe_members(struct prn_json_writer *w, const struct prn_schema *s);
static void describe_value(struct prn_json_writer *w, const struct prn_member *m);

/* The unit that a name ends with. */
static const char *unit_of(const char *name)
{
    static const char *const units[][2] = {
        {"_per_s", "1/s"},   {"_ns", "ns"},
        {"_us", "us"},       {"_ms", "ms"},
        {"_s", "s"},         {"_bytes", "bytes"},
        {"_mb", "MB"},       {"mhz", "MHz"},
        {"_mbps", "Mbit/s"}, {"usd_per_hour", "USD/h"},
        {"pct", "%"},
    };
    for (size_t i = 0; name && i < PRN_ARRAY_SIZE(units); i++) {
        size_t len = strlen(units[i][0]);
        size_t all = strlen(name);
        if (all >= len && strcmp(name + all - len, units[i][0]) == 0)
            return units[i][1];
    }
    return NULL;
}

static void describe_type(struct prn_json_writer *w, const char *type, bool null)
{
    if (!null) {
        prn_json_text(w, "type", type);
        return;
    }
    prn_json_array_compact(w, "type");
    prn_json_text(w, NULL, type);
    prn_json_text(w, NULL, "null");
    prn_json_end(w);
}

static void describe_names(struct prn_json_writer *w, const struct prn_name *names)
{
    prn_json_array_compact(w, "enum");
    for (; names->name; names++)
        prn_json_text(w, NULL, names->name);
    prn_json_end(w);
}

static void describe_bounds(struct prn_json_writer *w, const struct prn_member *m)
{
    if (m->min > INT64_MIN)
        prn_json_integer(w, "minimum", m->min);
    if (m->kind == PRN_KIND_INTEGER && m->max)
        prn_json_integer(w, "maximum", m->max);
}

/* What a record is, as keywords of the object that is being written. */
static void describe_record(struct prn_json_writer *w, const struct prn_schema *s, bool null)
{
    char ref[NAME_SIZE];
    snprintf(ref, sizeof ref, "#/$defs/%s", s->name ? s->name : "");
    if (is_bare(s))
        describe_value(w, &s->members[0]);
    else if (!s->name)
        describe_members(w, s);
    else if (!null)
        prn_json_text(w, "$ref", ref);
    if (!is_bare(s) && s->name && null) {
        prn_json_array(w, "anyOf");
        prn_json_object(w, NULL);
        prn_json_text(w, "$ref", ref);
        prn_json_end(w);
        prn_json_object(w, NULL);
        prn_json_text(w, "type", "null");
        prn_json_end(w);
        prn_json_end(w);
    }
}

static void describe_array(struct prn_json_writer *w, const struct prn_member *m)
{
    describe_type(w, "array", m->flags & PRN_NULL);
    if (m->min)
        prn_json_integer(w, "minItems", m->min);
    if (m->max < INT64_MAX && !(w->without & PRN_BOUNDS))
        prn_json_integer(w, "maxItems", m->max ? m->max : ENTRIES_MAX);
    prn_json_object(w, "items");
    describe_record(w, m->schema, m->flags & PRN_NULL_ITEMS);
    prn_json_end(w);
}

static void describe_flags(struct prn_json_writer *w, const struct prn_member *m)
{
    prn_json_text(w, "type", "array");
    if (!(w->without & PRN_BOUNDS))
        prn_json_integer(w, "maxItems", PRN_NAMES_MAX);
    prn_json_object(w, "items");
    describe_names(w, m->names);
    prn_json_end(w);
}

static void describe_value(struct prn_json_writer *w, const struct prn_member *m)
{
    bool null = m->flags & PRN_NULL;
    const char *unit = unit_of(key_of(m));
    if (m->doc)
        prn_json_text(w, "description", m->doc);
    if (m->kind == PRN_KIND_TEXT) {
        describe_type(w, "string", null);
        if (!m->write && !(w->without & PRN_BOUNDS))
            prn_json_integer(w, "maxLength", PRN_FIELD_TEXT_MAX);
    } else if (m->kind == PRN_KIND_NUMBER || m->kind == PRN_KIND_INTEGER) {
        bool number = m->kind == PRN_KIND_NUMBER;
        describe_type(w, number ? "number" : "integer", number ? !(m->flags & PRN_FINITE) : null);
        if (unit)
            prn_json_text(w, "unit", unit);
        describe_bounds(w, m);
    } else if (m->kind == PRN_KIND_BOOL) {
        prn_json_text(w, "type", "boolean");
    } else if (m->kind == PRN_KIND_CHOICE) {
        describe_names(w, m->names);
    } else if (m->kind == PRN_KIND_FLAGS) {
        describe_flags(w, m);
    } else if (m->kind == PRN_KIND_CONSTANT) {
        prn_json_text(w, "const", m->key);
    } else if (m->kind == PRN_KIND_ARRAY) {
        describe_array(w, m);
    } else {
        describe_record(w, m->schema, null);
    }
}

static void describe_required(struct prn_json_writer *w, const struct prn_schema *s)
{
    for (size_t i = 0; i < s->n_members; i++) {
        const struct prn_member *m = &s->members[i];
        if (m->flags & (PRN_OLD | PRN_OMIT))
            continue;
        if (m->kind == PRN_KIND_INLINE)
            describe_required(w, m->schema);
        else
            prn_json_text(w, NULL, key_of(m));
    }
}

static void describe_properties(struct prn_json_writer *w, const struct prn_schema *s)
{
    for (size_t i = 0; i < s->n_members; i++) {
        const struct prn_member *m = &s->members[i];
        if (m->kind == PRN_KIND_INLINE) {
            describe_properties(w, m->schema);
            continue;
        }
        prn_json_object(w, key_of(m));
        describe_value(w, m);
        prn_json_end(w);
    }
}

static void describe_members(struct prn_json_writer *w, const struct prn_schema *s)
{
    prn_json_text(w, "type", "object");
    prn_json_array_compact(w, "required");
    describe_required(w, s);
    prn_json_end(w);
    prn_json_object(w, "properties");
    describe_properties(w, s);
    prn_json_end(w);
}

#define DEFINITIONS_MAX 64

struct definitions {
    const struct prn_schema *list[DEFINITIONS_MAX];
    size_t n;
};

/* Every record with a name that occurs below this one, once. */
static void collect(struct definitions *d, const struct prn_schema *s)
{
    for (size_t i = 0; i < s->n_members; i++) {
        const struct prn_schema *below = s->members[i].schema;
        bool known = !below;
        for (size_t k = 0; k < d->n && !known; k++)
            known = d->list[k] == below;
        if (known)
            continue;
        if (below->name && s->members[i].kind != PRN_KIND_INLINE && d->n < DEFINITIONS_MAX)
            d->list[d->n++] = below;
        collect(d, below);
    }
}

int prn_schema_describe(const struct prn_schema *s, const char *title,
                        void (*rules)(struct prn_json_writer *w), bool read, struct prn_buffer *out,
                        struct prony_error *err)
{
    struct prn_json_writer w = prn_json_writer_init(out);
    struct definitions d = {0};
    w.without = read ? 0 : PRN_BOUNDS;
    collect(&d, s);
    prn_json_object(&w, NULL);
    prn_json_text(&w, "$schema", "https://json-schema.org/draft/2020-12/schema");
    prn_json_text(&w, "title", title);
    prn_json_text(&w, "description", s->doc);
    describe_members(&w, s);
    if (rules)
        rules(&w);
    prn_json_object(&w, "$defs");
    for (size_t i = 0; i < d.n; i++) {
        prn_json_object(&w, d.list[i]->name);
        prn_json_text(&w, "description", d.list[i]->doc);
        describe_members(&w, d.list[i]);
        prn_json_end(&w);
    }
    prn_json_end(&w);
    prn_json_end(&w);
    return prn_buffer_error(out, err);
}
