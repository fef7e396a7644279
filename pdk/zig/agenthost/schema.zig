//! JSON at compile time: schemas of types, and values of a manifest.

const std = @import("std");
const json = @import("json.zig");

/// The JSON Schema of a type. A struct may describe its fields:
///
///     pub const descriptions = .{ .city = "Where it is asked for." };
///
/// A field that is optional, or has a default, may be left out.
pub fn of(comptime T: type) []const u8 {
    return comptime switch (@typeInfo(T)) {
        .bool => "{\"type\":\"boolean\"}",
        .int => |i| if (i.signedness == .unsigned) "{\"type\":\"integer\",\"minimum\":0}" else "{\"type\":\"integer\"}",
        .float => "{\"type\":\"number\"}",
        .optional => |o| of(o.child),
        .@"enum" => |e| enumeration(e),
        .pointer => |p| if (p.size == .one) of(p.child) else if (p.child == u8) "{\"type\":\"string\"}" else "{\"type\":\"array\",\"items\":" ++ of(p.child) ++ "}",
        .@"struct" => if (T == json.Json) "{}" else if (@hasDecl(T, "is_agenthost_map")) "{\"type\":\"object\",\"additionalProperties\":" ++ of(T.Value) ++ "}" else structure(T),
        else => @compileError("there is no schema of " ++ @typeName(T)),
    };
}

fn enumeration(comptime e: std.builtin.Type.Enum) []const u8 {
    comptime var out: []const u8 = "";
    inline for (e.fields, 0..) |f, i| out = out ++ (if (i > 0) "," else "") ++ quoted(f.name);
    return "{\"enum\":[" ++ out ++ "]}";
}

fn structure(comptime T: type) []const u8 {
    comptime var properties: []const u8 = "";
    comptime var required: []const u8 = "";
    inline for (@typeInfo(T).@"struct".fields) |f| {
        properties = properties ++ (if (properties.len > 0) "," else "") ++ quoted(f.name) ++ ":" ++ described(T, f.name, of(f.type));
        if (f.defaultValue() == null and @typeInfo(f.type) != .optional) required = required ++ (if (required.len > 0) "," else "") ++ quoted(f.name);
    }
    return "{\"type\":\"object\",\"properties\":{" ++ properties ++ "}" ++ (if (required.len > 0) ",\"required\":[" ++ required ++ "]" else "") ++ ",\"additionalProperties\":false}";
}

/// The schema of a field with what the struct says of it.
fn described(comptime T: type, comptime name: []const u8, comptime schema: []const u8) []const u8 {
    if (!@hasDecl(T, "descriptions") or !@hasField(@TypeOf(T.descriptions), name)) return schema;
    return "{\"description\":" ++ quoted(@field(T.descriptions, name)) ++ (if (schema.len > 2) "," else "") ++ schema[1..];
}

/// A text as JSON.
pub fn quoted(comptime s: []const u8) []const u8 {
    comptime {
        @setEvalBranchQuota(1000 + s.len * 20);
        var out: []const u8 = "\"";
        var from: usize = 0;
        for (s, 0..) |b, i| {
            if (b >= 0x20 and b != '"' and b != '\\') continue;
            out = out ++ s[from..i] ++ switch (b) {
                '"' => "\\\"",
                '\\' => "\\\\",
                '\n' => "\\n",
                else => std.fmt.comptimePrint("\\u{x:0>4}", .{b}),
            };
            from = i + 1;
        }
        return out ++ s[from..] ++ "\"";
    }
}

/// A value that is known when the plugin is compiled, as JSON: structs, tuples, texts, numbers
/// and enums.
pub fn literal(comptime v: anytype) []const u8 {
    const T = @TypeOf(v);
    return comptime switch (@typeInfo(T)) {
        .bool => if (v) "true" else "false",
        .int, .comptime_int => std.fmt.comptimePrint("{d}", .{v}),
        .@"enum", .enum_literal => quoted(@tagName(v)),
        .pointer => |p| if (p.size == .slice and p.child == u8) quoted(v) else if (p.size == .one and @typeInfo(p.child) == .array and @typeInfo(p.child).array.child == u8) quoted(v) else literal(v.*),
        .@"struct" => |s| if (T == json.Json) v.text else if (s.is_tuple) tuple(v) else object(v),
        else => @compileError("no JSON is made of " ++ @typeName(T) ++ " when a plugin is compiled"),
    };
}

fn tuple(comptime v: anytype) []const u8 {
    comptime var out: []const u8 = "";
    inline for (v, 0..) |item, i| out = out ++ (if (i > 0) "," else "") ++ literal(item);
    return "[" ++ out ++ "]";
}

fn object(comptime v: anytype) []const u8 {
    comptime var out: []const u8 = "";
    inline for (@typeInfo(@TypeOf(v)).@"struct".fields) |f| out = out ++ (if (out.len > 0) "," else "") ++ quoted(f.name) ++ ":" ++ literal(@field(v, f.name));
    return "{" ++ out ++ "}";
}

test "the schema of a struct" {
    const T = struct {
        city: []const u8,
        days: u8 = 3,
        unit: ?enum { celsius, kelvin },
        pub const descriptions = .{ .city = "Where \"it\" is." };
    };
    try std.testing.expectEqualStrings(
        \\{"type":"object","properties":{"city":{"description":"Where \"it\" is.","type":"string"},"days":{"type":"integer","minimum":0},"unit":{"enum":["celsius","kelvin"]}},"required":["city"],"additionalProperties":false}
    , of(T));
}
