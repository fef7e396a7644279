// Two tools that keep what they count: the host stores it for each tenant.
import { plugin, tool, kv } from "agenthost";

plugin({ name: "scores", version: "1.0.0", description: "Keeps the scores of players.", permissions: { kv: "write" } });

const player = { type: "string", minLength: 1, maxLength: 100 };

tool({
  name: "score",
  description: "Adds points to a player's score.",
  parameters: {
    type: "object", additionalProperties: false, required: ["player", "points"],
    properties: { player, points: { type: "integer", minimum: -1000, maximum: 1000 } },
  },
}, ({ player, points }) => {
  const key = `score/${player}`;
  const item = kv.getItem(key);
  const score = (item ? Number(new TextDecoder().decode(item.bytes)) : 0) + points;
  kv.put(key, String(score), { revision: item?.revision ?? 0 }); // if another call was faster, this one fails with conflict
  return { player, score };
});

tool({
  name: "scores",
  description: "Lists the scores of all players.",
  annotations: { read_only: true },
}, () => {
  const list = [];
  for (let after; ;) {
    const { entries, next } = kv.list({ prefix: "score/", after, values: true });
    list.push(...entries.map(({ key, value }) => ({ player: key.slice("score/".length), score: Number(value) })));
    if (next === undefined) return list;
    after = next;
  }
});
