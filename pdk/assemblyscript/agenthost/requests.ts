// What the host asks, and what a plugin answers.

import { Items, Json, Kind, Obj, array, mapStrings, strings } from "./json";
import { fail, failed } from "./errors";

function wrong(name: string, noun: string): void { fail("invalid_argument", name + " is no " + noun); }

function textOrNull(v: Json | null, name: string): string | null {
  if (v === null) return null;
  const text = v.string();
  if (text === null) wrong(name, "string");
  return text;
}

function textThere(v: Json | null, name: string): string {
  const text = textOrNull(v, name);
  if (text !== null) return text;
  wrong(name, "string");
  return "";
}

export function nameThere(v: Json | null, name: string): string {
  const text = textThere(v, name);
  if (text == "") wrong(name, "name");
  return text;
}

function whole(v: Json | null, name: string, least: i64): i64 {
  if (v !== null && v.isInt) {
    const n = v.int();
    if (n >= least && n <= 9007199254740991) return n;
  }
  wrong(name, "integer");
  return least;
}

function ofKind(v: Json | null, kind: Kind, name: string, noun: string): void { if (v !== null && v.kind != kind) wrong(name, noun); }

function listThere(v: Json | null, name: string): Json[] {
  if (v !== null && v.kind == Kind.Array) return v.items();
  wrong(name, "array");
  return [];
}

// pick finds members in one pass; doubled has those that are there twice.
const doubled = new StaticArray<bool>(16);

function pick(object: Json, names: StaticArray<string>): StaticArray<Json | null> {
  const found = new StaticArray<Json | null>(names.length);
  doubled.fill(false);
  if (object.kind != Kind.Object) return found;
  for (const i = new Items(object); i.next();) {
    for (let n = 0; n < names.length; n++) {
      if (!i.is(names[n])) continue;
      doubled[n] = found[n] !== null;
      found[n] = i.value;
    }
  }
  return found;
}

const MESSAGE: StaticArray<string> = ["id", "role", "agent", "parts", "created_at", "metadata"];
const PART: StaticArray<string> = ["type", "text", "signature", "id", "name", "arguments", "content", "is_error", "media", "media_type", "url", "data", "value"];

function checkPart(p: Json, inner: bool): void {
  if (p.kind != Kind.Object) wrong("a part", "object");
  const v = pick(p, PART);
  let twice: u32 = 0, has: u32 = 1;
  for (let i = 0; i < PART.length; i++) if (doubled[i]) twice |= 1 << i;
  const type = nameThere(v[0], "the type of a part");
  if (inner && type != "media") wrong("media", "list of media");
  if (type == "text") {
    has |= 1 << 1;
    textThere(v[1], "text");
  } else if (type == "reasoning") {
    has |= 1 << 1 | 1 << 2;
    textThere(v[1], "text");
    textOrNull(v[2], "signature");
  } else if (type == "tool_call" || type == "tool_result") {
    has |= 1 << 3 | 1 << 4;
    nameThere(v[3], "id");
    nameThere(v[4], "name");
    if (type == "tool_call") {
      has |= 1 << 5;
    } else {
      has |= 1 << 6 | 1 << 7 | 1 << 8;
      ofKind(v[7], Kind.Bool, "is_error", "boolean");
      const media = v[8];
      if (media !== null) {
        const list = listThere(media, "media"); // of media, which have no media: this ends
        for (let i = 0; i < list.length && !failed(); i++) checkPart(list[i], true);
      }
    }
  } else if (type == "media") {
    has |= 1 << 9 | 1 << 10 | 1 << 11;
    textThere(v[9], "media_type");
    textOrNull(v[10], "url");
    textOrNull(v[11], "data");
  } else if (type == "data") {
    has |= 1 << 12;
  }
  if (twice & has) fail("invalid_argument", "a part has a field twice");
}

function checkMessage(m: Json): void {
  if (m.kind != Kind.Object) wrong("a message", "object");
  const v = pick(m, MESSAGE);
  for (let i = 0; i < MESSAGE.length; i++) if (doubled[i]) fail("invalid_argument", "a message has a field twice");
  const role = textThere(v[1], "the role of a message");
  if (role != "system" && role != "user" && role != "assistant" && role != "tool") wrong("the role of a message", "known one");
  textOrNull(v[0], "the id of a message");
  textOrNull(v[2], "the agent of a message");
  textOrNull(v[4], "created_at");
  const metadata = v[5], parts = v[3];
  if (metadata !== null && !metadata.isNull) ofKind(metadata, Kind.Object, "metadata", "object");
  if (parts === null) return;
  const list = listThere(parts, "the parts of a message");
  for (let i = 0; i < list.length && !failed(); i++) checkPart(list[i], false);
}

function messagesThere(v: Json | null, name: string): Json[] {
  const list = listThere(v, name);
  for (let i = 0; i < list.length && !failed(); i++) checkMessage(list[i]);
  return list;
}

// The texts of a message's text parts, one after the other.
export function textOf(message: Json): string {
  let out = "";
  const parts = message.get("parts");
  if (parts === null) return out;
  const list = parts.items();
  for (let i = 0; i < list.length; i++) {
    const type = list[i].get("type"), text = list[i].get("text");
    if (type !== null && type.string() == "text" && text !== null) out += text.string()!;
  }
  return out;
}

// For whom a call is made. What does not apply is null.
export class Scope {
  tenant: string | null = null;
  thread: string | null = null;
  run: string | null = null;
  network: string | null = null;
  agent: string | null = null;

  constructor(v: Json | null) {
    if (v !== null) {
      ofKind(v, Kind.Object, "scope", "object");
      this.tenant = textOrNull(v.get("tenant"), "scope.tenant");
      this.thread = textOrNull(v.get("thread"), "scope.thread");
      this.run = textOrNull(v.get("run"), "scope.run");
      this.network = textOrNull(v.get("network"), "scope.network");
      this.agent = textOrNull(v.get("agent"), "scope.agent");
    }
  }
}

const CALL: StaticArray<string> = ["tool", "arguments", "call_id", "idempotency_key", "attempt", "provider", "scope", "state", "state_revision", "config", "resumed"];

// A call of a tool.
export class Call {
  tool: string;
  arguments: Json | null;
  callId: string | null;
  idempotencyKey: string | null; // the same whenever this very call is made again
  attempt: i64 = 0; // from 1, 0: not said; above 1 an earlier attempt may have taken effect
  provider: string | null; // that contributed the tool, if one did
  scope: Scope;
  state: Json | null; // the network's, with the permission state
  stateRevision: i64 = 0;
  config: Json | null;
  resumed: Json[] | null = null; // a person's answers to this call's interrupts
  answer: Json | null = null; // the last of them

  private content: Json | null = null;
  private asked: Json | null = null;
  private patches: Json[] = [];
  private shown: Json[] = [];
  private artifacts: Json[] = [];
  private agents: string[] = [];

  constructor(r: Json) {
    const v = pick(r, CALL);
    this.tool = nameThere(v[0], "tool");
    this.arguments = v[1];
    this.callId = textOrNull(v[2], "call_id");
    this.idempotencyKey = textOrNull(v[3], "idempotency_key");
    if (v[4] !== null) this.attempt = whole(v[4], "attempt", 1);
    this.provider = textOrNull(v[5], "provider");
    this.scope = new Scope(v[6]);
    this.state = v[7];
    ofKind(v[7], Kind.Object, "state", "object");
    if (v[8] !== null) this.stateRevision = whole(v[8], "state_revision", 0);
    this.config = v[9];
    if (v[10] !== null) this.resume(listThere(v[10], "resumed"));
  }

  private resume(list: Json[]): void {
    for (let i = 0; i < list.length; i++) {
      ofKind(list[i], Kind.Object, "an answer", "object");
      nameThere(list[i].get("interrupt_id"), "interrupt_id");
      this.answer = list[i].get("answer");
    }
    this.resumed = list;
  }

  // An argument, null if it is absent or null.
  argument(name: string): Json | null {
    const all = this.arguments;
    if (all === null) return null;
    const v = all.get(name);
    return v === null || v.isNull ? null : v;
  }

  has(name: string): bool { return this.argument(name) !== null; }

  // Each of these reads an argument that must be there and of that type, or fails the call.

  string(name: string): string { return textThere(this.argument(name), name); }

  int(name: string): i64 {
    const v = this.argument(name);
    if (v === null || !v.isInt) wrong(name, "integer of 64 bits");
    return v === null ? 0 : v.int();
  }

  float(name: string): f64 {
    const v = this.argument(name);
    if (v === null || v.kind != Kind.Number) wrong(name, "number");
    return v === null ? 0 : v.float();
  }

  bool(name: string): bool {
    const v = this.argument(name);
    if (v === null || v.kind != Kind.Bool) wrong(name, "boolean");
    return v !== null && v.isTrue;
  }

  // Say what the model reads. Without one it is null.
  text(text: string): void { this.content = strings([text]).items()[0]; }
  json(value: Json): void { this.content = value; }

  // Adds an operation of RFC 6902 on the network's state, applied after the call.
  patch(operation: Json): void { this.patches.push(operation); }

  // Adds a media part to the result, for models and clients that take it.
  media(part: Json): void { this.shown.push(part); }

  // Adds an artifact: name, parts and metadata.
  artifact(artifact: Json): void { this.artifacts.push(artifact); }

  // Has an agent of the network run next.
  schedule(agent: string): void { this.agents.push(agent); }

  // Asks a person. The tool is called again with the answer as call.answer.
  interrupt(reason: string, data: Json | null = null): void { this.asked = new Obj().string("reason", reason).json("data", data).toJson(); }

  toJson(): Json {
    const asked = this.asked, content = this.content, o = new Obj();
    if (asked !== null) return o.json("interrupt", asked).toJson();
    o.json("content", content === null ? Json.null() : content);
    if (this.patches.length > 0) o.list("state", this.patches);
    if (this.shown.length > 0) o.list("media", this.shown);
    if (this.artifacts.length > 0) o.list("artifacts", this.artifacts);
    if (this.agents.length > 0) o.strings("schedule", this.agents);
    return o.toJson();
  }
}

// A tool's call or result in an outline.
export class Row {
  constructor(public message: i32, public part: i32, public isResult: bool, public id: string, public name: string) {}
}

const OUTLINE: StaticArray<string> = ["count", "roles", "bytes", "chars", "tokens", "encoding", "parts", "keep", "own_from", "tools"];

// A conversation without its content: one entry a message in every column. The kit has checked
// it, so that any index in it may be used without a look. An outline with a number above
// 2147483647 is refused with code resource_exhausted.
export class Outline {
  count: i32;
  roles: string; // one letter a message: s system, u user, a assistant, t tool
  bytes: i32[] = [];
  chars: i32[] = [];
  tokens: i32[] | null = null;
  encoding: string | null;
  parts: i32[] = [];
  keep: i32[] | null = null; // messages that may be edited but not dropped
  ownFrom: i32 = -1; // where the agent's own rounds begin; -1: not said
  tools: Row[] = [];

  constructor(o: Json) {
    ofKind(o, Kind.Object, "outline", "object");
    const v = pick(o, OUTLINE);
    this.count = <i32>min<i64>(whole(v[0], "outline.count", 0), i32.MAX_VALUE - 1);
    this.roles = textThere(v[1], "outline.roles");
    if (this.roles.length != this.count) wrong("outline.roles", "letter for each message");
    for (let i = 0; i < this.roles.length; i++) if (!"suat".includes(this.roles.charAt(i))) wrong("a letter of outline.roles", "s, u, a or t");
    this.bytes = this.column(v[2], "outline.bytes");
    this.chars = this.column(v[3], "outline.chars");
    this.parts = this.column(v[6], "outline.parts");
    if (v[4] !== null) this.tokens = this.column(v[4], "outline.tokens");
    this.encoding = textOrNull(v[5], "outline.encoding");
    if (v[7] !== null) {
      const keep = numbers(v[7], "outline.keep");
      for (let i = 0; i < keep.length; i++) if (keep[i] >= this.count) wrong("an entry of outline.keep", "message");
      this.keep = keep;
    }
    if (v[8] !== null) {
      const own = whole(v[8], "outline.own_from", 0);
      if (own > this.count) wrong("outline.own_from", "message");
      this.ownFrom = <i32>own;
    }
    const rows = listThere(v[9], "outline.tools");
    for (let i = 0; i < rows.length && !failed(); i++) this.row(rows[i]);
  }

  private column(v: Json | null, name: string): i32[] {
    const list = numbers(v, name);
    if (list.length != this.count) wrong(name, "entry for each message");
    return list;
  }

  private row(v: Json): void {
    const cells = listThere(v, "a row of outline.tools");
    if (cells.length < 5) wrong("a row of outline.tools", "row of five");
    if (failed()) return;
    const message = whole(cells[0], "the message of a row", 0), part = whole(cells[1], "the part of a row", 0), kind = cells[2].string();
    if (kind === null || (kind != "call" && kind != "result")) wrong("a row of outline.tools", "call or result");
    if (failed() || message >= this.count || part >= this.parts[<i32>message]) {
      wrong("a row of outline.tools", "row of a part that is there");
      return;
    }
    const n = this.tools.length;
    if (n > 0 && (this.tools[n - 1].message > message || (this.tools[n - 1].message == message && this.tools[n - 1].part >= part))) wrong("outline.tools", "list in order");
    this.tools.push(new Row(<i32>message, <i32>part, kind == "result", textThere(cells[3], "the id of a row"), textThere(cells[4], "the name of a row")));
  }
}

function numbers(v: Json | null, name: string): i32[] {
  const list: i32[] = [];
  if (v === null || v.kind != Kind.Array) {
    wrong(name, "array");
    return list;
  }
  for (const i = new Items(v); i.next() && !failed();) {
    const n = whole(i.value, name, 0);
    if (n > i32.MAX_VALUE) fail("resource_exhausted", name + " has a number above 2147483647, the largest of an i32");
    list.push(<i32>n);
  }
  return list;
}

const PROCESS: StaticArray<string> = ["processor", "config", "scope", "model", "messages", "own_from", "outline"];

// What a processor is given, and the edits that it makes. All indices are those of the view
// that it was given.
export class View {
  processor: string;
  config: Json | null;
  scope: Scope;
  model: string; // that the view is for
  messages: Json[] = []; // none for a processor that reads an outline
  ownFrom: i32 = -1; // where the agent's own rounds begin; -1: not said
  private columns: Outline | null = null;
  private edits: Json[] = [];
  private replaced: Json[] | null = null;
  private said: Json | null = null;

  constructor(r: Json, outline: bool) {
    const v = pick(r, PROCESS);
    this.processor = nameThere(v[0], "processor");
    this.config = v[1];
    this.scope = new Scope(v[2]);
    this.model = textThere(v[3], "model");
    const list = v[4], own = v[5], columns = v[6];
    if ((list === null) == (columns === null)) wrong("the conversation", "one of messages and outline");
    else if (outline != (columns !== null)) wrong("the conversation", outline ? "outline, which this processor reads" : "list of messages, which this processor reads");
    if (!failed() && columns !== null) {
      const o = new Outline(columns);
      this.columns = o;
      this.ownFrom = o.ownFrom;
    } else if (!failed()) {
      this.messages = messagesThere(list, "messages");
      if (own !== null) {
        const at = whole(own, "own_from", 0);
        if (at > this.messages.length) wrong("own_from", "message");
        this.ownFrom = <i32>at;
      }
    }
  }

  // Of a processor that reads one.
  get outline(): Outline { return this.columns!; }

  drop(from: i32, to: i32 = -1): void { this.edit("drop", from, to < 0 ? from + 1 : to); }
  dropPart(message: i32, part: i32): void { this.edit("drop_part", message, part); }
  insert(at: i32, message: Json): void { this.put("insert", at, message); }
  replace(at: i32, message: Json): void { this.put("replace", at, message); }

  private edit(kind: string, a: i32, b: i32): void { this.edits.push(new Obj().json(kind, Json.parse("[" + a.toString() + "," + b.toString() + "]")).toJson()); }
  private put(kind: string, at: i32, message: Json): void { this.edits.push(new Obj().json(kind, new Obj().int("at", at).json("message", message).toJson()).toJson()); }

  // Replaces text by what f returns for it wherever it stands: in text, reasoning, arguments,
  // content and values. A message in which nothing changes is left alone.
  mapText(f: (text: string) => string): void {
    for (let n = 0; n < this.messages.length; n++) {
      let changed = false;
      const out = new Obj();
      for (const m = new Items(this.messages[n]); m.next();) {
        const name = m.key;
        if (name != "parts") {
          out.json(name, m.value);
          continue;
        }
        const parts: Json[] = [], list = m.value.items();
        for (let i = 0; i < list.length; i++) {
          const part = new Obj();
          for (const p = new Items(list[i]); p.next();) {
            const field = p.key, was = p.value;
            const is = field == "text" || field == "arguments" || field == "content" || field == "value" ? mapStrings(was, f) : was;
            if (is != was) changed = true;
            part.json(field, is);
          }
          parts.push(part.toJson());
        }
        out.list(name, parts);
      }
      if (changed) this.replace(n, out.toJson());
    }
  }

  // Makes messages the whole new view. It goes with no edits.
  setMessages(messages: Json[]): void { this.replaced = messages; }

  // Says what is shown on the run.
  report(report: Json): void { this.said = report; }

  toJson(): Json {
    const o = new Obj(), replaced = this.replaced;
    if (replaced !== null && this.edits.length > 0) fail("internal", "the processor makes a view and edits: do one of both");
    if (replaced !== null) o.list("messages", replaced);
    if (this.edits.length > 0) o.list("edits", this.edits);
    return o.json("report", this.said).toJson();
  }
}

export class Agent {
  constructor(public name: string, public description: string | null) {}
}

// What the last agent of a run did.
export class Last {
  agent: string;
  messages: Json[] | null = null;
  toolResults: Json[] | null = null;
  finishReason: string | null;

  constructor(v: Json) {
    ofKind(v, Kind.Object, "last", "object");
    this.agent = textThere(v.get("agent"), "last.agent");
    this.finishReason = textOrNull(v.get("finish_reason"), "last.finish_reason");
    const messages = v.get("messages"), results = v.get("tool_results");
    if (messages !== null) this.messages = messagesThere(messages, "last.messages");
    if (results !== null) {
      const list = listThere(results, "last.tool_results");
      for (let i = 0; i < list.length && !failed(); i++) checkPart(list[i], false);
      this.toolResults = list;
    }
  }
}

const ROUTE: StaticArray<string> = ["router", "config", "scope", "input", "call_count", "stack", "agents", "state", "last", "outline"];

// What a router is asked, and what it answers. By default no agent runs next.
export class Route {
  router: string;
  config: Json | null;
  scope: Scope;
  input: Json | null; // the message of this turn
  callCount: i32; // agent runs so far in this run
  stack: string[] = []; // agents that wait to run
  agents: Agent[] = [];
  state: Json | null;
  last: Last | null = null; // null before the first agent
  outline: Outline | null = null; // with the permission messages
  private names: string[] = [];
  private router2: string | null = null;
  private why: string | null = null;

  constructor(r: Json) {
    const v = pick(r, ROUTE);
    this.router = nameThere(v[0], "router");
    this.config = v[1];
    this.scope = new Scope(v[2]);
    const input = v[3], last = v[8], columns = v[9];
    this.input = input;
    if (input !== null) checkMessage(input);
    this.callCount = <i32>whole(v[4], "call_count", 0);
    const stack = listThere(v[5], "stack"), agents = listThere(v[6], "agents");
    for (let i = 0; i < stack.length; i++) this.stack.push(textThere(stack[i], "an agent of stack"));
    for (let i = 0; i < agents.length; i++) {
      ofKind(agents[i], Kind.Object, "an agent", "object");
      this.agents.push(new Agent(textThere(agents[i].get("name"), "the name of an agent"), textOrNull(agents[i].get("description"), "a description")));
    }
    this.state = v[7];
    ofKind(v[7], Kind.Object, "state", "object");
    if (last !== null) this.last = new Last(last);
    if (columns !== null) this.outline = new Outline(columns);
  }

  // Has an agent run; several calls name several, in order.
  next(agent: string): void { this.names.push(agent); }

  // Lets a model router decide; "default" is the network's own.
  delegate(router: string): void { this.router2 = router; }

  // Says why, in a sentence that is shown on the run.
  reason(text: string): void { this.why = text; }

  toJson(): Json {
    const o = new Obj();
    if (this.names.length > 0) o.strings("next", this.names);
    return o.string("delegate", this.router2).string("reason", this.why).toJson();
  }
}

const PROVIDE: StaticArray<string> = ["provider", "config", "scope", "messages", "responses", "error"];

// What a provider is asked, and what it adds before an agent runs.
export class Provide {
  provider: string;
  config: Json | null;
  scope: Scope;
  messages: Json[];
  private told: string | null = null;
  private added: Json[] = [];
  private kept: bool = false;
  private offered: string[] = [];

  constructor(r: Json) {
    const v = pick(r, PROVIDE);
    this.provider = nameThere(v[0], "provider");
    this.config = v[1];
    this.scope = new Scope(v[2]);
    this.messages = messagesThere(v[3], "messages");
  }

  instruct(text: string): void { this.told = text; }
  add(message: Json): void { this.added.push(message); }
  offer(tool: string): void { this.offered.push(tool); }

  // Has the added messages stored with the answer.
  store(): void { this.kept = true; }

  toJson(): Json {
    const o = new Obj().string("instructions", this.told);
    if (this.added.length > 0) o.json("messages", array(this.added));
    if (this.kept) o.bool("store", true);
    if (this.offered.length > 0) o.strings("tools", this.offered);
    return o.toJson();
  }
}

// What an observer hears: what the agent said, or the error with which its run failed.
export class Observe {
  provider: string;
  config: Json | null;
  scope: Scope;
  messages: Json[];
  responses: Json[] | null = null;
  code: string | null = null;
  message: string | null = null;

  constructor(r: Json) {
    const v = pick(r, PROVIDE);
    this.provider = nameThere(v[0], "provider");
    this.config = v[1];
    this.scope = new Scope(v[2]);
    this.messages = messagesThere(v[3], "messages");
    const responses = v[4], error = v[5];
    if ((responses === null) == (error === null)) wrong("what came of it", "one of responses and error");
    if (responses !== null) this.responses = messagesThere(responses, "responses");
    if (error !== null) {
      ofKind(error, Kind.Object, "error", "object");
      this.code = nameThere(error.get("code"), "error.code");
      this.message = nameThere(error.get("message"), "error.message");
    }
  }
}
