//! A plugin with a tool, which models call.

const std = @import("std");
const agenthost = @import("agenthost");

pub const panic = agenthost.panic;

const Text = struct {
    text: []const u8,

    pub const descriptions = .{ .text = "The text whose words are counted." };
};

fn countWords(_: *agenthost.Call, args: Text) ![]const u8 {
    var words = std.mem.tokenizeAny(u8, args.text, " \t\r\n");
    var n: usize = 0;
    while (words.next()) |_| n += 1;
    if (n == 0) return agenthost.fail(error.InvalidArgument, "The text is empty. Ask for one.", .{}); // the model reads this
    return agenthost.print("{d}", .{n});
}

comptime {
    agenthost.plugin(.{
        .name = "example",
        .version = "0.1.0",
        .description = "Counts words.",
        .tools = .{agenthost.tool("count_words", "Counts the words of a text.", .{ .read_only = true }, countWords)},
    });
}
