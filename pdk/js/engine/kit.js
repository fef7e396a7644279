// The kit of plugins in JavaScript: it reads what the host asks, calls what the plugin
// registered, and writes what that returned. The engine evaluates it before the plugin's
// script, with the functions that glue.c has; agenthost.d.ts documents what it exports.
(function (host) {
  "use strict";
  const { parse, stringify, rawJSON, isRawJSON } = JSON;

  // Bits of what the glue found in a document.
  const INEXACT = 1, DOUBLED = 2;

  const CODES = new Set(["invalid_argument", "unauthenticated", "permission_denied", "not_found",
    "already_exists", "conflict", "resource_exhausted", "failed_precondition", "deadline_exceeded",
    "canceled", "unavailable", "unimplemented", "data_loss", "internal"]);

  // ---- Errors ----

  class Failure extends Error {
    constructor(code, message, { hint, retryable, cause } = {}) {
      super(message, { cause });
      this.name = "Failure";
      this.code = CODES.has(code) ? code : "internal";
      this.hint = hint;
      this.retryable = retryable;
    }
  }

  const invalid = (message) => new Failure("invalid_argument", message);

  // errorObject is what the contract says of an error that was thrown. What no Failure
  // threw is a bug: its stack goes to the log, with the lines of the script.
  function errorObject(error) {
    if (error instanceof Failure) {
      return { code: error.code, message: error.message || error.code, hint: error.hint, retryable: error.retryable };
    }
    const message = error instanceof Error ? `${error.name}: ${error.message}` : `thrown: ${shown(error)}`;
    log(3, error instanceof Error ? `${message}\n${error.stack ?? ""}` : message);
    return { code: "internal", message };
  }

  // ---- JSON ----

  // A BigInt is written as its digits.
  BigInt.prototype.toJSON = function () { return rawJSON(String(this)); };

  // read returns a document. If the glue has marked numbers in it, it begins with the
  // mark, and make says what such a number becomes: what JSON.rawJSON makes, or a number.
  function read(text, found, make = rawJSON) {
    return found & INEXACT ? restore(text[0], parse(text.slice(1)), make) : parse(text);
  }

  function restore(mark, value, make) {
    const restored = (v) => {
      if (typeof v !== "object" || v === null) return v;
      if (Array.isArray(v)) {
        for (let i = 0; i < v.length; i++) v[i] = restored(v[i]);
        return v;
      }
      const keys = Object.keys(v);
      if (keys.length === 1 && keys[0] === mark) return make(v[mark]);
      for (const key of keys) {
        const was = v[key], is = restored(was);
        if (is !== was) define(v, key, is);
      }
      return v;
    };
    return restored(value);
  }

  // plain returns a value that a script computes with: an integer beyond those of a
  // double is a BigInt, and every other number is one, if a double can hold it. What is
  // nested too deeply for the stack is an error of what was given, not a bug.
  function plain(v) {
    try {
      return plainOf(v);
    } catch (error) {
      throw error instanceof RangeError ? invalid("a value is nested too deeply") : error;
    }
  }

  function plainOf(v) {
    if (typeof v !== "object" || v === null) return v;
    if (isRawJSON(v)) return numberOf(v.rawJSON);
    for (const key of Object.keys(v)) {
      const was = v[key], is = plainOf(was);
      if (is !== was) define(v, key, is);
    }
    return v;
  }

  // copied returns a copy of a value of JSON.
  function copied(v) {
    if (typeof v !== "object" || v === null || isRawJSON(v)) return v;
    if (Array.isArray(v)) return v.map(copied);
    const copy = {};
    for (const key of Object.keys(v)) define(copy, key, copied(v[key]));
    return copy;
  }

  // PLAIN are the members of a request that scripts compute with; messages stay as they are.
  const PLAIN = ["arguments", "state", "config", "resumed"];

  // define sets a member also if it is named __proto__.
  function define(object, key, value) {
    Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
  }

  function numberOf(text) {
    const whole = wholeOf(text);
    if (whole === undefined || (whole >= -0x1fffffffffffffn && whole <= 0x1fffffffffffffn)) {
      const n = Number(text);
      return Number.isFinite(n) ? n : rawJSON(text);
    }
    return whole;
  }

  // wholeOf returns the integer that a number's text stands for, or undefined if it is
  // none, or one of more than 1,000 digits.
  function wholeOf(text) {
    const [, sign, digits, fraction = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(text) ?? [];
    if (digits === undefined) return undefined;
    const all = digits + fraction, shift = Number(exponent) - fraction.length;
    if (/^0+$/.test(all)) return 0n;
    if (shift > 1000 || all.length > 1000) return undefined;
    if (shift >= 0) return BigInt(sign + all + "0".repeat(shift));
    if (-shift >= all.length || /[^0]/.test(all.slice(shift))) return undefined;
    return BigInt(sign + all.slice(0, shift));
  }

  // write returns the JSON of an answer; what is not JSON is an error of the script's.
  function write(value) {
    const text = stringify(value);
    if (text === undefined) throw new TypeError(`${shown(value)} is no JSON`);
    return text;
  }

  function shown(value) {
    try {
      return typeof value === "string" ? value : stringify(value) ?? String(value);
    } catch {
      return Object.prototype.toString.call(value);
    }
  }

  // ---- What a request may hold ----

  const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v) && !isRawJSON(v);

  // want checks one member of a request, or of a message; the name is for the error.
  function want(holds, v, name, type) {
    if (!holds) wanted(v, name, type);
  }

  function wanted(v, name, type) {
    throw invalid(`${name} is ${v === undefined ? "absent" : "no " + type}`);
  }

  const string = (v, name) => { if (typeof v !== "string") wanted(v, name, "string"); };
  const named = (v, name) => want(typeof v === "string" && v !== "", v, name, "name");
  const array = (v, name) => want(Array.isArray(v), v, name, "array");
  const object = (v, name) => want(isObject(v), v, name, "object");

  // A string, number or boolean that is absent is left out and not null.
  const maybe = (check) => (v, name) => { if (v !== undefined) check(v, name); };
  const maybeString = (v, name) => { if (v !== undefined && typeof v !== "string") wanted(v, name, "string"); };
  const maybeBoolean = maybe((v, name) => want(typeof v === "boolean", v, name, "boolean"));

  function whole(v, name, least = 0) {
    const n = typeof v === "number" ? v : isRawJSON(v) ? Number(wholeOf(v.rawJSON) ?? NaN) : NaN;
    want(Number.isSafeInteger(n) && n >= least, v, name, "integer");
    return n;
  }

  const ROLES = new Set(["system", "user", "assistant", "tool"]);

  const PARTS = {
    text: (p) => string(p.text, "text"),
    reasoning(p) { string(p.text, "text"); maybeString(p.signature, "signature"); },
    tool_call(p) { named(p.id, "id"); named(p.name, "name"); },
    tool_result(p) {
      named(p.id, "id");
      named(p.name, "name");
      maybeBoolean(p.is_error, "is_error");
      if (p.media !== undefined) { array(p.media, "media"); p.media.forEach(checkPart); }
    },
    media(p) {
      string(p.media_type, "media_type");
      maybeString(p.url, "url");
      maybe(bytes)(p.data, "data");
    },
    data() {},
  };

  function bytes(v, name) {
    string(v, name);
    want(v.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(v), v, name, "base64");
  }

  function checkPart(p) {
    object(p, "a part");
    want(typeof p.type === "string" && p.type !== "", p.type, "the type of a part", "name");
    if (Object.hasOwn(PARTS, p.type)) PARTS[p.type](p);
  }

  function checkMessage(m) {
    object(m, "a message");
    maybeString(m.id, "the id of a message");
    want(ROLES.has(m.role), m.role, "the role of a message", "known one");
    maybeString(m.agent, "the agent of a message");
    if (m.parts !== undefined) array(m.parts, "the parts of a message");
    maybeString(m.created_at, "created_at");
    if (m.metadata !== undefined && m.metadata !== null) object(m.metadata, "metadata");
    m.parts?.forEach(checkPart);
    return m;
  }

  function messagesOf(list, name) {
    array(list, name);
    return list.map(checkMessage);
  }

  function scopeOf(scope) {
    if (scope === undefined) return {};
    object(scope, "scope");
    maybeString(scope.tenant, "scope.tenant");
    maybeString(scope.thread, "scope.thread");
    maybeString(scope.run, "scope.run");
    maybeString(scope.network, "scope.network");
    maybeString(scope.agent, "scope.agent");
    return scope;
  }

  // outlineOf checks an outline, so that a script may index without looking.
  function outlineOf(o) {
    object(o, "outline");
    const count = whole(o.count, "outline.count");
    const column = (name, least = 0) => {
      array(o[name], `outline.${name}`);
      if (o[name].length !== count) throw invalid(`outline.${name} has not ${count} entries`);
      o[name].forEach((n, i) => (o[name][i] = whole(n, `outline.${name}`, least)));
    };
    string(o.roles, "outline.roles");
    if (o.roles.length !== count || /[^suat]/.test(o.roles)) throw invalid("outline.roles has not one letter of s, u, a and t for each message");
    ["bytes", "chars", "parts"].forEach((name) => column(name));
    if (o.tokens !== undefined) column("tokens");
    maybeString(o.encoding, "outline.encoding");
    const at = (i, name, end = count) => {
      if ((i = whole(i, name)) >= end) throw invalid(`${name} names message ${i} of ${count}`);
      return i;
    };
    if (o.keep !== undefined) { array(o.keep, "outline.keep"); o.keep = o.keep.map((i) => at(i, "outline.keep")); }
    if (o.own_from !== undefined) o.own_from = at(o.own_from, "outline.own_from", count + 1);
    array(o.tools, "outline.tools");
    let before = [-1, -1];
    o.tools = o.tools.map((row) => {
      array(row, "a row of outline.tools");
      const message = at(row[0], "a row of outline.tools"), part = whole(row[1], "a row of outline.tools");
      if (part >= o.parts[message]) throw invalid(`a row of outline.tools names part ${part} of ${o.parts[message]}`);
      if (row[2] !== "call" && row[2] !== "result") throw invalid("a row of outline.tools is neither call nor result");
      string(row[3], "a row of outline.tools");
      string(row[4], "a row of outline.tools");
      if (message < before[0] || (message === before[0] && part <= before[1])) throw invalid("outline.tools is not in order");
      before = [message, part];
      return { message, part, kind: row[2], id: row[3], name: row[4] };
    });
    o.count = count;
    return o;
  }

  // ---- What a plugin registers ----

  const about = { name: "plugin" };
  const registered = { tool: new Map(), processor: new Map(), router: new Map(), provider: new Map() };
  let started = false;

  function register(kind, spec, run) {
    if (started) throw new TypeError(`register ${kind}s while the script starts, not in a call`);
    if (!isObject(spec) || typeof spec.name !== "string" || spec.name === "") throw new TypeError(`a ${kind} needs a name`);
    if (typeof run !== "function") throw new TypeError(`${kind} "${spec.name}" needs a function`);
    if (registered[kind].has(spec.name)) throw new TypeError(`two ${kind}s are named "${spec.name}"`);
    registered[kind].set(spec.name, { spec, run });
  }

  function plugin(spec) {
    if (started) throw new TypeError("describe the plugin while its script starts");
    Object.assign(about, spec);
  }

  function tool(spec, run) { register("tool", { description: "", ...spec }, run); }
  function processor(spec, run) { register("processor", spec, run); }
  function router(spec, run) { register("router", spec, run); }
  function provider(spec, run, observe) {
    register("provider", { ...spec, observe: observe !== undefined }, run);
    if (observe !== undefined) registered.provider.get(spec.name).observe = observe;
  }

  function manifest() {
    const list = (kind) => {
      const specs = Array.from(registered[kind].values(), ({ spec }) => spec);
      return specs.length ? specs : undefined;
    };
    return { abi: 1, ...about, tools: list("tool"), processors: list("processor"), routers: list("router"), providers: list("provider") };
  }

  function find(kind, name) {
    named(name, kind);
    const found = registered[kind].get(name);
    if (!found) throw new Failure("not_found", `the plugin has no ${kind} "${name}"`);
    return found;
  }

  // ---- Requests and answers, one pair for each export ----

  class Result {
    constructor(answer) { this.answer = answer; }
  }

  const result = (content, { state, media, artifacts, schedule } = {}) =>
    new Result({ content: content === undefined ? null : content, state, media, artifacts, schedule });
  const interrupt = (reason, data) => new Result({ interrupt: { reason, data } });

  const toolAnswer = (r) => (r instanceof Result ? r.answer : { content: r === undefined ? null : r });

  const exports = {
    describe: () => manifest(),

    tool(c) {
      const { run } = find("tool", c.tool);
      maybeString(c.call_id, "call_id");
      maybeString(c.idempotency_key, "idempotency_key");
      maybeString(c.provider, "provider");
      c.scope = scopeOf(c.scope);
      if (c.attempt !== undefined) c.attempt = whole(c.attempt, "attempt", 1);
      if (c.state_revision !== undefined) c.state_revision = whole(c.state_revision, "state_revision");
      if (c.state !== undefined) object(c.state, "state");
      if (c.resumed !== undefined) {
        array(c.resumed, "resumed");
        for (const a of c.resumed) { object(a, "an answer"); named(a.interrupt_id, "interrupt_id"); }
      }
      c.answer = c.resumed?.at(-1)?.answer;
      return then(run(c.arguments === undefined ? {} : c.arguments, c), toolAnswer);
    },

    process(p) {
      const { spec, run } = find("processor", p.processor);
      p.scope = scopeOf(p.scope);
      string(p.model, "model");
      if ((p.messages === undefined) === (p.outline === undefined)) throw invalid("exactly one of messages and outline is there");
      const outline = spec.input === "outline";
      if (outline !== (p.outline !== undefined)) throw invalid(`processor "${spec.name}" reads ${outline ? "an outline" : "messages"}, which the request has not`);
      if (outline) {
        p.outline = outlineOf(p.outline);
        p.own_from = p.outline.own_from;
      } else {
        p.messages = messagesOf(p.messages, "messages");
        if (p.own_from !== undefined && (p.own_from = whole(p.own_from, "own_from")) > p.messages.length) throw invalid("own_from is beyond the messages");
      }
      const view = new View(p);
      return then(run(view, p.config), (r) => {
        const edits = [...(Array.isArray(r) ? r : r?.edits ?? []), ...view.edits];
        const messages = Array.isArray(r) ? undefined : r?.messages;
        if (messages !== undefined && edits.length > 0) throw new TypeError(`processor "${spec.name}" returns messages and makes edits: do one of both`);
        return { edits: messages === undefined ? edits : undefined, messages, report: r?.report ?? view.report };
      });
    },

    route(r) {
      const { run } = find("router", r.router);
      r.scope = scopeOf(r.scope);
      r.call_count = whole(r.call_count, "call_count");
      array(r.stack, "stack");
      r.stack.forEach((name) => string(name, "stack"));
      array(r.agents, "agents");
      for (const a of r.agents) { object(a, "an agent"); string(a.name, "the name of an agent"); maybeString(a.description, "a description"); }
      if (r.input !== undefined) checkMessage(r.input);
      if (r.state !== undefined) object(r.state, "state");
      if (r.last !== undefined) {
        object(r.last, "last");
        string(r.last.agent, "last.agent");
        maybeString(r.last.finish_reason, "last.finish_reason");
        if (r.last.messages !== undefined) messagesOf(r.last.messages, "last.messages");
        if (r.last.tool_results !== undefined) { array(r.last.tool_results, "last.tool_results"); r.last.tool_results.forEach(checkPart); }
      }
      if (r.outline !== undefined) r.outline = outlineOf(r.outline);
      return then(run(r, r.config), (next) => {
        if (next === undefined || next === null) return { next: [] };
        if (typeof next === "string") return { next: [next] };
        return Array.isArray(next) ? { next } : { next: next.next, delegate: next.delegate, reason: next.reason };
      });
    },

    provide(p) {
      const { run } = find("provider", p.provider);
      p.scope = scopeOf(p.scope);
      messagesOf(p.messages, "messages");
      return then(run(p, p.config), (r) => (typeof r === "string" ? { instructions: r } : r ?? {}));
    },

    observe(p) {
      const { observe } = find("provider", p.provider);
      p.scope = scopeOf(p.scope);
      messagesOf(p.messages, "messages");
      if (p.responses !== undefined) messagesOf(p.responses, "responses");
      if (p.error !== undefined) { object(p.error, "error"); named(p.error.code, "error.code"); named(p.error.message, "error.message"); }
      if ((p.responses === undefined) === (p.error === undefined)) throw invalid("exactly one of responses and error is there");
      return then(observe?.(p, p.config), () => ({}));
    },
  };

  // NAMED are the parts that a request of an export names, by its member: one that the plugin
  // does not have is not_found, whatever else the request holds.
  const NAMED = { tool: "tool", process: "processor", route: "router", provide: "provider", observe: "provider" };

  // then calls f with a value, or with what a promise of one is fulfilled with.
  function then(value, f) {
    return typeof value === "object" && value !== null && typeof value.then === "function" ? Promise.resolve(value).then(f) : f(value);
  }

  // View is what a processor is given: the conversation, and the edits that it makes.
  class View {
    edits = [];
    report = undefined;
    constructor(p) { Object.assign(this, p); }

    drop(from, to = from + 1) { this.edits.push({ drop: [from, to] }); }
    dropPart(message, part) { this.edits.push({ drop_part: [message, part] }); }
    insert(at, message) { this.edits.push({ insert: { at, message } }); }
    replace(at, message) { this.edits.push({ replace: { at, message } }); }

    // map calls f with a copy of every message and replaces those that f changed;
    // one without parts, or null, is dropped. The others are not sent back.
    map(f) {
      this.messages.forEach((message, i) => {
        const before = stringify(message), copy = copied(message);
        const now = f(copy, i);
        const is = now === undefined ? copy : now;
        if (is === null || (is.parts?.length === 0 && message.parts?.length > 0)) this.drop(i);
        else if (stringify(is) !== before) this.replace(i, is);
      });
    }

    // mapText maps the text of every message wherever it stands: in text, reasoning,
    // arguments, content and values.
    mapText(f) {
      const deep = (v) => {
        if (typeof v === "string") return f(v);
        if (Array.isArray(v)) return v.map(deep);
        if (isObject(v)) for (const key of Object.keys(v)) define(v, key, deep(v[key]));
        return v;
      };
      this.map((m) => {
        for (const p of m.parts ?? []) for (const name of ["text", "arguments", "content", "value"]) if (p[name] !== undefined) p[name] = deep(p[name]);
      });
    }
  }

  // ---- What the host does for a plugin ----

  function answerOf(answer, make) {
    const status = answer[0], body = answer.slice(1);
    if (status === "1") {
      const e = parse(body);
      throw new Failure(e.code, e.message, e);
    }
    return read(body, status === "2" ? INEXACT : 0, make);
  }

  function call(operation, request = {}) {
    return answerOf(host.call(String(operation), write(request)));
  }

  // encode returns the bytes of a text in UTF-8; bytes it leaves.
  function encode(value) {
    if (typeof value === "string") return new Uint8Array(host.encode(value.toWellFormed()));
    if (!(value instanceof Uint8Array)) throw new TypeError(`${shown(value)} is neither text nor a Uint8Array`);
    return value;
  }
  const decode = (bytes) => host.decode(bytes.buffer, bytes.byteOffset, bytes.byteLength);

  // GIVEN and TAKEN are the members of operations' requests and responses that are bytes; of
  // kv.list that of each entry.
  const GIVEN = { "artifact.write": "data", "http.fetch": "body", "kv.put": "value" };
  const TAKEN = { "artifact.read": "data", "http.fetch": "body", "kv.get": "value", "kv.list": "value" };

  // callBytes runs an operation whose bytes are Uint8Arrays.
  const callBytes = (operation, request) => operate(operation, request, (n) => new Uint8Array(n));

  // operate is callBytes, and reads bytes of the response into what room returns for their number. They
  // stand beside the JSON, or in it as base64 if the plugin does not import host_call_bytes.
  function operate(operation, request = {}, room) {
    const given = GIVEN[operation], data = request?.[given], has = data instanceof Uint8Array;
    const counted = has ? { ...request, [given]: data.length } : request;
    const text = host.call(String(operation), write(counted), has ? 1 : 0, data?.buffer, data?.byteOffset, data?.byteLength);
    const answer = text === undefined ? call(operation, has ? { ...request, [given]: data.toBase64() } : request) : answerOf(text);
    const taken = TAKEN[operation];
    if (taken === undefined) return answer;
    let at = 0;
    for (const holder of operation === "kv.list" ? answer.entries : [answer]) {
      const is = holder[taken];
      if (typeof is === "string") {
        const bytes = (holder[taken] = room((is.length / 4) * 3 - (is.endsWith("==") ? 2 : is.endsWith("=") ? 1 : 0), answer));
        bytes.setFromBase64(is);
      } else if (is !== undefined) {
        const bytes = (holder[taken] = room(is, answer));
        host.behind(bytes.buffer, bytes.byteOffset, is, at);
        at += is;
      }
    }
    return answer;
  }

  // absent returns undefined where f fails because the thing is not there.
  function absent(f) {
    try {
      return f();
    } catch (error) {
      if (error instanceof Failure && error.code === "not_found") return undefined;
      throw error;
    }
  }

  const kv = {
    get(key) { return absent(() => decode(callBytes("kv.get", { key }).value)); },
    getItem(key) {
      return absent(() => {
        const { value, revision } = callBytes("kv.get", { key });
        return { bytes: value, revision };
      });
    },
    put(key, value, { revision, ttl } = {}) { return callBytes("kv.put", { key, value: encode(value), revision, ttl_ms: ttl }).revision; },
    delete(key, { revision } = {}) { call("kv.delete", { key, revision }); },
    list({ prefix, after, limit, values, bytes } = {}) {
      const { entries, next } = callBytes("kv.list", { prefix, after, limit, values: bytes || values });
      const entry = ({ key, revision, value }) => {
        if (value === undefined) return { key, revision };
        return bytes ? { key, revision, bytes: value } : { key, revision, value: decode(value) };
      };
      return { entries: entries.map(entry), next };
    },
  };

  const state = {
    get(path) {
      const { value, revision } = call("state.get", { path });
      return { value: plain(value), revision };
    },
    patch(patch, { revision } = {}) { return call("state.patch", { patch, revision }).revision; },
  };

  const providerState = {
    get() {
      const { value, revision } = call("provider_state.get");
      return { value: plain(value), revision };
    },
    put(value, { revision } = {}) { return call("provider_state.put", { value, revision }).revision; },
  };

  class Response {
    constructor({ status, headers, body, url }) {
      this.status = status;
      this.ok = status >= 200 && status < 300;
      this.url = url;
      this.headers = headers;
      this.body = body;
    }
    header(name) { return this.headers.find((h) => h.name.toLowerCase() === name.toLowerCase())?.value; }
    bytes() { return this.body; }
    text() { return decode(this.body); }
    json() { return answerOf(host.exact(this.text()), numberOf); }
  }

  function fetch(url, { method, headers = {}, body, timeout, redirects } = {}) {
    return new Response(callBytes("http.fetch", {
      method, url, timeout_ms: timeout, redirects,
      headers: Object.entries(headers).map(([name, value]) => (typeof value === "string" ? { name, value } : { name, ...value })),
      body: body === undefined ? undefined : encode(body),
    }));
  }

  const PIECE = 512 << 10;

  const artifacts = {
    write(name, data, { type } = {}) {
      const bytes = encode(data);
      for (let at = 0, upload; ;) {
        const end = Math.min(at + PIECE, bytes.length), last = end === bytes.length;
        const answer = callBytes("artifact.write", { name, media_type: at === 0 ? type : undefined, data: bytes.subarray(at, end), upload, last });
        if (last) return answer.digest;
        upload = answer.upload;
        at = end;
      }
    },
    read(name) {
      let bytes, at = 0;
      const room = (n, { size }) => (bytes ??= new Uint8Array(size)).subarray(at, at + n);
      const { data, digest, media_type: type } = operate("artifact.read", { name, length: PIECE }, room);
      for (at = data.length; at < bytes.length;) {
        const { length } = operate("artifact.read", { digest, offset: at, length: PIECE }, room).data;
        if (length === 0) throw new Failure("data_loss", `artifact "${name}" ends early`);
        at += length;
      }
      return { bytes, type, digest };
    },
  };

  // step does part of a tool's work once in a run, and returns what it left.
  function step(name, f, { idempotent } = {}) {
    const begun = call("step.begin", { name, idempotent });
    if (begun.done) return plain(begun.result);
    return then(f(), (left) => {
      call("step.end", { name, result: left === undefined ? null : left });
      return left;
    });
  }

  const callToolsJSON = (calls, make = numberOf) => answerOf(host.call("tool.call", `{"calls":${calls}}`), make).results;
  const callTools = (calls) => callToolsJSON(write(calls));
  function callTool(name, args) {
    const [{ kind, content, code }] = callTools([{ name, arguments: args }]);
    if (kind !== "result") throw new Failure(code, shown(content));
    return content;
  }
  const emit = (kind, data) => { call("emit", { kind, data }); };
  const progress = (message, { done, total } = {}) => emit("progress", { message, done, total });
  const messages = (...indices) => call("messages.get", { indices }).messages;
  const countTokens = (texts, { encoding } = {}) => call("tokens.count", { texts, encoding });
  const generate = ({ messages, text, instructions, model, maxTokens }) => {
    const asked = messages ?? [{ role: "user", parts: [{ type: "text", text }] }];
    const { message, usage, finish_reason } = call("model.generate", { messages: asked, instructions, model, max_tokens: maxTokens });
    return { message, usage, finishReason: finish_reason, text: textOf(message) };
  };
  const send = (handler, payload, { key, delay } = {}) => call("queue.send", { handler, payload, idempotency_key: key, delay_ms: delay }).id;
  const textOf = (message) => (message.parts ?? []).filter((p) => p.type === "text").map((p) => p.text).join("");

  // attribute is a name or a value of the log: text has quotes where a reader needs them to see its end.
  function attribute(v) {
    if (typeof v === "string" && v !== "" && !/[\x00-\x20"\\=\x7f]/.test(v)) return v;
    try {
      return stringify(v) ?? "null";
    } catch { // a cycle, say
      return stringify(shown(v));
    }
  }

  function log(level, text) { host.log(level, text); }
  const logged = (level) => (message, attributes) =>
    log(level, Object.entries(attributes ?? {}).reduce((line, [name, v]) => `${line} ${attribute(name)}=${attribute(v)}`, String(message)));
  const logger = { debug: logged(0), info: logged(1), warn: logged(2), error: logged(3) };
  const line = (level) => (...values) => log(level, values.map(shown).join(" "));
  const console = { debug: line(0), log: line(1), info: line(1), warn: line(2), error: line(3) };

  // ---- The world of a script ----

  // Math.random begins anew in every call, from what the host gives it.
  let seed;
  function random() {
    seed ??= [host.random(), host.random(), host.random(), host.random() || 1];
    let t = seed[3];
    let s = seed[0];
    seed = [s, seed[0], seed[1], seed[2]];
    t ^= t << 11;
    t ^= t >>> 8;
    seed[0] = (t ^ s ^ (s >>> 19)) >>> 0;
    return (seed[0] * 0x200000 + (seed[1] >>> 11)) / 0x20000000000000;
  }
  Object.defineProperty(Math, "random", { value: random, writable: true, configurable: true });
  Object.defineProperty(globalThis, "console", { value: console, writable: true, configurable: true });
  class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(text = "") { return encode(String(text)); }
  }
  class TextDecoder {
    get encoding() { return "utf-8"; }
    decode(bytes = new Uint8Array()) { return host.decode(bytes.buffer ?? bytes, bytes.byteOffset ?? 0, bytes.byteLength); }
  }
  for (const [name, value] of Object.entries({ TextEncoder, TextDecoder })) {
    Object.defineProperty(globalThis, name, { value, writable: true, configurable: true });
  }

  Object.defineProperty(globalThis, Symbol.for("agenthost"), {
    value: {
      plugin, tool, processor, router, provider, result, interrupt, Failure,
      call, callBytes, kv, state, providerState, fetch, artifacts, step, emit, progress, messages, countTokens, generate, send, textOf, callTools, callTool, callToolsJSON, idle, log: logger,
    },
  });

  // whenIdle is called when a call waits for a promise and no job is left that could settle
  // it. It returns whether there may be one now.
  let whenIdle;
  function idle(f) { whenIdle = f; }

  // rejected notes promises that a call has left rejected and that nothing handles.
  const rejected = (reason) => log(3, `a promise was rejected and nothing handles it: ${reason instanceof Error ? `${reason.name}: ${reason.message}\n${reason.stack ?? ""}` : shown(reason)}`);

  const failed = (error) => "1" + write(errorObject(error));
  const answered = (answer) => "0" + write(answer);
  const written = (answer) => {
    try {
      return answered(answer);
    } catch (error) {
      return failed(error);
    }
  };

  // serve answers one call: "0" and the answer, or "1" and the error object. The glue gives it
  // also the reasons of rejected promises.
  return function serve(name, text, found) {
    if (name === "rejected") return rejected(text);
    if (name === "idle") return whenIdle?.() ? 1 : 0;
    started = true;
    whenIdle = undefined;
    seed = undefined;
    try {
      let request;
      if (text !== "" || name !== "describe") {
        try {
          request = read(text, found);
        } catch (error) {
          throw invalid(`the request is no JSON that this plugin reads: ${error.message}`);
        }
        object(request, "the request");
        if (name in NAMED) find(NAMED[name], request[NAMED[name]]);
        if (found & INEXACT) for (const name of PLAIN) if (request[name] !== undefined) request[name] = plain(request[name]);
        if (found & DOUBLED) throw invalid("a message or a part has a field twice");
      }
      const answer = exports[name](request);
      return answer instanceof Promise ? answer.then(written, failed) : answered(answer);
    } catch (error) {
      return failed(error);
    }
  };
})
