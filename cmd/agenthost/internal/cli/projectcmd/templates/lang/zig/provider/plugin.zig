//! A context provider: it adds to an agent's instructions before its model is asked.

const std = @import("std");
const agenthost = @import("agenthost");

pub const panic = agenthost.panic;

/// How a message is to be answered.
fn advice(text: []const u8) []const u8 {
    if (std.mem.endsWith(u8, std.mem.trim(u8, text, " \t\r\n"), "?")) return "Answer the question first, in its language, and explain after that.";
    return "Answer in the language of the message.";
}

fn provide(p: *agenthost.Provide) !void {
    if (p.messages.len == 0) return;
    p.instruct(advice(try agenthost.textOf(p.messages[p.messages.len - 1])));
}

comptime {
    agenthost.plugin(.{
        .name = "example",
        .version = "0.1.0",
        .description = "Has agents answer in the language of the question.",
        .providers = .{agenthost.provider("example", .{}, provide)},
    });
}
