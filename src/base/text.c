#include "base/text.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

size_t prn_utf8_length(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    /* Longer than needed, a surrogate, or beyond U+10FFFF. */
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
        (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
        return 0;
    return n;
}

/* U+200E, U+200F, U+2028 to U+202E and U+2066 to U+2069: they break lines or change the direction
 * of what follows, so that it reads as something else. `p` is valid UTF-8. */
static bool turns_text(const unsigned char *p)
{
    if (p[0] != 0xe2)
        return false;
    if (p[1] == 0x80)
        return p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae);
    return p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9;
}

bool prn_utf8_printable(const char *text)
{
    const unsigned char *p = (const unsigned char *)text;
    if (p[0] < 0x20 || p[0] == 0x7f)
        return false;
    return prn_utf8_length(text) > 0 && !(p[0] == 0xc2 && p[1] < 0xa0) && !turns_text(p);
}

void prn_text_hex(const void *bytes, size_t n, char *ret_digits)
{
    for (size_t i = 0; i < n; i++)
        snprintf(ret_digits + 2 * i, 3, "%02x", ((const unsigned char *)bytes)[i]);
}

bool prn_text_is_name(const char *text)
{
    if (!text[0])
        return false;
    for (const char *p = text; *p; p += prn_utf8_length(p))
        if (!prn_utf8_printable(p))
            return false;
    return true;
}

void prn_text_clean(struct prn_buffer *out, const char *text)
{
    while (*text) {
        size_t len = prn_utf8_length(text);
        if (*text == '\n' || *text == '\t')
            prn_buffer_add_char(out, ' ');
        else if (prn_utf8_printable(text) && strncmp(text, "\xef\xbf\xbd", 3) != 0)
            prn_buffer_append(out, text, len);
        else
            prn_buffer_add_char(out, '?');
        text += len ? len : 1;
    }
}

size_t prn_text_width(const char *text)
{
    size_t width = 0;
    for (; *text; width++) {
        size_t n = prn_utf8_length(text);
        text += n ? n : 1;
    }
    return width;
}

/* Where `n` characters end. */
static const char *skip_characters(const char *text, size_t n)
{
    for (; n > 0 && *text; n--) {
        size_t len = prn_utf8_length(text);
        text += len ? len : 1;
    }
    return text;
}

void prn_text_shorten(struct prn_buffer *out, const char *text, size_t width)
{
    size_t have = prn_text_width(text);
    if (have <= width || width < 2) {
        prn_buffer_add(out, text);
        return;
    }
    size_t head = (width - 1) / 2;
    size_t tail = width - 1 - head;
    prn_buffer_append(out, text, (size_t)(skip_characters(text, head) - text));
    prn_buffer_add(out, "…");
    prn_buffer_add(out, skip_characters(text, have - tail));
}

/* Characters, not bytes: continuation bytes don't count. */
static size_t characters(const char *text, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len; i++)
        n += (text[i] & 0xc0) != 0x80;
    return n;
}

const char *prn_text_wrap(struct prn_buffer *out, const char *text, size_t column, size_t indent,
                          size_t width)
{
    bool first = true;
    while (*text && *text != '\n') {
        size_t len = strcspn(text, " \n");
        size_t word = characters(text, len);
        if (column > indent && column + !first + word > width) {
            prn_buffer_printf(out, "\n%*s", (int)indent, "");
            column = indent;
        } else if (!first) {
            prn_buffer_add_char(out, ' ');
            column++;
        }
        /* A word that is longer than a line goes on in the next. */
        while (column < width && indent < width && column + word > width) {
            size_t room = width - column;
            size_t part = (size_t)(skip_characters(text, room) - text);
            prn_buffer_append(out, text, part);
            prn_buffer_printf(out, "\n%*s", (int)indent, "");
            text += part;
            len -= part;
            word -= room;
            column = indent;
        }
        prn_buffer_append(out, text, len);
        first = false;
        column += word;
        text += len;
        text += strspn(text, " ");
    }
    prn_buffer_add_char(out, '\n');
    return text;
}

/* Takes one character from the text. A byte that isn't UTF-8 becomes a surrogate, which no
 * character is. */
static uint32_t next_character(const char **text)
{
    const unsigned char *p = (const unsigned char *)*text;
    size_t len = prn_utf8_length(*text);
    *text += len ? len : 1;
    if (len == 0)
        return 0xdc00u + p[0];
    if (len == 1)
        return p[0];
    uint32_t character = p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++)
        character = character << 6 | (p[i] & 0x3fu);
    return character;
}

/* Whether the sequence between brackets, without the "!", has the character. */
static bool in_sequence(const char *at, const char *close, uint32_t character)
{
    bool found = false;
    while (at < close) {
        uint32_t low = next_character(&at);
        uint32_t high = low;
        if (*at == '-' && at + 1 < close) {
            at++;
            high = next_character(&at);
        }
        found = found || (low <= character && character <= high);
    }
    return found;
}

/* Matches one character with the part of the pattern at *pattern, which isn't a star or the end,
 * and goes past that part. */
static bool match_one(const char **pattern, const char *last_close, uint32_t character)
{
    uint32_t wanted = next_character(pattern);
    if (wanted == '?')
        return true;
    if (wanted != '[')
        return wanted == character;
    const char *first = *pattern;
    bool negated = *first == '!';
    first += negated;
    const char *close = *first == ']' ? first + 1 : first;
    if (!last_close || close > last_close)
        return character == '[';
    close += strcspn(close, "]");
    *pattern = close + 1;
    return in_sequence(first, close, character) != negated;
}

bool prn_text_glob(const char *pattern, const char *text)
{
    /* Kept, so that a pattern of many open brackets isn't searched to its end for each. */
    const char *last_close = strrchr(pattern, ']');
    /* Only the last star has to be tried again: what an earlier one could take, it can too. */
    const char *behind_star = NULL;
    const char *star_end = NULL;
    while (*text) {
        if (*pattern == '*') {
            behind_star = ++pattern;
            star_end = text;
            continue;
        }
        if (*pattern && match_one(&pattern, last_close, next_character(&text)))
            continue;
        if (!behind_star)
            return false;
        next_character(&star_end);
        text = star_end;
        pattern = behind_star;
    }
    return pattern[strspn(pattern, "*")] == '\0';
}

/* ---- Files ---- */

static bool looks_like_text(const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (bytes[i] == 0x7f || (bytes[i] < 0x20 && !isspace(bytes[i])))
            return false;
    return true;
}

const char *prn_file_kind(const void *data, size_t len)
{
    const unsigned char *bytes = data;
    static const struct {
        size_t offset;
        const char *magic;
        const char *is;
    } kinds[] = {
        {0, "PK\x03\x04", "a ZIP archive"},
        {0, "\x1f\x8b", "compressed with gzip"},
        {0, "(\xb5/\xfd", "compressed with zstd"},
        {0,
         "\xfd"
         "7zXZ",
         "compressed with xz"},
        {0, "BZh", "compressed with bzip2"},
        {0, "\x89HDF", "an HDF5 file"},
        {0, "\x93NUMPY", "a NumPy array"},
        {0, "GGUF", "a GGUF file"},
        {0, "SQLite format 3", "an SQLite database"},
        {0, "<!DOCTYPE html", "an HTML page"},
        {0, "<!doctype html", "an HTML page"},
        {0, "<html", "an HTML page"},
        {0, "<?xml", "an XML document"},
        {0, "ftrt", "a TensorRT engine"},
        {0,
         "\x7f"
         "ELF",
         "a program or library"},
        {0, "%PDF", "a PDF document"},
        {0, "\x89PNG", "a PNG image"},
        {0, "version https://git-lfs", "a Git LFS pointer ('git lfs pull' fetches the file)"},
        {4, "TFL3", "a TensorFlow Lite model"},
        {4, "ORTM", "a model in ONNX Runtime's own format"},
        {257, "ustar", "a tar archive"},
    };
    for (size_t i = 0; i < PRN_ARRAY_SIZE(kinds); i++) {
        size_t n = strlen(kinds[i].magic);
        if (len >= kinds[i].offset + n && memcmp(bytes + kinds[i].offset, kinds[i].magic, n) == 0)
            return kinds[i].is;
    }
    return looks_like_text(bytes, len < 512 ? len : 512) ? "text" : NULL;
}

#define NEAREST_MAX 40 /* bytes of a word that was meant to be another */

/* How many letters have to be changed, added, taken away or swapped with their neighbour. */
static size_t distance(const char *a, size_t len_a, const char *b, size_t len_b)
{
    size_t rows[3][NEAREST_MAX + 1];
    size_t *before = rows[0];
    size_t *last = rows[1];
    size_t *now = rows[2];
    for (size_t k = 0; k <= len_b; k++)
        last[k] = k;
    for (size_t i = 1; i <= len_a; i++) {
        now[0] = i;
        for (size_t k = 1; k <= len_b; k++) {
            size_t best = last[k - 1] + (a[i - 1] != b[k - 1]);
            best = last[k] + 1 < best ? last[k] + 1 : best;
            best = now[k - 1] + 1 < best ? now[k - 1] + 1 : best;
            bool swapped = i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1];
            if (swapped && before[k - 2] + 1 < best)
                best = before[k - 2] + 1;
            now[k] = best;
        }
        size_t *spare = before;
        before = last;
        last = now;
        now = spare;
    }
    return last[len_b];
}

const char *prn_text_nearest(const char *word, const char *const *words, size_t n)
{
    size_t len = strlen(word);
    const char *nearest = NULL;
    size_t least = SIZE_MAX;
    for (size_t i = 0; i < n && len > 1 && len <= NEAREST_MAX; i++) {
        size_t other = words[i] ? strlen(words[i]) : SIZE_MAX;
        if (other > NEAREST_MAX)
            continue;
        size_t apart = distance(word, len, words[i], other);
        if (apart < least && apart <= 1 + (len > 4) + len / 8) {
            least = apart;
            nearest = words[i];
        }
    }
    return nearest;
}
