#include "service_unit.h"

#include "service/store/tokens.h"

#include <ctype.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/wait.h>

static struct prn_state *open_state(const struct unit_folder *folder)
{
    struct prn_state *s = NULL;
    assert_done(prn_state_open(folder->path, false, &s, err));
    return s;
}

static void makes_the_folder_and_checks_it(void **state)
{
    const struct unit_folder *folder = *state;
    char path[128];
    struct stat st;
    struct prn_state *s = NULL;
    snprintf(path, sizeof path, "%s/one/two/", folder->path);
    assert_done(prn_state_open(path, false, &s, err));
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    assert_int_equal(fstatat(prn_state_fd(s), "state.db", &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    prn_state_close(s);
    assert_int_equal(chmod(path, 0750), 0);
    assert_refused(prn_state_open(path, false, &s, err), PRONY_EDENIED, "chmod 700");
    assert_int_equal(chmod(path, 0700), 0);
    snprintf(path, sizeof path, "%s/file", folder->path);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_refused(prn_state_open(path, false, &s, err), PRONY_EIO, "file'");
    assert_refused(prn_state_open("", false, &s, err), PRONY_EUSAGE, "not a folder name");
}

static void finds_the_users_own_folder(void **state)
{
    const struct unit_folder *folder = *state;
    struct prn_state *s = NULL;
    char expected[128];
    setenv("XDG_STATE_HOME", folder->path, 1);
    assert_done(prn_state_open(NULL, false, &s, err));
    snprintf(expected, sizeof expected, "%s/prony", folder->path);
    assert_string_equal(prn_state_folder(s), expected);
    prn_state_close(s);
    unsetenv("XDG_STATE_HOME");
    setenv("HOME", folder->path, 1);
    assert_done(prn_state_open(NULL, false, &s, err));
    snprintf(expected, sizeof expected, "%s/.local/state/prony", folder->path);
    assert_string_equal(prn_state_folder(s), expected);
    prn_state_close(s);
    unsetenv("HOME");
    assert_refused(prn_state_open(NULL, false, &s, err), PRONY_EUSAGE, "HOME");
}

static void lets_one_service_in(void **state)
{
    const struct unit_folder *folder = *state;
    struct prn_state *first = NULL, *second = NULL;
    assert_done(prn_state_open(folder->path, true, &first, err));
    assert_refused(prn_state_open(folder->path, true, &second, err), PRONY_EUNAVAILABLE,
                   "another 'prony serve'");
    assert_done(prn_state_open(folder->path, false, &second, err));
    prn_state_close(second);
    prn_state_close(first);
    assert_done(prn_state_open(folder->path, true, &first, err));
    prn_state_close(first);
}

static void refuses_other_databases(void **state)
{
    const struct unit_folder *folder = *state;
    struct prn_state *s = open_state(folder);
    sqlite3 *db = NULL;
    assert_done(prn_state_connect(s, true, &db, err));
    assert_done(prn_db_exec(db, "PRAGMA user_version = 99", err));
    prn_state_close(s);
    assert_refused(prn_state_open(folder->path, false, &s, err), PRONY_EUNSUPPORTED, "newer prony");
    assert_done(prn_db_exec(db, "PRAGMA user_version = 1; PRAGMA application_id = 7", err));
    assert_refused(prn_state_open(folder->path, false, &s, err), PRONY_EFORMAT, "not prony's");
    sqlite3_close(db);
    int fd = openat(folder->fd, "state.db", O_WRONLY | O_TRUNC);
    assert_int_equal(write(fd, "this is no database at all, but a long enough text.....", 55), 55);
    close(fd);
    assert_refused(prn_state_open(folder->path, false, &s, err), PRONY_EIO, "not a database");
}

static void opens_at_once_from_many_processes(void **state)
{
    const struct unit_folder *folder = *state;
    pid_t children[8];
    for (size_t i = 0; i < PRN_ARRAY_SIZE(children); i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            struct prn_state *s = NULL;
            struct prn_tokens *t = NULL;
            char token[PRN_TOKEN_SIZE];
            int code = prn_state_open(folder->path, false, &s, NULL);
            code = code < 0 ? code : prn_tokens_new(s, &t, NULL);
            code = code < 0 ? code : prn_tokens_add(t, "ann", PRN_ROLE_USER, token, NULL);
            _exit(code < 0);
        }
    }
    for (size_t i = 0; i < PRN_ARRAY_SIZE(children); i++) {
        int status = -1;
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_int_equal(status, 0);
    }
    struct prn_state *s = open_state(folder);
    struct prn_tokens *t = NULL;
    assert_done(prn_tokens_new(s, &t, err));
    assert_int_equal(prn_tokens_count(t), PRN_ARRAY_SIZE(children));
    prn_tokens_free(t);
    prn_state_close(s);
}

static void knows_its_tokens_and_no_others(void **state)
{
    struct prn_state *s = open_state(*state);
    struct prn_tokens *t = NULL;
    assert_done(prn_tokens_new(s, &t, err));
    char ann[PRN_TOKEN_SIZE], bob[PRN_TOKEN_SIZE], changed[PRN_TOKEN_SIZE + 1];
    assert_done(prn_tokens_add(t, "ann", PRN_ROLE_USER, ann, err));
    assert_done(prn_tokens_add(t, "bob@site.example", PRN_ROLE_ADMIN, bob, err));
    assert_int_equal(strlen(ann), PRN_TOKEN_SIZE - 1);
    assert_memory_equal(ann, "prony_", 6);
    assert_string_not_equal(ann, bob);
    struct prn_identity who;
    assert_done(prn_tokens_check(t, ann, &who, err));
    assert_string_equal(who.user, "ann");
    assert_int_equal(who.role, PRN_ROLE_USER);
    assert_done(prn_tokens_check(t, bob, &who, err));
    assert_string_equal(who.user, "bob@site.example");
    assert_int_equal(who.role, PRN_ROLE_ADMIN);

    for (size_t i = 0; i < PRN_TOKEN_SIZE - 1; i++) { /* one letter in the other case, or another */
        memcpy(changed, ann, sizeof ann);
        changed[i] = (char)(isupper((unsigned char)ann[i])   ? tolower(ann[i])
                            : islower((unsigned char)ann[i]) ? toupper(ann[i])
                                                             : ann[i] ^ 1);
        assert_refused(prn_tokens_check(t, changed, &who, err), PRONY_EDENIED, "isn't valid here");
        memcpy(changed, ann, i);
        changed[i] = '\0';
        assert_int_equal(prn_tokens_check(t, changed, &who, NULL), PRONY_EDENIED);
    }
    snprintf(changed, sizeof changed, "%sx", ann);
    assert_int_equal(prn_tokens_check(t, changed, &who, NULL), PRONY_EDENIED);
    char large[10241];
    memset(large, 'A', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    memcpy(large, ann, strlen(ann));
    assert_int_equal(prn_tokens_check(t, large, &who, NULL), PRONY_EDENIED);
    assert_int_equal(prn_tokens_check(t, NULL, &who, NULL), PRONY_EDENIED);
    assert_string_equal(who.user, "bob@site.example"); /* untouched by all of that */
    prn_tokens_free(t);
    prn_state_close(s);
}

static void revokes_at_once_also_from_elsewhere(void **state)
{
    struct prn_state *s = open_state(*state), *cli = open_state(*state);
    struct prn_tokens *service = NULL, *other = NULL;
    assert_done(prn_tokens_new(s, &service, err));
    assert_done(prn_tokens_new(cli, &other, err));
    char first[PRN_TOKEN_SIZE], second[PRN_TOKEN_SIZE], bob[PRN_TOKEN_SIZE];
    assert_done(prn_tokens_add(other, "ann", PRN_ROLE_USER, first, err));
    assert_done(prn_tokens_add(other, "ann", PRN_ROLE_WORKER, second, err));
    assert_done(prn_tokens_add(service, "bob", PRN_ROLE_USER, bob, err));
    struct prn_identity who;
    assert_done(prn_tokens_check(service, first, &who, err));
    assert_done(prn_tokens_check(service, second, &who, err));
    assert_int_equal(who.role, PRN_ROLE_WORKER);
    assert_done(prn_tokens_check(other, bob, &who, err));
    size_t n = 0;
    assert_done(prn_tokens_revoke(other, "ann", &n, err));
    assert_int_equal(n, 2);
    assert_int_equal(prn_tokens_check(service, first, &who, NULL), PRONY_EDENIED);
    assert_int_equal(prn_tokens_check(service, second, &who, NULL), PRONY_EDENIED);
    assert_done(prn_tokens_check(service, bob, &who, err));
    assert_refused(prn_tokens_revoke(other, "ann", &n, err), PRONY_ENOENT, "no token of 'ann'");
    prn_tokens_free(other);
    prn_state_close(cli);
    prn_tokens_free(service);
    prn_state_close(s);
}

static void refuses_names_of_users(void **state)
{
    struct prn_state *s = open_state(*state);
    struct prn_tokens *t = NULL;
    assert_done(prn_tokens_new(s, &t, err));
    char token[PRN_TOKEN_SIZE], name[66];
    static const char *const bad[] = {"", " ", "-x", ".x", "a b", "a/b", "a\n", "gr\xc3\xb6", NULL};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(bad); i++)
        assert_refused(prn_tokens_add(t, bad[i], PRN_ROLE_USER, token, err), PRONY_EUSAGE,
                       "not a valid user name");
    memset(name, 'n', sizeof name);
    name[65] = '\0';
    assert_int_equal(prn_tokens_add(t, name, PRN_ROLE_USER, token, NULL), PRONY_EUSAGE);
    name[64] = '\0';
    assert_done(prn_tokens_add(t, name, PRN_ROLE_USER, token, err));
    prn_tokens_free(t);
    prn_state_close(s);
}

static void commands_say_what_they_did(void **state)
{
    const struct unit_folder *folder = *state;
    struct prn_token_options o = {.action = "list", .state_folder = folder->path};
    struct prn_buffer out = PRN_BUFFER_INIT(1 << 16);
    assert_done(prn_token_command(&o, &out, err));
    assert_contains(prn_buffer_text(&out), "no tokens; 'prony token add USER'");
    prn_buffer_clear(&out);
    o = (struct prn_token_options){
        .action = "add", .user = "ann", .worker = true, .state_folder = folder->path};
    assert_done(prn_token_command(&o, &out, err));
    assert_int_equal(out.len, PRN_TOKEN_SIZE); /* the token and a newline */
    char token[PRN_TOKEN_SIZE];
    snprintf(token, sizeof token, "%s", out.data);
    prn_buffer_clear(&out);

    struct prn_state *s = open_state(folder);
    struct prn_tokens *t = NULL;
    struct prn_identity who;
    assert_done(prn_tokens_new(s, &t, err));
    o.action = "list";
    assert_done(prn_token_command(&o, &out, err));
    assert_contains(prn_buffer_text(&out), "ann   worker  ");
    assert_contains(prn_buffer_text(&out), "never");
    assert_null(strstr(out.data, "prony_"));
    assert_done(prn_tokens_check(t, token, &who, err));
    prn_tokens_flush(t);
    prn_buffer_clear(&out);
    assert_done(prn_token_command(&o, &out, err));
    assert_null(strstr(out.data, "never"));

    char id[9];
    snprintf(id, sizeof id, "%.8s", strstr(out.data, "worker  ") + strlen("worker  "));
    prn_buffer_clear(&out);
    o.action = "revoke";
    o.user = id;
    assert_done(prn_token_command(&o, &out, err));
    assert_contains(prn_buffer_text(&out), "revoked 1 token of");
    assert_int_equal(prn_tokens_check(t, token, &who, NULL), PRONY_EDENIED);
    o.user = NULL;
    assert_refused(prn_token_command(&o, &out, err), PRONY_EUSAGE, "needs the name");
    o.action = "drop";
    assert_refused(prn_token_command(&o, &out, err), PRONY_EUSAGE, "unknown action 'drop'");
    o = (struct prn_token_options){.action = "add", .user = "x", .admin = true, .worker = true};
    assert_refused(prn_token_command(&o, &out, err), PRONY_EUSAGE, "not both");
    prn_tokens_free(t);
    prn_state_close(s);
    prn_buffer_release(&out);
}

static void reads_headers(void **state)
{
    (void)state;
    assert_string_equal(prn_token_of_header("Bearer abc"), "abc");
    assert_string_equal(prn_token_of_header("bearer  abc"), "abc");
    assert_string_equal(prn_token_of_header("Bearer "), "");
    assert_null(prn_token_of_header("Bearer"));
    assert_null(prn_token_of_header("Basic abc"));
    assert_null(prn_token_of_header(""));
    assert_null(prn_token_of_header(NULL));
}

static void forgets_nobody_without_the_database(void **state)
{
    struct prn_state *s = open_state(*state);
    struct prn_tokens *t = NULL;
    sqlite3 *db = NULL;
    char token[PRN_TOKEN_SIZE];
    struct prn_identity who;
    assert_done(prn_tokens_new(s, &t, err));
    assert_done(prn_tokens_add(t, "ann", PRN_ROLE_USER, token, err));
    assert_done(prn_state_connect(s, true, &db, err));
    assert_done(prn_db_exec(db, "DROP TABLE generations", err));
    sqlite3_close(db);
    /* What can't be read lets nobody in, and has no other effect. */
    assert_refused(prn_tokens_check(t, token, &who, err), PRONY_EIO, "cannot use the database");
    prn_tokens_free(t);
    prn_state_close(s);
}

struct checking {
    struct prn_tokens *tokens;
    const char *token;
    int stop;
    int failed;
};

static void *check_often(void *context)
{
    struct checking *c = context;
    struct prn_identity who;
    while (!__atomic_load_n(&c->stop, __ATOMIC_RELAXED))
        if (prn_tokens_check(c->tokens, c->token, &who, NULL) != 0 || strcmp(who.user, "ann") != 0)
            __atomic_store_n(&c->failed, 1, __ATOMIC_RELAXED);
    return NULL;
}

static void checks_while_others_come_and_go(void **state)
{
    struct prn_state *s = open_state(*state);
    struct prn_tokens *t = NULL, *other = NULL;
    char token[PRN_TOKEN_SIZE], more[PRN_TOKEN_SIZE];
    assert_done(prn_tokens_new(s, &t, err));
    assert_done(prn_tokens_new(s, &other, err));
    assert_done(prn_tokens_add(t, "ann", PRN_ROLE_USER, token, err));
    struct checking c = {.tokens = t, .token = token};
    pthread_t threads[4];
    for (size_t i = 0; i < PRN_ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, check_often, &c), 0);
    for (int i = 0; i < 30; i++) {
        size_t n = 0;
        assert_done(prn_tokens_add(other, "bob", PRN_ROLE_USER, more, err));
        prn_tokens_flush(t);
        assert_done(prn_tokens_revoke(other, "bob", &n, err));
    }
    __atomic_store_n(&c.stop, 1, __ATOMIC_RELAXED);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(threads); i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(c.failed, 0);
    prn_tokens_free(other);
    prn_tokens_free(t);
    prn_state_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        unit_test_in_folder(makes_the_folder_and_checks_it),
        unit_test_in_folder(finds_the_users_own_folder),
        unit_test_in_folder(lets_one_service_in),
        unit_test_in_folder(refuses_other_databases),
        unit_test_in_folder(opens_at_once_from_many_processes),
        unit_test_in_folder(knows_its_tokens_and_no_others),
        unit_test_in_folder(revokes_at_once_also_from_elsewhere),
        unit_test_in_folder(refuses_names_of_users),
        unit_test_in_folder(commands_say_what_they_did),
        cmocka_unit_test(reads_headers),
        unit_test_in_folder(forgets_nobody_without_the_database),
        unit_test_in_folder(checks_while_others_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
