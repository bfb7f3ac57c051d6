/* Certificate and key: read as they are, and parsed once so that what is wrong with them is said
 * here and not by the first client. */
#include "service/config.h"

#include <openssl/pem.h>
#include <openssl/x509.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define PEM_MAX ((size_t)1 << 20)

static int read_pem(const char *path, struct prn_buffer *out, struct prony_error *err)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return prn_fail_errno(err, errno, "open", path);
    int code = 0;
    if (fstat(fd, &status) < 0)
        code = prn_fail_errno(err, errno, "read", path);
    else if (!S_ISREG(status.st_mode))
        code = prn_fail(err, PRONY_EIO, "cannot read '%s': not a regular file", path);
    else
        code = prn_buffer_read_fd(out, fd, path, err);
    close(fd);
    return code;
}

/* A key with a password can't be used: nobody is there to type it. */
static int no_password(char *buffer, int size, int writing, void *context)
{
    (void)buffer;
    (void)size;
    (void)writing;
    (void)context;
    return -1;
}

static int check_pair(const struct prn_config *config, const struct prn_buffer *certificate,
                      const struct prn_buffer *key, struct prony_error *err)
{
    BIO *certificate_text = BIO_new_mem_buf(prn_buffer_text(certificate), (int)certificate->len);
    BIO *key_text = BIO_new_mem_buf(prn_buffer_text(key), (int)key->len);
    X509 *x509 =
        certificate_text ? PEM_read_bio_X509(certificate_text, NULL, no_password, NULL) : NULL;
    EVP_PKEY *pkey = key_text ? PEM_read_bio_PrivateKey(key_text, NULL, no_password, NULL) : NULL;
    int code = 0;
    if (!certificate_text || !key_text)
        code = prn_fail_memory(err);
    else if (!x509)
        code = prn_fail(err, PRONY_EFORMAT, "'%s' holds no certificate in PEM format",
                        config->tls_certificate);
    else if (!pkey)
        code = prn_fail(err, PRONY_EFORMAT, "'%s' holds no key in PEM format without a password",
                        config->tls_key);
    else if (X509_check_private_key(x509, pkey) != 1)
        code = prn_fail(err, PRONY_EFORMAT, "the key in '%s' isn't that of the certificate in '%s'",
                        config->tls_key, config->tls_certificate);
    X509_free(x509);
    EVP_PKEY_free(pkey);
    BIO_free(certificate_text);
    BIO_free(key_text);
    return code;
}

int prn_config_read_tls(const struct prn_config *config, char **ret_certificate, char **ret_key,
                        struct prony_error *err)
{
    if (!config->tls_certificate) {
        *ret_certificate = NULL;
        *ret_key = NULL;
        return 0;
    }
    struct prn_buffer certificate = PRN_BUFFER_INIT(PEM_MAX);
    struct prn_buffer key = PRN_BUFFER_INIT(PEM_MAX);
    int code = read_pem(config->tls_certificate, &certificate, err);
    if (code == 0)
        code = read_pem(config->tls_key, &key, err);
    if (code == 0)
        code = check_pair(config, &certificate, &key, err);
    if (code == 0) {
        *ret_certificate = prn_buffer_detach(&certificate);
        *ret_key = prn_buffer_detach(&key);
    }
    prn_buffer_release(&certificate);
    prn_buffer_release(&key);
    return code;
}
