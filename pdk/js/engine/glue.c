// The glue between the JavaScript engine and the plugin contract (pdk/ABI.md).
//
// The engine is the WebAssembly module of the npm package quickjs-wasi; link.mjs joins
// the two. Everything here stands behind the engine's first pages: its data and its
// stack are in memory that no stack of the engine reaches. The engine calls host_call
// for the functions of `host` in kit.js, and nothing here calls JavaScript from there.

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define ENGINE(name) __attribute__((import_module("engine"), import_name(#name)))
#define HOST(name) __attribute__((import_module("agenthost_v1"), import_name(#name)))
#define WASI(name) __attribute__((import_module("wasi_snapshot_preview1"), import_name(#name)))
#define EXPORT(name) __attribute__((export_name(#name)))

// The engine's values are pointers to boxes that qjs_free_value frees.
typedef u32 value;

ENGINE(engine_initialize) void engine_initialize(void);
ENGINE(qjs_init) int qjs_init(void);
ENGINE(qjs_set_max_stack_size) void qjs_set_max_stack_size(u32 bytes);
ENGINE(qjs_set_module_loader) void qjs_set_module_loader(int on);
ENGINE(qjs_set_promise_rejection_handler) void qjs_set_promise_rejection_handler(int on);
ENGINE(qjs_get_value_ptr) void *qjs_get_value_ptr(value v);
ENGINE(qjs_eval) value qjs_eval(const char *code, u32 len, const char *name, int flags);
ENGINE(qjs_new_string) value qjs_new_string(const char *text, u32 len);
ENGINE(qjs_new_number) value qjs_new_number(double number);
ENGINE(qjs_new_host_function) value qjs_new_host_function(const char *name, u32 len, int params);
ENGINE(qjs_get_undefined) value qjs_get_undefined(void);
ENGINE(qjs_get_string_len) const char *qjs_get_string_len(value v, u32 *len);
ENGINE(qjs_free_cstring) void qjs_free_cstring(const char *text);
ENGINE(qjs_get_float64) double qjs_get_float64(value v);
ENGINE(qjs_is_exception) int qjs_is_exception(value v);
ENGINE(qjs_is_string) int qjs_is_string(value v);
ENGINE(qjs_is_array_buffer) int qjs_is_array_buffer(value v);
ENGINE(qjs_new_array_buffer) value qjs_new_array_buffer(const void *bytes, u32 len); // a copy
ENGINE(qjs_get_array_buffer) u8 *qjs_get_array_buffer(value v, u32 *len);
ENGINE(qjs_call) value qjs_call(value fn, value self, int argc, value *argv);
ENGINE(qjs_get_exception) value qjs_get_exception(void);
ENGINE(qjs_throw) value qjs_throw(value error);
ENGINE(qjs_new_error) value qjs_new_error(void);
ENGINE(qjs_new_object) value qjs_new_object(void);
ENGINE(qjs_set_prop_string) int qjs_set_prop_string(value object, const char *name, value v);
ENGINE(qjs_get_prop_string) value qjs_get_prop_string(value object, const char *name);
ENGINE(qjs_promise_state) int qjs_promise_state(value promise);
ENGINE(qjs_promise_result) value qjs_promise_result(value promise);
ENGINE(qjs_is_promise) int qjs_is_promise(value v);
ENGINE(qjs_is_job_pending) int qjs_is_job_pending(void);
ENGINE(qjs_execute_pending_job) int qjs_execute_pending_job(void);
ENGINE(qjs_free_value) void qjs_free_value(value v);
ENGINE(wasm_malloc) void *engine_malloc(u32 size);
ENGINE(wasm_free) void engine_free(void *memory);

HOST(input_read) u32 input_read(void *to, u32 offset, u32 len);
HOST(output_write) void output_write(const void *from, u32 len);
HOST(host_call) u64 host_operation(const char *op, u32 op_len, const char *request, u32 request_len);
HOST(host_read) u32 host_read(void *to, u32 offset, u32 len);
HOST(host_call_bytes) u64 host_operation_bytes(const char *op, u32 op_len, const char *request, u32 request_len, const u8 *data, u32 data_len);
HOST(log) void host_log(u32 level, const char *text, u32 len);

WASI(clock_time_get) int wasi_clock_time_get(u32 id, u64 precision, u64 *time);
WASI(random_get) int wasi_random_get(void *to, u32 len);
WASI(fd_write) int wasi_fd_write(u32 fd, const void *parts, u32 n, u32 *written);

enum { badf = 8, nosys = 52 };            // WASI's errors
enum { eval_module = 1 };                  // the engine's flags
enum { engine_stack = 512 << 10 };         // of the 1 MiB that the engine's module has
enum { pending = 0, fulfilled = 1, rejected = 2 };      // states of promises

// The script that is packed into the engine: the packer writes where it lies and how
// long it is. The rest is what the glue keeps. Nothing here is zero at first throughout:
// then a start function would clear it, after the packer's data.
struct {
  const char *text;
  u32 len;
  value dispatch; // of the kit: (export, input) -> answer
  u32 started;    // whether the image is made
} agenthost_script = {(const char *)1, 0, 0, 0};
#define state agenthost_script

static const char kit[] = {
#embed <kit.js>
    , 0};

// What a plugin imports from "agenthost".
static const char kit_module[] = {
#embed "module.js"
    , 0};


struct part {
  const char *text;
  u32 len;
};

// die ends the plugin. The first line of what it says becomes the error's message, as that
// of a panic does; the rest is in the log.
static void die_with(const struct part *parts, u32 n) {
  struct part all[8] = {{"panic: ", 7}};
  for (u32 i = 0; i < n; i++)
    all[i + 1] = parts[i];
  u32 written;
  wasi_fd_write(2, all, n + 1, &written);
  __builtin_trap();
}
#define DIE(text) die_with(&(struct part){text, sizeof text - 1}, 1)

// take returns the exception that was thrown, as an owned value.
static value take(void) { return qjs_get_exception(); }

// die_of ends the plugin with an error of JavaScript, and where it was thrown.
static void die_of(value error) {
  u32 len, more = 0, from = 0, end = 0;
  const char *text = qjs_get_string_len(error, &len);
  if (!text)
    DIE("the plugin's script threw what is no text");
  value stack = qjs_get_prop_string(error, "stack");
  const char *lines = qjs_is_string(stack) ? qjs_get_string_len(stack, &more) : 0;
  if (!lines)
    more = 0;
  while (from < more && lines[from] == ' ')
    from++;
  for (end = from; end < more && lines[end] != '\n';)
    end++;
  struct part parts[] = {{text, len}, {" ", 1}, {lines + from, end - from}, {lines + end, more - end}, {"\n", 1}};
  die_with(parts, 5);
}

static value checked(value v) {
  if (!v)
    DIE("out of memory");
  if (qjs_is_exception(v))
    die_of(take());
  return v;
}

// run_jobs runs what promises wait for.
static void run_jobs(void) {
  while (qjs_is_job_pending())
    if (qjs_execute_pending_job() < 0)
      qjs_free_value(take()); // the promise of the job has it
}

// idle lets the kit settle what the call's answer waits for, and returns whether it may have.
static int idle(void) {
  value name = qjs_new_string("idle", 4), self = qjs_get_undefined();
  value more = checked(qjs_call(state.dispatch, self, 1, &name));
  int some = qjs_get_float64(more) == 1;
  qjs_free_value(more);
  qjs_free_value(self);
  qjs_free_value(name);
  return some;
}

static int same(const char *a, u32 len, const char *b) {
  for (u32 i = 0; i < len; i++)
    if (a[i] != b[i] || !b[i])
      return 0;
  return !b[len];
}

static u32 length(const char *s) {
  u32 n = 0;
  while (s[n])
    n++;
  return n;
}

// valid says whether text is UTF-8 (RFC 3629).
static int valid(const u8 *s, u32 len) {
  for (u32 i = 0; i < len;) {
    if (i + 8 <= len) { // most text is ASCII
      u64 word;
      __builtin_memcpy(&word, s + i, 8);
      if (!(word & 0x8080808080808080)) {
        i += 8;
        continue;
      }
    }
    u8 c = s[i];
    u32 n = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
    if (!n || i + n > len)
      return 0;
    for (u32 k = 1; k < n; k++)
      if ((s[i + k] & 0xc0) != 0x80)
        return 0;
    if ((c == 0xe0 && s[i + 1] < 0xa0) || (c == 0xed && s[i + 1] > 0x9f) ||
        (c == 0xf0 && s[i + 1] < 0x90) || (c == 0xf4 && s[i + 1] > 0x8f))
      return 0;
    i += n;
  }
  return 1;
}

// fail throws an error in the engine.
static value fail(const char *message) {
  value error = qjs_new_error(), text = qjs_new_string(message, length(message));
  qjs_set_prop_string(error, "message", text);
  qjs_free_value(text);
  qjs_free_value(qjs_throw(error));
  qjs_free_value(error);
  return 0;
}

// What a look at the bytes of a document tells, for JSON.parse does not.
enum {
  inexact = 1, // it has numbers that a double does not hold, or writes otherwise
  doubled = 2, // a message or a part has a field twice
  deep = 4,    // it is nested deeper than the engine's parser can follow in a host's stack
};
enum { max_depth = 5000 };

// What stands at a place in a document.
enum place { other, root, message, part, piece, last, messages, parts, media };

struct scan {
  const u8 *s;
  u32 at, len, found;
};

static int peek(struct scan *d) {
  while (d->at < d->len) {
    u8 c = d->s[d->at];
    if (c != ' ' && c != '\n' && c != '\t' && c != '\r')
      return c;
    d->at++;
  }
  return -1;
}

// skip returns the end of the string whose first quote is at from.
static u32 skip(const u8 *s, u32 from, u32 len) {
  u32 i = from + 1;
  while (i < len && s[i] != '"') {
    u64 word; // eight bytes without a quote and a backslash are passed at once
    while (i + 8 <= len) {
      __builtin_memcpy(&word, s + i, 8);
      u64 q = word ^ 0x2222222222222222, b = word ^ 0x5c5c5c5c5c5c5c5c;
      if (((q - 0x0101010101010101) & ~q & 0x8080808080808080) | ((b - 0x0101010101010101) & ~b & 0x8080808080808080))
        break;
      i += 8;
    }
    while (i < len && s[i] != '"' && s[i] != '\\')
      i++;
    if (i < len && s[i] == '\\')
      i += 2;
  }
  return i < len ? i + 1 : len;
}

// string passes over a string and writes its text to name, as far as it is one of at
// most 15 letters of ASCII; otherwise name is empty.
static void string(struct scan *d, char name[16]) {
  u32 n = 0;
  int fits = 1;
  for (d->at++; d->at < d->len && d->s[d->at] != '"'; d->at++) {
    u32 c = d->s[d->at];
    if (c == '\\' && d->at + 1 < d->len) {
      c = d->s[++d->at];
      if (c == 'u' && d->at + 4 < d->len) {
        c = 0;
        for (int i = 0; i < 4; i++) {
          u8 x = d->s[++d->at];
          c = c << 4 | (x <= '9' ? x - '0' : (x | 0x20) - 'a' + 10) % 16;
        }
      } else {
        fits = 0;
      }
    }
    if (n < 15 && c && c < 0x80)
      name[n++] = (char)c;
    else
      fits = 0;
  }
  d->at++;
  name[fits ? n : 0] = 0;
}

// literal returns the end of the number at from, and whether it is one that a double
// does not hold, or that JavaScript writes otherwise.
static u32 literal(const u8 *s, u32 from, u32 len, int *odd) {
  u32 digits = 0, at = from;
  *odd = 0;
  for (; at < len; at++) {
    u8 c = s[at];
    if (c >= '0' && c <= '9')
      digits++;
    else if (c == '.' || c == 'e' || c == 'E' || c == '+')
      *odd = 1;
    else if (c != '-')
      break;
  }
  if (digits > 15 || (digits == 1 && s[from] == '-' && s[from + 1] == '0'))
    *odd = 1;
  return at;
}

static void number(struct scan *d) {
  int odd;
  u32 end = literal(d->s, d->at, d->len, &odd);
  if (odd)
    d->found |= inexact;
  d->at = end > d->at ? end : d->at + 1; // true, false, null, or no JSON
}

// pass passes over one value of which only the numbers are looked at.
static void pass(struct scan *d) {
  u32 depth = 0;
  do {
    switch (peek(d)) {
    case -1:
      return;
    case '"':
      d->at = skip(d->s, d->at, d->len);
      break;
    case '{':
    case '[':
      if (++depth > max_depth)
        d->found |= deep;
      d->at++;
      break;
    case '}':
    case ']':
      if (!depth)
        return;
      depth--;
      d->at++;
      break;
    case ',':
    case ':':
      if (!depth)
        return;
      d->at++;
      break;
    default:
      number(d);
    }
    if (!depth) {
      int c = peek(d);
      if (c == ',' || c == '}' || c == ']' || c < 0)
        return;
    }
  } while (d->at < d->len);
}

static const char *const message_fields[] = {"id", "role", "agent", "parts", "created_at", "metadata", 0};
static const char *const part_fields[] = {"type", "id", "name", "text", "signature", "arguments",
                                          "content", "is_error", "media_type", "url", "data", "value", "media", 0};

static enum place member(enum place in, const char *name) {
  u32 n = length(name);
  switch (in) {
  case root:
    if (same(name, n, "messages") || same(name, n, "responses"))
      return messages;
    if (same(name, n, "input"))
      return message;
    return same(name, n, "last") ? last : other;
  case last:
    if (same(name, n, "messages"))
      return messages;
    return same(name, n, "tool_results") ? parts : other;
  case message:
    return same(name, n, "parts") ? parts : other;
  case part:
    return same(name, n, "media") ? media : other;
  default:
    return other;
  }
}

static void look(struct scan *d, enum place at) {
  int c = peek(d);
  if ((at == messages || at == parts || at == media) && c == '[') {
    for (d->at++; (c = peek(d)) >= 0 && c != ']';) {
      u32 was = d->at;
      if (c != ',')
        look(d, at == messages ? message : at == parts ? part : piece);
      if (d->at == was)
        d->at++; // a comma, or what is no JSON
    }
    d->at++;
    return;
  }
  if (at == other || at == messages || at == parts || at == media || c != '{') {
    pass(d);
    return;
  }
  u32 seen = 0;
  for (d->at++; (c = peek(d)) >= 0 && c != '}';) {
    if (c != '"') {
      d->at++;
      continue;
    }
    char name[16];
    string(d, name);
    if (at == message || at == part || at == piece) {
      const char *const *fields = at == message ? message_fields : part_fields;
      for (u32 i = 0; fields[i]; i++)
        if (same(name, length(name), fields[i])) {
          if (seen & 1u << i)
            d->found |= doubled;
          seen |= 1u << i;
        }
    }
    if (peek(d) == ':')
      d->at++;
    look(d, member(at, name));
  }
  d->at++;
}

static u32 look_at(const u8 *text, u32 len) {
  struct scan d = {text, 0, len, 0};
  look(&d, root);
  return d.found;
}

// Numbers that JavaScript would change reach it as objects with one member, whose name
// is a character that the document has nowhere.

enum { first_mark = 0xe000, marks = 64 }; // of Unicode's private use

// has says whether a document has a character of private use, as it stands or escaped.
static int has(const u8 *s, u32 len, u32 mark) {
  u8 last = 0x80 | (mark & 63);
  for (u32 i = 0; i + 2 < len; i++) {
    if (s[i] == 0xee && s[i + 1] == 0x80 && s[i + 2] == last)
      return 1;
    if (s[i] == '\\' && s[i + 1] == 'u' && i + 5 < len) {
      u32 c = 0;
      for (int k = 2; k < 6; k++) {
        u8 x = s[i + k];
        c = c << 4 | (x <= '9' ? x - '0' : (x | 0x20) - 'a' + 10) % 16;
      }
      if (c == mark)
        return 1;
    }
  }
  return 0;
}

// marked returns a value of a document in which such numbers are objects, behind a
// prefix and the mark.
static value marked(const u8 *s, u32 len, const char *prefix) {
  u32 mark = first_mark;
  while (mark < first_mark + marks && has(s, len, mark))
    mark++;
  if (mark == first_mark + marks)
    return fail("the document has every character that could mark a number");
  u32 size = len + 8;
  for (u32 i = 0; i < len; i++) {
    int odd;
    if (s[i] == '"') {
      i = skip(s, i, len) - 1;
    } else if (s[i] == '-' || (s[i] >= '0' && s[i] <= '9')) {
      i = literal(s, i, len, &odd) - 1;
      size += odd ? 11 : 0;
    }
  }
  u8 *to = engine_malloc(size);
  if (!to)
    return fail("out of memory");
  u32 n = 0;
  for (u32 i = 0; prefix[i]; i++)
    to[n++] = prefix[i];
  u8 name[3] = {0xee, 0x80, 0x80 | (mark & 63)};
  for (int k = 0; k < 3; k++)
    to[n++] = name[k];
  for (u32 i = 0; i < len; i++) {
    u32 from = i, end = i + 1;
    int odd = 0;
    if (s[i] == '"') {
      end = skip(s, i, len);
    } else if (s[i] == '-' || (s[i] >= '0' && s[i] <= '9')) {
      end = literal(s, i, len, &odd);
    }
    if (odd) {
      to[n++] = '{';
      to[n++] = '"';
      for (int k = 0; k < 3; k++)
        to[n++] = name[k];
      to[n++] = '"';
      to[n++] = ':';
      to[n++] = '"';
    }
    __builtin_memcpy(to + n, s + from, end - from);
    n += end - from;
    if (odd) {
      to[n++] = '"';
      to[n++] = '}';
    }
    i = end - 1;
  }
  value v = qjs_new_string((char *)to, n);
  engine_free(to);
  return v;
}

// Functions of the kit's `host`. Their arguments are strings, numbers and buffers, which
// the kit has made: reading one runs no JavaScript.

// no_bytes is what host_call_bytes returns in a plugin that does not import it.
static const u64 no_bytes = ~0ull;
static u64 operation_bytes(const char *op, u32 op_len, const char *request, u32 request_len, const u8 *data, u32 data_len);

// response_len is the length of the last response's JSON; bytes may stand behind it.
static u32 response_len = 1;

// read_response returns a response behind "0", or behind "2" and a mark if it has numbers
// that are marked; or the error object behind "1".
static value read_response(u64 status) {
  u32 len = response_len = (u32)status;
  char *text = engine_malloc(len + 1);
  if (!text)
    return fail("out of memory");
  text[0] = status >> 32 ? '1' : '0';
  u32 n = 0;
  while (n < len) {
    u32 got = host_read(text + 1 + n, n, len - n);
    if (!got)
      break;
    n += got;
  }
  value v = text[0] == '0' && look_at((u8 *)text + 1, n) & inexact
                ? marked((u8 *)text + 1, n, "2")
                : qjs_new_string(text, n + 1);
  engine_free(text);
  return v;
}

// bytes_at returns the bytes of three arguments: a buffer, an offset in it and their number.
// Without a buffer there are none.
static u8 *bytes_at(value *argv, u32 *len) {
  u32 size;
  double at = qjs_get_float64(argv[1]), n = qjs_get_float64(argv[2]);
  u8 *bytes = qjs_is_array_buffer(argv[0]) ? qjs_get_array_buffer(argv[0], &size) : 0;
  if (!bytes || !(at >= 0 && n >= 0 && at + n <= size)) {
    fail("the bytes are not those of an ArrayBuffer");
    return 0;
  }
  *len = (u32)n;
  return bytes + (u32)at;
}

// call(operation, request) runs a host operation, and returns what read_response does. With a
// third argument bytes may stand beside the JSON: those of the buffer in the arguments behind
// it, if it is 1. It returns undefined then if the host has no host_call_bytes.
static value call(int argc, value *argv) {
  if (argc < 2 || !qjs_is_string(argv[0]) || !qjs_is_string(argv[1]))
    return fail("call takes two strings");
  const u8 *data = 0;
  u32 op_len, request_len, data_len = 0;
  if (argc == 6 && qjs_get_float64(argv[2]) == 1 && !(data = bytes_at(argv + 3, &data_len)))
    return 0;
  const char *op = qjs_get_string_len(argv[0], &op_len);
  const char *request = qjs_get_string_len(argv[1], &request_len);
  if (!op || !request)
    return fail("out of memory");
  u64 status = argc == 2 ? host_operation(op, op_len, request, request_len)
                         : operation_bytes(op, op_len, request, request_len, data, data_len);
  qjs_free_cstring(op);
  qjs_free_cstring(request);
  return status == no_bytes ? qjs_get_undefined() : read_response(status);
}

// behind(buffer, from, length, offset) reads bytes that stand behind the JSON of the last
// response, from an offset on, into the buffer.
static value behind(int argc, value *argv) {
  u32 len, n = 0, got;
  u8 *to = argc == 4 ? bytes_at(argv, &len) : 0;
  if (!to)
    return argc == 4 ? 0 : fail("behind takes a buffer and three numbers");
  u32 from = response_len + (u32)qjs_get_float64(argv[3]);
  while (n < len && (got = host_read(to + n, from + n, len - n)))
    n += got;
  return n == len ? qjs_get_undefined() : fail("the response ends early");
}

static value note(int argc, value *argv) {
  if (argc != 2 || !qjs_is_string(argv[1]))
    return fail("log takes a level and a string");
  u32 len;
  const char *text = qjs_get_string_len(argv[1], &len);
  if (!text)
    return fail("out of memory");
  host_log((u32)qjs_get_float64(argv[0]), text, len);
  qjs_free_cstring(text);
  return qjs_get_undefined();
}

// random returns 32 random bits: those that the host gives this call.
static value random(void) {
  u32 bits = 0;
  if (state.started)
    wasi_random_get(&bits, sizeof bits);
  return qjs_new_number(bits);
}

// encode(text) returns a buffer with the text in UTF-8.
static value encode(int argc, value *argv) {
  if (argc != 1 || !qjs_is_string(argv[0]))
    return fail("encode takes a string");
  u32 len;
  const char *text = qjs_get_string_len(argv[0], &len);
  if (!text)
    return fail("out of memory");
  value v = qjs_new_array_buffer(text, len);
  qjs_free_cstring(text);
  return v;
}

// decode(buffer, from, length) returns the text that the bytes are in UTF-8.
static value decode(int argc, value *argv) {
  u32 len;
  const u8 *bytes = argc == 3 ? bytes_at(argv, &len) : 0;
  if (!bytes)
    return argc == 3 ? 0 : fail("decode takes a buffer and two numbers");
  return valid(bytes, len) ? qjs_new_string((const char *)bytes, len) : fail("the bytes are not UTF-8");
}

// exact(text) returns a document as call does.
static value exact(int argc, value *argv) {
  if (argc != 1 || !qjs_is_string(argv[0]))
    return fail("exact takes a string");
  u32 len;
  const char *text = qjs_get_string_len(argv[0], &len);
  if (!text)
    return fail("out of memory");
  value v = marked((const u8 *)text, len, "2");
  qjs_free_cstring(text);
  return v;
}

// What the engine imports.

EXPORT(host_call) value host_call(const char *name, u32 len, value self, int argc, value *argv) {
  if (same(name, len, "call"))
    return call(argc, argv);
  if (same(name, len, "log"))
    return note(argc, argv);
  if (same(name, len, "random"))
    return random();
  if (same(name, len, "exact"))
    return exact(argc, argv);
  if (same(name, len, "behind"))
    return behind(argc, argv);
  if (same(name, len, "encode"))
    return encode(argc, argv);
  if (same(name, len, "decode"))
    return decode(argc, argv);
  return fail("unknown function of the host");
}

EXPORT(host_interrupt) int host_interrupt(void) { return 0; }

// Promises that a call has rejected and that nothing handles yet, with their reasons. What
// is more than there is room for is not noted.
enum { max_rejected = 8 };
static struct {
  value promise, reason;
} rejections[max_rejected] = {{1, 0}};
static u32 rejection_count = max_rejected + 1; // more than there are before the first call

EXPORT(host_promise_rejection) void host_promise_rejection(value promise, value reason, int handled) {
  u32 i = 0;
  if (!handled && rejection_count < max_rejected) {
    rejections[rejection_count].promise = promise;
    rejections[rejection_count++].reason = reason;
    return;
  }
  if (handled && rejection_count <= max_rejected) {
    while (i < rejection_count && qjs_get_value_ptr(rejections[i].promise) != qjs_get_value_ptr(promise))
      i++;
    if (i < rejection_count) {
      qjs_free_value(rejections[i].promise);
      qjs_free_value(rejections[i].reason);
      rejections[i] = rejections[--rejection_count];
    }
  }
  qjs_free_value(promise);
  qjs_free_value(reason);
}

// log_rejections has the kit log the reasons of the promises that nothing handles.
static void log_rejections(void) {
  u32 count = rejection_count;
  rejection_count = max_rejected + 1;
  for (u32 i = 0; i < count && count <= max_rejected; i++) {
    value args[2] = {qjs_new_string("rejected", 8), rejections[i].reason}, self = qjs_get_undefined();
    value done = qjs_call(state.dispatch, self, 2, args);
    if (qjs_is_exception(done))
      qjs_free_value(take()); // a reason that cannot be shown
    else
      qjs_free_value(done);
    qjs_free_value(self);
    qjs_free_value(args[0]);
    qjs_free_value(rejections[i].promise);
    qjs_free_value(rejections[i].reason);
  }
}
EXPORT(host_get_timezone_offset) int host_get_timezone_offset(int hi, int lo) { return 0; }

EXPORT(host_module_normalize) char *host_module_normalize(const char *base, const char *name) {
  u32 len = length(name);
  char *copy = engine_malloc(len + 1);
  if (copy)
    for (u32 i = 0; i <= len; i++)
      copy[i] = name[i];
  return copy;
}

EXPORT(host_module_load) char *host_module_load(const char *name, u32 *len) {
  if (!same(name, length(name), "agenthost")) {
    fail("a plugin imports from \"agenthost\" only: bundle what else it needs into one file");
    return 0;
  }
  *len = sizeof kit_module - 1;
  char *copy = engine_malloc(sizeof kit_module);
  if (copy)
    for (u32 i = 0; i < sizeof kit_module; i++)
      copy[i] = kit_module[i];
  return copy;
}

EXPORT(clock_time_get) int clock_time_get(u32 id, u64 precision, u64 *time) {
  return wasi_clock_time_get(id, precision, time);
}
EXPORT(random_get) int random_get(u8 *to, u32 len) {
  if (state.started)
    return wasi_random_get(to, len);
  for (u32 i = 0; i < len; i++) // an image is the same each time it is made
    to[i] = (u8)(i * 151 + 43);
  return 0;
}
EXPORT(fd_write) int fd_write(u32 fd, const void *parts, u32 n, u32 *written) {
  return fd == 1 || fd == 2 ? wasi_fd_write(fd, parts, n, written) : badf;
}
EXPORT(fd_close) int fd_close(u32 fd) { return nosys; }
EXPORT(fd_seek) int fd_seek(u32 fd, u64 offset, u32 whence, u64 *to) { return nosys; }
EXPORT(fd_fdstat_get) int fd_fdstat_get(u32 fd, u8 *stat) {
  if (fd != 1 && fd != 2)
    return badf;
  for (int i = 0; i < 24; i++)
    stat[i] = 0;
  stat[0] = 2; // a character device
  return 0;
}

// The plugin's exports.

static void give(value object, const char *name) {
  value fn = checked(qjs_new_host_function(name, length(name), 0));
  qjs_set_prop_string(object, name, fn);
  qjs_free_value(fn);
}

// read_script reads the script that the host gives as the input of start-up, if it does.
static void read_script(void) {
  u32 size = 64 << 10, n = 0, got;
  char *text = engine_malloc(size);
  while (text && (got = input_read(text + n, n, size - 1 - n))) {
    n += got;
    if (n < size - 1)
      continue;
    char *larger = engine_malloc(size * 2);
    for (u32 i = 0; larger && i < n; i++)
      larger[i] = text[i];
    engine_free(text);
    text = larger;
    size *= 2;
  }
  if (!text)
    DIE("no memory for the script");
  text[n] = 0;
  state.text = text;
  state.len = n;
}

EXPORT(_initialize) void initialize(void) {
  engine_initialize();
  if (qjs_init())
    DIE("the engine did not start");
  qjs_set_max_stack_size(engine_stack);
  qjs_set_module_loader(1);
  qjs_set_promise_rejection_handler(1);

  value host = checked(qjs_new_object());
  give(host, "call");
  give(host, "log");
  give(host, "random");
  give(host, "exact");
  give(host, "behind");
  give(host, "encode");
  give(host, "decode");
  value start = checked(qjs_eval(kit, sizeof kit - 1, "agenthost", 0));
  state.dispatch = checked(qjs_call(start, qjs_get_undefined(), 1, &host));
  qjs_free_value(start);
  qjs_free_value(host);

  if (!state.len)
    read_script();
  if (state.len) {
    value done = checked(qjs_eval(state.text, state.len, "plugin.js", eval_module));
    run_jobs();
    switch (qjs_promise_state(done)) {
    case fulfilled:
      break;
    case rejected:
      die_of(qjs_promise_result(done));
    default:
      DIE("the plugin's script waits at its top level for what never comes");
    }
    qjs_free_value(done);
  }
  state.started = 1;
}

static u32 refuse(const char *error) {
  output_write(error, length(error));
  return 1;
}

// serve gives the input to the kit and writes its answer.
static u32 serve(const char *export, u32 len) {
  u8 *text = engine_malloc(len + 1);
  if (!text)
    return refuse("{\"code\":\"resource_exhausted\",\"message\":\"no memory for the input\"}");
  u32 n = 0;
  while (n < len) {
    u32 got = input_read(text + n, n, len - n);
    if (!got)
      break;
    n += got;
  }
  if (!valid(text, n)) {
    engine_free(text);
    return refuse("{\"code\":\"invalid_argument\",\"message\":\"the input is not UTF-8\"}");
  }
  rejection_count = 0;
  u32 found = look_at(text, n);
  if (found & deep) {
    engine_free(text);
    return refuse("{\"code\":\"invalid_argument\",\"message\":\"the input is nested too deeply\"}");
  }
  value document = found & inexact ? marked(text, n, "") : qjs_new_string((char *)text, n);
  if (!document)
    die_of(take());
  value args[3] = {qjs_new_string(export, length(export)), document, qjs_new_number(found)};
  engine_free(text);
  value self = qjs_get_undefined();
  value answer = qjs_call(state.dispatch, self, 3, args);
  qjs_free_value(self);
  for (int i = 0; i < 3; i++)
    qjs_free_value(args[i]);
  if (qjs_is_exception(answer))
    die_of(take()); // the kit catches what a plugin throws; this is out of stack or memory
  run_jobs();
  while (qjs_is_promise(answer) && qjs_promise_state(answer) == pending && idle())
    run_jobs();
  log_rejections();
  if (qjs_is_promise(answer)) {
    if (qjs_promise_state(answer) != fulfilled)
      DIE("the plugin waits for a promise that nothing fulfills");
    value result = qjs_promise_result(answer);
    qjs_free_value(answer);
    answer = result;
  }
  u32 size;
  const char *out = qjs_get_string_len(answer, &size);
  if (!out)
    DIE("out of memory");
  output_write(out + 1, size - 1);
  u32 status = out[0] - '0';
  qjs_free_cstring(out);
  qjs_free_value(answer);
  return status;
}

EXPORT(agenthost_describe) u32 agenthost_describe(void) { return serve("describe", 0); }
EXPORT(agenthost_tool) u32 agenthost_tool(u32 len) { return serve("tool", len); }
EXPORT(agenthost_process) u32 agenthost_process(u32 len) { return serve("process", len); }
EXPORT(agenthost_route) u32 agenthost_route(u32 len) { return serve("route", len); }
EXPORT(agenthost_provide) u32 agenthost_provide(u32 len) { return serve("provide", len); }
EXPORT(agenthost_observe) u32 agenthost_observe(u32 len) { return serve("observe", len); }

// The packer may put a function in the place of the last import, and no other function gets another
// number then: it is the last because nothing above calls it.
static __attribute__((noinline)) u64 operation_bytes(const char *op, u32 op_len, const char *request, u32 request_len, const u8 *data, u32 data_len) {
  return host_operation_bytes(op, op_len, request, request_len, data, data_len);
}
