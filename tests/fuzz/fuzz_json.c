/* The JSON reader, and whether what it accepts survives the writer of strings and numbers. */
#include "format/json.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    json_t *root = NULL;
    struct prony_error err;
    if (prn_json_parse((const char *)data, size, "input", &root, &err) == 0)
        json_decref(root);

    struct prn_buffer text = PRN_BUFFER_INIT(size + 1);
    prn_buffer_append(&text, data, size);
    struct prn_buffer out = PRN_BUFFER_INIT(6 * size + 64);
    struct prn_json_writer w = prn_json_writer_init(&out);
    prn_json_array(&w, NULL);
    prn_json_text(&w, NULL, prn_buffer_text(&text));
    prn_json_end(&w);
    /* Whatever the bytes were, the writer's text is JSON. */
    if (prn_json_parse(prn_buffer_text(&out), out.len, "output", &root, &err) < 0)
        abort();
    json_decref(root);
    prn_buffer_release(&out);
    prn_buffer_release(&text);
    return 0;
}
