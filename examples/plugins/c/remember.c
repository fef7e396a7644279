/* A provider that reminds agents of what the user has asked them to remember in the thread. */
#include "agenthost.h"

#define SIGN "Remember: "

enum { MOST = 20 }; /* facts; the oldest is forgotten first */

static void provide(ah_call *c) {
  ah_json facts = ah_provider_state(c);
  if (ah_count(facts) == 0) return;
  ah_text text = ah_c("The user has asked you to remember:");
  for (ah_iterator i = ah_iterate(facts); ah_next_item(&i);) text = ah_format(c, "%t\n- %t", text, ah_string(c, i.value));
  ah_instruct(c, text);
}

/* remember keeps a fact behind those that are known. */
static void remember(ah_call *c, ah_text fact) {
  ah_json facts = ah_provider_state(c);
  uint32_t skipped = ah_count(facts) < MOST ? 0 : ah_count(facts) - MOST + 1;
  ah_buffer list = {0};
  for (ah_iterator i = ah_iterate(facts); ah_next_item(&i);) {
    if (skipped > 0) {
      skipped--;
      continue;
    }
    ah_add(c, &list, i.value.at, i.value.size);
    ah_add_c(c, &list, ",");
  }
  ah_keep_provider_state(c, ah_make(c, "[%j%t]", (ah_json){list.at ? list.at : "", list.size}, fact));
}

static void observe(ah_call *c) {
  if (c->failure.code.at) return;
  for (uint32_t i = c->message_count; i-- > 0;) {
    if (!ah_is(ah_string(c, ah_get(c->messages[i], "role")), "user")) continue;
    ah_text text = ah_text_of(c, c->messages[i]), sign = ah_c(SIGN);
    if (text.size >= sign.size && ah_same((ah_text){text.at, sign.size}, sign)) remember(c, (ah_text){text.at + sign.size, text.size - sign.size});
    return;
  }
}

AH_PLUGIN(
  .name = "remember", .version = "1.0.0", .description = "Remembers what it is asked to, in the thread.",
  .providers = (const ah_provider[]){{.name = "remember", .run = provide, .observe = observe}, {0}});
