// A router that gives a question to the agent whose words are in it.
import { Json, Route, fail, plugin, router, textOf } from "../../../pdk/assemblyscript/agenthost";
export { agenthost_describe, agenthost_route } from "../../../pdk/assemblyscript/agenthost/exports";

plugin("triage", "1.0.0", "Routes questions by their words.");

router("triage", (route: Route): void => {
  const config = route.config, input = route.input;
  if (route.last !== null || config === null) return; // the agent has answered: the run ends
  const question = input === null ? "" : textOf(input).toLowerCase(), rules = listIn(config, "rules");
  for (let i = 0; i < rules.length; i++) {
    const words = listIn(rules[i], "words");
    for (let n = 0; n < words.length; n++) {
      const word = words[n].string();
      if (word === null || !question.includes(word.toLowerCase())) continue;
      route.next(stringIn(rules[i], "agent"));
      route.reason('the question has the word "' + word + '"');
      return;
    }
  }
  route.next(stringIn(config, "otherwise"));
  route.reason("the question has no word of a rule");
}).takes(`{
  "type": "object", "required": ["rules", "otherwise"],
  "properties": {
    "rules": {"type": "array", "items": {
      "type": "object", "required": ["agent", "words"],
      "properties": {"agent": {"type": "string"}, "words": {"type": "array", "items": {"type": "string", "minLength": 1}}}}},
    "otherwise": {"type": "string"}}
}`);

// Both read a member of the configuration, which the host has held to the schema.
function listIn(object: Json, name: string): Json[] {
  const v = object.get(name);
  return v === null ? [] : v.items();
}

function stringIn(object: Json, name: string): string {
  const v = object.get(name);
  const text: string | null = v === null ? null : v.string();
  if (text === null) fail("invalid_argument", name + " is no string");
  return text === null ? "" : text;
}
