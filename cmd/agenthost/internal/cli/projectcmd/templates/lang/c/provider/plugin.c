// A context provider: it adds to an agent's instructions before its model is asked.
#include "agenthost.h"

// advice says how a message is to be answered.
static const char *advice(ah_text text) {
  while (text.size > 0 && (text.at[text.size - 1] == ' ' || text.at[text.size - 1] == '\n')) text.size--;
  if (text.size > 0 && text.at[text.size - 1] == '?') {
    return "Answer the question first, in its language, and explain after that.";
  }
  return "Answer in the language of the message.";
}

static void provide(ah_call *c) {
  if (c->message_count > 0) {
    ah_instruct(c, ah_c(advice(ah_text_of(c, c->messages[c->message_count - 1]))));
  }
}

AH_PLUGIN(
  .name = "example", .version = "0.1.0", .description = "Has agents answer in the language of the question.",
  .providers = (const ah_provider[]){{.name = "example", .run = provide}, {0}});
