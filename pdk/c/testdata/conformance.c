/* The guest that pdk/conformance feeds: each part answers with the members of its request
 * that the contract names, written again as the kit has read them. */
#include "../agenthost.h"

static void put(ah_call *c, ah_buffer *b, const char *name, ah_json v) { ah_answer_json(c, b, name, v); }
static void text(ah_call *c, ah_buffer *b, const char *name, ah_text v) { ah_answer_text(c, b, name, v); }
static void whole(ah_call *c, ah_buffer *b, const char *name, int64_t n) { put(c, b, name, ah_make(c, "%l", n)); }

static void list(ah_call *c, ah_buffer *b, const char *name, const ah_json *of, uint32_t count) {
  ah_buffer items = {0};
  ah_add(c, &items, "[", 1);
  for (uint32_t i = 0; i < count; i++) {
    ah_add(c, &items, ",", i > 0);
    ah_add(c, &items, of[i].at, of[i].size);
  }
  ah_add(c, &items, "]", 1);
  put(c, b, name, (ah_json){items.at, items.size});
}

static void column(ah_call *c, ah_buffer *b, const char *name, const uint32_t *of, uint32_t count) {
  if (!of) return;
  ah_json *items = ah_alloc(c, count * sizeof *items);
  for (uint32_t i = 0; i < count; i++) items[i] = ah_make(c, "%l", (int64_t)of[i]);
  list(c, b, name, items, count);
}

static ah_json object(ah_call *c, ah_buffer *b) {
  ah_buffer out = {0};
  ah_add(c, &out, "{", 1);
  ah_add(c, &out, b->at, b->size);
  ah_add(c, &out, "}", 1);
  return (ah_json){out.at, out.size};
}

static void put_outline(ah_call *c, ah_buffer *b, const ah_outline *o) {
  if (!o) return;
  ah_buffer in = {0};
  whole(c, &in, "count", o->count);
  text(c, &in, "roles", (ah_text){o->roles, o->count});
  column(c, &in, "bytes", o->bytes, o->count);
  column(c, &in, "chars", o->chars, o->count);
  column(c, &in, "tokens", o->tokens, o->count);
  text(c, &in, "encoding", o->encoding);
  column(c, &in, "parts", o->parts, o->count);
  column(c, &in, "keep", o->keep, o->keep_count);
  if (o->own_from >= 0) whole(c, &in, "own_from", o->own_from);
  ah_json *rows = ah_alloc(c, o->tool_count * sizeof *rows);
  for (uint32_t i = 0; i < o->tool_count; i++) {
    const ah_row *r = &o->tools[i];
    rows[i] = ah_make(c, "[%l,%l,%s,%t,%t]", (int64_t)r->message, (int64_t)r->part, r->is_result ? "result" : "call", r->id, r->name);
  }
  list(c, &in, "tools", rows, o->tool_count);
  put(c, b, "outline", object(c, &in));
}

static void put_scope(ah_call *c, ah_buffer *b) {
  ah_buffer in = {0};
  text(c, &in, "tenant", c->scope.tenant);
  text(c, &in, "thread", c->scope.thread);
  text(c, &in, "run", c->scope.run);
  text(c, &in, "network", c->scope.network);
  text(c, &in, "agent", c->scope.agent);
  put(c, b, "scope", object(c, &in));
}

static void vector_tool(ah_call *c) {
  ah_buffer b = {0};
  text(c, &b, "tool", c->name);
  put(c, &b, "arguments", c->arguments);
  text(c, &b, "call_id", c->call_id);
  text(c, &b, "idempotency_key", c->idempotency_key);
  if (c->attempt) whole(c, &b, "attempt", c->attempt);
  text(c, &b, "provider", c->provider);
  put(c, &b, "state", c->state);
  if (c->state_revision) whole(c, &b, "state_revision", c->state_revision);
  put(c, &b, "config", c->config);
  put(c, &b, "resumed", c->resumed);
  put_scope(c, &b);
  ah_return(c, "%j", object(c, &b));
}

static void integer(ah_call *c) { ah_return(c, "{\"argument\":%l}", ah_get_int(c, c->arguments, "argument")); }

static bool denied(ah_call *c, const char *tool, ah_json arguments) {
  ah_call_tool(c, tool, arguments);
  return ah_caught(c, AH_PERMISSION_DENIED);
}

static ah_json tools(ah_call *c) {
  ah_json seven = ah_raw(AH_JSON({"order": 7})), eight = ah_raw(AH_JSON({"order": 8}));
  const ah_tool_answer *a = ah_call_tools(c, (ah_tool_call[]){{ah_c("look"), seven}, {ah_c("pay"), seven}, {ah_c("wait"), seven}}, 3);
  ah_json one = ah_call_tool(c, "look", eight);
  bool pay = denied(c, "pay", eight), drop = denied(c, "drop", eight);
  return ah_make(c, AH_JSON({"found": %j, "media": %j, "failed": [%t, %t, %t], "one": %j, "denied": [%b, %b]}), ah_result_of(c, &a[0]),
                 ah_get(ah_at(a[0].media, 0), "media_type"), a[1].error.code, a[1].error.message, a[2].error.code, one, pay, drop);
}

static void host(ah_call *c) {
  ah_text key = ah_c("k");
  ah_kv_get(c, key, NULL);
  bool absent = ah_caught(c, AH_NOT_FOUND);
  ah_kv_put(c, key, (ah_text){"a\0\xc3\xa9", 4}, -1, 0);
  int64_t revision = 0;
  ah_text value = ah_kv_get(c, key, &revision);
  ah_json n = ah_state(c, "/n");
  ah_response r = ah_fetch(c, ah_make(c, AH_JSON({
    "method": "POST", "url": %s, "headers": [{"name": "Authorization", "prefix": "Bearer ", "secret": "KEY"}], "body": %j}),
    "https://example.com/x", ah_base64(c, ah_c("{\"a\":1}"))));
  ah_json body = ah_parse(c, r.body);
  if (!ah_step_begin(c, "s", false).at) ah_step_end(c, "s", ah_raw(AH_JSON({"x": 1.0})));
  ah_json left = ah_step_begin(c, "s", false);
  ah_progress(c, ah_c("half"));
  ah_send(c, "later", ah_raw(AH_JSON({"a": [1]})));
  ah_json others = tools(c);
  ah_host(c, "artifact.read", ah_raw(AH_JSON({"name": "plan"})));
  if (ah_get_bool_or(c, c->arguments, "fails", false)) return;
  bool caught = ah_caught(c, AH_CONFLICT);
  ah_return(c, AH_JSON({"absent": %b, "text": %t, "n": %j, "status": %l, "ok": %j, "step": %j, "tools": %j, "code": %s}),
            absent, value, n, r.status, ah_get(body, "ok"), left, others, caught && revision == 1 ? AH_CONFLICT : "");
}

static void pass_bytes(ah_call *c) {
  ah_text key = ah_c("k"), name = ah_c("plan");
  ah_kv_put_bytes(c, key, (ah_text){"a\0\xc3\xa9", 4}, 0, 0);
  int64_t revision = 0;
  ah_text value = ah_kv_get_bytes(c, key, &revision);
  ah_text digest = ah_artifact_write_bytes(c, name, "application/x-plan", (ah_text){"\0\1\2", 3});
  ah_file plan = ah_artifact_read_bytes(c, name);
  ah_response r = ah_fetch_bytes(c, ah_make(c, AH_JSON({
    "method": "POST", "url": %s, "headers": [{"name": "Authorization", "prefix": "Bearer ", "secret": "KEY"}]}),
    "https://example.com/x"), ah_c("{\"a\":1}"));
  ah_kv_get_bytes(c, ah_c("none"), NULL);
  if (ah_get_bool_or(c, c->arguments, "fails", false)) return;
  bool caught = ah_caught(c, AH_NOT_FOUND);
  ah_return(c, AH_JSON({"text": %t, "revision": %l, "digest": %t, "plan": %t, "type": %t, "status": %l, "body": %t, "code": %s}),
            value, revision, digest, plan.data, plan.media_type, r.status, r.body, caught ? AH_NOT_FOUND : "");
}

static void carry(ah_call *c) {
  uint32_t size = (uint32_t)ah_get_int(c, c->arguments, "size"), right = 0;
  bool bytes = ah_get_bool_or(c, c->arguments, "bytes", false);
  char *data = ah_alloc(c, size);
  for (uint32_t i = 0; i < size; i++) data[i] = (char)i;
  ah_text name = ah_c("load"), all = {data, size};
  if (bytes) ah_artifact_write_bytes(c, name, "", all); else ah_artifact_write(c, name, "", all);
  ah_file file = bytes ? ah_artifact_read_bytes(c, name) : ah_artifact_read(c, name);
  for (uint32_t i = 0; i < file.data.size; i++) right += file.data.at[i] == (char)i;
  ah_return(c, AH_JSON({"right": %l, "size": %l}), (int64_t)right, (int64_t)file.data.size);
}

static void write_log(ah_call *c) {
  ah_log_with(c, AH_WARN, "late", AH_JSON({"order": %d, "who": %s, "note": %s, "empty": %s, "eq": %s, "path": %s, "paid": %b, "days": %f}),
              1042, "Ann", "say \"hi\"", "", "a=b", "a\\b", true, 2.5);
}

static void each(ah_call *c, ah_json list, void (*f)(ah_call *, ah_json)) {
  for (ah_iterator i = ah_iterate(list); ah_next_item(&i);) f(c, i.value);
}

static void schedule(ah_call *c, ah_json agent) { ah_schedule(c, ah_string(c, agent)); }

static void answer(ah_call *c) {
  ah_json asked = ah_get(c->arguments, "interrupt");
  if (asked.at) {
    ah_interrupt(c, ah_get_text(c, asked, "reason"), ah_get(asked, "data"));
    return;
  }
  ah_return(c, "%j", ah_get(c->arguments, "content"));
  each(c, ah_get(c->arguments, "state"), ah_patch);
  each(c, ah_get(c->arguments, "media"), ah_media);
  each(c, ah_get(c->arguments, "artifacts"), ah_artifact);
  each(c, ah_get(c->arguments, "schedule"), schedule);
}

static void fail(ah_call *c) {
  c->kit.error = (ah_error){
    .code = ah_get_text(c, c->arguments, "code"), .message = ah_get_text(c, c->arguments, "message"),
    .hint = ah_string(c, ah_get(c->arguments, "hint")), .retryable = ah_get_bool_or(c, c->arguments, "retryable", false)};
}

static ah_json process(ah_call *c) {
  ah_buffer b = {0};
  text(c, &b, "processor", c->name);
  put(c, &b, "config", c->config);
  text(c, &b, "model", c->model);
  if (c->outline) {
    put_outline(c, &b, c->outline);
  } else {
    list(c, &b, "messages", c->messages, c->message_count);
    if (c->own_from >= 0) whole(c, &b, "own_from", c->own_from);
  }
  put_scope(c, &b);
  return object(c, &b);
}

static void report(ah_call *c) { ah_report(c, process(c)); }

static void again(ah_call *c) {
  ah_buffer b = {0};
  list(c, &b, "messages", c->messages, c->message_count);
  ah_view(c, ah_get(object(c, &b), "messages"));
}

static void put_names(ah_call *c, ah_buffer *b) {
  ah_json *names = ah_alloc(c, c->stack_count * sizeof *names), *agents = ah_alloc(c, c->agent_count * sizeof *agents);
  for (uint32_t i = 0; i < c->stack_count; i++) names[i] = ah_make(c, "%t", c->stack[i]);
  for (uint32_t i = 0; i < c->agent_count; i++) {
    ah_buffer in = {0};
    text(c, &in, "name", c->agents[i].name);
    text(c, &in, "description", c->agents[i].description);
    agents[i] = object(c, &in);
  }
  list(c, b, "stack", names, c->stack_count);
  list(c, b, "agents", agents, c->agent_count);
}

static void route(ah_call *c) {
  ah_buffer b = {0}, in = {0};
  put(c, &b, "config", c->config);
  put(c, &b, "input", c->input);
  whole(c, &b, "call_count", c->call_count);
  put_names(c, &b);
  put(c, &b, "state", c->state);
  if (c->last) {
    text(c, &in, "agent", c->last->agent);
    if (c->last->messages) list(c, &in, "messages", c->last->messages, c->last->message_count);
    if (c->last->tool_results) list(c, &in, "tool_results", c->last->tool_results, c->last->tool_result_count);
    text(c, &in, "finish_reason", c->last->finish_reason);
    put(c, &b, "last", object(c, &in));
  }
  put_outline(c, &b, c->outline);
  put_scope(c, &b);
  ah_json request = object(c, &b);
  ah_reason(c, (ah_text){request.at, request.size});
}

static void provide(ah_call *c) {
  ah_buffer b = {0};
  put(c, &b, "config", c->config);
  list(c, &b, "messages", c->messages, c->message_count);
  put_scope(c, &b);
  ah_json request = object(c, &b);
  ah_instruct(c, (ah_text){request.at, request.size});
}

static void observe(ah_call *c) {
  ah_log(c, AH_INFO, "%d responses, %t", (int)c->response_count, c->failure.message);
}

#define ANY AH_JSON({"type": "object"})

AH_PLUGIN(
  .name = "conformance", .version = "1.0.0",
  .tools = (const ah_tool[]){
    {.name = "vector", .description = "Answers with its call.", .parameters = ANY, .run = vector_tool},
    {.name = "integer", .description = "Answers with its argument.", .parameters = ANY, .run = integer},
    {.name = "host", .description = "Asks the host for things.", .parameters = ANY, .run = host},
    {.name = "bytes", .description = "Passes bytes to the host and gets them.", .parameters = ANY, .run = pass_bytes},
    {.name = "carry", .description = "Writes an artifact and reads it.", .parameters = ANY, .run = carry},
    {.name = "log", .description = "Writes to the log.", .parameters = ANY, .run = write_log},
    {.name = "answer", .description = "Answers with its arguments, as a result.", .parameters = ANY, .run = answer},
    {.name = "fail", .description = "Fails with its arguments.", .parameters = ANY, .run = fail},
    {0}},
  .processors = (const ah_processor[]){
    {.name = "vector", .run = report}, {.name = "outline", .run = report, .outline = true}, {.name = "again", .run = again}, {0}},
  .routers = (const ah_router[]){{.name = "vector", .run = route}, {0}},
  .providers = (const ah_provider[]){{.name = "vector", .run = provide, .observe = observe}, {0}});
