//! A provider that reminds agents of what the user has asked them to remember in the thread.

const std = @import("std");
const agenthost = @import("agenthost");

const host = agenthost.host;

pub const panic = agenthost.panic;

const sign = "Remember: ";
const most = 20; // facts; the oldest is forgotten first

fn known() ![]const []const u8 {
    return try (try host.providerState()).read(?[]const []const u8) orelse &.{};
}

fn provide(p: *agenthost.Provide) !void {
    const facts = try known();
    if (facts.len == 0) return;
    const list = try std.mem.join(agenthost.allocator, "\n- ", facts);
    p.instruct(try agenthost.print("The user has asked you to remember:\n- {s}", .{list}));
}

fn observe(o: *const agenthost.Observe) !void {
    if (o.outcome == .failure) return;
    var i = o.messages.len;
    while (i > 0) {
        i -= 1;
        const role = try o.messages[i].get("role").?.string();
        if (!std.mem.eql(u8, role.?, "user")) continue;
        const question = try agenthost.textOf(o.messages[i]);
        if (std.mem.startsWith(u8, question, sign)) try remember(question[sign.len..]);
        return;
    }
}

fn remember(fact: []const u8) !void {
    var facts: std.ArrayList([]const u8) = .empty;
    try facts.appendSlice(agenthost.allocator, try known());
    try facts.append(agenthost.allocator, fact);
    try host.keepProviderState(facts.items[facts.items.len -| most..]);
}

comptime {
    agenthost.plugin(.{
        .name = "remember",
        .version = "1.0.0",
        .description = "Remembers what it is asked to, in the thread.",
        .providers = .{agenthost.provider("remember", .{ .observe = observe }, provide)},
    });
}
