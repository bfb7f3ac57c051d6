#include "service/slurm/text.h"

#include "base/text.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MAX_BYTES 4096 /* of squeue; features and resources of a node may take more */

enum prn_slurm_phase prn_slurm_phase(const char *state)
{
    static const struct {
        const char *state;
        enum prn_slurm_phase phase;
    } known[] = {
        {"PENDING", PRN_SLURM_PENDING},       {"REQUEUED", PRN_SLURM_PENDING},
        {"REQUEUE_HOLD", PRN_SLURM_PENDING},  {"REQUEUE_FED", PRN_SLURM_PENDING},
        {"RESV_DEL_HOLD", PRN_SLURM_PENDING}, {"CONFIGURING", PRN_SLURM_RUNNING},
        {"RUNNING", PRN_SLURM_RUNNING},       {"RESIZING", PRN_SLURM_RUNNING},
        {"SUSPENDED", PRN_SLURM_RUNNING},     {"STOPPED", PRN_SLURM_RUNNING},
        {"SIGNALING", PRN_SLURM_RUNNING},     {"COMPLETING", PRN_SLURM_ENDING},
        {"STAGE_OUT", PRN_SLURM_ENDING},      {"BOOT_FAIL", PRN_SLURM_ENDED},
        {"CANCELLED", PRN_SLURM_ENDED},       {"COMPLETED", PRN_SLURM_ENDED},
        {"DEADLINE", PRN_SLURM_ENDED},        {"FAILED", PRN_SLURM_ENDED},
        {"NODE_FAIL", PRN_SLURM_ENDED},       {"OUT_OF_MEMORY", PRN_SLURM_ENDED},
        {"PREEMPTED", PRN_SLURM_ENDED},       {"REVOKED", PRN_SLURM_ENDED},
        {"SPECIAL_EXIT", PRN_SLURM_ENDED},    {"TIMEOUT", PRN_SLURM_ENDED},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(known); i++)
        if (strcmp(known[i].state, state) == 0)
            return known[i].phase;
    return PRN_SLURM_ODD;
}

/* ---- Lines and fields ---- */

/* A copy for people to read, cut to its place. */
static void keep(char *to, size_t size, const char *from)
{
    struct prn_buffer clean = PRN_BUFFER_INIT((size_t)64 << 10);
    prn_text_clean(&clean, from);
    size_t length = strnlen(prn_buffer_text(&clean), size - 1);
    /* Not inside a character. */
    while (length > 0 && ((unsigned char)prn_buffer_text(&clean)[length] & 0xc0) == 0x80)
        length--;
    memcpy(to, prn_buffer_text(&clean), length);
    to[length] = '\0';
    prn_buffer_release(&clean);
}

/* Splits a line at its first n - 1 bars; false when it has fewer. */
static bool split(char *line, char **fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        fields[i] = line;
        char *bar = i + 1 < n ? strchr(line, '|') : NULL;
        if (!bar && i + 1 < n)
            return false;
        if (bar) {
            *bar = '\0';
            line = bar + 1;
        }
    }
    return true;
}

/* A number of digits alone; 0: it isn't one, or it is too large. */
static uint64_t number_of(const char *text)
{
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && digits <= 18 && !text[digits] ? strtoull(text, NULL, 10) : 0;
}

bool prn_slurm_next_row(const char **text, struct prn_slurm_row *ret_row)
{
    while (**text) {
        const char *line = *text;
        size_t length = strcspn(line, "\n");
        *text = line + length + (line[length] == '\n');
        char copy[LINE_MAX_BYTES];
        char *fields[7];
        if (length >= sizeof copy)
            continue;
        memcpy(copy, line, length);
        copy[length] = '\0';
        if (!split(copy, fields, PRN_ARRAY_SIZE(fields)))
            continue;
        struct prn_slurm_row row = {.job = number_of(fields[0]),
                                    .phase = prn_slurm_phase(fields[1]),
                                    .start_s = (int64_t)number_of(fields[3]),
                                    .end_s = (int64_t)number_of(fields[4])};
        if (row.job == 0)
            continue; /* a part of an array, or something else */
        keep(row.state, sizeof row.state, fields[1]);
        keep(row.reason, sizeof row.reason, strcmp(fields[2], "None") == 0 ? "" : fields[2]);
        keep(row.node, sizeof row.node, fields[5]);
        keep(row.name, sizeof row.name, fields[6]);
        *ret_row = row;
        return true;
    }
    return false;
}

/* ---- Nodes ---- */

double prn_slurm_time_s(const char *text)
{
    static const double unit_s[] = {1, 60, 3600};
    double days = 0;
    double seconds = 0;
    if (strcmp(text, "infinite") == 0 || strcmp(text, "UNLIMITED") == 0)
        return INFINITY;
    const char *dash = strchr(text, '-');
    if (dash) {
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 6 || text + digits != dash)
            return NAN;
        days = (double)strtol(text, NULL, 10);
        text = dash + 1;
    }
    size_t parts = 1;
    for (const char *c = text; *c; c++)
        parts += *c == ':';
    if (parts < 2 || parts > PRN_ARRAY_SIZE(unit_s))
        return NAN;
    for (size_t i = parts; i-- > 0; text++) {
        size_t digits = strspn(text, "0123456789");
        if (digits == 0 || digits > 6 || (i > 0 ? text[digits] != ':' : text[digits] != '\0'))
            return NAN;
        seconds += (double)strtol(text, NULL, 10) * unit_s[i];
        text += digits;
        if (i == 0)
            break;
    }
    return days * 86400 + seconds;
}

bool prn_slurm_next_node(char **text, struct prn_slurm_node *ret_node)
{
    while (**text) {
        char *line = *text;
        size_t length = strcspn(line, "\n");
        *text = line + length + (line[length] == '\n');
        line[length] = '\0';
        char *fields[4];
        if (!split(line, fields, PRN_ARRAY_SIZE(fields)) || !fields[0][0])
            continue;
        size_t name = strlen(fields[0]);
        bool is_default = fields[0][name - 1] == '*';
        if (is_default)
            fields[0][name - 1] = '\0';
        if (!fields[0][0])
            continue;
        double limit_s = prn_slurm_time_s(fields[1]);
        *ret_node = (struct prn_slurm_node){.partition = fields[0],
                                            .is_default = is_default,
                                            .limit_s = isnan(limit_s) ? INFINITY : limit_s,
                                            .features = fields[2],
                                            .gres = fields[3]};
        return true;
    }
    return false;
}

bool prn_slurm_has_feature(const char *features, const char *feature)
{
    size_t wanted = strlen(feature);
    for (const char *at = features; *at;) {
        size_t length = strcspn(at, ",");
        if (length == wanted && memcmp(at, feature, wanted) == 0)
            return true;
        at += length + (at[length] == ',');
    }
    return false;
}

/* "name:type:count(…)" → "name:type", or "name" where there is no type. */
static size_t gres_name(const char *gres, size_t length)
{
    size_t whole = strcspn(gres, "(");
    length = whole < length ? whole : length;
    for (size_t end = length; end > 0; end--)
        if (gres[end - 1] == ':')
            return strspn(gres + end, "0123456789kKmMgGtT") >= length - end ? end - 1 : length;
    return length;
}

static bool node_has(const char *node_gres, const char *wanted, size_t length)
{
    for (const char *at = node_gres; *at;) {
        size_t item = strcspn(at, ",");
        size_t have = gres_name(at, item);
        /* One that is asked for without its type is any of them. */
        if (have >= length && memcmp(at, wanted, length) == 0 &&
            (have == length || at[length] == ':'))
            return true;
        at += item + (at[item] == ',');
    }
    return false;
}

bool prn_slurm_has_gres(const char *node_gres, const char *wanted)
{
    for (const char *at = wanted; *at;) {
        size_t item = strcspn(at, ",");
        if (!node_has(node_gres, at, gres_name(at, item)))
            return false;
        at += item + (at[item] == ',');
    }
    return true;
}

bool prn_slurm_next_feature(const char **constraint, char ret_name[PRN_SLURM_NAME_SIZE])
{
    static const char signs[] = "&|,()[]*";
    for (;;) {
        const char *at = *constraint;
        bool count = *at == '*';
        at += strspn(at, count ? "*" : "&|,()[]");
        if (count)
            at += strspn(at, "0123456789");
        *constraint = at;
        if (!*at)
            return false;
        size_t length = strcspn(at, signs);
        if (length == 0)
            continue;
        *constraint = at + length;
        size_t kept = length < PRN_SLURM_NAME_SIZE ? length : PRN_SLURM_NAME_SIZE - 1;
        memcpy(ret_name, at, kept);
        ret_name[kept] = '\0';
        return true;
    }
}

/* ---- Answers ---- */

uint64_t prn_slurm_submitted(const char *text)
{
    char number[24];
    size_t length = strcspn(text, ";\n");
    if (length >= sizeof number)
        return 0;
    memcpy(number, text, length);
    number[length] = '\0';
    return number_of(number);
}

/* "127:0" */
static bool read_exit(const char *text, struct prn_slurm_outcome *o)
{
    char *end;
    if (!isdigit((unsigned char)text[0]))
        return false;
    long status = strtol(text, &end, 10);
    if (*end != ':' || !isdigit((unsigned char)end[1]))
        return false;
    long signal = strtol(end + 1, NULL, 10);
    if (status > INT_MAX || signal > INT_MAX)
        return false;
    o->status = (int)status;
    o->signal = (int)signal;
    return true;
}

static bool read_state(const char *text, const char *ends, struct prn_slurm_outcome *o)
{
    size_t length = strcspn(text, ends);
    if (length == 0 || length >= sizeof o->state)
        return false;
    memcpy(o->state, text, length);
    o->state[length] = '\0';
    /* "CANCELLED by 0", "CANCELLED+" */
    o->state[strspn(o->state, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_")] = '\0';
    return prn_slurm_phase(o->state) == PRN_SLURM_ENDED;
}

bool prn_slurm_parse_sacct(const char *text, struct prn_slurm_outcome *ret_outcome)
{
    struct prn_slurm_outcome o = {0};
    const char *bar = strchr(text, '|');
    if (!bar || memchr(text, '\n', (size_t)(bar - text)) || !read_state(text, "|", &o) ||
        !read_exit(bar + 1, &o))
        return false;
    *ret_outcome = o;
    return true;
}

/* The value of a key, which stands behind a space: another one's value may hold its name. */
static const char *value_of(const char *text, const char *key)
{
    size_t length = strlen(key);
    for (const char *at = strstr(text, key); at; at = strstr(at + 1, key))
        if (at > text && at[-1] == ' ' && at[length] == '=')
            return at + length + 1;
    return NULL;
}

bool prn_slurm_parse_scontrol(const char *text, struct prn_slurm_outcome *ret_outcome)
{
    struct prn_slurm_outcome o = {0};
    const char *state = value_of(text, "JobState");
    const char *exit = value_of(text, "ExitCode");
    if (!state || !exit || !read_state(state, " \n", &o) || !read_exit(exit, &o))
        return false;
    *ret_outcome = o;
    return true;
}

bool prn_slurm_parse_there(const char *text, bool *ret_there)
{
    const char *state = value_of(text, "JobState");
    char name[PRN_SLURM_STATE_SIZE];
    size_t length = state ? strspn(state, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") : 0;
    if (length == 0 || length >= sizeof name)
        return false;
    memcpy(name, state, length);
    name[length] = '\0';
    *ret_there = prn_slurm_phase(name) != PRN_SLURM_ENDED;
    return true;
}

/* ---- Complaints ---- */

bool prn_slurm_unknown(const char *complaint)
{
    return strcasestr(complaint, "invalid job id") != NULL;
}

/* "sbatch: error: what is wrong" → what is wrong. */
static const char *without_name(const char *line)
{
    static const char *const names[] = {"sbatch: ",   "squeue: ", "scancel: ", "sinfo: ",
                                        "scontrol: ", "sacct: ",  "error: ",   "fatal: "};
    bool again = true;
    while (again) {
        again = false;
        for (size_t i = 0; i < PRN_ARRAY_SIZE(names); i++)
            if (strncmp(line, names[i], strlen(names[i])) == 0) {
                line += strlen(names[i]);
                again = true;
            }
    }
    return line;
}

/* The name of a limit that the accounting sets ("AssocMaxSubmitJobLimit", "QOSGrpCpuLimit"); 0:
 * none begins here. */
static size_t limit_name(const char *text)
{
    size_t who = strncmp(text, "Assoc", 5) == 0 ? 5 : strncmp(text, "QOS", 3) == 0 ? 3 : 0;
    if (who == 0 || !isupper((unsigned char)text[who]))
        return 0;
    while (isalnum((unsigned char)text[who]))
        who++;
    return who;
}

void prn_slurm_complaint(struct prn_buffer *out, const char *text)
{
    char line[256] = "";
    char limit[64] = "";
    for (const char *at = text; *at;) {
        size_t length = strcspn(at, "\n");
        size_t kept = length < sizeof line ? length : sizeof line - 1;
        /* 'Try "sbatch --help" for more information' comes after what it is about. */
        if (strspn(at, " \t\r") < length && strncmp(at, "Try ", 4) != 0) {
            memcpy(line, at, kept);
            line[kept] = '\0';
        }
        /* A line before the last says only which limit it is. */
        const char *word = without_name(line);
        size_t name = limit_name(word);
        if (name > 0 && name < sizeof limit && !word[name])
            memcpy(limit, word, name + 1);
        at += length + (at[length] == '\n');
    }
    const char *said = without_name(line);
    struct prn_buffer words = PRN_BUFFER_INIT(2 * sizeof line);
    for (const char *c = said; *c;) {
        bool begins = c == said || strchr(" '\"(=", c[-1]);
        if (begins && *c == '/') {
            prn_buffer_add(&words, "...");
            c += strcspn(c, " '\"):");
        } else {
            prn_buffer_add_char(&words, *c++);
        }
    }
    if (limit[0] && strcmp(limit, said) != 0)
        prn_buffer_printf(out, "%s: ", limit);
    prn_text_clean(out, words.len ? prn_buffer_text(&words) : "it doesn't say why");
    prn_buffer_release(&words);
}

/* The first limit that a complaint names; NULL: it names none. */
static const char *find_limit(const char *complaint)
{
    for (const char *at = complaint; *at; at++)
        if ((at == complaint || !isalnum((unsigned char)at[-1])) && limit_name(at) > 0)
            return at;
    return NULL;
}

enum prn_slurm_fault prn_slurm_fault(const char *complaint)
{
    static const struct {
        const char *words;
        enum prn_slurm_fault fault;
    } known[] = {
        {"invalid account", PRN_SLURM_FAULT_ACCOUNT},
        {"invalid qos", PRN_SLURM_FAULT_QOS},
        {"partition", PRN_SLURM_FAULT_PARTITION},
        {"invalid feature", PRN_SLURM_FAULT_CONSTRAINT},
        {"generic resource", PRN_SLURM_FAULT_GRES},
        {"node configuration", PRN_SLURM_FAULT_NODES},
        {"time limit", PRN_SLURM_FAULT_TIME},
        {"option", PRN_SLURM_FAULT_OPTIONS},
        {"node name", PRN_SLURM_FAULT_OPTIONS},
    };
    const char *limit = find_limit(complaint);
    if (limit)
        return *limit == 'A' ? PRN_SLURM_FAULT_ACCOUNT : PRN_SLURM_FAULT_QOS;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(known); i++)
        if (strcasestr(complaint, known[i].words))
            return known[i].fault;
    return PRN_SLURM_FAULT_OTHER;
}

enum prn_slurm_full prn_slurm_full(const char *complaint)
{
    char name[64] = "";
    const char *limit = find_limit(complaint);
    if (limit)
        snprintf(name, sizeof name, "%.*s", (int)limit_name(limit), limit);
    if (!strstr(name, "SubmitJob"))
        return PRN_SLURM_NOT_FULL;
    return strstr(name, "Grp") || strstr(name, "PerAccount") ? PRN_SLURM_FULL_GROUP
                                                             : PRN_SLURM_FULL_USER;
}
