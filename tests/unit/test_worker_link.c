/* Links between stages: who has the secret gets through, and nobody else does or is in the way. */
#include "worker/link.h"

#include "unit.h"

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>

#define LIMIT_S 60 /* only ends what hangs */
#define SILENT 16  /* connections, as many as may wait for a listener */

static uint8_t right[32] = "known to the stages of one run";
static uint8_t wrong[32] = "guessed by somebody else";

struct end {
    struct prn_link link;
    int listen_fd;
    ProtobufCBinaryData secret;
    int code;
    char got[6];
    struct prony_error err;
};

static void *accept_one(void *context)
{
    struct end *end = context;
    prn_link_init(&end->link);
    end->code = prn_link_accept(&end->link, end->listen_fd, &end->secret, LIMIT_S, &end->err);
    if (end->code == 0)
        end->code = prn_link_read(&end->link, end->got, sizeof end->got, &end->err);
    prn_link_release(&end->link);
    return NULL;
}

static int listen_here(char peer[PRN_LINK_PEER_MAX])
{
    struct prony_error err;
    int fd;
    assert_int_equal(prn_link_listen("127.0.0.1:0", &fd, peer, &err), 0);
    return fd;
}

static int connect_plainly(int listen_fd)
{
    struct sockaddr_in address;
    socklen_t length = sizeof address;
    assert_int_equal(getsockname(listen_fd, (struct sockaddr *)&address, &length), 0);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, length), 0);
    return fd;
}

/* Connects and says hello; what became of connecting. */
static int say_hello(const char *peer, uint8_t secret[32])
{
    struct prn_link link;
    struct prony_error err;
    const ProtobufCBinaryData bytes = {32, secret};
    prn_link_init(&link);
    int code = prn_link_connect(&link, peer, &bytes, LIMIT_S, &err);
    if (code == 0)
        assert_int_equal(prn_link_write(&link, "hello", 6, &err), 0);
    prn_link_release(&link);
    return code;
}

static void those_without_the_secret_are_passed_over(void **state)
{
    (void)state;
    int before = unit_descriptors();
    char peer[PRN_LINK_PEER_MAX];
    struct end end = {.listen_fd = listen_here(peer), .secret = {32, right}};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, accept_one, &end), 0);
    int chatty = connect_plainly(end.listen_fd);
    assert_int_equal(write(chatty, "GET / HTTP/1.1\r\n\r\n", 18), 18);
    assert_int_equal(say_hello(peer, wrong), PRONY_ECANCELED);
    assert_int_equal(say_hello(peer, right), 0);
    pthread_join(thread, NULL);
    assert_int_equal(end.code, 0);
    assert_string_equal(end.got, "hello");
    close(chatty);
    close(end.listen_fd);
    assert_int_equal(unit_descriptors(), before);
}

static void the_silent_hold_nobody_up(void **state)
{
    (void)state;
    int before = unit_descriptors();
    char peer[PRN_LINK_PEER_MAX];
    struct end end = {.listen_fd = listen_here(peer), .secret = {32, right}};
    int silent[SILENT];
    for (size_t i = 0; i < SILENT; i++)
        silent[i] = connect_plainly(end.listen_fd);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, accept_one, &end), 0);
    assert_int_equal(say_hello(peer, right), 0);
    pthread_join(thread, NULL);
    assert_int_equal(end.code, 0);
    assert_string_equal(end.got, "hello");
    for (size_t i = 0; i < SILENT; i++)
        close(silent[i]);
    close(end.listen_fd);
    assert_int_equal(unit_descriptors(), before);
}

/* Whoever is told such an address would connect to itself. */
static void all_addresses_are_none(void **state)
{
    (void)state;
    const char *const all[] = {"0.0.0.0", "0.0.0.0:0", "[::]", "[::]:0"};
    char peer[PRN_LINK_PEER_MAX];
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        struct prony_error err;
        int fd;
        assert_int_equal(prn_link_listen(all[i], &fd, peer, &err), PRONY_EUSAGE);
        assert_non_null(strstr(err.text, all[i]));
    }
}

/* ---- Somebody else who listens there ---- */

static X509 *make_certificate(EVP_PKEY *key)
{
    X509 *certificate = X509_new();
    assert_non_null(certificate);
    X509_NAME *name = X509_get_subject_name(certificate);
    assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                                (const unsigned char *)"127.0.0.1", -1, -1, 0),
                     1);
    assert_int_equal(X509_set_issuer_name(certificate, name), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), -3600));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), 3600));
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    return certificate;
}

struct impostor {
    int listen_fd;
    SSL_CTX *context;
};

static void *serve_impostor(void *context)
{
    const struct impostor *im = context;
    struct pollfd wait = {.fd = im->listen_fd, .events = POLLIN};
    poll(&wait, 1, LIMIT_S * 1000);
    int fd = accept4(im->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    SSL *tls = SSL_new(im->context);
    char got[6];
    if (tls && SSL_set_fd(tls, fd) && SSL_accept(tls) == 1)
        SSL_read(tls, got, sizeof got);
    SSL_free(tls);
    close(fd);
    return NULL;
}

static void a_certificate_proves_nothing(void **state)
{
    (void)state;
    char peer[PRN_LINK_PEER_MAX];
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = make_certificate(key);
    struct impostor im = {.listen_fd = listen_here(peer),
                          .context = SSL_CTX_new(TLS_server_method())};
    assert_int_equal(SSL_CTX_use_certificate(im.context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(im.context, key), 1);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, serve_impostor, &im), 0);
    assert_int_equal(say_hello(peer, right), PRONY_ECANCELED);
    pthread_join(thread, NULL);
    close(im.listen_fd);
    SSL_CTX_free(im.context);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_without_the_secret_are_passed_over),
        cmocka_unit_test(the_silent_hold_nobody_up),
        cmocka_unit_test(all_addresses_are_none),
        cmocka_unit_test(a_certificate_proves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
