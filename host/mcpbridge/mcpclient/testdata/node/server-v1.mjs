// The same server by the first version of the SDK, which speaks 2025-11-25.
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import * as z from 'zod';

const server = new McpServer({ name: 'npm', version: '1' });
server.registerTool('greet', { description: 'Greets a person.', inputSchema: { name: z.string() } },
  async ({ name }) => ({ content: [{ type: 'text', text: `Hello, ${name}!` }] }));
server.registerTool('count', { description: 'Counts cats.', outputSchema: { cats: z.number() } },
  async () => ({ content: [], structuredContent: { cats: 2 } }));
await server.connect(new StdioServerTransport());
