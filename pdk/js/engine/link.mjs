// Links the JavaScript engine of the npm package quickjs-wasi and glue.wasm into one
// module that is a plugin: node link.mjs ENGINE GLUE OUT, with binaryen's wasm-merge
// and wasm-opt from npm beside this file or above it.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

// WebAssembly 2.0 without what the engine has no use for, and nothing newer: a host
// refuses what it does not know.
const features = ["--mvp-features", "--enable-bulk-memory", "--enable-bulk-memory-opt", "--enable-sign-ext",
  "--enable-mutable-globals", "--enable-nontrapping-float-to-int", "--enable-multivalue",
  "--enable-reference-types"];

// What a host calls or reads.
const exported = ["memory", "_initialize", "agenthost_script", "agenthost_describe", "agenthost_tool",
  "agenthost_process", "agenthost_route", "agenthost_provide", "agenthost_observe"];

const [engine, glue, out] = process.argv.slice(2);
const bin = join(dirname(createRequire(import.meta.url).resolve("binaryen/package.json")), "bin");
const dir = mkdtempSync(join(tmpdir(), "link-"));
try {
  const at = (name) => join(dir, name);
  const run = (tool, ...args) => execFileSync(process.execPath, [join(bin, tool), ...features, ...args], { stdio: "inherit" });
  const glueBytes = readFileSync(glue);
  writeFileSync(at("engine.wasm"), edit(readFileSync(engine), {
    import: (i) => ({ ...i, module: "glue" }),
    export: (e) => ({ ...e, name: e.name === "_initialize" ? "engine_initialize" : e.name }),
    pages: pagesOfImport(glueBytes),
  }));
  writeFileSync(at("glue.wasm"), edit(glueBytes, {
    import: (i) => (i.module === "env" ? { ...i, module: "engine" } : i),
  }));
  run("wasm-merge", at("engine.wasm"), "engine", at("glue.wasm"), "glue", "-o", at("merged.wasm"));
  writeFileSync(at("merged.wasm"), edit(readFileSync(at("merged.wasm")), {
    export: (e) => (exported.includes(e.name) ? e : null),
  }));
  run("wasm-opt", "--remove-unused-module-elements", "-Oz", "--strip-debug", "--strip-producers", "--strip-target-features", at("merged.wasm"), "-o", out);
} finally {
  rmSync(dir, { recursive: true });
}

// edit rewrites the imports, the exports and the least size of the memory of a module.
function edit(bytes, { import: anImport = (i) => i, export: anExport = (e) => e, pages }) {
  const parts = [bytes.subarray(0, 8)];
  for (const s of sections(bytes)) {
    let body = s.body;
    if (s.id === 2) body = listOf(imports(body).map(anImport), (i) => [...text(i.module), ...text(i.name), ...i.desc]);
    if (s.id === 5 && pages) body = memory(body, pages);
    if (s.id === 7) body = listOf(exports(body).map(anExport).filter((e) => e), (e) => [...text(e.name), ...e.desc]);
    parts.push(Uint8Array.from([s.id, ...number(body.length)]), body);
  }
  return Buffer.concat(parts);
}

function* sections(bytes) {
  const r = reader(bytes, 8);
  while (r.at < bytes.length) {
    const id = r.byte(), n = r.number();
    yield { id, body: bytes.subarray(r.at, (r.at += n)) };
  }
}

function imports(body) {
  const r = reader(body);
  return Array.from({ length: r.number() }, () => {
    const module = r.text(), name = r.text(), from = r.at, kind = r.byte();
    if (kind === 0) r.number(); // a function's type
    else if (kind === 2) r.limits();
    else if (kind === 3) r.at += 2; // a global's type
    else throw new Error(`the import ${module}.${name} is of kind ${kind}`);
    return { module, name, kind, desc: body.subarray(from, r.at) };
  });
}

function exports(body) {
  const r = reader(body);
  return Array.from({ length: r.number() }, () => {
    const name = r.text(), from = r.at;
    r.byte();
    r.number();
    return { name, desc: body.subarray(from, r.at) };
  });
}

function memory(body, pages) {
  const r = reader(body);
  if (r.number() !== 1) throw new Error("the engine has not one memory");
  const [flags, least, most] = r.limits();
  return Uint8Array.from([1, flags, ...number(Math.max(least, pages)), ...(flags & 1 ? number(most) : [])]);
}

function pagesOfImport(bytes) {
  const { body } = [...sections(bytes)].find((s) => s.id === 2);
  const r = reader(imports(body).find((i) => i.kind === 2).desc, 1);
  return r.limits()[1];
}

function reader(bytes, at = 0) {
  return {
    at,
    byte() { return bytes[this.at++]; },
    number() {
      let n = 0;
      for (let shift = 0; ; shift += 7) {
        const b = this.byte();
        n += (b & 0x7f) * 2 ** shift;
        if (b < 0x80) return n;
      }
    },
    text() {
      const n = this.number();
      return new TextDecoder().decode(bytes.subarray(this.at, (this.at += n)));
    },
    limits() {
      const flags = this.byte();
      return [flags, this.number(), flags & 1 ? this.number() : undefined];
    },
  };
}

function number(n) {
  const out = [];
  do out.push((n % 128) | (n >= 128 ? 128 : 0)); while ((n = Math.floor(n / 128)) > 0);
  return out;
}

function text(s) {
  const b = new TextEncoder().encode(s);
  return [...number(b.length), ...b];
}

function listOf(items, bytesOf) {
  return Uint8Array.from([...number(items.length), ...items.flatMap(bytesOf)]);
}
