// A router: it decides which agent of a network is next. It is asked before the first agent
// runs, and again after each one. Without a next agent the run ends.
import { Route, plugin, router } from "./agenthost";
export { agenthost_describe, agenthost_route } from "./agenthost/exports";

plugin("example", "0.1.0", "Asks each agent once.");

router("example", (route: Route): void => {
  if (route.callCount < route.agents.length) {
    route.next(route.agents[route.callCount].name);
    route.reason("it has not been asked");
  }
});
