// A router: it decides which agent of a network is next. It is asked before the first agent
// runs, and again after each one. Without a next agent the run ends.
import { plugin, router } from "agenthost";

plugin({ name: "example", version: "0.1.0", description: "Asks each agent once." });

router({ name: "example" }, ({ call_count, agents }) => {
  if (call_count < agents.length) {
    return { next: [agents[call_count].name], reason: "it has not been asked" };
  }
});
