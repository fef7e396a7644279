//! The guest that pdk/conformance feeds: each part answers with the members of its request that
//! the contract names, written again as the kit has read them.

const agenthost = @import("agenthost");

const Call = agenthost.Call;
const Json = agenthost.Json;
const host = agenthost.host;

pub const panic = agenthost.panic;

/// Has no schema, so that the vectors reach the kit.
const any = "{\"type\":\"object\"}";

fn vector(c: *Call) !Json {
    return Json.of(.{
        .tool = c.tool,
        .arguments = c.arguments,
        .call_id = c.call_id,
        .idempotency_key = c.idempotency_key,
        .attempt = c.attempt,
        .provider = c.provider,
        .scope = c.scope,
        .state = c.state,
        .state_revision = c.state_revision,
        .config = c.config,
        .resumed = c.resumed,
    });
}

const Integer = struct { argument: i64 };

fn integer(_: *Call, args: Integer) Integer {
    return args;
}

const Asking = struct { fails: bool = false };

fn denied(tool: []const u8) bool {
    _ = host.callTool(tool, .{ .order = 8 }) catch |err| return err == error.PermissionDenied;
    return false;
}

fn tools() !Json {
    const answers = try host.callTools(.{ .{ .name = "look", .arguments = .{ .order = 7 } }, .{ .name = "pay", .arguments = .{ .order = 7 } }, .{ .name = "wait", .arguments = .{ .order = 7 } } });
    const found = try answers[0].result();
    const one = try host.callTool("look", .{ .order = 8 });
    var media = answers[0].media.?.items();
    const closed = answers[1].result();
    const failed = .{ if (closed) |_| "" else |err| agenthost.codeOf(err), if (closed) |_| "" else |err| agenthost.said(err).?.message, agenthost.codeOf(answers[2].err.?) };
    return Json.of(.{ .found = found, .media = media.next().?.value.get("media_type"), .failed = failed, .one = one, .denied = .{ denied("pay"), denied("drop") } });
}

fn askHost(c: *Call, args: Asking) !void {
    const absent = try host.kv.get("k") == null;
    _ = try host.kv.put("k", "a\x00\u{e9}", .{});
    const value = (try host.kv.get("k")).?;
    const n = try host.state("/n");
    const response = try host.fetch(.{
        .method = "POST",
        .url = "https://example.com/x",
        .headers = &.{.{ .name = "Authorization", .prefix = "Bearer ", .secret = "KEY" }},
        .body = "{\"a\":1}",
    });
    const ok = (try response.json()).get("ok");
    if (try host.beginStep("s") == null) try host.endStep("s", try Json.parse("{\"x\":1.0}"));
    const step = try host.beginStep("s");
    try host.progress("half");
    _ = try host.send("later", .{ .a = .{1} });
    const others = try tools();
    const plan = host.artifacts.read("plan");
    if (args.fails) _ = try plan;
    const code = if (plan) |_| "" else |err| agenthost.codeOf(err);
    try c.content(.{ .absent = absent, .text = value.value, .n = n, .status = response.status, .ok = ok, .step = step, .tools = others, .code = code });
}

fn passBytes(c: *Call, args: Asking) !void {
    _ = try host.kv.putBytes("k", "a\x00\u{e9}", .{ .revision = 0 });
    const item = (try host.kv.getBytes("k")).?;
    const digest = try host.artifacts.writeBytes("plan", "application/x-plan", "\x00\x01\x02");
    const plan = try host.artifacts.readBytes("plan");
    const response = try host.fetchBytes(.{
        .method = "POST",
        .url = "https://example.com/x",
        .headers = &.{.{ .name = "Authorization", .prefix = "Bearer ", .secret = "KEY" }},
        .body = "{\"a\":1}",
    });
    const none = host.callBytes("kv.get", .{ .key = "none" }, "", "value");
    if (args.fails) _ = try none;
    const code = if (none) |_| "" else |err| agenthost.codeOf(err);
    try c.content(.{ .text = item.value, .revision = item.revision, .digest = digest, .plan = plan.data, .type = plan.media_type, .status = response.status, .body = response.body, .code = code });
}

const Carrying = struct { size: usize, bytes: bool = false };

fn carry(c: *Call, args: Carrying) !void {
    const data = try agenthost.allocator.alloc(u8, args.size);
    for (data, 0..) |*b, i| b.* = @truncate(i);
    _ = if (args.bytes) try host.artifacts.writeBytes("load", "", data) else try host.artifacts.write("load", "", data);
    const file = if (args.bytes) try host.artifacts.readBytes("load") else try host.artifacts.read("load");
    var right: usize = 0;
    for (file.data, 0..) |b, i| right += @intFromBool(b == @as(u8, @truncate(i)));
    try c.content(.{ .right = right, .size = file.data.len });
}

fn writeLog(_: *Call) void {
    agenthost.log.warn("late", .{ .order = 1042, .who = "Ann", .note = "say \"hi\"", .empty = "", .eq = "a=b", .path = "a\\b", .paid = true, .days = 2.5 });
}

fn answer(c: *Call, args: Json) !void {
    if (args.get("interrupt")) |asked| {
        return c.ask(try asked.get("reason").?.string() orelse "", asked.get("data"));
    }
    try c.content(args.get("content"));
    try each(c, args, "state", Call.patch);
    try each(c, args, "media", Call.media);
    try each(c, args, "artifacts", Call.artifact);
    var agents = (args.get("schedule") orelse return).items();
    while (agents.next()) |agent| try c.schedule(try agent.value.string() orelse "");
}

fn each(c: *Call, args: Json, name: []const u8, comptime add: anytype) !void {
    var all = (args.get(name) orelse return).items();
    while (all.next()) |item| try add(c, item.value);
}

const Failure = struct { code: []const u8, message: []const u8, hint: ?[]const u8 = null, retryable: bool = false };

fn fail(_: *Call, args: Failure) !void {
    return agenthost.failWith(agenthost.errorOf(args.code), .{ .message = args.message, .hint = args.hint, .retryable = args.retryable });
}

fn report(v: *agenthost.View) !void {
    try v.report(.{ .processor = v.processor, .config = v.config, .scope = v.scope, .model = v.model, .messages = v.messages, .own_from = v.own_from });
}

fn outlineOf(o: *const agenthost.Outline) !Json {
    var rows: agenthost.Writer = .{};
    for (o.tools, 0..) |r, i| {
        try rows.byte(if (i == 0) '[' else ',');
        try rows.value(.{ r.message, r.part, if (r.is_result) "result" else "call", r.id, r.name });
    }
    try rows.raw(if (o.tools.len == 0) "[]" else "]");
    return Json.of(.{
        .count = o.count,
        .roles = o.roles,
        .bytes = o.bytes,
        .chars = o.chars,
        .tokens = o.tokens,
        .encoding = o.encoding,
        .parts = o.parts,
        .keep = o.keep,
        .own_from = o.own_from,
        .tools = rows.json(),
    });
}

fn reportOutline(v: *agenthost.View, o: *const agenthost.Outline) !void {
    try v.report(.{ .processor = v.processor, .config = v.config, .scope = v.scope, .model = v.model, .outline = try outlineOf(o) });
}

fn again(v: *agenthost.View) !void {
    try v.setMessages(v.messages);
}

fn route(r: *agenthost.Route) !void {
    const all = try Json.of(.{
        .config = r.config,
        .scope = r.scope,
        .input = r.input,
        .call_count = r.call_count,
        .stack = r.stack,
        .agents = r.agents,
        .state = r.state,
        .last = r.last,
        .outline = if (r.outline) |o| try outlineOf(&o) else null,
    });
    r.because(all.text);
}

fn provide(p: *agenthost.Provide) !void {
    const all = try Json.of(.{ .config = p.config, .scope = p.scope, .messages = p.messages });
    p.instruct(all.text);
}

fn observe(o: *const agenthost.Observe) !void {
    switch (o.outcome) {
        .responses => |list| agenthost.log.info("observed", .{ .responses = list.len }),
        .failure => |f| agenthost.log.warn("observed", .{ .code = f.code, .message = f.message }),
    }
}

comptime {
    agenthost.plugin(.{
        .name = "conformance",
        .version = "1.0.0",
        .tools = .{
            agenthost.tool("vector", "Answers with its call.", .{ .parameters = any }, vector),
            agenthost.tool("integer", "Answers with its argument.", .{ .parameters = any }, integer),
            agenthost.tool("host", "Asks the host for things.", .{}, askHost),
            agenthost.tool("bytes", "Passes bytes to the host and gets them.", .{}, passBytes),
            agenthost.tool("carry", "Writes an artifact and reads it.", .{}, carry),
            agenthost.tool("log", "Writes to the log.", .{ .parameters = any }, writeLog),
            agenthost.tool("answer", "Answers with its arguments, as a result.", .{ .parameters = any }, answer),
            agenthost.tool("fail", "Fails with its arguments.", .{ .parameters = any }, fail),
        },
        .processors = .{
            agenthost.processor("vector", .{}, report),
            agenthost.processor("outline", .{}, reportOutline),
            agenthost.processor("again", .{}, again),
        },
        .routers = .{agenthost.router("vector", .{}, route)},
        .providers = .{agenthost.provider("vector", .{ .observe = observe }, provide)},
    });
}
