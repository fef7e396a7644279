// What a plugin's first file exports: export * from "./agenthost/exports".
export { agenthost_describe, agenthost_tool, agenthost_process, agenthost_route, agenthost_provide, agenthost_observe } from "./index";
