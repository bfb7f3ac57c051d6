#include "runtime/openvino/precision.h"

#include "base/io.h"
#include "model/writer.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define SIDE 64
#define ELEMENTS (SIDE * SIDE)

/* Numbers with many bits in all digits, so that a shorter format must round them. */
static void fill(float *values, double phase)
{
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = (float)sin(phase + i);
}

/* y = x · w, as an ONNX file in memory. */
static int make_product(const float *weights, int *ret_fd, struct prony_error *err)
{
    static const int64_t sides[] = {SIDE, SIDE};
    static const struct prn_dim dims[] = {{SIDE, NULL}, {SIDE, NULL}};
    static const char *const inputs[] = {"x", "w"};
    static const char *const outputs[] = {"y"};
    const struct prn_value x = {"x", PRN_VALUE_TENSOR, PRN_DTYPE_FLOAT, true, 2, dims};
    const struct prn_value y = {"y", PRN_VALUE_TENSOR, PRN_DTYPE_FLOAT, true, 2, dims};
    const struct prn_constant w = {.name = "w",
                                   .dtype = PRN_DTYPE_FLOAT,
                                   .rank = 2,
                                   .dims = sides,
                                   .elements = ELEMENTS,
                                   .bytes = ELEMENTS * sizeof *weights,
                                   .data = weights};
    const struct prn_node node = {.name = "product",
                                  .op_type = "MatMul",
                                  .domain = "",
                                  .n_inputs = 2,
                                  .n_outputs = 1,
                                  .inputs = inputs,
                                  .outputs = outputs};
    struct prn_writer *writer = prn_writer_new("prony", prony_version());
    int fd = memfd_create("prony-product", MFD_CLOEXEC);
    int code = fd < 0 ? prn_fail_errno(err, errno, "make", "a file in memory") : 0;
    if (code == 0 && !writer)
        code = prn_fail_memory(err);
    if (code == 0) {
        prn_writer_opset(writer, "", 13);
        prn_writer_input(writer, &x);
        prn_writer_initialiser(writer, &w, NULL);
        prn_writer_node(writer, &node);
        prn_writer_output(writer, &y);
        code = prn_writer_write(writer, fd, "product", err);
    }
    prn_writer_free(writer);
    if (code == 0)
        *ret_fd = fd;
    else if (fd >= 0)
        close(fd);
    return code;
}

static int read_product(const struct ov_api *api, const ov_core_t *core, int fd,
                        ov_model_t **ret_model)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return -1;
    size_t size = (size_t)status.st_size;
    void *map = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (map == MAP_FAILED)
        return -1;
    int result = api->ov_core_read_model_from_memory_buffer(core, map, size, NULL, ret_model);
    munmap(map, size);
    return result;
}

/* Runs the product in one precision; 0 or OpenVINO's status. */
static int multiply(const struct ov_api *api, const ov_core_t *core, const ov_model_t *model,
                    const char *precision, float *x, float *y)
{
    int64_t sides[] = {SIDE, SIDE};
    const ov_shape_t shape = {2, sides};
    enum { KEYS_AND_VALUES = 2 };
    ov_compiled_model_t *compiled = NULL;
    ov_infer_request_t *request = NULL;
    ov_tensor_t *input = NULL;
    ov_tensor_t *output = NULL;
    void *data = NULL;
    int status = api->ov_core_compile_model(core, model, "CPU", KEYS_AND_VALUES, &compiled,
                                            "INFERENCE_PRECISION_HINT", precision);
    if (status == 0)
        status = api->ov_compiled_model_create_infer_request(compiled, &request);
    if (status == 0)
        status = api->ov_tensor_create_from_host_ptr((OV_ELEMENT)ov_element_of(PRN_DTYPE_FLOAT),
                                                     shape, x, &input);
    if (status == 0)
        status = api->ov_infer_request_set_input_tensor_by_index(request, 0, input);
    if (status == 0)
        status = api->ov_infer_request_infer(request);
    if (status == 0)
        status = api->ov_infer_request_get_output_tensor_by_index(request, 0, &output);
    if (status == 0)
        status = api->ov_tensor_data(output, &data);
    if (status == 0)
        memcpy(y, data, ELEMENTS * sizeof *y);
    if (output)
        api->ov_tensor_free(output);
    if (input)
        api->ov_tensor_free(input);
    if (request)
        api->ov_infer_request_free(request);
    if (compiled)
        api->ov_compiled_model_free(compiled);
    return status;
}

static int refuse(const struct ov_api *api, const ov_core_t *core, const char *precision,
                  struct prony_error *err)
{
    char *capabilities = NULL;
    int code;
    if (api->ov_core_get_property(core, "CPU", "OPTIMIZATION_CAPABILITIES", &capabilities) != 0)
        capabilities = NULL;
    code = prn_fail(err, PRONY_EUNAVAILABLE,
                    "precision=%s has no effect on this processor: a product of matrices came out "
                    "as in f32 (OpenVINO says it can do: %s)",
                    precision, capabilities ? capabilities : "nothing");
    if (capabilities)
        api->ov_free(capabilities);
    return code;
}

static bool are_equal(const float *a, const float *b)
{
    for (size_t i = 0; i < ELEMENTS; i++)
        if (a[i] != b[i])
            return false;
    return true;
}

int ov_precision_prove(const struct ov_api *api, const ov_core_t *core, const char *precision,
                       struct prony_error *err)
{
    int fd = -1;
    ov_model_t *model = NULL;
    /* weights, factor, and the product in f32 and in the precision */
    float *values = calloc((size_t)4 * ELEMENTS, sizeof *values);
    if (!values)
        return prn_fail_memory(err);
    float *x = values + ELEMENTS;
    float *full = x + ELEMENTS;
    float *rounded = full + ELEMENTS;
    fill(values, 0.1);
    fill(x, 0.2);
    int code = make_product(values, &fd, err);
    if (code == 0 && (read_product(api, core, fd, &model) != 0 ||
                      multiply(api, core, model, "f32", x, full) != 0 ||
                      multiply(api, core, model, precision, x, rounded) != 0))
        code = prn_fail(err, PRONY_EUNAVAILABLE, "precision=%s can't be tried: %s", precision,
                        api->ov_get_last_err_msg());
    if (code == 0 && are_equal(full, rounded))
        code = refuse(api, core, precision, err);
    if (model)
        api->ov_model_free(model);
    if (fd >= 0)
        close(fd);
    free(values);
    return code;
}
