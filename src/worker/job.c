#include "worker/job_parts.h"

#include "base/clock.h"
#include "base/io.h"
#include "exec/executor.h"
#include "measure/launch.h"
#include "measure/resume.h"
#include "report/load/json.h"
#include "report/profile/json.h"
#include "report/progress_json.h"
#include "instance/names.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define ARENA_BYTES ((size_t)16 << 20)
#define PROGRESS_NS 100000000 /* between two reports of progress */
#define TIMEOUT_DEFAULT_S 120
#define TIMEOUT_MOST_S 1e6

/* ---- Messages ---- */

int prn_job_send(int fd, const ProtobufCMessage *message, struct prony_error *err)
{
    size_t length = protobuf_c_message_get_packed_size(message);
    if (length > PRN_JOB_MESSAGE_MAX)
        return prn_fail(err, PRONY_ELIMIT, "a message of %zu bytes is too long", length);
    uint8_t *data = malloc(length + 4);
    if (!data)
        return prn_fail_memory(err);
    for (unsigned i = 0; i < 4; i++)
        data[i] = (uint8_t)(length >> (8 * i));
    protobuf_c_message_pack(message, data + 4);
    int code = prn_write_all(fd, data, length + 4) == 0 ? 0 : PRONY_EIO;
    free(data);
    return code < 0 ? prn_fail_errno(err, errno, "write", "a message") : 0;
}

/* Returns the number of bytes before the end of the stream, or -1. */
static ssize_t read_all(int fd, uint8_t *data, size_t length)
{
    size_t done = 0;
    while (done < length) {
        ssize_t n = read(fd, data + done, length - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (n == 0)
            break;
        done += (size_t)n;
    }
    return (ssize_t)done;
}

int prn_job_receive(int fd, int timeout_ms, const ProtobufCMessageDescriptor *type,
                    ProtobufCMessage **ret_message, struct prony_error *err)
{
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    uint8_t head[4];
    int ready = poll(&wait, 1, timeout_ms);
    if (ready <= 0)
        return prn_fail(err, PRONY_ETIMEDOUT, "nothing came");
    if (read_all(fd, head, sizeof head) != sizeof head)
        return prn_fail(err, PRONY_ENOENT, "the other side is gone");
    size_t length = 0;
    for (unsigned i = 0; i < 4; i++)
        length |= (size_t)head[i] << (8 * i);
    if (length > PRN_JOB_MESSAGE_MAX)
        return prn_fail(err, PRONY_ELIMIT, "a message of %zu bytes is too long", length);
    uint8_t *data = malloc(length + 1);
    if (!data)
        return prn_fail_memory(err);
    int code = read_all(fd, data, length) == (ssize_t)length
                   ? 0
                   : prn_fail(err, PRONY_ENOENT, "the other side is gone");
    ProtobufCMessage *message =
        code == 0 ? protobuf_c_message_unpack(type, NULL, length, data) : NULL;
    free(data);
    if (code == 0 && !message)
        code = prn_fail(err, PRONY_EFORMAT, "malformed message");
    if (code == 0)
        *ret_message = message;
    return code;
}

/* ---- What is told meanwhile ---- */

static int send_event(Prony__MeasureEvent *event, struct prony_error *err)
{
    return prn_job_send(PRN_JOB_FD, &event->base, err);
}

void prn_job_tell_progress(void *context, const struct prn_progress *p)
{
    struct prn_job_told *told = context;
    int64_t now = prn_clock_ns();
    if (told->progress_ns && now - told->progress_ns < PROGRESS_NS)
        return;
    told->progress_ns = now;
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)64 << 10);
    Prony__MeasureEvent event = PRONY__MEASURE_EVENT__INIT;
    if (prn_progress_write_json(p, &out, NULL) == 0)
        event.progress = out.data;
    if (event.progress && send_event(&event, NULL) < 0)
        _exit(1); /* nobody listens any more */
    prn_buffer_release(&out);
}

/* Removes a text wherever it stands. */
static void cut(struct prn_buffer *b, const char *text)
{
    size_t length = strlen(text);
    char *to = b->data;
    const char *from = b->data;
    for (const char *at; length > 0 && (at = strstr(from, text)); from = at + length) {
        memmove(to, from, (size_t)(at - from));
        to += at - from;
    }
    size_t rest = strlen(from);
    memmove(to, from, rest + 1);
    b->len = (size_t)(to - b->data) + rest;
}

/* The folders of this machine are nobody else's business; names of files are kept. */
static void hide_folders(const struct prn_job_told *told, const struct prn_profile *profile,
                         struct prn_buffer *json)
{
    cut(json, told->folder);
    for (size_t i = 0; i < profile->n_results; i++) {
        char folder[PATH_MAX];
        const char *library = profile->results[i].runtime_library;
        const char *slash = library ? strrchr(library, '/') : NULL;
        if (!slash || slash - library >= PATH_MAX - 1)
            continue;
        memcpy(folder, library, (size_t)(slash - library) + 1);
        folder[slash - library + 1] = '\0';
        cut(json, folder);
    }
}

static int write_profile(const struct prn_job_told *told, const struct prn_profile *profile,
                         struct prn_buffer *out, struct prony_error *err)
{
    int code = prn_profile_write_json(profile, out, err);
    if (code == 0)
        hide_folders(told, profile, out);
    return code;
}

static ProtobufCBinaryData as_bytes(const struct prn_buffer *b)
{
    return (ProtobufCBinaryData){.len = b->len, .data = (uint8_t *)b->data};
}

void prn_job_tell_checkpoint(const struct prn_buffer *text)
{
    Prony__MeasureEvent event = PRONY__MEASURE_EVENT__INIT;
    event.has_checkpoint = 1;
    event.checkpoint = as_bytes(text);
    if (send_event(&event, NULL) < 0)
        _exit(1);
}

/* One that is too long to be sent is left out: it is only for the case that the result never comes.
 */
static void tell_checkpoint(void *context, const struct prn_profile *profile)
{
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_JOB_MESSAGE_MAX - 64);
    if (write_profile(context, profile, &out, NULL) == 0)
        prn_job_tell_checkpoint(&out);
    prn_buffer_release(&out);
}

/* ---- The job ---- */

static struct prn_texts texts(char *const *items, size_t n)
{
    return (struct prn_texts){(const char *const *)items, n};
}

/* Files must lie in the folder of the model, which is where this process is. */
static int check_file(const char *what, const char *name, struct prony_error *err)
{
    int code = prn_name_check(name, strlen(name), err);
    return code < 0 ? prn_fail_in(err, code, "%s", what) : 0;
}

static int check_files(const Prony__MeasureRequest *request, struct prony_error *err)
{
    int code = request->model_file ? check_file("the model", request->model_file, err)
                                   : prn_fail(err, PRONY_EUSAGE, "no file is named as the model");
    for (size_t i = 0; code == 0 && i < request->n_models; i++)
        code = check_file("a model", request->models[i]->file, err);
    if (code == 0 && request->inputs_folder)
        code = check_file("the folder of inputs", request->inputs_folder, err);
    /* A name may hold such signs too: whatever could be a file is looked at. */
    for (size_t i = 0; i < request->n_inputs; i++)
        for (const char *at = request->inputs[i]; code == 0 && (at = strstr(at, "=@")); at++)
            code = check_file("an input", at + 2, err);
    return code;
}

static int parse_settings(const Prony__MeasureRequest *request, struct prn_arena *arena,
                          struct prn_settings *ret_settings, struct prony_error *err)
{
    *ret_settings = (struct prn_settings){
        .seed = PRN_SEED_UNSET,
        .precision = NAN,
        .smallest_difference = NAN,
        .tolerance = NAN,
        .max_time_s = NAN,
        .warmups = -1,
    };
    return request->settings ? prn_settings_parse_json(request->settings, strlen(request->settings),
                                                       arena, ret_settings, err)
                             : 0;
}

int prn_job_read_settings(const Prony__MeasureRequest *request, struct prn_arena *arena,
                          struct prn_settings *ret_settings, struct prony_error *err)
{
    int code = parse_settings(request, arena, ret_settings, err);
    return code == 0 ? prn_resume_settings(NULL, ret_settings, err) : code;
}

static int read_settings(const Prony__MeasureRequest *request, struct prn_arena *arena,
                         struct prn_job *job, struct prony_error *err)
{
    int code = parse_settings(request, arena, &job->settings, err);
    if (code == 0 && request->load)
        code = prn_load_settings_parse_json(request->load, strlen(request->load), &job->load, err);
    if (code == 0)
        code = prn_resume_settings(job->resume, &job->settings, err);
    /* The reference may be another host's; then nobody here is believed more than others. */
    const char *reference = code == 0 ? job->settings.reference : NULL;
    size_t length = strlen(job->hardware);
    if (reference && strchr(reference, '/') &&
        (strncmp(reference, job->hardware, length) != 0 || reference[length] != '/'))
        job->settings.reference = NULL;
    return code;
}

/* Of a profile of several hosts, this one's part. */
static int read_resume(const Prony__MeasureRequest *request, const char *hardware,
                       struct prn_profile **ret_profile, struct prony_error *err)
{
    if (!request->has_resume)
        return 0;
    int code = prn_profile_parse_json((const char *)request->resume.data, request->resume.len,
                                      "the profile being resumed", ret_profile, err);
    if (code < 0)
        return code;
    prn_profile_keep_host(*ret_profile, hardware);
    return prn_resume_check(*ret_profile, "the profile being resumed", err);
}

static double timeout_of(const Prony__Job *order)
{
    const Prony__MeasureRequest *request = order->request;
    double asked = request->has_timeout_s ? request->timeout_s : TIMEOUT_DEFAULT_S;
    return order->has_timeout_s && order->timeout_s < asked ? order->timeout_s : asked;
}

/* What the operator allows holds for everything that runs in this process. */
static void limit(const Prony__Job *order)
{
    if (order->has_memory_bytes && order->memory_bytes <= INT64_MAX)
        prn_launch_limit_memory((int64_t)order->memory_bytes);
    if (order->has_timeout_s && timeout_of(order) == order->timeout_s)
        prn_executor_advise("the service allows no more (limits.run_timeout)");
}

/* The models by the names that their files have here. */
static int list_models(const Prony__MeasureRequest *request, struct prn_arena *arena,
                       struct prn_job *job, struct prony_error *err)
{
    size_t n = request->n_models > 0 ? request->n_models : 1;
    if (n > PRN_MODELS_MAX)
        return prn_fail(err, PRONY_ELIMIT, "%zu models are more than %d", n, PRN_MODELS_MAX);
    struct prn_job_model *models = PRN_ARENA_ARRAY(arena, n, struct prn_job_model);
    if (!models)
        return prn_fail_memory(err);
    models[0] = (struct prn_job_model){.path = request->model_file};
    for (size_t i = 0; i < request->n_models; i++)
        models[i] = (struct prn_job_model){.name = request->models[i]->name,
                                           .path = request->models[i]->file};
    job->models = models;
    job->n_models = n;
    return 0;
}

static int run_job(const Prony__Job *order, struct prn_job_told *told,
                   struct prn_profile **ret_profile, struct prony_error *err)
{
    const Prony__MeasureRequest *request = order->request;
    struct prn_arena arena = PRN_ARENA_INIT(ARENA_BYTES);
    struct prn_profile *resume = NULL;
    struct prn_job job = {
        .backends = texts(order->backends, order->n_backends),
        .dims = texts(request->dims, request->n_dims),
        .shapes = texts(request->shapes, request->n_shapes),
        .inputs = texts(request->inputs, request->n_inputs),
        .inputs_folder = request->inputs_folder,
        .hardware = order->hardware,
        .ops = request->ops,
        .timeout_s = timeout_of(order),
        .progress = prn_job_tell_progress,
        .checkpoint = tell_checkpoint,
        .context = told,
    };
    int code = list_models(request, &arena, &job, err);
    if (code == 0)
        code = read_resume(request, order->hardware, &resume, err);
    job.resume = resume;
    if (code == 0)
        code = read_settings(request, &arena, &job, err);
    if (code == 0)
        code = prn_job_run(&job, ret_profile, err);
    prn_profile_free(resume);
    prn_arena_release(&arena);
    return code;
}

/* What the service knows better, for who reads the result there: the client has its own. */
static void describe(const Prony__Job *order, struct prn_profile *profile)
{
    if (order->request->model_name)
        profile->models->path = order->request->model_name;
    for (size_t i = 0; i < order->request->n_models; i++)
        profile->models[i].path = order->request->models[i]->name;
    for (size_t i = 0; i < profile->n_results; i++) {
        struct prn_result *r = &profile->results[i];
        if (order->processor)
            r->processor = order->processor;
        if (order->has_usd_per_hour)
            r->usd_per_hour = order->usd_per_hour;
    }
}

static int measure_model(const Prony__Job *order, struct prn_job_told *told, struct prn_buffer *out,
                         struct prony_error *err)
{
    struct prn_profile *profile;
    int code = run_job(order, told, &profile, err);
    if (code < 0)
        return code;
    describe(order, profile);
    code = write_profile(told, profile, out, err);
    prn_profile_free(profile);
    return code;
}

static int worker_job_measure(const Prony__Job *order, struct prn_job_told *told,
                              struct prony_error *err)
{
    const Prony__MeasureRequest *request = order->request;
    struct prn_buffer out = PRN_BUFFER_INIT(PRN_JOB_MESSAGE_MAX - 64);
    Prony__MeasureEvent event = PRONY__MEASURE_EVENT__INIT;
    double timeout_s = timeout_of(order);
    limit(order);
    int code = check_files(request, err);
    if (code == 0 && !(timeout_s > 0 && timeout_s <= TIMEOUT_MOST_S))
        code = prn_fail(err, PRONY_EUSAGE, "the time limit is out of range");
    if (code == 0)
        code = request->pipeline ? prn_job_stage(order, timeout_s, &out, err)
               : request->layers ? prn_job_layers(order, told, timeout_s, &out, err)
                                 : measure_model(order, told, &out, err);
    if (code == PRONY_ELIMIT && prn_buffer_error(&out, NULL) < 0)
        prn_fail(err, code, "the result is too long to be sent; measure fewer repeats or points");
    if (code == 0) {
        event.has_result = 1;
        event.result = as_bytes(&out);
        code = send_event(&event, err);
    }
    prn_buffer_release(&out);
    return code;
}

static int tell_error(const struct prn_job_told *told, struct prony_error *why, bool aftermath,
                      struct prony_error *err)
{
    for (char *at; (at = strstr(why->text, told->folder));)
        memmove(at, at + strlen(told->folder), strlen(at + strlen(told->folder)) + 1);
    OctomlProfile__ErrorValue error = OCTOML_PROFILE__ERROR_VALUE__INIT;
    error.message = why->text;
    error.code = OCTOML_PROFILE__ERROR_CODE__ERROR_MODEL_INFERENCE;
    Prony__MeasureEvent event = PRONY__MEASURE_EVENT__INIT;
    event.error = &error;
    event.has_aftermath = aftermath;
    event.aftermath = aftermath;
    return send_event(&event, err);
}

int prn_job_main(struct prony_error *err)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTERM, SIG_IGN); /* the worker's to hear, which may let it finish */
    struct prn_job_told told = {0};
    ProtobufCMessage *message;
    if (!getcwd(told.folder, PATH_MAX))
        return prn_fail_errno(err, errno, "find", "this folder");
    strcat(told.folder, "/");
    int code = prn_job_receive(PRN_JOB_FD, 10000, &prony__job__descriptor, &message, err);
    if (code < 0)
        return prn_fail(err, PRONY_EUSAGE, "this command is for prony's own use");
    struct prony_error why = {0};
    code = worker_job_measure((const Prony__Job *)message, &told, &why);
    if (code < 0)
        code = tell_error(&told, &why, code == PRONY_ECANCELED, err);
    protobuf_c_message_free_unpacked(message, NULL);
    return code;
}
