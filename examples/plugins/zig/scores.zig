//! Two tools that keep what they count: the host stores it for each tenant.

const std = @import("std");
const agenthost = @import("agenthost");

const kv = agenthost.host.kv;

pub const panic = agenthost.panic;

const prefix = "score/";

const Points = struct { player: []const u8, points: i32 };

const Score = struct { player: []const u8, score: i64 };

fn number(text: []const u8) !i64 {
    return std.fmt.parseInt(i64, text, 10) catch agenthost.fail(error.DataLoss, "a score is no number", .{});
}

fn score(_: *agenthost.Call, args: Points) !Score {
    if (args.player.len == 0 or args.player.len > 400) return agenthost.fail(error.InvalidArgument, "A player's name has 1 to 400 bytes.", .{});
    const key = try agenthost.print(prefix ++ "{s}", .{args.player});
    const item = try kv.get(key);
    const total = args.points + if (item) |i| try number(i.value) else 0;
    const revision = if (item) |i| i.revision else 0;
    _ = try kv.put(key, try agenthost.print("{d}", .{total}), .{ .revision = revision }); // if another call was faster, this one fails with conflict
    return .{ .player = args.player, .score = total };
}

fn scores(_: *agenthost.Call) ![]const Score {
    var list: std.ArrayList(Score) = .empty;
    for ((try kv.list(prefix, null)).keys) |key| {
        const item = try kv.get(key) orelse continue;
        try list.append(agenthost.allocator, .{ .player = key[prefix.len..], .score = try number(item.value) });
    }
    return list.items;
}

comptime {
    agenthost.plugin(.{
        .name = "scores",
        .version = "1.0.0",
        .description = "Keeps the scores of players.",
        .permissions = .{ .kv = .write },
        .tools = .{
            agenthost.tool("score", "Adds points to a player's score.", .{}, score),
            agenthost.tool("scores", "Lists the scores of all players.", .{ .read_only = true }, scores),
        },
    });
}
