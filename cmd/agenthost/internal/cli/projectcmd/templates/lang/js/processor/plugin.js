// A history processor: it changes the messages that models see. The stored conversation keeps
// them.
import { plugin, processor } from "agenthost";

plugin({ name: "example", version: "0.1.0", description: "Takes doubled spaces out of what models see." });

const tidy = (text) => text.split(/\s+/).filter((word) => word !== "").join(" ");

processor({ name: "example" }, (view) => {
  view.mapText(tidy); // of every message; those that do not change are not sent back
});
