/* The configuration of the service: what it says, what is refused and with which words, what a
 * reload changes, and that the examples of its reference are right. */
#include "service/config/address.h"
#include "service/config/config.h"
#include "unit.h"

#include <openssl/pem.h>
#include <openssl/x509.h>

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A pool that is right, for more keys. */
#define KNOWN                                                                                  \
    "onnxrt-cpu, onnxrt-cuda, onnxrt-tensorrt, onnxrt-plugin, openvino-cpu, torch-eager-cpu, " \
    "torch-eager-cuda, torch-inductor-cpu, torch-inductor-cuda"
#define SLURM "pools:\n- name: a\n  type: slurm\n  software: onnxrt-cpu\n"

struct fixture {
    struct prony_error err;
    char folder[64]; /* a scratch folder with tls/cert.pem, tls/key.pem and tls/other.pem */
};

static const char *const scratch_files[] = {"tls/cert.pem", "tls/key.pem", "tls/other.pem",
                                            "prony.yaml"};

static const char *path_in(const struct fixture *f, const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", f->folder, name);
    return path;
}

static EVP_PKEY *write_key(const struct fixture *f, const char *name)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    FILE *file = fopen(path_in(f, name), "w");
    assert_non_null(key);
    assert_non_null(file);
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    fclose(file);
    return key;
}

static void write_certificate(const struct fixture *f, const char *name, EVP_PKEY *key)
{
    X509 *x509 = X509_new();
    assert_non_null(x509);
    ASN1_INTEGER_set(X509_get_serialNumber(x509), 1);
    X509_gmtime_adj(X509_getm_notBefore(x509), 0);
    X509_gmtime_adj(X509_getm_notAfter(x509), 3600);
    assert_int_equal(X509_set_pubkey(x509, key), 1);
    assert_true(X509_sign(x509, key, EVP_sha256()) > 0);
    FILE *file = fopen(path_in(f, name), "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, x509), 1);
    fclose(file);
    X509_free(x509);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    snprintf(f->folder, sizeof f->folder, "/tmp/prony-config-XXXXXX");
    assert_non_null(mkdtemp(f->folder));
    assert_int_equal(mkdir(path_in(f, "tls"), 0700), 0);
    EVP_PKEY *key = write_key(f, "tls/key.pem");
    write_certificate(f, "tls/cert.pem", key);
    EVP_PKEY_free(key);
    EVP_PKEY_free(write_key(f, "tls/other.pem"));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    for (size_t i = 0; i < PRN_ARRAY_SIZE(scratch_files); i++)
        unlink(path_in(f, scratch_files[i]));
    rmdir(path_in(f, "tls"));
    rmdir(f->folder);
    free(f);
    return 0;
}

/* As if the text stood in the scratch folder. */
static int parse(struct fixture *f, const char *text, const struct prn_serve_options *options,
                 struct prn_config *ret_config)
{
    char name[100];
    snprintf(name, sizeof name, "%s/prony.yaml", f->folder);
    return prn_config_parse(text, strlen(text), name, options, ret_config, &f->err);
}

static struct prn_config good(struct fixture *f, const char *text)
{
    struct prn_config config;
    if (parse(f, text, NULL, &config) < 0)
        fail_msg("%s", f->err.text);
    return config;
}

static void check_defaults(const struct prn_config *config)
{
    assert_int_equal(config->n_listen, 1);
    assert_string_equal(config->listen[0].text, "127.0.0.1:0");
    assert_true(config->listen[0].local);
    assert_false(config->listen[0].tls);
    assert_null(config->tls_certificate);
    assert_null(config->tls_key);
    assert_null(config->http);
    assert_int_equal(config->n_pools, 1);
    assert_string_equal(config->pools[0].hardware, "local");
    assert_int_equal(config->pools[0].type, PRN_POOL_LOCAL);
    assert_int_equal(config->pools[0].local.count, 1);
    assert_true(isnan(config->pools[0].usd_per_hour));
    assert_int_equal(config->n_presets, 0);
    assert_null(prn_config_preset(config, "default"));
    assert_true(prn_config_quota(config, "ann") == PRN_CONFIG_NO_LIMIT);
    assert_false(prn_config_is_fair(config));
    assert_true(config->fair.window_s == 86400);
    assert_true(prn_config_share(config, "ann") == 1);
    assert_int_equal(prn_config_priority(config, "ann"), 0);
    assert_true(config->lease_s == 30);
    assert_null(config->state_folder);
    assert_null(config->cache_folder);
    assert_true(config->cache_bytes == (uint64_t)20 << 30);
    assert_true(config->limits.message_bytes == (uint64_t)1 << 30);
    assert_true(config->limits.model_bytes == (uint64_t)16 << 30);
    assert_true(config->limits.session_memory_bytes == 0);
    assert_true(config->limits.run_timeout_s == 600);
    assert_int_equal(config->limits.sessions, 10000);
    assert_int_equal(config->limits.models_per_session, 1000);
    assert_string_equal(config->log_format, "text");
}

static void test_defaults(void **state)
{
    struct fixture *f = *state;
    struct prn_config config;
    assert_int_equal(prn_config_load(NULL, &config, &f->err), 0);
    check_defaults(&config);
    prn_config_release(&config);
    static const char *const empty[] = {"", "# nothing\n", "~\n",
                                        "listen:\npools:\nquota: {users: }\nlimits:\n"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(empty); i++) {
        config = good(f, empty[i]);
        check_defaults(&config);
        prn_config_release(&config);
    }
}

static void test_everything(void **state)
{
    struct fixture *f = *state;
    struct prn_config config =
        good(f, "listen: [127.0.0.1:50051, 'unix:/run/x', '[::]:1']\n"
                "tls: {certificate: tls/cert.pem, key: tls/key.pem}\n"
                "http: localhost:9464\n"
                "pools:\n"
                "  - {name: lab, processor: The box, usd_per_hour: 0.31, count: 2, type: local}\n"
                "  - {name: g5.xlarge, software: onnxrt-cuda}\n"
                "presets:\n"
                "  all: ['lab/openvino-cpu', 'g5.xlarge/onnxrt-cuda[ fp16 ]']\n"
                "quota: {default: 8, users: {zoe: none, ann: 16, bob: 0}}\n"
                "lease: 1.5 m\n"
                "python: venv/bin/python\n"
                "state: /var/lib/x\n"
                "cache: {folder: cache, size: 1.5KiB}\n"
                "limits: {message: 64 MiB, model: 2 GB, session_memory: 3TiB, run_timeout: 250ms,\n"
                "         sessions: 5, models_per_session: 6}\n"
                "log: json\n");
    assert_int_equal(config.n_listen, 3);
    assert_true(config.listen[0].tls && config.listen[0].local);
    assert_true(!config.listen[1].tls && config.listen[1].local);
    assert_true(config.listen[2].tls && !config.listen[2].local);
    assert_string_equal(config.tls_certificate, path_in(f, "tls/cert.pem"));
    assert_string_equal(config.http, "localhost:9464");
    assert_int_equal(config.n_pools, 2);
    const struct prn_config_pool *lab = prn_config_pool(&config, "lab");
    assert_string_equal(lab->processor, "The box");
    assert_true(lab->usd_per_hour == 0.31);
    assert_int_equal(lab->local.count, 2);
    assert_int_equal(lab->line, 5);
    assert_true(prn_config_pool_offers(lab, "torch-eager-cpu"));
    const struct prn_config_pool *g5 = prn_config_pool(&config, "g5.xlarge");
    assert_string_equal(g5->processor, "Nvidia A10g GPU");
    assert_true(g5->usd_per_hour == 1.006);
    assert_int_equal(g5->local.count, 0);
    assert_true(prn_config_pool_offers(g5, "onnxrt-cuda"));
    assert_false(prn_config_pool_offers(g5, "onnxrt-cpu"));
    assert_null(prn_config_pool(&config, "local"));
    const struct prn_config_preset *all = prn_config_preset(&config, "all");
    assert_int_equal(all->n, 2);
    assert_string_equal(all->specs[1].name, "g5.xlarge/onnxrt-cuda[fp16]");
    assert_int_equal(prn_config_quota(&config, "ann"), 16);
    assert_int_equal(prn_config_quota(&config, "bob"), 0);
    assert_int_equal(prn_config_quota(&config, "eve"), 8);
    assert_true(prn_config_quota(&config, "zoe") == PRN_CONFIG_NO_LIMIT);
    assert_true(config.lease_s == 90);
    assert_string_equal(config.python, path_in(f, "venv/bin/python"));
    assert_string_equal(config.state_folder, "/var/lib/x");
    assert_string_equal(config.cache_folder, path_in(f, "cache"));
    assert_true(config.cache_bytes == 1536);
    assert_true(config.limits.message_bytes == 64 << 20);
    assert_true(config.limits.model_bytes == 2000000000);
    assert_true(config.limits.session_memory_bytes == (uint64_t)3 << 40);
    assert_true(config.limits.run_timeout_s == 0.25);
    assert_int_equal(config.limits.sessions, 5);
    assert_int_equal(config.limits.models_per_session, 6);
    assert_string_equal(config.log_format, "json");
    prn_config_release(&config);

    assert_true(prn_config_in_default("onnxrt-cpu"));
    assert_true(prn_config_in_default("torch-eager-cuda"));
    assert_false(prn_config_in_default("openvino-cpu"));
    assert_false(prn_config_in_default("torch-"));
    assert_string_equal(prn_pool_type_name(PRN_POOL_LOCAL), "local");
}

/* Each with all that is said behind the name of the file. */
static void test_faults(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *fault;
    } cases[] = {
        {"[]", "line 1: 'prony serve': not a map of keys and values"},
        {"lisen: x\n", "line 1: unknown key 'lisen'; did you mean 'listen'? "
                       "(known: listen, tls, http, pools, presets, quota, queue, fair, lease, "
                       "python, state, cache, limits, "
                       "audit, log)"},
        {"colour: x\n", "line 1: unknown key 'colour' (known: listen, tls, http, pools, presets, "
                        "quota, queue, fair, lease, python, state, cache, limits, audit, log)"},
        {"lease: 1\nlease: 2\n", "line 2: key 'lease' twice"},
        {"listen: {}\n", "line 1: 'listen': not a list"},
        {"listen: []\n", "line 1: 'listen': an empty list"},
        {"listen: [[a]]\n", "line 1: 'listen' is not a text"},
        {"listen: here\n", "line 1: 'listen': bad address 'here': no port; it is written "
                           "HOST:PORT, with port 0 for any that is free"},
        {"listen: 127.0.0.1:x\n",
         "line 1: 'listen': bad address '127.0.0.1:x': the port is not a number from 0 to 65535"},
        {"listen:\n- 127.0.0.1:1\n- 127.0.0.1:1\n",
         "line 3: 'listen': '127.0.0.1:1' is listed twice"},
        {"listen:\n- 127.0.0.1:1\n- 0.0.0.0:50051\n",
         "line 3: 'listen': '0.0.0.0:50051' is reached from other machines, so it needs a "
         "certificate and a key; without them only loopback is served, such as 127.0.0.1:0"},
        {"listen: myhost:1\n", "line 1: 'listen': 'myhost:1' is reached from other machines, so it "
                               "needs a certificate and a key; without them only loopback is "
                               "served, such as 127.0.0.1:0"},
        {"tls: yes\n", "line 1: 'tls': not a map of keys and values"},
        {"lease: 30s\nlimit:\n  sessions: 3\n",
         "line 2: unknown key 'limit'; did you mean 'limits'? "
         "(known: listen, tls, http, pools, presets, quota, queue, fair, lease, python, state, "
         "cache, limits, "
         "audit, log)"},
        {"limits:\n  sessions: 3\nlimits:\n  sessions: 4\n", "line 3: key 'limits' twice"},
        {"tls: {cert: a}\n", "line 1: unknown key 'cert' (known: certificate, key)"},
        {"tls: {certificate: a}\n", "line 1: 'tls': a certificate without a key"},
        {"tls: {key: a}\n", "line 1: 'tls': a key without a certificate"},
        {"tls: {certificate: /nowhere/a, key: tls/key.pem}\n",
         "line 1: 'tls': cannot open '/nowhere/a': No such file or directory"},
        {"tls: {certificate: /dev/null, key: tls/key.pem}\n",
         "line 1: 'tls': cannot read '/dev/null': not a regular file"},
        {"http: unix:/x\n", "line 1: 'http': bad address 'unix:/x': it must have a port"},
        {"http: 9464\n", "line 1: 'http': bad address '9464': no port; it is written HOST:PORT, "
                         "with port 0 for any that is free"},
        {"pools: x\n", "line 1: 'pools': not a list"},
        {"pools: []\n", "line 1: 'pools': an empty list; leave it out to serve this machine"},
        {"pools: [x]\n", "line 1: 'pools': not a map with 'name' and more"},
        {"pools:\n- count: 1\n",
         "line 2: 'pools': a pool needs a 'name': the name of its hardware"},
        {"pools:\n- name: a\n- name: a\n", "line 3: 'pools': 'a' is listed twice"},
        {"pools:\n- name: a/b\n", "line 2: 'name': 'a/b' cannot be part of a backend "
                                  "(hardware/software)"},
        {"pools:\n- name: 'a[b'\n", "line 2: 'name': 'a[b' cannot be part of a backend "
                                    "(hardware/software)"},
        {"pools:\n- name: ' a'\n", "line 2: 'name': ' a' cannot be part of a backend "
                                   "(hardware/software)"},
        {"pools:\n- name: \"a\\tb\"\n", "line 2: 'name' is a text with control characters"},
        {"pools:\n- name: ''\n", "line 2: 'name' is empty"},
        {"pools:\n- name: a\n  cores: 1\n",
         "line 3: unknown key 'cores' (known: name, type, processor, usd_per_hour, software, "
         "session_time, session_idle, "
         "count)"},
        {"pools:\n- name: a\n  type: cloud\n",
         "line 3: 'type': unknown type of pool 'cloud' (known: local, slurm)"},
        {"pools:\n- name: a\n  type: slurm\n",
         "line 2: 'software': a pool of type slurm must list the software of its "
         "hosts"},
        {"pools:\n- name: a\n  type: slurm\n  count: 1\n",
         "line 4: unknown key 'count'; did you mean 'account'? (known: name, type, processor, "
         "usd_per_hour, software, "
         "session_time, session_idle, "
         "partition, constraint, gres, account, qos, time, session, idle, join, poll, hosts, "
         "server, ca, program, output, options, environment)"},
        {SLURM "  time: 10s\n", "line 5: 'time': '10s' is not between 60 s and 2592000 s"},
        {SLURM "  server: prony\n", "line 5: 'server': 'prony': no port; it is written HOST:PORT"},
        {SLURM "  server: '[::1]'\n",
         "line 5: 'server': '[::1]': no port; it is written HOST:PORT"},
        {SLURM "  server: prony:0\n",
         "line 5: 'server': 'prony:0': no port; it is written HOST:PORT"},
        {SLURM "  server: prony:99999\n",
         "line 5: 'server': 'prony:99999': the port is not a number from 0 to 65535"},
        {SLURM "  server: unix:/run/prony\n", "line 5: 'server': 'unix:/run/prony': nodes can't "
                                              "open a socket of this machine's file system"},
        {SLURM "  ca: cert.pem\n",
         "line 5: 'ca': 'cert.pem' is a path on the nodes, and must begin with '/'"},
        {SLURM "  program: bin/prony\n",
         "line 5: 'program': 'bin/prony' is a path on the nodes, and must begin with '/'"},
        {SLURM "  program: prony\n  output: logs/%j\n",
         "line 6: 'output': 'logs/%j' is a path on the nodes, and must begin with '/'"},
        {SLURM "  hosts: -2\n", "line 5: 'hosts': '-2' is not a whole number from 1 to 10000"},
        {SLURM "  idle: -5s\n", "line 5: 'idle': '-5s' is not a duration such as 30s or 10m"},
        {SLURM "  hosts: 0\n", "line 5: 'hosts': '0' is not a whole number from 1 to 10000"},
        {SLURM "  time: 10m\n  session: 20m\n",
         "line 6: 'session': longer than 'time', the limit of a job (600 s)"},
        {SLURM "  options: [--mem=1, -x n1]\n",
         "line 5: 'options': '-x n1' isn't written --option or --option=value"},
        {SLURM "  options: --wra=rm\n",
         "line 5: 'options': --wrap is prony's to set; see the keys of the pool"},
        {SLURM "  environment: [a]\n",
         "line 5: 'environment': not a map of up to 64 names and values"},
        {SLURM "  environment: {a-b: c}\n", "line 5: 'environment': 'a-b' can't be set for a job"},
        {SLURM "  environment: {LD_PRELOAD: c}\n",
         "line 5: 'environment': 'LD_PRELOAD' can't be set for a job"},
        {SLURM "  partition: \"a\\nb\"\n", "line 5: 'partition' is a text with control characters"},
        {"pools:\n- name: a\n  count: many\n",
         "line 3: 'count': 'many' is not a whole number from 0 to 1000"},
        {"pools:\n- name: a\n  count: 1.5\n",
         "line 3: 'count': '1.5' is not a whole number from 0 to 1000"},
        {"pools:\n- name: a\n  count: -1\n",
         "line 3: 'count': '-1' is not a whole number from 0 to 1000"},
        {"pools:\n- name: a\n  usd_per_hour: [1]\n",
         "line 3: 'usd_per_hour': 'a list or map' is not a number from 0 to 1e+06"},
        {"pools:\n- name: a\n  software: [onnxrt-cpu, onnxrt-cpu]\n",
         "line 3: 'software': 'onnxrt-cpu' is listed twice"},
        {"pools:\n- name: a\n  software: tvm-cpu\n",
         "line 3: 'software': unknown software 'tvm-cpu' (known: " KNOWN ")"},
        {"pools:\n- name: a\n  software: 'onnxrt-cpu[x]'\n",
         "line 3: 'software': 'onnxrt-cpu[x]' cannot be part of a backend "
         "(hardware/software)"},
        {"presets: [a]\n", "line 1: 'presets': not a map of names and lists of backends"},
        {"presets: {a: []}\n", "line 1: 'a': an empty list"},
        {"presets: {a: ~}\n", "line 1: 'a' is not a text"},
        {"presets: {a: onnxrt-cpu}\n", "line 1: 'a': bad backend 'onnxrt-cpu': no '/'; it is "
                                       "written hardware/software[option,key=value]"},
        {"presets:\n  a:\n  - far/onnxrt-cpu\n",
         "line 3: 'a': no pool has the hardware of 'far/onnxrt-cpu'"},
        {"pools: [{name: a, software: onnxrt-cpu}]\npresets: {a: a/torch-eager-cpu}\n",
         "line 2: 'a': the pool 'a' doesn't offer 'torch-eager-cpu'"},
        {"presets: {a: local/tvm}\n", "line 1: 'a': unknown software 'tvm' (known: " KNOWN ")"},
        {"presets: {a: ['local/onnxrt-cpu[a,b]', 'local/onnxrt-cpu[b,a]']}\n",
         "line 1: 'a': 'local/onnxrt-cpu[b,a]' is listed twice"},
        {"presets: {default: local/openvino-cpu}\n",
         "line 1: 'default': octoml-profile's client asks for this preset and can't use "
         "'local/openvino-cpu'; put it into another"},
        {"presets: {'': local/onnxrt-cpu}\n",
         "line 1: 'presets': a name is empty or has control characters"},
        {"queue: lifo\n", "line 1: 'queue': 'lifo' is not an order (known: first-come, fair)"},
        {"fair: {window: 1s}\n", "line 1: 'window': '1s' is not between 60 s and 31536000 s"},
        {"fair: {shares: [a]}\n", "line 1: 'shares': not a map of users and numbers"},
        {"fair:\n  shares:\n    ann: 0\n", "line 3: 'ann': '0' is not a number from 0.01 to 100"},
        {"fair: {priorities: {ann: 11}}\n", "line 1: 'ann': '11' is not a number from -10 to 10"},
        {"fair: {priorities: {ann: 0.5}}\n",
         "line 1: 'priorities': that of 'ann' is not a whole number"},
        {"quota: 5\n", "line 1: 'quota': not a map of keys and values"},
        {"quota: {default: all}\n",
         "line 1: 'default': 'all' is not a whole number from 0 to 1000000, or none"},
        {"quota: {users: [a]}\n", "line 1: 'users': not a map of users and numbers of backends"},
        {"quota:\n  users:\n    ann: -3\n",
         "line 3: 'ann': '-3' is not a whole number from 0 to 1000000, or none"},
        {"quota: {users: {ann: }}\n",
         "line 1: 'ann': '' is not a whole number from 0 to 1000000, or none"},
        {"lease: soon\n", "line 1: 'lease': 'soon' is not a duration such as 30s or 10m"},
        {"lease: -3s\n", "line 1: 'lease': '-3s' is not a duration such as 30s or 10m"},
        {"lease: 3 days\n", "line 1: 'lease': '3 days' is not a duration such as 30s or 10m"},
        {"lease: 1.2.3s\n", "line 1: 'lease': '1.2.3s' is not a duration such as 30s or 10m"},
        {"lease: 0\n", "line 1: 'lease': '0' is not between 0.1 s and 43200 s"},
        {"state: {}\n", "line 1: 'state' is not a text"},
        {"cache: {size: big}\n", "line 1: 'size': 'big' is not a size such as 20 GiB"},
        {"cache: {size: [1]}\n", "line 1: 'size': 'a list or map' is not a size such as 20 GiB"},
        {"limits: {message: 4 GiB}\n",
         "line 1: 'message': '4 GiB' is not between 64.0 KiB and 2.00 GiB"},
        {"limits: {session_memory: little}\n",
         "line 1: 'session_memory': 'little' is not a size such as 20 GiB, or none"},
        {"limits: {sessions: none}\n",
         "line 1: 'sessions': 'none' is not a whole number from 1 to 1000000"},
        {"log: xml\n", "line 1: 'log': 'xml' is not a format (known: text, json)"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_config config;
        char expected[700];
        snprintf(expected, sizeof expected, "'%s', %s", path_in(f, "prony.yaml"), cases[i].fault);
        if (parse(f, cases[i].text, NULL, &config) != PRONY_EFORMAT)
            fail_msg("not refused: %s", cases[i].text);
        assert_string_equal(f->err.text, expected);
    }
}

static void test_tls_files(void **state)
{
    struct fixture *f = *state;
    struct prn_config config = good(f, "tls: {certificate: tls/cert.pem, key: tls/key.pem}\n");
    char *certificate = NULL;
    char *key = NULL;
    assert_int_equal(prn_config_read_tls(&config, &certificate, &key, &f->err), 0);
    assert_contains(certificate, "BEGIN CERTIFICATE");
    assert_contains(key, "PRIVATE KEY");
    free(certificate);
    free(key);
    /* Between two reloads the files may become anything. */
    assert_int_equal(truncate(config.tls_certificate, 100), 0);
    assert_int_equal(prn_config_read_tls(&config, &certificate, &key, &f->err), PRONY_EFORMAT);
    assert_contains(f->err.text, "cert.pem' holds no certificate in PEM format");
    assert_int_equal(unlink(config.tls_certificate), 0);
    assert_int_equal(prn_config_read_tls(&config, &certificate, &key, &f->err), PRONY_ENOENT);
    prn_config_release(&config);
}

static void test_tls_pair(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *certificate, *key, *fault;
    } cases[] = {
        {"tls/cert.pem", "tls/other.pem", "does not match the certificate in"},
        {"tls/key.pem", "tls/key.pem", "key.pem' holds no certificate in PEM format"},
        {"tls/cert.pem", "tls/cert.pem", "cert.pem' holds no key in PEM format without a password"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_config config;
        char text[200];
        snprintf(text, sizeof text, "tls: {certificate: %s, key: %s}\n", cases[i].certificate,
                 cases[i].key);
        assert_int_equal(parse(f, text, NULL, &config), PRONY_EFORMAT);
        assert_contains(f->err.text, "line 1: 'tls': ");
        assert_contains(f->err.text, cases[i].fault);
    }
    /* A key with a password fails without asking for it. */
    EVP_PKEY *key = EVP_EC_gen("P-256");
    FILE *file = fopen(path_in(f, "tls/other.pem"), "w");
    assert_non_null(file);
    unsigned char password[] = "password";
    assert_int_equal(PEM_write_PrivateKey(file, key, EVP_aes_128_cbc(), password, 8, NULL, NULL),
                     1);
    fclose(file);
    EVP_PKEY_free(key);
    struct prn_config config;
    assert_int_equal(
        parse(f, "tls: {certificate: tls/cert.pem, key: tls/other.pem}\n", NULL, &config),
        PRONY_EFORMAT);
    assert_contains(f->err.text, "holds no key in PEM format without a password");
}

static void test_options(void **state)
{
    struct fixture *f = *state;
    static const char *const listen[] = {"0.0.0.0:1", "127.0.0.1:2"};
    char certificate[200];
    char key[200];
    snprintf(certificate, sizeof certificate, "%s", path_in(f, "tls/cert.pem"));
    snprintf(key, sizeof key, "%s", path_in(f, "tls/key.pem"));
    struct prn_serve_options options = {.listen = listen,
                                        .n_listen = 2,
                                        .http = "0.0.0.0:3",
                                        .tls_certificate = certificate,
                                        .tls_key = key,
                                        .python = "python3",
                                        .state_folder = "here",
                                        .log_format = "json"};
    struct prn_config config;
    assert_int_equal(parse(f,
                           "listen: bad but replaced\nhttp: bad too\nstate: there\nlog: text\n"
                           "python: /other\n"
                           "tls: {certificate: /nowhere}\n",
                           &options, &config),
                     0);
    assert_int_equal(config.n_listen, 2);
    assert_string_equal(config.listen[0].text, "0.0.0.0:1");
    assert_true(config.listen[0].tls);
    assert_string_equal(config.http, "0.0.0.0:3");
    assert_string_equal(config.python, "python3");
    assert_string_equal(config.state_folder, "here");
    assert_string_equal(config.log_format, "json");
    prn_config_release(&config);

    static const struct {
        struct prn_serve_options options;
        const char *fault;
    } cases[] = {
        {{.listen = listen, .n_listen = 1},
         "--listen: '0.0.0.0:1' is reached from other machines, so it needs a certificate and a "
         "key; without them only loopback is served, such as 127.0.0.1:0"},
        {{.http = "[::]:"},
         "--http: bad address '[::]:': the port is not a number from 0 to 65535"},
        {{.tls_key = "x"}, "--tls-cert, --tls-key: a key without a certificate"},
        {{.tls_key = "/nowhere/x", .tls_certificate = "/nowhere/x"},
         "--tls-cert, --tls-key: cannot open '/nowhere/x': No such file or directory"},
        {{.log_format = "xml"}, "--log-format: 'xml' is not text or json"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        assert_int_equal(prn_config_load(&cases[i].options, &config, &f->err), PRONY_EUSAGE);
        assert_string_equal(f->err.text, cases[i].fault);
    }
}

static void test_file(void **state)
{
    struct fixture *f = *state;
    FILE *file = fopen(path_in(f, "prony.yaml"), "w");
    assert_non_null(file);
    fputs("state: states\n", file);
    fclose(file);
    char path[200];
    snprintf(path, sizeof path, "%s", path_in(f, "prony.yaml"));
    struct prn_serve_options options = {.config_file = path};
    struct prn_config config;
    assert_int_equal(prn_config_load(&options, &config, &f->err), 0);
    assert_string_equal(config.state_folder, path_in(f, "states"));
    prn_config_release(&config);
    options.config_file = "/nowhere/prony.yaml";
    assert_int_equal(prn_config_load(&options, &config, &f->err), PRONY_ENOENT);
    assert_int_equal(prn_config_parse("state: a", 8, "x.yaml", NULL, &config, &f->err), 0);
    assert_string_equal(config.state_folder, "a");
    prn_config_release(&config);
    assert_int_equal(prn_config_parse("state: a", 8, "/x.yaml", NULL, &config, &f->err), 0);
    assert_string_equal(config.state_folder, "/a");
    prn_config_release(&config);
}

static void test_addresses(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good, local, socket_file;
    } cases[] = {
        {"127.0.0.1:0", true, true, false},
        {"127.255.0.1:65535", true, true, false},
        {"128.0.0.1:1", true, false, false},
        {"0.0.0.0:1", true, false, false},
        {"[::1]:1", true, true, false},
        {"[::]:1", true, false, false},
        {"[::ffff:127.0.0.1]:1", true, true, false},
        {"[::ffff:10.0.0.1]:1", true, false, false},
        {"localhost:1", true, true, false},
        {"localhost.example.org:1", true, false, false},
        {"unix:/run/x", true, true, true},
        {"unix:x", false, false, false},
        {"", false, false, false},
        {":1", false, false, false},
        {"1", false, false, false},
        {"a:", false, false, false},
        {"a:65536", false, false, false},
        {"a:-1", false, false, false},
        {"a:1x", false, false, false},
        {"::1", false, false, false},
        {"::1:80", false, false, false},
        {"[::1]", false, false, false},
        {"[]:1", false, false, false},
        {"[127.0.0.1]:1", false, false, false},
        {"[:1", false, false, false},
        {"127.1:1", false, false, false},
        {"256.0.0.1:1", false, false, false},
        {"a b:1", false, false, false},
        {"a/b:1", false, false, false},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(cases); i++) {
        struct prn_address address = {0};
        const char *fault = prn_address_parse(cases[i].text, &address);
        if (!fault != cases[i].good)
            fail_msg("'%s': %s", cases[i].text, fault ? fault : "not refused");
        assert_int_equal(address.local, cases[i].local);
        assert_int_equal(address.socket_file, cases[i].socket_file);
    }
    struct prn_address address;
    char name[400] = "unix:/";
    memset(name + 6, 'a', 150);
    assert_string_equal(prn_address_parse(name, &address), "the path of a socket is too long");
    memset(name, 'a', 300);
    memcpy(name + 300, ":1", 3);
    assert_string_equal(prn_address_parse(name, &address), "the host's name is too long");
}

/* ---- Reload ---- */

/* "restart|live: text" line by line. */
static void expect_changes(struct fixture *f, const char *before_text, const char *after_text,
                           const char *expected)
{
    struct prn_config before = good(f, before_text);
    struct prn_config after = good(f, after_text);
    struct prn_arena arena = PRN_ARENA_INIT(1 << 20);
    struct prn_config_change *changes = NULL;
    size_t n = 0;
    struct prn_buffer lines = PRN_BUFFER_INIT(1 << 16);
    assert_int_equal(prn_config_compare(&before, &after, &arena, &changes, &n, &f->err), 0);
    for (size_t i = 0; i < n; i++)
        prn_buffer_printf(&lines, "%s: %s\n", changes[i].restart ? "restart" : "live",
                          changes[i].text);
    assert_string_equal(prn_buffer_text(&lines), expected);
    /* What needs a restart holds until then, so the next reload compares with that. */
    prn_config_keep(&before, &after);
    assert_int_equal(prn_config_compare(&before, &after, &arena, &changes, &n, &f->err), 0);
    for (size_t i = 0; i < n; i++)
        assert_false(changes[i].restart);
    prn_buffer_release(&lines);
    prn_arena_release(&arena);
    prn_config_release(&before);
    prn_config_release(&after);
}

static void test_reload(void **state)
{
    struct fixture *f = *state;
    expect_changes(f, "", "listen: 127.0.0.1:0\nlease: 30\n", "");
    expect_changes(f, "listen: [127.0.0.1:1, 127.0.0.1:2]\n",
                   "listen: [127.0.0.1:2, '[::1]:3']\nhttp: 127.0.0.1:9\n",
                   "restart: listen: [::1]:3 is new\n"
                   "restart: listen: 127.0.0.1:1 is gone\n"
                   "restart: http: 127.0.0.1:9 instead of none\n");
    expect_changes(f, "", "tls: {certificate: tls/cert.pem, key: tls/key.pem}\n",
                   "restart: tls: turned on\n"
                   "live: quota.default: 128 instead of none\n"
                   "live: quota.waiting: 50 instead of none\n");
    expect_changes(f, "tls: {certificate: tls/cert.pem, key: tls/key.pem}\n", "",
                   "restart: tls: turned off\n"
                   "live: quota.default: none instead of 128\n"
                   "live: quota.waiting: none instead of 50\n");
    char expected[400];
    snprintf(expected, sizeof expected,
             "live: tls.certificate: %s/./tls/cert.pem instead of %s/tls/cert.pem\n", f->folder,
             f->folder);
    expect_changes(f, "tls: {certificate: tls/cert.pem, key: tls/key.pem}\n",
                   "tls: {certificate: ./tls/cert.pem, key: tls/key.pem}\n", expected);
    expect_changes(
        f, "pools: [{name: a, count: 1, software: [onnxrt-cpu, torch-eager-cpu]}, {name: b}]\n",
        "pools: [{name: a, count: 2, usd_per_hour: 0.5, processor: P,"
        " software: [torch-eager-cpu, onnxrt-cuda]}, {name: c}]\n",
        "live: pool 'a': processor 'P' instead of ''\n"
        "live: pool 'a': usd_per_hour 0.5 instead of not known\n"
        "live: pool 'a': other software\n"
        "live: pool 'a': count 2 instead of 1\n"
        "live: pool 'c' is new\n"
        "live: pool 'b' is gone\n");
    expect_changes(f, SLURM "  partition: p\n  time: 1h\n  hosts: 2\n",
                   SLURM "  constraint: c\n  time: 2h\n  hosts: 3\n  options: --mem=1\n"
                         "  environment: {A: b}\n",
                   "live: pool 'a': partition '' instead of 'p'\n"
                   "live: pool 'a': constraint 'c' instead of ''\n"
                   "live: pool 'a': time 7200 s instead of 3600 s\n"
                   "live: pool 'a': hosts 3 instead of 2\n"
                   "live: pool 'a': other options\n"
                   "live: pool 'a': another environment\n");
    expect_changes(f, SLURM, "pools: [{name: a, software: onnxrt-cpu}]\n",
                   "live: pool 'a': type local instead of slurm\n");
    expect_changes(f, "pools: [{name: a, software: [onnxrt-cpu, torch-eager-cpu]}]\n",
                   "pools: [{name: a, software: [torch-eager-cpu, onnxrt-cpu]}]\n", "");
    expect_changes(
        f, "presets: {a: local/onnxrt-cpu, b: local/torch-eager-cpu, c: local/torch-eager-cpu}\n",
        "presets: {d: local/onnxrt-cpu, b: local/torch-eager-cuda, c: local/torch-eager-cpu}\n",
        "live: preset 'd' is new\n"
        "live: preset 'b' has other backends\n"
        "live: preset 'a' is gone\n");
    expect_changes(f, "quota: {default: 4, users: {ann: 4, bob: 7}}\n",
                   "quota: {users: {ann: 5}}\n",
                   "live: quota.default: none instead of 4\n"
                   "live: quota of 'ann': 5 instead of 4\n"
                   "live: quota of 'bob': none instead of 7\n");
    expect_changes(f, "queue: fair\nfair: {shares: {ann: 2, bob: 3}, priorities: {ann: 1}}\n",
                   "fair: {window: 1h, shares: {ann: 4}, priorities: {cid: -2}}\n",
                   "live: queue: first-come instead of fair\n"
                   "live: fair.window: 3600 s instead of 86400 s\n"
                   "live: share of 'ann': 4 instead of 2\n"
                   "live: share of 'bob': 1 instead of 3\n"
                   "live: priority of 'cid': -2 instead of 0\n"
                   "live: priority of 'ann': 0 instead of 1\n");
    expect_changes(f, "",
                   "lease: 1m\npython: /p\nstate: /s\ncache: {folder: /c, size: 1 GiB}\nlog: json\n"
                   "limits: {message: 1 MiB, model: 1 MiB, session_memory: 2 MiB,"
                   " run_timeout: 1s, sessions: 1, models_per_session: 2}\n",
                   "live: lease: 60.0 s instead of 30.0 s\n"
                   "restart: python: /p instead of as PRONY_PYTHON says\n"
                   "restart: state: /s instead of the user's own\n"
                   "restart: cache.folder: /c instead of in the state folder\n"
                   "live: cache.size: 1.00 GiB instead of 20.0 GiB\n"
                   "restart: limits.message: 1.00 MiB instead of 1.00 GiB\n"
                   "live: limits.model: 1.00 MiB instead of 16.0 GiB\n"
                   "live: limits.session_memory: 2.00 MiB instead of none\n"
                   "live: limits.run_timeout: 1.00 s instead of 600 s\n"
                   "live: limits.sessions: 1 instead of 10,000\n"
                   "live: limits.models_per_session: 2 instead of 1,000\n"
                   "restart: log: json instead of text\n");
}

/* ---- The reference ---- */

static char *read_reference(void)
{
    char path[4200];
    const char *data = unit_data("");
    snprintf(path, sizeof path, "%s../../docs/serve-config.md", data);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    struct prn_buffer text = PRN_BUFFER_INIT(1 << 20);
    assert_int_equal(prn_buffer_read_fd(&text, fileno(file), path, NULL), 0);
    fclose(file);
    return prn_buffer_detach(&text);
}

static void test_reference_examples(void **state)
{
    struct fixture *f = *state;
    char *page = read_reference();
    static const char opening[] = "```yaml\n";
    size_t n = 0;
    for (char *at = page; (at = strstr(at, opening)); n++) {
        at += strlen(opening);
        char *end = strstr(at, "```");
        assert_non_null(end);
        *end = '\0';
        struct prn_config config = good(f, at);
        if (n == 0)
            check_defaults(&config);
        prn_config_release(&config);
        at = end + 1;
    }
    assert_true(n >= 7);
    free(page);
}

/* Every key that the reader knows has its row. The reader lists them when it meets another. */
static void test_reference_is_complete(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *text, *prefix;
    } maps[] = {{"? ", ""},
                {"tls: {? }", "tls."},
                {"quota: {? }", "quota."},
                {"cache: {? }", "cache."},
                {"limits: {? }", "limits."},
                {"pools: [{name: a, ? }]", ""}};
    static const char *const sections[] = {"tls", "pools", "presets", "quota", "cache", "limits"};
    char *page = read_reference();
    for (size_t i = 0; i < PRN_ARRAY_SIZE(maps); i++) {
        struct prn_config config;
        assert_int_equal(parse(f, maps[i].text, NULL, &config), PRONY_EFORMAT);
        char *rest = strstr(f->err.text, "(known: ");
        assert_non_null(rest);
        rest += strlen("(known: ");
        for (char *key = strtok_r(rest, ", )", &rest); key; key = strtok_r(NULL, ", )", &rest)) {
            char row[100];
            bool section = false;
            for (size_t k = 0; k < PRN_ARRAY_SIZE(sections); k++)
                section = section || strcmp(sections[k], key) == 0;
            snprintf(row, sizeof row, "`%s%s%s", maps[i].prefix, key,
                     strcmp(key, "users") == 0 ? "." : "`");
            if (!section)
                assert_contains(page, row);
        }
    }
    free(page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_defaults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_everything, setup, teardown),
        cmocka_unit_test_setup_teardown(test_faults, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tls_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tls_pair, setup, teardown),
        cmocka_unit_test_setup_teardown(test_options, setup, teardown),
        cmocka_unit_test_setup_teardown(test_file, setup, teardown),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test_setup_teardown(test_reload, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reference_examples, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reference_is_complete, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
