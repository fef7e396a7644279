// A router that gives a question to the agent whose words are in it.
import { plugin, router, textOf } from "agenthost";

plugin({ name: "triage", version: "1.0.0", description: "Routes questions by their words." });

router({
  name: "triage",
  config: {
    type: "object", required: ["rules", "otherwise"],
    properties: {
      rules: {
        type: "array",
        items: {
          type: "object", required: ["agent", "words"],
          properties: { agent: { type: "string" }, words: { type: "array", items: { type: "string", minLength: 1 } } },
        },
      },
      otherwise: { type: "string" },
    },
  },
}, ({ input, last }, { rules, otherwise }) => {
  if (last) return; // the agent has answered: the run ends
  const question = input ? textOf(input).toLowerCase() : "";
  for (const { agent, words } of rules) {
    const word = words.find((word) => question.includes(word.toLowerCase()));
    if (word !== undefined) return { next: [agent], reason: `the question has the word "${word}"` };
  }
  return { next: [otherwise], reason: "the question has no word of a rule" };
});
