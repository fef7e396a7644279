// A history processor: it changes the messages that models see. The stored conversation keeps
// them.
#include "agenthost.h"

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static ah_text tidy(ah_call *c, ah_text text) {
  char *out = ah_alloc(c, text.size), *to = out;
  for (uint32_t i = 0; i < text.size; i++) {
    if (!is_space(text.at[i])) *to++ = text.at[i];
    else if (to > out && to[-1] != ' ') *to++ = ' ';
  }
  if (to > out && to[-1] == ' ') to--;
  return (ah_text){out, (uint32_t)(to - out)};
}

static void process(ah_call *c) {
  ah_map_text(c, tidy); // of every message; those that do not change are not sent back
}

AH_PLUGIN(
  .name = "example", .version = "0.1.0", .description = "Takes doubled spaces out of what models see.",
  .processors = (const ah_processor[]){{.name = "example", .run = process}, {0}});
