/* A router that gives a question to the agent whose words are in it. */
#include "agenthost.h"

/* lower returns text with its ASCII letters in lower case. */
static ah_text lower(ah_call *c, ah_text text) {
  char *out = ah_alloc(c, text.size);
  for (uint32_t i = 0; i < text.size; i++) out[i] = text.at[i] >= 'A' && text.at[i] <= 'Z' ? text.at[i] + 32 : text.at[i];
  return (ah_text){out, text.size};
}

static bool contains(ah_text text, ah_text word) {
  for (uint32_t i = 0; word.size <= text.size - i; i++)
    if (ah_same((ah_text){text.at + i, word.size}, word)) return true;
  return false;
}

static void route(ah_call *c) {
  if (c->last) return; /* the agent has answered: the run ends */
  ah_text question = c->input.at ? lower(c, ah_text_of(c, c->input)) : ah_c("");
  for (ah_iterator rule = ah_iterate(ah_get(c->config, "rules")); ah_next_item(&rule);) {
    for (ah_iterator i = ah_iterate(ah_get(rule.value, "words")); ah_next_item(&i);) {
      ah_text word = ah_string(c, i.value);
      if (!word.at || !contains(question, lower(c, word))) continue;
      ah_route(c, ah_get_text(c, rule.value, "agent"));
      ah_reason(c, ah_format(c, "the question has the word \"%t\"", word));
      return;
    }
  }
  ah_route(c, ah_get_text(c, c->config, "otherwise"));
  ah_reason(c, ah_c("the question has no word of a rule"));
}

AH_PLUGIN(
  .name = "triage", .version = "1.0.0", .description = "Routes questions by their words.",
  .routers = (const ah_router[]){
    {.name = "triage", .run = route,
     .config = AH_JSON({"type": "object", "required": ["rules", "otherwise"], "properties": {
       "rules": {"type": "array", "items": {
         "type": "object", "required": ["agent", "words"],
         "properties": {"agent": {"type": "string"}, "words": {"type": "array", "items": {"type": "string", "minLength": 1}}}}},
       "otherwise": {"type": "string"}}})},
    {0}});
