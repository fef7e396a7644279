// What a client does in a session, and what it reports of it in a line of JSON. The two
// generations of the SDK differ in how a call is made.
export async function session(client, call, answer) {
  const asked = [];
  let approve = true;
  answer(async request => {
    asked.push(request.params.message);
    return approve ? { action: 'accept', content: { approve: true } } : { action: 'decline' };
  });
  return async version => {
    const tools = (await client.listTools()).tools.map(t => t.name).sort();
    const text = r => r.content[0].text;
    const sandboxed = text(await call({ name: tools.find(n => n.startsWith('sandbox')), arguments: {} }));
    const said = text(await call({ name: tools.find(n => n.startsWith('clerk')), arguments: { message: 'hello' } }));
    const paid = text(await call({ name: 'pay', arguments: {} }));
    approve = false;
    const refused = (await call({ name: 'pay', arguments: {} })).isError === true;
    const progress = [];
    const abort = new AbortController();
    let canceled = false;
    await call({ name: 'wait', arguments: {} }, { signal: abort.signal, onprogress: p => { progress.push(p.message); abort.abort(); } }).catch(() => { canceled = true; });
    const spoken = version();
    await client.close();
    console.log(JSON.stringify({ version: spoken, tools, sandboxed, said, paid, asked, refused, progress, canceled }));
    process.exit(0);
  };
}
