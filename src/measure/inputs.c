#include "measure/inputs.h"

#include "base/buffer.h"
#include "base/format.h"
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Runtimes want their tensors aligned; a cache line is enough for all of them. */
#define ALIGNMENT 64
#define PIECE ((size_t)1 << 20) /* that is copied at a time */

static bool parse_value(const char *text, struct prn_input_source *source)
{
    static const struct {
        const char *name;
        enum prn_fill fill;
    } fills[] = {{"ones", PRN_FILL_ONES}, {"zeros", PRN_FILL_ZEROS}, {"random", PRN_FILL_RANDOM}};
    for (size_t i = 0; i < PRN_ARRAY_SIZE(fills); i++)
        if (strcmp(fills[i].name, text) == 0) {
            source->fill = fills[i].fill;
            return true;
        }
    if (text[0] == '@' && text[1]) {
        source->file = text + 1;
        return true;
    }
    char *end;
    source->number = strtod(text, &end);
    source->fill = PRN_FILL_NUMBER;
    return end != text && *end == '\0';
}

int prn_input_source_parse(const char *text, struct prn_arena *arena,
                           struct prn_input_source *ret_source, struct prony_error *err)
{
    for (const char *equals = strchr(text, '='); equals; equals = strchr(equals + 1, '=')) {
        struct prn_input_source source = {0};
        if (equals == text || !parse_value(equals + 1, &source))
            continue;
        source.name = prn_arena_strndup(arena, text, (size_t)(equals - text));
        if (!source.name)
            return prn_fail_memory(err);
        *ret_source = source;
        return 0;
    }
    return prn_fail(err, PRONY_EUSAGE,
                    "--input '%s' is not NAME=ones, zeros, random, a number, or @FILE", text);
}

bool prn_input_source_recall(const char *name, const char *description,
                             struct prn_input_source *ret_source)
{
    static const char random[] = "random, seed ";
    struct prn_input_source source = {.name = name, .fill = PRN_FILL_RANDOM};
    if (strncmp(description, random, strlen(random)) != 0 && !parse_value(description, &source))
        return false;
    *ret_source = source;
    return true;
}

static const struct prn_input_source *find_source(const struct prn_input_source *sources, size_t n,
                                                  const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(sources[i].name, name) == 0)
            return &sources[i];
    return NULL;
}

static int check_names(const struct prn_input *inputs, size_t n,
                       const struct prn_input_source *sources, size_t n_sources,
                       struct prony_error *err)
{
    for (size_t i = 0; i < n_sources; i++) {
        if (find_source(sources, i, sources[i].name))
            return prn_fail(err, PRONY_EUSAGE, "--input '%s' is given twice", sources[i].name);
        struct prn_buffer names = PRN_BUFFER_INIT(400);
        bool known = false;
        for (size_t k = 0; k < n; k++) {
            known |= strcmp(inputs[k].name, sources[i].name) == 0;
            prn_buffer_printf(&names, "%s'%s'", k ? ", " : "", inputs[k].name);
        }
        int code = 0;
        if (!known)
            code = prn_fail(err, PRONY_EUSAGE, "the model has no input '%s'; it has %s",
                            sources[i].name, n ? prn_buffer_text(&names) : "none");
        prn_buffer_release(&names);
        if (code < 0)
            return code;
    }
    return 0;
}

static const char *describe_default(const struct prn_input *input, uint64_t seed,
                                    char buffer[PRN_RANK_MAX * 4])
{
    if (input->role == PRN_INPUT_ROLE_MASK || input->dtype == PRN_DTYPE_BOOL)
        return "ones";
    if (input->role == PRN_INPUT_ROLE_LENGTH)
        snprintf(buffer, PRN_RANK_MAX * 4, "%lld, the length of its sequence",
                 (long long)input->bound);
    else if (input->role == PRN_INPUT_ROLE_INDEX)
        snprintf(buffer, PRN_RANK_MAX * 4, "random ids below %lld, seed %llu",
                 (long long)input->bound, (unsigned long long)seed);
    else if (prn_dtype_is_float(input->dtype))
        snprintf(buffer, PRN_RANK_MAX * 4, "random in [0,1), seed %llu", (unsigned long long)seed);
    else if (input->dtype == PRN_DTYPE_STRING)
        return "\"a\"";
    else
        return "ones";
    return buffer;
}

/* One input's tensor and the text that says where it came from. */
static int make_tensor(struct prn_input *input, const struct prn_input_source *source,
                       const char *file, uint64_t seed, struct prn_tensor *ret_tensor,
                       struct prn_buffer *text, struct prony_error *err)
{
    static const char *const names[] = {
        [PRN_FILL_ONES] = "ones", [PRN_FILL_ZEROS] = "zeros", [PRN_FILL_RANDOM] = "random"};
    char buffer[PRN_RANK_MAX * 4];
    char number[PRN_FORMAT_SIZE];
    if (source && source->file)
        file = source->file;
    if (file) {
        int code = prn_tensor_read(file, input, ret_tensor, err);
        if (code < 0)
            return code;
        memcpy(input->dims, ret_tensor->dims, sizeof input->dims);
        memset(input->assumed, 0, sizeof input->assumed);
        prn_buffer_printf(text, "@%s", file);
        return 0;
    }
    enum prn_fill fill = source ? source->fill : PRN_FILL_DEFAULT;
    if (fill == PRN_FILL_DEFAULT)
        prn_buffer_add(text, describe_default(input, seed, buffer));
    else if (fill == PRN_FILL_NUMBER)
        prn_buffer_add(text, prn_format_shortest(number, source->number));
    else if (fill == PRN_FILL_RANDOM)
        prn_buffer_printf(text, "random, seed %llu", (unsigned long long)seed);
    else
        prn_buffer_add(text, names[fill]);
    return prn_tensor_fill(input, fill, source ? source->number : 0, seed, ret_tensor, err);
}

static size_t aligned(size_t offset)
{
    return (offset + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static int add_input(struct prn_inputs *all, size_t index, size_t *offset, struct prn_input *input,
                     const struct prn_input_source *source, const char *file, uint64_t seed,
                     struct prn_arena *arena, struct prony_error *err)
{
    struct prn_tensor tensor = {0};
    struct prn_buffer text = PRN_BUFFER_INIT(8192);
    int code = make_tensor(input, source, file, seed, &tensor, &text, err);
    struct prn_place *place = &all->places[index];
    if (code == 0) {
        *place = (struct prn_place){.name = input->name,
                                    .dtype = tensor.dtype,
                                    .rank = tensor.rank,
                                    .offset = *offset,
                                    .bytes = tensor.bytes};
        memcpy(place->dims, tensor.dims, tensor.rank * sizeof *tensor.dims);
        all->sources[index] = prn_arena_strdup(arena, prn_buffer_text(&text));
        if (!all->sources[index])
            code = prn_fail_memory(err);
        else if (prn_pwrite_all(all->fd, tensor.data, tensor.bytes, *offset) < 0)
            code = prn_fail_errno(err, errno, "make input", input->name);
    }
    if (code == 0) {
        all->n++;
        *offset = aligned(*offset + tensor.bytes);
    }
    prn_buffer_release(&text);
    prn_tensor_release(&tensor);
    return code;
}

/* Room for n inputs. */
static int inputs_begin(size_t n, struct prn_arena *arena, struct prn_inputs *all,
                        struct prony_error *err)
{
    *all = (struct prn_inputs){.fd = -1};
    if (n > PRN_EXECUTOR_TENSORS_MAX)
        return prn_fail(err, PRONY_ELIMIT, "the model has %zu inputs, more than %d", n,
                        PRN_EXECUTOR_TENSORS_MAX);
    all->places = PRN_ARENA_ARRAY(arena, n + 1, struct prn_place);
    all->sources = PRN_ARENA_ARRAY(arena, n + 1, const char *);
    if (!all->places || !all->sources)
        return prn_fail_memory(err);
    all->fd = memfd_create("prony-inputs", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    return all->fd < 0 ? prn_fail_errno(err, errno, "create", "shared memory") : 0;
}

/* All are made, up to `end`, if `code` is 0. */
static int inputs_finish(int code, struct prn_inputs *all, size_t end,
                         struct prn_inputs *ret_inputs, struct prony_error *err)
{
    /* The last tensor's padding is part of the file, so that all offsets lie inside. */
    if (code == 0 && ftruncate(all->fd, (off_t)end) < 0)
        code = prn_fail_errno(err, errno, "size", "shared memory");
    /* All backends are to see the same bytes, so none may change them. */
    const int seals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    if (code == 0 && fcntl(all->fd, F_ADD_SEALS, seals) < 0)
        code = prn_fail_errno(err, errno, "seal", "shared memory");
    if (code < 0)
        prn_inputs_release(all);
    else
        *ret_inputs = *all;
    return code;
}

/* What inputs are made of. */
struct making {
    struct prn_input *inputs;
    size_t n;
    const struct prn_input_source *sources;
    size_t n_sources;
    const char *folder;
    uint64_t seed;
    struct prn_arena *arena;
};

static int make_input(const struct making *m, size_t i, struct prn_inputs *all, size_t *offset,
                      struct prony_error *err)
{
    char path[PATH_MAX];
    struct prn_input *input = &m->inputs[i];
    const struct prn_input_source *source = find_source(m->sources, m->n_sources, input->name);
    /* What is said of an input by name counts before what the folder has for it. */
    bool in_folder = m->folder && !source;
    if (in_folder &&
        snprintf(path, sizeof path, "%s/input_%zu.pb", m->folder, i) >= (int)sizeof path)
        return prn_fail(err, PRONY_EUSAGE, "--inputs: the path is too long");
    if (input->role == PRN_INPUT_ROLE_LENGTH)
        input->bound = m->inputs[input->length_of].dims[input->length_dim];
    return add_input(all, i, offset, input, source, in_folder ? path : NULL, m->seed, m->arena,
                     err);
}

/* A folder of which nothing would be read is a mistake. */
static int check_folder(const struct making *m, struct prony_error *err)
{
    size_t named = 0;
    for (size_t i = 0; i < m->n; i++)
        named += find_source(m->sources, m->n_sources, m->inputs[i].name) != NULL;
    if (m->folder && m->n > 0 && named == m->n)
        return prn_fail(err, PRONY_EUSAGE, "--inputs '%s' is not used: --input names every input",
                        m->folder);
    return 0;
}

int prn_inputs_make(struct prn_input *inputs, size_t n, const struct prn_input_source *sources,
                    size_t n_sources, const char *folder, uint64_t seed, struct prn_arena *arena,
                    struct prn_inputs *ret_inputs, struct prony_error *err)
{
    struct prn_inputs all;
    const struct making m = {inputs, n, sources, n_sources, folder, seed, arena};
    int code = check_names(inputs, n, sources, n_sources, err);
    if (code == 0)
        code = check_folder(&m, err);
    if (code < 0)
        return code;
    code = inputs_begin(n, arena, &all, err);
    size_t offset = 0;
    /* Lengths last: a file may say how large an open dimension is. */
    for (int lengths = 0; lengths < 2; lengths++)
        for (size_t i = 0; code == 0 && i < n; i++)
            if ((inputs[i].role == PRN_INPUT_ROLE_LENGTH) == lengths)
                code = make_input(&m, i, &all, &offset, err);
    return inputs_finish(code, &all, offset, ret_inputs, err);
}

static int copy_bytes(const struct prn_input_copy *from, int fd, size_t offset, void *piece,
                      struct prony_error *err)
{
    const struct prn_place *place = from->place;
    for (size_t at = 0; at < place->bytes; at += PIECE) {
        size_t len = place->bytes - at < PIECE ? place->bytes - at : PIECE;
        if (prn_pread_all(from->fd, piece, len, place->offset + at) < 0 ||
            prn_pwrite_all(fd, piece, len, offset + at) < 0)
            return prn_fail_errno(err, errno, "copy", place->name);
    }
    return 0;
}

int prn_inputs_copy(const struct prn_input_copy *tensors, size_t n, const char *source,
                    struct prn_arena *arena, struct prn_inputs *ret_inputs, struct prony_error *err)
{
    struct prn_inputs all;
    size_t offset = 0;
    void *piece = malloc(PIECE);
    int code = inputs_begin(n, arena, &all, err);
    if (code == 0 && !piece)
        code = prn_fail_memory(err);
    for (size_t i = 0; code == 0 && i < n; i++) {
        struct prn_place *place = &all.places[all.n++];
        *place = *tensors[i].place;
        place->name = prn_arena_strdup(arena, place->name);
        place->offset = offset;
        all.sources[i] = source;
        code = place->name ? copy_bytes(&tensors[i], all.fd, offset, piece, err)
                           : prn_fail_memory(err);
        offset = aligned(offset + place->bytes);
    }
    free(piece);
    return inputs_finish(code, &all, offset, ret_inputs, err);
}

void prn_inputs_release(struct prn_inputs *inputs)
{
    if (inputs->fd >= 0)
        close(inputs->fd);
    inputs->fd = -1;
}
