/* The spec parser, and the hardware file behind it: the first byte chooses. */
#include "format/yaml.h"
#include "spec/spec.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was parsed must parse again to the same, whatever the spaces were. */
static void check_spec(const char *text)
{
    struct prn_arena arena = PRN_ARENA_INIT((size_t)1 << 20);
    struct prn_spec spec;
    struct prn_spec again;
    struct prony_error err;
    if (prn_spec_parse(text, true, &arena, &spec, &err) == 0) {
        if (prn_spec_parse(spec.name, false, &arena, &again, &err) < 0)
            abort();
        if (!prn_spec_equal(&spec, &again) || strcmp(spec.name, again.name) != 0)
            abort();
    }
    prn_arena_release(&arena);
}

static size_t count(const struct prn_yaml_node *node)
{
    size_t n = 1;
    for (size_t i = 0; i < node->n; i++)
        n += count(node->items[i]) + (node->kind == PRN_YAML_MAP);
    return n;
}

static void check_yaml(const char *text, size_t len)
{
    struct prn_yaml *yaml;
    struct prony_error err;
    if (prn_yaml_parse(text, len, "fuzz", &yaml, &err) < 0)
        return;
    const struct prn_yaml_node *root = prn_yaml_root(yaml);
    if (root && count(root) != root->weight)
        abort();
    prn_yaml_free(yaml);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    char *text = malloc(size);
    if (!text)
        return 0;
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    if (data[0] == 'y')
        check_yaml(text, size - 1);
    else
        check_spec(text);
    free(text);
    return 0;
}
