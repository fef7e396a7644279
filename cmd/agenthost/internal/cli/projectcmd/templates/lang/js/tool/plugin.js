// A plugin with a tool, which models call.
import { plugin, tool, Failure } from "agenthost";

plugin({ name: "example", version: "0.1.0", description: "Counts words." });

tool({
  name: "count_words",
  description: "Counts the words of a text.",
  parameters: {
    type: "object",
    additionalProperties: false,
    required: ["text"],
    properties: { text: { type: "string", description: "The text whose words are counted." } },
  },
  annotations: { read_only: true },
}, ({ text }) => {
  const words = text.split(/\s+/).filter((word) => word !== "");
  if (words.length === 0) {
    throw new Failure("invalid_argument", "The text is empty. Ask for one."); // the model reads this
  }
  return String(words.length);
});
