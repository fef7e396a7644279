#!/usr/bin/env node
// Makes a plugin of a script: agenthost-pack plugin.js [-o plugin.wasm]. The bytes are those of
// pack.go beside this file: two sections, which name the engine by its digest and hold the script.
import { createHash } from "node:crypto";
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { parseArgs, TextDecoder } from "node:util";

const maxScript = 4 << 20; // bytes

function fail(text) {
  console.error(`agenthost-pack: ${text}`);
  process.exit(3);
}

function commandLine() {
  try {
    return parseArgs({ allowPositionals: true, options: { output: { type: "string", short: "o" } } });
  } catch (e) {
    fail(e.message);
  }
}

/** The bytes of a number in LEB128. */
function varint(n) {
  const out = [];
  for (; n >= 0x80; n = Math.floor(n / 0x80)) out.push((n % 0x80) | 0x80);
  return Buffer.from([...out, n]);
}

/** A custom section of a module. */
function section(name, content) {
  const body = Buffer.concat([varint(Buffer.byteLength(name)), Buffer.from(name), content]);
  return Buffer.concat([Buffer.from([0]), varint(body.length), body]);
}

const { values, positionals: [file, ...more] } = commandLine();
if (file === undefined || more.length > 0) fail("usage: agenthost-pack plugin.js [-o plugin.wasm]");
const out = values.output ?? file.replace(/\.m?js$/, "") + ".wasm";
if (out === file) fail(`the result would replace ${file}: name another file with -o`);
let script;
try {
  script = readFileSync(file);
} catch (e) {
  fail(e.message);
}
if (script.length > maxScript) fail(`${file} has ${script.length} bytes, more than ${maxScript}`);
try {
  if (new TextDecoder("utf-8", { fatal: true }).decode(script).trim() === "") fail(`${file} is empty`);
} catch {
  fail(`${file} is not UTF-8`);
}
const engine = readFileSync(new URL("engine/engine.wasm", import.meta.url));
const digest = "sha256:" + createHash("sha256").update(engine).digest("hex");
const wasm = Buffer.concat([Buffer.from("\0asm\x01\0\0\0", "latin1"), section("agenthost.interpreter", Buffer.from(digest)), section("agenthost.script", script)]);
const whole = out + ".tmp"; // the plugin appears whole
try {
  writeFileSync(whole, wasm);
  renameSync(whole, out);
} catch (e) {
  rmSync(whole, { force: true });
  fail(e.message);
}
