// A provider that reminds agents of what the user has asked them to remember in the thread.
import { plugin, provider, providerState, textOf } from "agenthost";

plugin({ name: "remember", version: "1.0.0", description: "Remembers what it is asked to, in the thread." });

const sign = "Remember: ";
const most = 20; // the oldest is forgotten first

const provide = () => {
  const facts = providerState.get().value ?? [];
  if (facts.length > 0) return ["The user has asked you to remember:", ...facts.map((fact) => `- ${fact}`)].join("\n");
};

const observe = ({ messages, error }) => {
  const question = messages.findLast(({ role }) => role === "user");
  if (error || !question || !textOf(question).startsWith(sign)) return;
  const facts = providerState.get().value ?? [];
  providerState.put([...facts, textOf(question).slice(sign.length)].slice(-most));
};

provider({ name: "remember" }, provide, observe);
