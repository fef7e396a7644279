// Calls a host with the clients of OpenAI's API that programs have: openai, @openai/agents, ai.
//
//   node clients.mjs URL KEY...
//
// The keys are of tenants, each of which does everything at the same time as the others. A line
// of the output is a check, with the reason if it failed.

import { Agent, OpenAIProvider, Runner, setTracingDisabled, tool as agentTool } from '@openai/agents';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';
import { generateText, Output, stepCountIs, streamText, tool as aiTool } from 'ai';
import OpenAI from 'openai';
import { zodResponseFormat, zodTextFormat } from 'openai/helpers/zod';
import { z } from 'zod';

const [baseURL, ...keys] = process.argv.slice(2);
const model = 'desk';
const Count = z.object({ n: z.number() });
const user = (content) => [{ role: 'user', content }];

function want(condition, answer) {
  if (!condition) throw new Error(`answers ${JSON.stringify(answer)}`);
}

// refused returns the error of a call.
async function refused(call) {
  try {
    await call();
  } catch (error) {
    return error;
  }
  throw new Error('is not refused');
}

const locate = { type: 'function', function: { name: 'locate', parameters: { type: 'object', properties: {} }, function: () => 'at home', parse: JSON.parse } };
const approve = { type: 'function', function: { name: 'agenthost_approval', parameters: { type: 'object', properties: {} }, function: (ask) => JSON.stringify({ approve: ask.tool === 'refund' && ask.reason === 'money' }), parse: JSON.parse } };
const locateFunction = { type: 'function', name: 'locate', parameters: { type: 'object', properties: {} }, strict: false };

const checks = (key) => {
  const client = new OpenAI({ baseURL, apiKey: key, maxRetries: 0 });
  const hello = `${key} said hello`;
  return {
    'openai: models': async () => {
      const ids = [];
      for await (const m of client.models.list()) ids.push(m.id);
      want(ids.includes(model), ids);
      want((await client.models.retrieve(model)).id === model, ids);
    },
    'openai: chat': async () => {
      const a = await client.chat.completions.create({ model, messages: user('hello') });
      want(a.choices[0].message.content === hello && a.usage.total_tokens > 0 && a._request_id, a);
    },
    'openai: chat stream with usage': async () => {
      let text = '', usage;
      for await (const chunk of await client.chat.completions.create({ model, messages: user('hello'), stream: true, stream_options: { include_usage: true } })) {
        text += chunk.choices[0]?.delta.content ?? '';
        usage = chunk.usage ?? usage;
      }
      want(text === hello && usage.total_tokens > 0, { text, usage });
    },
    'openai: chat stream helper': async () => {
      const a = await client.chat.completions.stream({ model, messages: user('hello') }).finalChatCompletion();
      want(a.choices[0].message.content === hello && a.choices[0].finish_reason === 'stop', a);
    },
    'openai: chat parse': async () => {
      const a = await client.chat.completions.parse({ model, messages: user('count'), response_format: zodResponseFormat(Count, 'count') });
      want(a.choices[0].message.parsed.n === 7, a);
    },
    'openai: chat tool runner': async () => {
      const runner = client.chat.completions.runTools({ model, messages: user('where am I?'), tools: [locate] });
      want((await runner.finalContent()) === 'You are at home.', runner.messages);
    },
    'openai: chat tool runner that streams': async () => {
      const runner = client.chat.completions.runTools({ model, stream: true, messages: user('where am I?'), tools: [locate] });
      want((await runner.finalContent()) === 'You are at home.', runner.messages);
    },
    'openai: a sandboxed tool is not shown': async () => {
      const a = await client.chat.completions.create({ model, messages: user('sandbox') });
      want(a.choices[0].message.content === 'The sandbox has answered.' && !a.choices[0].message.tool_calls, a);
    },
    'openai: an approval': async () => {
      const runner = client.chat.completions.runTools({ model, messages: user('pay'), tools: [approve] });
      want((await runner.finalContent()) === 'paid', runner.messages);
    },
    'openai: a thread': async () => {
      const metadata = { thread_id: `thread-of-${key}` };
      const first = await client.chat.completions.create({ model, metadata, messages: user('hello') });
      const messages = [...user('hello'), first.choices[0].message, ...user('how many?')];
      const second = await client.chat.completions.create({ model, metadata, messages });
      const again = await client.chat.completions.create({ model, metadata, messages });
      want(second.choices[0].message.content === 'You have said 2 things.' && again.agenthost.replayed, [second, again]);
    },
    'openai: errors': async () => {
      const unknown = await refused(() => client.chat.completions.create({ model: 'nobody', messages: user('hello') }));
      want(unknown instanceof OpenAI.NotFoundError && unknown.code === 'model_not_found' && unknown.requestID, unknown);
      const many = await refused(() => client.chat.completions.create({ model, n: 2, messages: user('hello') }));
      want(many instanceof OpenAI.BadRequestError && many.param === 'n', many);
      const nobody = await refused(() => new OpenAI({ baseURL, apiKey: 'wrong', maxRetries: 0 }).models.list());
      want(nobody instanceof OpenAI.AuthenticationError, nobody);
      const broken = await refused(async () => { for await (const _ of await client.chat.completions.create({ model, stream: true, messages: user('break') })); });
      want(broken instanceof OpenAI.APIError, broken);
    },
    'openai: a canceled call': async () => {
      const stream = await client.chat.completions.create({ model, stream: true, messages: user('wait') });
      for await (const _ of stream) break; // which closes the connection
      const controller = new AbortController();
      const whole = refused(() => client.chat.completions.create({ model, messages: user('wait') }, { signal: controller.signal }));
      controller.abort();
      want((await whole) instanceof OpenAI.APIUserAbortError, await whole);
    },
    'openai: responses': async () => {
      const first = await client.responses.create({ model, input: 'hello', metadata: { order: '7' } });
      want(first.output_text === hello && first.metadata.order === '7', first);
      const second = await client.responses.create({ model, input: 'how many?', previous_response_id: first.id });
      want(second.output_text === 'You have said 2 things.', second);
      want((await client.responses.retrieve(second.id)).output_text === second.output_text, second);
      const items = [];
      for await (const item of client.responses.inputItems.list(second.id)) items.push(item);
      want(items.length === 1 && items[0].content[0].text === 'how many?', items);
      await client.responses.delete(second.id);
      want((await refused(() => client.responses.retrieve(second.id))) instanceof OpenAI.NotFoundError, second);
    },
    'openai: responses stream helper': async () => {
      let text = '';
      const stream = client.responses.stream({ model, input: 'hello' }).on('response.output_text.delta', (event) => { text += event.delta; });
      const a = await stream.finalResponse();
      want(text === hello && a.output_text === hello && a.usage.total_tokens > 0, a);
    },
    'openai: responses parse': async () => {
      const a = await client.responses.parse({ model, input: 'count', text: { format: zodTextFormat(Count, 'count') } });
      want(a.output_parsed.n === 7, a);
    },
    'openai: responses with functions': async () => {
      const a = await client.responses.create({ model, input: 'where am I?', tools: [locateFunction] });
      const call = a.output.find((item) => item.type === 'function_call');
      const b = await client.responses.create({ model, previous_response_id: a.id, input: [{ type: 'function_call_output', call_id: call.call_id, output: 'at home' }] });
      want(b.output_text === 'You are at home.', b);
    },
    'openai: responses in the background': async () => {
      let a = await client.responses.create({ model, background: true, input: 'wait' });
      want(a.status === 'in_progress', a);
      a = await client.responses.cancel(a.id);
      want(a.status === 'cancelled', a);
      const b = await client.responses.create({ model, background: true, stream: true, input: 'hello' });
      let last;
      for await (const event of b) last = event;
      want(last.type === 'response.completed', last);
      want((await client.responses.retrieve(last.response.id)).output_text === hello, last);
    },
    'ai: text, a stream and tools': async () => {
      const provider = createOpenAICompatible({ name: 'agenthost', baseURL, apiKey: key, includeUsage: true, supportsStructuredOutputs: true });
      const a = await generateText({ model: provider(model), prompt: 'hello', maxRetries: 0 });
      want(a.text === hello && a.usage.totalTokens > 0, a.text);
      let text = '';
      for await (const delta of streamText({ model: provider(model), prompt: 'hello', maxRetries: 0 }).textStream) text += delta;
      want(text === hello, text);
      const tools = {
        locate: aiTool({ inputSchema: z.object({}), execute: async () => 'at home' }),
        agenthost_approval: aiTool({ inputSchema: z.object({ kind: z.string(), tool: z.string(), arguments: z.any(), reason: z.string().optional() }), execute: async () => ({ approve: true }) }),
      };
      const b = await generateText({ model: provider(model), prompt: 'where am I?', tools, stopWhen: stepCountIs(3), maxRetries: 0 });
      want(b.text === 'You are at home.' && b.steps.length === 2, b.text);
      const c = await generateText({ model: provider(model), prompt: 'pay', tools, stopWhen: stepCountIs(3), maxRetries: 0 });
      want(c.text === 'paid', c.text);
      const d = await generateText({ model: provider(model), prompt: 'sandbox', maxRetries: 0 });
      want(d.text === 'The sandbox has answered.', d.text);
      const e = await generateText({ model: provider(model), prompt: 'count', output: Output.object({ schema: Count }), maxRetries: 0 });
      want(e.output.n === 7, e.text);
      const controller = new AbortController();
      const canceled = refused(() => generateText({ model: provider(model), prompt: 'wait', abortSignal: controller.signal, maxRetries: 0 }));
      controller.abort();
      await canceled;
    },
  };
};

const agentChecks = (key) => {
  const loop = async (useResponses) => {
    const openAIClient = new OpenAI({ baseURL, apiKey: key, maxRetries: 0 });
    const runner = new Runner({ modelProvider: new OpenAIProvider({ openAIClient, useResponses }), tracingDisabled: true });
    const run = (...args) => runner.run(...args);
    const locate = agentTool({ name: 'locate', description: 'Locates the user.', parameters: z.object({}), execute: async () => 'at home' });
    const approval = agentTool({ name: 'agenthost_approval', description: 'Approves.', strict: false, parameters: { type: 'object', properties: {}, required: [], additionalProperties: true }, execute: async () => ({ approve: true }) });
    const of = (name, tools = []) => new Agent({ name, instructions: 'Be kind.', model, tools });
    const a = await run(of('guide', [locate]), 'where am I?');
    want(a.finalOutput === 'You are at home.', a.finalOutput);
    const b = await run(of('payer', [approval]), 'pay');
    want(b.finalOutput === 'paid', b.finalOutput);
    const c = await run(of('tester'), 'sandbox');
    want(c.finalOutput === 'The sandbox has answered.', c.finalOutput);
    const d = await run(new Agent({ name: 'counter', model, outputType: Count }), 'count');
    want(d.finalOutput.n === 7, d.finalOutput);
    const streamed = await run(of('streamer', [locate]), 'where am I?', { stream: true });
    let text = '';
    for await (const part of streamed.toTextStream()) text += part;
    await streamed.completed;
    want(text.endsWith('You are at home.'), text);
    const e = await run(of('front'), 'hello');
    want(e.finalOutput === `${key} said hello`, e.finalOutput);
    const controller = new AbortController();
    const canceled = refused(() => run(of('waiter'), 'wait', { signal: controller.signal }));
    controller.abort();
    await canceled;
  };
  return {
    'agents: over chat completions': () => loop(false),
    'agents: over responses': () => loop(true),
  };
};

async function report(key, of) {
  for (const [check, call] of Object.entries(of)) {
    let failed = '';
    try {
      await call();
    } catch (error) {
      failed = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
    }
    console.log(JSON.stringify({ check: `${key}, ${check}`, failed }));
  }
}

setTracingDisabled(true);
await Promise.all(keys.map((key) => report(key, { ...checks(key), ...agentChecks(key) })));
