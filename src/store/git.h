/* Which commit is checked out in a folder. The program git is asked, without a shell; where it
 * isn't there, or the folder isn't in a repository, nothing is known. */
#ifndef PRN_STORE_GIT_H
#define PRN_STORE_GIT_H

#include "base/error.h"

#include <stdbool.h>
#include <stdint.h>

#define PRN_GIT_COMMIT_SIZE 65 /* SHA-256 in hexadecimal */
#define PRN_GIT_BRANCH_SIZE 256

struct prn_git {
    char commit[PRN_GIT_COMMIT_SIZE]; /* "": not known */
    char branch[PRN_GIT_BRANCH_SIZE]; /* "": none, or not known */
    bool changed;                     /* files differ from the commit */
    int64_t committed_s;              /* when, since 1970; -1: not known */
};

void prn_git_read(const char *folder, struct prn_git *ret_git);

/* Whether a text could be a commit, or the beginning of one: 4 to 64 hexadecimal digits. */
bool prn_git_is_commit(const char *text);

#endif
