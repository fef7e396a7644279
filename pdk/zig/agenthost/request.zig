//! What the host asks of the parts of a plugin, and what they answer.

const std = @import("std");
const failure = @import("failure.zig");
const memory = @import("memory.zig");
const json = @import("json.zig");

const Json = json.Json;
const Writer = json.Writer;
const fail = failure.fail;
const allocator = memory.allocator;

const Any = failure.Error || error{OutOfMemory};

fn wrong(name: []const u8, noun: []const u8) failure.Error {
    return fail(error.InvalidArgument, "{s} is no {s}", .{ name, noun });
}

fn textOrNone(v: ?Json, name: []const u8) Any!?[]const u8 {
    return try (v orelse return null).string() orelse wrong(name, "string");
}

fn text(v: ?Json, name: []const u8) Any![]const u8 {
    return try textOrNone(v, name) orelse wrong(name, "string");
}

fn nameThere(v: ?Json, name: []const u8) Any![]const u8 {
    const s = try text(v, name);
    return if (s.len > 0) s else wrong(name, "name");
}

fn whole(v: ?Json, name: []const u8, least: i64) failure.Error!i64 {
    const n = (v orelse return wrong(name, "integer")).int() orelse return wrong(name, "integer");
    return if (n >= least and n <= 9007199254740991) n else wrong(name, "integer");
}

fn ofKind(v: ?Json, kind: json.Kind, name: []const u8) failure.Error!?Json {
    const there = v orelse return null;
    return if (there.kind() == kind) there else wrong(name, @tagName(kind));
}

fn list(v: ?Json, name: []const u8, comptime check: fn (Json) Any!void) Any![]const Json {
    const there = try ofKind(v, .array, name) orelse return wrong(name, "array");
    const out = try allocator.alloc(Json, there.count());
    var all = there.items();
    for (out) |*item| {
        item.* = all.next().?.value;
        try check(item.*);
    }
    return out;
}

fn texts(v: ?Json, name: []const u8) Any![]const []const u8 {
    const there = try ofKind(v, .array, name) orelse return wrong(name, "array");
    const out = try allocator.alloc([]const u8, there.count());
    var all = there.items();
    for (out) |*item| item.* = try text(all.next().?.value, name);
    return out;
}

/// For whom a call is made. What does not apply is null.
pub const Scope = struct {
    tenant: ?[]const u8 = null,
    thread: ?[]const u8 = null,
    run: ?[]const u8 = null,
    network: ?[]const u8 = null,
    agent: ?[]const u8 = null,

    fn read(v: ?Json) Any!Scope {
        const there = try ofKind(v, .object, "scope") orelse return .{};
        var twice: u32 = 0;
        const m = json.pick(there, &.{ "tenant", "thread", "run", "network", "agent" }, &twice);
        return .{
            .tenant = try textOrNone(m[0], "scope.tenant"),
            .thread = try textOrNone(m[1], "scope.thread"),
            .run = try textOrNone(m[2], "scope.run"),
            .network = try textOrNone(m[3], "scope.network"),
            .agent = try textOrNone(m[4], "scope.agent"),
        };
    }
};

/// A message with one text, whose role is user, assistant, system or tool.
pub fn message(role: []const u8, words: []const u8) error{OutOfMemory}!Json {
    return Json.of(.{ .role = role, .parts = .{.{ .type = "text", .text = words }} });
}

/// The texts of a message's text parts, one after the other.
pub fn textOf(m: Json) error{OutOfMemory}![]const u8 {
    var out: std.ArrayList(u8) = .empty;
    var parts = (m.get("parts") orelse return "").items();
    while (parts.next()) |p| {
        const kind = p.value.get("type") orelse continue;
        if (kind.kind() != .string or !json.keyIs(kind.text, "text")) continue;
        const words = p.value.get("text") orelse continue;
        try out.appendSlice(allocator, try words.string() orelse continue);
    }
    return out.items;
}

fn noCheck(_: Json) Any!void {}

const part_fields = [_][]const u8{ "type", "text", "signature", "id", "name", "arguments", "content", "is_error", "media", "media_type", "url", "data", "value" };

fn bits(comptime names: []const []const u8) u32 {
    return comptime all: {
        var out: u32 = 1; // the type
        for (names) |name| {
            for (part_fields, 0..) |field, i| {
                if (std.mem.eql(u8, field, name)) out |= 1 << i;
            }
        }
        break :all out;
    };
}

fn checkPart(p: Json) Any!void {
    if (p.kind() != .object) return wrong("a part", "object");
    var twice: u32 = 0;
    const m = json.pick(p, &part_fields, &twice);
    const kind = try nameThere(m[0], "the type of a part");
    const is = struct {
        kind: []const u8,
        fn of(s: @This(), wanted: []const u8) bool {
            return std.mem.eql(u8, s.kind, wanted);
        }
    }{ .kind = kind };
    var has: u32 = bits(&.{});
    if (is.of("text")) {
        has = bits(&.{"text"});
        _ = try text(m[1], "text");
    } else if (is.of("reasoning")) {
        has = bits(&.{ "text", "signature" });
        _ = try text(m[1], "text");
        _ = try textOrNone(m[2], "signature");
    } else if (is.of("tool_call")) {
        has = bits(&.{ "id", "name", "arguments" });
        _ = try nameThere(m[3], "id");
        _ = try nameThere(m[4], "name");
    } else if (is.of("tool_result")) {
        has = bits(&.{ "id", "name", "content", "is_error", "media" });
        _ = try nameThere(m[3], "id");
        _ = try nameThere(m[4], "name");
        _ = try ofKind(m[7], .boolean, "is_error");
        if (m[8] != null) _ = try list(m[8], "media", checkMedia);
    } else if (is.of("media")) {
        has = bits(&.{ "media_type", "url", "data" });
        _ = try text(m[9], "media_type");
        _ = try textOrNone(m[10], "url");
        _ = try textOrNone(m[11], "data");
    } else if (is.of("data")) {
        has = bits(&.{"value"});
    }
    if (twice & has != 0) return fail(error.InvalidArgument, "a part has a field twice", .{});
}

fn checkMedia(p: Json) Any!void {
    const kind = if (p.kind() == .object) p.get("type") else null;
    if (kind == null or kind.?.kind() != .string or !json.keyIs(kind.?.text, "media")) return wrong("media", "list of media");
    // A part in a list of media holds no list of its own.
    var twice: u32 = 0;
    const m = json.pick(p, &part_fields, &twice);
    _ = try text(m[9], "media_type");
    _ = try textOrNone(m[10], "url");
    _ = try textOrNone(m[11], "data");
    if (twice & bits(&.{ "media_type", "url", "data" }) != 0) return fail(error.InvalidArgument, "a part has a field twice", .{});
}

pub fn checkMessage(m: Json) Any!void {
    if (m.kind() != .object) return wrong("a message", "object");
    var twice: u32 = 0;
    const f = json.pick(m, &.{ "id", "role", "agent", "parts", "created_at", "metadata" }, &twice);
    if (twice != 0) return fail(error.InvalidArgument, "a message has a field twice", .{});
    const role = try text(f[1], "the role of a message");
    for ([_][]const u8{ "system", "user", "assistant", "tool" }) |known| {
        if (std.mem.eql(u8, role, known)) break;
    } else return wrong("the role of a message", "known one");
    _ = try textOrNone(f[0], "the id of a message");
    _ = try textOrNone(f[2], "the agent of a message");
    _ = try textOrNone(f[4], "created_at");
    if (f[5] != null and !f[5].?.isNull()) _ = try ofKind(f[5], .object, "metadata");
    const parts = try ofKind(f[3], .array, "the parts of a message") orelse return;
    var all = parts.items();
    while (all.next()) |p| try checkPart(p.value);
}

/// A list of JSON values in the making.
const List = struct {
    out: Writer = .{},

    fn add(l: *List, v: anytype) error{OutOfMemory}!void {
        try l.out.byte(if (l.out.bytes.items.len == 0) '[' else ',');
        try l.out.value(v);
    }

    /// The list, null if nothing is in it.
    fn json(l: *List) error{OutOfMemory}!?Json {
        if (l.out.bytes.items.len == 0) return null;
        try l.out.byte(']');
        return l.out.json();
    }
};

fn configAs(config: ?Json, comptime T: type) Any!T {
    return json.readAs(config orelse .{ .text = "{}" }, T, "the configuration");
}

/// A person's answer to an interrupt.
pub const Answered = struct { interrupt_id: []const u8, answer: ?Json };

/// A call of a tool, and its answer.
pub const Call = struct {
    tool: []const u8,
    /// Null in a bare call. Typed arguments are the second parameter of a tool's function.
    arguments: ?Json,
    call_id: ?[]const u8,
    /// The same whenever this very call is made again.
    idempotency_key: ?[]const u8,
    /// From 1. Above 1 an earlier attempt may have taken effect.
    attempt: ?i64,
    /// The provider that contributed the tool, if one did.
    provider: ?[]const u8,
    scope: Scope,
    /// The network's state and its revision, with the permission state.
    state: ?Json,
    state_revision: ?i64,
    config: ?Json,
    /// A person's answers to this call's interrupts.
    resumed: ?[]const Answered,

    kit: struct { content: Json = .nothing, interrupt: ?Json = null, state: List = .{}, media: List = .{}, artifacts: List = .{}, schedule: List = .{} } = .{},

    pub fn read(request: []const json.Item) Any!Call {
        const m = json.pickFrom(request, &.{ "tool", "arguments", "call_id", "idempotency_key", "attempt", "provider", "scope", "state", "state_revision", "config", "resumed" });
        return .{
            .tool = try nameThere(m[0], "tool"),
            .arguments = m[1],
            .call_id = try textOrNone(m[2], "call_id"),
            .idempotency_key = try textOrNone(m[3], "idempotency_key"),
            .attempt = if (m[4]) |v| try whole(v, "attempt", 1) else null,
            .provider = try textOrNone(m[5], "provider"),
            .scope = try Scope.read(m[6]),
            .state = try ofKind(m[7], .object, "state"),
            .state_revision = if (m[8]) |v| try whole(v, "state_revision", 0) else null,
            .config = m[9],
            .resumed = if (m[10]) |v| try answered(v) else null,
        };
    }

    fn answered(v: Json) Any![]const Answered {
        if (v.kind() != .array) return wrong("resumed", "array");
        const out = try allocator.alloc(Answered, v.count());
        var all = v.items();
        for (out) |*a| {
            const one = all.next().?.value;
            if (one.kind() != .object) return wrong("an answer", "object");
            a.* = .{ .interrupt_id = try nameThere(one.get("interrupt_id"), "interrupt_id"), .answer = one.get("answer") };
        }
        return out;
    }

    /// The last answer of a person, if the call was interrupted.
    pub fn answer(c: *const Call) ?Json {
        const all = c.resumed orelse return null;
        return if (all.len == 0) null else all[all.len - 1].answer;
    }

    /// The plugin's configuration as a type; an absent one is an empty object.
    pub fn configured(c: *const Call, comptime T: type) Any!T {
        return configAs(c.config, T);
    }

    /// Says what the model reads, where the function returns nothing.
    pub fn content(c: *Call, value: anytype) error{OutOfMemory}!void {
        c.kit.content = try Json.of(value);
    }

    /// Adds an operation of RFC 6902 on the network's state, applied after the call:
    /// `.{ .op = "add", .path = "/city", .value = city }`.
    pub fn patch(c: *Call, operation: anytype) error{OutOfMemory}!void {
        try c.kit.state.add(operation);
    }

    /// Adds a media part to the result: `.{ .type = "media", .media_type = kind, .data = base64 }`.
    pub fn media(c: *Call, part: anytype) error{OutOfMemory}!void {
        try c.kit.media.add(part);
    }

    /// Adds an artifact: `.{ .name = name, .parts = parts }`.
    pub fn artifact(c: *Call, made: anytype) error{OutOfMemory}!void {
        try c.kit.artifacts.add(made);
    }

    /// Has an agent of the network run next.
    pub fn schedule(c: *Call, agent: []const u8) error{OutOfMemory}!void {
        try c.kit.schedule.add(agent);
    }

    /// Asks a person. The tool is called again with the answer as `c.answer()`; what else it
    /// says now does not count.
    pub fn ask(c: *Call, reason: []const u8, data: ?Json) error{OutOfMemory}!void {
        c.kit.interrupt = try Json.of(.{ .reason = reason, .data = data });
    }

    pub fn result(c: *Call) error{OutOfMemory}!Json {
        if (c.kit.interrupt) |asked| return Json.of(.{ .interrupt = asked });
        return Json.of(.{
            .content = c.kit.content,
            .state = try c.kit.state.json(),
            .media = try c.kit.media.json(),
            .artifacts = try c.kit.artifacts.json(),
            .schedule = try c.kit.schedule.json(),
        });
    }
};

/// A tool's call or result in an outline.
pub const Row = struct { message: u32, part: u32, is_result: bool, id: []const u8, name: []const u8 };

/// A conversation without its content: one entry a message in every column. The kit has
/// checked it, so that any index in it may be used without a look.
pub const Outline = struct {
    count: u32,
    /// One letter a message: s system, u user, a assistant, t tool.
    roles: []const u8,
    bytes: []const u32,
    chars: []const u32,
    tokens: ?[]const u32,
    encoding: ?[]const u8,
    parts: []const u32,
    /// Messages that may be edited but not dropped.
    keep: ?[]const u32,
    /// Where the rounds begin that the agent about to be asked has made itself.
    own_from: ?u32,
    tools: []const Row,

    pub fn read(v: Json) Any!Outline {
        if (v.kind() != .object) return wrong("outline", "object");
        var twice: u32 = 0;
        const m = json.pick(v, &.{ "count", "roles", "bytes", "chars", "tokens", "encoding", "parts", "keep", "own_from", "tools" }, &twice);
        const roles = try text(m[1], "outline.roles");
        const count = try whole(m[0], "outline.count", 0);
        if (roles.len != count or std.mem.indexOfNone(u8, roles, "suat") != null) return wrong("outline.roles", "letter of s, u, a and t for each message");
        var o: Outline = .{
            .count = @intCast(roles.len),
            .roles = roles,
            .bytes = try column(m[2], "outline.bytes", roles.len),
            .chars = try column(m[3], "outline.chars", roles.len),
            .tokens = if (m[4] != null) try column(m[4], "outline.tokens", roles.len) else null,
            .encoding = try textOrNone(m[5], "outline.encoding"),
            .parts = try column(m[6], "outline.parts", roles.len),
            .keep = if (m[7] != null) try column(m[7], "outline.keep", null) else null,
            .own_from = null,
            .tools = &.{},
        };
        for (o.keep orelse &.{}) |at| {
            if (at >= o.count) return wrong("an entry of outline.keep", "message");
        }
        if (m[8]) |from| {
            const n = try whole(from, "outline.own_from", 0);
            if (n > o.count) return wrong("outline.own_from", "message");
            o.own_from = @intCast(n);
        }
        o.tools = try o.rows(m[9]);
        return o;
    }

    fn rows(o: *const Outline, v: ?Json) Any![]const Row {
        const there = try ofKind(v, .array, "outline.tools") orelse return wrong("outline.tools", "array");
        var out: std.ArrayList(Row) = .empty;
        var all = there.items();
        while (all.next()) |item| {
            const r = try o.row(item.value);
            if (out.getLastOrNull()) |before| {
                if (before.message > r.message or before.message == r.message and before.part >= r.part) return wrong("outline.tools", "list in order");
            }
            try out.append(allocator, r);
        }
        return out.items;
    }

    fn row(o: *const Outline, v: Json) Any!Row {
        const name = "a row of outline.tools";
        if (v.kind() != .array) return wrong(name, "array");
        var entries: [5]?Json = .{ null, null, null, null, null };
        var all = v.items();
        for (&entries) |*e| e.* = (all.next() orelse return wrong(name, "row of five")).value;
        const at = try whole(entries[0], name, 0);
        if (at >= o.count) return wrong(name, "row of a part that is there");
        const part = try whole(entries[1], name, 0);
        if (part >= o.parts[@intCast(at)]) return wrong(name, "row of a part that is there");
        const kind = try text(entries[2], name);
        const is_result = std.mem.eql(u8, kind, "result");
        if (!is_result and !std.mem.eql(u8, kind, "call")) return wrong(name, "call or result");
        return .{ .message = @intCast(at), .part = @intCast(part), .is_result = is_result, .id = try text(entries[3], name), .name = try text(entries[4], name) };
    }
};

/// An array of numbers in one pass.
fn column(v: ?Json, name: []const u8, count: ?usize) Any![]const u32 {
    const there = try ofKind(v, .array, name) orelse return wrong(name, "array");
    const s = there.text;
    // An item takes two bytes at least, so this is no more than what the host has sent.
    const out = try allocator.alloc(u32, s.len / 2);
    var n: usize = 0;
    var at = json.skipSpace(s, 1);
    while (s[at] != ']') {
        const from = at;
        var value: u32 = 0;
        while (std.ascii.isDigit(s[at]) and at - from < 9) : (at += 1) value = value * 10 + (s[at] - '0');
        if (at == from or s[at] != ',' and s[at] != ']') { // not so simple
            var rest: json.Items = .{ .text = s, .at = from, .object = false };
            const large = try whole(rest.next().?.value, name, 0);
            value = std.math.cast(u32, large) orelse return wrong(name, "list of numbers below 4294967296");
            at = json.skipSpace(s, rest.at);
        }
        out[n] = value;
        n += 1;
        if (s[at] == ',') at = json.skipSpace(s, at + 1);
    }
    if (count != null and n != count.?) return fail(error.InvalidArgument, "{s} has not {d} entries", .{ name, count.? });
    return out[0..n];
}

/// What a processor is given, and the edits that it makes. All indices are those of the view
/// that it was given.
pub const View = struct {
    processor: []const u8,
    config: ?Json,
    scope: Scope,
    /// The model that the view is for.
    model: []const u8,
    /// Empty for a processor that reads an outline.
    messages: []const Json = &.{},
    /// Where the rounds begin that the agent about to be asked has made itself.
    own_from: ?u32 = null,

    kit: struct { edits: List = .{}, replaced: ?Json = null, report: ?Json = null } = .{},

    /// Reads a request into a view, and the outline of one that has an outline.
    pub fn read(request: []const json.Item, outline: ?*Outline) Any!View {
        const m = json.pickFrom(request, &.{ "processor", "config", "scope", "model", "messages", "own_from", "outline" });
        var v: View = .{ .processor = try nameThere(m[0], "processor"), .config = m[1], .scope = try Scope.read(m[2]), .model = try text(m[3], "model") };
        if ((m[4] == null) == (m[6] == null)) return fail(error.InvalidArgument, "exactly one of messages and outline is there", .{});
        if (outline) |o| {
            o.* = try Outline.read(m[6] orelse return fail(error.InvalidArgument, "processor {s} reads an outline", .{v.processor}));
            v.own_from = o.own_from;
            return v;
        }
        if (m[6] != null) return fail(error.InvalidArgument, "processor {s} reads messages", .{v.processor});
        v.messages = try list(m[4], "messages", checkMessage);
        if (m[5]) |from| {
            const n = try whole(from, "own_from", 0);
            if (n > v.messages.len) return wrong("own_from", "message");
            v.own_from = @intCast(n);
        }
        return v;
    }

    /// The processor's configuration as a type; an absent one is an empty object.
    pub fn configured(v: *const View, comptime T: type) Any!T {
        return configAs(v.config, T);
    }

    /// Drops the messages from `from` to before `to`.
    pub fn drop(v: *View, from: usize, to: usize) error{OutOfMemory}!void {
        try v.kit.edits.add(.{ .drop = .{ from, to } });
    }

    pub fn dropPart(v: *View, at: usize, part: usize) error{OutOfMemory}!void {
        try v.kit.edits.add(.{ .drop_part = .{ at, part } });
    }

    pub fn insert(v: *View, at: usize, made: Json) error{OutOfMemory}!void {
        try v.kit.edits.add(.{ .insert = .{ .at = at, .message = made } });
    }

    pub fn replace(v: *View, at: usize, made: Json) error{OutOfMemory}!void {
        try v.kit.edits.add(.{ .replace = .{ .at = at, .message = made } });
    }

    /// Replaces text by what f returns for it wherever it stands: in text, reasoning, arguments,
    /// content and values. A message in which nothing changes is left alone.
    pub fn mapText(v: *View, comptime f: fn ([]const u8) anyerror![]const u8) anyerror!void {
        for (v.messages, 0..) |m, at| {
            var changed = false;
            const mapped = try mapMessage(m, f, &changed);
            if (changed) try v.replace(at, mapped);
        }
    }

    /// Makes messages the whole new view. It goes with no edits.
    pub fn setMessages(v: *View, messages: []const Json) error{OutOfMemory}!void {
        v.kit.replaced = try Json.of(messages);
    }

    /// Says what is shown on the run.
    pub fn report(v: *View, value: anytype) error{OutOfMemory}!void {
        v.kit.report = try Json.of(value);
    }

    pub fn result(v: *View) Any!Json {
        const edits = try v.kit.edits.json();
        if (edits != null and v.kit.replaced != null) return fail(error.Internal, "the processor makes a view and edits: do one of both", .{});
        return Json.of(.{ .messages = v.kit.replaced, .edits = edits, .report = v.kit.report });
    }
};

fn mapMessage(m: Json, comptime f: fn ([]const u8) anyerror![]const u8, changed: *bool) anyerror!Json {
    var out: Writer = .{};
    try out.byte('{');
    var all = m.items();
    while (all.next()) |field| {
        try putKey(&out, field);
        if (!field.nameIs("parts")) {
            try out.value(field.value);
            continue;
        }
        try out.byte('[');
        var parts = field.value.items();
        var first = true;
        while (parts.next()) |p| : (first = false) {
            try out.raw(if (first) "{" else ",{");
            var of = p.value.items();
            while (of.next()) |g| {
                try putKey(&out, g);
                if (g.nameIs("text") or g.nameIs("arguments") or g.nameIs("content") or g.nameIs("value")) {
                    if (try mapStrings(&out, g.value, f)) changed.* = true;
                } else {
                    try out.value(g.value);
                }
            }
            try out.byte('}');
        }
        try out.byte(']');
    }
    try out.byte('}');
    return out.json();
}

fn putKey(out: *Writer, field: json.Item) error{OutOfMemory}!void {
    const last = out.bytes.items[out.bytes.items.len - 1];
    if (last != '{') try out.byte(',');
    try out.value(field.key.?);
    try out.byte(':');
}

/// Writes a value with every string in it, but for names, as f returns it.
fn mapStrings(out: *Writer, v: Json, comptime f: fn ([]const u8) anyerror![]const u8) anyerror!bool {
    const s = v.text;
    var changed = false;
    var from: usize = 0;
    var at: usize = 0;
    while (std.mem.indexOfScalarPos(u8, s, at, '"')) |quote| {
        var one: json.Items = .{ .text = s, .at = quote, .object = false };
        const string = one.next().?.value;
        at = one.at;
        const after = json.skipSpace(s, at);
        if (after < s.len and s[after] == ':') continue;
        const was = (try string.string()).?;
        const is = try f(was);
        if (std.mem.eql(u8, was, is)) continue;
        try out.raw(s[from..quote]);
        try out.string(is);
        from = at;
        changed = true;
    }
    try out.raw(s[from..]);
    return changed;
}

pub const Agent = struct { name: []const u8, description: ?[]const u8 };

/// What the last agent of a run did.
pub const Last = struct { agent: []const u8, messages: ?[]const Json, tool_results: ?[]const Json, finish_reason: ?[]const u8 };

/// What a router is given, and who it says is next.
pub const Route = struct {
    router: []const u8,
    config: ?Json,
    scope: Scope,
    /// The message of this turn.
    input: ?Json,
    call_count: i64,
    /// Agents that wait to run.
    stack: []const []const u8,
    agents: []const Agent,
    state: ?Json,
    /// Null before the first agent.
    last: ?Last,
    outline: ?Outline,

    kit: struct { next: List = .{}, delegate: ?[]const u8 = null, reason: ?[]const u8 = null } = .{},

    pub fn read(request: []const json.Item) Any!Route {
        const m = json.pickFrom(request, &.{ "router", "config", "scope", "input", "call_count", "stack", "agents", "state", "last", "outline" });
        if (m[3]) |input| try checkMessage(input);
        return .{
            .router = try nameThere(m[0], "router"),
            .config = m[1],
            .scope = try Scope.read(m[2]),
            .input = m[3],
            .call_count = try whole(m[4], "call_count", 0),
            .stack = try texts(m[5], "stack"),
            .agents = try readAgents(m[6]),
            .state = try ofKind(m[7], .object, "state"),
            .last = if (m[8]) |v| try readLast(v) else null,
            .outline = if (m[9]) |v| try Outline.read(v) else null,
        };
    }

    fn readAgents(v: ?Json) Any![]const Agent {
        const there = try ofKind(v, .array, "agents") orelse return wrong("agents", "array");
        const out = try allocator.alloc(Agent, there.count());
        var all = there.items();
        for (out) |*a| {
            const one = all.next().?.value;
            if (one.kind() != .object) return wrong("an agent", "object");
            a.* = .{ .name = try text(one.get("name"), "the name of an agent"), .description = try textOrNone(one.get("description"), "a description") };
        }
        return out;
    }

    fn readLast(v: Json) Any!Last {
        if (v.kind() != .object) return wrong("last", "object");
        const messages = v.get("messages");
        const results = v.get("tool_results");
        return .{
            .agent = try text(v.get("agent"), "last.agent"),
            .messages = if (messages != null) try list(messages, "last.messages", checkMessage) else null,
            .tool_results = if (results != null) try list(results, "last.tool_results", checkPart) else null,
            .finish_reason = try textOrNone(v.get("finish_reason"), "last.finish_reason"),
        };
    }

    /// The router's configuration as a type; an absent one is an empty object.
    pub fn configured(r: *const Route, comptime T: type) Any!T {
        return configAs(r.config, T);
    }

    /// Has an agent run; several calls name several, in order. Without one the run ends.
    pub fn next(r: *Route, agent: []const u8) error{OutOfMemory}!void {
        try r.kit.next.add(agent);
    }

    /// Lets a model router decide; "default" is the network's own.
    pub fn delegate(r: *Route, router: []const u8) void {
        r.kit.delegate = router;
    }

    /// Says why, in a sentence that is shown on the run.
    pub fn because(r: *Route, reason: []const u8) void {
        r.kit.reason = reason;
    }

    pub fn result(r: *Route) error{OutOfMemory}!Json {
        return Json.of(.{ .next = try r.kit.next.json(), .delegate = r.kit.delegate, .reason = r.kit.reason });
    }
};

/// What a provider is given, and what it adds.
pub const Provide = struct {
    provider: []const u8,
    config: ?Json,
    scope: Scope,
    messages: []const Json,

    kit: struct { instructions: ?[]const u8 = null, messages: List = .{}, store: ?bool = null, tools: List = .{} } = .{},

    pub fn read(request: []const json.Item) Any!Provide {
        const m = json.pickFrom(request, &.{ "provider", "config", "scope", "messages" });
        return .{ .provider = try nameThere(m[0], "provider"), .config = m[1], .scope = try Scope.read(m[2]), .messages = try list(m[3], "messages", checkMessage) };
    }

    /// The provider's configuration as a type; an absent one is an empty object.
    pub fn configured(p: *const Provide, comptime T: type) Any!T {
        return configAs(p.config, T);
    }

    /// Joins a text to the agent's instructions.
    pub fn instruct(p: *Provide, instructions: []const u8) void {
        p.kit.instructions = instructions;
    }

    /// Puts a message behind the history, for this run of the agent.
    pub fn add(p: *Provide, made: Json) error{OutOfMemory}!void {
        try p.kit.messages.add(made);
    }

    /// Has the added messages stored with the answer.
    pub fn store(p: *Provide) void {
        p.kit.store = true;
    }

    /// Gives the agent a tool for this run.
    pub fn offer(p: *Provide, tool: []const u8) error{OutOfMemory}!void {
        try p.kit.tools.add(tool);
    }

    pub fn result(p: *Provide) error{OutOfMemory}!Json {
        return Json.of(.{ .instructions = p.kit.instructions, .messages = try p.kit.messages.json(), .store = p.kit.store, .tools = try p.kit.tools.json() });
    }
};

/// What an observer is given: what the agent said and its tools answered, or the error with
/// which its run ended.
pub const Observe = struct {
    provider: []const u8,
    config: ?Json,
    scope: Scope,
    messages: []const Json,
    outcome: union(enum) { responses: []const Json, failure: Failure },

    pub const Failure = struct { code: []const u8, message: []const u8, hint: ?[]const u8, retryable: bool };

    pub fn read(request: []const json.Item) Any!Observe {
        const m = json.pickFrom(request, &.{ "provider", "config", "scope", "messages", "responses", "error" });
        if ((m[4] == null) == (m[5] == null)) return fail(error.InvalidArgument, "exactly one of responses and error is there", .{});
        return .{
            .provider = try nameThere(m[0], "provider"),
            .config = m[1],
            .scope = try Scope.read(m[2]),
            .messages = try list(m[3], "messages", checkMessage),
            .outcome = if (m[5]) |e| .{ .failure = try readFailure(e) } else .{ .responses = try list(m[4], "responses", checkMessage) },
        };
    }

    fn readFailure(e: Json) Any!Failure {
        if (e.kind() != .object) return wrong("error", "object");
        const retryable = try ofKind(e.get("retryable"), .boolean, "error.retryable");
        return .{
            .code = try nameThere(e.get("code"), "error.code"),
            .message = try nameThere(e.get("message"), "error.message"),
            .hint = try textOrNone(e.get("hint"), "error.hint"),
            .retryable = if (retryable) |v| v.boolean().? else false,
        };
    }
};

test "text of messages is mapped where it stands" {
    const shout = struct {
        fn f(s: []const u8) anyerror![]const u8 {
            return std.ascii.allocUpperString(allocator, s);
        }
    }.f;
    const m = try Json.parse(
        \\{"id":"m","role":"user","parts":[{"type":"text","text":"a","x":"a"},{"type":"tool_call","id":"c","name":"n","arguments":{"k":["v", 1.0]}}]}
    );
    var v: View = .{ .processor = "p", .config = null, .scope = .{}, .model = "m", .messages = &.{ m, try message("user", "A") } };
    try v.mapText(shout);
    try std.testing.expectEqualStrings(
        \\{"edits":[{"replace":{"at":0,"message":{"id":"m","role":"user","parts":[{"type":"text","text":"A","x":"a"},{"type":"tool_call","id":"c","name":"n","arguments":{"k":["V", 1.0]}}]}}}]}
    , (try v.result()).text);
}
