// A plugin with a tool, which models call.
#include "agenthost.h"

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static void count_words(ah_call *c) {
  ah_text text = ah_get_text(c, c->arguments, "text");
  int words = 0;
  for (uint32_t i = 0; i < text.size; i++) {
    if (!is_space(text.at[i]) && (i == 0 || is_space(text.at[i - 1]))) words++;
  }
  if (words == 0) {
    ah_fail(c, AH_INVALID_ARGUMENT, "The text is empty. Ask for one."); // the model reads this
    return;
  }
  ah_return(c, "%t", ah_format(c, "%d", words));
}

AH_PLUGIN(
  .name = "example", .version = "0.1.0", .description = "Counts words.",
  .tools = (const ah_tool[]){
    {.name = "count_words", .description = "Counts the words of a text.", .read_only = true, .run = count_words,
     .parameters = AH_JSON({"type": "object", "additionalProperties": false, "required": ["text"], "properties": {
       "text": {"type": "string", "description": "The text whose words are counted."}}})},
    {0}});
