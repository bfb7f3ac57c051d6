/* Where the libraries of Python packages are looked for, in trees laid out as Python's tools do it.
 */
#include "unit.h"

#include "runtime/site.h"

#include "exec/scratch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

static struct prn_scratch scratch;
static char root[PATH_MAX]; /* its folder, as links resolve to it */

/* A path below the scratch folder, good for a few calls more. */
static const char *at(const char *name)
{
    static char paths[8][PATH_MAX + 256];
    static size_t turn;
    char *path = paths[turn++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", root, name);
    return path;
}

static void make_folders(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof folder, "%s", path);
    for (char *slash = strchr(folder + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(folder, 0700);
        *slash = '/';
    }
}

static void put(const char *name, const char *text)
{
    make_folders(at(name));
    FILE *file = fopen(at(name), "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    assert_int_equal(chmod(at(name), 0700), 0);
}

static void put_library(const char *site)
{
    char name[PATH_MAX];
    snprintf(name, sizeof name, "%s/onnxruntime/capi/libonnxruntime.so.1.31.1", site);
    put(name, "");
}

struct seen {
    char paths[8][PATH_MAX];
    const char *origins[8];
    size_t n;
};

static bool see(void *context, const char *path, const char *origin)
{
    struct seen *seen = context;
    assert_true(seen->n < 8);
    snprintf(seen->paths[seen->n], PATH_MAX, "%s", path + strlen(root) + 1);
    seen->origins[seen->n++] = origin;
    return false;
}

static bool take(void *context, const char *path, const char *origin)
{
    see(context, path, origin);
    return true;
}

static const struct prn_site_file file = {"onnxruntime/capi", "libonnxruntime.so"};

/* All that is found, in order, as "origin path" with everything behind site-packages left out. */
static void expect(const char *const *expected)
{
    struct seen seen = {.n = 0};
    assert_false(prn_site_search(&file, see, &seen));
    for (size_t i = 0; i < seen.n; i++) {
        char shown[PATH_MAX + 64];
        char *end = strstr(seen.paths[i], "/onnxruntime/capi/");
        if (end)
            *end = '\0';
        snprintf(shown, sizeof shown, "%s: %s", seen.origins[i], seen.paths[i]);
        assert_non_null(expected[i]);
        assert_string_equal(shown, expected[i]);
    }
    assert_null(expected[seen.n]);
}

#define EXPECT(...) expect((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static int setup(void **state)
{
    (void)state;
    static const char *const variables[] = {"VIRTUAL_ENV",   "CONDA_PREFIX",   "PATH",
                                            "PYENV_VERSION", "PYTHONUSERBASE", "HOME"};
    struct prony_error err;
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++)
        unsetenv(variables[i]);
    if (prn_scratch_open(NULL, &scratch, &err) < 0 || !realpath(scratch.folder, root))
        return -1;
    return chdir(root); /* no .python-version of somebody else's */
}

static int teardown(void **state)
{
    (void)state;
    int code = chdir("/");
    prn_scratch_close(&scratch);
    return code;
}

static void nothing_without_environment(void **state)
{
    (void)state;
    EXPECT();
    setenv("PATH", "", 1);
    EXPECT();
}

static void virtual_environment(void **state)
{
    (void)state;
    put_library("venv/lib/python3.12/site-packages");
    setenv("VIRTUAL_ENV", at("venv"), 1);
    EXPECT("VIRTUAL_ENV: venv/lib/python3.12/site-packages");
    setenv("VIRTUAL_ENV", "venv", 1); /* of whatever folder this is */
    EXPECT();
}

static void newest_file_is_taken(void **state)
{
    (void)state;
    struct seen seen = {.n = 0};
    put("venv/lib/python3.9/site-packages/onnxruntime/capi/libonnxruntime.so.1.40.0", "");
    put("venv/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.9.0", "");
    put("venv/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime.so.1.24.0", "");
    put("venv/lib/python3.12/site-packages/onnxruntime/capi/libonnxruntime_providers_shared.so",
        "");
    setenv("VIRTUAL_ENV", at("venv"), 1);
    assert_true(prn_site_search(&file, take, &seen));
    assert_string_equal(seen.paths[0], "venv/lib/python3.12/site-packages/onnxruntime/capi/"
                                       "libonnxruntime.so.1.24.0");
}

static void virtual_environment_with_system_packages(void **state)
{
    (void)state;
    char config[PATH_MAX + 512];
    static const char form[] = "home = %s\ninclude-system-site-packages = %s\nversion = 3.12.1\n";
    snprintf(config, sizeof config, form, at("base/bin"), "true");
    put("venv/pyvenv.cfg", config);
    put("base/bin/python3.12", "");
    assert_int_equal(symlink("python3.12", at("base/bin/python3")), 0);
    put_library("base/lib/python3.12/site-packages");
    setenv("VIRTUAL_ENV", at("venv"), 1);
    EXPECT("VIRTUAL_ENV: base/lib/python3.12/site-packages");
    snprintf(config, sizeof config, form, at("base/bin"), "false");
    put("venv/pyvenv.cfg", config);
    EXPECT();
}

static void conda(void **state)
{
    (void)state;
    put_library("conda/lib/python3.11/site-packages");
    put("conda/lib/libonnxruntime.so.1.22.0", "");
    setenv("CONDA_PREFIX", at("conda"), 1);
    EXPECT("CONDA_PREFIX: conda/lib/python3.11/site-packages",
           "CONDA_PREFIX: conda/lib/libonnxruntime.so.1.22.0");
    put_library("venv/lib/python3.12/site-packages");
    setenv("VIRTUAL_ENV", at("venv"), 1); /* made inside it, so it comes first */
    EXPECT("VIRTUAL_ENV: venv/lib/python3.12/site-packages",
           "CONDA_PREFIX: conda/lib/python3.11/site-packages",
           "CONDA_PREFIX: conda/lib/libonnxruntime.so.1.22.0");
}

/* A Debian: /usr/bin/python3 is a link, and packages are in three places. */
static void python_on_path(void **state)
{
    (void)state;
    char path[2 * PATH_MAX];
    put("usr/bin/python3.11", "");
    assert_int_equal(symlink("python3.11", at("usr/bin/python3")), 0);
    put_library("usr/lib/python3/dist-packages");
    put_library("usr/local/lib/python3.11/dist-packages");
    put_library("usr/lib/python3.10/site-packages"); /* of another Python */
    put_library("home/.local/lib/python3.11/site-packages");
    setenv("HOME", at("home"), 1);
    snprintf(path, sizeof path, "%s:usr/bin:%s//", at("none"), at("usr/bin"));
    setenv("PATH", path, 1);
    EXPECT("python3 on PATH: home/.local/lib/python3.11/site-packages",
           "python3 on PATH: usr/local/lib/python3.11/dist-packages",
           "python3 on PATH: usr/lib/python3/dist-packages");
    setenv("PATH", "usr/bin:.", 1); /* of whatever folder this is */
    EXPECT();
}

static void virtual_environment_on_path(void **state)
{
    (void)state;
    put("usr/bin/python3.11", "");
    put("venv/pyvenv.cfg", "home = /nowhere\n");
    make_folders(at("venv/bin/x"));
    assert_int_equal(symlink(at("usr/bin/python3.11"), at("venv/bin/python3")), 0);
    put_library("venv/lib/python3.11/site-packages");
    put_library("usr/lib/python3.11/site-packages");
    setenv("PATH", at("venv/bin"), 1);
    EXPECT("python3 on PATH: venv/lib/python3.11/site-packages");
}

static void pyenv(void **state)
{
    (void)state;
    char path[2 * PATH_MAX];
    put("pyenv/shims/python3", "#!/bin/sh\n");
    put("pyenv/versions/3.11.9/bin/python3", "");
    put("pyenv/versions/3.11.10/bin/python3", "");
    put_library("pyenv/versions/3.11.9/lib/python3.11/site-packages");
    put_library("pyenv/versions/3.11.10/lib/python3.11/site-packages");
    put("usr/bin/python3", "");
    put_library("usr/lib/python3.12/site-packages");
    snprintf(path, sizeof path, "%s:%s", at("pyenv/shims"), at("usr/bin"));
    setenv("PATH", path, 1);
    EXPECT("python3 on PATH: usr/lib/python3.12/site-packages"); /* no version: the system's */
    put("pyenv/version", "3.11\n");
    EXPECT("python3 on PATH: pyenv/versions/3.11.10/lib/python3.11/site-packages");
    put(".python-version", "3.11.9\n");
    EXPECT("python3 on PATH: pyenv/versions/3.11.9/lib/python3.11/site-packages");
    setenv("PYENV_VERSION", "3.11.10:3.11.9", 1);
    EXPECT("python3 on PATH: pyenv/versions/3.11.10/lib/python3.11/site-packages");
    setenv("PYENV_VERSION", "system", 1);
    EXPECT("python3 on PATH: usr/lib/python3.12/site-packages");
    setenv("PYENV_VERSION", "../../usr", 1);
    EXPECT("python3 on PATH: usr/lib/python3.12/site-packages");
}

/* What doesn't load isn't the end. */
static void search_goes_on_until_one_is_taken(void **state)
{
    (void)state;
    struct seen seen = {.n = 0};
    put_library("venv/lib/python3.12/site-packages");
    put_library("conda/lib/python3.11/site-packages");
    setenv("VIRTUAL_ENV", at("venv"), 1);
    setenv("CONDA_PREFIX", at("conda"), 1);
    assert_true(prn_site_search(&file, take, &seen));
    assert_int_equal(seen.n, 1);
    assert_string_equal(seen.origins[0], "VIRTUAL_ENV");
    assert_false(prn_site_search(&file, see, &seen));
    assert_int_equal(seen.n, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_without_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(virtual_environment, setup, teardown),
        cmocka_unit_test_setup_teardown(newest_file_is_taken, setup, teardown),
        cmocka_unit_test_setup_teardown(virtual_environment_with_system_packages, setup, teardown),
        cmocka_unit_test_setup_teardown(conda, setup, teardown),
        cmocka_unit_test_setup_teardown(python_on_path, setup, teardown),
        cmocka_unit_test_setup_teardown(virtual_environment_on_path, setup, teardown),
        cmocka_unit_test_setup_teardown(pyenv, setup, teardown),
        cmocka_unit_test_setup_teardown(search_goes_on_until_one_is_taken, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
