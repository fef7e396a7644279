import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { session } from './session.mjs';

const [url, tenant] = process.argv.slice(2);
const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${tenant}` } } });
const client = new Client({ name: 'v1', version: '1' }, { capabilities: { elicitation: {} } });
const run = await session(client, (params, options) => client.callTool(params, undefined, options), handler => client.setRequestHandler(ElicitRequestSchema, handler));
await client.connect(transport);
await run(() => transport.protocolVersion);
