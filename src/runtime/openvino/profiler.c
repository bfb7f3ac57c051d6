#include "runtime/openvino/profiler.h"

#include "base/buffer.h"
#include "base/io.h"
#include "format/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define RUN_BYTES_MAX ((size_t)64 << 20) /* of one run's events */

enum { OV_NODE_EXECUTED = 2 }; /* a status of ov_profiling_info_t */

struct ov_profiler {
    int fd;
    int64_t origin_ns;
    int64_t begin_ns, end_ns; /* of the last run; end 0: there is nothing to write */
    bool any;                 /* an event was written */
    struct prn_buffer text;
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int ov_profiler_new(const char *folder, struct ov_profiler **ret_profiler, struct prony_error *err)
{
    struct prn_buffer path = PRN_BUFFER_INIT(8192);
    struct ov_profiler *p = calloc(1, sizeof *p);
    if (!p)
        return prn_fail_memory(err);
    p->text = (struct prn_buffer)PRN_BUFFER_INIT(RUN_BYTES_MAX);
    p->origin_ns = now_ns();
    prn_buffer_printf(&path, "%s/openvino.json", folder);
    p->fd = open(prn_buffer_text(&path), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    int code = p->fd < 0 ? prn_fail_errno(err, errno, "create", prn_buffer_text(&path)) : 0;
    prn_buffer_release(&path);
    if (code < 0) {
        free(p);
        return code;
    }
    *ret_profiler = p;
    return 0;
}

void ov_profiler_free(struct ov_profiler *p)
{
    if (!p)
        return;
    close(p->fd);
    prn_buffer_release(&p->text);
    free(p);
}

void ov_profiler_begin(struct ov_profiler *p)
{
    p->begin_ns = now_ns();
}

void ov_profiler_end(struct ov_profiler *p)
{
    p->end_ns = now_ns();
}

/* µs with the fraction that ns leave. */
static void add_us(struct prn_buffer *out, const char *key, int64_t ns)
{
    prn_buffer_printf(out, ",\"%s\":%lld.%03d", key, (long long)(ns / 1000), (int)(ns % 1000));
}

static void add_event(struct ov_profiler *p, const char *category, int64_t start_ns, int64_t ns)
{
    prn_buffer_printf(&p->text, "%s{\"cat\":\"%s\",\"pid\":1,\"tid\":1", p->any ? ",\n" : "[\n",
                      category);
    add_us(&p->text, "dur", ns);
    add_us(&p->text, "ts", start_ns - p->origin_ns);
    prn_buffer_add(&p->text, ",\"ph\":\"X\",\"name\":");
    p->any = true;
}

static void add_nodes(struct ov_profiler *p, const ov_profiling_info_list_t *list)
{
    int64_t at_ns = p->begin_ns;
    struct prn_buffer name = PRN_BUFFER_INIT((size_t)1 << 20);
    for (size_t i = 0; i < list->size; i++) {
        const ov_profiling_info_t *node = &list->profiling_infos[i];
        if (node->status != OV_NODE_EXECUTED || node->real_time < 0)
            continue;
        prn_buffer_clear(&name);
        prn_buffer_printf(&name, "%s_kernel_time", node->node_name);
        add_event(p, "Node", at_ns, node->real_time * 1000);
        prn_json_quote(&p->text, prn_buffer_text(&name));
        prn_buffer_add(&p->text, ",\"args\":{\"op_name\":");
        prn_json_quote(&p->text, node->node_type);
        prn_buffer_add(&p->text, ",\"provider\":");
        prn_json_quote(&p->text, node->exec_type);
        prn_buffer_add(&p->text, "}}");
        at_ns += node->real_time * 1000;
    }
    prn_buffer_release(&name);
}

static int flush(struct ov_profiler *p, struct prony_error *err)
{
    int code = prn_buffer_error(&p->text, err);
    if (code == 0 && prn_write_all(p->fd, prn_buffer_text(&p->text), p->text.len) < 0)
        code = prn_fail_errno(err, errno, "write", "the profile");
    prn_buffer_clear(&p->text);
    return code;
}

int ov_profiler_write(struct ov_profiler *p, const struct ov_api *api,
                      const ov_infer_request_t *request, struct prony_error *err)
{
    ov_profiling_info_list_t list = {0};
    if (p->end_ns == 0)
        return 0;
    if (api->ov_infer_request_get_profiling_info(request, &list) != 0)
        return prn_fail(err, PRONY_ERUNTIME, "OpenVINO gives no counters: %s",
                        api->ov_get_last_err_msg());
    add_nodes(p, &list);
    api->ov_profiling_info_list_free(&list);
    add_event(p, "Session", p->begin_ns, p->end_ns - p->begin_ns);
    prn_buffer_add(&p->text, "\"model_run\",\"args\":{}}");
    p->end_ns = 0;
    return flush(p, err);
}

int ov_profiler_finish(struct ov_profiler *p, struct prony_error *err)
{
    prn_buffer_add(&p->text, p->any ? "\n]\n" : "[]\n");
    return flush(p, err);
}
