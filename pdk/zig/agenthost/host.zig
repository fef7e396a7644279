//! What the host does for a plugin: pdk/ABI.md, section 15. All of it waits. Outside of a host, as
//! in `zig test`, every operation ends with error.Unimplemented.

const std = @import("std");
const failure = @import("failure.zig");
const memory = @import("memory.zig");
const json = @import("json.zig");

const Json = json.Json;
const fail = failure.fail;
const allocator = memory.allocator;

pub const imports = if (memory.wasm) struct {
    pub extern "agenthost_v1" fn input_read(to: [*]u8, offset: u32, len: u32) u32;
    pub extern "agenthost_v1" fn output_write(from: [*]const u8, len: u32) void;
    pub extern "agenthost_v1" fn host_call(operation: [*]const u8, operation_len: u32, request: [*]const u8, request_len: u32) u64;
    pub extern "agenthost_v1" fn host_call_bytes(operation: [*]const u8, operation_len: u32, request: [*]const u8, request_len: u32, data: [*]const u8, data_len: u32) u64;
    pub extern "agenthost_v1" fn host_read(to: [*]u8, offset: u32, len: u32) u32;
    pub extern "agenthost_v1" fn log(level: u32, from: [*]const u8, len: u32) void;
} else struct {
    const answer = "{\"code\":\"unimplemented\",\"message\":\"there is no host\"}";

    pub fn input_read(_: [*]u8, _: u32, _: u32) u32 {
        return 0;
    }
    pub fn output_write(_: [*]const u8, _: u32) void {}
    pub fn host_call(_: [*]const u8, _: u32, _: [*]const u8, _: u32) u64 {
        return 1 << 32 | answer.len;
    }
    pub fn host_call_bytes(_: [*]const u8, _: u32, _: [*]const u8, _: u32, _: [*]const u8, _: u32) u64 {
        return 1 << 32 | answer.len;
    }
    pub fn host_read(to: [*]u8, offset: u32, len: u32) u32 {
        const n = @min(len, answer.len - offset);
        @memcpy(to[0..n], answer[offset..][0..n]);
        return n;
    }
    pub fn log(_: u32, _: [*]const u8, _: u32) void {}
};

/// A whole input or response, piece by piece.
pub fn readAll(len: u32, some: anytype) error{OutOfMemory}![]const u8 {
    return readFrom(0, len, some);
}

fn readFrom(offset: u32, len: u32, some: anytype) error{OutOfMemory}![]const u8 {
    const bytes = try allocator.alloc(u8, len);
    var at: u32 = 0;
    while (at < len) {
        const n = some(bytes[at..].ptr, offset + at, len - at);
        if (n == 0) break;
        at += n;
    }
    return bytes[0..at];
}

/// Lines of the plugin's log, each with attributes: `log.info("sent", .{ .order = id })` writes
/// `sent order=42`.
pub const log = struct {
    pub fn debug(text: []const u8, attributes: anytype) void {
        line(0, text, attributes);
    }
    pub fn info(text: []const u8, attributes: anytype) void {
        line(1, text, attributes);
    }
    pub fn warn(text: []const u8, attributes: anytype) void {
        line(2, text, attributes);
    }
    pub fn err(text: []const u8, attributes: anytype) void {
        line(3, text, attributes);
    }

    fn line(level: u32, text: []const u8, attributes: anytype) void {
        const whole = withAttributes(text, attributes) catch text;
        imports.log(level, whole.ptr, @intCast(whole.len));
    }
};

fn withAttributes(text: []const u8, attributes: anytype) error{OutOfMemory}![]const u8 {
    var out: json.Writer = .{};
    try out.raw(text);
    inline for (@typeInfo(@TypeOf(attributes)).@"struct".fields) |f| {
        try out.byte(' ');
        try out.raw(plain(try Json.of(@as([]const u8, f.name))));
        try out.byte('=');
        try out.raw(plain(try Json.of(@field(attributes, f.name))));
    }
    return out.bytes.items;
}

/// The text of a string without its quotes where a reader can tell where it ends, and of any
/// other value as it stands.
fn plain(v: Json) []const u8 {
    if (v.kind() != .string or v.text.len == 2) return v.text;
    for (v.text) |b| {
        if (b <= ' ' or b == '\\' or b == '=' or b == 0x7f) return v.text;
    }
    return v.text[1 .. v.text.len - 1];
}

test "attributes are quoted where a reader needs it" {
    const line = try withAttributes("late", .{ .order = 1042, .who = "Ann", .note = "say \"hi\"", .@"a b" = "", .eq = "a=b" });
    try std.testing.expectEqualStrings("late order=1042 who=Ann note=\"say \\\"hi\\\"\" \"a b\"=\"\" eq=\"a=b\"", line);
}

const Any = failure.Error || error{OutOfMemory};

/// Runs a host operation by its name, with a request that is written as JSON.
pub fn call(operation: []const u8, request: anytype) Any!Json {
    const body = try Json.of(request);
    return answerOf(operation, imports.host_call(operation.ptr, @intCast(operation.len), body.text.ptr, @intCast(body.text.len)));
}

/// What an operation answers, with the bytes that stand behind it.
pub const Answer = struct { json: Json, bytes: []const u8 };

/// Runs a host operation with bytes beside its JSON, without base64: where the request has bytes it
/// has the number of those in data, and field, unless it is null, is where the response has a number
/// of bytes. This and the other functions whose names end in Bytes import host_call_bytes: a host
/// that lacks it refuses the plugin.
pub fn callBytes(operation: []const u8, request: anytype, data: []const u8, field: ?[]const u8) Any!Answer {
    const body = try Json.of(request);
    const r = imports.host_call_bytes(operation.ptr, @intCast(operation.len), body.text.ptr, @intCast(body.text.len), data.ptr, @intCast(data.len));
    const response = try answerOf(operation, r);
    const size = if (field) |name| try number(response, name) else 0;
    return .{ .json = response, .bytes = try readFrom(@truncate(r), @intCast(size), imports.host_read) };
}

/// The response that the host announces, or its error.
fn answerOf(operation: []const u8, r: u64) Any!Json {
    const text = try readAll(@truncate(r), imports.host_read);
    const response = Json.parse(text) catch return fail(error.Internal, "the host's response to {s} is no JSON", .{operation});
    if (r >> 32 == 0) return response;
    const code = if (response.get("code")) |v| try v.string() orelse "internal" else "internal";
    return failure.failWith(failure.errorOf(code), .{
        .message = if (response.get("message")) |v| try v.string() orelse code else code,
        .hint = if (response.get("hint")) |v| try v.string() else null,
        .retryable = if (response.get("retryable")) |v| v.boolean() orelse false else false,
    });
}

fn member(response: Json, name: []const u8) failure.Error!Json {
    return response.get(name) orelse fail(error.Internal, "the host's response has no {s}", .{name});
}

fn number(response: Json, name: []const u8) failure.Error!i64 {
    return (try member(response, name)).int() orelse fail(error.Internal, "{s} of the host's response is no integer", .{name});
}

fn string(response: Json, name: []const u8) Any![]const u8 {
    return try (try member(response, name)).string() orelse fail(error.Internal, "{s} of the host's response is no string", .{name});
}

/// Bytes as the base64 of the contract.
pub fn base64(bytes: []const u8) error{OutOfMemory}![]const u8 {
    const encoder = std.base64.standard.Encoder;
    return encoder.encode(try allocator.alloc(u8, encoder.calcSize(bytes.len)), bytes);
}

/// The bytes of a text in base64; error.InvalidArgument if it is none.
pub fn fromBase64(text: []const u8) Any![]const u8 {
    const decoder = std.base64.standard.Decoder;
    const size = decoder.calcSizeForSlice(text) catch return fail(error.InvalidArgument, "a value is no base64", .{});
    const out = try allocator.alloc(u8, size);
    decoder.decode(out, text) catch return fail(error.InvalidArgument, "a value is no base64", .{});
    return out;
}

/// Keys and values of the plugin and the calling tenant.
pub const kv = struct {
    pub const Item = struct { value: []const u8, revision: i64 };

    /// The value of a key, null if it is absent.
    pub fn get(key: []const u8) Any!?Item {
        const r = call("kv.get", .{ .key = key }) catch |err| return if (err == error.NotFound) null else err;
        return .{ .value = try fromBase64(try string(r, "value")), .revision = try number(r, "revision") };
    }

    /// `get` without base64.
    pub fn getBytes(key: []const u8) Any!?Item {
        const a = callBytes("kv.get", .{ .key = key }, "", "value") catch |err| return if (err == error.NotFound) null else err;
        return .{ .value = a.bytes, .revision = try number(a.json, "revision") };
    }

    pub const Terms = struct {
        /// The key must be at it; 0: it must be absent.
        revision: ?i64 = null,
        /// The key is gone after that time.
        ttl_ms: ?u64 = null,
    };

    /// Writes a key, and returns its new revision.
    pub fn put(key: []const u8, value: []const u8, terms: Terms) Any!i64 {
        return number(try call("kv.put", .{ .key = key, .value = try base64(value), .revision = terms.revision, .ttl_ms = terms.ttl_ms }), "revision");
    }

    /// `put` without base64.
    pub fn putBytes(key: []const u8, value: []const u8, terms: Terms) Any!i64 {
        const a = try callBytes("kv.put", .{ .key = key, .value = value.len, .revision = terms.revision, .ttl_ms = terms.ttl_ms }, value, null);
        return number(a.json, "revision");
    }

    pub fn delete(key: []const u8) Any!void {
        _ = try call("kv.delete", .{ .key = key });
    }

    pub const Page = struct { keys: []const []const u8, next: ?[]const u8 };

    /// Keys with a prefix that come after `after`, at most 100, and where the next ones begin.
    pub fn list(prefix: []const u8, after: ?[]const u8) Any!Page {
        const r = try call("kv.list", .{ .prefix = prefix, .after = after });
        const entries = try member(r, "entries");
        const keys = try allocator.alloc([]const u8, entries.count());
        var all = entries.items();
        for (keys) |*key| key.* = try string(all.next().?.value, "key");
        return .{ .keys = keys, .next = if (r.get("next")) |v| try v.string() else null };
    }
};

/// The network's custom state at a JSON pointer, "" for all of it.
pub fn state(path: []const u8) Any!Json {
    return member(try call("state.get", .{ .path = path }), "value");
}

/// Changes the state at once, by operations of RFC 6902; returns the new revision.
pub fn patchState(operations: anytype) Any!i64 {
    return number(try call("state.patch", .{ .patch = operations }), "revision");
}

/// What one provider keeps in a thread; null of JSON if nothing.
pub fn providerState() Any!Json {
    return member(try call("provider_state.get", struct {}{}), "value");
}

pub fn keepProviderState(value: anytype) Any!void {
    _ = try call("provider_state.put", .{ .value = value });
}

pub const Header = struct {
    name: []const u8,
    value: ?[]const u8 = null,
    /// A secret that the host puts in, behind the prefix; the plugin never sees it.
    secret: ?[]const u8 = null,
    prefix: ?[]const u8 = null,
};

/// A request to a server, which the operator must have granted.
pub const Request = struct {
    method: []const u8 = "GET",
    url: []const u8,
    headers: []const Header = &.{},
    body: ?[]const u8 = null,
    timeout_ms: ?u64 = null,
    /// How many redirects are followed.
    redirects: ?u32 = null,
};

pub const Response = struct {
    status: i64,
    headers: Json,
    body: []const u8,

    pub fn ok(r: Response) bool {
        return r.status >= 200 and r.status < 300;
    }

    /// The body as JSON; error.Unavailable if it is none.
    pub fn json(r: Response) failure.Error!Json {
        return Json.parse(r.body) catch fail(error.Unavailable, "the answer is no JSON", .{});
    }

    /// The first header of a name.
    pub fn header(r: Response, name: []const u8) error{OutOfMemory}!?[]const u8 {
        var all = r.headers.items();
        while (all.next()) |h| {
            const is = try (h.value.get("name") orelse continue).string() orelse continue;
            if (std.ascii.eqlIgnoreCase(is, name)) return (h.value.get("value") orelse continue).string();
        }
        return null;
    }
};

/// Sends a request. Any status is a response.
pub fn fetch(request: Request) Any!Response {
    const r = try call("http.fetch", .{
        .method = request.method,
        .url = request.url,
        .headers = if (request.headers.len > 0) request.headers else null,
        .body = if (request.body) |b| try base64(b) else null,
        .timeout_ms = request.timeout_ms,
        .redirects = request.redirects,
    });
    return .{ .status = try number(r, "status"), .headers = r.get("headers") orelse .{ .text = "[]" }, .body = try fromBase64(try string(r, "body")) };
}

/// `fetch` without base64.
pub fn fetchBytes(request: Request) Any!Response {
    const body = request.body orelse "";
    const a = try callBytes("http.fetch", .{
        .method = request.method,
        .url = request.url,
        .headers = if (request.headers.len > 0) request.headers else null,
        .body = body.len,
        .timeout_ms = request.timeout_ms,
        .redirects = request.redirects,
    }, body, "body");
    return .{ .status = try number(a.json, "status"), .headers = a.json.get("headers") orelse .{ .text = "[]" }, .body = a.bytes };
}

/// Artifacts of the session.
pub const artifacts = struct {
    const piece = 192 << 10;
    const bytes_piece = 512 << 10;

    /// Makes one, and returns its digest.
    pub fn write(name: []const u8, media_type: []const u8, data: []const u8) Any![]const u8 {
        var upload: ?[]const u8 = null;
        var rest = data;
        while (true) {
            const n = @min(rest.len, piece);
            const is_last = n == rest.len;
            const r = try call("artifact.write", .{ .name = name, .media_type = media_type, .data = try base64(rest[0..n]), .upload = upload, .last = is_last });
            if (is_last) return string(r, "digest");
            upload = try string(r, "upload");
            rest = rest[n..];
        }
    }

    /// `write` without base64.
    pub fn writeBytes(name: []const u8, media_type: []const u8, data: []const u8) Any![]const u8 {
        var upload: ?[]const u8 = null;
        var rest = data;
        while (true) {
            const n = @min(rest.len, bytes_piece);
            const is_last = n == rest.len;
            const a = try callBytes("artifact.write", .{ .name = name, .media_type = media_type, .data = n, .upload = upload, .last = is_last }, rest[0..n], null);
            if (is_last) return string(a.json, "digest");
            upload = try string(a.json, "upload");
            rest = rest[n..];
        }
    }

    /// `read` without base64.
    pub fn readBytes(name: []const u8) Any!Read {
        const first = try callBytes("artifact.read", .{ .name = name, .length = @as(u32, bytes_piece) }, "", "data");
        const size = try number(first.json, "size");
        const media_type = try string(first.json, "media_type");
        if (first.bytes.len == size) return .{ .data = first.bytes, .media_type = media_type };
        var data: std.ArrayList(u8) = .empty;
        try data.appendSlice(allocator, first.bytes);
        while (data.items.len < size) {
            const more = try callBytes("artifact.read", .{ .digest = try string(first.json, "digest"), .offset = data.items.len, .length = @as(u32, bytes_piece) }, "", "data");
            if (more.bytes.len == 0) return fail(error.DataLoss, "artifact {s} ends early", .{name});
            try data.appendSlice(allocator, more.bytes);
        }
        return .{ .data = data.items, .media_type = media_type };
    }

    pub const Read = struct { data: []const u8, media_type: []const u8 };

    /// Reads one by its name.
    pub fn read(name: []const u8) Any!Read {
        const r = try call("artifact.read", .{ .name = name });
        const size = try number(r, "size");
        var data: std.ArrayList(u8) = .empty;
        try data.appendSlice(allocator, try fromBase64(try string(r, "data")));
        while (data.items.len < size) {
            const more = try call("artifact.read", .{ .digest = try string(r, "digest"), .offset = data.items.len });
            const bytes = try fromBase64(try string(more, "data"));
            if (bytes.len == 0) return fail(error.DataLoss, "artifact {s} ends early", .{name});
            try data.appendSlice(allocator, bytes);
        }
        return .{ .data = data.items, .media_type = try string(r, "media_type") };
    }
};

/// What a step of a tool's work left, null if it is to be done now; endStep then keeps what it
/// leaves.
pub fn beginStep(name: []const u8) Any!?Json {
    const r = try call("step.begin", .{ .name = name });
    const done = if (r.get("done")) |v| v.boolean() orelse false else false;
    return if (done) try member(r, "result") else null;
}

pub fn endStep(name: []const u8, result: anytype) Any!void {
    _ = try call("step.end", .{ .name = name, .result = result });
}

/// Sends an event to the run's stream while the call runs.
pub fn emit(kind: []const u8, data: anytype) Any!void {
    _ = try call("emit", .{ .kind = kind, .data = data });
}

pub fn progress(message: []const u8) Any!void {
    try emit("progress", .{ .message = message });
}

/// Messages of the view that an outline describes.
pub fn messages(indices: []const u32) Any![]const Json {
    const found = try member(try call("messages.get", .{ .indices = indices }), "messages");
    const out = try allocator.alloc(Json, found.count());
    var all = found.items();
    for (out) |*m| m.* = all.next().?.value;
    return out;
}

pub const Tokens = struct { tokens: []const u64, exact: bool };

/// Counts the tokens of texts, for the model of the view.
pub fn countTokens(texts: []const []const u8) Any!Tokens {
    const r = try call("tokens.count", .{ .texts = texts });
    return .{ .tokens = try json.readAs(try member(r, "tokens"), []const u64, "tokens"), .exact = if (r.get("exact")) |v| v.boolean() orelse false else false };
}

/// Asks a model, and returns the text of its answer.
pub fn generate(instructions: []const u8, question: []const u8) Any![]const u8 {
    const request = @import("request.zig");
    const r = try call("model.generate", .{ .instructions = instructions, .messages = .{try request.message("user", question)} });
    return request.textOf(try member(r, "message"));
}

/// What another tool answered.
pub const ToolAnswer = struct {
    /// Of a call that failed: the sentence that a model would read.
    content: Json,
    /// There if the tool failed, a person denied the call, or there is no such tool.
    err: ?failure.Error,
    /// An array of parts of type media.
    media: ?Json,

    /// The content of a result, or the error of a call that failed, with its sentence.
    pub fn result(a: ToolAnswer) Any!Json {
        return failure.failWith(a.err orelse return a.content, .{ .message = try a.content.string() orelse a.content.text });
    }
};

/// Calls other tools of the agent at work, in a tool, at the same time, and returns their answers
/// in the order of the calls, a tuple or slice of structs with a name and, but for null,
/// arguments. It needs the permission `tools`.
///
///     const answers = try host.callTools(.{ .{ .name = "search", .arguments = .{ .q = "tea" } }, .{ .name = "hours" } });
///
/// If one of them asks a person, the host ends this call and makes it again, from its beginning,
/// when there is an answer: it must make the same calls then. An error, error.PermissionDenied
/// and the like, says that no tool was called.
pub fn callTools(calls: anytype) Any![]const ToolAnswer {
    const results = try member(try call("tool.call", .{ .calls = calls }), "results");
    const answers = try allocator.alloc(ToolAnswer, calls.len);
    if (results.count() != calls.len) return fail(error.Internal, "the host answers {d} calls of tools with {d} results", .{ calls.len, results.count() });
    var all = results.items();
    for (answers) |*a| {
        const r = all.next().?.value;
        const kind = try (r.get("kind") orelse Json.nothing).string() orelse "";
        const code = try (r.get("code") orelse Json.nothing).string() orelse "";
        a.* = .{ .content = try member(r, "content"), .err = if (std.mem.eql(u8, kind, "result")) null else failure.errorOf(code), .media = r.get("media") };
    }
    return answers;
}

/// Calls one tool as callTools does, and returns the content of its result. Its arguments are a
/// struct, or null.
pub fn callTool(name: []const u8, arguments: anytype) Any!Json {
    return (try callTools(.{.{ .name = name, .arguments = arguments }}))[0].result();
}

/// Leaves work for after the turn: the tool `handler` is called with the payload.
pub fn send(handler: []const u8, payload: anytype) Any![]const u8 {
    return string(try call("queue.send", .{ .handler = handler, .payload = payload }), "id");
}
