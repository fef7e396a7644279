// A history processor: it changes the messages that models see. The stored conversation keeps
// them.
import { View, plugin, processor } from "./agenthost";
export { agenthost_describe, agenthost_process } from "./agenthost/exports";

plugin("example", "0.1.0", "Takes doubled spaces out of what models see.");

processor("example", (view: View): void => {
  view.mapText(tidy); // of every message; those that do not change are not sent back
});

function tidy(text: string): string {
  const words: string[] = [], all = text.replaceAll("\n", " ").replaceAll("\t", " ").split(" ");
  for (let i = 0; i < all.length; i++) if (all[i] != "") words.push(all[i]);
  return words.join(" ");
}
