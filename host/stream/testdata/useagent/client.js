// Renders useAgent of @inngest/use-agent for each line on stdin, gives it the line's list of
// chunks, and writes a line with what an application then has of them.
import { createInterface } from "node:readline";
import { createElement } from "react";
import { act, create } from "react-test-renderer";
import { AgentProvider, useAgent } from "@inngest/use-agent";
import { forget, push } from "@inngest/realtime";

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

async function follow(chunks) {
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

  const provided = { userId, transport, debug: false, children: createElement(Conversation) };
  let rendered;
  await act(async () => { rendered = create(createElement(AgentProvider, provided)); });
  await act(async () => agent.setCurrentThreadId(threadId));
  const statuses = [agent.status];
  for (const chunk of chunks) {
    await act(async () => push([chunk]));
    if (statuses.at(-1) !== agent.status) statuses.push(agent.status);
  }
  const state = JSON.stringify({ messages: agent.messages, status: agent.status, statuses, ...seen });
  await act(async () => rendered.unmount());
  forget();
  return state;
}

for await (const line of createInterface({ input: process.stdin })) {
  process.stdout.write((await follow(JSON.parse(line))) + "\n");
}
process.exit(0);
