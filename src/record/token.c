#include "record/token.h"

#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct prn_token *prn_token_new(void)
{
    return calloc(1, sizeof(struct prn_token));
}

void prn_token_free(struct prn_token *token)
{
    if (token)
        explicit_bzero(token, sizeof *token);
    free(token);
}

bool prn_token_is_sound(const char *text)
{
    size_t len = strnlen(text, PRN_TOKEN_MAX);
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    return len > 0 && len < PRN_TOKEN_MAX;
}

static int take(const char *text, const char *source, struct prn_token *ret_token,
                struct prony_error *err)
{
    if (!prn_token_is_sound(text))
        return prn_fail(err, PRONY_EUSAGE, "%s does not hold a token", source);
    snprintf(ret_token->text, sizeof ret_token->text, "%s", text);
    snprintf(ret_token->source, sizeof ret_token->source, "%s", source);
    return 0;
}

int prn_token_read(const char *path, struct prn_token *ret_token, struct prony_error *err)
{
    char text[PRN_TOKEN_MAX + 2];
    char source[PATH_MAX + 16];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return prn_fail_errno(err, errno, "read the token in", path);
    ssize_t n;
    do
        n = read(fd, text, sizeof text - 1);
    while (n < 0 && errno == EINTR);
    int failed = n < 0 ? errno : 0;
    close(fd);
    if (failed)
        return prn_fail_errno(err, failed, "read the token in", path);
    text[n] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    snprintf(source, sizeof source, "'%s'", path);
    return take(text, source, ret_token, err);
}

/* "" when there is no home. */
static void config_path(const char *below, char path[PATH_MAX])
{
    const char *config = secure_getenv("XDG_CONFIG_HOME");
    const char *home = secure_getenv("HOME");
    int n = -1;
    if (config && config[0] == '/')
        n = snprintf(path, PATH_MAX, "%s/%s", config, below);
    else if (home && home[0] == '/')
        n = snprintf(path, PATH_MAX, "%s/.config/%s", home, below);
    if (n < 0 || n >= PATH_MAX)
        path[0] = '\0';
}

int prn_token_find(const char *given, struct prn_token *ret_token, struct prony_error *err)
{
    static const char *const variables[] = {"PRONY_TOKEN", "OCTOML_PROFILE_API_TOKEN"};
    static const char *const files[] = {"prony/token", "octoml_profile/access_token"};
    ret_token->text[0] = ret_token->source[0] = '\0';
    if (given)
        return take(given, "the caller", ret_token, err);
    for (size_t i = 0; i < PRN_ARRAY_SIZE(variables); i++) {
        const char *value = secure_getenv(variables[i]);
        if (value && *value)
            return take(value, variables[i], ret_token, err);
    }
    for (size_t i = 0; i < PRN_ARRAY_SIZE(files); i++) {
        char path[PATH_MAX];
        config_path(files[i], path);
        if (path[0] && access(path, F_OK) == 0)
            return prn_token_read(path, ret_token, err);
    }
    return 0;
}

static int produce(int fd, const char *name, void *context, struct prony_error *err)
{
    const char *text = context;
    if (prn_write_all(fd, text, strlen(text)) < 0 || prn_write_all(fd, "\n", 1) < 0)
        return prn_fail_errno(err, errno, "write", name);
    return 0;
}

int prn_token_save(const char *text, struct prony_error *err)
{
    char path[PATH_MAX];
    char temporary[PATH_MAX + 32];
    config_path("prony/token", path);
    if (!path[0])
        return prn_fail(err, PRONY_ENOENT, "cannot save the token: there is no home folder");
    snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    char *name = strrchr(path, '/');
    *name = '\0';
    int code = prn_make_folders(path, err);
    *name = '/';
    return code < 0
               ? code
               : prn_write_and_rename(path, temporary, 0600, produce, (void *)(uintptr_t)text, err);
}
