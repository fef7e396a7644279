// The guest that pdk/conformance feeds: each part answers with the members of its request that
// the contract names, written again as the kit has read them.

import { Call, Fetch, Json, Level, Obj, Observe, Outline, Provide, Route, Scope, ToolCall, View, beginStep, callTool, callTools, caught, endStep, fail, failed, getState, host, kv, log, outlineProcessor, plugin, processor, progress, provider, readArtifact, readArtifactBytes, router, send, text, tool, array, writeArtifact, writeArtifactBytes } from "../agenthost";
export * from "../agenthost/exports";

const ANY = `{"type":"object"}`;

plugin("conformance", "1.0.0");

function scope(s: Scope): Json {
  return new Obj().string("tenant", s.tenant).string("thread", s.thread).string("run", s.run).string("network", s.network).string("agent", s.agent).toJson();
}

function ints(list: i32[]): Json { return Json.parse("[" + list.join(",") + "]")!; }

function outline(o: Outline): Json {
  const rows: Json[] = [], tokens = o.tokens, keep = o.keep;
  for (let i = 0; i < o.tools.length; i++) {
    const r = o.tools[i];
    rows.push(array([ints([r.message]).items()[0], ints([r.part]).items()[0], text(r.isResult ? "result" : "call"), text(r.id), text(r.name)]));
  }
  const out = new Obj().int("count", o.count).string("roles", o.roles).json("bytes", ints(o.bytes)).json("chars", ints(o.chars));
  if (tokens !== null) out.json("tokens", ints(tokens));
  out.string("encoding", o.encoding).json("parts", ints(o.parts));
  if (keep !== null) out.json("keep", ints(keep));
  if (o.ownFrom >= 0) out.int("own_from", o.ownFrom);
  return out.list("tools", rows).toJson();
}

tool("vector", "Answers with its call.", ANY, (c: Call): void => {
  const o = new Obj().string("tool", c.tool).json("arguments", c.arguments).string("call_id", c.callId).string("idempotency_key", c.idempotencyKey);
  if (c.attempt > 0) o.int("attempt", c.attempt);
  o.string("provider", c.provider).json("scope", scope(c.scope)).json("state", c.state).json("config", c.config);
  if (c.stateRevision > 0) o.int("state_revision", c.stateRevision);
  const resumed = c.resumed;
  if (resumed !== null) o.list("resumed", resumed);
  c.json(o.toJson());
});

tool("integer", "Answers with its argument.", ANY, (c: Call): void => { c.json(new Obj().int("argument", c.int("argument")).toJson()); });

function denied(name: string, args: Json): bool {
  callTool(name, args);
  return caught("permission_denied");
}

function truth(v: bool): Json { return Json.parse(v ? "true" : "false")!; }

function tools(): Json | null {
  const seven = new Obj().int("order", 7).toJson(), eight = new Obj().int("order", 8).toJson();
  const answers = callTools([new ToolCall("look", seven), new ToolCall("pay", seven), new ToolCall("wait", seven)]), one = callTool("look", eight);
  const o = new Obj().list("denied", [truth(denied("pay", eight)), truth(denied("drop", eight))]);
  if (answers === null) return null;
  o.json("found", answers[0].result()).json("media", answers[0].media[0].get("media_type")).json("one", one);
  return o.strings("failed", [answers[1].code!, answers[1].content.string()!, answers[2].code!]).toJson();
}

tool("host", "Asks the host for things.", ANY, (c: Call): void => {
  kv.get("k");
  const absent = caught("not_found");
  kv.putText("k", "a\0é");
  const value = kv.text("k"), n = getState("/n");
  const response = new Fetch("https://example.com/x", "POST").secret("Authorization", "Bearer ", "KEY").body('{"a":1}').send();
  if (response === null) return;
  const body = response.json();
  if (beginStep("s") === null) endStep("s", Json.parse('{"x":1.0}')!);
  const left = beginStep("s");
  progress("half");
  send("later", Json.parse('{"a":[1]}')!);
  const others = tools();
  host("artifact.read", new Obj().string("name", "plan"));
  if (c.has("fails") && c.argument("fails")!.isTrue) return;
  const last = caught("conflict") ? "conflict" : "";
  if (failed() || body === null) return;
  c.json(new Obj().bool("absent", absent).string("text", value).json("n", n).int("status", response.status).json("ok", body.get("ok")).json("step", left).json("tools", others).string("code", last).toJson());
});

tool("bytes", "Passes bytes to the host and gets them.", ANY, (c: Call): void => {
  kv.putBytes("k", String.UTF8.encode("a\0é"), 0);
  const item = kv.itemBytes("k"), data = new Uint8Array(3);
  for (let i = 0; i < 3; i++) data[i] = <u8>i;
  const digest = writeArtifactBytes("plan", "application/x-plan", data.buffer), plan = readArtifactBytes("plan");
  const response = new Fetch("https://example.com/x", "POST").secret("Authorization", "Bearer ", "KEY").body('{"a":1}').sendBytes();
  kv.itemBytes("none");
  if (c.has("fails") && c.argument("fails")!.isTrue) return;
  const last = caught("not_found") ? "not_found" : "";
  if (failed() || item === null || plan === null || response === null) return;
  c.json(new Obj().string("text", item.text).int("revision", item.revision).string("digest", digest).string("plan", String.UTF8.decode(plan.data))
    .string("type", plan.mediaType).int("status", response.status).string("body", response.text()).string("code", last).toJson());
});

tool("carry", "Writes an artifact and reads it.", ANY, (c: Call): void => {
  const beside = c.has("bytes") && c.bool("bytes"), data = new Uint8Array(<i32>c.int("size"));
  for (let i = 0; i < data.length; i++) data[i] = <u8>i;
  const digest = beside ? writeArtifactBytes("load", "", data.buffer) : writeArtifact("load", "", data.buffer);
  const file = beside ? readArtifactBytes("load") : readArtifact("load");
  if (digest === null || file === null) return;
  const read = Uint8Array.wrap(file.data);
  let right = 0;
  for (let i = 0; i < read.length; i++) right += read[i] == <u8>i ? 1 : 0;
  c.json(new Obj().int("right", right).int("size", read.length).toJson());
});

tool("log", "Writes to the log.", ANY, (c: Call): void => {
  log(Level.Warn, "late", new Obj().int("order", 1042).string("who", "Ann").string("note", 'say "hi"').string("empty", "")
    .string("eq", "a=b").string("path", "a\\b").bool("paid", true).float("days", 2.5));
});

tool("answer", "Answers with its arguments, as a result.", ANY, (c: Call): void => {
  const asked = c.argument("interrupt"), content = c.argument("content");
  if (asked !== null) {
    c.interrupt(asked.get("reason")!.string()!, asked.get("data"));
    return;
  }
  if (content !== null) c.json(content);
  const state = c.argument("state"), artifacts = c.argument("artifacts"), agents = c.argument("schedule");
  if (state !== null) for (let i = 0, list = state.items(); i < list.length; i++) c.patch(list[i]);
  const media = c.argument("media");
  if (media !== null) for (let i = 0, list = media.items(); i < list.length; i++) c.media(list[i]);
  if (artifacts !== null) for (let i = 0, list = artifacts.items(); i < list.length; i++) c.artifact(list[i]);
  if (agents !== null) for (let i = 0, list = agents.items(); i < list.length; i++) c.schedule(list[i].string()!);
});

tool("fail", "Fails with its arguments.", ANY, (c: Call): void => {
  const hint = c.argument("hint");
  const code = c.string("code"), message = c.string("message");
  fail(code, message, hint === null ? null : hint.string(), c.has("retryable") && c.bool("retryable"));
});

function processed(v: View): Obj {
  return new Obj().string("processor", v.processor).json("config", v.config).json("scope", scope(v.scope)).string("model", v.model);
}

processor("vector", (v: View): void => {
  const o = processed(v).list("messages", v.messages);
  if (v.ownFrom >= 0) o.int("own_from", v.ownFrom);
  v.report(o.toJson());
});
outlineProcessor("outline", (v: View): void => { v.report(processed(v).json("outline", outline(v.outline)).toJson()); });
processor("again", (v: View): void => { v.setMessages(v.messages); });

router("vector", (r: Route): void => {
  const agents: Json[] = [], last = r.last, columns = r.outline;
  for (let i = 0; i < r.agents.length; i++) agents.push(new Obj().string("name", r.agents[i].name).string("description", r.agents[i].description).toJson());
  const o = new Obj().json("config", r.config).json("scope", scope(r.scope)).json("input", r.input).int("call_count", r.callCount);
  o.strings("stack", r.stack).list("agents", agents).json("state", r.state);
  if (last !== null) {
    const messages = last.messages, results = last.toolResults, inner = new Obj().string("agent", last.agent);
    if (messages !== null) inner.list("messages", messages);
    if (results !== null) inner.list("tool_results", results);
    o.json("last", inner.string("finish_reason", last.finishReason).toJson());
  }
  if (columns !== null) o.json("outline", outline(columns));
  r.reason(o.toJson().toString());
});

provider("vector", (p: Provide): void => {
  p.instruct(new Obj().json("config", p.config).json("scope", scope(p.scope)).list("messages", p.messages).toJson().toString());
}, (o: Observe): void => {
  const message = o.message;
  log(Level.Info, message === null ? "the run has ended" : message);
});
