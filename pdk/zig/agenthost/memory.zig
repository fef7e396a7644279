//! Memory of one call: it grows while the call runs, and is given back when the call ends.

const std = @import("std");
const builtin = @import("builtin");

pub const wasm = builtin.cpu.arch == .wasm32;

const page = 64 << 10;

extern var __heap_base: u8;

var next: usize = 0;

/// The allocator of the call that runs. Nothing needs to be freed, and nothing may be kept from
/// one call to the next.
pub const allocator: std.mem.Allocator = if (wasm) .{ .ptr = undefined, .vtable = &.{ .alloc = alloc, .resize = resize, .remap = remap, .free = free } } else std.heap.page_allocator;

/// Gives back the memory of the call before.
pub fn reset() void {
    if (wasm) next = @intFromPtr(&__heap_base);
}

fn alloc(_: *anyopaque, len: usize, alignment: std.mem.Alignment, _: usize) ?[*]u8 {
    if (next == 0) reset();
    const at = alignment.forward(next);
    if (!reserve(at, len)) return null;
    return @ptrFromInt(at);
}

/// Makes the memory from at on as long, if there is so much.
fn reserve(at: usize, len: usize) bool {
    const end = std.math.add(usize, at, len) catch return false;
    const have = @wasmMemorySize(0) * page;
    if (end > have and @wasmMemoryGrow(0, (end - have + page - 1) / page) < 0) return false;
    next = end;
    return true;
}

fn isLast(memory: []u8) bool {
    return @intFromPtr(memory.ptr) + memory.len == next;
}

fn resize(_: *anyopaque, memory: []u8, _: std.mem.Alignment, len: usize, _: usize) bool {
    if (isLast(memory)) return reserve(@intFromPtr(memory.ptr), len);
    return len <= memory.len;
}

fn remap(context: *anyopaque, memory: []u8, alignment: std.mem.Alignment, len: usize, address: usize) ?[*]u8 {
    return if (resize(context, memory, alignment, len, address)) memory.ptr else null;
}

fn free(_: *anyopaque, memory: []u8, _: std.mem.Alignment, _: usize) void {
    if (isLast(memory)) next = @intFromPtr(memory.ptr);
}
