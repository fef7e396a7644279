#!/bin/sh
# Builds a plugin of C: ./build.sh plugin.c plugin.wasm. CC names another compiler than
# clang-19 or clang; it must know the target wasm32, and lld must be there. agenthost.h is found
# beside the plugin or beside this file. The exit code is 69 if there is no compiler.
set -eu
cc=${CC:-$(command -v clang-19 || command -v clang || true)}
if [ -z "$cc" ]; then
  echo "there is no clang: on Debian, apt-get install clang-19 lld-19" >&2
  exit 69
fi
tmp=${2%.wasm}.tmp # the module appears whole, and has the same name in it wherever it is built
trap 'rm -rf "$tmp"' EXIT
mkdir -p "$tmp"
"$cc" --target=wasm32 -std=c11 -O2 -Wall -nostdlib -mbulk-memory -I "$(dirname "$0")" \
  -Wl,--no-entry -Wl,--stack-first -Wl,--strip-debug -o "$tmp/plugin.wasm" "$1"
mv "$tmp/plugin.wasm" "$2"
