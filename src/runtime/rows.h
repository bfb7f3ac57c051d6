/* Every runtime: the name of its row, which a file of its folder has. registry.c makes the list, so
 * this is included more than once. */
PRN_RUNTIME(prn_onnxrt_cpu)
PRN_RUNTIME(prn_onnxrt_cuda)
PRN_RUNTIME(prn_onnxrt_tensorrt)
PRN_RUNTIME(prn_openvino_cpu)
PRN_RUNTIME(prn_torch_eager_cpu)
PRN_RUNTIME(prn_torch_eager_cuda)
PRN_RUNTIME(prn_torch_inductor_cpu)
PRN_RUNTIME(prn_torch_inductor_cuda)
