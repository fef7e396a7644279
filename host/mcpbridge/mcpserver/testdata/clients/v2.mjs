import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { session } from './session.mjs';

const [url, tenant] = process.argv.slice(2);
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${tenant}` } } });
const client = new Client({ name: 'v2', version: '1' }, { capabilities: { elicitation: {} }, versionNegotiation: { mode: 'auto' } });
const run = await session(client, (params, options) => client.callTool(params, options), handler => client.setRequestHandler('elicitation/create', handler));
await client.connect(transport);
await run(() => client.getNegotiatedProtocolVersion());
