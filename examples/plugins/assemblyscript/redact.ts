// A processor that takes mail addresses and card numbers out of what models see.
import { View, plugin, processor } from "../../../pdk/assemblyscript/agenthost";
export { agenthost_describe, agenthost_process } from "../../../pdk/assemblyscript/agenthost/exports";

plugin("redact", "1.0.0", "Hides mail addresses and card numbers from models.");

processor("redact", (view: View): void => {
  view.mapText((text: string): string => hideCards(hideMail(text))); // messages that do not change are not sent back
});

function isDigit(c: i32): bool { return c >= 0x30 && c <= 0x39; }
function isWord(c: i32): bool { return isDigit(c) || c == 0x5f || (c >= 0x41 && c <= 0x5a) || (c >= 0x61 && c <= 0x7a); }
function isDomain(c: i32): bool { return isWord(c) || c == 0x2e || c == 0x2d; } // . and -
function isLocal(c: i32): bool { return isDomain(c) || c == 0x25 || c == 0x2b; } // % and +

// domainEnd returns where a domain ends that begins at an index: behind its last letter. It is
// the index itself if no domain begins there.
function domainEnd(text: string, from: i32): i32 {
  let end = from;
  for (let i = from; i < text.length; i++) {
    const c = text.charCodeAt(i);
    if (isWord(c)) end = i + 1;
    else if (i == from || !isDomain(c)) break;
  }
  return end;
}

// hideMail replaces addresses: a run of letters before an @, and a domain behind it.
function hideMail(text: string): string {
  const out: string[] = [];
  let rest = 0;
  for (let at = text.indexOf("@"); at >= 0; at = text.indexOf("@", rest)) {
    const end = domainEnd(text, at + 1);
    let from = at;
    while (from > rest && isLocal(text.charCodeAt(from - 1))) from--;
    if (from < at && end > at + 1) {
      out.push(text.substring(rest, from));
      out.push("[mail]");
      rest = end;
    } else {
      out.push(text.substring(rest, at + 1));
      rest = at + 1;
    }
  }
  out.push(text.substring(rest));
  return out.join("");
}

// hideCards replaces runs of 13 digits or more, between which may be single spaces or hyphens.
function hideCards(text: string): string {
  const out: string[] = [];
  let rest = 0;
  for (let i = 0; i < text.length; i++) {
    let digits = 0, end = i, next = i;
    while (next < text.length && isDigit(text.charCodeAt(next))) {
      digits++;
      end = next + 1;
      const c = end < text.length ? text.charCodeAt(end) : 0;
      next = c == 0x20 || c == 0x2d ? end + 1 : end;
    }
    if (digits >= 13) {
      out.push(text.substring(rest, i));
      out.push("[card]");
      rest = end;
    }
    if (digits > 0) i = end - 1;
  }
  out.push(text.substring(rest));
  return out.join("");
}
