// What Genkit's file store leaves on disk and takes for a turn, beside the
// benchmarks of host/threads. Run it where genkit is installed:
//
//   mkdir gk && cd gk && npm init -y && npm install genkit@1.42.0
//   cp .../host/threads/testdata/genkit/turns.mjs . && node turns.mjs
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { genkit, FileSessionStore } from 'genkit/beta';

const text = (n, letter) => letter.repeat(n);
const du = (dir) => fs.readdirSync(dir, { recursive: true })
  .map((f) => fs.statSync(path.join(dir, f)))
  .filter((s) => s.isFile())
  .reduce((n, s) => n + s.size, 0);

function agentOn(dir) {
  const ai = genkit({});
  const model = ai.defineModel({ name: 'parrot' }, async () => ({
    message: { role: 'model', content: [{ text: text(1000, 'a') }] }, finishReason: 'stop',
  }));
  const store = new FileSessionStore(dir);
  return { store, agent: ai.defineAgent({ name: 'clerk', model, store }) };
}

// Turns of a growing conversation.
{
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'genkit'));
  const { agent } = agentOn(dir);
  const chat = agent.chat({ sessionId: 's1' });
  const began = performance.now();
  for (let i = 0; i < 500; i++) await chat.send(text(200, 'q'));
  console.log(`500 turns: ${du(dir)} bytes on disk for ${500 * 1200} of text, ${((performance.now() - began) / 500).toFixed(1)} ms a turn`);
  fs.rmSync(dir, { recursive: true });
}

// A turn on a conversation of n messages.
for (const n of [10, 5000]) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'genkit'));
  const { agent, store } = agentOn(dir);
  const first = agent.chat({ sessionId: 's1' });
  await first.send(text(200, 'q'));
  const messages = Array.from({ length: n }, (_, i) => ({ role: i % 2 ? 'model' : 'user', content: [{ text: text(100, 'x') }] }));
  const snap = await store.getSnapshot({ sessionId: 's1' });
  await store.saveSnapshot(snap.snapshotId, (s) => ({ ...s, state: { ...s.state, messages } }));
  const chat = agent.chat({ sessionId: 's1' });
  await chat.send(text(200, 'q'));
  const before = du(dir), cpu = process.cpuUsage(), began = performance.now();
  const rounds = 5;
  for (let i = 0; i < rounds; i++) await chat.send(text(200, 'q'));
  const used = process.cpuUsage(cpu);
  console.log(`a turn on ${n} messages: ${Math.round((du(dir) - before) / rounds)} bytes written and kept, ` +
    `${((performance.now() - began) / rounds).toFixed(1)} ms, ${((used.user + used.system) / 1000 / rounds).toFixed(1)} ms of CPU`);
  fs.rmSync(dir, { recursive: true });
}
process.exit(0);
