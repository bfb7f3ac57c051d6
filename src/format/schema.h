/*
 * What a record consists of, said once: a table of its members, from which come its JSON (there and
 * back), its columns in CSV, its JSON Schema and, by way of that, its TypeScript types.
 *
 *     #define PRN_OF struct launch
 *     static const struct prn_member launch_members[] = {
 *         PRN_INTEGER(load_ns, "Opening the model.", .flags = PRN_NULL),
 *         PRN_BOOL(settled, "The warm-up windows agreed."),
 *     };
 *     static const struct prn_schema launch_schema = PRN_SCHEMA("Launch", launch_members,
 *                                                               "One process.");
 *     #undef PRN_OF
 *
 * A row is the member of the struct, a sentence for the reader, and where the rules below don't
 * fit, designated initialisers. To add a field, add its row; where the struct itself is made of the
 * list (PRN_DECLARE, as in measure/profile.h), that is all.
 *
 * - The key is the member's name, or `.key`. Its unit is in the name: _ns, _bytes, _per_s.
 * - What isn't known is null: NAN, a NULL text, and, where PRN_NULL allows it, a negative integer
 * or a NULL pointer. An object is null when its `present` says so, or else when its first member
 * is.
 * - Numbers are finite and at least `.min`, which is 0 unless said otherwise; integers are at most
 *   `.max` too. Of an array, these are how many entries it may have.
 * - Keys are written in the order of the table. Readers ignore keys that the table doesn't have. A
 *   field that earlier versions didn't write is PRN_OLD: it may be missing, and is then not known.
 * - Whatever is read is bounded and of the right kind; what must hold between members is `check`'s.
 *   A record is cleared before it is read: everything in the table is unknown, or 0.
 */
#ifndef PRN_FORMAT_SCHEMA_H
#define PRN_FORMAT_SCHEMA_H

#include "base/table.h"

#include <stddef.h>

struct prn_json_writer;
struct prn_fields;
struct prn_field;

enum prn_kind {
    PRN_KIND_TEXT,     /* const char * */
    PRN_KIND_NUMBER,   /* double */
    PRN_KIND_INTEGER,  /* of 4 or 8 bytes */
    PRN_KIND_BOOL,     /* of 1 byte; with PRN_OMIT a signed char: -1 is not known */
    PRN_KIND_CHOICE,   /* an enum, or an error code; JSON has its name */
    PRN_KIND_FLAGS,    /* unsigned; JSON has an array of the names of its bits */
    PRN_KIND_CONSTANT, /* in JSON only: the text `key` is always the same */
    PRN_KIND_OBJECT,   /* a record, in the struct or PRN_POINTER to it */
    PRN_KIND_INLINE,   /* the same, but its members stand among those of the record around it */
    PRN_KIND_ARRAY,    /* a pointer to records, and a size_t that counts them */
};

/* Rules of a member. */
enum {
    PRN_NULL = 1,        /* may be null */
    PRN_OLD = 2,         /* may be missing, in files of earlier versions; always written */
    PRN_OMIT = 4,        /* not written when it isn't known, or is 0 (but PRN_NULL) or empty */
    PRN_FINITE = 8,      /* a number that may not be null */
    PRN_POINTER = 16,    /* the struct has a pointer to the record */
    PRN_NULL_ITEMS = 32, /* entries of the array may be null */
    PRN_ALONGSIDE = 64,  /* another column of the same array as the row before */
    PRN_BULK = 128,      /* samples, which pages have pictures of */
    PRN_KEYED = 256,     /* an integer that is never null itself, but makes its record so: -1 */
    PRN_BOUNDS = 512,    /* in `without` alone: how long texts and arrays are that readers take */
};

/* Names of values or bits; the last one has no name. */
struct prn_name {
    int64_t value;
    const char *name;
};

struct prn_schema;

struct prn_member {
    const char *name; /* NULL: the record is this value alone, as an entry of an array */
    const char *key;
    const char *doc;
    enum prn_kind kind;
    unsigned flags;
    size_t offset, bytes;
    size_t count; /* where the count of an array is */
    int64_t min, max;
    const struct prn_name *names;
    const struct prn_schema *schema;
    /* Instead of the kind's own, where a value is written in another way than it is kept. */
    void (*write)(struct prn_json_writer *w, const char *key, const void *record);
    void (*read)(struct prn_fields *r, const struct prn_field *at, void *record);
};

struct prn_schema {
    const char *name; /* in the JSON Schema; NULL: it is told where it occurs */
    const char *doc;
    size_t bytes; /* of the struct */
    const struct prn_member *members;
    size_t n_members;
    size_t present, present_bytes; /* a bool or a count in the struct: false or 0 is null */
    /* After all members were read: finds faults between them, fills what follows from them. */
    void (*check)(struct prn_fields *r, const struct prn_field *at, void *record);
};

#define PRN_AT(member) .offset = offsetof(PRN_OF, member), .bytes = sizeof(((PRN_OF *)0)->member)
#define PRN_ROW(kind_, member, ...)                                                   \
    {                                                                                 \
        .name = #member, .kind = PRN_KIND_##kind_, PRN_AT(member), .doc = __VA_ARGS__ \
    }
#define PRN_TEXT(member, ...) PRN_ROW(TEXT, member, __VA_ARGS__)
#define PRN_NUMBER(member, ...) PRN_ROW(NUMBER, member, __VA_ARGS__)
#define PRN_INTEGER(member, ...) PRN_ROW(INTEGER, member, __VA_ARGS__)
#define PRN_UINT64(member, ...) PRN_ROW(INTEGER, member, __VA_ARGS__, .min = INT64_MIN)
#define PRN_INT32(member, ...) PRN_ROW(INTEGER, member, __VA_ARGS__, .max = INT32_MAX)
#define PRN_BOOL(member, ...) PRN_ROW(BOOL, member, __VA_ARGS__)
#define PRN_CHOICE(member, names_, ...) PRN_ROW(CHOICE, member, __VA_ARGS__, .names = names_)
#define PRN_FLAGS(member, names_, ...) PRN_ROW(FLAGS, member, __VA_ARGS__, .names = names_)
#define PRN_OBJECT(member, schema_, ...) PRN_ROW(OBJECT, member, __VA_ARGS__, .schema = schema_)
#define PRN_INLINE(member, schema_) PRN_ROW(INLINE, member, NULL, .schema = schema_)
#define PRN_INLINE_PART(schema_)                                 \
    {                                                            \
        .name = "", .kind = PRN_KIND_INLINE, .schema = (schema_) \
    }
#define PRN_INLINE_POINTER(member, schema_) \
    PRN_ROW(INLINE, member, NULL, .schema = schema_, .flags = PRN_POINTER)
#define PRN_ARRAY(member, n_, schema_, ...) \
    PRN_ROW(ARRAY, member, __VA_ARGS__, .count = offsetof(PRN_OF, n_), .schema = schema_)
#define PRN_INTERVAL(member, ...) \
    PRN_OBJECT(member, &prn_interval_schema, __VA_ARGS__, .flags = PRN_NULL)
/* An object whose members are in the struct around it. */
#define PRN_PART(key_, schema_, ...)                                                 \
    {                                                                                \
        .name = key_, .kind = PRN_KIND_OBJECT, .schema = schema_, .doc = __VA_ARGS__ \
    }
/* A value that follows from the others: it is written by a function, and not read. */
#define PRN_COMPUTED(kind_, key_, write_, ...)                                      \
    {                                                                               \
        .name = key_, .kind = PRN_KIND_##kind_, .write = write_, .doc = __VA_ARGS__ \
    }
#define PRN_CONSTANT(key_, text)                             \
    {                                                        \
        .name = key_, .kind = PRN_KIND_CONSTANT, .key = text \
    }
/* The one row of a schema that isn't an object: an entry of an array. */
#define PRN_BARE(kind_, type, ...)                                          \
    {                                                                       \
        .kind = PRN_KIND_##kind_, .bytes = sizeof(type), .doc = __VA_ARGS__ \
    }

#define PRN_SCHEMA(name_, members_, ...)                                           \
    {                                                                              \
        .name = name_, .members = members_, .n_members = PRN_ARRAY_SIZE(members_), \
        .bytes = sizeof(PRN_OF), .doc = __VA_ARGS__                                \
    }
#define PRN_PRESENT(member) \
    .present = offsetof(PRN_OF, member), .present_bytes = sizeof(((PRN_OF *)0)->member)

/* A list of rows, X(NUMBER, median_ns, "Median."), makes the members of a struct,
 * LIST(PRN_DECLARE), and the rows of its table, LIST(PRN_DESCRIBE). */
#define PRN_DECLARE(kind, ...) PRN_DECLARE_##kind(__VA_ARGS__)
#define PRN_DECLARE_TEXT(member, ...) const char *member;
#define PRN_DECLARE_NUMBER(member, ...) double member;
#define PRN_DECLARE_INTEGER(member, ...) int64_t member;
#define PRN_DECLARE_UINT64(member, ...) uint64_t member;
#define PRN_DECLARE_INT32(member, ...) int32_t member;
#define PRN_DECLARE_BOOL(member, ...) bool member;
#define PRN_DECLARE_FLAGS(member, ...) unsigned member;
#define PRN_DECLARE_INTERVAL(member, ...) struct prn_interval member;
#define PRN_DESCRIBE(kind, ...) PRN_##kind(__VA_ARGS__),

/* ---- JSON ---- */

/* Writes a record as an object, or what its one unnamed member is; members with one of the rules in
 * `w->without` are left out. */
void prn_schema_write(struct prn_json_writer *w, const char *key, const struct prn_schema *s,
                      const void *record);

/* The same as a text of its own. */
PRONY_MUST_CHECK int prn_schema_write_json(const struct prn_schema *s, const void *record,
                                           struct prn_buffer *out, struct prony_error *err);

/* Reads a record; the first fault is in `r`. Its memory needs not to be cleared. */
void prn_schema_read(struct prn_fields *r, const struct prn_field *at, const struct prn_schema *s,
                     void *record);

/* The same from a text, which `r->name` names. The record is changed on success only, and of it
 * only what the table has. */
PRONY_MUST_CHECK int prn_schema_parse_json(struct prn_fields *r, const char *text, size_t len,
                                           const struct prn_schema *s, void *record);

/* Makes everything unknown that may be, and the rest 0. */
void prn_schema_clear(const struct prn_schema *s, void *record);

/* The name of a value; NULL when it has none. */
const char *prn_name_of(const struct prn_name *names, int64_t value);

/* ---- CSV ---- */

/* Columns for every value of a record, and cells for one; all are empty when `record` is NULL. An
 * object's columns begin with its name; arrays have none. */
void prn_schema_columns(struct prn_table *t, const struct prn_schema *s);
void prn_schema_cells(struct prn_table *t, const struct prn_schema *s, const void *record);

/* ---- JSON Schema ---- */

/* Writes the JSON Schema of files whose "schema" is `title`; `rules` writes further keywords of the
 * whole, and may be NULL. The bounds of the reader are told of files that are read. */
PRONY_MUST_CHECK int prn_schema_describe(const struct prn_schema *s, const char *title,
                                         void (*rules)(struct prn_json_writer *w), bool read,
                                         struct prn_buffer *out, struct prony_error *err);

#endif
