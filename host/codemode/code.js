// The plugin that runs the scripts of models. Each call has an instance of its own, so that
// nothing of one script is there for the next; the host grants calls of tools and nothing
// else. What a script changes of the language's own objects is its own loss: the host holds
// the answer to its form and its bounds.
import { plugin, tool, result, Failure, call, idle } from "agenthost";

plugin({ name: "code", version: "1.0.0", permissions: { tools: ["*"] } });

const { parse, stringify, rawJSON, isRawJSON } = JSON;
const { apply } = Reflect;
const { freeze, defineProperty, create, getPrototypeOf, keys } = Object;
const AsyncFunction = getPrototypeOf(async () => {}).constructor;
const push = (list, item) => { list[list.length] = item; };

// exact returns a copy of what JSON says, in which numbers that a double does not hold are
// written as they were.
function exact(text) {
  if (!/\d{16}|\dE/i.test(text)) return parse(text);
  return parse(text, (_, v, { source }) => typeof v === "number" && stringify(v) !== source ? rawJSON(source) : v);
}

// plain makes numbers that a double does not hold what code computes with: whole ones are
// BigInts, others the nearest double, if there is one.
function plain(v) {
  if (typeof v !== "object" || v === null) return v;
  if (isRawJSON(v)) {
    const text = v.rawJSON, near = Number(text);
    return /^-?\d+$/.test(text) ? BigInt(text) : near - near === 0 ? near : v;
  }
  for (const key of keys(v)) {
    const was = v[key], is = plain(was);
    if (is !== was) defineProperty(v, key, { value: is, writable: true, enumerable: true, configurable: true });
  }
  return v;
}

// maxList is how many calls one list has at most: the host takes 1,024.
const maxList = 1000;

// ToolError is what the promise of a tool that failed is rejected with. Its stack is that of
// the call.
class ToolError extends Error {
  constructor(tool, message, code, place) {
    super(message);
    defineProperty(this, "stack", { value: place.stack, writable: true, configurable: true });
    this.name = "ToolError";
    this.tool = tool;
    this.code = code;
  }
}

// shown is a value as console shows it.
function shown(value) {
  if (typeof value === "string") return value;
  try {
    if (value instanceof Error) return `${value.name}: ${value.message}`;
    return stringify(value) ?? String(value);
  } catch {
    return typeof value;
  }
}

// consoleOf collects lines, up to a number of characters.
function consoleOf(lines, most) {
  let left = most;
  const log = (...values) => {
    if (left <= 0) return;
    let line = "";
    for (let i = 0; i < values.length && line.length <= left; i++) line += (i ? " " : "") + shown(values[i]);
    if (line.length > left) line = line.slice(0, left) + " … (the rest is left out)";
    left -= line.length + 1;
    push(lines, line);
  };
  return freeze({ log, debug: log, info: log, warn: log, error: log, table: log, trace: log });
}

// where finds the place of an error in the script, whose first line is the third of the
// function that it becomes. Lines of a JSON that it reads, or of an eval, are none of its own.
function where(error) {
  const frames = String(error?.stack ?? "").split("\n");
  for (let i = 0; i < frames.length; i++) {
    const at = /<(?:input|anonymous|evalScript)>:(\d+)(?::(\d+))?/.exec(frames[i]);
    if (!at || at[1] < 3 || frames[i].includes("<eval>") || frames[i + 1]?.includes("at parse (native)")) continue;
    return `, at line ${at[1] - 2}${at[2] ? `, column ${at[2]}` : ""} of the code`;
  }
  return "";
}

function failureOf(error, lines) {
  let text;
  try {
    text = error instanceof Error ? `${error.name}: ${error.message}${where(error)}` : `the code threw ${shown(error)}`;
  } catch {
    text = "the code threw what cannot be shown";
  }
  text = text.slice(0, 2000);
  const last = lines.length ? `; console: ${lines.join(" | ")}` : "";
  return new Failure("invalid_argument", text.replaceAll("\n", " | ") + last.replaceAll("\n", " | "));
}

// search finds tools by the words of a query, the best first.
function searchOf(catalog) {
  let tools;
  return (query) => {
    tools ??= parse(catalog);
    const words = String(query).toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [];
    const rated = tools.map((t, at) => {
      const name = t.name.toLowerCase(), text = t.declaration.toLowerCase();
      let rate = 0;
      for (const w of words) rate += name.includes(w) ? 3 : text.includes(w) ? 1 : 0;
      return { t, at, rate };
    });
    return rated.filter((r) => r.rate > 0 || words.length === 0).sort((a, b) => b.rate - a.rate || a.at - b.at).slice(0, 20).map((r) => r.t);
  };
}

tool({
  name: "run_code",
  description: "Runs JavaScript.",
  parameters: { type: "object" },
}, (args) => {
  const lines = [], waiting = [];
  const out = consoleOf(lines, args.console_bytes);
  const invoke = (name, whole) => (argument) => new Promise((resolve, reject) => {
    const text = stringify(argument === undefined ? {} : argument);
    if (text === undefined) throw new TypeError(`the arguments of ${name} are no JSON`);
    push(waiting, { name, arguments: exact(text), whole, resolve, reject, place: new Error() });
  });
  const tools = create(null);
  for (const [key, name] of args.tools) defineProperty(tools, key, { value: defineProperty(invoke(name), "whole", { value: invoke(name, true) }), enumerable: true });
  freeze(tools);
  const given = { tools, console: out, keep: args.keep };
  if (args.catalog !== undefined) given.search_tools = searchOf(args.catalog);

  // send calls the tools that the script waits for, as one list.
  function send() {
    const list = waiting.splice(0, maxList);
    const { results } = call("tool.call", { calls: list.map(({ name, arguments: a }) => ({ name, arguments: a })) });
    for (let i = 0; i < list.length; i++) {
      const r = results[i];
      if (r.kind === "result") {
        const content = plain(r.content);
        list[i].resolve(list[i].whole ? { content, media: r.media ?? [] } : content);
      } else list[i].reject(new ToolError(list[i].name, shown(r.content), r.code, list[i].place));
    }
  }

  return new Promise((resolve, reject) => {
    let done = false, value, failed;
    idle(() => {
      try {
        if (failed) reject(failureOf(failed.error, lines)); // calls that it has not awaited are not made
        else if (waiting.length) send();
        else if (!done) reject(new Failure("failed_precondition", "the code waits for a promise that nothing settles: await tools, and return"));
        else {
          const text = stringify(value) ?? "null";
          if (text.length > args.result_bytes) throw new Failure("resource_exhausted", `the result has ${text.length} characters, more than ${args.result_bytes}: return a summary of it`);
          const answer = { result: exact(text) };
          if (lines.length) answer.console = lines.join("\n");
          const keep = stringify(given.keep);
          if (keep !== undefined) answer.keep = exact(keep);
          resolve(result(answer));
        }
      } catch (error) {
        reject(error instanceof Failure ? error : failureOf(error, lines));
      }
      return true;
    });
    let main;
    try {
      main = apply(new AsyncFunction(...Object.keys(given), args.code), undefined, Object.values(given));
    } catch (error) {
      done = true;
      failed = { error };
      main = undefined;
    }
    main?.then((v) => { done = true; value = v; }, (error) => { done = true; failed = { error }; });
  });
});
