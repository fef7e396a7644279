//! A tool that asks a server for a translation, with a key that the plugin never sees.

const agenthost = @import("agenthost");

pub const panic = agenthost.panic;

const Translate = struct {
    text: []const u8,
    to: []const u8,

    pub const descriptions = .{ .to = "A language code, such as de." };
};

const Translation = struct { text: ?agenthost.Json };

fn translate(_: *agenthost.Call, args: Translate) !Translation {
    const question = try agenthost.Json.of(args);
    const response = try agenthost.host.fetch(.{
        .method = "POST",
        .url = "https://translate.example.com:8443/v1/translate",
        .headers = &.{
            .{ .name = "Content-Type", .value = "application/json" },
            .{ .name = "Authorization", .prefix = "Bearer ", .secret = "translate_key" },
        },
        .body = question.text,
    });
    if (!response.ok()) return agenthost.failWith(error.Unavailable, .{
        .message = try agenthost.print("the translation server answers with status {d}", .{response.status}),
        .retryable = response.status >= 500,
    });
    return .{ .text = (try response.json()).get("text") };
}

comptime {
    agenthost.plugin(.{
        .name = "translate",
        .version = "1.0.0",
        .description = "Translates texts.",
        .permissions = .{
            .http = .{.{ .host = "translate.example.com", .port = 8443, .methods = .{"POST"} }},
            .secrets = .{.{ .name = "translate_key", .hosts = .{"translate.example.com:8443"} }},
        },
        .tools = .{agenthost.tool("translate", "Translates a text into another language.", .{ .read_only = true }, translate)},
    });
}
