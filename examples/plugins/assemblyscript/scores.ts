// Two tools that keep what they count: the host stores it for each tenant.
import { Call, Items, Json, Obj, array, caught, kv, plugin, tool } from "../../../pdk/assemblyscript/agenthost";
export { agenthost_describe, agenthost_tool } from "../../../pdk/assemblyscript/agenthost/exports";

const PREFIX = "score/";

plugin("scores", "1.0.0", "Keeps the scores of players.", `{"kv": "write"}`);

tool("score", "Adds points to a player's score.", `{
  "type": "object", "additionalProperties": false, "required": ["player", "points"],
  "properties": {
    "player": {"type": "string", "minLength": 1, "maxLength": 100},
    "points": {"type": "integer", "minimum": -1000, "maximum": 1000}}
}`, (call: Call): void => {
  const player = call.string("player"), item = kv.item(PREFIX + player);
  caught("not_found"); // a new player
  const score = call.int("points") + (item === null ? 0 : I64.parseInt(item.text));
  kv.putText(PREFIX + player, score.toString(), item === null ? 0 : item.revision); // if another call was faster, this one fails with conflict
  call.json(new Obj().string("player", player).int("score", score).toJson());
});

tool("scores", "Lists the scores of all players.", `{"type": "object"}`, (call: Call): void => {
  const list: Json[] = [];
  let after: string | null = null;
  do {
    const page = kv.list(PREFIX, after);
    if (page === null) return;
    for (const i = new Items(page.get("entries")!); i.next();) {
      const key = i.value.get("key")!.string()!, score = kv.text(key);
      if (score !== null) list.push(new Obj().string("player", key.substring(PREFIX.length)).int("score", I64.parseInt(score)).toJson());
    }
    const next = page.get("next");
    after = next === null ? null : next.string();
  } while (after !== null);
  call.json(array(list));
}).readOnly();
