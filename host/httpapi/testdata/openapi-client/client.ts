// Calls each operation of a host through the generated client, and checks its answer.
//
//   node client.js URL ADMIN_KEY
//
// Each line of the output is an operation that was called, with the reason if it failed.
// A route that is added to the host wants an entry in calls.

import { readFileSync } from 'node:fs';

import * as sdk from './generated/sdk.gen';
import { createClient } from './generated/client';

const [baseUrl, adminKey] = process.argv.slice(2);

const as = (key: string) => createClient({ baseUrl, auth: key });
const admin = as(adminKey);
let tenant = admin; // a tenant's client, once there is a key
let keyId = '';

const names = { tenant: 'initech', thread: 'orders', copy: 'orders-copy', session: 'chat' };
const made = { run: '', response: '', message: '', digest: '', branch: '', adminKey: '', snapshot: '', turn: '', note: '', versions: [] as string[], shared: [] as string[] };

function want(condition: unknown, answer: unknown): asserts condition {
  if (!condition) throw new Error(`answers ${JSON.stringify(answer)}`);
}

// ok returns the data of an answer without an error.
async function ok<T>(call: Promise<{ data?: T; error?: unknown; response?: Response }>): Promise<NonNullable<T>> {
  const { data, error, response } = await call;
  want(error === undefined && response?.ok && data != null, error ?? response?.status);
  return data;
}

// done checks an answer without a body.
async function done(call: Promise<{ error?: unknown; response?: Response }>) {
  const { error, response } = await call;
  want(error === undefined && response?.status === 204, error ?? response?.status);
}

const inTenant = { tenant: names.tenant };
const inThread = { thread: names.thread };
const inPlugin = { plugin: 'notes' };
const version = (n: number) => ({ ...inPlugin, version: made.versions[n] });
const inShared = { plugin: 'everyones' };
const shared = (n: number) => ({ ...inShared, version: made.shared[n] });
const ann = { user: 'ann' };

// The calls, in an order in which each one finds what it needs.
const calls: [keyof typeof sdk, () => Promise<void>][] = [
  ['health', async () => { const a = await ok(sdk.health({ client: admin })); want(a.status === 'ok', a); }],
  ['ready', async () => { const a = await ok(sdk.ready({ client: admin })); want(a.status === 'ready', a); }],
  ['openapi', async () => { const a = await ok(sdk.openapi({ client: admin })); want((a as { openapi: string }).openapi === '3.1.0', a); }],
  ['metrics', async () => { const a = await ok(sdk.metrics({ client: admin, parseAs: 'text' })); want(String(a).includes('agenthost_'), a); }],

  // Administrators make a tenant and its key.
  ['createTenant', async () => {
    const plan = { usage: { limits: [{ resource: 'tokens', amount: 1_000_000, window: 'month' }] } };
    const a = await ok(sdk.createTenant({ client: admin, body: { id: names.tenant, name: 'Initech', plan } }));
    want(a.status === 'active' && a.plan.usage?.limits?.[0].amount === 1_000_000, a);
  }],
  ['listTenants', async () => { const a = await ok(sdk.listTenants({ client: admin })); want(a.tenants?.some((t) => t?.id === names.tenant), a); }],
  ['getTenant', async () => { const a = await ok(sdk.getTenant({ client: admin, path: inTenant })); want(a.name === 'Initech', a); }],
  ['changeTenant', async () => {
    const { response } = await sdk.getTenant({ client: admin, path: inTenant });
    const tag = response?.headers.get('ETag') ?? '';
    const a = await ok(sdk.changeTenant({ client: admin, path: inTenant, body: { name: 'Initech Ltd.' }, headers: { 'If-Match': tag } }));
    want(a.name === 'Initech Ltd.', a);
    const again = await sdk.changeTenant({ client: admin, path: inTenant, body: { name: 'Late' }, headers: { 'If-Match': tag } });
    want(again.response?.status === 412, again);
  }],
  ['suspendTenant', async () => { const a = await ok(sdk.suspendTenant({ client: admin, path: inTenant, body: { reason: 'unpaid' } })); want(a.status === 'suspended', a); }],
  ['resumeTenant', async () => { const a = await ok(sdk.resumeTenant({ client: admin, path: inTenant })); want(a.status === 'active', a); }],
  ['createTenantKey', async () => {
    const scopes = ['runs:read', 'runs:write', 'threads:read', 'threads:write', 'usage:read', 'tokens:mint', 'memory:read', 'memory:write', 'plugins:read', 'plugins:write', 'plugins:grant'];
    const a = await ok(sdk.createTenantKey({ client: admin, path: inTenant, body: { name: 'backend', scopes } }));
    want(a.credential.startsWith('ah_live_'), a);
    keyId = a.key?.id ?? '';
    tenant = as(a.credential);
  }],
  ['listTenantKeys', async () => { const a = await ok(sdk.listTenantKeys({ client: admin, path: inTenant })); want(a.keys?.[0]?.id === keyId, a); }],
  ['getTenantKey', async () => { const a = await ok(sdk.getTenantKey({ client: admin, path: { ...inTenant, key: keyId } })); want(a.name === 'backend', a); }],
  ['rotateTenantKey', async () => {
    const a = await ok(sdk.rotateTenantKey({ client: admin, path: { ...inTenant, key: keyId }, body: { overlap: '1h' } }));
    want(a.key?.replaces, a);
    tenant = as(a.credential);
  }],
  ['createAdminKey', async () => {
    const a = await ok(sdk.createAdminKey({ client: admin, body: { name: 'billing', scopes: ['usage:read'], expires: '2100-01-01T00:00:00Z' } }));
    want(a.credential.startsWith('ah_admin_') && a.key, a);
    made.adminKey = a.key.id;
  }],
  ['listAdminKeys', async () => { const a = await ok(sdk.listAdminKeys({ client: admin })); want(a.keys?.some((k) => k?.id === made.adminKey), a); }],
  ['getAdminKey', async () => { const a = await ok(sdk.getAdminKey({ client: admin, path: { key: made.adminKey } })); want(a.name === 'billing', a); }],
  ['rotateAdminKey', async () => { const a = await ok(sdk.rotateAdminKey({ client: admin, path: { key: made.adminKey }, body: {} })); want(a.credential.startsWith('ah_admin_'), a); }],
  ['revokeAdminKey', () => done(sdk.revokeAdminKey({ client: admin, path: { key: made.adminKey } }))],

  // The tenant has runs.
  ['me', async () => { const a = await ok(sdk.me({ client: tenant })); want(a.tenant === names.tenant && a.key === keyId, a); }],
  ['listTargets', async () => { const a = await ok(sdk.listTargets({ client: tenant })); want(a.targets?.includes('clerk'), a); }],
  ['createThread', async () => { const a = await ok(sdk.createThread({ client: tenant, body: { id: names.thread, title: 'Orders' } })); want(a.id === names.thread, a); }],
  ['startRun', async () => {
    const a = await ok(sdk.startRun({ client: tenant, body: { target: 'clerk', thread: names.thread, text: 'where is order 1042' } }));
    want(a.status === 'completed' && a.text === 'you said where is order 1042', a);
    made.run = a.id;
  }],
  ['getRun', async () => { const a = await ok(sdk.getRun({ client: tenant, path: { run: made.run } })); want(a.id === made.run && a.usage, a); }],
  ['listRuns', async () => { const a = await ok(sdk.listRuns({ client: tenant, query: { thread: names.thread } })); want(a.runs?.[0]?.id === made.run, a); }],
  ['runEvents', async () => {
    const { stream } = await sdk.runEvents({ client: tenant, path: { run: made.run }, query: { from: 0 } });
    const kinds: string[] = [];
    for await (const event of stream) kinds.push((event as { type: string }).type);
    want(kinds.at(-1) === 'run.finished', kinds);
  }],
  ['cancelRun', async () => {
    const started = await ok(sdk.startRun({ client: tenant, body: { target: 'stuck', text: 'go' }, headers: { Prefer: 'respond-async' } }));
    want(started.status === 'running', started);
    const a = await ok(sdk.cancelRun({ client: tenant, path: { run: started.id } }));
    want(a.id === started.id, a);
  }],
  ['answerRun', async () => {
    const asked = await ok(sdk.startRun({ client: tenant, body: { target: 'asker', text: 'I want my money' } }));
    const question = asked.questions?.[0];
    want(asked.status === 'interrupted' && question, asked);
    const a = await ok(sdk.answerRun({ client: tenant, path: { run: asked.id }, body: { answers: [{ question: question.id, decision: 'approve' }] } }));
    want(a.text === 'refunded', a);
  }],

  // Its targets as models of OpenAI's API.
  ['listModels', async () => { const a = await ok(sdk.listModels({ client: tenant })); want(a.data?.some((m) => m.id === 'clerk'), a); }],
  ['getModel', async () => { const a = await ok(sdk.getModel({ client: tenant, path: { target: 'clerk' } })); want(a.id === 'clerk', a); }],
  ['createChatCompletion', async () => {
    const a = await ok(sdk.createChatCompletion({ client: tenant, body: { model: 'clerk', messages: [{ role: 'user', content: 'hello' }] } }));
    want(a.choices[0].finish_reason === 'stop' && a.choices[0].message.content, a);
  }],

  ['createResponse', async () => {
    const a = await ok(sdk.createResponse({ client: tenant, body: { model: 'clerk', input: 'hello', conversation: 'responses' } }));
    want(a.status === 'completed' && a.output.length === 1, a);
    made.response = a.id;
  }],
  ['getResponse', async () => { const a = await ok(sdk.getResponse({ client: tenant, path: { response: made.response } })); want(a.id === made.response, a); }],
  ['responseInputItems', async () => { const a = await ok(sdk.responseInputItems({ client: tenant, path: { response: made.response } })); want(a.data?.length === 1, a); }],
  ['cancelResponse', async () => { const a = await ok(sdk.cancelResponse({ client: tenant, path: { response: made.response } })); want(a.status === 'completed', a); }],
  ['deleteResponse', async () => { const a = await ok(sdk.deleteResponse({ client: tenant, path: { response: made.response } })); want(a.deleted, a); }],

  // Its threads.
  ['listThreads', async () => { const a = await ok(sdk.listThreads({ client: tenant })); want(a.threads?.some((t) => t?.id === names.thread), a); }],
  ['getThread', async () => { const a = await ok(sdk.getThread({ client: tenant, path: inThread })); want(a.title === 'Orders', a); }],
  ['updateThread', async () => { const a = await ok(sdk.updateThread({ client: tenant, path: inThread, body: { title: 'All orders' } })); want(a.title === 'All orders', a); }],
  ['threadMessages', async () => {
    const a = await ok(sdk.threadMessages({ client: tenant, path: inThread, query: { limit: 10 } }));
    want(a.messages?.length === 2 && a.messages[0]?.id, a);
    made.message = a.messages[0].id;
  }],
  ['searchMessages', async () => { const a = await ok(sdk.searchMessages({ client: tenant, query: { q: 'order' } })); want(a.hits?.[0]?.thread === names.thread, a); }],
  ['threadArtifacts', async () => {
    await ok(sdk.startRun({ client: tenant, body: { target: 'drafter', thread: names.thread, text: 'write the letter' } }));
    const a = await ok(sdk.threadArtifacts({ client: tenant, path: inThread }));
    want(a.artifacts?.[0]?.name === 'letter', a);
    made.digest = a.artifacts[0].digest ?? '';
  }],
  ['getArtifact', async () => { const a = await ok(sdk.getArtifact({ client: tenant, path: { ...inThread, digest: made.digest } })); want(JSON.stringify(a).includes('Dear customer'), a); }],
  ['exportThread', async () => { const a = await ok(sdk.exportThread({ client: tenant, path: inThread, parseAs: 'text' })); want(String(a).includes('order 1042'), a); }],
  ['editMessage', async () => {
    const body = { role: 'user' as const, parts: [{ type: 'text', text: 'where is order 7' }] };
    const a = await ok(sdk.editMessage({ client: tenant, path: { ...inThread, message: made.message }, body }));
    want(a.id === names.thread, a);
  }],
  ['threadBranches', async () => {
    const a = await ok(sdk.threadBranches({ client: tenant, path: inThread }));
    want((a.branches?.length ?? 0) > 1 && a.branches?.[1], a);
    made.branch = a.branches[1].id ?? '';
  }],
  ['rewindThread', async () => { const a = await ok(sdk.rewindThread({ client: tenant, path: inThread, body: { branch: made.branch } })); want(a.id === names.thread, a); }],
  ['forkThread', async () => { const a = await ok(sdk.forkThread({ client: tenant, path: inThread, body: { id: names.copy } })); want(a.id === names.copy, a); }],
  ['deleteMessage', async () => { const a = await ok(sdk.deleteMessage({ client: tenant, path: { thread: names.copy, message: made.message } })); want(a.id === names.copy, a); }],
  ['deleteThread', () => done(sdk.deleteThread({ client: tenant, path: { thread: names.copy } }))],
  ['mintToken', async () => {
    const origin = 'https://app.example.com';
    const a = await ok(sdk.mintToken({ client: tenant, body: { thread: names.thread, origin, scopes: ['threads:read'], life: '1m' } }));
    const read = await ok(sdk.getThread({ client: as(a.token), path: inThread, headers: { Origin: origin } as never }));
    want(read.id === names.thread, read);
  }],

  ['artifactContent', async () => { const a = await ok(sdk.artifactContent({ client: tenant, path: { ...inThread, digest: made.digest }, parseAs: 'text' })); want(String(a).includes('Dear customer'), a); }],
  ['importThreads', async () => {
    const body = new Blob([JSON.stringify({ messages: [{ role: 'user', content: 'hello' }, { role: 'assistant', content: 'hi' }] })]);
    const a = await ok(sdk.importThreads({ client: tenant, body, query: { thread: 'imported' } }));
    want(a.threads?.[0]?.created && a.threads[0].messages === 2, a);
  }],

  // Its sessions.
  ['sessionTurn', async () => {
    const a = await ok(sdk.sessionTurn({ client: tenant, path: { target: 'clerk' }, body: { session: names.session, text: 'hello' } }));
    want(a.result?.finish_reason === 'stop' && a.result.snapshot, a);
    made.snapshot = a.result.snapshot;
  }],
  ['sessionSnapshot', async () => {
    const a = await ok(sdk.sessionSnapshot({ client: tenant, path: { target: 'clerk' }, body: { snapshot: made.snapshot } }));
    want(a.result?.status === 'completed' && a.result.state?.messages?.length === 2, a);
  }],
  ['putSessionArtifact', async () => {
    const query = { session: names.session, name: 'note.txt' };
    const a = await ok(sdk.putSessionArtifact({ client: tenant, path: { target: 'clerk' }, query, body: new Blob(['remember the milk']), headers: { 'Content-Type': 'text/plain' } as never }));
    want(a.result?.digest, a);
    made.note = a.result.digest;
  }],
  ['sessionArtifact', async () => {
    const a = await ok(sdk.sessionArtifact({ client: tenant, path: { target: 'clerk' }, query: { session: names.session, digest: made.note } }));
    want(a.result?.name === 'note.txt', a);
  }],
  ['sessionContent', async () => {
    const a = await ok(sdk.sessionContent({ client: tenant, path: { target: 'clerk' }, query: { session: names.session, digest: made.note }, parseAs: 'text' }));
    want(String(a) === 'remember the milk', a);
  }],
  ['sessionDetach', async () => {
    const begun = await ok(sdk.sessionTurn({ client: tenant, path: { target: 'stuck' }, body: { text: 'go', detach: true } }));
    made.turn = begun.result?.snapshot ?? '';
    const a = await ok(sdk.sessionDetach({ client: tenant, path: { target: 'stuck' }, body: { snapshot: made.turn } }));
    want(a.result.status === 'pending', a);
  }],
  ['sessionAbort', async () => {
    const a = await ok(sdk.sessionAbort({ client: tenant, path: { target: 'stuck' }, body: { snapshot: made.turn } }));
    want(a.result.snapshot === made.turn, a);
  }],
  ['sessionWait', async () => {
    const a = await ok(sdk.sessionWait({ client: tenant, path: { target: 'stuck' }, body: { snapshot: made.turn } }));
    want(a.result?.status === 'aborted', a);
  }],

  // Its memories.
  ['addMemory', async () => { const a = await ok(sdk.addMemory({ client: tenant, query: ann, body: { id: 'tea', text: 'likes green tea' } })); want(a.id === 'tea', a); }],
  ['getMemory', async () => { const a = await ok(sdk.getMemory({ client: tenant, path: { memory: 'tea' }, query: ann })); want(a.text === 'likes green tea', a); }],
  ['updateMemory', async () => { const a = await ok(sdk.updateMemory({ client: tenant, path: { memory: 'tea' }, query: ann, body: { text: 'likes black tea' } })); want(a.text === 'likes black tea', a); }],
  ['changeMemories', async () => {
    const a = await ok(sdk.changeMemories({ client: tenant, query: ann, body: { changes: [{ kind: 'add', id: 'city', text: 'lives in Graz' }] } }));
    want(a.memories?.length === 1, a);
  }],
  ['listMemories', async () => { const a = await ok(sdk.listMemories({ client: tenant, query: ann })); want(a.memories?.length === 2, a); }],
  ['searchMemories', async () => { const a = await ok(sdk.searchMemories({ client: tenant, query: { ...ann, q: 'tea' } })); want(a.hits?.[0]?.id === 'tea', a); }],
  ['memoryScopes', async () => { const a = await ok(sdk.memoryScopes({ client: tenant })); want(a.scopes?.[0]?.user === 'ann', a); }],
  ['deleteMemory', () => done(sdk.deleteMemory({ client: tenant, path: { memory: 'city' }, query: ann }))],
  ['memoryHistory', async () => { const a = await ok(sdk.memoryHistory({ client: tenant, path: { memory: 'city' }, query: ann })); want(a.events?.length === 2, a); }],
  ['forgetMemories', () => done(sdk.forgetMemories({ client: tenant, query: ann }))],

  // Plugins that are shared with it.
  ['uploadSharedPlugin', async () => {
    for (const file of ['one.wasm', 'two.wasm']) {
      const a = await ok(sdk.uploadSharedPlugin({ client: admin, path: inShared, body: new Blob([readFileSync(file)]) }));
      want(a.tools?.length === 1, a);
      made.shared.push(a.digest);
    }
  }],
  ['getSharedPlugin', async () => { const a = await ok(sdk.getSharedPlugin({ client: admin, path: inShared })); want(a.versions?.length === 2, a); }],
  ['listSharedPlugins', async () => { const a = await ok(sdk.listSharedPlugins({ client: admin })); want(a.plugins?.[0]?.id === inShared.plugin, a); }],
  ['sharedPluginManifest', async () => { const a = await ok(sdk.sharedPluginManifest({ client: admin, path: shared(0) })); want(JSON.stringify(a).includes('tools'), a); }],
  ['sharedPluginModule', async () => { const a = await ok(sdk.sharedPluginModule({ client: admin, path: shared(0), parseAs: 'arrayBuffer' })); want((a as ArrayBuffer).byteLength === readFileSync('one.wasm').length, a); }],
  ['acceptSharedPlugin', async () => { const a = await ok(sdk.acceptSharedPlugin({ client: admin, path: shared(0) })); want(a.serving === made.shared[0], a); }],
  ['grantSharedPlugin', async () => { const a = await ok(sdk.grantSharedPlugin({ client: admin, path: inShared, body: { kv: 'write' } })); want(a.granted?.kv === 'write', a); }],
  ['activateSharedPlugin', async () => {
    const a = await ok(sdk.activateSharedPlugin({ client: admin, path: shared(1) }));
    want(a.serving === made.shared[1], a);
    const seen = await ok(sdk.listPlugins({ client: tenant, query: { shared: true } }));
    want(seen.plugins?.[0]?.id === inShared.plugin && !seen.plugins[0].granted, seen);
  }],
  ['rollbackSharedPlugin', async () => { const a = await ok(sdk.rollbackSharedPlugin({ client: admin, path: inShared })); want(a.serving === made.shared[0], a); }],
  ['deleteSharedPluginVersion', async () => { const a = await ok(sdk.deleteSharedPluginVersion({ client: admin, path: shared(1) })); want(a.versions?.length === 1, a); }],
  ['deactivateSharedPlugin', async () => { const a = await ok(sdk.deactivateSharedPlugin({ client: admin, path: inShared })); want(!a.serving, a); }],
  ['deleteSharedPlugin', () => done(sdk.deleteSharedPlugin({ client: admin, path: inShared }))],

  // Its own plugins.
  ['uploadPlugin', async () => {
    for (const file of ['one.wasm', 'two.wasm']) {
      const a = await ok(sdk.uploadPlugin({ client: tenant, path: inPlugin, body: new Blob([readFileSync(file)]) }));
      want(a.tools?.length === 1, a);
      made.versions.push(a.digest);
    }
  }],
  ['getPlugin', async () => { const a = await ok(sdk.getPlugin({ client: tenant, path: inPlugin })); want(a.versions?.length === 2, a); }],
  ['listPlugins', async () => { const a = await ok(sdk.listPlugins({ client: tenant })); want(a.plugins?.[0]?.id === inPlugin.plugin, a); }],
  ['pluginManifest', async () => { const a = await ok(sdk.pluginManifest({ client: tenant, path: version(0) })); want(JSON.stringify(a).includes('tools'), a); }],
  ['pluginModule', async () => { const a = await ok(sdk.pluginModule({ client: tenant, path: version(0), parseAs: 'arrayBuffer' })); want((a as ArrayBuffer).byteLength === readFileSync('one.wasm').length, a); }],
  ['acceptPlugin', async () => { const a = await ok(sdk.acceptPlugin({ client: tenant, path: version(0) })); want(a.serving === made.versions[0], a); }],
  ['grantPlugin', async () => { const a = await ok(sdk.grantPlugin({ client: tenant, path: inPlugin, body: { kv: 'write' } })); want(a.granted?.kv === 'write', a); }],
  ['activatePlugin', async () => { const a = await ok(sdk.activatePlugin({ client: tenant, path: version(1) })); want(a.serving === made.versions[1], a); }],
  ['rollbackPlugin', async () => { const a = await ok(sdk.rollbackPlugin({ client: tenant, path: inPlugin })); want(a.serving === made.versions[0], a); }],
  ['deletePluginVersion', async () => { const a = await ok(sdk.deletePluginVersion({ client: tenant, path: version(1) })); want(a.versions?.length === 1, a); }],
  ['deactivatePlugin', async () => { const a = await ok(sdk.deactivatePlugin({ client: tenant, path: inPlugin })); want(!a.serving, a); }],
  ['deletePlugin', () => done(sdk.deletePlugin({ client: tenant, path: inPlugin }))],

  // Its usage.
  ['getUsage', async () => { const a = await ok(sdk.getUsage({ client: tenant })); want((a.total.runs ?? 0) > 2, a); }],
  ['usageRecords', async () => { const a = await ok(sdk.usageRecords({ client: tenant, query: { key: keyId } })); want(a.records?.some((r) => r.run === made.run), a); }],
  ['usageLimits', async () => { const a = await ok(sdk.usageLimits({ client: tenant })); want(a.limits?.some((l) => l.resource === 'tokens' && l.spent > 0), a); }],
  ['getTenantUsage', async () => { const a = await ok(sdk.getTenantUsage({ client: admin, path: inTenant })); want(a.items?.some((i) => i.key === keyId), a); }],
  ['tenantUsageRecords', async () => { const a = await ok(sdk.tenantUsageRecords({ client: admin, path: inTenant, query: { limit: 1 } })); want(a.records?.length === 1 && a.next, a); }],
  ['tenantUsageLimits', async () => { const a = await ok(sdk.tenantUsageLimits({ client: admin, path: inTenant })); want(a.limits?.some((l) => l.resource === 'tokens'), a); }],

  // The audit log has it all, and the tenant goes.
  ['listAudit', async () => { const a = await ok(sdk.listAudit({ client: admin, query: { tenant: names.tenant, action: 'thread.delete' } })); want(a.entries?.[0]?.actor === 'key/' + keyId, a); }],
  ['verifyAudit', async () => { const a = await ok(sdk.verifyAudit({ client: admin })); want(a.seq > 10, a); }],
  ['exportAudit', async () => { const a = await ok(sdk.exportAudit({ client: admin, parseAs: 'text' })); want(String(a).includes('tenant.create'), a); }],
  ['exportTenant', async () => { const a = await ok(sdk.exportTenant({ client: admin, path: inTenant, parseAs: 'text' })); want(String(a).startsWith('{"part":"tenant"'), a); }],
  ['backup', async () => { const a = await ok(sdk.backup({ client: admin, parseAs: 'text' })); want(String(a).length > 0, a); }],
  ['revokeTenantKey', () => done(sdk.revokeTenantKey({ client: admin, path: { ...inTenant, key: keyId } }))],
  ['deleteTenant', async () => { const a = await ok(sdk.deleteTenant({ client: admin, path: inTenant })); want(a.gone, a); }],
  ['proveTenant', async () => { const a = await ok(sdk.proveTenant({ client: admin, path: inTenant })); want(a.gone, a); }],
];

async function main() {
  for (const [operation, call] of calls) {
    let failed = '';
    try {
      await call();
    } catch (error) {
      failed = error instanceof Error ? error.message : String(error);
    }
    console.log(JSON.stringify({ operation, failed }));
  }
}

main();
