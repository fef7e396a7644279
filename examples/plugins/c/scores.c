/* Two tools that keep what they count: the host stores it for each tenant. */
#include "agenthost.h"

#define PREFIX "score/"

/* A key's value is the text of a number, which is JSON. */
static int64_t number(ah_text text) {
  int64_t n = 0;
  ah_read_int((ah_json){text.at, text.size}, &n);
  return n;
}

static void score(ah_call *c) {
  ah_text player = ah_get_text(c, c->arguments, "player"), key = ah_format(c, PREFIX "%t", player);
  int64_t points = ah_get_int(c, c->arguments, "points"), revision = 0, total = points;
  ah_text old = ah_kv_get(c, key, &revision);
  if (!ah_caught(c, AH_NOT_FOUND)) total += number(old);
  ah_kv_put(c, key, ah_format(c, "%l", total), revision, 0); /* if another call was faster, this one fails with conflict */
  ah_return(c, AH_JSON({"player": %t, "score": %l}), player, total);
}

static void scores(ah_call *c) {
  ah_buffer list = {0};
  ah_text next = ah_c("");
  do { /* a page */
    ah_json found = ah_host(c, "kv.list", ah_make(c, AH_JSON({"prefix": %s, "values": true, "after": %t}), PREFIX, next));
    for (ah_iterator i = ah_iterate(ah_get(found, "entries")); ah_next_item(&i);) {
      ah_text key = ah_string(c, ah_get(i.value, "key"));
      ah_text player = {key.at + sizeof PREFIX - 1, key.size - (sizeof PREFIX - 1)};
      ah_json entry = ah_make(c, AH_JSON({"player": %t, "score": %l}), player, number(ah_bytes(c, ah_get(i.value, "value"))));
      ah_add_c(c, &list, list.size ? "," : "");
      ah_add(c, &list, entry.at, entry.size);
    }
    next = ah_string(c, ah_get(found, "next"));
  } while (next.at);
  ah_return(c, "[%j]", (ah_json){list.at ? list.at : "", list.size});
}

AH_PLUGIN(
  .name = "scores", .version = "1.0.0", .description = "Keeps the scores of players.",
  .permissions = AH_JSON({"kv": "write"}),
  .tools = (const ah_tool[]){
    {.name = "score", .description = "Adds points to a player's score.", .run = score,
     .parameters = AH_JSON({"type": "object", "additionalProperties": false, "required": ["player", "points"], "properties": {
       "player": {"type": "string", "minLength": 1, "maxLength": 100},
       "points": {"type": "integer", "minimum": -1000, "maximum": 1000}}})},
    {.name = "scores", .description = "Lists the scores of all players.", .read_only = true, .run = scores},
    {0}});
