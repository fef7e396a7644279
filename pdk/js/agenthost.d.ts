// Types of the module "agenthost", which scripts import. README.md has a plugin in ten
// lines, and pdk/ABI.md is the contract behind it.

/** Any value of JSON. An integer that a number cannot hold is a bigint. */
export type JSONValue = null | boolean | number | bigint | string | JSONValue[] | { [name: string]: JSONValue };

/** A JSON Schema. It refers to no other document. */
export type Schema = boolean | { [keyword: string]: unknown };

/** The code of an error, which says what a caller can do about it. */
export type Code =
  | "invalid_argument" | "unauthenticated" | "permission_denied" | "not_found" | "already_exists"
  | "conflict" | "resource_exhausted" | "failed_precondition" | "deadline_exceeded" | "canceled"
  | "unavailable" | "unimplemented" | "data_loss" | "internal";

/**
 * An error with a code. One that a tool throws is a failed result, whose message the model
 * reads. Whatever else is thrown is code "internal", and its stack is in the plugin's log.
 */
export class Failure extends Error {
  constructor(code: Code, message: string, options?: { hint?: string; retryable?: boolean; cause?: unknown });
  readonly code: Code;
  /** What to do about it. */
  readonly hint?: string;
  /** The same call may succeed later. */
  readonly retryable?: boolean;
}

// ---- What a plugin offers. All of it is registered while the script starts. ----

/** Says what the plugin is and asks for. Without it the plugin is named "plugin". */
export function plugin(about: {
  name: string;
  version?: string;
  description?: string;
  permissions?: Permissions;
  /** Texts and files that clients of the host read. Each has a text, or the tool that reads it. */
  resources?: { uri: string; name: string; title?: string; description?: string; media_type?: string; text?: string; tool?: string }[];
  /** Texts that people choose in a client of the host. Each has a text, or the tool that writes it. */
  prompts?: { name: string; title?: string; description?: string; arguments?: { name: string; description?: string; required?: boolean }[]; text?: string; tool?: string }[];
  /** Host operations that it cannot do without. */
  requires?: string[];
  /** Calls that a new version must answer before it serves. */
  health?: { export: "tool" | "process" | "route" | "provide" | "observe"; input: JSONValue }[];
}): void;

/** Permissions are requests: the operator grants some of them. */
export interface Permissions {
  http?: { scheme?: "https" | "http"; host: string; port?: number; methods?: string[] }[];
  kv?: "none" | "read" | "write";
  secrets?: { name: string; hosts: string[] }[];
  model?: boolean;
  messages?: boolean;
  queue?: boolean;
  clock?: boolean;
  random?: boolean;
  state?: "none" | "read" | "write";
  /** Tools of the agent at work that the plugin's tools may call; "*" is each of them. */
  tools?: string[];
  /** Operations of the host's own program, which `call` runs by name. */
  operations?: string[];
}

/**
 * A tool that a model calls. Its function is given the arguments, which satisfy the schema
 * `parameters`, and returns what the model reads: any JSON, or `result` or `interrupt`, or a
 * promise of one.
 */
export function tool<A = any>(spec: {
  /** Letters, digits, _ and -, at most 64. */
  name: string;
  description?: string;
  parameters?: Schema;
  /** Of what it returns. */
  result?: Schema;
  annotations?: { read_only?: boolean; destructive?: boolean; idempotent?: boolean; needs_approval?: boolean };
}, run: (args: A, call: ToolCall) => unknown): void;

export interface ToolCall {
  tool: string;
  arguments?: any;
  call_id?: string;
  /** The same whenever this very call is made again. */
  idempotency_key?: string;
  /** From 1. Above 1 an earlier attempt may have taken effect. */
  attempt?: number;
  /** The provider that contributed the tool, if one did. */
  provider?: string;
  scope: Scope;
  /** The network's state and its revision, with the permission state. */
  state?: { [name: string]: JSONValue };
  state_revision?: number;
  config?: any;
  /** A person's answers to this call's interrupts, and the last of them. */
  resumed?: { interrupt_id: string; answer: JSONValue }[];
  answer?: any;
}

/** For whom a call is made. Entries that do not apply are absent. */
export interface Scope { tenant?: string; thread?: string; run?: string; network?: string; agent?: string }

/** A result with more than content. */
export function result(content: unknown, more?: {
  /** RFC 6902 operations on the network's state; needs `state: "write"`. */
  state?: PatchOperation[];
  /** Images, sounds and files of the result: parts of type media, for models and clients that take them. */
  media?: Part[];
  artifacts?: { name?: string; parts: Part[]; metadata?: JSONValue }[];
  /** Agents of the network to run next. */
  schedule?: string[];
}): Result;

/** Asks a person. The tool is called again with the answer as `call.answer`. */
export function interrupt(reason: string, data?: unknown): Result;

/** What `result` and `interrupt` return. */
export interface Result { readonly answer: unknown }

export interface PatchOperation { op: "add" | "remove" | "replace" | "move" | "copy" | "test"; path: string; from?: string; value?: unknown }

/** A processor shapes the conversation that a model call is sent; what is stored stays. */
export function processor(spec: { name: string; input?: "messages"; config?: Schema }, run: (view: MessagesView, config: any) => Processed): void;
export function processor(spec: { name: string; input: "outline"; tokens?: { encoding: string } | { config_key: string } | { model: true }; config?: Schema },
  run: (view: OutlineView, config: any) => Processed): void;

/** Edits, besides those that the view's methods made; or the whole new view, without any. */
export type Processed = Edited | Promise<Edited>;
export type Edited = void | Edit[] | { edits?: Edit[]; report?: unknown } | { messages: Message[]; report?: unknown };

export type Edit =
  | { drop: [from: number, to: number] } | { drop_part: [message: number, part: number] }
  | { insert: { at: number; message: Message } } | { replace: { at: number; message: Message } };

/** The methods make edits; all indices are those of the conversation that was given. */
export interface View {
  processor: string;
  config?: any;
  scope: Scope;
  /** The model that the conversation is for. */
  model: string;
  /** Where the rounds begin that the agent about to be asked has made itself. */
  own_from?: number;
  /** Shown on the run, unless the function returns one. */
  report?: unknown;
  /** Drops the messages from `from` to before `to`, which is the next one if absent. */
  drop(from: number, to?: number): void;
  dropPart(message: number, part: number): void;
  insert(at: number, message: Message): void;
  replace(at: number, message: Message): void;
}

export interface MessagesView extends View {
  messages: Message[];
  /**
   * Calls f with a copy of every message, and replaces those that f changes or returns
   * another for. null drops a message. What f leaves alone reaches the model byte for byte.
   */
  map(f: (message: Message, index: number) => Message | null | void): void;
  /** Maps text wherever it stands: in text, reasoning, arguments, content and values. */
  mapText(f: (text: string) => string): void;
}

export interface OutlineView extends View { outline: Outline }

/** A conversation without its content: one entry a message in every column. */
export interface Outline {
  count: number;
  /** One letter a message: s system, u user, a assistant, t tool. */
  roles: string;
  bytes: number[];
  chars: number[];
  tokens?: number[];
  encoding?: string;
  parts: number[];
  /** Messages that may be edited but not dropped. */
  keep?: number[];
  own_from?: number;
  tools: { message: number; part: number; kind: "call" | "result"; id: string; name: string }[];
}

/** A router says which agent of a network runs next: one, several, or none to end. */
export function router(spec: { name: string; config?: Schema }, run: (request: RouteRequest, config: any) => Routed | Promise<Routed>): void;

export type Routed = void | null | string | string[] | { next?: string[]; delegate?: string; reason?: string };

export interface RouteRequest {
  router: string;
  config?: any;
  scope: Scope;
  /** What the user said in this turn. */
  input?: Message;
  /** Agent runs so far in this run. */
  call_count: number;
  /** Agents that wait to run. */
  stack: string[];
  agents: { name: string; description?: string }[];
  state?: { [name: string]: JSONValue };
  last?: { agent: string; messages?: Message[]; tool_results?: Part[]; finish_reason?: string };
  outline?: Outline;
}

/** A provider adds instructions, messages and tools before an agent runs, and may observe what came of it. */
export function provider(spec: { name: string; config?: Schema }, provide: (request: ProvideRequest, config: any) => Provided | Promise<Provided>,
  observe?: (request: ObserveRequest, config: any) => void | Promise<void>): void;

export type Provided = void | string | { instructions?: string; messages?: Message[]; store?: boolean; tools?: string[] };

export interface ProvideRequest { provider: string; config?: any; scope: Scope; messages: Message[] }
export interface ObserveRequest extends ProvideRequest { responses?: Message[]; error?: { code: Code; message: string } }

// ---- Messages ----

/**
 * A message. Fields and types of parts that a script does not know stay in it. A number of
 * a message that JavaScript would change, such as 1.0 or one beyond 2^53, is what
 * JSON.rawJSON makes: it is written as it was read.
 */
export interface Message {
  id?: string;
  role: "system" | "user" | "assistant" | "tool";
  agent?: string;
  parts?: Part[];
  created_at?: string;
  metadata?: { [name: string]: unknown } | null;
  [unknown: string]: unknown;
}

export interface Part { type: string; [field: string]: any }

/** The text of a message's text parts. */
export function textOf(message: Message): string;

// ---- What the host does for a plugin. All of it waits; errors are Failures. ----

/** Runs a host operation by its name: see pdk/ABI.md, section 15. Bytes are strings in base64. */
export function call(operation: string, request?: unknown): any;

/**
 * `call`, with bytes that are Uint8Arrays in the request and in what it returns: of the operations
 * `artifact.read`, `artifact.write`, `http.fetch`, `kv.get`, `kv.list` and `kv.put`. None of them is
 * written as base64, but in a plugin that is packed for any host.
 */
export function callBytes(operation: string, request?: { [member: string]: unknown }): any;

/**
 * Calls tools of the agent at work, which the permission `tools` names: at the same time,
 * and answered in the order of the calls. One that fails, or is denied, is an answer of kind
 * "error", whose content is the sentence that a model would read. Where one asks a person, the
 * call ends here, and begins again when there is an answer: it must make the same calls then.
 */
export function callTools(calls: { name: string; arguments?: unknown }[]):
  { kind: "result" | "error"; content: any; is_error?: boolean; code?: string; media?: Part[] }[];

/** Calls one tool as `callTools` does, and returns the content of its result. A call that fails is a Failure. */
export function callTool(name: string, args?: unknown): any;

/**
 * `callTools` for an array that is JSON already. `number` may say what becomes of a number of the
 * answers that JavaScript would change, given its text.
 */
export function callToolsJSON(calls: string, number?: (text: string) => unknown): ReturnType<typeof callTools>;

/**
 * Has `run` called in this call whenever its answer waits for a promise and nothing else is
 * left to run: it settles promises, and returns whether it has. Work that the call has asked for
 * in several places is so done together.
 */
export function idle(run: () => boolean): void;

/** Keys and values of the plugin and the calling tenant. */
export const kv: {
  /** The text of a key, undefined if it is not there. */
  get(key: string): string | undefined;
  getItem(key: string): { bytes: Uint8Array; revision: number } | undefined;
  /** Returns the new revision. With `revision` the key must be at it, 0: absent. */
  put(key: string, value: string | Uint8Array, options?: { revision?: number; /** milliseconds */ ttl?: number }): number;
  delete(key: string, options?: { revision?: number }): void;
  /** With `values` entries have their values as text, with `bytes` as bytes: a value that is no text needs that. */
  list(query?: { prefix?: string; after?: string; limit?: number; values?: boolean; bytes?: boolean }):
    { entries: { key: string; revision: number; value?: string; bytes?: Uint8Array }[]; next?: string };
};

/** The network's custom state. */
export const state: {
  get(path?: string): { value: any; revision: number };
  /** Applies all operations or none, and returns the new revision. */
  patch(patch: PatchOperation[], options?: { revision?: number }): number;
};

/** What one provider keeps in a thread. */
export const providerState: {
  get(): { value: any; revision: number };
  put(value: unknown, options?: { revision?: number }): number;
};

/** Sends a request. A secret is filled in by the host; a script never sees it. */
export function fetch(url: string, options?: {
  method?: string;
  headers?: { [name: string]: string | { secret: string; prefix?: string } };
  body?: string | Uint8Array;
  /** Milliseconds. */
  timeout?: number;
  /** How many redirects are followed; none if absent. */
  redirects?: number;
}): Response;

/** Any status is a response. */
export interface Response {
  readonly status: number;
  readonly ok: boolean;
  readonly url?: string;
  readonly headers: { name: string; value: string }[];
  header(name: string): string | undefined;
  text(): string;
  json(): any;
  bytes(): Uint8Array;
}

export const artifacts: {
  /** Returns the artifact's digest. */
  write(name: string, data: string | Uint8Array, options?: { type?: string }): string;
  read(name: string): { bytes: Uint8Array; type: string; digest: string };
};

/** Does part of a tool's work once in a run: f is not called again where it is done. */
export function step<T>(name: string, f: () => T | Promise<T>, options?: { idempotent?: boolean }): T | Promise<T>;

/**
 * Writes a line to the plugin's log with attributes: `log.info("sent", { order: 42 })` writes
 * "sent order=42". `console` writes values without names.
 */
export const log: {
  debug(message: string, attributes?: { [name: string]: unknown }): void;
  info(message: string, attributes?: { [name: string]: unknown }): void;
  warn(message: string, attributes?: { [name: string]: unknown }): void;
  error(message: string, attributes?: { [name: string]: unknown }): void;
};

/** Sends an event to the run's stream while the call runs. */
export function emit(kind: string, data?: unknown): void;
export function progress(message: string, options?: { done?: number; total?: number }): void;

/** Messages of the view that a processor or a router was given an outline of. */
export function messages(...indices: number[]): Message[];

export function countTokens(texts: string[], options?: { encoding?: string }): { tokens: number[]; encoding: string; exact: boolean };

/** Asks a model. */
export function generate(question: { messages?: Message[]; text?: string; instructions?: string; model?: string; maxTokens?: number }):
  { text: string; message: Message; usage: { input_tokens: number; output_tokens: number }; finishReason: string };

/** Leaves work for after the turn: the tool `handler` is called with the payload. */
export function send(handler: string, payload?: unknown, options?: { key?: string; /** milliseconds */ delay?: number }): string;
