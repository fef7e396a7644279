// An Extism plugin in AssemblyScript: it counts what a text is made of.
// README.md has the build command.

import { Host } from "@extism/as-pdk";

/** Says what the plugin offers: its function text_stats is a tool. */
export function agenthost_describe(): i32 {
  output(`{"abi":1,"name":"stats","tools":[{"name":"text_stats","export":"text_stats",
    "description":"Counts the words, sentences and characters of a text and says how long reading it takes."}]}`);
  return 0;
}

const wordsAMinute = 230;

export function text_stats(): i32 {
  const text = Host.inputString();
  let words = 0, sentences = 0, characters = 0;
  let inWord = false, inSentence = false;
  for (let i = 0; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if ((c & 0xfc00) != 0xdc00) characters++; // a surrogate pair is one
    if (c == 0x2e || c == 0x21 || c == 0x3f) { // . ! ?
      if (inSentence) sentences++;
      inSentence = false;
    }
    const blank = c <= 0x20;
    if (!blank && !inWord) words++;
    if (!blank && c > 0x3f) inSentence = true;
    inWord = !blank;
  }
  if (inSentence) sentences++;
  const seconds = (words * 60 + wordsAMinute - 1) / wordsAMinute;
  output('{"words":' + words.toString() + ',"sentences":' + sentences.toString() +
    ',"characters":' + characters.toString() + ',"reading_seconds":' + seconds.toString() + "}");
  return 0;
}

/** Host.outputString counts characters for bytes: this is for any text. */
function output(s: string): void {
  Host.output(Uint8Array.wrap(String.UTF8.encode(s)));
}

export function myAbort(message: string | null, file: string | null, line: u32, column: u32): void {
  unreachable();
}
