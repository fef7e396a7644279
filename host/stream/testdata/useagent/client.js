// Renders useAgent of @inngest/use-agent, gives it the chunks that stand on stdin, a
// line each, and writes what an application then has of them.
import { createElement } from "react";
import { act, create } from "react-test-renderer";
import { AgentProvider, useAgent } from "@inngest/use-agent";
import { push } from "@inngest/realtime";

globalThis.IS_REACT_ACT_ENVIRONMENT = true;
const [userId, threadId] = process.argv.slice(2);

const transport = {
  sendMessage: async () => ({ success: true, threadId }),
  getRealtimeToken: async () => ({ token: "none" }),
  fetchThreads: async () => ({ threads: [], hasMore: false, total: 0 }),
  fetchHistory: async () => [],
  createThread: async () => ({ threadId, title: "" }),
  deleteThread: async () => {},
  approveToolCall: async () => {},
};

const seen = { events: [], results: [], ended: [] };
let agent;

function Conversation() {
  agent = useAgent({
    enableThreadValidation: false,
    onEvent: (event) => seen.events.push({ event: event.event, data: event.data }),
    onToolResult: (result) => seen.results.push(result),
    onStreamEnded: (end) => seen.ended.push(end),
  });
  return null;
}

let input = "";
for await (const piece of process.stdin) input += piece;
const chunks = input.split("\n").filter(Boolean).map((line) => JSON.parse(line));

const provided = { userId, transport, debug: false, children: createElement(Conversation) };
await act(async () => create(createElement(AgentProvider, provided)));
await act(async () => agent.setCurrentThreadId(threadId));
const statuses = [agent.status];
for (const chunk of chunks) {
  await act(async () => push([chunk]));
  if (statuses.at(-1) !== agent.status) statuses.push(agent.status);
}
process.stdout.write(JSON.stringify({ messages: agent.messages, status: agent.status, statuses, ...seen }), () => process.exit(0));
