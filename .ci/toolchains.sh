#!/usr/bin/env bash
# Installs what tests need beside Go: clang and lld for plugins in C, Debian's Rust with the
# target of plugins, AssemblyScript and Zig. Node.js and npm also run AgentKit's own client and a client that is
# generated from the OpenAPI document, with a linter of it, and clients of MCP, which the
# tests of host/stream, host/httpapi and host/mcpbridge install themselves, the last with a
# Node.js 22 of their own. Without them these tests skip themselves.
set -euo pipefail
cd "$(git rev-parse --show-toplevel)"

missing=()
command -v clang-19 >/dev/null || missing+=(clang-19)
command -v wasm-ld-19 >/dev/null || missing+=(lld-19)
[ -d /usr/lib/rustlib/wasm32-unknown-unknown ] || missing+=(rustc cargo libstd-rust-dev-wasm32)
command -v wasm-ld >/dev/null || command -v wasm-ld-14 >/dev/null || missing+=(lld) # of the version of Debian's Rust
command -v npm >/dev/null || missing+=(nodejs npm)
command -v systemd-analyze >/dev/null || missing+=(systemd) # which checks the unit of deploy/
if [ ${#missing[@]} -gt 0 ]; then
  root=$([ "$(id -u)" = 0 ] || echo sudo)
  $root apt-get update -q
  $root apt-get install -q -y --no-install-recommends "${missing[@]}"
fi

(cd examples/extism/assemblyscript && npm ci --no-audit --no-fund)
# npm writes no lock of this package that has every platform; its version is exact.
(cd pdk/zig/toolchain && npm install --no-package-lock --no-audit --no-fund)
