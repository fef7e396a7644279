// The plugin that runs the scripts of models. Each call has an instance of its own, so that
// nothing of one script is there for the next; the host grants calls of tools and nothing
// else. What a script changes of the language's own objects is its own loss: the host holds
// the answer to its form and its bounds.
import { plugin, tool, result, Failure, callToolsJSON, idle } from "agenthost";

plugin({ name: "code", version: "1.0.0", permissions: { tools: ["*"] } });

const { parse, stringify, rawJSON } = JSON;
const { apply, ownKeys } = Reflect;
const { freeze, defineProperty, create, getPrototypeOf, getOwnPropertyDescriptor } = Object;
const { captureStackTrace } = Error;
const { get: frames, set: setFrames } = getOwnPropertyDescriptor(Error, "stackTraceLimit");
const AsyncFunction = getPrototypeOf(async () => {}).constructor;
const push = (list, item) => { list[list.length] = item; };

// exact returns a copy of what JSON says, in which numbers that a double does not hold are
// written as they were.
function exact(text) {
  if (!/\d{16}|\dE/i.test(text)) return parse(text);
  return parse(text, (_, v, { source }) => typeof v === "number" && stringify(v) !== source ? rawJSON(source) : v);
}

// plain is a number that a double does not hold, as code computes with it: a whole one is a
// BigInt, another the nearest double, if there is one.
function plain(text) {
  const near = Number(text);
  return /^-?\d+$/.test(text) ? BigInt(text) : near - near === 0 ? near : rawJSON(text);
}

// maxPlace is how many frames the place of a call has: of one that a function of the language
// makes, as in list.map(tools.add), the second is the script's.
const maxPlace = 2;

// maxMarks is how many calls that wait at one time note their places, which takes a quarter of
// a call. If those have one place, it is that of a loop, and of the calls behind them.
const maxMarks = 64;

// mark notes on a call its place, which is where the script calls a function.
function mark(call, called) {
  const all = apply(frames, Error, []);
  apply(setFrames, Error, [maxPlace]);
  captureStackTrace(call, called);
  apply(setFrames, Error, [all]);
}

// maxList is how many calls one list has at most: the host takes 1,024.
const maxList = 1000;

// ToolError is what the promise of a tool that failed is rejected with. Its stack is that of
// the call.
class ToolError extends Error {
  constructor(tool, message, code, stack) {
    super(message);
    defineProperty(this, "stack", { value: stack, writable: true, configurable: true });
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

// log collects the lines of the console, up to so many characters.
const lines = [];
let left = 0;
function log(...values) {
  if (left <= 0) return;
  let line = "";
  for (let i = 0; i < values.length && line.length <= left; i++) line += (i ? " " : "") + shown(values[i]);
  if (line.length > left) line = line.slice(0, left) + " … (the rest is left out)";
  left -= line.length + 1;
  push(lines, line);
}
const console = freeze({ log, debug: log, info: log, warn: log, error: log, table: log, trace: log });

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

function failureOf(error) {
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

// What one call has, of which an instance serves one. All of it that can be made before the call
// is, so that it is in the image that instances start from.
let args; // of the call
let settle; // its answer
let done = false, value, failed; // how the script has ended
let waiting = []; // calls of tools
let loop = ""; // the place of all calls that wait, if they have one

function invoke(name, whole) {
  const head = `{"name":${stringify(name)},"arguments":`;
  const called = (argument) => new Promise((resolve, reject) => {
    const text = argument === undefined ? "{}" : stringify(argument);
    if (text === undefined) throw new TypeError(`the arguments of ${name} are no JSON`);
    const call = { name, text: head + text + "}", whole, resolve, reject };
    if (waiting.length < maxMarks) mark(call, called);
    waiting[waiting.length] = call;
  });
  return called;
}

// nameOf returns the name of the tool that has a key, undefined if none has it. The names are the
// lines of args.tools, and no name is empty or has two lines.
function nameOf(key) {
  if (key !== "" && !key.includes("\n") && `\n${args.tools}\n`.includes(`\n${key}\n`)) return key;
  return args.keys?.find((pair) => pair[0] === key)?.[1];
}

// made returns the functions of tools, with that of a key if there is one: each is made when the
// script first looks for it.
function made(functions, key) {
  if (typeof key !== "string" || key in functions) return functions;
  const name = nameOf(key);
  if (name !== undefined) functions[key] = defineProperty(invoke(name), "whole", { value: invoke(name, true) });
  return functions;
}

function allMade(functions) {
  if (args.tools) args.tools.split("\n").forEach((key) => made(functions, key));
  args.keys?.forEach(([key]) => made(functions, key));
  return functions;
}

const refused = () => false;
const tools = new Proxy(create(null), {
  get: (functions, key) => functions[key] ?? made(functions, key)[key],
  has: (functions, key) => key in made(functions, key),
  ownKeys: (functions) => ownKeys(allMade(functions)),
  getOwnPropertyDescriptor: (functions, key) => getOwnPropertyDescriptor(made(functions, key), key),
  set: refused, defineProperty: refused, deleteProperty: refused, setPrototypeOf: refused, preventExtensions: refused,
});

// send calls the tools that the script waits for, as one list.
function send() {
  const list = waiting.splice(0, maxList);
  if (list[0].stack !== undefined) {
    loop = list[0].stack;
    for (let i = 1; i < list.length && i < maxMarks; i++) if (list[i].stack !== loop) loop = "";
  }
  let calls = "[" + list[0].text;
  for (let i = 1; i < list.length; i++) calls += "," + list[i].text;
  const results = callToolsJSON(calls + "]", plain);
  for (let i = 0; i < list.length; i++) {
    const { kind, content, code, media } = results[i], call = list[i];
    if (kind === "result") call.resolve(call.whole ? { content, media: media ?? [] } : content);
    else call.reject(new ToolError(call.name, shown(content), code, call.stack ?? loop));
  }
}

function answer() {
  if (value === undefined && !lines.length && args.keep === undefined) return { result: null };
  const text = value === undefined ? "null" : stringify(value) ?? "null";
  if (text.length > args.result_bytes) throw new Failure("resource_exhausted", `the result has ${text.length} characters, more than ${args.result_bytes}: return a summary of it`);
  const answer = { result: value === undefined ? null : exact(text) };
  if (lines.length) answer.console = lines.join("\n");
  const kept = args.keep === undefined ? undefined : stringify(args.keep);
  if (kept !== undefined) answer.keep = exact(kept);
  return answer;
}

// proceed is called when the script waits: it makes the calls that the script waits for, or ends it.
function proceed() {
  try {
    if (failed) settle.reject(failureOf(failed.error)); // calls that it has not awaited are not made
    else if (waiting.length) send();
    else if (!done) settle.reject(new Failure("failed_precondition", "the code waits for a promise that nothing settles: await tools, and return"));
    else settle.resolve(answer());
  } catch (error) {
    settle.reject(error instanceof Failure ? error : failureOf(error));
  }
  return true;
}

function settling(resolve, reject) { settle = { resolve, reject }; }
function returned(v) { done = true; value = v; }
function threw(error) { done = true; failed = { error }; }

tool({
  name: "run_code",
  description: "Runs JavaScript.",
  parameters: { type: "object" },
}, (given) => {
  args = given;
  left = args.console_bytes;
  const promise = new Promise(settling);
  idle(proceed);
  const { code, keep, catalog } = args;
  try {
    const main = catalog === undefined ? new AsyncFunction("tools", "console", "keep", code)(tools, console, keep)
      : new AsyncFunction("tools", "console", "keep", "search_tools", code)(tools, console, keep, searchOf(catalog));
    main.then(returned, threw);
  } catch (error) {
    threw(error);
  }
  return promise;
});
