/* A state folder of its own for each test, and nothing left of it afterwards. */
#ifndef PRN_TESTS_SERVICE_UNIT_H
#define PRN_TESTS_SERVICE_UNIT_H

#include "unit.h"

#include "instance/names.h"
#include "service/store/state.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

struct unit_folder {
    char path[64];
    int fd;
};

static inline int unit_folder_make(void **state)
{
    static struct unit_folder folder;
    snprintf(folder.path, sizeof folder.path, "/tmp/prony-unit-XXXXXX");
    assert_non_null(mkdtemp(folder.path));
    folder.fd = open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(folder.fd >= 0);
    *state = &folder;
    return 0;
}

static inline int unit_folder_remove(void **state)
{
    const struct unit_folder *folder = *state;
    close(folder->fd);
    int tmp = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int code = prn_folder_remove(tmp, folder->path + strlen("/tmp/"), NULL);
    close(tmp);
    return code;
}

#define unit_test_in_folder(test) \
    cmocka_unit_test_setup_teardown(test, unit_folder_make, unit_folder_remove)

/* Fails with what the error says. */
#define assert_done(call)                             \
    do {                                              \
        struct prony_error done_err = {0};            \
        struct prony_error *err = &done_err;          \
        if ((call) != 0)                              \
            fail_msg("%s: %s", #call, done_err.text); \
    } while (0)

#define assert_refused(call, expected, part)       \
    do {                                           \
        struct prony_error refused_err = {0};      \
        struct prony_error *err = &refused_err;    \
        assert_int_equal((call), (expected));      \
        assert_contains(refused_err.text, (part)); \
    } while (0)

#endif
