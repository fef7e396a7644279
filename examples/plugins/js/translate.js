// A tool that asks a server for a translation, with a key that the script never sees.
import { plugin, tool, fetch, Failure } from "agenthost";

plugin({
  name: "translate", version: "1.0.0", description: "Translates texts.",
  permissions: {
    http: [{ host: "translate.example.com", port: 8443, methods: ["POST"] }],
    secrets: [{ name: "translate_key", hosts: ["translate.example.com:8443"] }],
  },
});

tool({
  name: "translate",
  description: "Translates a text into another language.",
  parameters: {
    type: "object", additionalProperties: false, required: ["text", "to"],
    properties: { text: { type: "string" }, to: { type: "string", description: "A language code, such as de." } },
  },
  annotations: { read_only: true },
}, ({ text, to }) => {
  const response = fetch("https://translate.example.com:8443/v1/translate", {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: { prefix: "Bearer ", secret: "translate_key" } },
    body: JSON.stringify({ text, to }),
  });
  if (!response.ok) {
    throw new Failure("unavailable", `the translation server answers with status ${response.status}`, { retryable: response.status >= 500 });
  }
  try {
    return { text: response.json().text };
  } catch (cause) {
    throw new Failure("unavailable", "the translation server's answer is no JSON", { cause });
  }
});
