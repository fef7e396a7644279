//! A router that gives a question to the agent whose words are in it.

const std = @import("std");
const agenthost = @import("agenthost");

pub const panic = agenthost.panic;

const Config = struct {
    rules: []const struct { agent: []const u8, words: []const []const u8 },
    otherwise: []const u8,
};

fn route(r: *agenthost.Route) !void {
    if (r.last != null) return; // the agent has answered: the run ends
    const config = try r.configured(Config);
    const said = if (r.input) |input| try agenthost.textOf(input) else "";
    const question = try std.ascii.allocLowerString(agenthost.allocator, said);
    for (config.rules) |rule| {
        for (rule.words) |word| {
            if (std.mem.indexOf(u8, question, try std.ascii.allocLowerString(agenthost.allocator, word)) == null) continue;
            try r.next(rule.agent);
            return r.because(try agenthost.print("the question has the word \"{s}\"", .{word}));
        }
    }
    try r.next(config.otherwise);
    r.because("the question has no word of a rule");
}

comptime {
    agenthost.plugin(.{
        .name = "triage",
        .version = "1.0.0",
        .description = "Routes questions by their words.",
        .routers = .{agenthost.router("triage", .{ .config = Config }, route)},
    });
}
