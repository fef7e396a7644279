//! Two tools that keep what they count: the host stores it for each tenant.

const std = @import("std");
const agenthost = @import("agenthost");

const kv = agenthost.host.kv;

pub const panic = agenthost.panic;

const prefix = "score/";

const Points = struct { player: []const u8, points: i32 };

/// The schema of a type has no bounds; the host holds the arguments to this one.
const points_schema =
    \\{"type": "object", "additionalProperties": false, "required": ["player", "points"], "properties": {
    \\  "player": {"type": "string", "minLength": 1, "maxLength": 100},
    \\  "points": {"type": "integer", "minimum": -1000, "maximum": 1000}}}
;

const Score = struct { player: []const u8, score: i64 };

fn number(text: []const u8) !i64 {
    return std.fmt.parseInt(i64, text, 10) catch agenthost.fail(error.DataLoss, "a score is no number", .{});
}

fn score(_: *agenthost.Call, args: Points) !Score {
    const key = try agenthost.print(prefix ++ "{s}", .{args.player});
    const item = try kv.get(key);
    const total = args.points + if (item) |i| try number(i.value) else 0;
    const revision = if (item) |i| i.revision else 0;
    _ = try kv.put(key, try agenthost.print("{d}", .{total}), .{ .revision = revision }); // if another call was faster, this one fails with conflict
    return .{ .player = args.player, .score = total };
}

fn scores(_: *agenthost.Call) ![]const Score {
    var list: std.ArrayList(Score) = .empty;
    var after: ?[]const u8 = null;
    while (true) {
        const page = try kv.list(prefix, after);
        for (page.keys) |key| {
            const item = try kv.get(key) orelse continue;
            try list.append(agenthost.allocator, .{ .player = key[prefix.len..], .score = try number(item.value) });
        }
        after = page.next orelse return list.items;
    }
}

comptime {
    agenthost.plugin(.{
        .name = "scores",
        .version = "1.0.0",
        .description = "Keeps the scores of players.",
        .permissions = .{ .kv = .write },
        .tools = .{
            agenthost.tool("score", "Adds points to a player's score.", .{ .parameters = points_schema }, score),
            agenthost.tool("scores", "Lists the scores of all players.", .{ .read_only = true }, scores),
        },
    });
}
