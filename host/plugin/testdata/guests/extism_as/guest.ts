// A plugin of Extism's AssemblyScript kit, for tests that compare engines.

import { Config, Host, LogLevel, Var } from "@extism/as-pdk";

export function echo(): i32 {
  Host.output(Host.input());
  return 0;
}

export function count_vowels(): i32 {
  const text = Host.inputString();
  let count = 0;
  for (let i = 0; i < text.length; i++) {
    if ("aeiouAEIOU".includes(text.charAt(i))) count++;
  }
  const before = Var.getString("total");
  const total = (before === null ? 0 : I32.parseInt(before)) + count;
  Var.set("total", Uint8Array.wrap(String.UTF8.encode(total.toString())));
  const vowels = Config.get("greeting");
  Host.log(LogLevel.Info, "counted");
  Host.outputString('{"count":' + count.toString() + ',"total":' + total.toString() + ',"greeting":"' + (vowels === null ? "" : vowels) + '"}');
  return 0;
}

// shout is longer in bytes than in characters, which outputString cuts off.
export function shout(): i32 {
  Host.outputString(Host.inputString().toUpperCase());
  return 0;
}

export function myAbort(message: string | null, file: string | null, line: u32, column: u32): void {
  unreachable();
}
