// One page without a framework. Everything that people and models wrote is put
// into it as text, never as HTML.

const $ = (id) => document.getElementById(id);

let thread = "";      // the conversation at hand; "" is one that has not begun
let messages = null;  // what was said in it; null: the server knows, this page does not
let running = null;   // what aborts the turn that is running

// ---- the list of conversations

async function showThreads() {
  const { threads, scripted } = await (await fetch("/api/threads")).json();
  $("scripted").hidden = !scripted;
  $("threads").replaceChildren(...threads.map((t) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = t.title || "(nothing yet)";
    if (t.id === thread) button.setAttribute("aria-current", "true");
    button.onclick = () => { location.hash = t.id; };
    const item = document.createElement("li");
    item.append(button);
    return item;
  }));
}

// open shows a conversation. The server knows what was said in it: from here on
// this page does, and says so with each turn.
async function open(id) {
  if (running) running.abort();
  thread = id;
  messages = id ? null : [];
  $("messages").replaceChildren();
  await showThreads();
  if (await load(id)) messages.forEach(showMessage);
}

// load asks the server for what was said in a conversation.
async function load(id) {
  if (!id) return false;
  const answer = await fetch("/api/threads/" + encodeURIComponent(id));
  const loaded = await answer.json();
  if (thread !== id) return false; // somebody was faster
  if (!answer.ok) {
    fail(loaded.error);
    return false;
  }
  messages = loaded.messages;
  return true;
}

// ---- one message

function add(className, text) {
  const p = document.createElement("div");
  p.className = className;
  p.textContent = text;
  follow(() => $("messages").append(p));
  return p;
}

// follow stays at the end while something is added, if that is where one is.
function follow(change) {
  const list = $("messages");
  const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 80;
  change();
  if (atEnd) list.scrollTop = list.scrollHeight;
}

const short = (value) => {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > 200 ? text.slice(0, 200) + "…" : text;
};

function showMessage(m) {
  for (const part of m.parts) {
    switch (part.type) {
      case "text": add("message " + m.role, part.text); break;
      case "tool_call": add("note", `${part.name} ${short(part.arguments)}`); break;
      case "tool_result": add("note", `→ ${short(part.content)}`); break;
    }
  }
}

function fail(error) {
  const p = add("note error", error ? error.message : "The connection broke.");
  const again = document.createElement("button");
  again.type = "button";
  again.textContent = "Try again";
  again.onclick = () => { p.remove(); messages = null; turn({ thread }); }; // the server has what was said
  p.append(again);
}

// ---- a turn

async function turn(request) {
  const abort = new AbortController();
  running = abort;
  $("send").disabled = true;
  $("stop").hidden = false;
  let answer = null; // the text that is being written
  let ended = false;
  const events = {
    "run.started": (d) => {
      if (thread === d.thread) return;
      thread = d.thread;
      history.replaceState(null, "", "#" + thread);
    },
    "text.delta": (d) => {
      answer ??= add("message assistant", "");
      follow(() => { answer.textContent += d.text; });
    },
    "message": (d) => {
      if (answer) answer.remove(); // whole now
      answer = null;
      messages?.push(d.message);
      showMessage(d.message);
    },
    "processor": (d) => { if (d.changed) add("note", `${d.processor}: ${d.messages_before} → ${d.messages_after} messages`); },
    "run.finished": (d) => {
      ended = true;
      if (d.error && !abort.signal.aborted) fail(d.error);
    },
  };
  try {
    const response = await fetch("/api/chat", {
      method: "POST", signal: abort.signal,
      headers: { "Content-Type": "application/json" }, body: JSON.stringify(request),
    });
    if (!response.ok) {
      fail((await response.json()).error);
      return;
    }
    for await (const ev of eventsOf(response.body)) {
      if (running === abort) events[ev.type]?.(ev.data);
    }
    if (!ended && running === abort) fail();
  } catch (error) {
    if (error.name !== "AbortError") fail(error);
    else if (running === abort) { add("note", "stopped"); messages = null; } // the server has what was finished
  } finally {
    if (running === abort) {
      running = null;
      $("send").disabled = false;
      $("stop").hidden = true;
      if (messages === null && ended) await load(thread);
      await showThreads();
    }
  }
}

// eventsOf reads server-sent events: blocks of lines with an empty one between.
async function* eventsOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    for (const block of blocks) {
      const data = block.split("\n").filter((l) => l.startsWith("data: ")).map((l) => l.slice(6)).join("\n");
      if (data) yield JSON.parse(data);
    }
  }
}

// ---- what people do

$("form").onsubmit = (event) => {
  event.preventDefault();
  const text = $("text").value.trim();
  if (!text || running) return;
  $("text").value = "";
  const message = { id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }], created_at: new Date().toISOString() };
  const request = { thread, id: message.id, text };
  // The first turn after a load that failed or was stopped leaves the history to
  // the server; every other one brings it along.
  if (messages?.length) request.messages = messages.slice();
  messages?.push(message);
  showMessage(message);
  turn(request);
};

$("text").onkeydown = (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    $("form").requestSubmit();
  }
};

$("stop").onclick = () => running?.abort();
$("new").onclick = () => { if (location.hash) location.hash = ""; else open(""); };
addEventListener("hashchange", () => open(decodeURIComponent(location.hash.slice(1))));
open(decodeURIComponent(location.hash.slice(1)));
