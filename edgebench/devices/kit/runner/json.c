/* JSON in and out. The reader never trusts a byte: every step checks the end, the depth and the range. */
#include "json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "failure.h"

#define MAX_BYTES (16u << 20)
#define MAX_DEPTH 32

struct reader {
    const unsigned char *start, *at, *end;
    int depth;
};

static struct json read_value(struct reader *in);

_Noreturn static void malformed(const struct reader *in, const char *what) {
    fail("the job is not JSON that this runner reads: %s at byte %zu", what, (size_t)(in->at - in->start));
}

static void skip_space(struct reader *in) {
    while (in->at < in->end && (*in->at == ' ' || *in->at == '\t' || *in->at == '\n' || *in->at == '\r')) {
        in->at++;
    }
}

static bool take(struct reader *in, char wanted) {
    skip_space(in);
    if (in->at < in->end && *in->at == (unsigned char)wanted) {
        in->at++;
        return true;
    }
    return false;
}

static unsigned read_hex4(struct reader *in) {
    unsigned value = 0;
    for (int i = 0; i < 4; i++) {
        if (in->at >= in->end) {
            malformed(in, "an escape that breaks off");
        }
        unsigned char c = *in->at;
        unsigned digit;
        if (c >= '0' && c <= '9') {
            digit = c - '0';
        } else if ((c | 32) >= 'a' && (c | 32) <= 'f') {
            digit = (c | 32) - 'a' + 10u;
        } else {
            malformed(in, "a \\u escape without four hexadecimal digits");
        }
        value = value * 16 + digit;
        in->at++;
    }
    return value;
}

/* The code point of a \u escape, whose \u was read; a surrogate must come with its other half. */
static unsigned read_code_point(struct reader *in) {
    unsigned point = read_hex4(in);
    if (point >= 0xD800 && point < 0xDC00 && in->end - in->at >= 2 && in->at[0] == '\\' && in->at[1] == 'u') {
        in->at += 2;
        unsigned low = read_hex4(in);
        if (low < 0xDC00 || low > 0xDFFF) {
            malformed(in, "half a surrogate pair");
        }
        return 0x10000 + ((point - 0xD800) << 10) + (low - 0xDC00);
    }
    if (point == 0 || (point >= 0xD800 && point <= 0xDFFF)) {
        malformed(in, "a NUL or half a surrogate pair in a string");
    }
    return point;
}

static char *put_utf8(char *out, unsigned point) {
    if (point < 0x80) {
        *out++ = (char)point;
    } else if (point < 0x800) {
        *out++ = (char)(0xC0 | point >> 6);
        *out++ = (char)(0x80 | (point & 63));
    } else if (point < 0x10000) {
        *out++ = (char)(0xE0 | point >> 12);
        *out++ = (char)(0x80 | (point >> 6 & 63));
        *out++ = (char)(0x80 | (point & 63));
    } else {
        *out++ = (char)(0xF0 | point >> 18);
        *out++ = (char)(0x80 | (point >> 12 & 63));
        *out++ = (char)(0x80 | (point >> 6 & 63));
        *out++ = (char)(0x80 | (point & 63));
    }
    return out;
}

static char *read_string(struct reader *in) {
    if (!take(in, '"')) {
        malformed(in, "no string where one belongs");
    }
    const unsigned char *close = in->at;
    while (close < in->end && *close != '"') {
        close += *close == '\\' ? 2 : 1;
    }
    if (close >= in->end) {
        malformed(in, "a string without an end");
    }
    /* Unescaping never makes a string longer: the shortest escape of a code point has more bytes than its UTF-8. */
    char *text = allocate((size_t)(close - in->at) + 1, 1);
    char *out = text;
    while (in->at < close) {
        unsigned char c = *in->at++;
        if (c < 0x20) {
            malformed(in, "a control character in a string");
        }
        if (c != '\\') {
            *out++ = (char)c;
            continue;
        }
        static const char names[] = "\"\\/bfnrt", meanings[] = "\"\\/\b\f\n\r\t";
        c = *in->at++;
        const char *place = c ? strchr(names, c) : NULL;
        if (place) {
            *out++ = meanings[place - names];
        } else if (c == 'u') {
            out = put_utf8(out, read_code_point(in));
        } else {
            malformed(in, "an unknown escape");
        }
    }
    in->at = close + 1;
    return text;
}

static struct json read_number(struct reader *in) {
    char text[64];
    size_t length = 0;
    bool is_real = false;
    while (in->at < in->end && *in->at && strchr("+-.0123456789eE", *in->at)) {
        if (length + 1 >= sizeof text) {
            malformed(in, "a number that is too long");
        }
        is_real |= strchr(".eE", *in->at) != NULL;
        text[length++] = (char)*in->at++;
    }
    text[length] = 0;
    char *rest;
    errno = 0;
    struct json value = {.kind = is_real ? JSON_REAL : JSON_INTEGER};
    if (is_real) {
        strtod(text, &rest); /* no field of a job is a fraction: only that it is a number counts */
    } else {
        value.integer = strtoll(text, &rest, 10);
    }
    if (length == 0 || *rest || errno == ERANGE || text[0] == '+') {
        malformed(in, "no number of 64 bits where one belongs");
    }
    return value;
}

static void read_items(struct reader *in, struct json *value) {
    bool is_object = value->kind == JSON_OBJECT;
    char close = is_object ? '}' : ']';
    size_t room = 0;
    if (take(in, close)) {
        return;
    }
    do {
        if (value->count == room) {
            room = room ? room * 2 : 8;
            value->items = realloc(value->items, room * sizeof *value->items);
            value->names = is_object ? realloc(value->names, room * sizeof *value->names) : NULL;
            if (!value->items || (is_object && !value->names)) {
                malformed(in, "more items than there is memory for");
            }
        }
        if (is_object) {
            value->names[value->count] = read_string(in);
            if (!take(in, ':')) {
                malformed(in, "no ':' after a name");
            }
        }
        value->items[value->count] = read_value(in);
        value->count++;
    } while (take(in, ','));
    if (!take(in, close)) {
        malformed(in, is_object ? "no '}' or ','" : "no ']' or ','");
    }
}

static struct json read_value(struct reader *in) {
    static const struct {
        const char *text;
        struct json value;
    } words[] = {
        {"null", {.kind = JSON_NULL}},
        {"true", {.kind = JSON_BOOL, .truth = true}},
        {"false", {.kind = JSON_BOOL}},
    };
    skip_space(in);
    if (in->at >= in->end) {
        malformed(in, "it breaks off");
    }
    if (++in->depth > MAX_DEPTH) {
        malformed(in, "it is nested too deep");
    }
    struct json value = {.kind = JSON_NULL};
    bool is_word = false;
    for (size_t i = 0; i < sizeof words / sizeof *words && !is_word; i++) {
        size_t length = strlen(words[i].text);
        if ((size_t)(in->end - in->at) >= length && memcmp(in->at, words[i].text, length) == 0) {
            in->at += length;
            value = words[i].value;
            is_word = true;
        }
    }
    if (is_word) {
        /* done */
    } else if (*in->at == '"') {
        value.kind = JSON_STRING;
        value.string = read_string(in);
    } else if (*in->at == '{' || *in->at == '[') {
        value.kind = *in->at++ == '{' ? JSON_OBJECT : JSON_ARRAY;
        read_items(in, &value);
    } else {
        value = read_number(in);
    }
    in->depth--;
    return value;
}

struct json json_read(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) {
        fail("the job %s can't be read: %s", path, strerror(errno));
    }
    unsigned char *bytes = allocate(MAX_BYTES + 1, 1);
    size_t size = fread(bytes, 1, MAX_BYTES + 1, file);
    if (ferror(file) || size > MAX_BYTES) {
        fail("the job %s can't be read: %s", path, size > MAX_BYTES ? "it has more than 16 MiB" : strerror(errno));
    }
    fclose(file);
    struct reader in = {.start = bytes, .at = bytes, .end = bytes + size};
    struct json value = read_value(&in);
    skip_space(&in);
    if (in.at != in.end) {
        malformed(&in, "something after its end");
    }
    free(bytes);
    return value;
}

const struct json *json_member(const struct json *object, const char *name) {
    for (size_t i = object->kind == JSON_OBJECT ? object->count : 0; i-- > 0;) {
        if (strcmp(object->names[i], name) == 0) {
            return &object->items[i];
        }
    }
    return NULL;
}

static const struct json *member_of_kind(const struct json *object, const char *name, enum json_kind kind) {
    static const char *const words[] = {
        "null", "true or false", "an integer", "a number", "a string", "a list", "an object",
    };
    const struct json *member = json_member(object, name);
    if (!member || member->kind != kind) {
        fail("the job's '%s' must be %s%s", name, words[kind], member ? "" : ", and is not there");
    }
    return member;
}

const char *json_text(const struct json *object, const char *name) {
    return member_of_kind(object, name, JSON_STRING)->string;
}

int64_t json_integer(const struct json *object, const char *name, int64_t least, int64_t most) {
    int64_t value = member_of_kind(object, name, JSON_INTEGER)->integer;
    if (value < least || value > most) {
        fail("the job's '%s' must be %lld to %lld, not %lld", name, (long long)least, (long long)most,
             (long long)value);
    }
    return value;
}

bool json_truth(const struct json *object, const char *name) { return member_of_kind(object, name, JSON_BOOL)->truth; }

const struct json *json_paths(const struct json *object, const char *name) {
    const struct json *member = member_of_kind(object, name, JSON_OBJECT);
    for (size_t i = 0; i < member->count; i++) {
        if (member->items[i].kind != JSON_STRING) {
            fail("the job's '%s' must name a file for '%s'", name, member->names[i]);
        }
    }
    return member;
}

/* A name of its own in the same folder, so that a reader never sees half a result. */
static bool unfinished_name(char *name, size_t size, const char *path) {
    int length = snprintf(name, size, "%s.unfinished", path);
    return length > 0 && (size_t)length < size;
}

FILE *json_begin(const char *path) {
    char name[4096];
    return unfinished_name(name, sizeof name, path) ? fopen(name, "wb") : NULL;
}

bool json_commit(FILE *file, const char *path) {
    char name[4096];
    bool is_whole = !ferror(file);
    return (fclose(file) == 0) & is_whole && unfinished_name(name, sizeof name, path) && rename(name, path) == 0;
}

/* How many bytes the UTF-8 character at `at` has, or 0. */
static int utf8_length(const unsigned char *at) {
    int length = at[0] < 0x80 ? 1 : at[0] >= 0xC2 && at[0] < 0xE0 ? 2 : at[0] >= 0xE0 && at[0] < 0xF0 ? 3
                 : at[0] >= 0xF0 && at[0] < 0xF5 ? 4 : 0;
    for (int i = 1; i < length; i++) {
        if ((at[i] & 0xC0) != 0x80) {
            return 0;
        }
    }
    bool is_overlong = (at[0] == 0xE0 && at[1] < 0xA0) || (at[0] == 0xF0 && at[1] < 0x90);
    bool is_no_character = (at[0] == 0xED && at[1] >= 0xA0) || (at[0] == 0xF4 && at[1] >= 0x90);
    return is_overlong || is_no_character ? 0 : length;
}

void json_write_string(FILE *file, const char *text) {
    fputc('"', file);
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        int length = utf8_length(at);
        if (length == 0) {
            fputs("\\ufffd", file);
            at++;
        } else if (*at == '"' || *at == '\\') {
            fprintf(file, "\\%c", *at++);
        } else if (*at < 0x20) {
            fprintf(file, "\\u%04x", *at++);
        } else {
            fwrite(at, 1, (size_t)length, file);
            at += length;
        }
    }
    fputc('"', file);
}

void json_write_integers(FILE *file, const int64_t *values, size_t count) {
    fputc('[', file);
    for (size_t i = 0; i < count; i++) {
        fprintf(file, "%s%lld", i ? ", " : "", (long long)values[i]);
    }
    fputc(']', file);
}
