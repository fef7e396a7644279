//! The kit for plugins in Zig. README.md beside it has a plugin in fifteen lines; the contract
//! behind it is pdk/ABI.md of agenthost.
//!
//! All memory of a call is taken from `allocator` and given back when the call ends: nothing
//! needs to be freed, and nothing may be kept from one call to the next. Errors of Zig are the
//! codes of the contract, and `fail` gives one a message.

const std = @import("std");
const failure = @import("failure.zig");
const json = @import("json.zig");
const memory = @import("memory.zig");
const schema = @import("schema.zig");

/// What the host does for a plugin.
pub const host = @import("host.zig");
pub const log = host.log;

const request = @import("request.zig");
pub const Agent = request.Agent;
pub const Answered = request.Answered;
pub const Call = request.Call;
pub const Last = request.Last;
pub const Observe = request.Observe;
pub const Outline = request.Outline;
pub const Provide = request.Provide;
pub const Route = request.Route;
pub const Row = request.Row;
pub const Scope = request.Scope;
pub const View = request.View;
pub const message = request.message;
pub const textOf = request.textOf;

pub const Json = json.Json;
pub const Kind = json.Kind;
pub const Map = json.Map;
pub const Writer = json.Writer;

pub const Details = failure.Details;
pub const Error = failure.Error;
pub const codeOf = failure.codeOf;
pub const errorOf = failure.errorOf;
pub const fail = failure.fail;
pub const failWith = failure.failWith;
pub const said = failure.said;

pub const allocator = memory.allocator;

/// Text of a format of std.fmt, for as long as the call runs.
pub fn print(comptime format: []const u8, args: anytype) error{OutOfMemory}![]const u8 {
    return std.fmt.allocPrint(allocator, format, args);
}

/// Ends a call in which something is wrong that no check has found. A plugin names it, so that
/// the message is the call's error: `pub const panic = agenthost.panic;`
pub const panic = std.debug.FullPanic(struct {
    fn say(words: []const u8, _: ?usize) noreturn {
        if (memory.wasm) {
            _ = fd_write(2, &.{ .{ .at = "panic: ", .len = 7 }, .{ .at = words.ptr, .len = words.len }, .{ .at = "\n", .len = 1 } }, 3, &written);
        }
        @trap();
    }
}.say);

const Bytes = extern struct { at: [*]const u8, len: usize };
var written: u32 = 0;
extern "wasi_snapshot_preview1" fn fd_write(file: u32, buffers: [*]const Bytes, count: u32, written: *u32) u32;

/// Answers a request, of which it is given the members.
const Run = *const fn ([]const json.Item) anyerror!Json;

/// A part of a plugin, as tool, processor, router and provider make it.
fn PartOf(comptime noun: []const u8) type {
    return struct {
        name: []const u8,
        manifest: []const u8,
        run: Run,
        observe: ?Run = null,

        pub const kind = noun;
    };
}

pub const Tool = PartOf("tool");
pub const Processor = PartOf("processor");
pub const Router = PartOf("router");
pub const Provider = PartOf("provider");

pub const ToolOptions = struct {
    /// It changes nothing.
    read_only: bool = false,
    /// It may change or remove what is there, and not only add to it.
    destructive: bool = false,
    /// Two calls with one idempotency key are one.
    idempotent: bool = false,
    /// A person must agree to each call.
    needs_approval: bool = false,
    /// The JSON Schema of the arguments, in the place of that of their type.
    parameters: ?[]const u8 = null,
    /// The JSON Schema of the content.
    result: ?[]const u8 = null,
};

/// A tool that models call: `fn (c: *Call, args: Arguments) !Result`, where Arguments is a
/// struct, whose schema the tool gets, and Result any value that is written as JSON, or void for
/// a function that answers by `c.content`. A function may do without arguments, or take
/// them as Json.
pub fn tool(comptime name: []const u8, comptime description: []const u8, comptime options: ToolOptions, comptime run: anytype) Tool {
    const params = @typeInfo(@TypeOf(run)).@"fn".params;
    const Arguments = if (params.len > 1) params[1].type.? else void;
    const parameters: ?[]const u8 = options.parameters orelse if (Arguments == void) null else if (Arguments == Json) "{\"type\":\"object\"}" else schema.of(Arguments);
    const annotations = .{ .read_only = options.read_only, .destructive = options.destructive, .idempotent = options.idempotent, .needs_approval = options.needs_approval };
    return .{
        .name = name,
        .manifest = "{\"name\":" ++ schema.quoted(name) ++ ",\"description\":" ++ schema.quoted(description) ++
            (if (parameters) |p| ",\"parameters\":" ++ p else "") ++ (if (options.result) |r| ",\"result\":" ++ r else "") ++
            ",\"annotations\":" ++ schema.literal(annotations) ++ "}",
        .run = struct {
            fn serve(r: []const json.Item) anyerror!Json {
                var c = try Call.read(r);
                const given = c.arguments orelse Json{ .text = "{}" };
                const result = if (Arguments == void) run(&c) else run(&c, try json.readAs(given, Arguments, "arguments"));
                const content = if (@typeInfo(@TypeOf(result)) == .error_union) try result else result;
                if (@TypeOf(content) != void) try c.content(content);
                return c.result();
            }
        }.serve,
    };
}

pub const ProcessorOptions = struct {
    /// Which exact counts an outline has, as JSON: `{"model": true}`.
    tokens: ?[]const u8 = null,
    /// The type of its configuration, for its schema.
    config: ?type = null,
};

/// A processor shapes the conversation that a model call is sent: `fn (v: *View) !void`, or
/// `fn (v: *View, o: *const Outline) !void` for one that reads columns in the place of messages.
pub fn processor(comptime name: []const u8, comptime options: ProcessorOptions, comptime run: anytype) Processor {
    const outline = @typeInfo(@TypeOf(run)).@"fn".params.len > 1;
    return .{
        .name = name,
        .manifest = "{\"name\":" ++ schema.quoted(name) ++ (if (outline) ",\"input\":\"outline\"" else "") ++
            (if (options.tokens) |t| ",\"tokens\":" ++ t else "") ++ configOf(options.config) ++ "}",
        .run = struct {
            fn serve(r: []const json.Item) anyerror!Json {
                var o: Outline = undefined;
                var v = try View.read(r, if (outline) &o else null);
                if (outline) try run(&v, &o) else try run(&v);
                return v.result();
            }
        }.serve,
    };
}

pub const RouterOptions = struct { config: ?type = null };

/// A router says which agent of a network runs next: `fn (r: *Route) !void`.
pub fn router(comptime name: []const u8, comptime options: RouterOptions, comptime run: fn (*Route) anyerror!void) Router {
    return .{
        .name = name,
        .manifest = "{\"name\":" ++ schema.quoted(name) ++ configOf(options.config) ++ "}",
        .run = struct {
            fn serve(r: []const json.Item) anyerror!Json {
                var asked = try Route.read(r);
                try run(&asked);
                return asked.result();
            }
        }.serve,
    };
}

pub const ProviderOptions = struct {
    config: ?type = null,
    /// Hears what came of the agent's run.
    observe: ?fn (*const Observe) anyerror!void = null,
};

/// A provider adds instructions, messages and tools before an agent runs:
/// `fn (p: *Provide) !void`.
pub fn provider(comptime name: []const u8, comptime options: ProviderOptions, comptime run: fn (*Provide) anyerror!void) Provider {
    return .{
        .name = name,
        .manifest = "{\"name\":" ++ schema.quoted(name) ++ configOf(options.config) ++ ",\"observe\":" ++ (if (options.observe == null) "false" else "true") ++ "}",
        .run = struct {
            fn serve(r: []const json.Item) anyerror!Json {
                var asked = try Provide.read(r);
                try run(&asked);
                return asked.result();
            }
        }.serve,
        .observe = if (options.observe) |observe| struct {
            fn serve(r: []const json.Item) anyerror!Json {
                const heard = try Observe.read(r);
                try observe(&heard);
                return .{ .text = "{}" };
            }
        }.serve else null,
    };
}

fn configOf(comptime T: ?type) []const u8 {
    return if (T) |Config| ",\"config\":" ++ schema.of(Config) else "";
}

const plugin_fields = [_][]const u8{ "name", "version", "description", "permissions", "requires", "resources", "prompts", "health", "tools", "processors", "routers", "providers" };

/// Makes the plugin, once in its root, in a comptime block:
///
///     comptime {
///         agenthost.plugin(.{ .name = "dice", .version = "1.0.0", .tools = .{roll} });
///     }
///
/// The members are those of a manifest: `permissions = .{ .kv = .write }`,
/// `requires = .{"http.fetch"}`, `resources` and `prompts` as lists of structs; and the parts
/// `tools`, `processors`, `routers` and `providers` as tuples.
pub fn plugin(comptime p: anytype) void {
    @setEvalBranchQuota(100_000);
    const manifest = comptime manifestOf(p);
    const lists = comptime .{ partsOf(Tool, p, "tools"), partsOf(Processor, p, "processors"), partsOf(Router, p, "routers"), partsOf(Provider, p, "providers") };
    const exports = struct {
        fn describe() callconv(.c) i32 {
            host.imports.output_write(manifest.ptr, manifest.len);
            return 0;
        }
        fn tool(len: u32) callconv(.c) i32 {
            return serve(Tool, lists[0], len, false);
        }
        fn process(len: u32) callconv(.c) i32 {
            return serve(Processor, lists[1], len, false);
        }
        fn route(len: u32) callconv(.c) i32 {
            return serve(Router, lists[2], len, false);
        }
        fn provide(len: u32) callconv(.c) i32 {
            return serve(Provider, lists[3], len, false);
        }
        fn observe(len: u32) callconv(.c) i32 {
            return serve(Provider, lists[3], len, true);
        }
    };
    @export(&exports.describe, .{ .name = "agenthost_describe" });
    if (lists[0].len > 0) @export(&exports.tool, .{ .name = "agenthost_tool" });
    if (lists[1].len > 0) @export(&exports.process, .{ .name = "agenthost_process" });
    if (lists[2].len > 0) @export(&exports.route, .{ .name = "agenthost_route" });
    if (lists[3].len > 0) {
        @export(&exports.provide, .{ .name = "agenthost_provide" });
        @export(&exports.observe, .{ .name = "agenthost_observe" });
    }
}

fn manifestOf(comptime p: anytype) []const u8 {
    var out: []const u8 = "{\"abi\":1";
    for (@typeInfo(@TypeOf(p)).@"struct".fields) |f| {
        for (plugin_fields) |known| {
            if (std.mem.eql(u8, known, f.name)) break;
        } else @compileError("a plugin has no " ++ f.name);
    }
    for (plugin_fields[0..8]) |name| {
        if (@hasField(@TypeOf(p), name)) out = out ++ ",\"" ++ name ++ "\":" ++ schema.literal(@field(p, name));
    }
    for (plugin_fields[8..]) |name| {
        if (!@hasField(@TypeOf(p), name)) continue;
        var list: []const u8 = "";
        for (@field(p, name)) |part| list = list ++ (if (list.len > 0) "," else "") ++ part.manifest;
        out = out ++ ",\"" ++ name ++ "\":[" ++ list ++ "]";
    }
    return out ++ "}";
}

fn partsOf(comptime Part: type, comptime p: anytype, comptime name: []const u8) []const Part {
    if (!@hasField(@TypeOf(p), name)) return &.{};
    var out: []const Part = &.{};
    for (@field(p, name)) |part| out = out ++ .{part};
    return out;
}

/// Answers one call of an export.
fn serve(comptime Part: type, comptime parts: []const Part, len: u32, comptime observing: bool) i32 {
    memory.reset();
    failure.last = null;
    const answer = answerOf(Part, parts, len, observing) catch |err| {
        write(errorObject(err) catch @panic("the plugin has no memory left"));
        return 1;
    };
    write(answer);
    return 0;
}

fn write(v: Json) void {
    host.imports.output_write(v.text.ptr, @intCast(v.text.len));
}

fn answerOf(comptime Part: type, comptime parts: []const Part, len: u32, comptime observing: bool) anyerror!Json {
    const r = Json.parse(try host.readAll(len, host.imports.input_read)) catch return notObject();
    if (r.kind() != .object) return notObject();
    const members = try json.members(r);
    const name = if (json.pickFrom(members, &.{Part.kind})[0]) |v| try v.string() orelse "" else "";
    if (name.len == 0) return fail(error.InvalidArgument, "{s} is no name", .{Part.kind});
    inline for (parts) |part| {
        if (std.mem.eql(u8, part.name, name)) {
            if (!observing) return part.run(members);
            if (part.observe) |observe| return observe(members);
            return .{ .text = "{}" };
        }
    }
    return fail(error.NotFound, "the plugin has no {s} \"{s}\"", .{ Part.kind, name });
}

fn notObject() Error {
    return fail(error.InvalidArgument, "the request is no object of JSON in UTF-8", .{});
}

fn errorObject(err: anyerror) error{OutOfMemory}!Json {
    const code = failure.codeOf(err);
    const details = failure.describe(err);
    if (std.mem.eql(u8, code, "internal")) log.err(details.message, .{});
    return Json.of(.{
        .code = code,
        .message = if (details.message.len > 0) details.message else code,
        .hint = details.hint,
        .retryable = if (details.retryable) true else null,
    });
}

test {
    _ = json;
    _ = schema;
    _ = failure;
    _ = request;
}
