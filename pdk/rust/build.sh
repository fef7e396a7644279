#!/bin/sh
# Builds a plugin of Rust: ./build.sh DIRECTORY plugin.wasm. It takes the first of rustup's and
# Debian's compiler that has the target wasm32-unknown-unknown; RUSTC names another. The exit
# code is 69 if there is none.
set -eu
target=wasm32-unknown-unknown
for rustc in ${RUSTC:-rustc /usr/bin/rustc}; do
  dir=$("$rustc" --print target-libdir --target $target 2>/dev/null) || continue
  [ -d "$dir" ] && found=$(command -v "$rustc") && break
done
if [ -z "${found:-}" ]; then
  echo "no rustc has the target $target: rustup target add $target, or on Debian: apt-get install rustc cargo libstd-rust-dev-wasm32 lld" >&2
  exit 69
fi
kit=$(cd "$(dirname "$0")" && pwd)
flags="--remap-path-prefix=$kit=agenthost"
if [ "$found" = /usr/bin/rustc ]; then # Debian's compiler comes without a linker; that of its package lld is the one of its version
  linker=$(command -v wasm-ld || command -v wasm-ld-14 || echo rust-lld)
  flags="$flags -C linker=$linker -C linker-flavor=wasm-ld"
fi
case $2 in /*) out=$2 ;; *) out=$(pwd)/$2 ;; esac
cd "$1"
# The linker's flags are the target's alone, and cargo is the compiler's own.
RUSTC=$found CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS=$flags "$(dirname "$found")/cargo" build --quiet --release --offline --target $target
name=$(sed -n '/^\[package\]/,/^\[[^p]/s/^name *= *"\(.*\)"/\1/p' Cargo.toml | tr - _)
cp "${CARGO_TARGET_DIR:-target}/$target/release/$name.wasm" "${out%.wasm}.tmp.wasm"
mv "${out%.wasm}.tmp.wasm" "$out" # the module appears whole
