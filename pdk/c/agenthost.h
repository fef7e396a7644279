/* agenthost.h is the kit for plugins in C: one header, which needs no library. README.md
 * beside it has a plugin in fifteen lines and how to build it; pdk/ABI.md is the contract.
 *
 * A plugin lists what it offers with AH_PLUGIN, and each of its functions is given the
 * ah_call that it serves. All memory of a call is taken with ah_alloc and given back when
 * the call ends: nothing is freed, and nothing may be kept from one call to the next.
 *
 * Errors stay with the call: a function of this header that fails returns nothing (0, an
 * absent text or value) and leaves its error in the call. Unless ah_caught takes it out,
 * the call ends with the first error, whatever its function writes after that.
 */
#ifndef AGENTHOST_H
#define AGENTHOST_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Text in UTF-8, which no zero ends. It is absent if at is NULL. */
typedef struct { const char *at; uint32_t size; } ah_text;

/* A value of JSON as it was written, or absent (at is NULL). What the kit hands over is
 * valid JSON; numbers keep their digits. */
typedef struct { const char *at; uint32_t size; } ah_json;

typedef enum { AH_ABSENT, AH_NULL, AH_BOOL, AH_NUMBER, AH_STRING, AH_ARRAY, AH_OBJECT } ah_kind;

/* Writes JSON in C as it stands: AH_JSON({"type": "object"}). */
#define AH_JSON(...) #__VA_ARGS__

/* Codes of errors: what a caller can do about one. */
#define AH_INVALID_ARGUMENT "invalid_argument"
#define AH_UNAUTHENTICATED "unauthenticated"
#define AH_PERMISSION_DENIED "permission_denied"
#define AH_NOT_FOUND "not_found"
#define AH_ALREADY_EXISTS "already_exists"
#define AH_CONFLICT "conflict"
#define AH_RESOURCE_EXHAUSTED "resource_exhausted"
#define AH_FAILED_PRECONDITION "failed_precondition"
#define AH_DEADLINE_EXCEEDED "deadline_exceeded"
#define AH_CANCELED "canceled"
#define AH_UNAVAILABLE "unavailable"
#define AH_UNIMPLEMENTED "unimplemented"
#define AH_DATA_LOSS "data_loss"
#define AH_INTERNAL "internal"

/* An error. It is none if code is absent. */
typedef struct { ah_text code, message, hint; bool retryable; } ah_error;

/* For whom a call is made. What does not apply is absent. */
typedef struct { ah_text tenant, thread, run, network, agent; } ah_scope;

typedef struct { ah_text name, description; } ah_agent;

/* A tool's call or result in an outline. */
typedef struct { uint32_t message, part; bool is_result; ah_text id, name; } ah_row;

/* A conversation without its content: one entry a message in every column. The kit has
 * checked it, so that any index in it may be used without a look. */
typedef struct {
  uint32_t count;
  const char *roles; /* one letter a message: s system, u user, a assistant, t tool */
  const uint32_t *bytes, *chars, *parts;
  const uint32_t *tokens; /* NULL: the host has not counted them */
  ah_text encoding;
  const uint32_t *keep; /* messages that may be edited but not dropped; NULL: not said */
  uint32_t keep_count;
  int64_t own_from; /* where the agent's own rounds begin; -1: not said */
  const ah_row *tools;
  uint32_t tool_count;
} ah_outline;

typedef struct { char *at; uint32_t size, room; } ah_buffer;

/* What the last agent of a run did, for routers. */
typedef struct {
  ah_text agent, finish_reason;
  const ah_json *messages, *tool_results;
  uint32_t message_count, tool_result_count;
} ah_last;

/* A call, from what the host asks to what the plugin answers. */
typedef struct {
  ah_text name; /* of the tool, processor, router or provider */
  ah_json config;
  ah_scope scope;

  /* Of a tool's call. */
  ah_json arguments; /* satisfies the tool's parameters */
  ah_text call_id, provider;
  ah_text idempotency_key; /* the same whenever this very call is made again */
  int64_t attempt;         /* from 1, 0: not said; above 1 an earlier attempt may have taken effect */
  ah_json state;           /* the network's, with the permission state */
  int64_t state_revision;
  ah_json resumed; /* a person's answers to this call's interrupts */
  ah_json answer;  /* the last of them */

  /* The conversation of a processor, a provider and an observer. */
  ah_text model; /* that the view is for */
  const ah_json *messages;
  uint32_t message_count;
  bool has_messages;
  int64_t own_from;          /* where the agent's own rounds begin; -1: not said */
  const ah_outline *outline; /* NULL: there is none */

  /* Of a router. */
  ah_json input; /* the message of this turn */
  int64_t call_count;
  const ah_text *stack; /* agents that wait to run */
  const ah_agent *agents;
  uint32_t stack_count, agent_count;
  const ah_last *last; /* NULL before the first agent */

  /* Of an observer: one of the two. */
  const ah_json *responses;
  uint32_t response_count;
  ah_error failure;

  /* Of the kit. Plugins leave it alone. */
  struct {
    uint32_t heap;
    ah_error error;
    ah_json result, report, interrupt;
    ah_buffer state, media, artifacts, schedule, edits, next, messages, tools;
    ah_json view;
    ah_text delegate, reason, instructions;
    bool store;
  } kit;
} ah_call;

typedef void (*ah_function)(ah_call *);

/* What a plugin offers. JSON is text here, as AH_JSON writes it; NULL leaves it out. */
typedef struct {
  const char *name, *description, *parameters; /* parameters: a JSON Schema */
  ah_function run;
  bool read_only, destructive, idempotent, needs_approval;
  const char *result; /* a JSON Schema of the content */
} ah_tool;

typedef struct {
  const char *name;
  ah_function run;
  bool outline;       /* it reads an outline in the place of messages */
  const char *tokens; /* which counts the outline has: AH_JSON({"model": true}) */
  const char *config; /* a JSON Schema of its configuration */
} ah_processor;

typedef struct { const char *name; ah_function run; const char *config; } ah_router;
typedef struct { const char *name; ah_function run, observe; const char *config; } ah_provider;

typedef struct {
  const char *name, *version, *description;
  const char *permissions; /* what it asks for: AH_JSON({"kv": "write"}) */
  const char *requires;    /* operations that it cannot do without: AH_JSON(["http.fetch"]) */
  const char *resources;   /* texts and files that clients of the host read */
  const char *prompts;     /* texts that people choose in a client of the host */
  const char *health;      /* calls that a new version must answer before it serves */
  const ah_tool *tools;    /* each list ends with an entry without a name: {0} */
  const ah_processor *processors;
  const ah_router *routers;
  const ah_provider *providers;
} ah_plugin;

/* ---- The host's functions ---- */

#define AH_IMPORT(name) __attribute__((import_module("agenthost_v1"), import_name(name)))
AH_IMPORT("input_read") uint32_t ah_import_input_read(void *, uint32_t, uint32_t);
AH_IMPORT("output_write") void ah_import_output_write(const void *, uint32_t);
AH_IMPORT("host_call") uint64_t ah_import_host_call(const void *, uint32_t, const void *, uint32_t);
AH_IMPORT("host_call_bytes") uint64_t ah_import_host_call_bytes(const void *, uint32_t, const void *, uint32_t, const void *, uint32_t);
AH_IMPORT("host_read") uint32_t ah_import_host_read(void *, uint32_t, uint32_t);
AH_IMPORT("log") void ah_import_log(uint32_t, const void *, uint32_t);

#define AH_FN static __attribute__((unused))
#define AH_COLD static __attribute__((unused, noinline)) /* inlining these makes plugins large and no faster */

/* The compiler calls these; a C library's take their place. */
__attribute__((weak)) void *memcpy(void *restrict to, const void *restrict from, size_t n) {
  for (size_t i = 0; i < n; i++) ((char *)to)[i] = ((const char *)from)[i];
  return to;
}
__attribute__((weak)) void *memset(void *at, int byte, size_t n) {
  for (size_t i = 0; i < n; i++) ((char *)at)[i] = (char)byte;
  return at;
}
__attribute__((weak)) int memcmp(const void *a, const void *b, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (((const uint8_t *)a)[i] != ((const uint8_t *)b)[i]) return ((const uint8_t *)a)[i] - ((const uint8_t *)b)[i];
  return 0;
}

/* ---- Memory and text ---- */

extern char __heap_base;

/* Returns memory that lasts until the call ends. */
AH_COLD void *ah_alloc(ah_call *c, uint32_t size) {
  if (c->kit.heap == 0) c->kit.heap = (uint32_t)(uintptr_t)&__heap_base;
  uint64_t at = ((uint64_t)c->kit.heap + 7) & ~7ull, end = at + size;
  uint64_t have = (uint64_t)__builtin_wasm_memory_size(0) << 16;
  if (end > have) {
    uint64_t pages = ((end - have) + 65535) >> 16;
    if (end > UINT32_MAX || __builtin_wasm_memory_grow(0, pages) == SIZE_MAX) {
      static const char text[] = "the plugin has no memory left";
      ah_import_log(3, text, sizeof text - 1);
      __builtin_trap();
    }
  }
  c->kit.heap = (uint32_t)end;
  return (void *)(uintptr_t)at;
}

AH_FN uint32_t ah_length(const char *s) {
  uint32_t n = 0;
  while (s && s[n]) n++;
  return n;
}

/* The text of a string of C. */
AH_FN ah_text ah_c(const char *s) { return (ah_text){s, ah_length(s)}; }

AH_FN bool ah_same(ah_text a, ah_text b) { return a.size == b.size && memcmp(a.at, b.at, a.size) == 0; }
AH_FN bool ah_is(ah_text a, const char *b) { return a.at && ah_same(a, ah_c(b)); }

/* The value of JSON that a string of C holds; it must be valid. */
AH_FN ah_json ah_raw(const char *json) { return (ah_json){json, ah_length(json)}; }

AH_COLD void ah_add(ah_call *c, ah_buffer *b, const char *at, uint32_t n) {
  if (n > b->room - b->size) {
    uint32_t room = (b->size + n) * 2 + 64;
    char *moved = (char *)ah_alloc(c, room);
    __builtin_memcpy(moved, b->at, b->size);
    b->at = moved;
    b->room = room;
  }
  __builtin_memcpy(b->at + b->size, at, n);
  b->size += n;
}

AH_FN void ah_add_c(ah_call *c, ah_buffer *b, const char *s) { ah_add(c, b, s, ah_length(s)); }

AH_COLD void ah_add_int(ah_call *c, ah_buffer *b, int64_t v) {
  char digits[20];
  uint32_t at = sizeof digits;
  uint64_t n = v < 0 ? -(uint64_t)v : (uint64_t)v;
  do digits[--at] = (char)('0' + n % 10); while (n /= 10);
  if (v < 0) digits[--at] = '-';
  ah_add(c, b, digits + at, sizeof digits - at);
}

/* ah_rune returns the length of the UTF-8 sequence at p, 0 if it is none. */
AH_COLD uint32_t ah_rune(const char *p, const char *end) {
  uint8_t a = (uint8_t)p[0];
  if (a < 0x80) return 1;
  uint32_t n = a >= 0xc2 && a <= 0xdf ? 2 : a >= 0xe0 && a <= 0xef ? 3 : a >= 0xf0 && a <= 0xf4 ? 4 : 0;
  if (n == 0 || (uint32_t)(end - p) < n) return 0;
  uint8_t b = (uint8_t)p[1];
  if (b < (a == 0xe0 ? 0xa0 : a == 0xf0 ? 0x90 : 0x80) || b > (a == 0xed ? 0x9f : a == 0xf4 ? 0x8f : 0xbf)) return 0;
  for (uint32_t i = 2; i < n; i++)
    if (((uint8_t)p[i] & 0xc0) != 0x80) return 0;
  return n;
}

/* ah_add_string writes text as a string of JSON. What is not UTF-8 in it becomes U+FFFD. */
AH_COLD void ah_add_string(ah_call *c, ah_buffer *b, ah_text text) {
  ah_add(c, b, "\"", 1);
  const char *p = text.at, *end = text.at + text.size, *from = p;
  while (p < end) {
    uint8_t byte = (uint8_t)*p;
    uint32_t n = byte < 0x80 ? 1 : ah_rune(p, end);
    if (n > 0 && byte >= 0x20 && byte != '"' && byte != '\\') {
      p += n;
      continue;
    }
    ah_add(c, b, from, (uint32_t)(p - from));
    if (n == 0) {
      ah_add(c, b, "\xef\xbf\xbd", 3);
    } else {
      char escape[6] = {'\\', 'u', '0', '0', "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
      char one = byte == '"' ? '"' : byte == '\\' ? '\\' : byte == '\n' ? 'n' : byte == '\r' ? 'r' : byte == '\t' ? 't' : 0;
      if (one) {
        escape[1] = one;
        ah_add(c, b, escape, 2);
      } else {
        ah_add(c, b, escape, 6);
      }
    }
    from = ++p;
  }
  ah_add(c, b, from, (uint32_t)(end - from));
  ah_add(c, b, "\"", 1);
}

/* ah_add_double writes a number with up to nine digits behind the point, with an exponent from
 * 9e18 on and below 0.0001. JSON has null for what is infinite or no number. */
AH_FN void ah_add_double(ah_call *c, ah_buffer *b, double v) {
  if (v - v != 0) {
    ah_add_c(c, b, "null");
    return;
  }
  if (v < 0) {
    ah_add(c, b, "-", 1);
    v = -v;
  }
  if (v >= 9.0e18 || (v > 0 && v < 1.0e-4)) {
    int exponent = 0;
    for (; v >= 10; exponent++) v /= 10;
    for (; v < 1; exponent--) v *= 10;
    ah_add_double(c, b, v);
    ah_add(c, b, "e", 1);
    ah_add_int(c, b, exponent);
    return;
  }
  uint64_t whole = (uint64_t)v;
  uint64_t nano = whole < (1ull << 50) ? (uint64_t)((v - (double)whole) * 1e9 + 0.5) : 0;
  if (nano >= 1000000000) {
    whole++;
    nano = 0;
  }
  ah_add_int(c, b, (int64_t)whole);
  if (nano == 0) return;
  char digits[10] = {'.'};
  for (int i = 9; i > 0; i--, nano /= 10) digits[i] = (char)('0' + nano % 10);
  uint32_t n = 10;
  while (digits[n - 1] == '0') n--;
  ah_add(c, b, digits, n);
}

/* Writes format with its values: %s a string of C, %t an ah_text, %j an ah_json, %d an
 * int, %l an int64_t, %b a bool, %f a double with up to nine digits behind the point, %%
 * a percent sign, as a last % is. In JSON, texts are written as strings, and what is absent as null. */
AH_COLD void ah_vformat(ah_call *c, ah_buffer *b, bool json, const char *format, va_list values) {
  const char *from = format, *p = format;
  for (; *p; p++) {
    if (*p != '%') continue;
    ah_add(c, b, from, (uint32_t)(p - from));
    ah_text text = {0};
    switch (*++p) {
    case 0: ah_add(c, b, "%", 1); return;
    case 's': text = ah_c(va_arg(values, const char *)); break;
    case 't': text = va_arg(values, ah_text); break;
    case 'j': {
      ah_json v = va_arg(values, ah_json);
      if (v.at) ah_add(c, b, v.at, v.size);
      else ah_add_c(c, b, "null");
      break;
    }
    case 'd': ah_add_int(c, b, va_arg(values, int)); break;
    case 'l': ah_add_int(c, b, va_arg(values, int64_t)); break;
    case 'b': ah_add_c(c, b, va_arg(values, int) ? "true" : "false"); break;
    case 'f': ah_add_double(c, b, va_arg(values, double)); break;
    default: ah_add(c, b, p, 1);
    }
    if (*p == 's' || *p == 't') {
      if (json && text.at) ah_add_string(c, b, text);
      else if (json) ah_add_c(c, b, "null");
      else ah_add(c, b, text.at, text.size);
    }
    from = p + 1;
  }
  ah_add(c, b, from, (uint32_t)(p - from));
}

/* Makes JSON of a format: ah_make(c, AH_JSON({"city": %s, "days": %d}), "Oslo", 3). */
AH_COLD ah_json ah_make(ah_call *c, const char *format, ...) {
  ah_buffer b = {0};
  va_list values;
  va_start(values, format);
  ah_vformat(c, &b, true, format, values);
  va_end(values);
  return (ah_json){b.at, b.size};
}

/* Makes text of a format, where %s and %t stand as they are. */
AH_FN ah_text ah_format(ah_call *c, const char *format, ...) {
  ah_buffer b = {0};
  va_list values;
  va_start(values, format);
  ah_vformat(c, &b, false, format, values);
  va_end(values);
  return (ah_text){b.at ? b.at : "", b.size};
}

enum { AH_DEBUG, AH_INFO, AH_WARN, AH_ERROR };

/* Writes a line to the plugin's log. */
AH_FN void ah_log(ah_call *c, int level, const char *format, ...) {
  ah_buffer b = {0};
  va_list values;
  va_start(values, format);
  ah_vformat(c, &b, false, format, values);
  va_end(values);
  ah_import_log((uint32_t)level, b.at, b.size);
}

/* ---- Errors ---- */

AH_FN bool ah_failed(const ah_call *c) { return c->kit.error.code.at != NULL; }

/* Ends the call with an error, unless it has one. The model reads the message of a tool's. */
AH_COLD void ah_fail(ah_call *c, const char *code, const char *format, ...) {
  if (ah_failed(c)) return;
  ah_buffer b = {0};
  va_list values;
  va_start(values, format);
  ah_vformat(c, &b, false, format, values);
  va_end(values);
  c->kit.error = (ah_error){.code = ah_c(code), .message = b.size ? (ah_text){b.at, b.size} : ah_c(code)};
}

/* Says what to do about the call's error, and whether the same call may succeed later. */
AH_FN void ah_hint(ah_call *c, const char *hint, bool retryable) {
  c->kit.error.hint = ah_c(hint);
  c->kit.error.retryable = retryable;
}

/* Takes the call's error away if it has this code, and reports whether it had. */
AH_FN bool ah_caught(ah_call *c, const char *code) {
  if (!ah_is(c->kit.error.code, code)) return false;
  c->kit.error = (ah_error){0};
  return true;
}

/* ---- Reading JSON ---- */

#define AH_MAX_DEPTH 10000

AH_FN const char *ah_space(const char *p, const char *end) {
  while (p < end && (*p == ' ' || *p == '\n' || *p == '\t' || *p == '\r')) p++;
  return p;
}

AH_FN int ah_hex(const char *p, const char *end) {
  if (end - p < 4) return -1;
  int v = 0;
  for (int i = 0; i < 4; i++) {
    char h = p[i];
    int d = h >= '0' && h <= '9' ? h - '0' : h >= 'a' && h <= 'f' ? h - 'a' + 10 : h >= 'A' && h <= 'F' ? h - 'A' + 10 : -1;
    if (d < 0) return -1;
    v = v << 4 | d;
  }
  return v;
}

/* ah_valid_string returns the end of the string that begins behind the quote at p - 1, NULL
 * if it is none. */
AH_FN const char *ah_valid_string(const char *p, const char *end) {
  while (p < end) {
    uint8_t b = (uint8_t)*p;
    if (b == '"') return p + 1;
    if (b < 0x20) return NULL;
    if (b == '\\') {
      if (++p == end) return NULL;
      switch (*p) {
      case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't': p++; break;
      case 'u':
        if (ah_hex(p + 1, end) < 0) return NULL;
        p += 5;
        break;
      default: return NULL;
      }
    } else if (b < 0x80) {
      p++;
    } else {
      uint32_t n = ah_rune(p, end);
      if (n == 0) return NULL;
      p += n;
    }
  }
  return NULL;
}

AH_FN const char *ah_digits(const char *p, const char *end) {
  const char *from = p;
  while (p < end && *p >= '0' && *p <= '9') p++;
  return p == from ? NULL : p;
}

/* ah_digits_of_list passes over numbers of a list that are digits with a comma between them, but for the last. */
AH_FN const char *ah_digits_of_list(const char *p, const char *end) {
  for (const char *at = p; at < end && *at >= '1' && *at <= '9';) {
    while (++at < end && (uint32_t)*at - '0' < 10);
    if (at + 1 >= end || *at++ != ',' || *at < '1' || *at > '9') break;
    p = at;
  }
  return p;
}

AH_FN const char *ah_valid_number(const char *p, const char *end) {
  if (p < end && *p == '-') p++;
  if (p < end && *p == '0') p++;
  else if (!(p = ah_digits(p, end))) return NULL;
  if (p < end && *p == '.' && !(p = ah_digits(p + 1, end))) return NULL;
  if (p < end && (*p == 'e' || *p == 'E')) {
    p++;
    if (p < end && (*p == '+' || *p == '-')) p++;
    p = ah_digits(p, end);
  }
  return p;
}

AH_FN const char *ah_valid_word(const char *p, const char *end, const char *word) {
  for (; *word; word++, p++)
    if (p == end || *p != *word) return NULL;
  return p;
}

/* ah_valid_key returns where the value of a member begins, NULL if there is no member. */
AH_FN const char *ah_valid_key(const char *p, const char *end) {
  if (p == end || *p != '"' || !(p = ah_valid_string(p + 1, end))) return NULL;
  p = ah_space(p, end);
  return p < end && *p == ':' ? p + 1 : NULL;
}

/* Reports whether text is one value of JSON, nested at most 10,000 deep. It calls itself
 * never, so that no depth ends the plugin. */
AH_FN bool ah_valid(ah_text text) {
  uint8_t objects[AH_MAX_DEPTH / 8 + 1]; /* a bit for each open bracket: it is an object's */
  uint32_t depth = 0;
  const char *p = ah_space(text.at, text.at + text.size), *end = text.at + text.size;
  for (;;) {
    /* A value begins at p. */
    p = ah_space(p, end);
    if (p == end) return false;
    char first = *p;
    if (first == '{' || first == '[') {
      if (depth == AH_MAX_DEPTH) return false;
      uint8_t bit = (uint8_t)(1 << (depth & 7));
      if (first == '{') objects[depth >> 3] |= bit;
      else objects[depth >> 3] &= (uint8_t)~bit;
      depth++;
      p = ah_space(p + 1, end);
      if (p == end) return false;
      if (*p == (first == '{' ? '}' : ']')) {
        p++;
        depth--;
      } else {
        if (first == '{' && !(p = ah_valid_key(p, end))) return false;
        continue;
      }
    } else {
      switch (first) {
      case '"': p = ah_valid_string(p + 1, end); break;
      case 't': p = ah_valid_word(p, end, "true"); break;
      case 'f': p = ah_valid_word(p, end, "false"); break;
      case 'n': p = ah_valid_word(p, end, "null"); break;
      default:
        if (depth > 0 && !(objects[(depth - 1) >> 3] >> ((depth - 1) & 7) & 1)) p = ah_digits_of_list(p, end);
        p = ah_valid_number(p, end);
      }
      if (!p) return false;
    }
    /* A value ended at p. */
    for (;;) {
      p = ah_space(p, end);
      if (depth == 0) return p == end;
      if (p == end) return false;
      bool object = objects[(depth - 1) >> 3] >> ((depth - 1) & 7) & 1;
      char next = *p++;
      if (next == ',') {
        if (object && !(p = ah_valid_key(ah_space(p, end), end))) return false;
        break;
      }
      if (next != (object ? '}' : ']')) return false;
      depth--;
    }
  }
}

/* ah_skip_string returns the end of a valid string whose quote is at p. */
AH_FN const char *ah_skip_string(const char *p) {
  for (p++; *p != '"'; p++)
    if (*p == '\\') p++;
  return p + 1;
}

/* ah_are_below_at says whether eight bytes are below '@' and no quotes: none opens or closes anything. */
AH_FN bool ah_are_below_at(const char *p) {
  uint64_t bytes, quotes;
  __builtin_memcpy(&bytes, p, 8);
  quotes = bytes ^ 0x2222222222222222;
  return !((bytes & 0xc0c0c0c0c0c0c0c0) | ((quotes - 0x0101010101010101) & ~quotes & 0x8080808080808080));
}

/* ah_skip returns the end of the valid value at p. */
AH_COLD const char *ah_skip(const char *p, const char *end) {
  if (*p == '"') return ah_skip_string(p);
  if (*p != '{' && *p != '[') {
    while (p < end && *p != ',' && *p != ']' && *p != '}' && *p > ' ') p++;
    return p;
  }
  uint32_t depth = 0;
  do {
    if (*p >= '0' && *p <= '9')
      while (p + 8 <= end && ah_are_below_at(p)) p += 8;
    if (*p == '"') {
      p = ah_skip_string(p);
      continue;
    }
    if (*p == '{' || *p == '[') depth++;
    else if (*p == '}' || *p == ']') depth--;
    p++;
  } while (depth > 0);
  return p;
}

AH_FN ah_kind ah_kind_of(ah_json v) {
  if (!v.at) return AH_ABSENT;
  switch (*v.at) {
  case '{': return AH_OBJECT;
  case '[': return AH_ARRAY;
  case '"': return AH_STRING;
  case 't': case 'f': return AH_BOOL;
  case 'n': return AH_NULL;
  default: return AH_NUMBER;
  }
}

/* Goes through the items of an array, or the members of an object:
 *   for (ah_iterator i = ah_iterate(v); ah_next_item(&i);) use(i.key, i.value);
 * key is the name of a member as a value of JSON. Other values have no items. */
typedef struct { ah_json key, value; const char *at, *end; bool object; } ah_iterator;

AH_FN ah_iterator ah_iterate(ah_json v) {
  ah_kind kind = ah_kind_of(v);
  ah_iterator i = {.object = kind == AH_OBJECT};
  if (kind == AH_OBJECT || kind == AH_ARRAY) {
    i.at = v.at + 1;
    i.end = v.at + v.size;
  }
  return i;
}

AH_COLD bool ah_next_item(ah_iterator *i) {
  if (!i->at) return false;
  const char *p = ah_space(i->at, i->end);
  if (*p == ',') p = ah_space(p + 1, i->end);
  if (*p == ']' || *p == '}') {
    i->at = NULL;
    return false;
  }
  if (i->object) {
    const char *key = p;
    p = ah_skip_string(p);
    i->key = (ah_json){key, (uint32_t)(p - key)};
    p = ah_space(p, i->end);
    p = ah_space(p + 1, i->end);
  }
  const char *value = p;
  p = ah_skip(p, i->end);
  i->value = (ah_json){value, (uint32_t)(p - value)};
  i->at = p;
  return true;
}

AH_FN uint32_t ah_count(ah_json v) {
  uint32_t n = 0;
  for (ah_iterator i = ah_iterate(v); ah_next_item(&i);) n++;
  return n;
}

AH_FN uint32_t ah_encode_rune(char *to, uint32_t r) {
  if (r < 0x80) return to[0] = (char)r, 1;
  if (r < 0x800) return to[0] = (char)(0xc0 | r >> 6), to[1] = (char)(0x80 | (r & 63)), 2;
  if (r < 0x10000) return to[0] = (char)(0xe0 | r >> 12), to[1] = (char)(0x80 | (r >> 6 & 63)), to[2] = (char)(0x80 | (r & 63)), 3;
  return to[0] = (char)(0xf0 | r >> 18), to[1] = (char)(0x80 | (r >> 12 & 63)), to[2] = (char)(0x80 | (r >> 6 & 63)), to[3] = (char)(0x80 | (r & 63)), 4;
}

/* ah_unescape reads the escape at p, writes what it stands for, at most four bytes, and
 * returns its end. A surrogate without its other half is U+FFFD. */
AH_FN const char *ah_unescape(const char *p, const char *end, char *to, uint32_t *size) {
  uint32_t r;
  switch (p[1]) {
  case 'b': r = '\b'; break;
  case 'f': r = '\f'; break;
  case 'n': r = '\n'; break;
  case 'r': r = '\r'; break;
  case 't': r = '\t'; break;
  case 'u': {
    r = (uint32_t)ah_hex(p + 2, end);
    p += 4;
    if (r >= 0xd800 && r < 0xe000) {
      int low = r < 0xdc00 && end - p >= 8 && p[2] == '\\' && p[3] == 'u' ? ah_hex(p + 4, end) : -1;
      if (low >= 0xdc00 && low < 0xe000) {
        r = 0x10000 + ((r - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
        p += 6;
      } else {
        r = 0xfffd;
      }
    }
    break;
  }
  default: r = (uint8_t)p[1];
  }
  *size = ah_encode_rune(to, r);
  return p + 2;
}

/* ah_key_is reports whether a string of JSON is name. */
AH_COLD bool ah_key_is(ah_json key, const char *name) {
  const char *p = key.at + 1, *end = key.at + key.size - 1;
  while (p < end) {
    if (*p != '\\') {
      if (*p++ != *name++) return false;
      continue;
    }
    char bytes[4];
    uint32_t n;
    p = ah_unescape(p, end, bytes, &n);
    for (uint32_t i = 0; i < n; i++)
      if (*name == 0 || bytes[i] != *name++) return false;
  }
  return *name == 0;
}

/* Returns the member of an object, the last one of that name. */
AH_COLD ah_json ah_get(ah_json object, const char *name) {
  ah_json found = {0};
  if (ah_kind_of(object) != AH_OBJECT) return found;
  for (ah_iterator i = ah_iterate(object); ah_next_item(&i);)
    if (ah_key_is(i.key, name)) found = i.value;
  return found;
}

/* Returns an item of an array. */
AH_FN ah_json ah_at(ah_json array, uint32_t index) {
  if (ah_kind_of(array) == AH_ARRAY)
    for (ah_iterator i = ah_iterate(array); ah_next_item(&i);)
      if (index-- == 0) return i.value;
  return (ah_json){0};
}

/* Returns the text of a string; absent if the value is no string. */
AH_COLD ah_text ah_string(ah_call *c, ah_json v) {
  if (ah_kind_of(v) != AH_STRING) return (ah_text){0};
  const char *p = v.at + 1, *end = v.at + v.size - 1;
  const char *escape = p;
  while (escape < end && *escape != '\\') escape++;
  if (escape == end) return (ah_text){p, (uint32_t)(end - p)};
  char *text = (char *)ah_alloc(c, v.size), *to = text;
  while (p < end) {
    if (*p != '\\') {
      *to++ = *p++;
      continue;
    }
    uint32_t n;
    p = ah_unescape(p, end, to, &n);
    to += n;
  }
  return (ah_text){text, (uint32_t)(to - text)};
}

/* Reads a number whose value is an integer of 64 bits, exactly: 2, 2.0 and 2e0. */
AH_FN bool ah_read_int(ah_json v, int64_t *to) {
  if (ah_kind_of(v) != AH_NUMBER) return false;
  const char *p = v.at, *end = v.at + v.size;
  int64_t simple = 0; /* digits, as most are */
  for (; p < end && p - v.at < 18 && *p >= '0' && *p <= '9'; p++) simple = simple * 10 + (*p - '0');
  if (p == end) {
    *to = simple;
    return true;
  }
  p = v.at;
  bool minus = *p == '-';
  if (minus) p++;
  const char *digits = p;
  int64_t count = 0, point = -1, exponent = 0; /* digits, those before the point */
  for (; p < end && *p != 'e' && *p != 'E'; p++) {
    if (*p == '.') point = count;
    else count++;
  }
  const char *stop = p;
  if (point < 0) point = count;
  if (p < end) {
    bool down = p[1] == '-';
    for (p += 1 + (p[1] == '-' || p[1] == '+'); p < end; p++)
      if (exponent < 100000000) exponent = exponent * 10 + (*p - '0');
    if (down) exponent = -exponent;
  }
  point += exponent;
  uint64_t n = 0, most = minus ? 1ull << 63 : INT64_MAX;
  int64_t index = 0;
  for (p = digits; p < stop; p++) {
    if (*p == '.') continue;
    uint64_t d = (uint64_t)(*p - '0');
    if (index++ >= point) {
      if (d != 0) return false; /* a fraction */
    } else if (n > (most - d) / 10) {
      return false;
    } else {
      n = n * 10 + d;
    }
  }
  for (; n != 0 && index < point; index++) {
    if (n > most / 10) return false;
    n *= 10;
  }
  *to = minus ? (int64_t)-n : (int64_t)n;
  return true;
}

/* Reads a number as a double, to within the last few units of its last place. */
AH_FN bool ah_read_double(ah_json v, double *to) {
  if (ah_kind_of(v) != AH_NUMBER) return false;
  const char *p = v.at, *end = v.at + v.size;
  bool minus = *p == '-', point = false;
  uint64_t n = 0;
  int32_t shift = 0, exponent = 0;
  for (p += minus; p < end && *p != 'e' && *p != 'E'; p++) {
    if (*p == '.') {
      point = true;
      continue;
    }
    if (n < 100000000000000000ull) {
      n = n * 10 + (uint64_t)(*p - '0');
      shift -= point;
    } else {
      shift += !point;
    }
  }
  if (p < end) {
    bool down = p[1] == '-';
    for (p += 1 + (p[1] == '-' || p[1] == '+'); p < end; p++)
      if (exponent < 100000) exponent = exponent * 10 + (*p - '0');
    shift += down ? -exponent : exponent;
  }
  double d = (double)n;
  if (n != 0 && shift < -400) d = 0;
  else if (n != 0 && shift > 400) return false;
  else {
    double ten = 1;
    int32_t power = shift < 0 ? -shift : shift;
    while (n != 0 && power > 0) {
      int32_t some = power > 22 ? 22 : power;
      ten = 1;
      for (int32_t i = 0; i < some; i++) ten *= 10;
      d = shift < 0 ? d / ten : d * ten;
      power -= some;
    }
  }
  if (d > 1.7976931348623157e308) return false;
  *to = minus ? -d : d;
  return true;
}

/* ---- Arguments, configurations and other objects ---- */

/* Each of these reads the member of an object, and fails the call with invalid_argument and
 * the member's name if it is of another type. Those with _or return what they are given for
 * one that is absent or null; the others fail the call. */

AH_FN ah_json ah_member(ah_call *c, ah_json object, const char *name, bool needed) {
  ah_json v = ah_get(object, name);
  if (ah_kind_of(v) == AH_NULL) v = (ah_json){0};
  if (!v.at && needed) ah_fail(c, AH_INVALID_ARGUMENT, "%s is absent", name);
  return v;
}

AH_FN int64_t ah_as_int(ah_call *c, ah_json v, const char *name, int64_t absent) {
  if (v.at && !ah_read_int(v, &absent)) ah_fail(c, AH_INVALID_ARGUMENT, "%s is no integer of 64 bits", name);
  return absent;
}

AH_FN double ah_as_double(ah_call *c, ah_json v, const char *name, double absent) {
  if (v.at && !ah_read_double(v, &absent)) ah_fail(c, AH_INVALID_ARGUMENT, "%s is no number", name);
  return absent;
}

AH_FN bool ah_as_bool(ah_call *c, ah_json v, const char *name, bool absent) {
  if (!v.at) return absent;
  if (ah_kind_of(v) != AH_BOOL) ah_fail(c, AH_INVALID_ARGUMENT, "%s is no boolean", name);
  return *v.at == 't';
}

AH_FN ah_text ah_as_text(ah_call *c, ah_json v, const char *name, ah_text absent) {
  if (!v.at) return absent;
  if (ah_kind_of(v) != AH_STRING) ah_fail(c, AH_INVALID_ARGUMENT, "%s is no string", name);
  return ah_string(c, v);
}

AH_FN int64_t ah_get_int(ah_call *c, ah_json o, const char *name) { return ah_as_int(c, ah_member(c, o, name, true), name, 0); }
AH_FN int64_t ah_get_int_or(ah_call *c, ah_json o, const char *name, int64_t absent) { return ah_as_int(c, ah_member(c, o, name, false), name, absent); }
AH_FN double ah_get_double(ah_call *c, ah_json o, const char *name) { return ah_as_double(c, ah_member(c, o, name, true), name, 0); }
AH_FN double ah_get_double_or(ah_call *c, ah_json o, const char *name, double absent) { return ah_as_double(c, ah_member(c, o, name, false), name, absent); }
AH_FN bool ah_get_bool_or(ah_call *c, ah_json o, const char *name, bool absent) { return ah_as_bool(c, ah_member(c, o, name, false), name, absent); }
AH_FN ah_text ah_get_text(ah_call *c, ah_json o, const char *name) { return ah_as_text(c, ah_member(c, o, name, true), name, (ah_text){0}); }
AH_FN ah_text ah_get_text_or(ah_call *c, ah_json o, const char *name, const char *absent) { return ah_as_text(c, ah_member(c, o, name, false), name, ah_c(absent)); }

/* ---- What a tool answers ---- */

/* Says what the model reads: a format of JSON, as for ah_make. Without it, it is null. */
#define ah_return(c, ...) ((c)->kit.result = ah_make((c), __VA_ARGS__))

/* Asks a person; data may be absent. The tool is called again with the answer in c->answer. */
AH_FN void ah_interrupt(ah_call *c, ah_text reason, ah_json data) {
  c->kit.interrupt = data.at ? ah_make(c, "{\"reason\":%t,\"data\":%j}", reason, data) : ah_make(c, "{\"reason\":%t}", reason);
}

AH_COLD void ah_append(ah_call *c, ah_buffer *list, ah_json item) {
  ah_add(c, list, list->size ? "," : "[", 1);
  ah_add(c, list, item.at, item.size);
}

/* Adds an operation of RFC 6902 on the network's state, which is applied after the call:
 * ah_patch(c, ah_make(c, AH_JSON({"op": "add", "path": "/city", "value": %s}), city)). */
AH_FN void ah_patch(ah_call *c, ah_json operation) { ah_append(c, &c->kit.state, operation); }

/* Adds a media part to the result, for models and clients that take it:
 * AH_JSON({"type": "media", "media_type": %s, "data": %s}), data in base64. */
AH_FN void ah_media(ah_call *c, ah_json part) { ah_append(c, &c->kit.media, part); }

/* Adds an artifact: AH_JSON({"name": %s, "parts": [...]}). */
AH_FN void ah_artifact(ah_call *c, ah_json artifact) { ah_append(c, &c->kit.artifacts, artifact); }

/* Has an agent of the network run next. */
AH_FN void ah_schedule(ah_call *c, ah_text agent) { ah_append(c, &c->kit.schedule, ah_make(c, "%t", agent)); }

/* ---- What a processor answers: edits, by the indices of the view that it was given ---- */

AH_FN void ah_drop(ah_call *c, uint32_t from, uint32_t to) {
  ah_append(c, &c->kit.edits, ah_make(c, "{\"drop\":[%l,%l]}", (int64_t)from, (int64_t)to));
}
AH_FN void ah_drop_part(ah_call *c, uint32_t message, uint32_t part) {
  ah_append(c, &c->kit.edits, ah_make(c, "{\"drop_part\":[%l,%l]}", (int64_t)message, (int64_t)part));
}
AH_FN void ah_insert(ah_call *c, uint32_t at, ah_json message) {
  ah_append(c, &c->kit.edits, ah_make(c, "{\"insert\":{\"at\":%l,\"message\":%j}}", (int64_t)at, message));
}
AH_FN void ah_replace(ah_call *c, uint32_t at, ah_json message) {
  ah_append(c, &c->kit.edits, ah_make(c, "{\"replace\":{\"at\":%l,\"message\":%j}}", (int64_t)at, message));
}

/* Makes an array of messages the whole new view. It goes with no edits. */
AH_FN void ah_view(ah_call *c, ah_json messages) { c->kit.view = messages; }

/* Says what is shown on the run. */
AH_FN void ah_report(ah_call *c, ah_json report) { c->kit.report = report; }

/* ---- What a router answers ---- */

/* Has an agent run; several calls name several, in order. Without one the run ends. */
AH_FN void ah_route(ah_call *c, ah_text agent) { ah_append(c, &c->kit.next, ah_make(c, "%t", agent)); }

/* Lets a model router decide; "default" is the network's own. */
AH_FN void ah_delegate(ah_call *c, ah_text router) { c->kit.delegate = router; }

/* Says why, in a sentence that is shown on the run. */
AH_FN void ah_reason(ah_call *c, ah_text reason) { c->kit.reason = reason; }

/* ---- What a provider answers ---- */

AH_FN void ah_instruct(ah_call *c, ah_text instructions) { c->kit.instructions = instructions; }
AH_FN void ah_add_message(ah_call *c, ah_json message) { ah_append(c, &c->kit.messages, message); }
AH_FN void ah_offer(ah_call *c, ah_text tool) { ah_append(c, &c->kit.tools, ah_make(c, "%t", tool)); }

/* Has the added messages stored with the answer. */
AH_FN void ah_store_messages(ah_call *c) { c->kit.store = true; }

/* ---- Log ---- */

/* ah_add_plain writes a string of JSON without its quotes where a reader can tell where it
 * ends, and any other value as it stands. */
AH_FN void ah_add_plain(ah_call *c, ah_buffer *b, ah_json v) {
  bool plain = ah_kind_of(v) == AH_STRING && v.size > 2;
  for (uint32_t i = 1; plain && i < v.size - 1; i++) plain = (uint8_t)v.at[i] > ' ' && v.at[i] != '\\' && v.at[i] != '=' && v.at[i] != 0x7f;
  ah_add(c, b, v.at + plain, v.size - 2 * plain);
}

/* Writes a line to the plugin's log with attributes, a format of an object:
 * ah_log_with(c, AH_INFO, "sent", AH_JSON({"order": %l}), id) writes: sent order=42 */
AH_FN void ah_log_with(ah_call *c, int level, const char *message, const char *attributes, ...) {
  ah_buffer b = {0}, object = {0};
  va_list values;
  va_start(values, attributes);
  ah_vformat(c, &object, true, attributes, values);
  va_end(values);
  ah_add_c(c, &b, message);
  for (ah_iterator i = ah_iterate((ah_json){object.at, object.size}); ah_next_item(&i);) {
    ah_add(c, &b, " ", 1);
    ah_add_plain(c, &b, i.key);
    ah_add(c, &b, "=", 1);
    ah_add_plain(c, &b, i.value);
  }
  ah_import_log((uint32_t)level, b.at, b.size);
}

/* ---- Messages ---- */

/* Returns the texts of a message's text parts, one after the other. */
AH_FN ah_text ah_text_of(ah_call *c, ah_json message) {
  ah_buffer b = {0};
  for (ah_iterator i = ah_iterate(ah_get(message, "parts")); ah_next_item(&i);) {
    if (!ah_is(ah_string(c, ah_get(i.value, "type")), "text")) continue;
    ah_text text = ah_string(c, ah_get(i.value, "text"));
    ah_add(c, &b, text.at, text.size);
  }
  return (ah_text){b.at ? b.at : "", b.size};
}

/* ah_map_strings writes a value with every string in it, but for names, as f returns it, and
 * reports whether one has changed. */
AH_FN bool ah_map_strings(ah_call *c, ah_buffer *b, ah_json v, ah_text (*f)(ah_call *, ah_text)) {
  const char *p = v.at, *end = v.at + v.size, *from = p;
  bool changed = false;
  while (p < end) {
    if (*p != '"') {
      p++;
      continue;
    }
    const char *string = p;
    p = ah_skip_string(p);
    const char *after = ah_space(p, end);
    if (after < end && *after == ':') continue;
    ah_text was = ah_string(c, (ah_json){string, (uint32_t)(p - string)}), is = f(c, was);
    if (ah_same(was, is)) continue;
    ah_add(c, b, from, (uint32_t)(string - from));
    ah_add_string(c, b, is);
    from = p;
    changed = true;
  }
  ah_add(c, b, from, (uint32_t)(end - from));
  return changed;
}

AH_FN void ah_add_key(ah_call *c, ah_buffer *b, ah_json key, char open) {
  ah_add(c, b, b->size && b->at[b->size - 1] != open ? "," : "", b->size && b->at[b->size - 1] != open);
  ah_add(c, b, key.at, key.size);
  ah_add(c, b, ":", 1);
}

/* Replaces text by what f returns for it wherever it stands in the conversation: in text,
 * reasoning, arguments, content and values. A message in which nothing changes is left alone. */
AH_FN void ah_map_text(ah_call *c, ah_text (*f)(ah_call *, ah_text)) {
  for (uint32_t n = 0; n < c->message_count; n++) {
    ah_buffer b = {0};
    bool changed = false;
    ah_add(c, &b, "{", 1);
    for (ah_iterator m = ah_iterate(c->messages[n]); ah_next_item(&m);) {
      ah_add_key(c, &b, m.key, '{');
      if (!ah_key_is(m.key, "parts")) {
        ah_add(c, &b, m.value.at, m.value.size);
        continue;
      }
      ah_add(c, &b, "[", 1);
      bool first = true;
      for (ah_iterator p = ah_iterate(m.value); ah_next_item(&p); first = false) {
        ah_add(c, &b, first ? "{" : ",{", first ? 1 : 2);
        for (ah_iterator f1 = ah_iterate(p.value); ah_next_item(&f1);) {
          ah_add_key(c, &b, f1.key, '{');
          if (ah_key_is(f1.key, "text") || ah_key_is(f1.key, "arguments") || ah_key_is(f1.key, "content") || ah_key_is(f1.key, "value")) {
            if (ah_map_strings(c, &b, f1.value, f)) changed = true;
          } else {
            ah_add(c, &b, f1.value.at, f1.value.size);
          }
        }
        ah_add(c, &b, "}", 1);
      }
      ah_add(c, &b, "]", 1);
    }
    ah_add(c, &b, "}", 1);
    if (changed) ah_replace(c, n, (ah_json){b.at, b.size});
  }
}

/* ---- Base64 ---- */

AH_FN ah_json ah_base64(ah_call *c, ah_text bytes) {
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  char *out = (char *)ah_alloc(c, bytes.size / 3 * 4 + 6), *to = out;
  *to++ = '"';
  for (uint32_t i = 0; i < bytes.size; i += 3) {
    uint32_t left = bytes.size - i;
    uint32_t v = (uint32_t)(uint8_t)bytes.at[i] << 16;
    if (left > 1) v |= (uint32_t)(uint8_t)bytes.at[i + 1] << 8;
    if (left > 2) v |= (uint8_t)bytes.at[i + 2];
    *to++ = letters[v >> 18];
    *to++ = letters[v >> 12 & 63];
    *to++ = left > 1 ? letters[v >> 6 & 63] : '=';
    *to++ = left > 2 ? letters[v & 63] : '=';
  }
  *to++ = '"';
  return (ah_json){out, (uint32_t)(to - out)};
}

/* Returns the bytes of a string in base64; fails the call if it is none. */
AH_FN ah_text ah_bytes(ah_call *c, ah_json v) {
  ah_text text = ah_string(c, v);
  if (!text.at || text.size % 4 != 0) {
    ah_fail(c, AH_INVALID_ARGUMENT, "a value is not base64");
    return (ah_text){0};
  }
  char *out = (char *)ah_alloc(c, text.size / 4 * 3 + 1), *to = out;
  for (uint32_t i = 0; i < text.size; i += 4) {
    uint32_t bits = 0, padding = 0;
    for (uint32_t k = 0; k < 4; k++) {
      char l = text.at[i + k];
      int d = l >= 'A' && l <= 'Z' ? l - 'A' : l >= 'a' && l <= 'z' ? l - 'a' + 26 : l >= '0' && l <= '9' ? l - '0' + 52 : l == '+' ? 62 : l == '/' ? 63 : -1;
      if (l == '=' && i + 4 == text.size && k > 1) {
        padding++;
        d = 0;
      } else if (padding > 0) {
        d = -1;
      }
      if (d < 0) {
        ah_fail(c, AH_INVALID_ARGUMENT, "a value is not base64");
        return (ah_text){0};
      }
      bits = bits << 6 | (uint32_t)d;
    }
    *to++ = (char)(bits >> 16);
    if (padding < 2) *to++ = (char)(bits >> 8);
    if (padding < 1) *to++ = (char)bits;
  }
  return (ah_text){out, (uint32_t)(to - out)};
}

/* ---- What the host does for a plugin; pdk/ABI.md, section 15 ---- */

/* Reads size bytes of the last response, from an offset. */
AH_FN char *ah_read_response(ah_call *c, uint32_t offset, uint32_t size) {
  char *at = (char *)ah_alloc(c, size + 1);
  for (uint32_t n = 0, got; n < size && (got = ah_import_host_read(at + n, offset + n, size - n)) > 0;) n += got;
  return at;
}

/* Reads the response that the host announces; absent if it is an error. */
AH_FN ah_json ah_read_answer(ah_call *c, const char *operation, uint64_t r) {
  uint32_t size = (uint32_t)r;
  char *at = ah_read_response(c, 0, size);
  ah_json response = {at, size};
  if (!ah_valid((ah_text){at, size})) {
    ah_fail(c, AH_INTERNAL, "the host answers %s with what is no JSON", operation);
    return (ah_json){0};
  }
  response.at = ah_space(at, at + size);
  response.size = (uint32_t)(ah_skip(response.at, at + size) - response.at);
  if (r >> 32 == 0) return response;
  c->kit.error = (ah_error){.code = ah_string(c, ah_get(response, "code")), .message = ah_string(c, ah_get(response, "message")), .hint = ah_string(c, ah_get(response, "hint"))};
  ah_json retryable = ah_get(response, "retryable");
  c->kit.error.retryable = retryable.at && *retryable.at == 't';
  if (!c->kit.error.code.at) c->kit.error.code = ah_c(AH_INTERNAL);
  return (ah_json){0};
}

/* Runs a host operation and returns its response; absent if it fails. */
AH_FN ah_json ah_host(ah_call *c, const char *operation, ah_json request) {
  if (ah_failed(c)) return (ah_json){0};
  return ah_read_answer(c, operation, ah_import_host_call(operation, ah_length(operation), request.at, request.size));
}

/* Runs a host operation with bytes beside its JSON, without base64: where the request has
 * bytes it has the number of those in data. field is where the response has a number of bytes,
 * which go to beside; none if it is 0. This and the other functions whose names end in _bytes
 * import host_call_bytes: a host that lacks it refuses the plugin. */
AH_FN ah_json ah_host_bytes(ah_call *c, const char *operation, ah_json request, ah_text data, const char *field, ah_text *beside) {
  if (ah_failed(c)) return (ah_json){0};
  uint64_t r = ah_import_host_call_bytes(operation, ah_length(operation), request.at, request.size, data.at, data.size);
  ah_json response = ah_read_answer(c, operation, r);
  if (!response.at || !field) return response;
  uint32_t size = (uint32_t)ah_get_int(c, response, field);
  *beside = (ah_text){ah_read_response(c, (uint32_t)r, size), size};
  return response;
}

/* Keys and values of the plugin and the calling tenant. An absent key is AH_NOT_FOUND. */
AH_FN ah_text ah_kv_get(ah_call *c, ah_text key, int64_t *revision) {
  ah_json r = ah_host(c, "kv.get", ah_make(c, "{\"key\":%t}", key));
  if (!r.at) return (ah_text){0};
  if (revision) *revision = ah_get_int(c, r, "revision");
  return ah_bytes(c, ah_get(r, "value"));
}

AH_FN ah_json ah_kv_item(ah_call *c, ah_json made, int64_t revision, int64_t ttl_ms) {
  ah_buffer b = {0};
  ah_add(c, &b, made.at, made.size);
  if (revision >= 0) ah_add_c(c, &b, ",\"revision\":"), ah_add_int(c, &b, revision);
  if (ttl_ms > 0) ah_add_c(c, &b, ",\"ttl_ms\":"), ah_add_int(c, &b, ttl_ms);
  ah_add(c, &b, "}", 1);
  return (ah_json){b.at, b.size};
}

/* With a revision the key must be at it, 0: absent; -1: whatever there is. ttl_ms 0: for
 * ever. Returns the new revision. */
AH_FN int64_t ah_kv_put(ah_call *c, ah_text key, ah_text value, int64_t revision, int64_t ttl_ms) {
  ah_json r = ah_host(c, "kv.put", ah_kv_item(c, ah_make(c, "{\"key\":%t,\"value\":%j", key, ah_base64(c, value)), revision, ttl_ms));
  return r.at ? ah_get_int(c, r, "revision") : 0;
}

AH_FN ah_text ah_kv_get_bytes(ah_call *c, ah_text key, int64_t *revision) {
  ah_text value = {0};
  ah_json r = ah_host_bytes(c, "kv.get", ah_make(c, "{\"key\":%t}", key), (ah_text){0}, "value", &value);
  if (r.at && revision) *revision = ah_get_int(c, r, "revision");
  return value;
}

AH_FN int64_t ah_kv_put_bytes(ah_call *c, ah_text key, ah_text value, int64_t revision, int64_t ttl_ms) {
  ah_json r = ah_host_bytes(c, "kv.put", ah_kv_item(c, ah_make(c, "{\"key\":%t,\"value\":%l", key, (int64_t)value.size), revision, ttl_ms), value, 0, 0);
  return r.at ? ah_get_int(c, r, "revision") : 0;
}

AH_FN void ah_kv_delete(ah_call *c, ah_text key) { ah_host(c, "kv.delete", ah_make(c, "{\"key\":%t}", key)); }

/* The network's custom state at a JSON pointer, "" for all of it. */
AH_FN ah_json ah_state(ah_call *c, const char *path) { return ah_get(ah_host(c, "state.get", ah_make(c, "{\"path\":%s}", path)), "value"); }

/* Changes the state at once, by an array of operations. */
AH_FN void ah_state_patch(ah_call *c, ah_json operations) { ah_host(c, "state.patch", ah_make(c, "{\"patch\":%j}", operations)); }

/* What one provider keeps in a thread. */
AH_FN ah_json ah_provider_state(ah_call *c) { return ah_get(ah_host(c, "provider_state.get", ah_raw("{}")), "value"); }
AH_FN void ah_keep_provider_state(ah_call *c, ah_json value) { ah_host(c, "provider_state.put", ah_make(c, "{\"value\":%j}", value)); }

typedef struct { int64_t status; ah_text body; ah_json headers; } ah_response;

/* Sends a request: AH_JSON({"method": "GET", "url": %s, "headers": [...]}). Any status is a
 * response. The host fills secrets in: {"name": "Authorization", "prefix": "Bearer ",
 * "secret": "KEY"}. A body is bytes: ah_base64 makes them. */
AH_FN ah_response ah_fetch(ah_call *c, ah_json request) {
  ah_json r = ah_host(c, "http.fetch", request);
  if (!r.at) return (ah_response){0};
  return (ah_response){ah_get_int(c, r, "status"), ah_bytes(c, ah_get(r, "body")), ah_get(r, "headers")};
}

/* The same with a body that is not in the request. */
AH_FN ah_response ah_fetch_bytes(ah_call *c, ah_json request, ah_text body) {
  if (ah_failed(c)) return (ah_response){0};
  if (request.size < 3 || request.at[0] != '{') {
    ah_fail(c, AH_INVALID_ARGUMENT, "a request of http.fetch is an object with members");
    return (ah_response){0};
  }
  ah_buffer b = {0};
  ah_response out = {0};
  ah_add_c(c, &b, "{\"body\":"), ah_add_int(c, &b, body.size), ah_add(c, &b, ",", 1);
  ah_add(c, &b, request.at + 1, request.size - 1); /* behind its brace */
  ah_json r = ah_host_bytes(c, "http.fetch", (ah_json){b.at, b.size}, body, "body", &out.body);
  if (!r.at) return (ah_response){0};
  out.status = ah_get_int(c, r, "status"), out.headers = ah_get(r, "headers");
  return out;
}

/* Returns the JSON of a response's body; fails the call if it is none. */
AH_FN ah_json ah_parse(ah_call *c, ah_text text) {
  if (ah_failed(c)) return (ah_json){0};
  if (!text.at || !ah_valid(text)) {
    ah_fail(c, AH_UNAVAILABLE, "the answer is no JSON");
    return (ah_json){0};
  }
  const char *end = text.at + text.size, *p = ah_space(text.at, end);
  return (ah_json){p, (uint32_t)(ah_skip(p, end) - p)};
}

/* Sends an event to the run's stream while the call runs. */
AH_FN void ah_emit(ah_call *c, const char *kind, ah_json data) { ah_host(c, "emit", ah_make(c, "{\"kind\":%s,\"data\":%j}", kind, data)); }
AH_FN void ah_progress(ah_call *c, ah_text message) { ah_emit(c, "progress", ah_make(c, "{\"message\":%t}", message)); }

/* How much of an artifact one operation carries. */
enum { AH_PIECE = 192 << 10, AH_BYTES_PIECE = 512 << 10 };

/* Makes an artifact of the session, in pieces, and returns its digest; absent if it fails. */
AH_FN ah_text ah_artifact_write(ah_call *c, ah_text name, const char *media_type, ah_text data) {
  ah_text upload = {0};
  for (;;) {
    uint32_t n = data.size < AH_PIECE ? data.size : AH_PIECE;
    bool last = n == data.size;
    ah_json piece = ah_base64(c, (ah_text){data.at, n});
    ah_json r = ah_host(c, "artifact.write", upload.at
      ? ah_make(c, AH_JSON({"name": %t, "media_type": %s, "data": %j, "upload": %t, "last": %b}), name, media_type, piece, upload, last)
      : ah_make(c, AH_JSON({"name": %t, "media_type": %s, "data": %j, "last": %b}), name, media_type, piece, last));
    if (!r.at) return (ah_text){0};
    if (last) return ah_get_text(c, r, "digest");
    upload = ah_get_text(c, r, "upload");
    data = (ah_text){data.at + n, data.size - n};
  }
}

AH_FN ah_text ah_artifact_write_bytes(ah_call *c, ah_text name, const char *media_type, ah_text data) {
  ah_text upload = {0};
  for (;;) {
    uint32_t n = data.size < AH_BYTES_PIECE ? data.size : AH_BYTES_PIECE;
    bool last = n == data.size;
    ah_json r = ah_host_bytes(c, "artifact.write", upload.at
      ? ah_make(c, AH_JSON({"name": %t, "media_type": %s, "data": %l, "upload": %t, "last": %b}), name, media_type, (int64_t)n, upload, last)
      : ah_make(c, AH_JSON({"name": %t, "media_type": %s, "data": %l, "last": %b}), name, media_type, (int64_t)n, last), (ah_text){data.at, n}, 0, 0);
    if (!r.at) return (ah_text){0};
    if (last) return ah_get_text(c, r, "digest");
    upload = ah_get_text(c, r, "upload");
    data = (ah_text){data.at + n, data.size - n};
  }
}

typedef struct { ah_text data, media_type; } ah_file;

/* Reads an artifact of the session by its name; absent if it fails. */
AH_FN ah_file ah_artifact_read(ah_call *c, ah_text name) {
  ah_json r = ah_host(c, "artifact.read", ah_make(c, AH_JSON({"name": %t}), name));
  if (!r.at) return (ah_file){0};
  int64_t size = ah_get_int(c, r, "size");
  ah_text digest = ah_get_text(c, r, "digest"), piece = ah_bytes(c, ah_get(r, "data"));
  ah_buffer data = {0};
  ah_add(c, &data, piece.at, piece.size);
  while (!ah_failed(c) && data.size < size) {
    piece = ah_bytes(c, ah_get(ah_host(c, "artifact.read", ah_make(c, AH_JSON({"digest": %t, "offset": %l}), digest, (int64_t)data.size)), "data"));
    if (piece.size == 0) ah_fail(c, AH_DATA_LOSS, "artifact %t ends early", name);
    ah_add(c, &data, piece.at, piece.size);
  }
  return ah_failed(c) ? (ah_file){0} : (ah_file){{data.at, data.size}, ah_get_text(c, r, "media_type")};
}

AH_FN ah_file ah_artifact_read_bytes(ah_call *c, ah_text name) {
  ah_text data = {0}, piece = {0};
  ah_json r = ah_host_bytes(c, "artifact.read", ah_make(c, AH_JSON({"name": %t, "length": %l}), name, (int64_t)AH_BYTES_PIECE), data, "data", &data);
  if (!r.at) return (ah_file){0};
  int64_t size = ah_get_int(c, r, "size");
  if (data.size < size) { /* the rest follows it */
    ah_text digest = ah_get_text(c, r, "digest");
    ah_buffer all = {0};
    ah_add(c, &all, data.at, data.size);
    while (!ah_failed(c) && all.size < size) {
      ah_host_bytes(c, "artifact.read", ah_make(c, AH_JSON({"digest": %t, "offset": %l, "length": %l}), digest, (int64_t)all.size, (int64_t)AH_BYTES_PIECE), (ah_text){0}, "data", &piece);
      if (piece.size == 0) ah_fail(c, AH_DATA_LOSS, "artifact %t ends early", name);
      ah_add(c, &all, piece.at, piece.size);
    }
    data = (ah_text){all.at, all.size};
  }
  return ah_failed(c) ? (ah_file){0} : (ah_file){data, ah_get_text(c, r, "media_type")};
}

/* Returns messages of the view that an outline describes, as an array. */
AH_FN ah_json ah_messages_get(ah_call *c, const uint32_t *indices, uint32_t count) {
  ah_buffer b = {0};
  for (uint32_t i = 0; i < count; i++) {
    ah_add(c, &b, i ? "," : "[", 1);
    ah_add_int(c, &b, indices[i]);
  }
  ah_add(c, &b, count ? "]" : "[]", count ? 1 : 2);
  return ah_get(ah_host(c, "messages.get", ah_make(c, "{\"indices\":%j}", (ah_json){b.at, b.size})), "messages");
}

/* Asks a model, and returns the text of its answer. */
AH_FN ah_text ah_generate(ah_call *c, const char *instructions, ah_text question) {
  ah_json r = ah_host(c, "model.generate",
                      ah_make(c, "{\"instructions\":%s,\"messages\":[{\"role\":\"user\",\"parts\":[{\"type\":\"text\",\"text\":%t}]}]}", instructions ? instructions : "", question));
  return r.at ? ah_text_of(c, ah_get(r, "message")) : (ah_text){0};
}

/* A call of another tool, by the name under which the agent has it. Absent arguments are {}. */
typedef struct { ah_text name; ah_json arguments; } ah_tool_call;

/* What another tool answered. error is there if the tool failed, a person denied the call or
 * the tool does not exist; content is then the sentence that a model would read. media is an
 * array of parts, or absent. */
typedef struct { ah_json content, media; ah_error error; } ah_tool_answer;

/* Calls other tools of the agent at work, in a tool, at the same time, and returns their
 * answers in the order of the calls. It needs the permission AH_JSON({"tools": ["NAME"]}). If one
 * of them asks a person, the host ends this call and makes it again, from its beginning, when
 * there is an answer: it must make the same calls then. The call's error, AH_PERMISSION_DENIED
 * and the like, says that no tool was called; the answers are then absent values. */
AH_FN const ah_tool_answer *ah_call_tools(ah_call *c, const ah_tool_call *calls, uint32_t count) {
  ah_tool_answer *answers = (ah_tool_answer *)ah_alloc(c, count * sizeof *answers);
  __builtin_memset(answers, 0, count * sizeof *answers);
  ah_buffer list = {0};
  for (uint32_t i = 0; i < count; i++)
    ah_append(c, &list, ah_make(c, calls[i].arguments.at ? AH_JSON({"name": %t, "arguments": %j}) : AH_JSON({"name": %t}), calls[i].name, calls[i].arguments));
  ah_json results = ah_get(ah_host(c, "tool.call", ah_make(c, list.at ? "{\"calls\":%j]}" : "{\"calls\":[]}", (ah_json){list.at, list.size})), "results");
  uint32_t n = 0;
  for (ah_iterator i = ah_iterate(results); n < count && ah_next_item(&i); n++) {
    ah_tool_answer *answer = &answers[n];
    answer->content = ah_get(i.value, "content");
    answer->media = ah_get(i.value, "media");
    if (ah_is(ah_string(c, ah_get(i.value, "kind")), "result")) continue;
    ah_text code = ah_string(c, ah_get(i.value, "code")), sentence = ah_string(c, answer->content);
    answer->error = (ah_error){.code = code.at ? code : ah_c(AH_INTERNAL), .message = sentence.at ? sentence : (ah_text){answer->content.at, answer->content.size}};
  }
  if (n < count) ah_fail(c, AH_INTERNAL, "the host answers %l calls of tools with %l results", (int64_t)count, (int64_t)n);
  return answers;
}

/* Returns the content of an answer. The error of a call that failed becomes this call's own. */
AH_FN ah_json ah_result_of(ah_call *c, const ah_tool_answer *answer) {
  if (!answer->error.code.at) return answer->content;
  if (!ah_failed(c)) c->kit.error = answer->error;
  return (ah_json){0};
}

/* Calls one tool as ah_call_tools does, and returns the content of its result; absent if it fails. */
AH_FN ah_json ah_call_tool(ah_call *c, const char *name, ah_json arguments) {
  ah_tool_call call = {ah_c(name), arguments};
  return ah_result_of(c, ah_call_tools(c, &call, 1));
}

/* Leaves work for after the turn: the tool handler is called with the payload. */
AH_FN void ah_send(ah_call *c, const char *handler, ah_json payload) { ah_host(c, "queue.send", ah_make(c, "{\"handler\":%s,\"payload\":%j}", handler, payload)); }

/* Does part of a tool's work once in a run. ah_step_begin returns what the step left, absent
 * if it is to be done now; ah_step_end then keeps what it left. */
AH_FN ah_json ah_step_begin(ah_call *c, const char *name, bool idempotent) {
  ah_json r = ah_host(c, "step.begin", ah_make(c, "{\"name\":%s,\"idempotent\":%b}", name, idempotent));
  ah_json done = ah_get(r, "done");
  return done.at && *done.at == 't' ? ah_get(r, "result") : (ah_json){0};
}
AH_FN void ah_step_end(ah_call *c, const char *name, ah_json result) { ah_host(c, "step.end", ah_make(c, "{\"name\":%s,\"result\":%j}", name, result)); }

/* ---- What a request may hold ---- */

AH_COLD void ah_want(ah_call *c, bool holds, const char *name, const char *type) {
  if (!holds) ah_fail(c, AH_INVALID_ARGUMENT, "%s is no %s", name, type);
}

/* ah_pick finds the members of an object in one pass over it, and returns a bit for each that
 * is there twice; the last one counts. */
AH_COLD uint32_t ah_pick(ah_json object, const char *const *names, ah_json *values) {
  uint32_t twice = 0;
  if (!object.at || ah_kind_of(object) != AH_OBJECT) return 0;
  for (ah_iterator i = ah_iterate(object); ah_next_item(&i);)
    for (uint32_t n = 0; names[n]; n++)
      if (ah_key_is(i.key, names[n])) {
        if (values[n].at) twice |= 1u << n;
        values[n] = i.value;
      }
  return twice;
}

AH_COLD ah_text ah_text_or_none(ah_call *c, ah_json v, const char *name) {
  if (!v.at) return (ah_text){0};
  ah_want(c, ah_kind_of(v) == AH_STRING, name, "string");
  return ah_string(c, v);
}

AH_COLD ah_text ah_text_there(ah_call *c, ah_json v, const char *name) {
  ah_want(c, v.at != NULL, name, "string");
  return ah_text_or_none(c, v, name);
}

AH_COLD void ah_name_there(ah_call *c, ah_json v, const char *name) { ah_want(c, ah_text_there(c, v, name).size > 0, name, "name"); }

/* ah_get_name returns a member that is a text and not empty. */
AH_COLD ah_text ah_get_name(ah_call *c, ah_json object, const char *member, const char *name) {
  ah_text text = ah_text_there(c, ah_get(object, member), name);
  ah_want(c, text.size > 0, name, "text that is not empty");
  return text;
}

AH_COLD int64_t ah_whole(ah_call *c, ah_json v, const char *name, int64_t least) {
  int64_t n = least;
  ah_want(c, ah_read_int(v, &n) && n >= least && n <= 9007199254740991, name, "integer");
  return ah_failed(c) ? least : n;
}

AH_FN void ah_kind_or_none(ah_call *c, ah_json v, ah_kind kind, const char *name, const char *type) {
  ah_want(c, !v.at || ah_kind_of(v) == kind, name, type);
}

/* The members of all parts, and which of them each type of part has. */
enum { AH_TYPE, AH_TEXT, AH_SIGNATURE, AH_ID, AH_NAME, AH_ARGUMENTS, AH_CONTENT, AH_IS_ERROR, AH_MEDIA, AH_MEDIA_TYPE, AH_URL, AH_DATA, AH_VALUE, AH_FIELDS };
#define AH_BIT(field) (1u << (field))

AH_FN void ah_check_part(ah_call *c, ah_json p) {
  static const char *const names[] = {"type", "text", "signature", "id", "name", "arguments", "content", "is_error", "media", "media_type", "url", "data", "value", NULL};
  ah_json v[AH_FIELDS] = {0};
  ah_want(c, ah_kind_of(p) == AH_OBJECT, "a part", "object");
  uint32_t twice = ah_pick(p, names, v), has = AH_BIT(AH_TYPE);
  ah_text type = ah_text_there(c, v[AH_TYPE], "the type of a part");
  ah_want(c, type.size > 0, "the type of a part", "name");
  if (ah_failed(c)) return;
  if (ah_is(type, "text")) {
    has |= AH_BIT(AH_TEXT);
    ah_text_there(c, v[AH_TEXT], "text");
  } else if (ah_is(type, "reasoning")) {
    has |= AH_BIT(AH_TEXT) | AH_BIT(AH_SIGNATURE);
    ah_text_there(c, v[AH_TEXT], "text");
    ah_text_or_none(c, v[AH_SIGNATURE], "signature");
  } else if (ah_is(type, "tool_call") || ah_is(type, "tool_result")) {
    has |= AH_BIT(AH_ID) | AH_BIT(AH_NAME);
    ah_name_there(c, v[AH_ID], "id");
    ah_name_there(c, v[AH_NAME], "name");
    if (ah_is(type, "tool_call")) {
      has |= AH_BIT(AH_ARGUMENTS);
    } else {
      has |= AH_BIT(AH_CONTENT) | AH_BIT(AH_IS_ERROR) | AH_BIT(AH_MEDIA);
      ah_kind_or_none(c, v[AH_IS_ERROR], AH_BOOL, "is_error", "boolean");
      ah_kind_or_none(c, v[AH_MEDIA], AH_ARRAY, "media", "array");
      for (ah_iterator i = ah_iterate(v[AH_MEDIA]); ah_next_item(&i) && !ah_failed(c);) {
        ah_json m[AH_FIELDS] = {0};
        uint32_t again = ah_pick(i.value, names, m) & (AH_BIT(AH_TYPE) | AH_BIT(AH_MEDIA_TYPE) | AH_BIT(AH_URL) | AH_BIT(AH_DATA));
        ah_want(c, ah_is(ah_string(c, m[AH_TYPE]), "media") && !again, "media", "list of media");
        ah_text_there(c, m[AH_MEDIA_TYPE], "media_type");
        ah_text_or_none(c, m[AH_URL], "url");
        ah_text_or_none(c, m[AH_DATA], "data");
      }
    }
  } else if (ah_is(type, "media")) {
    has |= AH_BIT(AH_MEDIA_TYPE) | AH_BIT(AH_URL) | AH_BIT(AH_DATA);
    ah_text_there(c, v[AH_MEDIA_TYPE], "media_type");
    ah_text_or_none(c, v[AH_URL], "url");
    ah_text_or_none(c, v[AH_DATA], "data");
  } else if (ah_is(type, "data")) {
    has |= AH_BIT(AH_VALUE);
  }
  if (twice & has) ah_fail(c, AH_INVALID_ARGUMENT, "a part has a field twice");
}

AH_FN void ah_check_message(ah_call *c, ah_json m) {
  static const char *const names[] = {"id", "role", "agent", "parts", "created_at", "metadata", NULL};
  ah_json v[6] = {0};
  ah_want(c, ah_kind_of(m) == AH_OBJECT, "a message", "object");
  if (ah_pick(m, names, v)) ah_fail(c, AH_INVALID_ARGUMENT, "a message has a field twice");
  ah_text role = ah_text_there(c, v[1], "the role of a message");
  ah_want(c, ah_is(role, "system") || ah_is(role, "user") || ah_is(role, "assistant") || ah_is(role, "tool"), "the role of a message", "known one");
  ah_text_or_none(c, v[0], "the id of a message");
  ah_text_or_none(c, v[2], "the agent of a message");
  ah_kind_or_none(c, v[3], AH_ARRAY, "the parts of a message", "array");
  ah_text_or_none(c, v[4], "created_at");
  if (ah_kind_of(v[5]) != AH_NULL) ah_kind_or_none(c, v[5], AH_OBJECT, "metadata", "object");
  for (ah_iterator i = ah_iterate(v[3]); ah_next_item(&i) && !ah_failed(c);) ah_check_part(c, i.value);
}

AH_FN const ah_json *ah_list(ah_call *c, ah_json v, const char *name, uint32_t *count, void (*check)(ah_call *, ah_json)) {
  ah_want(c, ah_kind_of(v) == AH_ARRAY, name, "array");
  if (ah_failed(c)) return NULL;
  *count = ah_count(v);
  ah_json *list = (ah_json *)ah_alloc(c, *count * sizeof *list);
  uint32_t n = 0;
  for (ah_iterator i = ah_iterate(v); ah_next_item(&i); n++) {
    list[n] = i.value;
    if (!ah_failed(c)) check(c, i.value);
  }
  return list;
}

AH_FN void ah_read_scope(ah_call *c, ah_json scope) {
  static const char *const names[] = {"tenant", "thread", "run", "network", "agent", NULL};
  ah_json v[5] = {0};
  ah_kind_or_none(c, scope, AH_OBJECT, "scope", "object");
  ah_pick(scope, names, v);
  c->scope = (ah_scope){ah_text_or_none(c, v[0], "scope.tenant"), ah_text_or_none(c, v[1], "scope.thread"), ah_text_or_none(c, v[2], "scope.run"),
                        ah_text_or_none(c, v[3], "scope.network"), ah_text_or_none(c, v[4], "scope.agent")};
}

AH_FN uint32_t *ah_column(ah_call *c, ah_json v, const char *name, uint32_t count) {
  ah_want(c, ah_kind_of(v) == AH_ARRAY, name, "array");
  if (ah_failed(c)) return NULL;
  /* An item takes two bytes at least, so this is no more than what the host has sent. */
  uint32_t n = 0, most = v.size / 2, *column = (uint32_t *)ah_alloc(c, (most + 1) * sizeof *column);
  const char *p = v.at + 1, *end = v.at + v.size;
  for (p = ah_space(p, end); *p != ']' && !ah_failed(c);) {
    const char *from = p;
    uint32_t value = 0;
    for (uint32_t d; (d = (uint32_t)*p - '0') < 10; p++) value = value * 10 + d;
    if (p == from || p - from > 9 || (*p != ',' && *p != ']')) { /* not so simple */
      p = ah_skip(from, end);
      int64_t large = ah_whole(c, (ah_json){from, (uint32_t)(p - from)}, name, 0);
      ah_want(c, large <= UINT32_MAX, name, "list of numbers below 4294967296");
      value = (uint32_t)large;
    }
    column[n++] = value;
    if (*p == ',' && p[1] > ' ') {
      p++;
      continue;
    }
    p = ah_space(p, end);
    if (*p == ',') p = ah_space(p + 1, end);
  }
  if (count != UINT32_MAX && n != count) ah_fail(c, AH_INVALID_ARGUMENT, "%s has not %l entries", name, (int64_t)count);
  column[most] = n; /* for lists whose length is their own */
  return column;
}

/* ah_read_row reads the row that begins v, which is what is left of the rows, and returns what follows it. */
AH_FN ah_json ah_read_row(ah_call *c, ah_json v, const ah_outline *o, ah_row *row) {
  ah_json of[5] = {0};
  uint32_t n = 0;
  ah_iterator i = ah_iterate(v);
  while (n < 5 && ah_next_item(&i)) of[n++] = i.value;
  ah_want(c, ah_kind_of(v) == AH_ARRAY && n == 5 && ah_kind_of(of[3]) == AH_STRING && ah_kind_of(of[4]) == AH_STRING, "a row of outline.tools", "row of five");
  int64_t message = ah_whole(c, of[0], "the message of a row", 0), part = ah_whole(c, of[1], "the part of a row", 0);
  bool result = of[2].at && ah_kind_of(of[2]) == AH_STRING && ah_key_is(of[2], "result");
  ah_want(c, result || (of[2].at && ah_kind_of(of[2]) == AH_STRING && ah_key_is(of[2], "call")), "a row of outline.tools", "call or result");
  ah_want(c, !ah_failed(c) && message < o->count && part < o->parts[message], "a row of outline.tools", "row of a part that is there");
  if (ah_failed(c)) return v;
  *row = (ah_row){(uint32_t)message, (uint32_t)part, result, ah_string(c, of[3]), ah_string(c, of[4])};
  const char *end = v.at + v.size, *p = ah_space(i.at, end);
  p = *p == ']' ? p + 1 : ah_skip(v.at, end); /* a row may have more than five */
  p = ah_space(p, end);
  if (*p == ',') p = ah_space(p + 1, end);
  return (ah_json){p, (uint32_t)(end - p)};
}

enum { AH_LEAST_ROW = sizeof "[0,0,\"call\",\"\",\"\"]," - 1 };

AH_FN const ah_outline *ah_read_outline(ah_call *c, ah_json outline) {
  static const char *const names[] = {"count", "roles", "bytes", "chars", "parts", "tokens", "encoding", "keep", "own_from", "tools", NULL};
  ah_json v[10] = {0};
  ah_want(c, ah_kind_of(outline) == AH_OBJECT, "outline", "object");
  ah_pick(outline, names, v);
  int64_t count = ah_whole(c, v[0], "outline.count", 0);
  ah_text roles = ah_text_there(c, v[1], "outline.roles");
  ah_want(c, roles.size == count, "outline.roles", "letter for each message");
  for (uint32_t i = 0; i < roles.size; i++)
    ah_want(c, roles.at[i] == 's' || roles.at[i] == 'u' || roles.at[i] == 'a' || roles.at[i] == 't', "a letter of outline.roles", "s, u, a or t");
  ah_want(c, ah_kind_of(v[9]) == AH_ARRAY, "outline.tools", "array");
  if (ah_failed(c)) return NULL;
  ah_outline *o = (ah_outline *)ah_alloc(c, sizeof *o);
  *o = (ah_outline){.own_from = -1, .count = (uint32_t)count, .roles = roles.at};
  o->bytes = ah_column(c, v[2], "outline.bytes", o->count);
  o->chars = ah_column(c, v[3], "outline.chars", o->count);
  o->parts = ah_column(c, v[4], "outline.parts", o->count);
  if (v[5].at) o->tokens = ah_column(c, v[5], "outline.tokens", o->count);
  o->encoding = ah_text_or_none(c, v[6], "outline.encoding");
  if (v[7].at && (o->keep = ah_column(c, v[7], "outline.keep", UINT32_MAX))) {
    o->keep_count = o->keep[v[7].size / 2];
    for (uint32_t i = 0; i < o->keep_count; i++) ah_want(c, o->keep[i] < o->count, "an entry of outline.keep", "message");
  }
  if (v[8].at) {
    o->own_from = ah_whole(c, v[8], "outline.own_from", 0);
    ah_want(c, o->own_from <= count, "outline.own_from", "message");
  }
  if (ah_failed(c)) return NULL;
  ah_row *rows = (ah_row *)ah_alloc(c, (v[9].size / AH_LEAST_ROW + 1) * sizeof *rows);
  const char *first = ah_space(v[9].at + 1, v[9].at + v[9].size);
  for (ah_json left = {first, (uint32_t)(v[9].at + v[9].size - first)}; *left.at != ']' && !ah_failed(c); o->tool_count++) {
    ah_row *row = &rows[o->tool_count];
    left = ah_read_row(c, left, o, row);
    if (ah_failed(c) || o->tool_count == 0) continue;
    const ah_row *before = row - 1;
    ah_want(c, row->message > before->message || (row->message == before->message && row->part > before->part), "outline.tools", "list in order");
  }
  o->tools = rows;
  return o;
}

/* ---- Requests: v has the part's name, config and scope, and then the members of the export ---- */

#define AH_TOOL_MEMBERS "tool", "config", "scope", "arguments", "call_id", "idempotency_key", "attempt", "provider", "state", "state_revision", "resumed"
#define AH_PROCESS_MEMBERS "processor", "config", "scope", "model", "messages", "own_from", "outline"
#define AH_ROUTE_MEMBERS "router", "config", "scope", "input", "call_count", "stack", "agents", "state", "last", "outline"
#define AH_PROVIDE_MEMBERS "provider", "config", "scope", "messages", "responses", "error"
#define AH_MOST_MEMBERS 11

AH_FN void ah_read_tool(ah_call *c, const ah_json *v) {
  c->arguments = v[3];
  c->call_id = ah_text_or_none(c, v[4], "call_id");
  c->idempotency_key = ah_text_or_none(c, v[5], "idempotency_key");
  if (v[6].at) c->attempt = ah_whole(c, v[6], "attempt", 1);
  c->provider = ah_text_or_none(c, v[7], "provider");
  ah_kind_or_none(c, c->state = v[8], AH_OBJECT, "state", "object");
  if (v[9].at) c->state_revision = ah_whole(c, v[9], "state_revision", 0);
  ah_kind_or_none(c, c->resumed = v[10], AH_ARRAY, "resumed", "array");
  for (ah_iterator i = ah_iterate(c->resumed); ah_next_item(&i) && !ah_failed(c);) {
    ah_want(c, ah_kind_of(i.value) == AH_OBJECT, "an answer", "object");
    ah_name_there(c, ah_get(i.value, "interrupt_id"), "interrupt_id");
    c->answer = ah_get(i.value, "answer");
  }
}

AH_FN void ah_read_process(ah_call *c, const ah_json *v, bool outline) {
  c->model = ah_text_there(c, v[3], "model");
  ah_want(c, !v[4].at != !v[6].at, "the conversation", "one of messages and outline");
  ah_want(c, outline == (v[6].at != NULL), "the conversation", outline ? "outline, which this processor reads" : "list of messages, which this processor reads");
  if (ah_failed(c)) return;
  if (outline) {
    c->outline = ah_read_outline(c, v[6]);
    if (c->outline) c->own_from = c->outline->own_from;
    return;
  }
  c->messages = ah_list(c, v[4], "messages", &c->message_count, ah_check_message);
  if (v[5].at) {
    c->own_from = ah_whole(c, v[5], "own_from", 0);
    ah_want(c, c->own_from <= c->message_count, "own_from", "message");
  }
}

AH_FN void ah_read_last(ah_call *c, ah_json last) {
  ah_want(c, ah_kind_of(last) == AH_OBJECT, "last", "object");
  ah_last *l = (ah_last *)ah_alloc(c, sizeof *l);
  *l = (ah_last){.agent = ah_text_there(c, ah_get(last, "agent"), "last.agent"), .finish_reason = ah_text_or_none(c, ah_get(last, "finish_reason"), "last.finish_reason")};
  ah_json messages = ah_get(last, "messages"), results = ah_get(last, "tool_results");
  if (messages.at) l->messages = ah_list(c, messages, "last.messages", &l->message_count, ah_check_message);
  if (results.at) l->tool_results = ah_list(c, results, "last.tool_results", &l->tool_result_count, ah_check_part);
  c->last = l;
}

AH_FN void ah_read_route(ah_call *c, const ah_json *v) {
  if ((c->input = v[3]).at) ah_check_message(c, c->input);
  c->call_count = ah_whole(c, v[4], "call_count", 0);
  ah_want(c, ah_kind_of(v[5]) == AH_ARRAY, "stack", "array");
  ah_want(c, ah_kind_of(v[6]) == AH_ARRAY, "agents", "array");
  ah_text *names = (ah_text *)ah_alloc(c, ah_count(v[5]) * sizeof *names);
  for (ah_iterator i = ah_iterate(v[5]); ah_next_item(&i);) names[c->stack_count++] = ah_text_there(c, i.value, "an agent of stack");
  c->stack = names;
  ah_agent *agents = (ah_agent *)ah_alloc(c, ah_count(v[6]) * sizeof *agents);
  for (ah_iterator i = ah_iterate(v[6]); ah_next_item(&i);) {
    ah_want(c, ah_kind_of(i.value) == AH_OBJECT, "an agent", "object");
    agents[c->agent_count++] = (ah_agent){ah_text_there(c, ah_get(i.value, "name"), "the name of an agent"), ah_text_or_none(c, ah_get(i.value, "description"), "a description")};
  }
  c->agents = agents;
  ah_kind_or_none(c, c->state = v[7], AH_OBJECT, "state", "object");
  if (v[8].at) ah_read_last(c, v[8]);
  if (v[9].at) c->outline = ah_read_outline(c, v[9]);
}

AH_FN void ah_read_provide(ah_call *c, const ah_json *v) {
  c->messages = ah_list(c, v[3], "messages", &c->message_count, ah_check_message);
}

AH_FN void ah_read_observe(ah_call *c, const ah_json *v) {
  ah_read_provide(c, v);
  ah_want(c, !v[4].at != !v[5].at, "what came of it", "one of responses and error");
  if (v[4].at) c->responses = ah_list(c, v[4], "responses", &c->response_count, ah_check_message);
  if (!v[5].at || ah_failed(c)) return;
  ah_want(c, ah_kind_of(v[5]) == AH_OBJECT, "error", "object");
  ah_json retryable = ah_get(v[5], "retryable");
  ah_kind_or_none(c, retryable, AH_BOOL, "error.retryable", "boolean");
  c->failure = (ah_error){ah_get_name(c, v[5], "code", "error.code"), ah_get_name(c, v[5], "message", "error.message"),
                          ah_text_or_none(c, ah_get(v[5], "hint"), "error.hint"), retryable.at && *retryable.at == 't'};
}

/* ---- Answers ---- */

AH_COLD void ah_answer_json(ah_call *c, ah_buffer *b, const char *name, ah_json v) {
  if (!v.at) return;
  ah_add(c, b, b->size > 1 ? ",\"" : "\"", b->size > 1 ? 2 : 1);
  ah_add_c(c, b, name);
  ah_add(c, b, "\":", 2);
  ah_add(c, b, v.at, v.size);
}

AH_COLD void ah_answer_text(ah_call *c, ah_buffer *b, const char *name, ah_text v) {
  if (v.at) ah_answer_json(c, b, name, ah_make(c, "%t", v));
}

AH_COLD void ah_answer_list(ah_call *c, ah_buffer *b, const char *name, ah_buffer *list) {
  if (!list->size) return;
  ah_add(c, list, "]", 1);
  ah_answer_json(c, b, name, (ah_json){list->at, list->size});
}

AH_FN void ah_write_tool(ah_call *c, ah_buffer *b) {
  if (c->kit.interrupt.at) {
    ah_answer_json(c, b, "interrupt", c->kit.interrupt);
    return;
  }
  ah_answer_json(c, b, "content", c->kit.result.at ? c->kit.result : ah_raw("null"));
  ah_answer_list(c, b, "state", &c->kit.state);
  ah_answer_list(c, b, "media", &c->kit.media);
  ah_answer_list(c, b, "artifacts", &c->kit.artifacts);
  ah_answer_list(c, b, "schedule", &c->kit.schedule);
}

AH_FN void ah_write_process(ah_call *c, ah_buffer *b) {
  if (c->kit.view.at && c->kit.edits.size) ah_fail(c, AH_INTERNAL, "the processor makes a view and edits: do one of both");
  ah_answer_json(c, b, "messages", c->kit.view);
  ah_answer_list(c, b, "edits", &c->kit.edits);
  ah_answer_json(c, b, "report", c->kit.report);
}

AH_FN void ah_write_route(ah_call *c, ah_buffer *b) {
  ah_answer_list(c, b, "next", &c->kit.next);
  ah_answer_text(c, b, "delegate", c->kit.delegate);
  ah_answer_text(c, b, "reason", c->kit.reason);
}

AH_FN void ah_write_provide(ah_call *c, ah_buffer *b) {
  ah_answer_text(c, b, "instructions", c->kit.instructions);
  ah_answer_list(c, b, "messages", &c->kit.messages);
  if (c->kit.store) ah_answer_json(c, b, "store", ah_raw("true"));
  ah_answer_list(c, b, "tools", &c->kit.tools);
}

/* ah_failure writes the call's error and returns 1. What it has allocated stays; the host
 * has seen nothing else of the call's answer. */
AH_COLD int32_t ah_failure(ah_call *c) {
  static const char *const codes[] = {AH_INVALID_ARGUMENT, AH_UNAUTHENTICATED, AH_PERMISSION_DENIED, AH_NOT_FOUND, AH_ALREADY_EXISTS, AH_CONFLICT,
    AH_RESOURCE_EXHAUSTED, AH_FAILED_PRECONDITION, AH_DEADLINE_EXCEEDED, AH_CANCELED, AH_UNAVAILABLE, AH_UNIMPLEMENTED, AH_DATA_LOSS, NULL};
  const ah_error *e = &c->kit.error;
  const char *code = AH_INTERNAL;
  for (uint32_t i = 0; codes[i]; i++)
    if (ah_is(e->code, codes[i])) code = codes[i];
  ah_buffer b = {0};
  ah_add(c, &b, "{", 1);
  ah_answer_text(c, &b, "code", ah_c(code));
  ah_answer_text(c, &b, "message", e->message.size ? e->message : ah_c(code));
  if (e->hint.size) ah_answer_text(c, &b, "hint", e->hint);
  if (e->retryable) ah_answer_json(c, &b, "retryable", ah_raw("true"));
  ah_add(c, &b, "}", 1);
  ah_import_output_write(b.at, b.size);
  return 1;
}

enum { AH_EXPORT_TOOL, AH_EXPORT_PROCESS, AH_EXPORT_ROUTE, AH_EXPORT_PROVIDE, AH_EXPORT_OBSERVE };

/* What serves an export is made for that export alone, so that a plugin has no code for
 * parts that it does not have. */
#define AH_EACH static inline __attribute__((always_inline))

/* ah_find returns the function of a part by its name, NULL if there is none. */
AH_EACH ah_function ah_find(const ah_plugin *p, int export, ah_text name, bool *outline) {
  if (export == AH_EXPORT_TOOL)
    for (const ah_tool *t = p->tools; t && t->name; t++)
      if (ah_is(name, t->name)) return t->run;
  if (export == AH_EXPORT_PROCESS)
    for (const ah_processor *x = p->processors; x && x->name; x++)
      if (ah_is(name, x->name)) return *outline = x->outline, x->run;
  if (export == AH_EXPORT_ROUTE)
    for (const ah_router *x = p->routers; x && x->name; x++)
      if (ah_is(name, x->name)) return x->run;
  if (export == AH_EXPORT_PROVIDE || export == AH_EXPORT_OBSERVE)
    for (const ah_provider *x = p->providers; x && x->name; x++)
      if (ah_is(name, x->name)) return x->run;
  return NULL;
}

AH_EACH ah_function ah_observer(const ah_plugin *p, ah_text name) {
  for (const ah_provider *x = p->providers; x && x->name; x++)
    if (ah_is(name, x->name)) return x->observe;
  return NULL;
}

/* ah_read reads a request and the name of the part that is called. */
AH_COLD void ah_read(ah_call *c, uint32_t size, const char *const *names, ah_json *values) {
  char *input = (char *)ah_alloc(c, size + 1);
  for (uint32_t n = 0, got; n < size && (got = ah_import_input_read(input + n, n, size - n)) > 0;) n += got;
  ah_json request = {ah_space(input, input + size), 0};
  request.size = (uint32_t)(input + size - request.at);
  if (!ah_valid((ah_text){input, size}) || ah_kind_of(request) != AH_OBJECT) {
    ah_fail(c, AH_INVALID_ARGUMENT, "the request is no object of JSON in UTF-8");
    return;
  }
  ah_pick(request, names, values);
  c->name = ah_text_there(c, values[0], names[0]);
  ah_want(c, c->name.size > 0, names[0], "name");
}

/* ah_serve answers one call of an export; names are the members of its request. */
AH_EACH int32_t ah_serve(const ah_plugin *plugin, int export, const char *const *names, uint32_t size) {
  ah_call call = {.own_from = -1}, *c = &call;
  ah_json v[AH_MOST_MEMBERS] = {0};
  ah_read(c, size, names, v);
  if (ah_failed(c)) return ah_failure(c);
  bool outline = false;
  ah_function run = ah_find(plugin, export, c->name, &outline);
  if (!run) {
    ah_fail(c, AH_NOT_FOUND, "the plugin has no %s \"%t\"", names[0], c->name);
    return ah_failure(c);
  }
  c->config = v[1];
  ah_read_scope(c, v[2]);
  if (export == AH_EXPORT_TOOL) ah_read_tool(c, v);
  else if (export == AH_EXPORT_PROCESS) ah_read_process(c, v, outline);
  else if (export == AH_EXPORT_ROUTE) ah_read_route(c, v);
  else if (export == AH_EXPORT_PROVIDE) ah_read_provide(c, v);
  else {
    ah_read_observe(c, v);
    run = ah_observer(plugin, c->name);
  }
  if (!ah_failed(c) && run) run(c);
  ah_buffer b = {0};
  ah_add(c, &b, "{", 1);
  if (export == AH_EXPORT_TOOL) ah_write_tool(c, &b);
  else if (export == AH_EXPORT_PROCESS) ah_write_process(c, &b);
  else if (export == AH_EXPORT_ROUTE) ah_write_route(c, &b);
  else if (export == AH_EXPORT_PROVIDE) ah_write_provide(c, &b);
  ah_add(c, &b, "}", 1);
  if (ah_failed(c)) return ah_failure(c);
  ah_import_output_write(b.at, b.size);
  return 0;
}

/* ---- The manifest ---- */

AH_COLD void ah_describe_text(ah_call *c, ah_buffer *b, const char *name, const char *v) {
  if (v) ah_answer_text(c, b, name, ah_c(v));
}

AH_COLD void ah_describe_json(ah_call *c, ah_buffer *b, const char *name, const char *v) {
  if (v) ah_answer_json(c, b, name, ah_raw(v));
}

AH_FN int32_t ah_describe(const ah_plugin *p) {
  ah_call call = {0}, *c = &call;
  ah_buffer tools = {0}, processors = {0}, routers = {0}, providers = {0}, b = {0};
  for (const ah_tool *t = p->tools; t && t->name; t++) {
    ah_buffer one = {0};
    ah_json annotations = ah_make(c, "{\"read_only\":%b,\"destructive\":%b,\"idempotent\":%b,\"needs_approval\":%b}", t->read_only, t->destructive, t->idempotent, t->needs_approval);
    ah_add(c, &one, "{", 1);
    ah_describe_text(c, &one, "name", t->name);
    ah_describe_text(c, &one, "description", t->description ? t->description : "");
    ah_describe_json(c, &one, "parameters", t->parameters);
    ah_describe_json(c, &one, "result", t->result);
    ah_answer_json(c, &one, "annotations", annotations);
    ah_add(c, &one, "}", 1);
    ah_append(c, &tools, (ah_json){one.at, one.size});
  }
  for (const ah_processor *x = p->processors; x && x->name; x++) {
    ah_buffer one = {0};
    ah_add(c, &one, "{", 1);
    ah_describe_text(c, &one, "name", x->name);
    ah_describe_text(c, &one, "input", x->outline ? "outline" : "messages");
    ah_describe_json(c, &one, "tokens", x->tokens);
    ah_describe_json(c, &one, "config", x->config);
    ah_add(c, &one, "}", 1);
    ah_append(c, &processors, (ah_json){one.at, one.size});
  }
  for (const ah_router *x = p->routers; x && x->name; x++) {
    ah_buffer one = {0};
    ah_add(c, &one, "{", 1);
    ah_describe_text(c, &one, "name", x->name);
    ah_describe_json(c, &one, "config", x->config);
    ah_add(c, &one, "}", 1);
    ah_append(c, &routers, (ah_json){one.at, one.size});
  }
  for (const ah_provider *x = p->providers; x && x->name; x++) {
    ah_buffer one = {0};
    ah_add(c, &one, "{", 1);
    ah_describe_text(c, &one, "name", x->name);
    ah_describe_json(c, &one, "config", x->config);
    ah_describe_json(c, &one, "observe", x->observe ? "true" : "false");
    ah_add(c, &one, "}", 1);
    ah_append(c, &providers, (ah_json){one.at, one.size});
  }
  ah_add(c, &b, "{", 1);
  ah_answer_json(c, &b, "abi", ah_raw("1"));
  ah_describe_text(c, &b, "name", p->name);
  ah_describe_text(c, &b, "version", p->version);
  ah_describe_text(c, &b, "description", p->description);
  ah_answer_list(c, &b, "tools", &tools);
  ah_answer_list(c, &b, "processors", &processors);
  ah_answer_list(c, &b, "routers", &routers);
  ah_answer_list(c, &b, "providers", &providers);
  ah_describe_json(c, &b, "permissions", p->permissions);
  ah_describe_json(c, &b, "requires", p->requires);
  ah_describe_json(c, &b, "resources", p->resources);
  ah_describe_json(c, &b, "prompts", p->prompts);
  ah_describe_json(c, &b, "health", p->health);
  ah_add(c, &b, "}", 1);
  ah_import_output_write(b.at, b.size);
  return 0;
}

#define AH_EXPORT(name) __attribute__((export_name(name)))

/* A plugin answers for parts that it has none of like for others that it does not have. */
AH_FN int32_t ah_none(const char *part) {
  ah_call call = {0}, *c = &call;
  ah_fail(c, AH_NOT_FOUND, "the plugin has no %s", part);
  return ah_failure(c);
}

#define AH_SERVES(list, export, n, part, ...)                                                                          \
  static const char *const names[] = {part, __VA_ARGS__, NULL};                                                        \
  return ah_this_plugin.list ? ah_serve(&ah_this_plugin, export, names, n) : ah_none(part)
#define AH_SERVES_ALL(list, export, n, members) AH_SERVES(list, export, n, members)

/* Makes the plugin, once in all of its files:
 *   AH_PLUGIN(.name = "dice", .tools = (const ah_tool[]){{.name = "roll", ...}, {0}}) */
#define AH_PLUGIN(...)                                                                                                  \
  static const ah_plugin ah_this_plugin = {__VA_ARGS__};                                                               \
  AH_EXPORT("agenthost_describe") int32_t ah_export_describe(void) { return ah_describe(&ah_this_plugin); }            \
  AH_EXPORT("agenthost_tool") int32_t ah_export_tool(uint32_t n) { AH_SERVES_ALL(tools, AH_EXPORT_TOOL, n, AH_TOOL_MEMBERS); } \
  AH_EXPORT("agenthost_process") int32_t ah_export_process(uint32_t n) {                                               \
    AH_SERVES_ALL(processors, AH_EXPORT_PROCESS, n, AH_PROCESS_MEMBERS);                                               \
  }                                                                                                                    \
  AH_EXPORT("agenthost_route") int32_t ah_export_route(uint32_t n) {                                                   \
    AH_SERVES_ALL(routers, AH_EXPORT_ROUTE, n, AH_ROUTE_MEMBERS);                                                      \
  }                                                                                                                    \
  AH_EXPORT("agenthost_provide") int32_t ah_export_provide(uint32_t n) {                                               \
    AH_SERVES_ALL(providers, AH_EXPORT_PROVIDE, n, AH_PROVIDE_MEMBERS);                                                \
  }                                                                                                                    \
  AH_EXPORT("agenthost_observe") int32_t ah_export_observe(uint32_t n) {                                               \
    AH_SERVES_ALL(providers, AH_EXPORT_OBSERVE, n, AH_PROVIDE_MEMBERS);                                                \
  }                                                                                                                    \
  _Static_assert(sizeof(void *) == 4, "plugins are built for wasm32: clang --target=wasm32")

#endif
