# `make deb`, through CPack: `prony` is the program, its library and the runtimes that set-up fetched;
# `libprony-dev` is what C programs are compiled with.
#
# The runtimes are inside because Debian 12 has none to depend on: one file, and `prony profile` works.
# They lie in a folder of prony's own, where no other program finds them.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME prony)
set(CPACK_PACKAGE_VENDOR "")
set(CPACK_PACKAGE_CONTACT "The prony authors <prony@localhost>")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_DEB_COMPONENT_INSTALL ON)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE zstd)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME prony)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
    ${CMAKE_BINARY_DIR}/deps/openvino ${CMAKE_BINARY_DIR}/deps/onnxruntime)
set(CPACK_DEBIAN_PROGRAM_DESCRIPTION
    "measures what an inference workload takes and costs on a backend
prony times ONNX models, C programs and PyTorch functions on the backends of this
machine or of a service, and says how sure the numbers are. ONNX Runtime and OpenVINO
are inside.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libprony-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "prony (= ${PROJECT_VERSION}), libprotobuf-c-dev, libjansson-dev, libseccomp-dev, libyaml-dev, zlib1g-dev, libzstd-dev")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION
    "header and libraries of prony, for C programs
With them a C program records its regions and graphs, and prony profiles it.")

foreach(PACKAGE prony:library libprony-dev:development)
    string(REPLACE ":" ";" PACKAGE ${PACKAGE})
    list(POP_BACK PACKAGE COMPONENT)
    install(FILES tools/deb/copyright DESTINATION share/doc/${PACKAGE} COMPONENT ${COMPONENT}
        EXCLUDE_FROM_ALL) # of an installation that isn't Debian's
endforeach()
include(CPack)
cpack_add_component_group(program)
cpack_add_component_group(development)
cpack_add_component(program GROUP program)
cpack_add_component(library GROUP program)
cpack_add_component(runtimes GROUP program)
cpack_add_component(development GROUP development)
