// A tool that asks a server for a translation, with a key that the plugin never sees.
import { Call, Fetch, Obj, fail, plugin, tool } from "../../../pdk/assemblyscript/agenthost";
export { agenthost_describe, agenthost_tool } from "../../../pdk/assemblyscript/agenthost/exports";

plugin("translate", "1.0.0", "Translates texts.", `{
  "http": [{"host": "translate.example.com", "port": 8443, "methods": ["POST"]}],
  "secrets": [{"name": "translate_key", "hosts": ["translate.example.com:8443"]}]
}`);

tool("translate", "Translates a text into another language.", `{
  "type": "object", "additionalProperties": false, "required": ["text", "to"],
  "properties": {"text": {"type": "string"}, "to": {"type": "string", "description": "A language code, such as de."}}
}`, (call: Call): void => {
  const question = new Obj().string("text", call.string("text")).string("to", call.string("to")).toJson();
  const response = new Fetch("https://translate.example.com:8443/v1/translate", "POST")
    .header("Content-Type", "application/json")
    .secret("Authorization", "Bearer ", "translate_key")
    .body(question.toString())
    .send();
  if (response === null) return; // the call has the host's error
  if (!response.ok) {
    fail("unavailable", "the translation server answers with status " + response.status.toString(), null, response.status >= 500);
    return;
  }
  const answer = response.json();
  if (answer !== null) call.json(new Obj().json("text", answer.get("text")).toJson());
}).readOnly();
