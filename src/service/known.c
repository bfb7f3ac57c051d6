/*
 * What a pool's hardware offers while none of its workers is connected: what they offered when they
 * last were. It is in the state, so that it is known after a restart, too. Only texts that workers
 * told are kept, and only the newest of each hardware.
 */
#include "service/host/host.h"

#include "service/pool.h"
#include "service/store/state.h"

#include <stdlib.h>
#include <string.h>

struct known {
    Prony__Hello *hello; /* its hardware, processor and software, and nothing else */
    struct known *next;
};

struct prn_known_hardware {
    struct known *first PRN_LOCKED;
    struct prn_job_line line; /* of those that write */
    sqlite3 *db;              /* theirs */
    sqlite3_stmt *put;
};

/* ---- The state ---- */

static int read_rows(struct prn_known_hardware *known, struct prony_error *err) PRN_ALONE
{
    sqlite3_stmt *s = NULL;
    int step = 0;
    int code = prn_db_prepare(known->db, "SELECT hello FROM known_hardware", &s, err);
    while (code == 0 && (step = sqlite3_step(s)) == SQLITE_ROW) {
        size_t bytes = (size_t)sqlite3_column_bytes(s, 0);
        Prony__Hello *hello = prony__hello__unpack(NULL, bytes, sqlite3_column_blob(s, 0));
        struct known *one = hello ? calloc(1, sizeof *one) : NULL;
        if (!hello)
            continue; /* not of this prony: its workers will tell again */
        if (!one) {
            prony__hello__free_unpacked(hello, NULL);
            code = prn_fail_memory(err);
            break;
        }
        *one = (struct known){hello, known->first};
        known->first = one;
    }
    if (code == 0 && step != SQLITE_DONE)
        code = prn_db_fail(known->db, err);
    sqlite3_finalize(s);
    return code;
}

int prn_known_open(struct prn_service *s, struct prony_error *err)
{
    struct prn_known_hardware *known = s->known = calloc(1, sizeof *known);
    if (!known)
        return prn_fail_memory(err);
    int code = prn_state_connect(s->state, false, &known->db, err);
    if (code == 0)
        code = prn_db_prepare(known->db, "INSERT OR REPLACE INTO known_hardware VALUES (?, ?)",
                              &known->put, err);
    return code < 0 ? code : read_rows(known, err);
}

void prn_known_close(struct prn_service *s)
{
    struct prn_known_hardware *known = s->known;
    if (!known)
        return;
    while (known->first) {
        struct known *one = known->first;
        known->first = one->next;
        prony__hello__free_unpacked(one->hello, NULL);
        free(one);
    }
    sqlite3_finalize(known->put);
    sqlite3_close(known->db);
    free(known);
}

struct save {
    struct prn_pool_job job;
    struct prn_service *service;
    Prony__Hello *hello; /* its hardware */
    size_t n;
    uint8_t bytes[];
};

static void run_save(struct prn_pool_job *job)
{
    struct save *save = (struct save *)job;
    struct prn_known_hardware *known = save->service->known;
    struct prony_error err;
    sqlite3_bind_text(known->put, 1, save->hello->hardware, -1, SQLITE_STATIC);
    sqlite3_bind_blob(known->put, 2, save->bytes, (int)save->n, SQLITE_STATIC);
    if (prn_db_run(known->db, known->put, &err) < 0)
        PRN_LOG(save->service->log, PRN_LOG_ERROR, "hardware", PRN_LOG_TEXT("error", err.text));
}

static void save_over(struct prn_pool_job *job)
{
    struct save *save = (struct save *)job;
    prony__hello__free_unpacked(save->hello, NULL);
    free(save);
}

/* ---- Learning ---- */

static struct known **find_locked(const struct prn_service *s, const char *hardware)
    PRN_HOLDS(prn_service)
{
    struct known **at = &s->known->first;
    while (*at && strcmp((*at)->hello->hardware, hardware) != 0)
        at = &(*at)->next;
    return at;
}

const Prony__Hello *prn_known_find_locked(const struct prn_service *s, const char *hardware)
{
    const struct known *one = *find_locked(s, hardware);
    return one ? one->hello : NULL;
}

static void add_software(Prony__Hello *all, Prony__Software *software)
{
    for (size_t i = 0; i < all->n_software; i++)
        if (strcmp(all->software[i]->name, software->name) == 0)
            return;
    all->software[all->n_software++] = software;
}

/* What all workers of the hardware have that are connected. */
static int gather_locked(const struct prn_service *s, const Prony__Hello *newest, Prony__Hello *all)
    PRN_HOLDS(prn_service)
{
    size_t most = 0;
    for (const struct prn_host *host = s->hosts; host; host = host->next)
        most += host->hello ? host->hello->n_software : 0;
    all->hardware = newest->hardware;
    all->processor = newest->processor;
    all->software = reallocarray(NULL, most + 1, sizeof(Prony__Software *));
    if (!all->software)
        return PRONY_ENOMEM;
    for (const struct prn_host *host = s->hosts; host; host = host->next)
        for (size_t i = 0; host->hello && i < host->hello->n_software; i++)
            if (strcmp(host->hello->hardware, newest->hardware) == 0)
                add_software(all, host->hello->software[i]);
    return 0;
}

/* Two copies of what was gathered: one to know, one to save. */
static struct save *new_save(struct prn_service *s, const Prony__Hello *all,
                             Prony__Hello **ret_hello)
{
    size_t n = prony__hello__get_packed_size(all);
    struct save *save = calloc(1, sizeof *save + n);
    if (!save)
        return NULL;
    save->job = (struct prn_pool_job){.run = run_save, .over = save_over};
    save->service = s;
    save->n = prony__hello__pack(all, save->bytes);
    save->hello = prony__hello__unpack(NULL, n, save->bytes);
    *ret_hello = prony__hello__unpack(NULL, n, save->bytes);
    if (save->hello && *ret_hello)
        return save;
    prony__hello__free_unpacked(*ret_hello, NULL);
    save_over(&save->job);
    return NULL;
}

static bool is_known(const struct known *one, const struct save *save)
{
    size_t n = one ? prony__hello__get_packed_size(one->hello) : 0;
    uint8_t *bytes = n > 0 && n == save->n ? malloc(n) : NULL;
    bool same =
        bytes && prony__hello__pack(one->hello, bytes) == n && memcmp(bytes, save->bytes, n) == 0;
    free(bytes);
    return same;
}

void prn_known_learn_locked(struct prn_service *s, const Prony__Hello *newest)
{
    Prony__Hello all = PRONY__HELLO__INIT;
    Prony__Hello *hello = NULL;
    struct save *save = NULL;
    if (gather_locked(s, newest, &all) == 0)
        save = new_save(s, &all, &hello);
    free(all.software);
    if (!save)
        return; /* without memory it stays unknown */
    struct known **at = find_locked(s, newest->hardware);
    bool known = is_known(*at, save);
    if (!known && !*at)
        *at = calloc(1, sizeof **at);
    if (known || !*at) {
        prony__hello__free_unpacked(hello, NULL);
        save_over(&save->job);
        return;
    }
    if ((*at)->hello)
        prony__hello__free_unpacked((*at)->hello, NULL);
    (*at)->hello = hello;
    prn_pool_add(s->pool, &s->known->line, &save->job);
}
