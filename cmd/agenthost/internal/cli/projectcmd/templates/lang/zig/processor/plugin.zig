//! A history processor: it changes the messages that models see. The stored conversation keeps
//! them.

const std = @import("std");
const agenthost = @import("agenthost");

pub const panic = agenthost.panic;

fn tidy(text: []const u8) ![]const u8 {
    var out: std.ArrayList(u8) = .empty;
    var words = std.mem.tokenizeAny(u8, text, " \t\r\n");
    while (words.next()) |word| {
        if (out.items.len > 0) try out.append(agenthost.allocator, ' ');
        try out.appendSlice(agenthost.allocator, word);
    }
    return out.items;
}

fn process(view: *agenthost.View) !void {
    try view.mapText(tidy); // of every message; those that do not change are not sent back
}

comptime {
    agenthost.plugin(.{
        .name = "example",
        .version = "0.1.0",
        .description = "Takes doubled spaces out of what models see.",
        .processors = .{agenthost.processor("example", .{}, process)},
    });
}
