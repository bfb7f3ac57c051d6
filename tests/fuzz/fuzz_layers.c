/* What a client and a host say to each other about layers: the first byte says which text it is.
 * What could be read is written again, and must then read the same. */
#include "report/layers/json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TEXT_MAX ((size_t)16 << 20)

static void same(struct prn_buffer *first, struct prn_buffer *second)
{
    if (strcmp(prn_buffer_text(first), prn_buffer_text(second)) != 0)
        abort();
    prn_buffer_release(first);
    prn_buffer_release(second);
}

static void check_order(const char *text, struct prn_arena *arena)
{
    struct prn_buffer first = PRN_BUFFER_INIT(TEXT_MAX);
    struct prn_buffer second = PRN_BUFFER_INIT(TEXT_MAX);
    struct prn_layer_order order;
    struct prony_error err;
    if (prn_layer_order_parse_json(text, arena, &order, &err) < 0)
        return;
    if (order.first < 1 || order.last < order.first || order.last > order.layers)
        abort();
    if (prn_layer_order_write_json(&order, &first, &err) < 0 ||
        prn_layer_order_parse_json(prn_buffer_text(&first), arena, &order, &err) < 0 ||
        prn_layer_order_write_json(&order, &second, &err) < 0)
        abort();
    same(&first, &second);
}

static void check_layer(const char *text, size_t len, struct prn_arena *arena)
{
    struct prn_buffer first = PRN_BUFFER_INIT(TEXT_MAX);
    struct prn_buffer second = PRN_BUFFER_INIT(TEXT_MAX);
    struct prn_layer_entry entry;
    struct prn_layer_row row;
    struct prony_error err;
    if (prn_layer_parse_json(text, len, arena, &entry, &row, &err) < 0)
        return;
    if (prn_layer_write_json(&entry, &row, &first, &err) < 0 ||
        prn_layer_parse_json(prn_buffer_text(&first), first.len, arena, &entry, &row, &err) < 0 ||
        prn_layer_write_json(&entry, &row, &second, &err) < 0)
        abort();
    same(&first, &second);
}

static void check_end(const char *text, size_t len, struct prn_arena *arena)
{
    static const struct prn_layer_head head = {"m", "torch.float32", 8, 1};
    struct prn_buffer first = PRN_BUFFER_INIT(TEXT_MAX);
    struct prn_buffer second = PRN_BUFFER_INIT(TEXT_MAX);
    struct prn_layer_measurement m = {.model_path = "m.onnx", .backend = "b", .sum_s = 1};
    struct prn_layer_profile *profile;
    struct prony_error err;
    if (prn_layers_parse_json(text, len, arena, &m, &err) < 0)
        return;
    if (prn_layer_profile_new("r.yml", &head, &profile, &err) < 0 ||
        prn_layers_write_json(&m, profile, &first, &err) < 0 ||
        prn_layers_parse_json(prn_buffer_text(&first), first.len, arena, &m, &err) < 0 ||
        prn_layers_write_json(&m, profile, &second, &err) < 0)
        abort();
    prn_layer_profile_free(profile);
    same(&first, &second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct prn_arena arena = PRN_ARENA_INIT(TEXT_MAX);
    char *text = size > 0 ? strndup((const char *)data + 1, size - 1) : NULL;
    if (!text)
        return 0;
    switch (data[0]) {
    case 'o':
        check_order(text, &arena);
        break;
    case 'l':
        check_layer(text, strlen(text), &arena);
        break;
    default:
        check_end(text, strlen(text), &arena);
    }
    free(text);
    prn_arena_release(&arena);
    return 0;
}
