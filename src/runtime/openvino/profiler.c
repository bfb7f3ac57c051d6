#include "runtime/openvino/profiler.h"

#include "base/clock.h"
#include "base/buffer.h"
#include "base/io.h"
#include "format/json.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TRACE_BYTES_MAX ((size_t)64 << 20)

enum { OV_NODE_EXECUTED = 2 }; /* a status of ov_profiling_info_t */

struct ov_profiler {
    int fd;
    int64_t start_ns;          /* of the run that goes on */
    int64_t runs, runs_before; /* in all, and before those that count */
    int64_t total_ns;          /* of the runs that count */
    double *averages_before;   /* of the nodes, in µs */
    size_t n_before;
};

int ov_profiler_new(const char *folder, struct ov_profiler **ret_profiler, struct prony_error *err)
{
    struct prn_buffer path = PRN_BUFFER_INIT(8192);
    struct ov_profiler *p = calloc(1, sizeof *p);
    if (!p)
        return prn_fail_memory(err);
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
    free(p->averages_before);
    free(p);
}

void ov_profiler_before_run(struct ov_profiler *p)
{
    p->start_ns = prn_clock_ns();
}

void ov_profiler_after_run(struct ov_profiler *p)
{
    p->total_ns += prn_clock_ns() - p->start_ns;
    p->runs++;
}

static int read_counters(const struct ov_api *api, const ov_infer_request_t *request,
                         ov_profiling_info_list_t *ret_list, struct prony_error *err)
{
    if (api->ov_infer_request_get_profiling_info(request, ret_list) != 0)
        return prn_fail(err, PRONY_ERUNTIME, "OpenVINO gives no counters: %s",
                        api->ov_get_last_err_msg());
    return 0;
}

int ov_profiler_begin(struct ov_profiler *p, const struct ov_api *api,
                      const ov_infer_request_t *request, struct prony_error *err)
{
    ov_profiling_info_list_t list = {0};
    int code = read_counters(api, request, &list, err);
    if (code < 0)
        return code;
    free(p->averages_before);
    p->averages_before = calloc(list.size + 1, sizeof *p->averages_before);
    p->n_before = list.size;
    for (size_t i = 0; p->averages_before && i < list.size; i++)
        p->averages_before[i] = (double)list.profiling_infos[i].real_time;
    api->ov_profiling_info_list_free(&list);
    p->runs_before = p->runs;
    p->total_ns = 0;
    return p->averages_before ? 0 : prn_fail_memory(err);
}

/* The mean of a node's time over the runs that count. */
static int64_t mean_ns(const struct ov_profiler *p, size_t index, int64_t average_us)
{
    double runs = (double)(p->runs - p->runs_before);
    double before = index < p->n_before ? p->averages_before[index] : 0;
    double sum_us = (double)p->runs * (double)average_us - (double)p->runs_before * before;
    return llround(fmax(0, 1000 * sum_us / runs));
}

/* µs with the fraction that ns leave. */
static void add_us(struct prn_buffer *out, const char *key, int64_t ns)
{
    prn_buffer_printf(out, ",\"%s\":%lld.%03d", key, (long long)(ns / 1000), (int)(ns % 1000));
}

static void add_event(struct prn_buffer *out, const char *category, int64_t at_ns, int64_t ns)
{
    prn_buffer_printf(out, "{\"cat\":\"%s\",\"pid\":1,\"tid\":1", category);
    add_us(out, "dur", ns);
    add_us(out, "ts", at_ns);
    prn_buffer_add(out, ",\"ph\":\"X\",\"name\":");
}

/* Writes the nodes that ran; returns where the last one ends. */
static int64_t add_nodes(const struct ov_profiler *p, const ov_profiling_info_list_t *list,
                         struct prn_buffer *out)
{
    int64_t at_ns = 0;
    struct prn_buffer name = PRN_BUFFER_INIT((size_t)1 << 20);
    for (size_t i = 0; i < list->size; i++) {
        const ov_profiling_info_t *node = &list->profiling_infos[i];
        if (node->status != OV_NODE_EXECUTED || node->real_time < 0)
            continue;
        int64_t ns = mean_ns(p, i, node->real_time);
        prn_buffer_clear(&name);
        prn_buffer_printf(&name, "%s_kernel_time", node->node_name);
        add_event(out, "Node", at_ns, ns);
        prn_json_quote(out, prn_buffer_text(&name));
        prn_buffer_add(out, ",\"args\":{\"op_name\":");
        prn_json_quote(out, node->node_type);
        prn_buffer_add(out, "}},\n");
        at_ns += ns;
    }
    prn_buffer_release(&name);
    return at_ns;
}

int ov_profiler_end(struct ov_profiler *p, const struct ov_api *api,
                    const ov_infer_request_t *request, struct prony_error *err)
{
    ov_profiling_info_list_t list = {0};
    struct prn_buffer out = PRN_BUFFER_INIT(TRACE_BYTES_MAX);
    if (p->runs == p->runs_before)
        return prn_fail(err, PRONY_ERUNTIME, "there was no run to profile");
    int code = read_counters(api, request, &list, err);
    if (code < 0)
        return code;
    prn_buffer_add(&out, "[\n");
    int64_t nodes_ns = add_nodes(p, &list, &out);
    api->ov_profiling_info_list_free(&list);
    int64_t run_ns = p->total_ns / (p->runs - p->runs_before);
    /* Averages of whole µs may add up to a little more than the run. */
    add_event(&out, "Session", 0, run_ns > nodes_ns ? run_ns : nodes_ns);
    prn_buffer_add(&out, "\"model_run\",\"args\":{}}\n]\n");
    code = prn_buffer_error(&out, err);
    if (code == 0 && prn_write_all(p->fd, prn_buffer_text(&out), out.len) < 0)
        code = prn_fail_errno(err, errno, "write", "the profile");
    prn_buffer_release(&out);
    return code;
}
