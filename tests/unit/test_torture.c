/*
 * Every allocation of an operation fails in turn (torture.h). The linker puts the functions there
 * in front of malloc and its kin for everything that is linked statically. Jansson isn't, and is
 * told in one place only: out of memory it may drop the end of a long text without a word. Zlib is
 * given an allocator by whoever uses it; zstd can't be.
 */
#include "torture.h"
#include "unit.h"

#include "base/arena.h"
#include "base/map.h"
#include "base/table.h"
#include "cli/command.h"
#include "format/json.h"
#include "format/yaml.h"
#include "measure/ops/ops.h"
#include "measure/resume.h"
#include "model/bindings.h"
#include "model/cut/cut.h"
#include "model/model.h"
#include "model/synth/synth.h"
#include "model/tensor/tensor.h"
#include "measure/load/tally.h"
#include "pipeline/device_types.h"
#include "pipeline/load.h"
#include "pipeline/models.h"
#include "record/region.h"
#include "report/layers/cuts.h"
#include "report/page.h"
#include "report/profile/json.h"
#include "report/profile/report.h"
#include "report/comparison/report.h"
#include "report/recorded/report.h"
#include "report/schedule/report.h"
#include "report/trace/report.h"
#include "spec/spec.h"
#include "trace/demangle.h"
#include "trace/select.h"
#include "trace/source.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static int write_table(enum prn_table_style style, struct prony_error *err)
{
    struct prn_table *t = prn_table_new();
    prn_table_column(t, "Name", PRN_TABLE_ALIGN_LEFT);
    prn_table_column(t, "Time", PRN_TABLE_ALIGN_RIGHT);
    prn_table_column(t, "a|b", PRN_TABLE_ALIGN_LEFT);
    for (int i = 0; i < 20; i++)
        prn_table_cell(t, "cell | \"%d\"", i);
    struct prn_buffer out = PRN_BUFFER_INIT(100000);
    int code = prn_table_write(t, style, &out, err);
    prn_buffer_release(&out);
    prn_table_free(t);
    return code;
}

static int table_text(struct prony_error *err)
{
    return write_table(PRN_TABLE_STYLE_TEXT, err);
}

static int table_markdown(struct prony_error *err)
{
    return write_table(PRN_TABLE_STYLE_MARKDOWN, err);
}

static int table_csv(struct prony_error *err)
{
    return write_table(PRN_TABLE_STYLE_CSV, err);
}

static int json_write(struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT(100000);
    struct prn_json_writer w = prn_json_writer_init(&out);
    prn_json_object(&w, NULL);
    prn_json_array_compact(&w, "samples_ns");
    for (int i = 0; i < 100; i++)
        prn_json_number(&w, NULL, i / 3.0);
    prn_json_end(&w);
    prn_json_end(&w);
    int code = prn_buffer_error(&out, err);
    char *text = prn_buffer_detach(&out);
    assert_int_equal(text == NULL, code < 0);
    free(text);
    return code;
}

static int json_parse(struct prony_error *err)
{
    static const char text[] = "{\"a\": [1, 2.5, \"three\", null, {\"b\": true}], \"c\": {}}";
    json_t *untouched = (json_t *)err;
    json_t *root = untouched;
    json_set_alloc_funcs(__wrap_malloc, free);
    int code = prn_json_parse(text, strlen(text), "text", &root, err);
    json_set_alloc_funcs(__real_malloc, free);
    if (code < 0)
        assert_ptr_equal(root, untouched);
    else
        json_decref(root);
    return code;
}

static int yaml_parse(struct prony_error *err)
{
    static const char text[] = "- name: a.large\n  usd_per_hour: 1.5\n- [x, y, {z: 1}]\n";
    struct prn_yaml *untouched = (struct prn_yaml *)err;
    struct prn_yaml *yaml = untouched;
    int code = prn_yaml_parse(text, strlen(text), "text", &yaml, err);
    if (code < 0)
        assert_ptr_equal(yaml, untouched);
    else
        prn_yaml_free(yaml);
    return code;
}

static int map_fill(struct prony_error *err)
{
    static char keys[200][8];
    struct prn_map m = PRN_MAP_INIT;
    int code = 0;
    size_t n = 0;
    for (; n < 200 && code == 0; n++) {
        snprintf(keys[n], sizeof keys[n], "%zu", n);
        code = prn_map_set(&m, keys[n], n);
    }
    /* What was in it before the failure is still there. */
    for (size_t i = 0; i + (code < 0) < n; i++)
        assert_int_equal(prn_map_get(&m, keys[i]), i);
    prn_map_release(&m);
    return code < 0 ? prn_fail_memory(err) : 0;
}

static int arena_fill(struct prony_error *err)
{
    struct prn_arena a = PRN_ARENA_INIT((size_t)1 << 20);
    int code = 0;
    for (size_t i = 0; i < 100 && code == 0; i++)
        if (!prn_arena_alloc(&a, 100 * i))
            code = prn_fail_memory(err);
    prn_arena_release(&a);
    return code;
}

static int parse_options(struct prony_error *err)
{
    static const struct prn_option table[] = {
        {.kind = PRN_OPTION_LIST, .letter = 'b', .name = "backend", .value = "SPEC"}, {0}};
    static const struct prn_command command = {
        .name = "x", .arguments = "FILE", .options = table, .max_arguments = 9};
    char words[][12] = {"-ba", "--backend=b", "file", "-b", "c", "other"};
    char *argv[PRN_ARRAY_SIZE(words)];
    for (size_t i = 0; i < PRN_ARRAY_SIZE(words); i++)
        argv[i] = words[i];
    struct prn_strings backends = {0};
    struct prn_strings arguments = {0};
    bool help;
    int code =
        prn_command_parse(&command, PRN_ARRAY_SIZE(words), argv, &backends, &arguments, &help, err);
    prn_command_release(&command, &backends, &arguments);
    return code;
}

static int spec_parse(struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_spec spec = {.name = "untouched"};
    int code = prn_spec_parse("local/onnxrt-cpu[threads=2,opt=all]", false, &arena, &spec, err);
    assert_string_equal(spec.name, code < 0 ? "untouched" : "local/onnxrt-cpu[threads=2,opt=all]");
    prn_arena_release(&arena);
    return code;
}

static int spec_expand(struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_named_spec *specs;
    size_t n = 7;
    int code =
        prn_spec_expand("new=onnxrt-cpu[threads=1|2,opt=off|all]", true, &arena, &specs, &n, err);
    assert_int_equal(n, code < 0 ? 7 : 4);
    prn_arena_release(&arena);
    return code;
}

static int sweep_parse(struct prony_error *err)
{
    static const char *const dims[] = {"batch=1,2", "seq=8"};
    static const char *const shapes[] = {"x=1x2,2x2"};
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_sweep sweep = {.n_points = 7};
    struct prn_bindings bindings;
    int code = prn_sweep_parse(dims, 2, shapes, 1, &arena, &sweep, err);
    assert_int_equal(sweep.n_points, code < 0 ? 7 : 4);
    if (code == 0)
        code = prn_sweep_bindings(&sweep, 3, &arena, &bindings, err);
    prn_arena_release(&arena);
    return code;
}

static int hardware_load(struct prony_error *err)
{
    struct prn_hardware_table table = {.n = 12345};
    int code = prn_hardware_load(NULL, &table, err);
    if (code < 0)
        assert_int_equal(table.n, 12345);
    else
        prn_hardware_release(&table);
    return code;
}

static const struct prn_synth_options small = {
    .batch = PRN_SYNTH_DYNAMIC, .hidden = 4, .layers = 2};
static char model_path[64];
static struct prn_model *opened_model;
static struct prn_buffer saved = {.limit = (size_t)16 << 20};
static struct prn_buffer saved_recording = {.limit = (size_t)16 << 20};
static struct prn_profile *parsed, *loaded, *recording, *long_recording, *swept;
static struct prn_profile *compared[2];

static int synth_write(struct prony_error *err)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    int code = prn_synth_write(prn_synth_find("mlp"), &small, fd, "null", err);
    close(fd);
    return code;
}

static int model_open(struct prony_error *err)
{
    struct prn_model *untouched = (struct prn_model *)err;
    struct prn_model *model = untouched;
    int code = prn_model_open(model_path, &model, err);
    if (code < 0)
        assert_ptr_equal(model, untouched);
    else
        prn_model_free(model);
    return code;
}

static int model_bind(struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_input *inputs = NULL;
    const struct prn_dim_binding dims[] = {{"batch", 3}};
    const struct prn_bindings bindings = {.n_dims = 1, .dims = dims};
    int code = prn_model_bind(opened_model, &bindings, &arena, &inputs, err);
    assert_int_equal(inputs == NULL, code < 0);
    prn_arena_release(&arena);
    return code;
}

/* Stored models, opened when they are first needed and then kept. */
static int analyse_stored(const char *name, struct prn_model **kept, struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_bindings none = {0};
    struct prn_input *inputs = NULL;
    struct prn_work *work = NULL;
    torture.armed = false;
    if (!*kept)
        assert_int_equal(prn_model_open(unit_data(name), kept, NULL), 0);
    assert_int_equal(prn_model_bind(*kept, &none, &arena, &inputs, NULL), 0);
    torture.armed = true;
    int code = prn_model_analyse(*kept, inputs, &work, err);
    assert_int_equal(work == NULL, code < 0);
    prn_work_free(work);
    prn_arena_release(&arena);
    return code;
}

static struct prn_model *control, *functions;

static int analyse_control(struct prony_error *err)
{
    return analyse_stored("control.onnx", &control, err);
}

static int analyse_functions(struct prony_error *err)
{
    return analyse_stored("functions.onnx", &functions, err);
}

/* Cuts a stored model, and writes and reports all layers. */
static int cut_stored(const char *name, struct prn_model **kept,
                      const struct prn_cut_options *options, struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_bindings none = {0};
    struct prn_buffer report = PRN_BUFFER_INIT(100000);
    struct prn_input *inputs = NULL;
    struct prn_work *work = NULL;
    struct prn_cuts *cuts = NULL;
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    torture.armed = false;
    if (!*kept)
        assert_int_equal(prn_model_open(unit_data(name), kept, NULL), 0);
    assert_int_equal(prn_model_bind(*kept, &none, &arena, &inputs, NULL), 0);
    assert_int_equal(prn_model_analyse(*kept, inputs, &work, NULL), 0);
    torture.armed = true;
    int code = prn_cuts_find(*kept, inputs, work, options, &cuts, err);
    assert_int_equal(cuts == NULL, code < 0);
    for (size_t i = 0; code == 0 && i <= cuts->n_layers; i++) {
        code = prn_cut_write(cuts, i, NULL, fd, "layer.onnx", err);
        if (code == 0)
            code = prn_cut_write_data(cuts, i, fd, "layer.onnx.data", err);
    }
    for (int format = 0; code == 0 && format < PRN_REPORT_FORMAT_HTML; format++)
        code = prn_cuts_report(*kept, cuts, (enum prn_report_format)format, &(struct prn_look){0},
                               &report, err);
    if (code == 0)
        code = prn_buffer_error(&report, err);
    torture.armed = false;
    prn_buffer_release(&report);
    prn_cuts_free(cuts);
    prn_work_free(work);
    prn_arena_release(&arena);
    close(fd);
    torture.armed = true;
    return code;
}

static struct prn_model *mlp, *external;

static int cut_auto(struct prony_error *err)
{
    return cut_stored("mlp.onnx", &mlp, &(struct prn_cut_options){0}, err);
}

static int cut_bodies(struct prony_error *err)
{
    static const char *const at[] = {"z"};
    return cut_stored("control.onnx", &control,
                      &(struct prn_cut_options){.patterns = at, .n_patterns = 1}, err);
}

static int cut_functions(struct prony_error *err)
{
    return cut_stored("functions.onnx", &functions, &(struct prn_cut_options){.n_layers = 1}, err);
}

static int cut_external(struct prony_error *err)
{
    return cut_stored("external.onnx", &external, &(struct prn_cut_options){.n_layers = 1}, err);
}

static int synth_describe(struct prony_error *err)
{
    struct prn_synth_facts facts;
    return prn_synth_describe(prn_synth_find("bert-base"), &(struct prn_synth_options){0}, &facts,
                              err);
}

/* ---- Tensors ---- */

static int tensor_read(struct prony_error *err)
{
    static const struct prn_input strings = {
        .name = "x", .dtype = PRN_DTYPE_STRING, .rank = 2, .dims = {1, 5}};
    static const char *const files[] = {"tensors/string.npy", "tensors/string.pb"};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(files); i++) {
        struct prn_tensor t = {0};
        int code = prn_tensor_read(unit_data(files[i]), &strings, &t, err);
        assert_int_equal(t.data == NULL, code < 0);
        prn_tensor_release(&t);
        if (code < 0)
            return code;
    }
    return 0;
}

static int tensor_fill(struct prony_error *err)
{
    static const struct prn_input floats = {
        .name = "x", .dtype = PRN_DTYPE_FLOAT16, .rank = 1, .dims = {5}};
    struct prn_tensor t = {0};
    int code = prn_tensor_fill(&floats, PRN_FILL_DEFAULT, 0, 0, &t, err);
    assert_int_equal(t.data == NULL, code < 0);
    prn_tensor_release(&t);
    return code;
}

/* ---- Traces ---- */

static int source_read(const void *data, size_t len, struct prony_error *err)
{
    struct prn_source *untouched = (struct prn_source *)err;
    struct prn_source *s = untouched;
    int code = prn_source_open_memory(data, len, 1, &s, err);
    if (code < 0) {
        assert_ptr_equal(s, untouched);
        return code;
    }
    size_t total = 0;
    size_t n = 0;
    do {
        char byte;
        code = prn_source_read(s, &byte, 1, &n, err);
        total += n;
    } while (code == 0 && n > 0);
    if (code == 0)
        assert_int_equal(total, 5);
    prn_source_close(s);
    return code;
}

static int source_plain(struct prony_error *err)
{
    return source_read("prony", 5, err);
}

static int source_gzip(struct prony_error *err)
{
    static const unsigned char data[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02,
                                         0x03, 0x2b, 0x28, 0xca, 0xcf, 0xab, 0x04, 0x00, 0x69,
                                         0x7c, 0xea, 0x6f, 0x05, 0x00, 0x00, 0x00};
    return source_read(data, sizeof data, err);
}

static int source_zstd(struct prony_error *err)
{
    static const unsigned char data[] = {0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x29, 0x00, 0x00,
                                         0x70, 0x72, 0x6f, 0x6e, 0x79, 0xeb, 0x3d, 0x25, 0xf0};
    return source_read(data, sizeof data, err);
}

static int demangle(struct prony_error *err)
{
    static const char *const names[] = {"_Z3fooi", "_Z3bari"};
    const char *readable[2] = {NULL, NULL};
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    int code = prn_demangle("c++filt", names, 2, 60000, &arena, readable, err);
    assert_int_equal(readable[0] == NULL, code < 0);
    assert_int_equal(readable[1] == NULL, code < 0);
    prn_arena_release(&arena);
    return code;
}

/* Two runs with shapes, kernels, an escaped name and a broken event, after a warm-up. */
static const char trace_text[] =
    "[{\"cat\":\"Session\",\"name\":\"model_run\",\"dur\":90,\"ts\":0,\"args\":{}},"
    "{\"cat\":\"Node\",\"name\":\"a\\u005fkernel_time\",\"dur\":9,\"ts\":110,\"args\":{\"op_name\":"
    "\"A\\u0064d\",\"provider\":\"CPU\",\"input_type_shape\":[{\"float\":[1,2]}]}},"
    "{\"cat\":\"Kernel\",\"name\":\"_Z3addPf\",\"dur\":4,\"ts\":111,\"args\":{\"op_name\":\"Add\","
    "\"block_x\":\"256\"}},"
    "{\"cat\":\"Session\",\"name\":\"SequentialExecutor::Execute\",\"dur\":80,\"ts\":105,"
    "\"args\":{}},"
    "{\"cat\":\"Session\",\"name\":\"model_run\",\"dur\":90,\"ts\":100,\"args\":{}},"
    "{\"cat\":\"Node\",\"name\":\"bro\"ken_kernel_time\",\"dur\":9,\"ts\":210,\"args\":{}},"
    "{\"cat\":\"Node\",\"name\":\"b_kernel_time\",\"dur\":9,\"ts\":210,\"args\":{\"op_name\":"
    "\"Mul\",\"provider\":\"CPU\",\"input_type_shape\":[{\"float\":[1,2]},{\"int64\":[]}]}},"
    "{\"cat\":\"Session\",\"name\":\"model_run\",\"dur\":90,\"ts\":200,\"args\":{}}]";

static struct prn_trace *trace; /* for what is made of one */

static int read_trace(struct prn_trace **ret_trace, struct prony_error *err)
{
    struct prn_trace_options options = {
        .runs = {.start = -2, .end = PRN_RUN_UNSET},
        .by = {PRN_TRACE_BY_OP | PRN_TRACE_BY_SHAPE, PRN_TRACE_BY_NODE},
        .kernel_shapes = true,
        .kernel_dimensions = true,
        .mapping = true,
        .recover = true};
    struct prn_source *source;
    int code = prn_source_open_memory(trace_text, sizeof trace_text - 1, 100, &source, err);
    if (code < 0)
        return code;
    struct prn_trace_files files = prn_trace_files_of(source);
    code = prn_trace_read(&files, &options, ret_trace, err);
    prn_source_close(source);
    return code;
}

static int trace_read(struct prony_error *err)
{
    struct prn_trace *untouched = (struct prn_trace *)err;
    struct prn_trace *t = untouched;
    int code = read_trace(&t, err);
    if (code < 0) {
        assert_ptr_equal(t, untouched);
    } else {
        assert_int_equal(t->counts.lost, 1);
        assert_int_equal(t->cpu[0].n, 2);
        assert_int_equal(t->cpu[1].total.ns, 18000);
        assert_int_equal(t->mapping.n, 1);
        prn_trace_free(t);
    }
    return code;
}

static int trace_compare(struct prony_error *err)
{
    struct prn_trace_comparison c = {0};
    int code = prn_trace_compare(trace, trace, &c, err);
    assert_int_equal(c.n[0], code < 0 ? 0 : 2);
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)1 << 20);
    struct prn_trace_report_options shown = {.count = 10, .width = 60};
    for (int format = PRN_TRACE_FORMAT_TEXT; code == 0 && format <= PRN_TRACE_FORMAT_MD; format++)
        code = prn_trace_comparison_write(&c, trace, trace, &shown, (enum prn_trace_format)format,
                                          &out, err);
    prn_buffer_release(&out);
    prn_trace_comparison_release(&c);
    return code;
}

static int trace_write(enum prn_trace_format format, struct prony_error *err)
{
    struct prn_trace_report_options shown = {.count = 10,
                                             .width = 60,
                                             .kernel_shapes = true,
                                             .kernel_dimensions = true,
                                             .mapping = true,
                                             .demangler = "a-demangler-that-isnt-there"};
    struct prn_trace_report *untouched = (struct prn_trace_report *)err;
    struct prn_trace_report *r = untouched;
    int code = prn_trace_report_new(trace, &shown, &r, err);
    if (code < 0) {
        assert_ptr_equal(r, untouched);
        return code;
    }
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)1 << 20);
    code = prn_trace_report_write(r, format, &out, err);
    for (int which = PRN_TRACE_CSV_CPU; code == 0 && which <= PRN_TRACE_CSV_MAPPING; which++)
        code = prn_trace_report_csv(r, (enum prn_trace_csv)which, &out, err);
    prn_buffer_release(&out);
    prn_trace_report_free(r);
    return code;
}

static int trace_report_text(struct prony_error *err)
{
    return trace_write(PRN_TRACE_FORMAT_TEXT, err);
}

static int trace_report_json(struct prony_error *err)
{
    return trace_write(PRN_TRACE_FORMAT_JSON, err);
}

/* ---- Profiles ---- */

static int parse(const struct prn_buffer *text, struct prony_error *err)
{
    struct prn_profile *profile = NULL;
    int code = prn_profile_parse_json(prn_buffer_text(text), text->len, "saved", &profile, err);
    assert_int_equal(profile == NULL, code < 0);
    prn_profile_free(profile);
    return code;
}

static int profile_parse(struct prony_error *err)
{
    return parse(&saved, err);
}

static int recording_parse(struct prony_error *err)
{
    return parse(&saved_recording, err);
}

static int report(enum prn_report_format format, struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
    int code = prn_profile_report(parsed, format, NULL, &out, err);
    prn_buffer_release(&out);
    return code;
}

static int report_text(struct prony_error *err)
{
    return report(PRN_REPORT_FORMAT_TEXT, err);
}

static int report_json(struct prony_error *err)
{
    return report(PRN_REPORT_FORMAT_JSON, err);
}

static int report_csv(struct prony_error *err)
{
    return report(PRN_REPORT_FORMAT_CSV, err);
}

static int report_markdown(struct prony_error *err)
{
    return report(PRN_REPORT_FORMAT_MARKDOWN, err);
}

/* What a page holds; without Node there is none to put it into. */
static int report_page(struct prony_error *err)
{
    struct prn_page page = PRN_PAGE_INIT;
    int code = prn_page_add_profile(&page, "profile.json", parsed, err);
    prn_page_release(&page);
    return code;
}

static int compare(enum prn_report_format format, struct prony_error *err)
{
    const struct prn_comparison_side sides[] = {{"before", compared[0]}, {"after", compared[1]}};
    const struct prn_compare_options options = {.fail_over = 0.05};
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
    struct prn_comparison *c = NULL;
    int code = prn_compare(&sides[0], &sides[1], 1, &options, &c, err);
    assert_int_equal(c == NULL, code < 0);
    if (code == 0)
        code = prn_comparison_report(c, format, &(struct prn_look){.verbose = true}, &out, err);
    prn_buffer_clear(&out);
    if (code == 0)
        code = prn_comparison_regressions(c, &out, err);
    prn_comparison_free(c);
    prn_buffer_release(&out);
    return code;
}

/* ---- Where the time goes ---- */

static struct prn_profile *with_ops;

static int ops_graph(struct prony_error *err)
{
    struct prn_node_work works[8];
    struct prn_work work = {.nodes = works, .n_nodes = opened_model->graph.n_nodes};
    assert_true(work.n_nodes <= PRN_ARRAY_SIZE(works));
    for (size_t i = 0; i < work.n_nodes; i++)
        works[i] = (struct prn_node_work){.node = &opened_model->graph.nodes[i]};
    struct prn_ops_graph *graph = NULL;
    int code = prn_ops_graph_new(opened_model, &work, &graph, err);
    assert_int_equal(graph == NULL, code < 0);
    prn_ops_graph_free(graph);
    return code;
}

static int ops_trace(struct prony_error *err)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_ops ops = {0};
    struct prn_source *source;
    int code = prn_source_open_memory(trace_text, sizeof trace_text - 1, 0, &source, err);
    if (code == 0) {
        code = prn_ops_from_trace(source, "[0, 1]", NULL, &arena, &ops, err);
        prn_source_close(source);
    }
    prn_arena_release(&arena);
    return code;
}

static int ops_compare(struct prony_error *err)
{
    return prn_ops_compare(with_ops, err);
}

static int ops_text(struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
    int code = prn_profile_report(with_ops, PRN_REPORT_FORMAT_TEXT, NULL, &out, err);
    prn_buffer_release(&out);
    return code;
}

static int report_sweep(struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
    int code = prn_profile_report(swept, PRN_REPORT_FORMAT_TEXT, NULL, &out, err);
    prn_buffer_release(&out);
    return code;
}

static int ops_csv(struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
    int code = prn_profile_report_csv(with_ops, PRN_REPORT_TABLE_NODES, &out, err);
    prn_buffer_release(&out);
    return code;
}

static int compare_text(struct prony_error *err)
{
    return compare(PRN_REPORT_FORMAT_TEXT, err);
}

static int compare_json(struct prony_error *err)
{
    return compare(PRN_REPORT_FORMAT_JSON, err);
}

static int compare_csv(struct prony_error *err)
{
    return compare(PRN_REPORT_FORMAT_CSV, err);
}

static int compare_markdown(struct prony_error *err)
{
    return compare(PRN_REPORT_FORMAT_MARKDOWN, err);
}

/* ---- Recordings ---- */

static int show_recording(const struct prn_profile *profile, enum prn_recorded_layout layout,
                          bool verbose, bool markdown, struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
    int code = prn_recorded_report(
        profile, layout, &(struct prn_look){.markdown = markdown, .verbose = verbose}, &out, err);
    prn_buffer_release(&out);
    return code;
}

static int recording_summary(struct prony_error *err)
{
    return show_recording(recording, PRN_RECORDED_LAYOUT_SUMMARY, true, true, err);
}

static int recording_segments(struct prony_error *err)
{
    return show_recording(recording, PRN_RECORDED_LAYOUT_SEGMENTS, true, false, err);
}

static int recording_top(struct prony_error *err)
{
    return show_recording(long_recording, PRN_RECORDED_LAYOUT_SEGMENTS, false, true, err);
}

static int recording_classic(struct prony_error *err)
{
    return show_recording(recording, PRN_RECORDED_LAYOUT_CLASSIC, false, false, err);
}

static int recording_csv(struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
    int code = prn_recorded_csv(recording, &out, err);
    prn_buffer_release(&out);
    return code;
}

static int drop_detail(const char *name, const char *label, const struct prn_buffer *text,
                       void *context, struct prony_error *err)
{
    (void)context;
    assert_true(name[0] && label[0] && text->len > 0);
    return prn_buffer_error(text, err);
}

static int recording_details(struct prony_error *err)
{
    return prn_recorded_details(recording, false, drop_detail, NULL, err);
}

/* A saved profile goes on in one that has nothing yet. */
static int resume(struct prony_error *err)
{
    torture.armed = false;
    struct prn_profile *fresh = prn_profile_new();
    fresh->points = swept->points;
    fresh->n_points = swept->n_points;
    fresh->environment = swept->environment;
    fresh->results = PRN_ARENA_ARRAY(&fresh->arena, swept->n_results, struct prn_result);
    fresh->n_results = swept->n_results;
    for (size_t i = 0; i < swept->n_results; i++)
        fresh->results[i].name = swept->results[i].name;
    torture.armed = true;
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_named_texts texts;
    int code = prn_resume_backends(swept, &arena, &texts, err);
    if (code == 0)
        code = prn_resume_adopt(swept, false, fresh, err);
    prn_arena_release(&arena);
    prn_profile_free(fresh);
    return code;
}

/* ---- Recording ---- */

/* Two calls in regions, the first of which compiled and failed; then the profile. */
static int record_calls(struct prn_regions *regions, struct prony_error *err)
{
    static const int64_t samples[40] = {1, 2, 3};
    const struct prn_graph_outcome fine = {samples, 40, NULL};
    const struct prn_graph_outcome failed = {NULL, 0, "failed"};
    for (int i = 0; i < 2; i++) {
        int code = prn_region_begin(regions, "predict", err);
        if (code < 0)
            return code;
        struct prn_region *region = prn_region_pause(regions);
        if (i == 0)
            prn_region_compiled(region);
        for (int graph = 1; code == 0 && graph <= 3; graph++)
            code = prn_region_graph(region, graph, i, i == 0 ? &failed : &fine, err);
        prn_region_resume(region);
        if (code < 0) {
            /* What spoiled the region is said again at its end. */
            assert_int_equal(prn_region_end(regions, NULL), PRONY_ENOMEM);
            return code;
        }
        code = prn_region_end(regions, err);
        if (code < 0)
            return code;
    }
    return 0;
}

static int record(struct prony_error *err)
{
    struct prn_regions regions = PRN_REGIONS_INIT(1, 40);
    int code = record_calls(&regions, err);
    struct prn_profile *profile = code == 0 ? prn_profile_new() : NULL;
    if (code == 0 && !profile)
        code = prn_fail_memory(err);
    if (code == 0) {
        struct prn_result result = {.usd_per_hour = 1};
        profile->results = &result;
        profile->n_results = 1;
        code = prn_regions_fill(&regions, profile, err);
    }
    if (code == 0)
        assert_int_equal(profile->profiles[0].segments[5].results[0].times.count, 40);
    prn_profile_free(profile);
    prn_regions_release(&regions);
    return code;
}

static int run_select(struct prony_error *err)
{
    struct prn_run_choice choice = {
        PRN_RUN_UNSET, PRN_RUN_UNSET,
        "2 * ([i for i in range(-50, 99) if i in [0, 1] or [i] * 3] + range(9)) + [-1]"};
    struct prn_run_selection *s = NULL;
    int code = prn_run_selection_new(&choice, &s, err);
    assert_int_equal(s == NULL, code < 0);
    if (code < 0)
        return code;
    struct prn_buffer out = PRN_BUFFER_INIT(100000);
    code = prn_run_selection_resolve(s, 100, err);
    if (code == 0) {
        prn_run_selection_describe(s, 100, &out);
        code = prn_buffer_error(&out, err);
    }
    prn_buffer_release(&out);
    prn_run_selection_free(s);
    return code;
}

static int load_parse(struct prony_error *err)
{
    struct prn_profile *profile = NULL;
    int code = prn_profile_read_json(unit_data("profile-load.json"), &profile, err);
    assert_int_equal(profile == NULL, code < 0);
    prn_profile_free(profile);
    return code;
}

static int load_text(struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
    int code = prn_profile_report(loaded, PRN_REPORT_FORMAT_TEXT, NULL, &out, err);
    prn_buffer_release(&out);
    return code;
}

static int load_csv(struct prony_error *err)
{
    struct prn_buffer out = PRN_BUFFER_INIT((size_t)16 << 20);
    int code = prn_profile_report_csv(loaded, PRN_REPORT_TABLE_LOAD, &out, err);
    if (code == 0)
        code = prn_profile_report_csv(loaded, PRN_REPORT_TABLE_TRIALS, &out, err);
    prn_buffer_release(&out);
    return code;
}

static int load_tally(struct prony_error *err)
{
    static struct prn_drive_request requests[1000];
    struct prn_drive_plan plan = {
        .workers = 1, .rate = 1000, .most_requests = 1000, .span_ns = 500000000};
    struct prn_drive_end end = {.n = prn_drive_schedule(&plan, requests)};
    for (size_t i = 0; i < end.n; i++) {
        requests[i].start_ns = requests[i].due_ns;
        requests[i].end_ns = requests[i].due_ns + 1000;
    }
    struct prn_load_tally tally = PRN_LOAD_TALLY_INIT;
    struct prn_load_row row;
    int code = prn_load_tally_add(&tally, &plan, requests, &end, 0, false, err);
    if (code == 0)
        code = prn_load_tally_add(&tally, &plan, requests, &end, 1, false, err);
    if (code == 0)
        code = prn_load_tally_row(&tally, 1000, 1, &row, err);
    prn_load_tally_release(&tally);
    return code;
}

static int load_profile(const char *name, struct prn_buffer *text, struct prn_profile **ret_profile)
{
    int fd = open(unit_data(name), O_RDONLY | O_CLOEXEC);
    int code = prn_buffer_read_fd(text, fd, name, NULL);
    close(fd);
    if (code < 0)
        return code;
    return prn_profile_parse_json(prn_buffer_text(text), text->len, name, ret_profile, NULL);
}

/* ---- Pipelines ---- */

/* Files that live in memory, under the names that the system gives them. */
static char results_path[64], models_path[64], types_path[64], devices_path[64];

static void put_file(const char *text, char path[64])
{
    int fd = memfd_create("file", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    snprintf(path, 64, "/proc/self/fd/%d", fd);
}

static void put_pipeline(void)
{
    put_file(
        "batch_size: 8\ndtype: torch.float32\nlayers: 2\nmodel_name: new\nprofile_data:\n"
        "- {layer: 1, memory: 1, shape_in: [[2]], shape_out: [[3], [4]], time: 1, time_ci: 1}\n"
        "- {layer: 2, memory: 1, shape_in: [], shape_out: [[5]], time: 2, time_ci: 1}\n",
        results_path);
    put_file("m: {layers: 3, mem_MB: [1, 1, 1], parameters_in: 3, parameters_out: [4, 5, 6]}\n",
             models_path);
    put_file("t: {bw_Mbps: 1, mem_MB: 9, usd_per_hour: 1, model_profiles: {m: [{batch_size: 8, "
             "dtype: torch.float32, time_s: [1, 2, 3], time_ci_s: [1, 1, 1]}]}}\n"
             "u: {bw_Mbps: 1, mem_MB: 3, usd_per_hour: 2, model_profiles: {m: [{batch_size: 8, "
             "dtype: torch.float32, time_s: [1, 1, 1]}]}}\n",
             types_path);
    put_file("t: [t-0, t-1]\nu: [u-0]\n", devices_path);
}

static int layer_profile(struct prony_error *err)
{
    struct prn_layer_head head = {"new", "torch.float32", 8, 2};
    struct prn_layer_entry entry = {
        .layer = 1, .memory_mb = 1, .memory_fixed_mb = NAN, .time_s = 1, .time_ci_s = NAN};
    struct prn_layer_profile *profile = NULL;
    struct prn_buffer out = PRN_BUFFER_INIT(100000);
    int code = prn_layer_profile_open("-", &head, &profile, err);
    if (code == 0)
        code = prn_layer_profile_add(profile, &entry, err);
    if (code == 0)
        code = prn_layer_profile_write(profile, &out, err);
    prn_buffer_release(&out);
    prn_layer_profile_free(profile);
    return code;
}

static int extend_files(struct prony_error *err)
{
    struct prn_layer_profile *profile;
    struct prn_device_properties properties = {"t", -1, -1, 3.5};
    struct prn_buffer out = PRN_BUFFER_INIT(100000);
    int code = prn_layer_profile_read(results_path, &profile, err);
    if (code < 0)
        return code;
    code = prn_models_extend(models_path, profile, false, &out, err);
    if (code == 0)
        code = prn_device_types_extend(types_path, &properties, profile, true, &out, err);
    prn_buffer_release(&out);
    prn_layer_profile_free(profile);
    return code;
}

static void no_warning(const char *format, ...)
{
    fail_msg("warned: %s", format);
}

/* From the files to every kind of report, by every objective. */
static int schedule(struct prony_error *err)
{
    static const char *const hosts[] = {"t-*,u-0", "t=2"};
    struct prn_pipeline_request request = {.models_file = models_path,
                                           .types_file = types_path,
                                           .devices_file = devices_path,
                                           .model_name = "m",
                                           .dtype = "torch.float32",
                                           .batch_size = 8,
                                           .hosts = hosts,
                                           .n_hosts = 2};
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_pipeline p;
    int code = prn_pipeline_load(&request, no_warning, &arena, &p, err);
    for (int objective = 0; objective < 3 && code == 0; objective++) {
        struct prn_schedule_goal goal = PRN_SCHEDULE_GOAL_INIT;
        struct prn_schedule s = {0};
        double one_more[2] = {0};
        goal.objective = (enum prn_objective)objective;
        double bound;
        code = prn_schedule_approximate(&p, &goal, &s, &bound, err);
        prn_schedule_release(&s);
        if (code == 0)
            code = prn_schedule_find(&p, &goal, &s, err);
        for (size_t t = 0; t < 2 && code == 0; t++)
            code = prn_schedule_with_one_more(&p, &goal, t, prn_schedule_value(&p, &goal, &s),
                                              &one_more[t], err);
        struct prn_simulated_stage stages[4] = {{0}};
        struct prn_output_check output = {.name = "y", .same_shape = true};
        struct prn_simulation simulation = {.model_path = "m.onnx",
                                            .backend = "local/onnxrt-cpu",
                                            .version = "1",
                                            .n_stages = s.n,
                                            .stages = stages,
                                            .n_outputs = 1,
                                            .outputs = &output};
        struct prn_schedule_report report = {&p,   &goal, &s,          NAN, one_more,
                                             NULL, true,  &simulation, {0}};
        assert_true(s.n <= PRN_ARRAY_SIZE(stages));
        for (int format = 0; format < PRN_SCHEDULE_FORMAT_HTML && code == 0; format++) {
            struct prn_buffer out = PRN_BUFFER_INIT(100000);
            code = prn_schedule_report(&report, (enum prn_schedule_format)format, &out, err);
            prn_buffer_release(&out);
        }
        prn_schedule_release(&s);
    }
    prn_arena_release(&arena);
    return code;
}

static int shortage(struct prony_error *err)
{
    static const double time[] = {1, 1, 1}, mem[] = {1, 1, 1};
    struct prn_pipeline_type type = {
        .name = "t", .mem_mb = 2, .bw_mbps = 1, .time_s = time, .n_hosts = 2};
    struct prn_pipeline p = {.n_layers = 3,
                             .layer_mem_mb = mem,
                             .bytes_out = (const double[]){0, 0, 0},
                             .types = &type,
                             .n_types = 1};
    struct prn_schedule_goal goal = PRN_SCHEDULE_GOAL_INIT;
    char text[PRONY_ERROR_TEXT_SIZE];
    int code = prn_schedule_shortage(&p, &goal, text, sizeof text, err);
    if (code == 0)
        assert_string_equal(text, "at least 3 hosts are needed, and there are 2");
    return code;
}

static int make_inputs(void **state)
{
    (void)state;
    put_pipeline();
    int fd = memfd_create("model", 0);
    snprintf(model_path, sizeof model_path, "/proc/self/fd/%d", fd);
    if (fd < 0 || prn_synth_write(prn_synth_find("mlp"), &small, fd, "memory", NULL) < 0)
        return -1;
    int code = prn_model_open(model_path, &opened_model, NULL);
    if (code == 0)
        code = read_trace(&trace, NULL);
    if (code == 0)
        code = prn_profile_read_json(unit_data("profile-ops.json"), &with_ops, NULL);
    if (code == 0)
        code = load_profile("profile-tiny.json", &saved, &parsed);
    if (code == 0)
        code = load_profile("profile-recorded-program.json", &saved_recording, &recording);
    struct prn_buffer text = PRN_BUFFER_INIT((size_t)16 << 20);
    if (code == 0)
        code = load_profile("profile-recorded-many.json", &text, &long_recording);
    prn_buffer_clear(&text);
    if (code == 0)
        code = load_profile("profile-sweep.json", &text, &swept);
    prn_buffer_release(&text);
    if (code == 0)
        code = prn_profile_read_json(unit_data("profile-load.json"), &loaded, NULL);
    if (code == 0)
        code = prn_profile_read_json(unit_data("compare-before.json"), &compared[0], NULL);
    if (code == 0)
        code = prn_profile_read_json(unit_data("compare-after.json"), &compared[1], NULL);
    return code;
}

static int free_inputs(void **state)
{
    (void)state;
    prn_model_free(opened_model);
    prn_model_free(control);
    prn_model_free(functions);
    prn_model_free(mlp);
    prn_model_free(external);
    prn_buffer_release(&saved);
    prn_buffer_release(&saved_recording);
    prn_profile_free(parsed);
    prn_profile_free(recording);
    prn_profile_free(long_recording);
    prn_profile_free(compared[0]);
    prn_profile_free(compared[1]);
    prn_profile_free(swept);
    prn_profile_free(with_ops);
    prn_profile_free(loaded);
    prn_trace_free(trace);
    return 0;
}

/* Jansson takes some of its own failures for faults of the text; a processor's name that can't be
 * read is left out; a trace can do without remembering shapes, a report without demangling,
 * and a search without giving memory back. */
#define TORTURES(X)                     \
    X(table_text, PRONY_ENOMEM)         \
    X(table_markdown, PRONY_ENOMEM)     \
    X(table_csv, PRONY_ENOMEM)          \
    X(json_write, PRONY_ENOMEM)         \
    X(json_parse, PRONY_EFORMAT)        \
    X(yaml_parse, PRONY_ENOMEM)         \
    X(layer_profile, PRONY_ENOMEM)      \
    X(extend_files, PRONY_ENOMEM)       \
    X(schedule, PRONY_OK)               \
    X(shortage, PRONY_ENOMEM)           \
    X(map_fill, PRONY_ENOMEM)           \
    X(arena_fill, PRONY_ENOMEM)         \
    X(parse_options, PRONY_ENOMEM)      \
    X(spec_parse, PRONY_ENOMEM)         \
    X(spec_expand, PRONY_ENOMEM)        \
    X(sweep_parse, PRONY_ENOMEM)        \
    X(hardware_load, PRONY_OK)          \
    X(synth_write, PRONY_ENOMEM)        \
    X(synth_describe, PRONY_ENOMEM)     \
    X(tensor_read, PRONY_ENOMEM)        \
    X(tensor_fill, PRONY_ENOMEM)        \
    X(model_open, PRONY_ENOMEM)         \
    X(model_bind, PRONY_ENOMEM)         \
    X(analyse_control, PRONY_ENOMEM)    \
    X(analyse_functions, PRONY_ENOMEM)  \
    X(cut_auto, PRONY_ENOMEM)           \
    X(cut_bodies, PRONY_ENOMEM)         \
    X(cut_functions, PRONY_ENOMEM)      \
    X(cut_external, PRONY_ENOMEM)       \
    X(source_plain, PRONY_ENOMEM)       \
    X(source_gzip, PRONY_ENOMEM)        \
    X(source_zstd, PRONY_ENOMEM)        \
    X(demangle, PRONY_ENOMEM)           \
    X(run_select, PRONY_ENOMEM)         \
    X(record, PRONY_ENOMEM)             \
    X(trace_read, PRONY_OK)             \
    X(trace_compare, PRONY_ENOMEM)      \
    X(trace_report_text, PRONY_OK)      \
    X(trace_report_json, PRONY_OK)      \
    X(profile_parse, PRONY_ENOMEM)      \
    X(report_text, PRONY_ENOMEM)        \
    X(report_json, PRONY_ENOMEM)        \
    X(report_page, PRONY_ENOMEM)        \
    X(report_csv, PRONY_ENOMEM)         \
    X(report_markdown, PRONY_ENOMEM)    \
    X(recording_parse, PRONY_ENOMEM)    \
    X(recording_summary, PRONY_ENOMEM)  \
    X(recording_segments, PRONY_ENOMEM) \
    X(recording_top, PRONY_ENOMEM)      \
    X(recording_classic, PRONY_ENOMEM)  \
    X(recording_csv, PRONY_ENOMEM)      \
    X(recording_details, PRONY_ENOMEM)  \
    X(compare_text, PRONY_ENOMEM)       \
    X(compare_json, PRONY_ENOMEM)       \
    X(compare_csv, PRONY_ENOMEM)        \
    X(compare_markdown, PRONY_ENOMEM)   \
    X(report_sweep, PRONY_ENOMEM)       \
    X(resume, PRONY_ENOMEM)             \
    X(ops_graph, PRONY_ENOMEM)          \
    X(ops_trace, PRONY_OK)              \
    X(ops_compare, PRONY_ENOMEM)        \
    X(ops_text, PRONY_ENOMEM)           \
    X(ops_csv, PRONY_ENOMEM)            \
    X(load_parse, PRONY_EFORMAT)        \
    X(load_text, PRONY_ENOMEM)          \
    X(load_csv, PRONY_ENOMEM)           \
    X(load_tally, PRONY_OK)

#define X(operation, tolerated)                \
    static void test_##operation(void **state) \
    {                                          \
        (void)state;                           \
        torment(operation, tolerated);         \
    }
TORTURES(X)
#undef X

int main(void)
{
#define X(operation, tolerated) cmocka_unit_test(test_##operation),
    const struct CMUnitTest tests[] = {TORTURES(X)};
#undef X
    return cmocka_run_group_tests(tests, make_inputs, free_inputs);
}
