// A page that uses the API with the cookie of the login.

const $ = (id) => document.getElementById(id);
const say = (text) => $("answers").append(text);

// call returns the answer as JSON, or says why there is no answer.
async function call(path, options) {
  const answer = await fetch(path, options);
  const body = await answer.json();
  if (answer.ok) return body;
  const wait = answer.headers.get("Retry-After");
  say(`${body.detail}${wait ? ` (again in ${wait} s)` : ""}\n`);
  return null;
}

const me = await fetch("/v1/me");
$("product").hidden = !me.ok;
$("login").hidden = me.ok;
if (me.ok) $("customer").textContent = (await me.json()).tenant;

// The run is started by itself, and its events are read by an EventSource: when the
// connection breaks, the browser comes back with the id of the last event that it has.
$("ask").onsubmit = async (e) => {
  e.preventDefault();
  const run = await call("/v1/runs", {
    method: "POST",
    headers: { "Content-Type": "application/json", Prefer: "respond-async" },
    body: JSON.stringify({ text: $("text").value, thread: "support" }),
  });
  if (!run) return;
  const events = new EventSource(`/v1/runs/${encodeURIComponent(run.id)}/events`);
  events.addEventListener("text.delta", (ev) => say(JSON.parse(ev.data).text));
  events.addEventListener("run.finished", () => { say("\n"); events.close(); });
};

$("upload").onsubmit = async (e) => {
  e.preventDefault();
  const file = $("module").files[0];
  const plugin = `/v1/plugins/${encodeURIComponent(file.name.replace(/\.wasm$/, ""))}`;
  const version = await call(`${plugin}/versions`, { method: "POST", headers: { "Content-Type": "application/wasm" }, body: file });
  if (version && await call(`${plugin}/versions/${version.digest}/activate`, { method: "POST" })) say(`${file.name} serves\n`);
};
