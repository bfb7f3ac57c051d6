/* Nesting is kept in bits, not on the stack, so depth can't overflow it. */
#include "trace/scan.h"

#include "base/text.h"

bool prn_scan_fail(struct prn_scan *s, const char *fault)
{
    if (s->at < s->end)
        s->fault = fault;
    return false;
}

static bool hex_digits(struct prn_scan *s)
{
    for (int i = 0; i < 4; i++, s->at++) {
        char c = *s->at;
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
            return prn_scan_fail(s, "\\u needs four hexadecimal digits");
    }
    return true;
}

static bool scan_escape(struct prn_scan *s)
{
    s->at++;
    if (*s->at == 'u') {
        s->at++;
        return hex_digits(s);
    }
    if (!*s->at || !strchr("\"\\/bfnrt", *s->at))
        return prn_scan_fail(s, "invalid escape");
    s->at++;
    return true;
}

/* A sequence that the end of the text cuts is not a fault yet. */
static bool scan_utf8(struct prn_scan *s)
{
    size_t n = prn_utf8_length(s->at);
    if (n > 0) {
        s->at += n;
        return true;
    }
    const char *p = s->at;
    while (p < s->end && p - s->at < 4 && ((unsigned char)*p & 0x80))
        p++;
    if (p == s->end && p - s->at < 4)
        s->at = s->end;
    return prn_scan_fail(s, "not UTF-8");
}

bool prn_scan_odd_text(struct prn_scan *s, struct prn_scan_string *ret_string)
{
    if (*s->at != '"')
        return prn_scan_fail(s, "expected a string here");
    const char *begin = ++s->at;
    bool escaped = false;
    for (;;) {
        s->at = prn_scan_special(s->at);
        unsigned char c = (unsigned char)*s->at;
        if (c == '"')
            break;
        if (c == '\\') {
            escaped = true;
            if (!scan_escape(s))
                return false;
        } else if (c < 0x20) {
            return prn_scan_fail(s, "a control character inside a string");
        } else if (!scan_utf8(s)) {
            return false;
        }
    }
    ret_string->text = begin;
    ret_string->len = (size_t)(s->at - begin);
    ret_string->escaped = escaped;
    s->at++;
    return true;
}

static bool digits(struct prn_scan *s)
{
    if (!prn_scan_is_digit(*s->at))
        return prn_scan_fail(s, "expected a digit here");
    while (prn_scan_is_digit(*s->at))
        s->at++;
    return s->at < s->end;
}

static bool scan_number(struct prn_scan *s)
{
    /* The common case: digits, and a comma or bracket behind them. */
    if (*s->at >= '1' && *s->at <= '9') {
        const char *p = s->at + 1;
        while (prn_scan_is_digit(*p))
            p++;
        if (*p == ',' || *p == '}' || *p == ']') {
            s->at = p;
            return true;
        }
    }
    if (*s->at == '-')
        s->at++;
    if (s->at[0] == '0' && prn_scan_is_digit(s->at[1]))
        return prn_scan_fail(s, "a number with a leading zero");
    if (!digits(s))
        return false;
    if (*s->at == '.') {
        s->at++;
        if (!digits(s))
            return false;
    }
    if (*s->at == 'e' || *s->at == 'E') {
        s->at++;
        if (*s->at == '+' || *s->at == '-')
            s->at++;
        return digits(s);
    }
    return true;
}

/* From here on one more digit fits into 64 bits, and is the last that can matter: INT64_MAX has
 * nineteen. */
#define ENOUGH_DIGITS 1000000000000000000u

/* With a fraction or an exponent: the value is (digits) × 10^scale ns. */
static bool decimal_ns(struct prn_scan *s, const char *p, const char *end, int64_t *ret_ns)
{
    const char *begin = p;
    bool negative = *p == '-';
    bool fraction = false;
    bool full = false;
    uint64_t value = 0;
    int rest = 0;  /* the first digit behind those that count */
    int scale = 3; /* to ns */
    for (p += negative; p < end && *p != 'e' && *p != 'E'; p++) {
        if (*p == '.') {
            fraction = true;
            continue;
        }
        if (value >= ENOUGH_DIGITS) {
            rest = full ? rest : *p - '0';
            full = true;
            scale += !fraction;
            continue;
        }
        value = value * 10 + (uint64_t)(*p - '0');
        scale -= fraction;
    }
    if (p < end) {
        bool minus = *++p == '-';
        int exponent = 0;
        for (p += *p == '-' || *p == '+'; p < end; p++)
            exponent = exponent < 100000 ? exponent * 10 + (*p - '0') : exponent;
        scale += minus ? -exponent : exponent;
    }
    for (; scale > 0 && value != 0 && value <= INT64_MAX; scale--)
        if (__builtin_mul_overflow(value, 10, &value))
            value = UINT64_MAX;
    for (; scale < 0 && (value != 0 || rest != 0); scale++) {
        rest = (int)(value % 10);
        value /= 10;
    }
    if (value > INT64_MAX - (uint64_t)(rest >= 5)) {
        s->at = begin;
        return prn_scan_fail(s, "a time that is out of range");
    }
    value += rest >= 5;
    *ret_ns = negative ? -(int64_t)value : (int64_t)value;
    return true;
}

bool prn_scan_microseconds(struct prn_scan *s, int64_t *ret_ns)
{
    const char *begin = s->at;
    int64_t value = 0;
    /* The common case: some digits, and something else behind them. */
    while (prn_scan_is_digit(*s->at) && s->at - begin < 15)
        value = value * 10 + (*s->at++ - '0');
    char next = *s->at;
    bool plain = s->at > begin && (*begin != '0' || s->at == begin + 1) &&
                 (next == ',' || next == '}' || next == ' ' || next == '\n');
    if (plain) {
        *ret_ns = value * 1000;
        return true;
    }
    s->at = begin;
    if (*begin != '-' && !prn_scan_is_digit(*begin))
        return prn_scan_fail(s, "expected a number here");
    return scan_number(s) && decimal_ns(s, begin, s->at, ret_ns);
}

static bool scan_word(struct prn_scan *s, const char *word)
{
    for (; *word; word++, s->at++)
        if (*s->at != *word)
            return prn_scan_fail(s, "not a value");
    return true;
}

static bool scan_scalar(struct prn_scan *s)
{
    struct prn_scan_string string;
    switch (*s->at) {
    case '"':
        return prn_scan_text(s, &string);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    default:
        if (*s->at == '-' || prn_scan_is_digit(*s->at))
            return scan_number(s);
        return prn_scan_fail(s, "not a value");
    }
}

bool prn_scan_key(struct prn_scan *s, struct prn_scan_string *ret_key)
{
    if (*s->at != '"')
        return prn_scan_fail(s, "expected a key here");
    if (!prn_scan_text(s, ret_key))
        return false;
    prn_scan_space(s);
    if (*s->at != ':')
        return prn_scan_fail(s, "expected ':' here");
    s->at++;
    prn_scan_space(s);
    return true;
}

bool prn_scan_value(struct prn_scan *s)
{
    struct prn_scan_string key;
    uint64_t is_object[PRN_SCAN_DEPTH_MAX / 64];
    size_t depth = 0;
    for (;;) {
        /* A value begins here. */
        if (*s->at == '{' || *s->at == '[') {
            bool object = *s->at == '{';
            if (depth == PRN_SCAN_DEPTH_MAX)
                return prn_scan_fail(s, "nested too deeply");
            uint64_t bit = (uint64_t)1 << (depth % 64);
            is_object[depth / 64] =
                (depth % 64 ? is_object[depth / 64] & (bit - 1) : 0) | (object ? bit : 0);
            depth++;
            s->at++;
            prn_scan_space(s);
            if (*s->at != (object ? '}' : ']')) {
                if (object && !prn_scan_key(s, &key))
                    return false;
                continue;
            }
            s->at++;
            depth--;
        } else if (!scan_scalar(s)) {
            return false;
        }
        /* A value ended here: close what it was the last of. */
        for (;;) {
            if (depth == 0)
                return true;
            bool object = is_object[(depth - 1) / 64] >> ((depth - 1) % 64) & 1;
            prn_scan_space(s);
            if (*s->at == ',') {
                s->at++;
                prn_scan_space(s);
                if (object && !prn_scan_key(s, &key))
                    return false;
                break;
            }
            if (*s->at != (object ? '}' : ']'))
                return prn_scan_fail(s, object ? "expected ',' or '}' here"
                                               : "expected ',' or ']' here");
            s->at++;
            depth--;
        }
    }
}

static unsigned hex_value(const char *p)
{
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        unsigned char c = (unsigned char)p[i];
        value = value * 16 + (c <= '9' ? c - 0u - '0' : (c | 0x20u) - 'a' + 10);
    }
    return value;
}

static size_t encode_utf8(unsigned code, char *out)
{
    if (code == 0 || (code >= 0xd800 && code <= 0xdfff))
        code = 0xfffd;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (char)(0x80 | (code & 0x3f));
    return 4;
}

/* `p` is behind "\u"; returns the end of what was taken. */
static const char *decode_unicode(const char *p, const char *end, char **out)
{
    unsigned code = hex_value(p);
    p += 4;
    if (code >= 0xd800 && code < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u') {
        unsigned low = hex_value(p + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            p += 6;
        }
    }
    *out += encode_utf8(code, *out);
    return p;
}

size_t prn_scan_decode(const struct prn_scan_string *string, char *ret_text)
{
    const char *p = string->text;
    const char *end = p + string->len;
    char *out = ret_text;
    while (p < end) {
        if (*p != '\\') {
            *out++ = *p++;
            continue;
        }
        char c = p[1];
        p += 2;
        if (c == 'u')
            p = decode_unicode(p, end, &out);
        else
            *out++ = c == 'b'   ? '\b'
                     : c == 'f' ? '\f'
                     : c == 'n' ? '\n'
                     : c == 'r' ? '\r'
                     : c == 't' ? '\t'
                                : c;
    }
    return (size_t)(out - ret_text);
}
