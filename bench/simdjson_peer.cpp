/*
 * What `prony explore` is compared with: simdjson's On-Demand reader over the same trace, touching
 * the fields that prony reads and adding up counts and durations.
 *
 *     simdjson_peer whole FILE       the file is loaded, and read as one document
 *     simdjson_peer events FILE      1 MiB at a time; each line is a document of its own
 *
 * Prints "cpu OP COUNT DURATION" and "gpu KERNEL COUNT DURATION", separated by tabs. On-Demand
 * validates only what it is asked for, and `events` relies on one event per line; prony does
 * neither.
 */
#include <simdjson.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <unistd.h>
#include <unordered_map>
#include <vector>

namespace ondemand = simdjson::ondemand;
using std::string_view;

namespace
{

constexpr size_t CHUNK_BYTES = 1 << 20;
constexpr size_t LINE_BYTES_MAX = 1 << 20;

[[noreturn]] void fail(const char *what)
{
    std::fprintf(stderr, "simdjson_peer: %s\n", what);
    std::exit(1);
}

void must(simdjson::error_code code)
{
    if (code) [[unlikely]]
        fail(simdjson::error_message(code));
}

struct Total {
    uint64_t count = 0;
    int64_t duration = 0;
};

struct Hash {
    using is_transparent = void;
    size_t operator()(string_view text) const
    {
        return std::hash<string_view>{}(text);
    }
};

using Totals = std::unordered_map<std::string, Total, Hash, std::equal_to<>>;

void add(Totals &totals, string_view name, int64_t duration)
{
    auto found = totals.find(name);
    if (found == totals.end()) [[unlikely]]
        found = totals.emplace(name, Total{}).first;
    found->second.count++;
    found->second.duration += duration;
}

struct Tally {
    Totals cpu, gpu;
    uint64_t runs = 0;
    /* Keeps the compiler from dropping what is read and not added up. */
    uint64_t touched = 0;
};

/* The arguments come in another order in each event: one loop finds all of them soonest. */
string_view read_node_args(ondemand::object args, Tally &tally)
{
    string_view op_name;
    int missing = 3;
    for (auto field : args) {
        ondemand::raw_json_string key;
        must(field.key().get(key));
        if (key == "op_name") {
            must(field.value().get_string().get(op_name));
        } else if (key == "provider") {
            string_view provider;
            must(field.value().get_string().get(provider));
            tally.touched += provider.size();
        } else if (key == "input_type_shape") {
            ondemand::array shapes;
            string_view text;
            must(field.value().get_array().get(shapes));
            must(shapes.raw_json().get(text));
            tally.touched += text.size();
        } else {
            continue;
        }
        if (--missing == 0)
            break;
    }
    return op_name;
}

void read_kernel_args(ondemand::object args, Tally &tally)
{
    for (auto field : args) {
        ondemand::raw_json_string key;
        must(field.key().get(key));
        const char *text = key.raw();
        bool wanted = std::memcmp(text, "block_", 6) == 0 || std::memcmp(text, "grid_", 5) == 0 ||
                      key == "op_name";
        if (!wanted)
            continue;
        string_view value;
        must(field.value().get_string().get(value));
        tally.touched += value.size();
    }
}

/* Fields are asked for in the order in which they are written: none is passed twice. */
void read_event(ondemand::object event, Tally &tally)
{
    ondemand::raw_json_string cat;
    ondemand::object args;
    int64_t tid, dur, ts;
    string_view name;
    must(event["cat"].get(cat));
    must(event["tid"].get(tid));
    must(event["dur"].get(dur));
    must(event["ts"].get(ts));
    must(event["name"].get(name));
    must(event["args"].get(args));
    tally.touched += static_cast<uint64_t>(tid) ^ static_cast<uint64_t>(ts);
    if (cat == "Kernel") {
        add(tally.gpu, name, dur);
        read_kernel_args(args, tally);
    } else if (name.ends_with("kernel_time")) {
        add(tally.cpu, read_node_args(args, tally), dur);
    } else if (name == "model_run") {
        tally.runs++;
    }
}

void read_whole(const char *path, Tally &tally)
{
    simdjson::padded_string text;
    must(simdjson::padded_string::load(path).get(text));
    ondemand::parser parser;
    ondemand::document document;
    must(parser.iterate(text).get(document));
    for (auto event : document) {
        ondemand::object object;
        must(event.get_object().get(object));
        read_event(object, tally);
    }
}

void read_line(const char *line, size_t length, ondemand::parser &parser, Tally &tally)
{
    if (length > 0 && line[length - 1] == ',')
        length--;
    if (length == 0 || *line != '{')
        return;
    ondemand::document document;
    ondemand::object event;
    must(parser.iterate(line, length, length + simdjson::SIMDJSON_PADDING).get(document));
    must(document.get_object().get(event));
    read_event(event, tally);
}

/* Reads the whole lines of a chunk, and returns how many bytes those were. */
size_t read_lines(const char *chunk, size_t bytes, ondemand::parser &parser, Tally &tally)
{
    const char *line = chunk;
    const char *end = chunk + bytes;
    while (const void *stop = std::memchr(line, '\n', static_cast<size_t>(end - line))) {
        const char *newline = static_cast<const char *>(stop);
        read_line(line, static_cast<size_t>(newline - line), parser, tally);
        line = newline + 1;
    }
    return static_cast<size_t>(line - chunk);
}

void read_events(const char *path, Tally &tally)
{
    int fd = open(path, O_RDONLY);
    if (fd < 0)
        fail(std::strerror(errno));
    /* What follows a line in the buffer is its padding. */
    std::vector<char> buffer(LINE_BYTES_MAX + CHUNK_BYTES + simdjson::SIMDJSON_PADDING);
    ondemand::parser parser;
    size_t held = 0;
    ssize_t got;
    while ((got = read(fd, buffer.data() + held, CHUNK_BYTES)) > 0) {
        held += static_cast<size_t>(got);
        size_t done = read_lines(buffer.data(), held, parser, tally);
        held -= done;
        if (held > LINE_BYTES_MAX)
            fail("a line is too long");
        std::memmove(buffer.data(), buffer.data() + done, held);
    }
    if (got < 0)
        fail(std::strerror(errno));
    read_line(buffer.data(), held, parser, tally);
    close(fd);
}

void print(const char *title, const Totals &totals)
{
    for (const auto &[name, total] : totals)
        std::printf("%s\t%s\t%" PRIu64 "\t%" PRId64 "\n", title, name.c_str(), total.count,
                    total.duration);
}

} // namespace

int main(int argc, char **argv)
{
    string_view mode = argc == 3 ? argv[1] : "";
    Tally tally;
    if (mode == "whole") {
        read_whole(argv[2], tally);
    } else if (mode == "events") {
        read_events(argv[2], tally);
    } else {
        std::fprintf(stderr, "usage: simdjson_peer whole|events FILE\n");
        return 2;
    }
    print("cpu", tally.cpu);
    print("gpu", tally.gpu);
    std::fprintf(stderr, "%" PRIu64 " runs, simdjson %s on %s (%" PRIx64 ")\n", tally.runs,
                 SIMDJSON_STRINGIFY(SIMDJSON_VERSION),
                 simdjson::get_active_implementation()->name().c_str(), tally.touched);
    return 0;
}
