#!/bin/sh
# Builds glue.wasm, if clang 19 is there, and links engine.wasm: ./build.sh [DIRECTORY]
# writes both into the directory, this one if absent.
set -eu
cd "$(dirname "$0")"
out=${1:-.}
made=$(mktemp -d)
trap 'rm -r "$made"' EXIT
sed -E 's/^ +//; s,^//.*,,' kit.js >"$made/kit.js" # its lines keep their numbers
if command -v clang-19 >/dev/null; then
  clang-19 --target=wasm32 -std=c23 -O2 -Wall -nostdlib -ffreestanding --embed-dir="$made" \
    -mcpu=mvp -mbulk-memory -mmutable-globals -msign-ext \
    -Wl,--no-entry -Wl,--import-memory -Wl,--global-base=1179648 -Wl,-z,stack-size=65536 \
    -Wl,--export=agenthost_script -Wl,--strip-all -o "$out/glue.wasm" glue.c
elif [ "$out" != . ]; then
  cp glue.wasm "$out/"
fi
node link.mjs node_modules/quickjs-wasi/quickjs.wasm "$out/glue.wasm" "$out/engine.wasm"
