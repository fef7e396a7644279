#!/bin/sh
# Builds a plugin of AssemblyScript: ./build.sh plugin.ts plugin.wasm. The kit is the directory
# agenthost/, here or beside this file. The compiler is that of the package assemblyscript, here
# or in the path; ASC names another. The exit code is 69 if there is none.
set -eu
asc=${ASC:-$( [ -x node_modules/.bin/asc ] && echo node_modules/.bin/asc || command -v asc || true)}
if [ -z "$asc" ]; then
  echo "there is no asc: npm install assemblyscript@0.28.20" >&2
  exit 69
fi
kit=agenthost
[ -d "$kit" ] || kit=$(dirname "$0")/agenthost
tmp=${2%.wasm}.tmp.wasm # the module appears whole
trap 'rm -f "$tmp"' EXIT
"$asc" "$1" --outFile "$tmp" -O2 --debug --noAssert --runtime minimal --use "abort=$kit/host/abort"
mv "$tmp" "$2"
