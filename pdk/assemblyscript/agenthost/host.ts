// What the host does for a plugin: pdk/ABI.md, section 15. All of it waits.

import { Items, Json, Kind, Obj, Writer, array } from "./json";
import { fail, failed } from "./errors";

// @ts-ignore: decorator
@external("agenthost_v1", "input_read") declare function input_read(to: usize, offset: u32, len: u32): u32;
// @ts-ignore: decorator
@external("agenthost_v1", "output_write") declare function output_write(from: usize, len: u32): void;
// @ts-ignore: decorator
@external("agenthost_v1", "host_call") declare function host_call(op: usize, opLen: u32, request: usize, requestLen: u32): u64;
// @ts-ignore: decorator
@external("agenthost_v1", "host_call_bytes") declare function host_call_bytes(op: usize, opLen: u32, request: usize, requestLen: u32, data: usize, dataLen: u32): u64;
// @ts-ignore: decorator
@external("agenthost_v1", "host_read") declare function host_read(to: usize, offset: u32, len: u32): u32;
// @ts-ignore: decorator
@external("agenthost_v1", "log") declare function log_write(level: u32, from: usize, len: u32): void;
// @ts-ignore: decorator
@external("wasi_snapshot_preview1", "fd_write") declare function fd_write(file: u32, buffers: usize, count: u32, written: usize): u32;

export function readInput(len: u32): ArrayBuffer {
  const bytes = new ArrayBuffer(len);
  for (let n: u32 = 0; n < len;) {
    const got = input_read(changetype<usize>(bytes) + n, n, len - n);
    if (got == 0) break;
    n += got;
  }
  return bytes;
}

export function writeOutput(value: Json): void { output_write(value.start, value.size); }

export enum Level { Debug, Info, Warn, Error }

// Writes a line to the plugin's log, with attributes behind the text:
// log(Level.Info, "sent", new Obj().int("order", 42)) writes "sent order=42".
export function log(level: Level, text: string, attributes: Obj | null = null): void {
  const line = new Writer().text(text);
  if (attributes !== null) {
    for (const i = new Items(attributes.toJson()); i.next();) {
      plain(line.text(" "), i.name);
      plain(line.text("="), i.value);
    }
  }
  const all = line.toJson();
  log_write(level, all.start, all.size);
}

// plain writes a string without its quotes where a reader can tell where it ends, and any other
// value as it stands.
function plain(line: Writer, v: Json): void {
  let clear = v.kind == Kind.String && v.size > 2;
  for (let p = v.start + 1; clear && p < v.end - 1; p++) {
    const b = load<u8>(p);
    clear = b > 0x20 && b != 0x5c && b != 0x3d && b != 0x7f;
  }
  line.raw(v.start + (clear ? 1 : 0), v.size - (clear ? 2 : 0));
}

const words = memory.data(512), buffers = memory.data(12);

// What the compiler has called where a program cannot go on. It takes no memory, which may be
// what is missing. Its message is the call's error, with the line in the source.
export function abort(message: string | null, file: string | null, line: u32, column: u32): void {
  let n = say(0, "panic: ");
  if (message !== null) n = say(n, message);
  if (file !== null) {
    n = number(say(say(say(n, " ("), file), ":"), line);
    n = say(number(say(n, ":"), column), ")");
  }
  n = say(n, "\n");
  store<u32>(buffers, <u32>words);
  store<u32>(buffers + 4, n);
  fd_write(2, buffers, 1, buffers + 8);
  unreachable();
}

function say(n: u32, text: string): u32 {
  for (let i = 0; i < text.length && n < 500; i++) {
    const c = load<u16>(changetype<usize>(text) + (<usize>i << 1));
    store<u8>(words + n++, c < 0x80 ? <u8>c : 0x3f);
  }
  return n;
}

function number(n: u32, v: u32): u32 {
  let ten: u32 = 1;
  while (v / ten >= 10) ten *= 10;
  for (; ten > 0 && n < 500; ten /= 10) store<u8>(words + n++, <u8>(0x30 + v / ten % 10));
  return n;
}

// Runs a host operation by its name, and returns its response; null if it fails.
export function host(operation: string, request: Obj): Json | null {
  if (failed()) return null;
  const op = String.UTF8.encode(operation), json = request.toJson();
  return answerOf(operation, host_call(changetype<usize>(op), op.byteLength, json.start, json.size));
}

// What a host operation answers, with the bytes that stand behind it.
export class Answer {
  constructor(public json: Json, public bytes: ArrayBuffer) {}
}

// Runs a host operation with bytes beside its JSON, without base64: where the request has bytes it
// has the number of those in data, and field, unless it is empty, is where the response has a number
// of bytes. null if it fails. This and the other functions whose names end in Bytes import
// host_call_bytes: a host that lacks it refuses the plugin.
export function hostBytes(operation: string, request: Obj, data: ArrayBuffer | null = null, field: string = ""): Answer | null {
  if (failed()) return null;
  const op = String.UTF8.encode(operation), json = request.toJson(), size = data === null ? 0 : data.byteLength;
  const r = host_call_bytes(changetype<usize>(op), op.byteLength, json.start, json.size, changetype<usize>(data), size);
  const response = answerOf(operation, r);
  if (response === null) return null;
  return new Answer(response, readResponse(<u32>r, field == "" ? 0 : <u32>intOf(response, field)));
}

// Reads bytes of the last response, from an offset.
function readResponse(from: u32, len: u32): ArrayBuffer {
  const bytes = new ArrayBuffer(len);
  for (let n: u32 = 0; n < len;) {
    const got = host_read(changetype<usize>(bytes) + n, from + n, len - n);
    if (got == 0) break;
    n += got;
  }
  return bytes;
}

// Reads the response that the host announces; null if it is an error.
function answerOf(operation: string, r: u64): Json | null {
  const response = Json.ofBytes(readResponse(0, <u32>r));
  if (response === null) {
    fail("internal", "the host answers " + operation + " with what is no JSON");
    return null;
  }
  if (r >> 32 == 0) return response;
  const retryable = response.get("retryable");
  fail(stringOf(response, "code", "internal"), stringOf(response, "message", operation), stringOrNull(response, "hint"), retryable !== null && retryable.isTrue);
  return null;
}

function stringOrNull(object: Json, name: string): string | null {
  const v = object.get(name);
  return v === null ? null : v.string();
}

function stringOf(object: Json, name: string, absent: string): string {
  const v = stringOrNull(object, name);
  return v === null ? absent : v;
}

function member(response: Json | null, name: string): Json | null { return response === null ? null : response.get(name); }

function intOf(response: Json | null, name: string): i64 {
  const v = member(response, name);
  return v === null ? 0 : v.int();
}

function itemsOf(response: Json | null, name: string): Json[] {
  const v = member(response, name);
  return v === null ? [] : v.items();
}

function bytesOf(response: Json | null, name: string): ArrayBuffer | null {
  const v = member(response, name);
  if (v === null) return null;
  const text = v.string();
  return text === null ? null : fromBase64(text);
}

// What is kept under a key.
export class Item {
  constructor(public value: ArrayBuffer, public revision: i64) {}
  get text(): string { return String.UTF8.decode(this.value); }
}

// Keys and values of the plugin and the calling tenant.
export namespace kv {
  // What is kept under a key, with its revision; null with the error not_found if it is absent.
  export function item(key: string): Item | null {
    const r = host("kv.get", new Obj().string("key", key)), value = bytesOf(r, "value");
    return value === null ? null : new Item(value, intOf(r, "revision"));
  }

  // The bytes of a key; null with the error not_found if it is absent.
  export function get(key: string): ArrayBuffer | null { return bytesOf(host("kv.get", new Obj().string("key", key)), "value"); }

  // item without base64.
  export function itemBytes(key: string): Item | null {
    const a = hostBytes("kv.get", new Obj().string("key", key), null, "value");
    return a === null ? null : new Item(a.bytes, intOf(a.json, "revision"));
  }

  // The text of a key.
  export function text(key: string): string | null {
    const bytes = get(key);
    return bytes === null ? null : String.UTF8.decode(bytes);
  }

  // Returns the new revision. With a revision the key must be at it, 0: absent. With a time in
  // milliseconds it is gone after that.
  export function put(key: string, value: ArrayBuffer, revision: i64 = -1, ttl: i64 = 0): i64 {
    return intOf(host("kv.put", terms(new Obj().string("key", key).string("value", toBase64(value)), revision, ttl)), "revision");
  }

  // put without base64.
  export function putBytes(key: string, value: ArrayBuffer, revision: i64 = -1, ttl: i64 = 0): i64 {
    const a = hostBytes("kv.put", terms(new Obj().string("key", key).int("value", value.byteLength), revision, ttl), value);
    return a === null ? 0 : intOf(a.json, "revision");
  }

  function terms(o: Obj, revision: i64, ttl: i64): Obj {
    if (revision >= 0) o.int("revision", revision);
    if (ttl > 0) o.int("ttl_ms", ttl);
    return o;
  }

  export function putText(key: string, value: string, revision: i64 = -1, ttl: i64 = 0): i64 {
    return put(key, String.UTF8.encode(value, false, String.UTF8.ErrorMode.REPLACE), revision, ttl);
  }

  export function remove(key: string): void { host("kv.delete", new Obj().string("key", key)); }

  // Entries with a prefix, and where the next ones begin.
  export function list(prefix: string, after: string | null = null): Json | null { return host("kv.list", new Obj().string("prefix", prefix).string("after", after)); }
}

// The network's custom state at a JSON pointer, "" for all of it.
export function getState(path: string = ""): Json | null { return member(host("state.get", new Obj().string("path", path)), "value"); }

// Changes the state at once, by operations of RFC 6902; returns the new revision.
export function patchState(operations: Json[]): i64 { return intOf(host("state.patch", new Obj().list("patch", operations)), "revision"); }

// What one provider keeps in a thread.
export function getProviderState(): Json | null { return member(host("provider_state.get", new Obj()), "value"); }
export function putProviderState(value: Json): void { host("provider_state.put", new Obj().json("value", value)); }

export class Response {
  constructor(private answer: Json, private content: ArrayBuffer | null = null) {}
  get status(): i32 { return <i32>intOf(this.answer, "status"); }
  get ok(): bool { return this.status >= 200 && this.status < 300; }
  bytes(): ArrayBuffer | null { return this.content === null ? bytesOf(this.answer, "body") : this.content; }
  text(): string {
    const bytes = this.bytes();
    return bytes === null ? "" : String.UTF8.decode(bytes);
  }
  // The body as JSON; fails the call with unavailable if it is none.
  json(): Json | null {
    const v = Json.parse(this.text());
    if (v === null) fail("unavailable", "the answer is no JSON");
    return v;
  }
}

// A request to a server, which the operator must have granted.
export class Fetch {
  private headers: Json[] = [];
  private content: ArrayBuffer | null = null;
  constructor(private url: string, private method: string = "GET") {}

  header(name: string, value: string): this { this.headers.push(new Obj().string("name", name).string("value", value).toJson()); return this; }

  // A header that the host fills with a secret, which the plugin never sees.
  secret(name: string, prefix: string, secret: string): this {
    this.headers.push(new Obj().string("name", name).string("prefix", prefix).string("secret", secret).toJson());
    return this;
  }

  body(text: string): this { this.content = String.UTF8.encode(text, false, String.UTF8.ErrorMode.REPLACE); return this; }

  // Sends it. Any status is a response; null if there is none.
  send(): Response | null {
    const o = this.head(), body = this.content;
    if (body !== null) o.string("body", toBase64(body));
    const r = host("http.fetch", o);
    return r === null ? null : new Response(r);
  }

  // send without base64.
  sendBytes(): Response | null {
    const o = this.head(), body = this.content;
    if (body !== null) o.int("body", body.byteLength);
    const a = hostBytes("http.fetch", o, body, "body");
    return a === null ? null : new Response(a.json, a.bytes);
  }

  private head(): Obj { return new Obj().string("method", this.method).string("url", this.url).list("headers", this.headers); }
}

const PIECE = 192 << 10; // how much of an artifact one operation carries

// Makes an artifact of the session, in pieces, and returns its digest; null if it fails.
export function writeArtifact(name: string, mediaType: string, data: ArrayBuffer): string | null {
  let upload: string | null = null, from = 0;
  while (true) {
    const to = min(from + PIECE, data.byteLength), last = to == data.byteLength;
    const o = new Obj().string("name", name).string("media_type", mediaType).string("data", toBase64(data.slice(from, to)));
    const r = host("artifact.write", o.string("upload", upload).bool("last", last));
    if (r === null) return null;
    if (last) return stringOf(r, "digest", "");
    upload = stringOf(r, "upload", "");
    from = to;
  }
}

const BYTES_PIECE = 512 << 10;

// writeArtifact without base64.
export function writeArtifactBytes(name: string, mediaType: string, data: ArrayBuffer): string | null {
  let upload: string | null = null, from = 0;
  while (true) {
    const to = min(from + BYTES_PIECE, data.byteLength), last = to == data.byteLength;
    const o = new Obj().string("name", name).string("media_type", mediaType).int("data", to - from);
    const a = hostBytes("artifact.write", o.string("upload", upload).bool("last", last), data.slice(from, to));
    if (a === null) return null;
    if (last) return stringOf(a.json, "digest", "");
    upload = stringOf(a.json, "upload", "");
    from = to;
  }
}

// readArtifact without base64.
export function readArtifactBytes(name: string): Artifact | null {
  const first = hostBytes("artifact.read", new Obj().string("name", name).int("length", BYTES_PIECE), null, "data");
  if (first === null) return null;
  const size = <i32>intOf(first.json, "size"), digest = stringOf(first.json, "digest", ""), mediaType = stringOf(first.json, "media_type", "");
  if (first.bytes.byteLength == size) return new Artifact(first.bytes, mediaType);
  const data = new ArrayBuffer(size);
  let piece: Answer | null = first, n = 0;
  while (piece !== null && piece.bytes.byteLength > 0 && n + piece.bytes.byteLength <= size) {
    memory.copy(changetype<usize>(data) + n, changetype<usize>(piece.bytes), piece.bytes.byteLength);
    n += piece.bytes.byteLength;
    if (n == size) return new Artifact(data, mediaType);
    piece = hostBytes("artifact.read", new Obj().string("digest", digest).int("offset", n).int("length", BYTES_PIECE), null, "data");
  }
  fail("data_loss", "artifact " + name + " ends early");
  return null;
}

export class Artifact {
  constructor(public data: ArrayBuffer, public mediaType: string) {}
}

// Reads an artifact of the session by its name; null if it fails.
export function readArtifact(name: string): Artifact | null {
  const r = host("artifact.read", new Obj().string("name", name));
  if (r === null) return null;
  const data = new ArrayBuffer(<i32>intOf(r, "size")), digest = stringOf(r, "digest", "");
  let piece = bytesOf(r, "data"), n = 0;
  while (piece !== null && piece.byteLength > 0 && n + piece.byteLength <= data.byteLength) {
    memory.copy(changetype<usize>(data) + n, changetype<usize>(piece), piece.byteLength);
    n += piece.byteLength;
    if (n == data.byteLength) break;
    piece = bytesOf(host("artifact.read", new Obj().string("digest", digest).int("offset", n)), "data");
  }
  if (n < data.byteLength) {
    fail("data_loss", "artifact " + name + " ends early");
    return null;
  }
  return new Artifact(data, stringOf(r, "media_type", ""));
}

// Sends an event to the run's stream while the call runs.
export function emit(kind: string, data: Json): void { host("emit", new Obj().string("kind", kind).json("data", data)); }
export function progress(message: string): void { emit("progress", new Obj().string("message", message).toJson()); }

// Messages of the view that an outline describes.
export function getMessages(indices: i32[]): Json[] {
  const list: Json[] = [];
  for (let i = 0; i < indices.length; i++) list.push(new Writer().text(indices[i].toString()).toJson());
  return itemsOf(host("messages.get", new Obj().json("indices", array(list))), "messages");
}

// Asks a model, and returns its answer as a message.
export function generate(instructions: string, question: string): Json | null {
  const part = new Obj().string("type", "text").string("text", question).toJson();
  const message = new Obj().string("role", "user").list("parts", [part]).toJson();
  return member(host("model.generate", new Obj().string("instructions", instructions).list("messages", [message])), "message");
}

// A call of another tool, by the name under which the agent has it.
export class ToolCall {
  constructor(public name: string, public args: Json | null = null) {}
}

// What another tool answered. If it failed, a person denied the call or there is no such tool, it
// has a code, and content is the sentence that a model would read.
export class ToolAnswer {
  code: string | null = null;
  constructor(public content: Json, public media: Json[]) {}

  get failed(): bool { return this.code !== null; }

  // The content of a result; null if the call failed, whose error is then this call's own.
  result(): Json | null {
    const code = this.code, sentence = this.content.string();
    if (code === null) return this.content;
    fail(code, sentence === null ? this.content.toString() : sentence);
    return null;
  }
}

// Calls other tools of the agent at work, in a tool, at the same time, and returns their answers
// in the order of the calls. It needs the permission `{"tools": ["NAME"]}`. If one of them asks a
// person, the host ends this call and makes it again, from its beginning, when there is an answer:
// it must make the same calls then. null, with the error permission_denied and the like, says that
// no tool was called.
export function callTools(calls: ToolCall[]): ToolAnswer[] | null {
  const list: Json[] = [];
  for (let i = 0; i < calls.length; i++) list.push(new Obj().string("name", calls[i].name).json("arguments", calls[i].args).toJson());
  const results = itemsOf(host("tool.call", new Obj().list("calls", list)), "results");
  if (failed()) return null;
  const answers: ToolAnswer[] = [];
  for (let i = 0; i < results.length; i++) {
    const r = results[i], content = r.get("content");
    const answer = new ToolAnswer(content === null ? Json.null() : content, itemsOf(r, "media"));
    if (stringOf(r, "kind", "") != "result") answer.code = stringOf(r, "code", "internal");
    answers.push(answer);
  }
  if (answers.length == calls.length) return answers;
  fail("internal", "the host answers " + calls.length.toString() + " calls of tools with " + answers.length.toString() + " results");
  return null;
}

// Calls one tool as callTools does, and returns the content of its result; null if it fails.
export function callTool(name: string, args: Json | null = null): Json | null {
  const answers = callTools([new ToolCall(name, args)]);
  return answers === null ? null : answers[0].result();
}

// Leaves work for after the turn: the tool handler is called with the payload.
export function send(handler: string, payload: Json): void { host("queue.send", new Obj().string("handler", handler).json("payload", payload)); }

// Does part of a tool's work once in a run: beginStep returns what the step left, null if it is
// to be done now; endStep then keeps what it left.
export function beginStep(name: string): Json | null {
  const r = host("step.begin", new Obj().string("name", name)), done = member(r, "done");
  return done !== null && done.isTrue ? member(r, "result") : null;
}
export function endStep(name: string, result: Json): void { host("step.end", new Obj().string("name", name).json("result", result)); }

// The letters of base64, and the digit of each.
const LETTERS = memory.data<u8>([
  65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90,
  97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121, 122,
  48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 43, 47]);

function digitOf(c: i32): i32 {
  if (c >= 65 && c <= 90) return c - 65;
  if (c >= 97 && c <= 122) return c - 71;
  if (c >= 48 && c <= 57) return c + 4;
  return c == 43 ? 62 : c == 47 ? 63 : -1;
}

export function toBase64(bytes: ArrayBuffer): string {
  const p = changetype<usize>(bytes), n = bytes.byteLength;
  const text = new ArrayBuffer((n + 2) / 3 * 4), out = changetype<usize>(text);
  for (let i = 0, to = out; i < n; i += 3, to += 4) {
    let v = <i32>load<u8>(p + i) << 16;
    if (i + 1 < n) v |= <i32>load<u8>(p + i + 1) << 8;
    if (i + 2 < n) v |= <i32>load<u8>(p + i + 2);
    for (let k = 0; k < 4; k++) store<u8>(to + k, i + k <= n ? load<u8>(LETTERS + (v >> (18 - 6 * k) & 63)) : 61);
  }
  return String.UTF8.decodeUnsafe(out, text.byteLength);
}

// Returns the bytes of base64; fails the call if it is none.
export function fromBase64(text: string): ArrayBuffer | null {
  const n = text.length, padding = text.endsWith("==") ? 2 : text.endsWith("=") ? 1 : 0;
  const bytes = new ArrayBuffer(n / 4 * 3 - (n >= 4 ? padding : 0)), p = changetype<usize>(bytes);
  let bits: i32 = 0, at: i32 = 0;
  for (let i = 0; i < n; i++) {
    const d = i >= n - padding ? 0 : digitOf(text.charCodeAt(i));
    if (d < 0 || n % 4 != 0) {
      fail("invalid_argument", "a value is not base64");
      return null;
    }
    bits = bits << 6 | d;
    if (i % 4 != 3) continue;
    for (let k = 16; k >= 0 && at < bytes.byteLength; k -= 8) store<u8>(p + at++, <u8>(bits >> k));
    bits = 0;
  }
  return bytes;
}
