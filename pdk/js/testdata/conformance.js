// The guest that pdk/conformance feeds: each part answers with the members of its request
// that the contract names, written again.
import { plugin, tool, processor, router, provider, result, interrupt, Failure, artifacts, call, callBytes, callTool, callTools, fetch, kv, log, progress, send, state, step } from "agenthost";

plugin({ name: "conformance", version: "1.0.0" });

const known = (from, names) => Object.fromEntries(names.filter((n) => from?.[n] !== undefined).map((n) => [n, from[n]]));
const scope = (s) => s && known(s, ["tenant", "thread", "run", "network", "agent"]);
const outline = (o) => o && {
  ...known(o, ["count", "roles", "bytes", "chars", "tokens", "encoding", "parts", "keep", "own_from"]),
  tools: o.tools.map((t) => [t.message, t.part, t.kind, t.id, t.name]),
};
const fields = {
  tool: ["tool", "arguments", "call_id", "idempotency_key", "attempt", "provider", "state", "state_revision", "config", "resumed"],
  process: ["processor", "config", "model", "messages"],
  route: ["router", "config", "input", "call_count", "stack", "state"],
  provide: ["provider", "config", "messages", "responses", "error"],
};

// request returns a request of an export as the kit has read it.
function request(of, r) {
  return {
    ...known(r, fields[of]), own_from: r.outline ? undefined : r.own_from, scope: scope(r.scope), outline: outline(r.outline),
    agents: r.agents?.map((a) => known(a, ["name", "description"])),
    last: r.last && known(r.last, ["agent", "messages", "tool_results", "finish_reason"]),
  };
}

const any = { type: "object" };

tool({ name: "vector", description: "Answers with its call.", parameters: any }, (_, call) => request("tool", call));
tool({ name: "integer", description: "Answers with its argument.", parameters: any }, ({ argument }) => ({ argument }));
function denied(name) {
  try {
    callTool(name, { order: 8 });
  } catch (error) {
    return error.code === "permission_denied";
  }
}

function tools() {
  const [look, pay, wait] = callTools(["look", "pay", "wait"].map((name) => ({ name, arguments: { order: 7 } })));
  return {
    found: look.content, media: look.media[0].media_type, failed: [pay.code, pay.content, wait.kind === "result" ? "" : "internal"],
    one: callTool("look", { order: 8 }), denied: [denied("pay"), denied("drop")],
  };
}

tool({ name: "host", description: "Asks the host for things.", parameters: any }, ({ fails }) => {
  const answer = { absent: kv.get("k") === undefined };
  kv.put("k", "a\u0000é");
  answer.text = kv.get("k");
  answer.n = state.get("/n").value;
  const response = fetch("https://example.com/x", { method: "POST", headers: { Authorization: { prefix: "Bearer ", secret: "KEY" } }, body: '{"a":1}' });
  answer.status = response.status;
  answer.ok = response.json().ok;
  step("s", () => JSON.parse('{"x":1.0}'));
  answer.step = step("s", () => "done twice");
  progress("half");
  send("later", { a: [1] });
  answer.tools = tools();
  try {
    call("artifact.read", { name: "plan" });
  } catch (error) {
    if (fails) throw error;
    answer.code = error.code;
  }
  return answer;
});
tool({ name: "bytes", description: "Passes bytes to the host.", parameters: any }, ({ fails }) => {
  kv.put("k", "a\u0000é", { revision: 0 });
  const { bytes, revision } = kv.getItem("k");
  const digest = artifacts.write("plan", new Uint8Array([9, 0, 1, 2, 9]).subarray(1, 4), { type: "application/x-plan" });
  const plan = artifacts.read("plan");
  const response = fetch("https://example.com/x", { method: "POST", headers: { Authorization: { prefix: "Bearer ", secret: "KEY" } }, body: '{"a":1}' });
  const answer = {
    text: new TextDecoder().decode(bytes), revision, digest, plan: String.fromCharCode(...plan.bytes), type: plan.type,
    status: response.status, body: response.text(),
  };
  try {
    callBytes("kv.get", { key: "none" });
  } catch (error) {
    if (fails) throw error;
    answer.code = error.code;
  }
  return answer;
});

// base64 carries an artifact by operations whose bytes are base64.
const base64 = {
  write(name, data) {
    for (let at = 0, upload, last = false; !last; at += 192 << 10) {
      last = at + (192 << 10) >= data.length;
      upload = call("artifact.write", { name, data: data.subarray(at, at + (192 << 10)).toBase64(), upload, last }).upload;
    }
  },
  read(name) {
    const { size, digest } = call("artifact.read", { name, length: 1 }), bytes = new Uint8Array(size);
    for (let at = 0; at < size;) {
      const piece = Uint8Array.fromBase64(call("artifact.read", { digest, offset: at }).data);
      bytes.set(piece, at);
      at += piece.length;
    }
    return { bytes };
  },
};

// alike counts bytes that are those of data: as texts, for a loop over bytes takes a thousand instructions each.
function alike(data, read) {
  const [a, b] = [data, read].map((bytes) => new TextDecoder().decode(bytes));
  if (a === b) return data.length;
  return read.reduce((n, byte, i) => n + (byte === data[i] ? 1 : 0), 0);
}

tool({ name: "carry", description: "Writes an artifact and reads it again.", parameters: any }, ({ size, bytes }) => {
  const data = new Uint8Array(size), by = bytes ? artifacts : base64;
  for (let i = 0; i < Math.min(size, 128); i++) data[i] = i;
  for (let n = 128; n < size; n *= 2) data.copyWithin(n, 0, n);
  by.write("load", data);
  const read = by.read("load").bytes;
  return { right: alike(data, read), size: read.length };
});
tool({ name: "log", description: "Writes to the log.", parameters: any }, () => {
  log.warn("late", { order: 1042, who: "Ann", note: 'say "hi"', empty: "", eq: "a=b", path: "a\\b", paid: true, days: 2.5 });
});
tool({ name: "answer", description: "Answers with its arguments, as a result.", parameters: any },
  ({ content, interrupt: asked, ...rest }) => (asked ? interrupt(asked.reason, asked.data) : result(content, rest)));
tool({ name: "fail", description: "Fails with its arguments.", parameters: any }, ({ code, message, hint, retryable }) => {
  throw new Failure(code, message, { hint, retryable });
});

processor({ name: "vector" }, (view) => ({ report: request("process", view) }));
processor({ name: "outline", input: "outline" }, (view) => ({ report: request("process", view) }));
processor({ name: "again" }, (view) => ({ messages: view.messages }));

// A router and a provider answer with nothing that holds any JSON: they say it as text.
const sorted = (_, v) => (v && Object.getPrototypeOf(v) === Object.prototype ? Object.fromEntries(Object.entries(v).sort(([a], [b]) => (a < b ? -1 : 1))) : v);
router({ name: "vector" }, (r) => ({ next: [], reason: JSON.stringify(request("route", r), sorted) }));
provider({ name: "vector" }, (p) => JSON.stringify(request("provide", p), sorted), (p) => console.log(JSON.stringify(request("provide", p))));
