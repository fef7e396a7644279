import { useSyncExternalStore } from "react";

// What use-agent takes from the real package is a subscription and nothing else.
let arrived = [];
const listeners = new Set();

export function push(chunks) {
  arrived = arrived.concat(chunks);
  for (const listener of listeners) listener();
}

// forget begins a subscription to which nothing has arrived.
export function forget() {
  arrived = [];
}

function listen(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useInngestSubscription() {
  return { data: useSyncExternalStore(listen, () => arrived), state: "active", error: null };
}

export function subscribe() {
  throw new Error("use-agent subscribes by another way than its hook");
}
