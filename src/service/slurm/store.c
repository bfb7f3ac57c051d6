#include "service/slurm/store.h"

#include "service/slurm/command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { PUT, FORGET, READ, NAME, ID, N_STATEMENTS };

static const char *const sql[N_STATEMENTS] = {
    [PUT] = "INSERT OR REPLACE INTO slurm_jobs VALUES (?, ?, ?, ?, ?)",
    [FORGET] = "DELETE FROM slurm_jobs WHERE job = ?",
    [READ] = "SELECT job, hardware, label, key, token FROM slurm_jobs ORDER BY job",
    [NAME] = "INSERT OR IGNORE INTO slurm_service (one, id) VALUES (1, ?)",
    [ID] = "SELECT id FROM slurm_service",
};

struct prn_slurm_store {
    sqlite3 *db;
    sqlite3_stmt *statements[N_STATEMENTS];
    char id[PRN_SLURM_ID_DIGITS + 1];
};

static int find_id(struct prn_slurm_store *store, struct prony_error *err)
{
    uint32_t number;
    char text[PRN_SLURM_ID_DIGITS + 1];
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        return prn_fail(err, PRONY_EIO, "cannot get random bytes");
    snprintf(text, sizeof text, "%08x", number);
    sqlite3_bind_text(store->statements[NAME], 1, text, -1, SQLITE_STATIC);
    int code = prn_db_run(store->db, store->statements[NAME], err);
    if (code < 0)
        return code;
    sqlite3_stmt *s = store->statements[ID];
    const char *id = NULL;
    if (sqlite3_step(s) == SQLITE_ROW)
        id = (const char *)sqlite3_column_text(s, 0);
    if (id && strlen(id) == PRN_SLURM_ID_DIGITS)
        memcpy(store->id, id, sizeof store->id);
    else
        code = prn_db_fail(store->db, err);
    sqlite3_reset(s);
    return code;
}

int prn_slurm_store_open(const struct prn_state *state, struct prn_slurm_store **ret_store,
                         struct prony_error *err)
{
    struct prn_slurm_store *store = calloc(1, sizeof *store);
    if (!store)
        return prn_fail_memory(err);
    int code = prn_state_connect(state, true, &store->db, err);
    for (size_t i = 0; code == 0 && i < N_STATEMENTS; i++)
        code = prn_db_prepare(store->db, sql[i], &store->statements[i], err);
    if (code == 0)
        code = find_id(store, err);
    if (code < 0)
        prn_slurm_store_close(store);
    else
        *ret_store = store;
    return code;
}

void prn_slurm_store_close(struct prn_slurm_store *store)
{
    if (!store)
        return;
    for (size_t i = 0; i < N_STATEMENTS; i++)
        sqlite3_finalize(store->statements[i]);
    sqlite3_close(store->db);
    free(store);
}

const char *prn_slurm_store_id(const struct prn_slurm_store *store)
{
    return store->id;
}

static void bind_hash(sqlite3_stmt *s, int index, bool there, const uint8_t *hash)
{
    if (there)
        sqlite3_bind_blob(s, index, hash, PRN_TOKEN_HASH_BYTES, SQLITE_STATIC);
    else
        sqlite3_bind_null(s, index);
}

int prn_slurm_store_put(struct prn_slurm_store *store, const struct prn_slurm_stored *stored,
                        struct prony_error *err)
{
    sqlite3_stmt *s = store->statements[PUT];
    sqlite3_bind_int64(s, 1, (sqlite3_int64)stored->job);
    sqlite3_bind_text(s, 2, stored->hardware, -1, SQLITE_STATIC);
    sqlite3_bind_text(s, 3, stored->label, -1, SQLITE_STATIC);
    bind_hash(s, 4, stored->has_key, stored->key);
    bind_hash(s, 5, stored->has_token, stored->token);
    return prn_db_run(store->db, s, err);
}

int prn_slurm_store_forget(struct prn_slurm_store *store, uint64_t job, struct prony_error *err)
{
    sqlite3_bind_int64(store->statements[FORGET], 1, (sqlite3_int64)job);
    return prn_db_run(store->db, store->statements[FORGET], err);
}

static bool column_hash(sqlite3_stmt *s, int column, uint8_t *hash)
{
    const void *blob = sqlite3_column_blob(s, column);
    if (!blob || sqlite3_column_bytes(s, column) != PRN_TOKEN_HASH_BYTES)
        return false;
    memcpy(hash, blob, PRN_TOKEN_HASH_BYTES);
    return true;
}

int prn_slurm_store_read(struct prn_slurm_store *store,
                         int (*each)(void *context, const struct prn_slurm_stored *stored,
                                     struct prony_error *err),
                         void *context, struct prony_error *err)
{
    sqlite3_stmt *s = store->statements[READ];
    int code = 0;
    while (prn_db_next(store->db, s, &code, err)) {
        struct prn_slurm_stored stored = {
            .job = (uint64_t)sqlite3_column_int64(s, 0),
            .hardware = (const char *)sqlite3_column_text(s, 1),
            .label = (const char *)sqlite3_column_text(s, 2),
        };
        stored.has_key = column_hash(s, 3, stored.key);
        stored.has_token = column_hash(s, 4, stored.token);
        if (stored.hardware && stored.label)
            code = each(context, &stored, err);
    }
    sqlite3_reset(s);
    return code;
}
