// A context provider: it adds to an agent's instructions before its model is asked.
import { Provide, plugin, provider, textOf } from "./agenthost";
export { agenthost_describe, agenthost_provide, agenthost_observe } from "./agenthost/exports";

plugin("example", "0.1.0", "Has agents answer in the language of the question.");

provider("example", (request: Provide): void => {
  const n = request.messages.length;
  if (n > 0) request.instruct(advice(textOf(request.messages[n - 1])));
});

// advice says how a message is to be answered.
function advice(text: string): string {
  return text.trim().endsWith("?")
    ? "Answer the question first, in its language, and explain after that."
    : "Answer in the language of the message.";
}
