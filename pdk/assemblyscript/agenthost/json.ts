// Values of JSON as they were written. Nothing here calls itself, so no depth ends a plugin.

export enum Kind { Null, Bool, Number, String, Array, Object }

// How deep arrays and objects nest at most.
const MAX_DEPTH: i32 = 10000;

// A bit for each bracket that is open: it is an object's.
const open = memory.data(1252);

// @ts-ignore: decorator
@inline function at(p: usize): u8 { return load<u8>(p); }

function space(p: usize, end: usize): usize {
  while (p < end) {
    const c = at(p);
    if (c != 0x20 && c != 0x0a && c != 0x09 && c != 0x0d) break;
    p++;
  }
  return p;
}

function hex(p: usize, end: usize): i32 {
  if (end - p < 4 || end < p) return -1;
  let v = 0;
  for (let i: usize = 0; i < 4; i++) {
    const h = <i32>at(p + i);
    const d = h >= 0x30 && h <= 0x39 ? h - 0x30 : h >= 0x61 && h <= 0x66 ? h - 0x61 + 10 : h >= 0x41 && h <= 0x46 ? h - 0x41 + 10 : -1;
    if (d < 0) return -1;
    v = v << 4 | d;
  }
  return v;
}

// rune returns the length of the UTF-8 sequence at p, 0 if it is none.
function rune(p: usize, end: usize): usize {
  const a = at(p);
  const n: usize = a >= 0xc2 && a <= 0xdf ? 2 : a >= 0xe0 && a <= 0xef ? 3 : a >= 0xf0 && a <= 0xf4 ? 4 : 0;
  if (n == 0 || end - p < n) return 0;
  const b = at(p + 1);
  if (b < <u8>(a == 0xe0 ? 0xa0 : a == 0xf0 ? 0x90 : 0x80) || b > <u8>(a == 0xed ? 0x9f : a == 0xf4 ? 0x8f : 0xbf)) return 0;
  for (let i: usize = 2; i < n; i++) if ((at(p + i) & 0xc0) != 0x80) return 0;
  return n;
}

// Each of these returns the end of what is at p, 0 if it is not that.

function validString(p: usize, end: usize): usize {
  while (p < end) {
    const b = at(p);
    if (b == 0x22) return p + 1;
    if (b < 0x20) return 0;
    if (b == 0x5c) {
      if (++p == end) return 0;
      const e = at(p);
      if (e == 0x75) {
        if (hex(p + 1, end) < 0) return 0;
        p += 5;
      } else if (e == 0x22 || e == 0x5c || e == 0x2f || e == 0x62 || e == 0x66 || e == 0x6e || e == 0x72 || e == 0x74) {
        p++;
      } else {
        return 0;
      }
    } else if (b < 0x80) {
      p++;
    } else {
      const n = rune(p, end);
      if (n == 0) return 0;
      p += n;
    }
  }
  return 0;
}

function digits(p: usize, end: usize): usize {
  const from = p;
  while (p < end && at(p) >= 0x30 && at(p) <= 0x39) p++;
  return p == from ? 0 : p;
}

function validNumber(p: usize, end: usize): usize {
  if (p < end && at(p) == 0x2d) p++;
  if (p < end && at(p) == 0x30) p++;
  else if (!(p = digits(p, end))) return 0;
  if (p < end && at(p) == 0x2e && !(p = digits(p + 1, end))) return 0;
  if (p < end && (at(p) | 0x20) == 0x65) {
    p++;
    if (p < end && (at(p) == 0x2b || at(p) == 0x2d)) p++;
    p = digits(p, end);
  }
  return p;
}

function validWord(p: usize, end: usize, word: string): usize {
  for (let i = 0; i < word.length; i++, p++) if (p >= end || at(p) != <u8>word.charCodeAt(i)) return 0;
  return p;
}

function validKey(p: usize, end: usize): usize {
  if (p >= end || at(p) != 0x22 || !(p = validString(p + 1, end))) return 0;
  p = space(p, end);
  return p < end && at(p) == 0x3a ? p + 1 : 0;
}

function valid(p: usize, end: usize): bool {
  let depth = 0;
  while (true) {
    p = space(p, end);
    if (p >= end) return false;
    const first = at(p);
    if (first == 0x7b || first == 0x5b) {
      if (depth == MAX_DEPTH) return false;
      const bit = <u8>(<u32>1 << (depth & 7)), place = open + (depth >> 3);
      store<u8>(place, first == 0x7b ? load<u8>(place) | bit : load<u8>(place) & ~bit);
      depth++;
      p = space(p + 1, end);
      if (p >= end) return false;
      if (at(p) == first + 2) {
        p++;
        depth--;
      } else {
        if (first == 0x7b && !(p = validKey(p, end))) return false;
        continue;
      }
    } else {
      p = first == 0x22 ? validString(p + 1, end) : first == 0x74 ? validWord(p, end, "true") : first == 0x66 ? validWord(p, end, "false")
        : first == 0x6e ? validWord(p, end, "null") : validNumber(p, end);
      if (!p) return false;
    }
    while (true) {
      p = space(p, end);
      if (depth == 0) return p == end;
      if (p >= end) return false;
      const object = (<i32>load<u8>(open + ((depth - 1) >> 3)) >> ((depth - 1) & 7) & 1) != 0;
      const next = at(p++);
      if (next == 0x2c) {
        if (object && !(p = validKey(space(p, end), end))) return false;
        break;
      }
      if (next != <u8>(object ? 0x7d : 0x5d)) return false;
      depth--;
    }
  }
}

function skipString(p: usize): usize {
  for (p++; at(p) != 0x22; p++) if (at(p) == 0x5c) p++;
  return p + 1;
}

function skip(p: usize, end: usize): usize {
  const first = at(p);
  if (first == 0x22) return skipString(p);
  if (first != 0x7b && first != 0x5b) {
    while (p < end) {
      const c = at(p);
      if (c == 0x2c || c == 0x5d || c == 0x7d || c <= 0x20) break;
      p++;
    }
    return p;
  }
  let depth = 0;
  do {
    const c = at(p);
    if (c == 0x22) {
      p = skipString(p);
      continue;
    }
    if (c == 0x7b || c == 0x5b) depth++;
    else if (c == 0x7d || c == 0x5d) depth--;
    p++;
  } while (depth > 0);
  return p;
}

// encode writes a code point in UTF-8, and returns how many bytes that takes.
function encode(to: usize, rune: i32): i32 {
  if (rune < 0x80) {
    store<u8>(to, <u8>rune);
    return 1;
  }
  const n = rune < 0x800 ? 2 : rune < 0x10000 ? 3 : 4;
  for (let i = n - 1; i > 0; i--, rune >>= 6) store<u8>(to + i, <u8>(0x80 | (rune & 63)));
  store<u8>(to, <u8>((0xf00 >> n & 0xff) | rune)); // 110, 1110 or 11110, and what is left
  return n;
}

// A value of JSON: a part of a document, which keeps the document.
export class Json {
  constructor(private document: ArrayBuffer, private from: i32, private to: i32) {}

  // The value in bytes of UTF-8, null if they are none.
  static ofBytes(bytes: ArrayBuffer): Json | null {
    const p = changetype<usize>(bytes), end = p + bytes.byteLength;
    if (!valid(p, end)) return null;
    const from = space(p, end);
    return new Json(bytes, <i32>(from - p), <i32>(skip(from, end) - p));
  }

  static parse(text: string): Json | null { return Json.ofBytes(String.UTF8.encode(text, false, String.UTF8.ErrorMode.REPLACE)); }

  // What the kit has written itself.
  static trusted(bytes: ArrayBuffer): Json { return new Json(bytes, 0, bytes.byteLength); }

  static null(): Json { return Json.trusted(String.UTF8.encode("null")); }

  get start(): usize { return changetype<usize>(this.document) + this.from; }
  get end(): usize { return changetype<usize>(this.document) + this.to; }
  get size(): i32 { return this.to - this.from; }

  // The value's text.
  toString(): string { return String.UTF8.decodeUnsafe(this.start, this.size); }

  get kind(): Kind {
    const c = at(this.start);
    return c == 0x7b ? Kind.Object : c == 0x5b ? Kind.Array : c == 0x22 ? Kind.String : c == 0x74 || c == 0x66 ? Kind.Bool : c == 0x6e ? Kind.Null : Kind.Number;
  }

  get isNull(): bool { return this.kind == Kind.Null; }
  get isTrue(): bool { return at(this.start) == 0x74; }

  // The text of a string, null if the value is none. A surrogate without its other half is U+FFFD.
  string(): string | null {
    if (this.kind != Kind.String) return null;
    let p = this.start + 1;
    const end = this.end - 1;
    let q = p;
    while (q < end && at(q) != 0x5c) q++;
    if (q == end) return String.UTF8.decodeUnsafe(p, q - p);
    // No escape is shorter than what it stands for.
    const bytes = new ArrayBuffer(<i32>(end - p)), out = changetype<usize>(bytes);
    let n: usize = 0;
    while (q < end) {
      memory.copy(out + n, p, q - p);
      n += q - p;
      // An escape at q.
      const e = at(q + 1);
      q += 2;
      if (e == 0x75) {
        let rune = hex(q, end);
        q += 4;
        if (rune >= 0xd800 && rune < 0xe000) {
          const low = rune < 0xdc00 && end - q >= 6 && at(q) == 0x5c && at(q + 1) == 0x75 ? hex(q + 2, end) : -1;
          const paired = low >= 0xdc00 && low < 0xe000;
          rune = paired ? 0x10000 + ((rune - 0xd800) << 10) + (low - 0xdc00) : 0xfffd;
          if (paired) q += 6;
        }
        n += encode(out + n, rune);
      } else {
        store<u8>(out + n++, e == 0x62 ? 8 : e == 0x66 ? 12 : e == 0x6e ? 10 : e == 0x72 ? 13 : e == 0x74 ? 9 : <u8>e);
      }
      p = q;
      while (q < end && at(q) != 0x5c) q++;
    }
    memory.copy(out + n, p, q - p);
    return String.UTF8.decodeUnsafe(out, n + (q - p));
  }

  // Whether a number's value is an integer of 64 bits: 2, 2.0 and 2e0. int returns it.
  get isInt(): bool {
    if (this.kind != Kind.Number) return false;
    let p = this.start;
    const end = this.end, minus = at(p) == 0x2d;
    if (minus) p++;
    const first = p;
    let count: i64 = 0, point: i64 = -1, exponent: i64 = 0;
    for (; p < end && (at(p) | 0x20) != 0x65; p++) {
      if (at(p) == 0x2e) point = count;
      else count++;
    }
    const stop = p;
    if (point < 0) point = count;
    if (p < end) {
      const sign = at(p + 1);
      for (p += sign == 0x2d || sign == 0x2b ? 2 : 1; p < end; p++) if (exponent < 100000000) exponent = exponent * 10 + (at(p) - 0x30);
      if (sign == 0x2d) exponent = -exponent;
    }
    point += exponent;
    const most: u64 = minus ? <u64>1 << 63 : <u64>i64.MAX_VALUE;
    let n: u64 = 0, index: i64 = 0;
    for (p = first; p < stop; p++) {
      if (at(p) == 0x2e) continue;
      const d = <u64>(at(p) - 0x30);
      if (index++ >= point) {
        if (d != 0) return false;
      } else if (n > (most - d) / 10) {
        return false;
      } else {
        n = n * 10 + d;
      }
    }
    for (; n != 0 && index < point; index++) {
      if (n > most / 10) return false;
      n *= 10;
    }
    read = minus ? <i64>(0 - n) : <i64>n;
    return true;
  }

  int(): i64 { return this.isInt ? read : 0; }
  float(): f64 { return this.kind == Kind.Number ? parseFloat(this.toString()) : NaN; }

  // The member of an object, the last one of that name; null if there is none.
  get(name: string): Json | null {
    let found: Json | null = null;
    for (const i = new Items(this); i.next();) if (i.is(name)) found = i.value;
    return found;
  }

  // The items of an array, or the values of an object. Other values have none.
  items(): Json[] {
    const list: Json[] = [];
    for (const i = new Items(this); i.next();) list.push(i.value);
    return list;
  }

  part(from: usize, to: usize): Json {
    const base = changetype<usize>(this.document);
    return new Json(this.document, <i32>(from - base), <i32>(to - base));
  }
}

// The integer that isInt has read.
let read: i64 = 0;

// Goes through the members of an object, or the items of an array:
//   for (const i = new Items(v); i.next();) use(i.key, i.value)
export class Items {
  private at: usize;
  private stop: usize;
  private object: bool;
  private keyFrom: usize = 0;
  private keyTo: usize = 0;
  private from: usize = 0;
  private to: usize = 0;

  constructor(private within: Json) {
    this.object = within.kind == Kind.Object;
    this.at = this.object || within.kind == Kind.Array ? within.start + 1 : 0;
    this.stop = within.end;
  }

  next(): bool {
    if (!this.at) return false;
    let p = space(this.at, this.stop);
    if (at(p) == 0x2c) p = space(p + 1, this.stop);
    if (at(p) == 0x5d || at(p) == 0x7d) {
      this.at = 0;
      return false;
    }
    if (this.object) {
      this.keyFrom = p;
      this.keyTo = p = skipString(p);
      p = space(space(p, this.stop) + 1, this.stop);
    }
    this.from = p;
    this.at = this.to = skip(p, this.stop);
    return true;
  }

  get value(): Json { return this.within.part(this.from, this.to); }

  // The name of a member, as a value.
  get name(): Json { return this.within.part(this.keyFrom, this.keyTo); }

  get key(): string { return this.name.string()!; }

  // Whether the member has that name, which is ASCII.
  is(name: string): bool {
    const p = this.keyFrom + 1, n = <i32>(this.keyTo - 1 - p);
    let escaped = false;
    for (let i = 0; i < n; i++) {
      const c = at(p + i);
      if (c == 0x5c) {
        escaped = true;
        break;
      }
      if (i >= name.length || c != name.charCodeAt(i)) return false;
    }
    return escaped ? this.key == name : n == name.length;
  }
}

// Text in the making, in bytes of UTF-8.
export class Writer {
  private bytes: ArrayBuffer = new ArrayBuffer(256);
  private size: i32 = 0;

  // Writes bytes as they are.
  raw(from: usize, n: i32): this {
    if (n > this.bytes.byteLength - this.size) {
      const more = new ArrayBuffer((this.size + n) * 2);
      memory.copy(changetype<usize>(more), changetype<usize>(this.bytes), this.size);
      this.bytes = more;
    }
    memory.copy(changetype<usize>(this.bytes) + this.size, from, n);
    this.size += n;
    return this;
  }

  // Writes text as it is.
  text(text: string): this {
    const bytes = String.UTF8.encode(text, false, String.UTF8.ErrorMode.REPLACE);
    return this.raw(changetype<usize>(bytes), bytes.byteLength);
  }

  json(value: Json): this { return this.raw(value.start, value.size); }

  // Writes a string of JSON.
  string(text: string): this {
    let from = 0;
    this.text('"');
    for (let i = 0; i < text.length; i++) {
      const c = text.charCodeAt(i);
      if (c >= 0x20 && c != 0x22 && c != 0x5c) continue;
      if (i > from) this.text(text.substring(from, i));
      from = i + 1;
      this.text(c == 0x22 ? '\\"' : c == 0x5c ? "\\\\" : c == 0x0a ? "\\n" : c == 0x0d ? "\\r" : c == 0x09 ? "\\t" : "\\u00" + (c < 16 ? "0" : "") + c.toString(16));
    }
    return this.text((from == 0 ? text : text.substring(from)) + '"');
  }

  toJson(): Json { return Json.trusted(this.bytes.slice(0, this.size)); }
}

// An object of JSON in the making.
export class Obj {
  private out: Writer = new Writer();
  private first: bool = true;

  key(name: string): Writer {
    this.out.text(this.first ? "{" : ",").string(name).text(":");
    this.first = false;
    return this.out;
  }

  // Each adds a member; what is null is left out.
  string(name: string, value: string | null): this { if (value !== null) this.key(name).string(value); return this; }
  json(name: string, value: Json | null): this { if (value !== null) this.key(name).json(value); return this; }
  int(name: string, value: i64): this { this.key(name).text(value.toString()); return this; }
  float(name: string, value: f64): this { this.key(name).text(isFinite(value) ? value.toString() : "null"); return this; }
  bool(name: string, value: bool): this { this.key(name).text(value ? "true" : "false"); return this; }
  strings(name: string, list: string[]): this { return this.json(name, strings(list)); }
  list(name: string, list: Json[]): this { return this.json(name, array(list)); }

  toJson(): Json { return (this.first ? this.out.text("{}") : this.out.text("}")).toJson(); }
}

export function text(value: string): Json { return new Writer().string(value).toJson(); }

export function array(list: Json[]): Json {
  const out = new Writer().text("[");
  for (let i = 0; i < list.length; i++) (i > 0 ? out.text(",") : out).json(list[i]);
  return out.text("]").toJson();
}

export function strings(list: string[]): Json {
  const out = new Writer().text("[");
  for (let i = 0; i < list.length; i++) (i > 0 ? out.text(",") : out).string(list[i]);
  return out.text("]").toJson();
}

// mapStrings returns a value with every string in it, but for names, as f returns it; the
// value itself if nothing changes.
export function mapStrings(value: Json, f: (text: string) => string): Json {
  let p = value.start, from = p;
  const end = value.end, out = new Writer();
  while (p < end) {
    if (at(p) != 0x22) {
      p++;
      continue;
    }
    const begin = p;
    p = skipString(p);
    const after = space(p, end);
    if (after < end && at(after) == 0x3a) continue;
    const was = value.part(begin, p).string()!, is = f(was);
    if (is == was) continue;
    out.raw(from, <i32>(begin - from)).string(is);
    from = p;
  }
  return from == value.start ? value : out.raw(from, <i32>(end - from)).toJson();
}
