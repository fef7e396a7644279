// A plugin with a tool, which models call.
import { Call, fail, plugin, tool } from "./agenthost";
export { agenthost_describe, agenthost_tool } from "./agenthost/exports";

plugin("example", "0.1.0", "Counts words.");

tool("count_words", "Counts the words of a text.", `{
  "type": "object", "additionalProperties": false, "required": ["text"],
  "properties": {"text": {"type": "string", "description": "The text whose words are counted."}}
}`, (call: Call): void => {
  const text = call.string("text");
  let words = 0;
  for (let i = 0; i < text.length; i++) {
    if (!isSpace(text.charCodeAt(i)) && (i == 0 || isSpace(text.charCodeAt(i - 1)))) words++;
  }
  if (words == 0) fail("invalid_argument", "The text is empty. Ask for one."); // the model reads this
  call.text(words.toString());
}).readOnly();

function isSpace(c: i32): bool { return c == 0x20 || (c >= 0x09 && c <= 0x0d); }
