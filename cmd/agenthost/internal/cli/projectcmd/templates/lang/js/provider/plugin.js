// A context provider: it adds to an agent's instructions before its model is asked.
import { plugin, provider, textOf } from "agenthost";

plugin({ name: "example", version: "0.1.0", description: "Has agents answer in the language of the question." });

// advice says how a message is to be answered.
const advice = (text) => text.trim().endsWith("?")
  ? "Answer the question first, in its language, and explain after that."
  : "Answer in the language of the message.";

provider({ name: "example" }, ({ messages }) => {
  if (messages.length > 0) return advice(textOf(messages.at(-1)));
});
