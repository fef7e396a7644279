// A router: it decides which agent of a network is next. It is asked before the first agent
// runs, and again after each one. Without a next agent the run ends.
#include "agenthost.h"

static void route(ah_call *c) {
  if (c->call_count < c->agent_count) {
    ah_route(c, c->agents[c->call_count].name);
    ah_reason(c, ah_c("it has not been asked"));
  }
}

AH_PLUGIN(
  .name = "example", .version = "0.1.0", .description = "Asks each agent once.",
  .routers = (const ah_router[]){{.name = "example", .run = route}, {0}});
