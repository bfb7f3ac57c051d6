#include "service_unit.h"

#include <errno.h>
#include <sys/stat.h>

static void takes_names_that_stay_inside(void **state)
{
    (void)state;
    static const char *const good[] = {"model.onnx",
                                       "external_data",
                                       "weights/0",
                                       "a/b/c/d",
                                       "..a",
                                       "a..",
                                       "...",
                                       ".hidden",
                                       "with space",
                                       "größe/\xe6\xa8\xa1\xe5\x9e\x8b",
                                       "-rf",
                                       "C:\\x",
                                       "1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(good); i++)
        assert_done(prn_name_check(good[i], strlen(good[i]), err));
}

static void refuses_names_that_leave_or_hide(void **state)
{
    (void)state;
    static const struct {
        const char *name, *part;
        size_t length; /* 0: of the text */
    } bad[] = {
        {"", "is empty", 0},
        {"/etc/passwd", "not relative", 0},
        {"/", "not relative", 0},
        {"..", "'.' or '..'", 0},
        {".", "'.' or '..'", 0},
        {"../x", "'.' or '..'", 0},
        {"a/../../x", "'.' or '..'", 0},
        {"a/..", "'.' or '..'", 0},
        {"a/./b", "'.' or '..'", 0},
        {"a//b", "empty part", 0},
        {"a/", "empty part", 0},
        {"a\nb", "control", 0},
        {"a\x1b[2Jb", "control", 0},
        {"a\x7f", "control", 0},
        {"a\xc2\x9b", "control", 0},
        {"a\xff", "control", 0},
        {"\xc0\xae\xc0\xae/x", "control", 0},
        {"a\0b", "NUL", 3},
        {"\0", "NUL", 1},
        {"1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17", "16 parts", 0},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(bad); i++)
        assert_refused(
            prn_name_check(bad[i].name, bad[i].length ? bad[i].length : strlen(bad[i].name), err),
            PRONY_EFORMAT, bad[i].part);
}

static void limits_lengths(void **state)
{
    (void)state;
    char name[10241];
    memset(name, 'x', sizeof name);
    assert_done(prn_name_check(name, 255, err));
    assert_refused(prn_name_check(name, 256, err), PRONY_EFORMAT, "255 bytes");
    for (size_t i = 200; i < sizeof name; i += 200)
        name[i] = '/';
    assert_done(prn_name_check(name, 1024, err));
    assert_refused(prn_name_check(name, 1025, err), PRONY_EFORMAT, "1024 bytes");
    assert_refused(prn_name_check(name, 10240, err), PRONY_EFORMAT, "1024 bytes");
}

static void makes_folders_and_follows_no_link(void **state)
{
    const struct unit_folder *folder = *state;
    int fd = -1;
    const char *last = NULL;
    assert_done(prn_name_folder(folder->fd, "a/b/file", &fd, &last, err));
    assert_string_equal(last, "file");
    close(openat(fd, "file", O_CREAT | O_WRONLY, 0600));
    close(fd);
    assert_done(prn_name_folder(folder->fd, "a/b/other", &fd, &last, err));
    close(fd);
    assert_done(prn_name_open(folder->fd, "a/b/file", &fd, err));
    close(fd);
    assert_refused(prn_name_folder(folder->fd, "a/b/file/x", &fd, &last, err), PRONY_EUSAGE,
                   "needs a folder");

    assert_int_equal(symlinkat("/tmp", folder->fd, "out"), 0);
    assert_int_equal(symlinkat("a", folder->fd, "in"), 0);
    assert_int_equal(symlinkat("b/file", folder->fd, "a/link"), 0);
    assert_refused(prn_name_folder(folder->fd, "out/x", &fd, &last, err), PRONY_EUSAGE,
                   "needs a folder");
    assert_refused(prn_name_folder(folder->fd, "in/x", &fd, &last, err), PRONY_EUSAGE,
                   "needs a folder");
    assert_refused(prn_name_open(folder->fd, "in/b/file", &fd, err), PRONY_EIO, "cannot open");
    assert_refused(prn_name_open(folder->fd, "a/link", &fd, err), PRONY_EIO, "cannot open");
    assert_refused(prn_name_open(folder->fd, "a/none", &fd, err), PRONY_ENOENT, "cannot open");
    assert_int_equal(fd >= 0, 1); /* untouched since the last success */
}

static void removes_trees_but_not_what_links_lead_to(void **state)
{
    const struct unit_folder *folder = *state;
    int fd = -1;
    const char *last = NULL;
    close(openat(folder->fd, "kept", O_CREAT | O_WRONLY, 0600));
    assert_int_equal(mkdirat(folder->fd, "kept-folder", 0700), 0);
    close(openat(folder->fd, "kept-folder/file", O_CREAT | O_WRONLY, 0600));
    assert_done(prn_name_folder(folder->fd, "tree/a/b/c/x", &fd, &last, err));
    close(openat(fd, last, O_CREAT | O_WRONLY, 0600));
    assert_int_equal(symlinkat("../../../../kept-folder", fd, "link"), 0);
    close(fd);
    assert_int_equal(symlinkat("../kept", folder->fd, "tree/link"), 0);
    assert_int_equal(symlinkat("../kept-folder", folder->fd, "tree/folder"), 0);
    assert_int_equal(mkdirat(folder->fd, "tree/moved-0", 0700), 0);
    assert_int_equal(fchmodat(folder->fd, "tree/a/b", 0, 0), 0);
    assert_done(prn_folder_remove(folder->fd, "tree", err));
    assert_int_equal(faccessat(folder->fd, "tree", F_OK, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(faccessat(folder->fd, "kept", F_OK, 0), 0);
    assert_int_equal(faccessat(folder->fd, "kept-folder/file", F_OK, 0), 0);
    assert_done(prn_folder_remove(folder->fd, "tree", err)); /* is gone */
    assert_int_equal(symlinkat("kept-folder", folder->fd, "only-link"), 0);
    assert_true(prn_folder_remove(folder->fd, "only-link", NULL) < 0);
    assert_int_equal(faccessat(folder->fd, "kept-folder/file", F_OK, 0), 0);
}

static void removes_trees_deeper_than_descriptors(void **state)
{
    const struct unit_folder *folder = *state;
    assert_int_equal(mkdirat(folder->fd, "deep", 0700), 0);
    int fd = openat(folder->fd, "deep", O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 1100; i++) {
        assert_int_equal(mkdirat(fd, "d", 0700), 0);
        int next = openat(fd, "d", O_RDONLY | O_DIRECTORY);
        assert_true(next >= 0);
        close(fd);
        fd = next;
    }
    close(fd);
    assert_done(prn_folder_remove(folder->fd, "deep", err));
    assert_int_equal(faccessat(folder->fd, "deep", F_OK, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(takes_names_that_stay_inside),
        cmocka_unit_test(refuses_names_that_leave_or_hide),
        cmocka_unit_test(limits_lengths),
        unit_test_in_folder(makes_folders_and_follows_no_link),
        unit_test_in_folder(removes_trees_but_not_what_links_lead_to),
        unit_test_in_folder(removes_trees_deeper_than_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
