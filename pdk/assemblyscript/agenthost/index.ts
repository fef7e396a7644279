// The kit for plugins in AssemblyScript. README.md beside it has a plugin in ten lines, and
// pdk/ABI.md of agenthost is the contract. Nothing of a request may be kept from one call to
// the next but in copies: what lasts goes through the host.

import { Json, Kind, Obj } from "./json";
import { fail, failed, takeFailure } from "./errors";
import { log, Level, readInput, writeOutput } from "./host";
import { Call, Observe, Provide, Route, View, nameThere } from "./requests";

export { Json, Items, Kind, Obj, Writer, array, strings, text } from "./json";
export { caught, fail, failed, Failure } from "./errors";
export * from "./host";
export { Agent, Call, Last, Observe, Outline, Provide, Route, Row, Scope, View, textOf } from "./requests";

// What a plugin registers, while it starts. JSON is text here.

class Spec {
  result: string | null = null;
  annotations: Obj = new Obj();
  tokens: string | null = null;
  config: string | null = null;
  constructor(public name: string, public description: string | null, public parameters: string | null, public outline: bool) {}
}

export class Tool extends Spec {
  constructor(name: string, description: string, parameters: string, public run: (call: Call) => void) { super(name, description, parameters, false); }

  // It changes nothing.
  readOnly(): this { this.annotations.bool("read_only", true); return this; }
  // It may change or remove what is there, and not only add to it.
  destructive(): this { this.annotations.bool("destructive", true); return this; }
  // Two calls with one idempotency key are one.
  idempotent(): this { this.annotations.bool("idempotent", true); return this; }
  // A person must agree to each call.
  needsApproval(): this { this.annotations.bool("needs_approval", true); return this; }
  // The JSON Schema of the content.
  returns(schema: string): this { this.result = schema; return this; }
}

export class Processor extends Spec {
  constructor(name: string, outline: bool, public run: (view: View) => void) { super(name, null, null, outline); }
  // Which exact counts an outline has: `{"model": true}`.
  counts(tokens: string): this { this.tokens = tokens; return this; }
  // The JSON Schema of its configuration.
  takes(schema: string): this { this.config = schema; return this; }
}

export class Router extends Spec {
  constructor(name: string, public run: (route: Route) => void) { super(name, null, null, false); }
  takes(schema: string): this { this.config = schema; return this; }
}

export class Provider extends Spec {
  constructor(name: string, public run: (request: Provide) => void, public observe: ((request: Observe) => void) | null) { super(name, null, null, false); }
  takes(schema: string): this { this.config = schema; return this; }
}

let about: Obj = new Obj();
const tools: Tool[] = [];
const processors: Processor[] = [];
const routers: Router[] = [];
const providers: Provider[] = [];

function json(text: string | null): Json | null {
  if (text === null) return null;
  const v = Json.parse(text);
  assert(v !== null, "a schema or another text of the plugin is no JSON");
  return v;
}

// Says what the plugin is and asks for: permissions such as `{"kv": "write"}`, and the
// operations that it cannot do without. It comes before all else that the plugin says.
export function plugin(name: string, version: string, description: string | null = null, permissions: string | null = null, requires: string[] = []): void {
  about = new Obj().int("abi", 1).string("name", name).string("version", version).string("description", description).json("permissions", json(permissions));
  if (requires.length > 0) about.strings("requires", requires);
}

// Texts and files that clients of the host read, each with a text, or the tool that reads it:
// `[{"uri": "shop://terms", "name": "terms", "text": "..."}]`.
export function resources(list: string): void { about.json("resources", json(list)); }

// Texts that people choose in a client of the host, each with a text, or the tool that writes it:
// `[{"name": "letter", "arguments": [{"name": "to"}], "text": "..."}]`.
export function prompts(list: string): void { about.json("prompts", json(list)); }

// A tool that a model calls. Its arguments satisfy the JSON Schema parameters.
export function tool(name: string, description: string, parameters: string, run: (call: Call) => void): Tool {
  const t = new Tool(name, description, parameters, run);
  tools.push(t);
  return t;
}

// A processor shapes the conversation that a model call is sent.
export function processor(name: string, run: (view: View) => void): Processor {
  const p = new Processor(name, false, run);
  processors.push(p);
  return p;
}

// A processor that reads columns in the place of messages: view.outline.
export function outlineProcessor(name: string, run: (view: View) => void): Processor {
  const p = new Processor(name, true, run);
  processors.push(p);
  return p;
}

// A router says which agent of a network runs next.
export function router(name: string, run: (route: Route) => void): Router {
  const r = new Router(name, run);
  routers.push(r);
  return r;
}

// A provider adds instructions, messages and tools before an agent runs, and may hear what came
// of it.
export function provider(name: string, run: (request: Provide) => void, observe: ((request: Observe) => void) | null = null): Provider {
  const p = new Provider(name, run, observe);
  providers.push(p);
  return p;
}

function described(s: Spec): Obj {
  const o = new Obj().string("name", s.name).string("description", s.description).json("parameters", json(s.parameters)).json("result", json(s.result));
  if (s.outline) o.string("input", "outline");
  return o.json("tokens", json(s.tokens)).json("config", json(s.config));
}

function manifest(): Json {
  const list: Json[][] = [[], [], [], []];
  for (let i = 0; i < tools.length; i++) list[0].push(described(tools[i]).json("annotations", tools[i].annotations.toJson()).toJson());
  for (let i = 0; i < processors.length; i++) list[1].push(described(processors[i]).toJson());
  for (let i = 0; i < routers.length; i++) list[2].push(described(routers[i]).toJson());
  for (let i = 0; i < providers.length; i++) list[3].push(described(providers[i]).bool("observe", providers[i].observe !== null).toJson());
  const o = about;
  if (list[0].length > 0) o.list("tools", list[0]);
  if (list[1].length > 0) o.list("processors", list[1]);
  if (list[2].length > 0) o.list("routers", list[2]);
  if (list[3].length > 0) o.list("providers", list[3]);
  about = new Obj(); // it describes itself once in an instance
  return o.toJson();
}

// request reads the object that the host has sent, and the name of the part that it calls.
let part: string = "";

function request(len: u32, kind: string): Json {
  takeFailure();
  const r = Json.ofBytes(readInput(len));
  if (r !== null && r.kind == Kind.Object) {
    part = nameThere(r.get(kind), kind);
    return r;
  }
  fail("invalid_argument", "the request is no object of JSON in UTF-8");
  return Json.null();
}

function missing(kind: string): void { fail("not_found", "the plugin has no " + kind + ' "' + part + '"'); }

// finish writes the answer, or the error, and gives the memory of the call back.
function finish(answer: Json | null): i32 {
  const failure = takeFailure();
  if (failure !== null || answer === null) {
    if (failure !== null && failure.code == "internal") log(Level.Error, failure.message);
    writeOutput(failure === null ? Json.null() : failure.toJson());
  } else {
    writeOutput(answer);
  }
  return failure === null ? 0 : 1;
}

export function agenthost_describe(): i32 { return finish(manifest()); }

export function agenthost_tool(len: u32): i32 {
  const code = serveTool(len);
  __collect(); // nothing of the call is on the stack
  return code;
}

function serveTool(len: u32): i32 {
  const r = request(len, "tool");
  if (failed()) return finish(null);
  for (let i = 0; i < tools.length; i++) {
    if (tools[i].name != part) continue;
    const call = new Call(r);
    if (!failed()) tools[i].run(call);
    return finish(failed() ? null : call.toJson());
  }
  missing("tool");
  return finish(null);
}

export function agenthost_process(len: u32): i32 {
  const code = serveProcess(len);
  __collect();
  return code;
}

function serveProcess(len: u32): i32 {
  const r = request(len, "processor");
  if (failed()) return finish(null);
  for (let i = 0; i < processors.length; i++) {
    if (processors[i].name != part) continue;
    const view = new View(r, processors[i].outline);
    if (!failed()) processors[i].run(view);
    return finish(failed() ? null : view.toJson());
  }
  missing("processor");
  return finish(null);
}

export function agenthost_route(len: u32): i32 {
  const code = serveRoute(len);
  __collect();
  return code;
}

function serveRoute(len: u32): i32 {
  const r = request(len, "router");
  if (failed()) return finish(null);
  for (let i = 0; i < routers.length; i++) {
    if (routers[i].name != part) continue;
    const route = new Route(r);
    if (!failed()) routers[i].run(route);
    return finish(failed() ? null : route.toJson());
  }
  missing("router");
  return finish(null);
}

export function agenthost_provide(len: u32): i32 {
  const code = serveProvide(len, false);
  __collect();
  return code;
}

export function agenthost_observe(len: u32): i32 {
  const code = serveProvide(len, true);
  __collect();
  return code;
}

function serveProvide(len: u32, observing: bool): i32 {
  const r = request(len, "provider");
  if (failed()) return finish(null);
  for (let i = 0; i < providers.length; i++) {
    if (providers[i].name != part) continue;
    if (observing) {
      const heard = new Observe(r), observe = providers[i].observe;
      if (!failed() && observe !== null) observe(heard);
      return finish(new Obj().toJson());
    }
    const asked = new Provide(r);
    if (!failed()) providers[i].run(asked);
    return finish(failed() ? null : asked.toJson());
  }
  missing("provider");
  return finish(null);
}
