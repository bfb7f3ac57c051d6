/*
 * What prony knows of hardware: a short built-in list, a site's own file in front of it, and this
 * machine's processor behind it. All of it becomes one table of entries; a lookup takes each field
 * from the first entry that knows it, full names before families.
 */
#include "spec/spec.h"

#include "format/yaml.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HARDWARE_FILE_MAX ((size_t)1 << 20)
#define HARDWARE_ENTRIES_MAX 10000
#define HARDWARE_ARENA_MAX ((size_t)16 << 20)
#define CPUINFO_MAX ((size_t)16 << 20)
#define USD_PER_HOUR_MAX 1e6

static const struct prn_hardware builtin[] = {
    {"r6i.*", "Intel Ice Lake CPU", NAN},      {"r6i.large", NULL, 0.126},
    {"r7g.*", "AWS Graviton3 CPU", NAN},       {"r7g.large", NULL, 0.1071},
    {"r6g.*", "Arm based Graviton2 CPU", NAN}, {"r6g.large", NULL, NAN},
    {"g4dn.*", "Nvidia T4 GPU", NAN},          {"g4dn.xlarge", NULL, 0.526},
    {"g5.*", "Nvidia A10g GPU", NAN},          {"g5.xlarge", NULL, 1.006},
};

static bool is_family(const char *name)
{
    size_t len = strlen(name);
    return len > 2 && strcmp(name + len - 2, ".*") == 0;
}

static bool in_family(const char *family, const char *name)
{
    size_t len = strlen(family) - 1;
    return is_family(family) && strncmp(family, name, len) == 0 &&
           strchr(name, '.') == name + len - 1;
}

/* ---- The file ---- */

struct loader {
    const struct prn_yaml *yaml;
    struct prn_hardware_table *table;
    struct prony_error *err;
};

static int read_text(const struct loader *l, const struct prn_yaml_node *item, const char *key,
                     const char **ret_text)
{
    const struct prn_yaml_node *node = prn_yaml_get(item, key);
    if (!node || prn_yaml_is_null(node))
        return 0;
    if (node->kind != PRN_YAML_SCALAR)
        return prn_yaml_fail(l->yaml, node, l->err, "'%s' is not a text", key);
    for (const char *p = node->text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            return prn_yaml_fail(l->yaml, node, l->err, "'%s' contains a control character", key);
    *ret_text = prn_arena_strdup(&l->table->arena, node->text);
    return *ret_text ? 0 : prn_fail_memory(l->err);
}

static int read_price(const struct loader *l, const struct prn_yaml_node *item, const char *name,
                      double *ret_price)
{
    const struct prn_yaml_node *node = prn_yaml_get(item, "usd_per_hour");
    if (!node || prn_yaml_is_null(node))
        return 0;
    if (!prn_yaml_number(node, ret_price) || *ret_price < 0 || *ret_price > USD_PER_HOUR_MAX)
        return prn_yaml_fail(l->yaml, node, l->err,
                             "'usd_per_hour' is not a number between 0 and %.0f", USD_PER_HOUR_MAX);
    if (is_family(name))
        return prn_yaml_fail(l->yaml, node, l->err,
                             "a family ('%s') has no price; give it for each size", name);
    return 0;
}

static int read_entry(const struct loader *l, const struct prn_yaml_node *item)
{
    static const char *const known[] = {"name", "processor", "usd_per_hour"};
    if (item->kind != PRN_YAML_MAP)
        return prn_yaml_fail(l->yaml, item, l->err,
                             "not a map with name, processor and usd_per_hour");
    for (size_t i = 0; i < item->n; i++) {
        bool found = false;
        for (size_t k = 0; k < PRN_ARRAY_SIZE(known); k++)
            found = found || strcmp(item->keys[i], known[k]) == 0;
        if (!found)
            return prn_yaml_fail(l->yaml, item->items[i], l->err,
                                 "unknown key '%s' (known: name, processor, usd_per_hour)",
                                 item->keys[i]);
    }
    struct prn_hardware entry = {.usd_per_hour = NAN};
    int code = read_text(l, item, "name", &entry.name);
    if (code < 0)
        return code;
    if (!entry.name || !entry.name[0] || strchr(entry.name, '/'))
        return prn_yaml_fail(l->yaml, item, l->err, "needs a 'name' without '/'");
    code = read_text(l, item, "processor", &entry.processor);
    if (code == 0)
        code = read_price(l, item, entry.name, &entry.usd_per_hour);
    if (code < 0)
        return code;
    for (size_t i = 0; i < l->table->n; i++)
        if (strcmp(l->table->entries[i].name, entry.name) == 0)
            return prn_yaml_fail(l->yaml, item, l->err, "'%s' is listed twice", entry.name);
    l->table->entries[l->table->n++] = entry;
    return 0;
}

static int read_entries(struct loader *l, size_t room_for_others)
{
    const struct prn_yaml_node *root = l->yaml ? prn_yaml_root(l->yaml) : NULL;
    bool empty = !root || prn_yaml_is_null(root);
    if (!empty && root->kind != PRN_YAML_LIST)
        return prn_yaml_fail(l->yaml, root, l->err,
                             "not a list of entries with name, processor and usd_per_hour");
    size_t n = empty ? 0 : root->n;
    if (n > HARDWARE_ENTRIES_MAX)
        return prn_yaml_fail(l->yaml, root, l->err, "more than %d entries", HARDWARE_ENTRIES_MAX);
    l->table->entries = PRN_ARENA_ARRAY(&l->table->arena, n + room_for_others, struct prn_hardware);
    if (!l->table->entries)
        return prn_fail_memory(l->err);
    for (size_t i = 0; i < n; i++) {
        int code = read_entry(l, root->items[i]);
        if (code < 0)
            return code;
    }
    return 0;
}

/* ---- This machine ---- */

/* Copies "Intel(R) Xeon(R) Processor @ 2.30GHz" without the marks and the clock rate, and with
 * single spaces. */
static char *tidy_processor(struct prn_arena *arena, const char *text, size_t len)
{
    static const char *const marks[] = {"(R)", "(r)", "(TM)", "(tm)"};
    char *copy = prn_arena_strndup(arena, text, len);
    if (!copy)
        return NULL;
    char *out = copy;
    for (const char *p = copy; *p && *p != '@';) {
        size_t mark = 0;
        for (size_t i = 0; i < PRN_ARRAY_SIZE(marks); i++)
            if (strncmp(p, marks[i], strlen(marks[i])) == 0)
                mark = strlen(marks[i]);
        if (mark > 0) {
            p += mark;
            continue;
        }
        bool space = *p == ' ' || *p == '\t';
        if (!space)
            *out++ = *p;
        else if (out > copy && out[-1] != ' ')
            *out++ = ' ';
        p++;
    }
    while (out > copy && out[-1] == ' ')
        out--;
    *out = '\0';
    return copy;
}

/* The value of the first "key : value" line of /proc/cpuinfo. */
static const char *cpuinfo_field(const char *cpuinfo, const char *key, size_t *ret_len)
{
    size_t key_len = strlen(key);
    for (const char *line = cpuinfo; *line;) {
        size_t len = strcspn(line, "\n");
        const char *colon = memchr(line, ':', len);
        if (colon && strncmp(line, key, key_len) == 0 &&
            strspn(line + key_len, " \t") == (size_t)(colon - line) - key_len) {
            const char *value = colon + 1 + strspn(colon + 1, " \t");
            *ret_len = (size_t)(line + len - value);
            return value;
        }
        line += len + (line[len] == '\n');
    }
    return NULL;
}

/* Arm kernels give numbers instead of a name; these are the ones of common servers. */
static const char *arm_processor(const char *cpuinfo)
{
    static const struct {
        long part;
        const char *name;
    } parts[] = {{0xd0c, "Arm Neoverse N1"},
                 {0xd40, "Arm Neoverse V1"},
                 {0xd49, "Arm Neoverse N2"},
                 {0xd4f, "Arm Neoverse V2"}};
    size_t len;
    const char *implementer = cpuinfo_field(cpuinfo, "CPU implementer", &len);
    const char *part = cpuinfo_field(cpuinfo, "CPU part", &len);
    if (!implementer || !part || strtol(implementer, NULL, 16) != 0x41)
        return NULL;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(parts); i++)
        if (strtol(part, NULL, 16) == parts[i].part)
            return parts[i].name;
    return NULL;
}

/* NULL when it can't be known. */
static const char *local_processor(struct prn_arena *arena)
{
    int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    struct prn_buffer text = PRN_BUFFER_INIT(CPUINFO_MAX);
    const char *processor = NULL;
    if (prn_buffer_read_fd(&text, fd, "/proc/cpuinfo", NULL) == 0) {
        size_t len;
        const char *model = cpuinfo_field(prn_buffer_text(&text), "model name", &len);
        if (model && len > 0)
            processor = tidy_processor(arena, model, len);
        else
            processor = arm_processor(prn_buffer_text(&text));
    }
    prn_buffer_release(&text);
    close(fd);
    return processor;
}

int prn_hardware_load(const char *path, struct prn_hardware_table *ret_table,
                      struct prony_error *err)
{
    struct prn_hardware_table table = {.arena = PRN_ARENA_INIT(HARDWARE_ARENA_MAX)};
    struct prn_yaml *yaml = NULL;
    int code = path ? prn_yaml_read(path, HARDWARE_FILE_MAX, &yaml, err) : 0;
    if (code == 0) {
        struct loader l = {.yaml = yaml, .table = &table, .err = err};
        code = read_entries(&l, PRN_ARRAY_SIZE(builtin) + 1);
    }
    prn_yaml_free(yaml);
    if (code < 0 || !table.entries) {
        prn_hardware_release(&table);
        return code;
    }
    memcpy(table.entries + table.n, builtin, sizeof builtin);
    table.n += PRN_ARRAY_SIZE(builtin);
    table.entries[table.n++] = (struct prn_hardware){"local", local_processor(&table.arena), NAN};
    *ret_table = table;
    return 0;
}

void prn_hardware_release(struct prn_hardware_table *table)
{
    prn_arena_release(&table->arena);
    table->entries = NULL;
    table->n = 0;
}

struct prn_hardware prn_hardware_find(const struct prn_hardware_table *table, const char *name)
{
    struct prn_hardware found = {.name = name, .usd_per_hour = NAN};
    const char *family_processor = NULL;
    for (size_t i = 0; i < table->n; i++) {
        const struct prn_hardware *entry = &table->entries[i];
        if (strcmp(entry->name, name) == 0) {
            if (!found.processor)
                found.processor = entry->processor;
            if (isnan(found.usd_per_hour))
                found.usd_per_hour = entry->usd_per_hour;
        } else if (!family_processor && in_family(entry->name, name)) {
            family_processor = entry->processor;
        }
    }
    if (!found.processor)
        found.processor = family_processor;
    return found;
}

double prn_cost_per_million(double usd_per_hour, double ns)
{
    const double ns_per_hour = 3.6e12;
    return usd_per_hour * ns / ns_per_hour * 1e6;
}
