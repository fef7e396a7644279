// What a plugin's first file exports: agenthost_describe, and what serves its parts, such as agenthost_tool.
export { agenthost_describe, agenthost_tool, agenthost_process, agenthost_route, agenthost_provide, agenthost_observe } from "./index";
