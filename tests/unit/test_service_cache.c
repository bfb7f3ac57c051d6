/* What compilers made, kept for one user. */
#include "instance/cache.h"

#include "unit.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

static char folder[PATH_MAX];

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/prony-cache-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    char command[PATH_MAX + 16];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static int file_of(const char *name, size_t bytes)
{
    char path[PATH_MAX + 64];
    char *data = calloc(1, bytes + 1);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    assert_int_equal(write(fd, data, bytes), bytes);
    free(data);
    return fd;
}

static void in_cache(const char *name, char ret_path[PATH_MAX])
{
    snprintf(ret_path, PATH_MAX, "%.3000s/", folder);
    for (size_t i = 0; i < 64; i++)
        strcat(ret_path, name);
}

static void a_folder_is_its_users_alone(void **state)
{
    (void)state;
    char found[PATH_MAX];
    char place[PATH_MAX + 16];
    struct stat status;
    snprintf(place, sizeof place, "%s/a/b", folder);
    setenv("PRONY_CACHE", place, 1);
    assert_true(prn_cache_folder(found));
    assert_string_equal(found, place);
    assert_int_equal(stat(place, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    chmod(place, 0750);
    assert_false(prn_cache_folder(found));
    chmod(place, 0700);
    char link[PATH_MAX + 16];
    snprintf(link, sizeof link, "%s/link", folder);
    assert_int_equal(symlink(place, link), 0);
    setenv("PRONY_CACHE", link, 1);
    assert_false(prn_cache_folder(found)); /* nor where somebody else leads it */
    setenv("PRONY_CACHE", "", 1);
    assert_false(prn_cache_folder(found));
    unsetenv("PRONY_CACHE");
    setenv("XDG_CACHE_HOME", folder, 1);
    assert_true(prn_cache_folder(found));
    assert_contains(found, "/prony/compiled");
    unsetenv("XDG_CACHE_HOME");
}

static void names_tell_models_and_backends_apart(void **state)
{
    (void)state;
    char names[5][PATH_MAX];
    char first[PATH_MAX + 16];
    char second[PATH_MAX + 16];
    const struct prn_spec_option bf16 = {"bf16", "on"};
    struct prn_runtime_config config = {.software = "torch-inductor-cpu"};
    struct prn_runtime_config other = config;
    other.options = &bf16;
    other.n_options = 1;
    snprintf(first, sizeof first, "%s/first", folder);
    snprintf(second, sizeof second, "%s/second", folder);
    close(file_of("first", 10));
    close(file_of("second", 11));
    assert_true(prn_cache_path("/c", &config, "PyTorch 1", first, names[0]));
    assert_true(prn_cache_path("/c", &config, "PyTorch 1", second, names[1]));
    assert_true(prn_cache_path("/c", &config, "PyTorch 2", first, names[2]));
    assert_true(prn_cache_path("/c", &other, "PyTorch 1", first, names[3]));
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(names[i], names[k]);
    assert_true(prn_cache_path("/c", &config, "PyTorch 1", first, names[4]));
    assert_string_equal(names[4], names[0]);
    assert_int_equal(strlen(names[0]), strlen("/c/") + 64);
    assert_false(prn_cache_path("/c", &config, "PyTorch 1", "/nowhere", names[4]));
}

static void those_used_longest_ago_go(void **state)
{
    (void)state;
    char paths[3][PATH_MAX];
    int fd = file_of("made", 1000);
    for (size_t i = 0; i < 3; i++)
        in_cache((const char *[]){"a", "b", "c"}[i], paths[i]);
    prn_cache_keep(paths[0], fd, 2500);
    prn_cache_keep(paths[1], fd, 2500);
    const struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    const struct timespec longer_ago[2] = {{.tv_sec = 0}, {.tv_sec = 0}};
    utimensat(AT_FDCWD, paths[0], longer_ago, 0);
    utimensat(AT_FDCWD, paths[1], long_ago, 0);
    prn_cache_touch(paths[0]);
    prn_cache_keep(paths[2], fd, 2500);
    close(fd);
    assert_int_equal(access(paths[0], F_OK), 0);
    assert_int_not_equal(access(paths[1], F_OK), 0);
    struct stat status;
    assert_int_equal(stat(paths[2], &status), 0);
    assert_int_equal(status.st_size, 1000);
    assert_int_equal(status.st_mode & 0777, 0600);
}

/* Whoever hands it over isn't trusted. */
static void what_is_no_file_is_not_kept(void **state)
{
    (void)state;
    char path[PATH_MAX];
    int pipes[2];
    in_cache("d", path);
    assert_int_equal(pipe(pipes), 0);
    prn_cache_keep(path, pipes[0], 1 << 20);
    int empty = file_of("empty", 0);
    prn_cache_keep(path, empty, 1 << 20);
    int large = file_of("large", 1);
    assert_int_equal(ftruncate(large, PRN_CACHE_FILE_BYTES_MAX + 1), 0);
    prn_cache_keep(path, large, 1 << 20);
    assert_int_not_equal(access(path, F_OK), 0);
    close(pipes[0]);
    close(pipes[1]);
    close(empty);
    close(large);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_folder_is_its_users_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(names_tell_models_and_backends_apart, set_up, tear_down),
        cmocka_unit_test_setup_teardown(those_used_longest_ago_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_is_no_file_is_not_kept, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
