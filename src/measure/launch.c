#include "measure/launch.h"

#include "base/io.h"

#include <errno.h>
#include <unistd.h>

#define MEMORY_SHARE 0.9 /* of what is available */

static int64_t most_bytes = INT64_MAX;

void prn_launch_limit_memory(int64_t bytes)
{
    most_bytes = bytes;
}

int64_t prn_launch_memory(void)
{
    int64_t bytes = (int64_t)((double)prn_memory_available() * MEMORY_SHARE);
    return bytes > 0 && bytes < most_bytes ? bytes : most_bytes < INT64_MAX ? most_bytes : bytes;
}

static const struct prn_model_file *model_of(const struct prn_launch_config *config)
{
    return &config->request->models[config->point];
}

int prn_launch_open(const struct prn_launch_config *config, struct prn_executor **ret_executor,
                    struct prony_error *err)
{
    const struct prn_measure_request *q = config->request;
    struct prn_executor_config process = {
        .program = q->program,
        .inputs_fd = q->inputs[config->point].fd,
        .timeout_s = q->timeout_s,
        .memory_bytes = config->memory_bytes,
        .file_bytes = config->file_bytes,
        .cancelled = q->cancelled,
    };
    struct prn_runtime_config runtime = {
        .software = config->backend->software,
        .options = config->backend->options,
        .n_options = config->backend->n_options,
        .profile_folder = config->profile_folder,
    };
    struct prn_executor *executor = NULL;
    int code = prn_executor_spawn(&process, &executor, err);
    if (code == 0)
        code = prn_executor_open(executor, &runtime, model_of(config)->path,
                                 model_of(config)->folder, err);
    if (code == 0)
        *ret_executor = executor;
    else
        prn_executor_free(executor);
    return code;
}

static int write_made(int fd, const char *name, void *context, struct prony_error *err)
{
    const int *made_fd = context;
    char piece[65536];
    ssize_t n;
    for (off_t at = 0; (n = pread(*made_fd, piece, sizeof piece, at)) > 0; at += n)
        if (prn_write_all(fd, piece, (size_t)n) < 0)
            return prn_fail_errno(err, errno, "write", name);
    return n < 0 ? prn_fail_errno(err, errno, "read", "the optimised model") : 0;
}

/* The executor can't write files: prony does, the file as a whole. */
static int save_optimised(const struct prn_launch_config *config, struct prn_executor *executor,
                          struct prony_error *err)
{
    const char *path = prn_spec_option(config->backend, "save_optimised");
    int fd = prn_executor_take_made(executor);
    int code = 0;
    if (path && fd < 0)
        code = prn_fail(err, PRONY_ERUNTIME, "the runtime saved no optimised model");
    if (path && fd >= 0) {
        struct prn_buffer temporary = PRN_BUFFER_INIT(8192);
        prn_buffer_printf(&temporary, "%s.%ld.tmp", path, (long)getpid());
        code = prn_buffer_error(&temporary, err);
        if (code == 0)
            code =
                prn_write_and_rename(path, prn_buffer_text(&temporary), 0666, write_made, &fd, err);
        prn_buffer_release(&temporary);
    }
    if (fd >= 0)
        close(fd);
    return code;
}

int prn_launch_load(const struct prn_launch_config *config, struct prn_executor *executor,
                    struct prn_launch *launch, struct prony_error *err)
{
    const struct prn_inputs *inputs = &config->request->inputs[config->point];
    size_t n = 0;
    launch->baseline_bytes = prn_executor_resident(executor);
    int code = prn_executor_load(executor, model_of(config)->path, &launch->load_ns, err);
    if (code == 0)
        code = prn_executor_bind(executor, inputs->places, inputs->n, err);
    if (code == 0)
        code = save_optimised(config, executor, err);
    if (code == 0)
        code = prn_executor_run(executor, 0, 1, 0, &launch->first_run_ns, &n, err);
    return code;
}
