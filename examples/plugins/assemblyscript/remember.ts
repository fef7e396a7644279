// A provider that reminds agents of what the user has asked them to remember in the thread.
import { Json, Observe, Provide, array, getProviderState, plugin, provider, putProviderState, text, textOf } from "../../../pdk/assemblyscript/agenthost";
export { agenthost_describe, agenthost_provide, agenthost_observe } from "../../../pdk/assemblyscript/agenthost/exports";

const SIGN = "Remember: ", MOST = 20; // facts; the oldest is forgotten first

plugin("remember", "1.0.0", "Remembers what it is asked to, in the thread.");

provider("remember", (request: Provide): void => {
  const known = facts();
  if (known.length == 0) return;
  let list = "The user has asked you to remember:";
  for (let i = 0; i < known.length; i++) list += "\n- " + known[i].string()!;
  request.instruct(list);
}, (o: Observe): void => {
  if (o.code !== null) return; // the run has failed
  for (let i = o.messages.length - 1; i >= 0; i--) {
    if (o.messages[i].get("role")!.string()! != "user") continue;
    const question = textOf(o.messages[i]);
    if (question.startsWith(SIGN)) remember(text(question.substring(SIGN.length)));
    return;
  }
});

function facts(): Json[] {
  const kept = getProviderState();
  return kept === null ? [] : kept.items();
}

function remember(fact: Json): void {
  const known = facts();
  known.push(fact);
  putProviderState(array(known.slice(max(0, known.length - MOST))));
}
