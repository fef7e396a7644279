// A server by the protocol's TypeScript SDK, on its standard streams.
import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';

serveStdio(() => {
  const server = new McpServer({ name: 'npm', version: '1' });
  server.registerTool('greet', { description: 'Greets a person.', inputSchema: z.object({ name: z.string() }) },
    async ({ name }) => ({ content: [{ type: 'text', text: `Hello, ${name}!` }] }));
  server.registerTool('count', { description: 'Counts cats.', outputSchema: z.object({ cats: z.number() }) },
    async () => ({ content: [], structuredContent: { cats: 2 } }));
  return server;
});
