/*
 * Hashes are kept sorted. Before each lookup SQLite is asked for its data_version, which changes
 * when another connection has committed; only then is the generation of the tokens read, and only
 * when that has changed are they all read again. That order costs a few microseconds and misses
 * nothing.
 */
#include "service/store/tokens.h"

#include "base/clock.h"
#include "base/lock.h"
#include "base/array.h"
#include "base/table.h"
#include "base/text.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PREFIX "prony_"
#define SECRET_BYTES 32
#define HASH_BYTES PRN_TOKEN_HASH_BYTES
#define ID_DIGITS 8
/* How old what the database has of a token's last use may be. */
#define SAVE_MS 60000

struct token {
    uint8_t hash[HASH_BYTES];
    struct prn_identity identity;
    int64_t created_ms, used_ms;
    int64_t saved_ms; /* what the database has of `used_ms` */
};

enum { VERSION, GENERATION, READ, ADD, REVOKE, USED, N_STATEMENTS };

static const char *const sql[N_STATEMENTS] = {
    [VERSION] = "PRAGMA data_version",
    [GENERATION] = "SELECT value FROM generations WHERE name = 'tokens'",
    [READ] = "SELECT hash, user, role, created_ms, used_ms FROM tokens ORDER BY hash",
    [ADD] = "INSERT INTO tokens (hash, user, role, created_ms) VALUES (?, ?, ?, ?)",
    [REVOKE] = "DELETE FROM tokens WHERE hash = ?",
    [USED] = "UPDATE tokens SET used_ms = max(used_ms, ?) WHERE hash = ?",
};

PRN_LOCK(tokens);

struct prn_tokens {
    pthread_mutex_t lock;
    sqlite3 *db PRN_GUARDED(tokens);
    sqlite3_stmt *statements[N_STATEMENTS] PRN_GUARDED(tokens);
    int64_t version PRN_GUARDED(tokens), generation PRN_GUARDED(tokens); /* of what is in memory */
    size_t n PRN_GUARDED(tokens);
    struct token *tokens PRN_GUARDED(tokens); /* by hash */
    prn_token_change *changed PRN_GUARDED(tokens);
    void *context PRN_GUARDED(tokens);
};

PRN_LOCK_FUNCTIONS(tokens, struct prn_tokens, lock)

const char *prn_role_name(enum prn_role role)
{
    static const char *const names[] = {"user", "admin", "worker"};
    return (size_t)role < PRN_ARRAY_SIZE(names) ? names[role] : "unknown";
}

static int read_integer_locked(struct prn_tokens *t, int statement, int64_t *ret_value,
                               struct prony_error *err) PRN_HOLDS(tokens)
{
    return prn_db_number(t->db, t->statements[statement], ret_value, err);
}

static struct token *find_locked(const struct prn_tokens *t, const uint8_t hash[HASH_BYTES])
    PRN_HOLDS(tokens)
{
    /* The search looks at beginnings of hashes, which tell nothing about a token; whether it is the
     * one is then decided in constant time. */
    size_t low = 0, high = t->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memcmp(t->tokens[middle].hash, hash, 8) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < t->n && memcmp(t->tokens[low].hash, hash, 8) == 0; low++)
        if (CRYPTO_memcmp(t->tokens[low].hash, hash, HASH_BYTES) == 0)
            return &t->tokens[low];
    return NULL;
}

/* The beginning of the hash, by which people name a token without knowing it. */
static void id_of(const struct token *token, char ret_id[ID_DIGITS + 1])
{
    prn_text_hex(token->hash, ID_DIGITS / 2, ret_id);
}

/* A row; one that prony can't have written is left out, and its token refused. */
static bool row_of(sqlite3_stmt *s, struct token *ret_token)
{
    const void *hash = sqlite3_column_blob(s, 0);
    const char *user = (const char *)sqlite3_column_text(s, 1);
    int role = sqlite3_column_int(s, 2);
    if (!hash || sqlite3_column_bytes(s, 0) != HASH_BYTES || !user ||
        strlen(user) >= PRN_USER_SIZE || role < PRN_ROLE_USER || role > PRN_ROLE_WORKER)
        return false;
    *ret_token = (struct token){.identity.role = (enum prn_role)role,
                                .created_ms = sqlite3_column_int64(s, 3),
                                .used_ms = sqlite3_column_int64(s, 4),
                                .saved_ms = sqlite3_column_int64(s, 4)};
    memcpy(ret_token->hash, hash, HASH_BYTES);
    memcpy(ret_token->identity.user, user, strlen(user));
    return true;
}

/* Both are sorted by hash. */
static void tell_changes_locked(struct prn_tokens *t, const struct token *before, size_t n_before)
    PRN_HOLDS(tokens)
{
    char id[ID_DIGITS + 1];
    size_t i = 0;
    size_t k = 0;
    while (t->changed && (i < n_before || k < t->n)) {
        int order = i == n_before ? 1
                    : k == t->n   ? -1
                                  : memcmp(before[i].hash, t->tokens[k].hash, HASH_BYTES);
        const struct token *which = order < 0 ? &before[i] : &t->tokens[k];
        id_of(which, id);
        if (order != 0)
            t->changed(t->context, order < 0 ? "revoked" : "added", &which->identity, id);
        i += order <= 0;
        k += order >= 0;
    }
}

static int read_all_locked(struct prn_tokens *t, struct prony_error *err) PRN_HOLDS(tokens)
{
    sqlite3_stmt *s = t->statements[READ];
    struct token *tokens = NULL;
    size_t n = 0;
    int code = 0;
    while (prn_db_next(t->db, s, &code, err)) {
        struct token *grown = prn_array_grow(tokens, n, sizeof *tokens);
        if (!grown) {
            code = prn_fail_memory(err);
            break;
        }
        tokens = grown;
        if (!row_of(s, &tokens[n]))
            continue;
        const struct token *old = find_locked(t, tokens[n].hash);
        if (old && old->used_ms > tokens[n].used_ms)
            tokens[n].used_ms = old->used_ms;
        n++;
    }
    sqlite3_reset(s);
    if (code < 0) {
        free(tokens);
        return code;
    }
    struct token *before = t->tokens;
    size_t n_before = t->n;
    t->tokens = tokens;
    t->n = n;
    tell_changes_locked(t, before, n_before);
    free(before);
    return 0;
}

/* Brings memory up to date. What was read before a failure is never used: who was revoked in the
 * meantime can't be known. */
static int refresh_locked(struct prn_tokens *t, bool force, struct prony_error *err)
    PRN_HOLDS(tokens)
{
    int64_t version = 0, generation = 0;
    int code = read_integer_locked(t, VERSION, &version, err);
    if (code < 0 || (version == t->version && !force))
        return code;
    code = read_integer_locked(t, GENERATION, &generation, err);
    if (code == 0 && (generation != t->generation || force))
        code = read_all_locked(t, err);
    if (code == 0) {
        t->version = version;
        t->generation = generation;
    }
    return code;
}

int prn_tokens_new(const struct prn_state *state, struct prn_tokens **ret_tokens,
                   struct prony_error *err) PRN_ALONE
{
    struct prn_tokens *t = calloc(1, sizeof *t);
    if (!t)
        return prn_fail_memory(err);
    pthread_mutex_init(&t->lock, NULL);
    int code = prn_state_connect(state, true, &t->db, err);
    for (size_t i = 0; code == 0 && i < N_STATEMENTS; i++)
        code = prn_db_prepare(t->db, sql[i], &t->statements[i], err);
    if (code == 0)
        code = refresh_locked(t, true, err);
    if (code < 0)
        prn_tokens_free(t);
    else
        *ret_tokens = t;
    return code;
}

void prn_tokens_free(struct prn_tokens *tokens) PRN_ALONE
{
    if (!tokens)
        return;
    prn_tokens_flush(tokens);
    for (size_t i = 0; i < N_STATEMENTS; i++)
        sqlite3_finalize(tokens->statements[i]);
    sqlite3_close(tokens->db);
    pthread_mutex_destroy(&tokens->lock);
    free(tokens->tokens);
    free(tokens);
}

const char *prn_token_of_header(const char *header)
{
    static const char scheme[] = "bearer ";
    if (!header || strncasecmp(header, scheme, strlen(scheme)) != 0)
        return NULL;
    header += strlen(scheme);
    return header + strspn(header, " ");
}

bool prn_token_hash(const char *text, uint8_t ret_hash[PRN_TOKEN_HASH_BYTES])
{
    return EVP_Digest(text, strlen(text), ret_hash, NULL, EVP_sha256(), NULL) == 1;
}

static int refuse(struct prony_error *err)
{
    return prn_fail(err, PRONY_EDENIED, "the token isn't valid here");
}

int prn_tokens_check(struct prn_tokens *tokens, const char *text, struct prn_identity *ret_identity,
                     struct prony_error *err)
{
    /* Nothing else is ever handed out, and nobody makes us hash megabytes. */
    if (!text || strnlen(text, PRN_TOKEN_SIZE) != PRN_TOKEN_SIZE - 1)
        return refuse(err);
    uint8_t hash[HASH_BYTES];
    if (!prn_token_hash(text, hash))
        return prn_fail_memory(err);
    return prn_tokens_check_hash(tokens, hash, ret_identity, err);
}

int prn_tokens_check_hash(struct prn_tokens *tokens, const uint8_t hash[HASH_BYTES],
                          struct prn_identity *ret_identity, struct prony_error *err)
{
    tokens_lock(tokens);
    int code = refresh_locked(tokens, false, err);
    struct token *token = code == 0 ? find_locked(tokens, hash) : NULL;
    if (token) {
        token->used_ms = prn_wall_clock_ms();
        *ret_identity = token->identity;
    }
    tokens_unlock(tokens);
    return code < 0 || token ? code : refuse(err);
}

size_t prn_tokens_count(struct prn_tokens *tokens)
{
    tokens_lock(tokens);
    size_t n = refresh_locked(tokens, false, NULL) == 0 ? tokens->n : 0;
    tokens_unlock(tokens);
    return n;
}

static int save_uses_locked(struct prn_tokens *t, struct prony_error *err) PRN_HOLDS(tokens)
{
    int code = prn_db_exec(t->db, "BEGIN IMMEDIATE", err);
    for (size_t i = 0; code == 0 && i < t->n; i++) {
        if (t->tokens[i].used_ms <= t->tokens[i].saved_ms)
            continue;
        sqlite3_bind_int64(t->statements[USED], 1, t->tokens[i].used_ms);
        sqlite3_bind_blob(t->statements[USED], 2, t->tokens[i].hash, HASH_BYTES, SQLITE_STATIC);
        code = prn_db_run(t->db, t->statements[USED], err);
    }
    return prn_db_end(t->db, code, err);
}

static void flush_locked(struct prn_tokens *t, int64_t older_ms) PRN_HOLDS(tokens)
{
    bool due = false;
    for (size_t i = 0; i < t->n; i++)
        due |= t->tokens[i].used_ms - t->tokens[i].saved_ms > older_ms;
    /* A time that couldn't be saved is saved the next time. */
    if (due && save_uses_locked(t, NULL) == 0)
        for (size_t i = 0; i < t->n; i++)
            t->tokens[i].saved_ms = t->tokens[i].used_ms;
}

void prn_tokens_flush(struct prn_tokens *tokens)
{
    tokens_lock(tokens);
    flush_locked(tokens, 0);
    tokens_unlock(tokens);
}

void prn_tokens_watch(struct prn_tokens *tokens, prn_token_change *changed, void *context)
{
    tokens_lock(tokens);
    tokens->changed = changed;
    tokens->context = context;
    tokens_unlock(tokens);
}

void prn_tokens_look(struct prn_tokens *tokens)
{
    tokens_lock(tokens);
    if (refresh_locked(tokens, false, NULL) == 0)
        flush_locked(tokens, SAVE_MS);
    tokens_unlock(tokens);
}

static bool user_is_valid(const char *user)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t length = strnlen(user, PRN_USER_SIZE);
    if (length == 0 || length >= PRN_USER_SIZE || !strchr(letters, user[0]))
        return false;
    for (const char *c = user; *c; c++)
        if (!strchr(letters, *c) && !strchr(".-_@+", *c))
            return false;
    return true;
}

int prn_token_make(char ret_token[PRN_TOKEN_SIZE], struct prony_error *err)
{
    /* A block of base64 is four characters of three bytes, and a NUL behind the last. */
    unsigned char secret[SECRET_BYTES], text[(SECRET_BYTES + 2) / 3 * 4 + 1];
    if (RAND_bytes(secret, sizeof secret) != 1)
        return prn_fail(err, PRONY_EIO, "cannot get random bytes for a token");
    EVP_EncodeBlock(text, secret, sizeof secret);
    OPENSSL_cleanse(secret, sizeof secret);
    for (unsigned char *c = text; *c; c++)
        *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
    /* The last character only fills up. */
    snprintf(ret_token, PRN_TOKEN_SIZE, PREFIX "%.43s", (const char *)text);
    OPENSSL_cleanse(text, sizeof text);
    return 0;
}

int prn_tokens_add(struct prn_tokens *tokens, const char *user, enum prn_role role,
                   char ret_token[PRN_TOKEN_SIZE], struct prony_error *err)
{
    if (!user || !user_is_valid(user))
        return prn_fail(err, PRONY_EUSAGE,
                        "'%s' is not a valid user name: 1 to 64 letters, digits and .-_@+",
                        user ? user : "");
    char token[PRN_TOKEN_SIZE];
    uint8_t hash[HASH_BYTES];
    int code = prn_token_make(token, err);
    if (code == 0 && !prn_token_hash(token, hash))
        code = prn_fail_memory(err);
    if (code < 0)
        return code;
    tokens_lock(tokens);
    sqlite3_stmt *s = tokens->statements[ADD];
    sqlite3_bind_blob(s, 1, hash, sizeof hash, SQLITE_STATIC);
    sqlite3_bind_text(s, 2, user, -1, SQLITE_STATIC);
    sqlite3_bind_int(s, 3, (int)role);
    sqlite3_bind_int64(s, 4, prn_wall_clock_ms());
    code = prn_db_run(tokens->db, s, err);
    if (code == 0)
        code = refresh_locked(tokens, true, err);
    tokens_unlock(tokens);
    if (code == 0)
        memcpy(ret_token, token, sizeof token);
    OPENSSL_cleanse(token, sizeof token);
    return code;
}

static int revoke_matching_locked(struct prn_tokens *t, const char *name, bool by_id, size_t *n,
                                  struct prony_error *err) PRN_HOLDS(tokens)
{
    int code = 0;
    for (size_t i = 0; code == 0 && i < t->n; i++) {
        char id[ID_DIGITS + 1];
        id_of(&t->tokens[i], id);
        if (strcmp(by_id ? id : t->tokens[i].identity.user, name) != 0)
            continue;
        sqlite3_bind_blob(t->statements[REVOKE], 1, t->tokens[i].hash, HASH_BYTES, SQLITE_STATIC);
        code = prn_db_run(t->db, t->statements[REVOKE], err);
        (*n)++;
    }
    return code;
}

int prn_tokens_revoke(struct prn_tokens *tokens, const char *user_or_id, size_t *ret_n,
                      struct prony_error *err)
{
    size_t n = 0;
    tokens_lock(tokens);
    int code = prn_db_exec(tokens->db, "BEGIN IMMEDIATE", err);
    if (code == 0)
        code = refresh_locked(tokens, true, err);
    if (code == 0)
        code = revoke_matching_locked(tokens, user_or_id, false, &n, err);
    if (code == 0 && n == 0)
        code = revoke_matching_locked(tokens, user_or_id, true, &n, err);
    code = prn_db_end(tokens->db, code, err);
    if (code == 0)
        code = refresh_locked(tokens, true, err);
    tokens_unlock(tokens);
    if (code == 0 && n == 0)
        code = prn_fail(err, PRONY_ENOENT, "no token of '%s'; see 'prony token list'", user_or_id);
    if (code == 0)
        *ret_n = n;
    return code;
}

static void add_time(struct prn_table *table, int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm tm;
    char text[32] = "never";
    if (ms > 0 && gmtime_r(&seconds, &tm))
        strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &tm);
    prn_table_cell(table, "%s", text);
}

static int by_user(const void *a, const void *b)
{
    const struct token *x = a, *y = b;
    int order = strcmp(x->identity.user, y->identity.user);
    return order ? order : (x->created_ms > y->created_ms) - (x->created_ms < y->created_ms);
}

/* A copy in the order of the list; `ret_n` 0: there are none. */
static int copy_sorted(struct prn_tokens *t, struct token **ret_tokens, size_t *ret_n,
                       struct prony_error *err)
{
    tokens_lock(t);
    int code = refresh_locked(t, true, err); /* another process may have saved uses */
    struct token *copy = code == 0 && t->n > 0 ? reallocarray(NULL, t->n, sizeof *copy) : NULL;
    if (code == 0 && t->n > 0 && !copy)
        code = prn_fail_memory(err);
    if (copy) {
        memcpy(copy, t->tokens, t->n * sizeof *copy);
        qsort(copy, t->n, sizeof *copy, by_user);
    }
    if (code == 0) {
        *ret_tokens = copy;
        *ret_n = t->n;
    }
    tokens_unlock(t);
    return code;
}

int prn_tokens_list(struct prn_tokens *tokens, struct prn_buffer *out, struct prony_error *err)
{
    struct token *copy = NULL;
    size_t n = 0;
    int code = copy_sorted(tokens, &copy, &n, err);
    if (code == 0 && n == 0)
        prn_buffer_add(out, "no tokens; 'prony token add USER' makes one\n");
    if (code < 0 || n == 0)
        return code;
    struct prn_table *table = prn_table_new();
    prn_table_columns(table, "User|Role|Id|Created|Last used");
    for (size_t i = 0; i < n; i++) {
        char id[ID_DIGITS + 1];
        id_of(&copy[i], id);
        prn_table_cell_text(table, copy[i].identity.user);
        prn_table_cell(table, "%s", prn_role_name(copy[i].identity.role));
        prn_table_cell(table, "%s", id);
        add_time(table, copy[i].created_ms);
        add_time(table, copy[i].used_ms);
    }
    code = prn_table_write(table, PRN_TABLE_STYLE_TEXT, out, err);
    prn_table_free(table);
    free(copy);
    return code;
}

static int command_add(struct prn_tokens *tokens, const struct prn_token_options *options,
                       struct prn_buffer *out, struct prony_error *err)
{
    char token[PRN_TOKEN_SIZE];
    enum prn_role role = options->admin    ? PRN_ROLE_ADMIN
                         : options->worker ? PRN_ROLE_WORKER
                                           : PRN_ROLE_USER;
    int code = prn_tokens_add(tokens, options->user, role, token, err);
    if (code < 0)
        return code;
    prn_buffer_printf(out, "%s\n", token);
    OPENSSL_cleanse(token, sizeof token);
    return 0;
}

static int command_revoke(struct prn_tokens *tokens, const struct prn_token_options *options,
                          struct prn_buffer *out, struct prony_error *err)
{
    size_t n = 0;
    int code = prn_tokens_revoke(tokens, options->user, &n, err);
    if (code == 0)
        prn_buffer_printf(out, "revoked %zu token%s of '%s'\n", n, n == 1 ? "" : "s",
                          options->user);
    return code;
}

/* What can be known to be wrong before the state is touched. */
static int check_command(const struct prn_token_options *options, struct prony_error *err)
{
    const char *action = options->action ? options->action : "";
    bool lists = strcmp(action, "list") == 0;
    if (!lists && strcmp(action, "add") != 0 && strcmp(action, "revoke") != 0)
        return prn_fail(err, PRONY_EUSAGE, "unknown action '%s': add, list or revoke", action);
    if (!lists && (!options->user || !*options->user))
        return prn_fail(err, PRONY_EUSAGE, "'token %s' needs the name of a user", action);
    if (options->admin && options->worker)
        return prn_fail(err, PRONY_EUSAGE, "a token is an administrator's or a worker's, not both");
    return 0;
}

int prn_token_command(const struct prn_token_options *options, struct prn_buffer *out,
                      struct prony_error *err)
{
    struct prn_state *state = NULL;
    struct prn_tokens *tokens = NULL;
    int code = check_command(options, err);
    if (code == 0)
        code = prn_state_open(options->state_folder, false, &state, err);
    if (code == 0)
        code = prn_tokens_new(state, &tokens, err);
    if (code == 0)
        code = options->action[0] == 'a'   ? command_add(tokens, options, out, err)
               : options->action[0] == 'l' ? prn_tokens_list(tokens, out, err)
                                           : command_revoke(tokens, options, out, err);
    prn_tokens_free(tokens);
    prn_state_close(state);
    return code < 0 ? code : prn_buffer_error(out, err);
}
