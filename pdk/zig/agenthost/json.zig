//! JSON as text: numbers keep their digits, and what a plugin does not know stays where it is.

const std = @import("std");
const failure = @import("failure.zig");
const memory = @import("memory.zig");

const fail = failure.fail;

pub const Kind = enum { null, boolean, number, string, array, object };

/// How deep arrays and objects may nest.
pub const max_depth = 10_000;

/// A value as it was written. What the kit hands over is valid JSON without space around it.
pub const Json = struct {
    text: []const u8,

    pub const nothing: Json = .{ .text = "null" };

    /// The value that a text is; error.InvalidArgument if it is none.
    pub fn parse(text: []const u8) failure.Error!Json {
        if (!isValid(text)) return fail(error.InvalidArgument, "it is no JSON", .{});
        return .{ .text = std.mem.trim(u8, text, " \n\t\r") };
    }

    /// The JSON of a value of Zig: of structs, slices, texts, numbers, enums and Json. Fields
    /// that are null are left out.
    pub fn of(value: anytype) error{OutOfMemory}!Json {
        var out: Writer = .{};
        try out.value(value);
        return .{ .text = out.bytes.items };
    }

    pub fn kind(v: Json) Kind {
        return switch (v.text[0]) {
            '{' => .object,
            '[' => .array,
            '"' => .string,
            't', 'f' => .boolean,
            'n' => .null,
            else => .number,
        };
    }

    pub fn isNull(v: Json) bool {
        return v.text[0] == 'n';
    }

    /// The member of an object, the last one of that name.
    pub fn get(v: Json, name: []const u8) ?Json {
        var found: ?Json = null;
        var all = v.items();
        if (v.kind() != .object) return null;
        while (all.next()) |m| {
            if (m.nameIs(name)) found = m.value;
        }
        return found;
    }

    /// The items of an array, or the members of an object; other values have none.
    pub fn items(v: Json) Items {
        const k = v.kind();
        return .{ .text = v.text, .at = if (k == .array or k == .object) 1 else v.text.len, .object = k == .object };
    }

    /// How many items there are.
    pub fn count(v: Json) usize {
        var all = v.items();
        var n: usize = 0;
        while (all.next()) |_| n += 1;
        return n;
    }

    /// The text of a string, null for another value. Half a surrogate in it is U+FFFD.
    pub fn string(v: Json) error{OutOfMemory}!?[]const u8 {
        if (v.kind() != .string) return null;
        const inner = v.text[1 .. v.text.len - 1];
        if (std.mem.indexOfScalar(u8, inner, '\\') == null) return inner;
        return try unescape(inner);
    }

    pub fn boolean(v: Json) ?bool {
        return if (v.kind() == .boolean) v.text[0] == 't' else null;
    }

    /// A number whose value is an integer, exactly: 2, 2.0 and 2e0. Null for other values.
    pub fn int(v: Json) ?i64 {
        return if (v.kind() == .number) exactInt(v.text) else null;
    }

    pub fn float(v: Json) ?f64 {
        return if (v.kind() == .number) std.fmt.parseFloat(f64, v.text) catch null else null;
    }

    /// The value as a type of Zig; error.InvalidArgument, with the name of the part, if it is
    /// of another type. An object may have members that the struct has no field for.
    pub fn read(v: Json, comptime T: type) (failure.Error || error{OutOfMemory})!T {
        return readAs(v, T, "the value");
    }
};

/// A member of an object, or an item of an array.
pub const Item = struct {
    /// The name of a member, a string of JSON; null in an array.
    key: ?Json,
    value: Json,

    pub fn nameIs(i: Item, wanted: []const u8) bool {
        const key = i.key orelse return false;
        return keyIs(key.text, wanted);
    }

    /// The name of a member.
    pub fn name(i: Item) error{OutOfMemory}![]const u8 {
        const key = i.key orelse return "";
        return (try key.string()).?;
    }
};

/// Goes through the items of a value.
pub const Items = struct {
    text: []const u8,
    at: usize,
    object: bool,

    pub fn next(i: *Items) ?Item {
        if (i.at >= i.text.len) return null;
        var at = skipSpace(i.text, i.at);
        if (i.text[at] == ',') at = skipSpace(i.text, at + 1);
        if (i.text[at] == ']' or i.text[at] == '}') {
            i.at = i.text.len;
            return null;
        }
        var key: ?Json = null;
        if (i.object) {
            const end = skipString(i.text, at);
            key = .{ .text = i.text[at..end] };
            at = skipSpace(i.text, skipSpace(i.text, end) + 1);
        }
        i.at = skip(i.text, at);
        return .{ .key = key, .value = .{ .text = i.text[at..i.at] } };
    }
};

/// An object whose members all have values of one type.
pub fn Map(comptime V: type) type {
    return struct {
        entries: []const Entry = &.{},

        pub const Value = V;
        pub const Entry = struct { name: []const u8, value: V };
        pub const is_agenthost_map = true;

        pub fn get(m: @This(), name: []const u8) ?V {
            for (m.entries) |e| {
                if (std.mem.eql(u8, e.name, name)) return e.value;
            }
            return null;
        }
    };
}

fn isMap(comptime T: type) bool {
    return @typeInfo(T) == .@"struct" and @hasDecl(T, "is_agenthost_map");
}

// Reading values as types.

fn wrong(name: []const u8, noun: []const u8) failure.Error {
    return fail(error.InvalidArgument, "{s} is no {s}", .{ name, noun });
}

pub fn readAs(v: Json, comptime T: type, name: []const u8) (failure.Error || error{OutOfMemory})!T {
    if (T == Json) return v;
    switch (@typeInfo(T)) {
        .bool => return v.boolean() orelse wrong(name, "boolean"),
        .int => {
            const n = v.int() orelse return wrong(name, "integer");
            return std.math.cast(T, n) orelse fail(error.InvalidArgument, "{s} is too large or too small", .{name});
        },
        .float => return @floatCast(v.float() orelse return wrong(name, "number")),
        .optional => |o| return if (v.isNull()) null else try readAs(v, o.child, name),
        .@"enum" => |e| {
            const text = try v.string() orelse return wrong(name, "string");
            inline for (e.fields) |f| {
                if (std.mem.eql(u8, f.name, text)) return @enumFromInt(f.value);
            }
            return fail(error.InvalidArgument, "{s} is no value that it may be", .{name});
        },
        .pointer => |p| {
            if (p.size == .one) {
                const at = try memory.allocator.create(p.child);
                at.* = try readAs(v, p.child, name);
                return at;
            }
            if (p.child == u8) return try v.string() orelse wrong(name, "string");
            return readList(v, p.child, name);
        },
        .@"struct" => return if (comptime isMap(T)) readMap(v, T, name) else readStruct(v, T, name),
        else => @compileError("no JSON is read as " ++ @typeName(T)),
    }
}

fn readList(v: Json, comptime T: type, name: []const u8) (failure.Error || error{OutOfMemory})![]const T {
    if (v.kind() != .array) return wrong(name, "array");
    const list = try memory.allocator.alloc(T, v.count());
    var all = v.items();
    for (list) |*item| item.* = try readAs(all.next().?.value, T, name);
    return list;
}

fn readMap(v: Json, comptime T: type, name: []const u8) (failure.Error || error{OutOfMemory})!T {
    if (v.kind() != .object) return wrong(name, "object");
    const list = try memory.allocator.alloc(T.Entry, v.count());
    var all = v.items();
    for (list) |*entry| {
        const m = all.next().?;
        entry.* = .{ .name = try m.name(), .value = try readAs(m.value, T.Value, name) };
    }
    return .{ .entries = list };
}

fn readStruct(v: Json, comptime T: type, name: []const u8) (failure.Error || error{OutOfMemory})!T {
    if (v.kind() != .object) return wrong(name, "object");
    const fields = @typeInfo(T).@"struct".fields;
    var out: T = undefined;
    var has = [_]bool{false} ** fields.len;
    var all = v.items();
    while (all.next()) |m| {
        inline for (fields, 0..) |f, i| {
            if (m.nameIs(f.name)) {
                @field(out, f.name) = try readAs(m.value, f.type, f.name);
                has[i] = true;
            }
        }
    }
    inline for (fields, 0..) |f, i| {
        if (!has[i]) {
            if (f.defaultValue()) |value| {
                @field(out, f.name) = value;
            } else if (@typeInfo(f.type) == .optional) {
                @field(out, f.name) = null;
            } else {
                return fail(error.InvalidArgument, "{s} is absent", .{f.name});
            }
        }
    }
    return out;
}

// Writing.

/// A document in the making.
pub const Writer = struct {
    bytes: std.ArrayList(u8) = .empty,

    pub fn raw(w: *Writer, text: []const u8) error{OutOfMemory}!void {
        try w.bytes.appendSlice(memory.allocator, text);
    }

    pub fn byte(w: *Writer, b: u8) error{OutOfMemory}!void {
        try w.bytes.append(memory.allocator, b);
    }

    pub fn json(w: *Writer) Json {
        return .{ .text = w.bytes.items };
    }

    /// Begins a member of the object that is being written.
    pub fn key(w: *Writer, name: []const u8) error{OutOfMemory}!void {
        const last = w.bytes.items[w.bytes.items.len - 1];
        if (last != '{') try w.byte(',');
        try w.string(name);
        try w.byte(':');
    }

    /// Writes a member, unless its value is null.
    pub fn member(w: *Writer, name: []const u8, v: anytype) error{OutOfMemory}!void {
        if (@typeInfo(@TypeOf(v)) == .optional) {
            if (v) |is| try w.member(name, is);
            return;
        }
        if (@TypeOf(v) == @TypeOf(null)) return;
        try w.key(name);
        try w.value(v);
    }

    pub fn string(w: *Writer, s: []const u8) error{OutOfMemory}!void {
        try w.byte('"');
        var from: usize = 0;
        var at: usize = 0;
        while (at < s.len) {
            const b = s[at];
            const n = if (b < 0x80) 1 else runeLength(s, at);
            if (n > 0 and b >= 0x20 and b != '"' and b != '\\') {
                at += n;
                continue;
            }
            try w.raw(s[from..at]);
            at += 1;
            from = at;
            if (n == 0) {
                try w.raw("\u{fffd}");
                continue;
            }
            switch (b) {
                '"' => try w.raw("\\\""),
                '\\' => try w.raw("\\\\"),
                '\n' => try w.raw("\\n"),
                '\r' => try w.raw("\\r"),
                '\t' => try w.raw("\\t"),
                else => {
                    const digits = "0123456789abcdef";
                    try w.raw("\\u00");
                    try w.byte(digits[b >> 4]);
                    try w.byte(digits[b & 15]);
                },
            }
        }
        try w.raw(s[from..]);
        try w.byte('"');
    }

    pub fn int(w: *Writer, n: anytype) error{OutOfMemory}!void {
        var digits: [40]u8 = undefined;
        try w.raw(std.fmt.bufPrint(&digits, "{d}", .{n}) catch unreachable); // any integer of 128 bits fits
    }

    pub fn value(w: *Writer, v: anytype) error{OutOfMemory}!void {
        const T = @TypeOf(v);
        if (T == Json) return w.raw(v.text);
        switch (@typeInfo(T)) {
            .null => try w.raw("null"),
            .bool => try w.raw(if (v) "true" else "false"),
            .int, .comptime_int => try w.int(v),
            .float, .comptime_float => try w.float(v),
            .optional => if (v) |is| try w.value(is) else try w.raw("null"),
            .@"enum", .enum_literal => try w.string(@tagName(v)),
            .pointer => |p| switch (p.size) {
                .slice => if (p.child == u8) try w.string(v) else try w.list(v),
                .one => switch (@typeInfo(p.child)) {
                    .array => |a| if (a.child == u8) try w.string(v) else try w.list(v),
                    else => try w.value(v.*),
                },
                else => @compileError("no JSON is written of " ++ @typeName(T)),
            },
            .array => try w.list(&v),
            .@"struct" => |s| if (s.is_tuple) {
                try w.byte('[');
                inline for (s.fields, 0..) |f, i| {
                    if (i > 0) try w.byte(',');
                    try w.value(@field(v, f.name));
                }
                try w.byte(']');
            } else if (comptime isMap(T)) {
                try w.byte('{');
                for (v.entries) |e| try w.member(e.name, e.value);
                try w.byte('}');
            } else {
                try w.byte('{');
                inline for (s.fields) |f| try w.member(f.name, @field(v, f.name));
                try w.byte('}');
            },
            else => @compileError("no JSON is written of " ++ @typeName(T)),
        }
    }

    fn list(w: *Writer, all: anytype) error{OutOfMemory}!void {
        try w.byte('[');
        for (all, 0..) |item, i| {
            if (i > 0) try w.byte(',');
            try w.value(item);
        }
        try w.byte(']');
    }

    /// What is no number of JSON is null.
    fn float(w: *Writer, v: f64) error{OutOfMemory}!void {
        if (!std.math.isFinite(v)) return w.raw("null");
        var digits: [400]u8 = undefined;
        try w.raw(std.fmt.bufPrint(&digits, "{d}", .{v}) catch unreachable); // no finite number has more
    }
};

// The text of JSON.

pub fn skipSpace(text: []const u8, from: usize) usize {
    var at = from;
    while (at < text.len and (text[at] == ' ' or text[at] == '\n' or text[at] == '\t' or text[at] == '\r')) at += 1;
    return at;
}

/// The end of a valid string whose quote is at from.
fn skipString(text: []const u8, from: usize) usize {
    var at = from + 1;
    while (text[at] != '"') at += if (text[at] == '\\') 2 else 1;
    return at + 1;
}

/// The end of the valid value at from.
fn skip(text: []const u8, from: usize) usize {
    var at = from;
    if (text[at] == '"') return skipString(text, at);
    if (text[at] != '{' and text[at] != '[') {
        while (at < text.len and text[at] > ' ' and text[at] != ',' and text[at] != ']' and text[at] != '}') at += 1;
        return at;
    }
    var depth: usize = 0;
    while (true) {
        switch (bytes[text[at]]) {
            .quote => {
                at = skipString(text, at);
                continue;
            },
            .open => depth += 1,
            .close => {
                depth -= 1;
                if (depth == 0) return at + 1;
            },
            .plain, .other => {},
        }
        at += 1;
    }
}

/// What a byte is where JSON is looked through.
const Byte = enum(u8) { plain, quote, open, close, other };

const bytes = all: {
    var out = [_]Byte{.plain} ** 256;
    for (0..0x20) |b| out[b] = .other;
    for (0x80..0x100) |b| out[b] = .other;
    out['\\'] = .other;
    out['"'] = .quote;
    out['['] = .open;
    out['{'] = .open;
    out[']'] = .close;
    out['}'] = .close;
    break :all out;
};

/// Whether a byte stands in a string for itself alone.
const in_string = all: {
    var out = [_]bool{true} ** 256;
    for (bytes, 0..) |b, i| out[i] = b != .other and b != .quote;
    break :all out;
};

/// The length of the UTF-8 sequence at a place, 0 if it is none.
fn runeLength(text: []const u8, at: usize) usize {
    const a = text[at];
    const n: usize = switch (a) {
        0xc2...0xdf => 2,
        0xe0...0xef => 3,
        0xf0...0xf4 => 4,
        else => return 0,
    };
    if (text.len - at < n) return 0;
    const low: u8 = if (a == 0xe0) 0xa0 else if (a == 0xf0) 0x90 else 0x80;
    const high: u8 = if (a == 0xed) 0x9f else if (a == 0xf4) 0x8f else 0xbf;
    if (text[at + 1] < low or text[at + 1] > high) return 0;
    for (text[at + 2 .. at + n]) |b| {
        if (b & 0xc0 != 0x80) return 0;
    }
    return n;
}

fn hex(text: []const u8, at: usize) ?u21 {
    if (at + 4 > text.len) return null;
    return std.fmt.parseInt(u21, text[at .. at + 4], 16) catch null;
}

fn hexDigits(text: []const u8, at: usize) bool {
    if (at + 4 > text.len) return false;
    for (text[at .. at + 4]) |b| {
        if (!std.ascii.isHex(b)) return false;
    }
    return true;
}

/// The end of the string whose quote is before from, null if it is none.
fn validString(text: []const u8, from: usize) ?usize {
    var at = from;
    while (at < text.len) {
        const b = text[at];
        if (in_string[b]) {
            at += 1;
            continue;
        }
        if (b == '"') return at + 1;
        if (b < 0x20) return null;
        if (b == '\\') {
            if (at + 1 == text.len) return null;
            switch (text[at + 1]) {
                '"', '\\', '/', 'b', 'f', 'n', 'r', 't' => at += 2,
                'u' => {
                    if (!hexDigits(text, at + 2)) return null;
                    at += 6;
                },
                else => return null,
            }
        } else {
            const n = runeLength(text, at);
            if (n == 0) return null;
            at += n;
        }
    }
    return null;
}

fn validDigits(text: []const u8, from: usize) ?usize {
    var at = from;
    while (at < text.len and std.ascii.isDigit(text[at])) at += 1;
    return if (at == from) null else at;
}

fn validNumber(text: []const u8, from: usize) ?usize {
    var at = from;
    if (at < text.len and text[at] == '-') at += 1;
    if (at < text.len and text[at] == '0') at += 1 else at = validDigits(text, at) orelse return null;
    if (at < text.len and text[at] == '.') at = validDigits(text, at + 1) orelse return null;
    if (at < text.len and (text[at] == 'e' or text[at] == 'E')) {
        at += 1;
        if (at < text.len and (text[at] == '+' or text[at] == '-')) at += 1;
        at = validDigits(text, at) orelse return null;
    }
    return at;
}

fn validWord(text: []const u8, from: usize, word: []const u8) ?usize {
    return if (std.mem.startsWith(u8, text[from..], word)) from + word.len else null;
}

/// Where the value of a member begins, null if there is no member.
fn validKey(text: []const u8, from: usize) ?usize {
    if (from == text.len or text[from] != '"') return null;
    const at = skipSpace(text, validString(text, from + 1) orelse return null);
    return if (at < text.len and text[at] == ':') at + 1 else null;
}

fn validScalar(text: []const u8, at: usize) ?usize {
    return switch (text[at]) {
        '"' => validString(text, at + 1),
        't' => validWord(text, at, "true"),
        'f' => validWord(text, at, "false"),
        'n' => validWord(text, at, "null"),
        else => validNumber(text, at),
    };
}

/// Whether a text is one value of JSON in UTF-8. It calls itself never, so that no depth ends
/// the plugin.
pub fn isValid(text: []const u8) bool {
    var objects: [max_depth / 8]u8 = undefined; // a bit for each open bracket: it is that of an object
    var depth: usize = 0;
    var at: usize = 0;
    while (true) {
        at = skipSpace(text, at);
        if (at == text.len) return false;
        const first = text[at];
        if (first == '{' or first == '[') {
            if (depth == max_depth) return false;
            const bit = @as(u8, 1) << @intCast(depth & 7);
            if (first == '{') objects[depth >> 3] |= bit else objects[depth >> 3] &= ~bit;
            depth += 1;
            at = skipSpace(text, at + 1);
            if (at == text.len) return false;
            if (text[at] == first + 2) { // the bracket that closes it
                at += 1;
                depth -= 1;
            } else {
                if (first == '{') at = validKey(text, at) orelse return false;
                continue;
            }
        } else {
            at = validScalar(text, at) orelse return false;
        }
        while (true) { // a value has ended
            at = skipSpace(text, at);
            if (depth == 0) return at == text.len;
            if (at == text.len) return false;
            const object = objects[(depth - 1) >> 3] >> @intCast((depth - 1) & 7) & 1 == 1;
            const next = text[at];
            at += 1;
            if (next == ',') {
                if (object) at = validKey(text, skipSpace(text, at)) orelse return false;
                break;
            }
            if (next != @as(u8, if (object) '}' else ']')) return false;
            depth -= 1;
        }
    }
}

/// Reads the escape at a place; writes at most four bytes, and returns where it ends.
fn unescapeOne(text: []const u8, at: usize, out: *[4]u8, size: *usize) usize {
    var end = at + 2;
    const rune: u21 = switch (text[at + 1]) {
        'b' => 8,
        'f' => 12,
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => one: {
            const half = hex(text, at + 2).?; // it is valid
            end = at + 6;
            if (half < 0xd800 or half > 0xdfff) break :one half;
            if (half < 0xdc00 and end + 1 < text.len and text[end] == '\\' and text[end + 1] == 'u') {
                const low = hex(text, end + 2).?;
                if (low >= 0xdc00 and low <= 0xdfff) {
                    end += 6;
                    break :one 0x10000 + ((half - 0xd800) << 10) + (low - 0xdc00);
                }
            }
            break :one 0xfffd;
        },
        else => text[at + 1],
    };
    size.* = std.unicode.utf8Encode(rune, out) catch unreachable; // it is no half of a surrogate
    return end;
}

fn unescape(inner: []const u8) error{OutOfMemory}![]const u8 {
    const out = try memory.allocator.alloc(u8, inner.len);
    var n: usize = 0;
    var at: usize = 0;
    while (at < inner.len) {
        if (inner[at] != '\\') {
            out[n] = inner[at];
            n += 1;
            at += 1;
            continue;
        }
        var some: [4]u8 = undefined;
        var size: usize = 0;
        at = unescapeOne(inner, at, &some, &size);
        @memcpy(out[n .. n + size], some[0..size]);
        n += size;
    }
    return out[0..n];
}

/// Whether a string of JSON is a name.
pub fn keyIs(key: []const u8, name: []const u8) bool {
    const inner = key[1 .. key.len - 1];
    if (std.mem.indexOfScalar(u8, inner, '\\') == null) return std.mem.eql(u8, inner, name);
    var rest = name;
    var at: usize = 0;
    while (at < inner.len) {
        var some: [4]u8 = undefined;
        var size: usize = 1;
        if (inner[at] == '\\') {
            at = unescapeOne(inner, at, &some, &size);
        } else {
            some[0] = inner[at];
            at += 1;
        }
        if (!std.mem.startsWith(u8, rest, some[0..size])) return false;
        rest = rest[size..];
    }
    return rest.len == 0;
}

/// The value of a valid number, if it is an integer of 64 bits.
fn exactInt(text: []const u8) ?i64 {
    if (text.len < 18) { // perhaps digits alone
        var few: i64 = 0;
        for (text) |b| {
            if (!std.ascii.isDigit(b)) break;
            few = few * 10 + (b - '0');
        } else return few;
    }
    const minus = text[0] == '-';
    const from: usize = if (minus) 1 else 0;
    const stop = std.mem.indexOfAny(u8, text, "eE") orelse text.len;
    var point: i64 = if (std.mem.indexOfScalar(u8, text[0..stop], '.')) |p| @intCast(p - from) else @intCast(stop - from);
    if (stop < text.len) {
        const down = text[stop + 1] == '-';
        var exponent: i64 = 0;
        for (text[stop + 1 ..]) |b| {
            if (std.ascii.isDigit(b) and exponent < 100_000_000) exponent = exponent * 10 + (b - '0');
        }
        point += if (down) -exponent else exponent;
    }
    var n: i64 = 0; // counted down, because there is one negative number more
    var index: i64 = 0;
    for (text[from..stop]) |b| {
        if (b == '.') continue;
        defer index += 1;
        if (index >= point) {
            if (b != '0') return null; // a fraction
            continue;
        }
        n = std.math.sub(i64, std.math.mul(i64, n, 10) catch return null, b - '0') catch return null;
    }
    while (index < point and n != 0) : (index += 1) n = std.math.mul(i64, n, 10) catch return null;
    return if (minus) n else std.math.negate(n) catch null;
}

/// The members of an object, for a reader that picks some of them more than once.
pub fn members(v: Json) error{OutOfMemory}![]const Item {
    var out: std.ArrayList(Item) = .empty;
    var all = v.items();
    while (all.next()) |m| try out.append(memory.allocator, m);
    return out.items;
}

/// Finds members of a request, the last one of each name.
pub fn pickFrom(all: []const Item, comptime names: []const []const u8) [names.len]?Json {
    var out = [_]?Json{null} ** names.len;
    for (all) |m| {
        inline for (names, 0..) |name, i| {
            if (m.nameIs(name)) out[i] = m.value;
        }
    }
    return out;
}

/// Finds members of an object in one pass: the last of a name counts, and twice has a bit for
/// each that is there more than once.
pub fn pick(v: Json, comptime names: []const []const u8, twice: *u32) [names.len]?Json {
    var out = [_]?Json{null} ** names.len;
    twice.* = 0;
    var all = v.items();
    while (all.next()) |m| {
        inline for (names, 0..) |name, i| {
            if (m.nameIs(name)) {
                if (out[i] != null) twice.* |= 1 << i;
                out[i] = m.value;
            }
        }
    }
    return out;
}

test "exact integers" {
    inline for (.{ .{ "2", 2 }, .{ "2.0", 2 }, .{ "2e0", 2 }, .{ "-20e-1", -2 }, .{ "9223372036854775807", std.math.maxInt(i64) }, .{ "-9223372036854775808", std.math.minInt(i64) }, .{ "0.1e1", 1 }, .{ "0e999999999", 0 } }) |case| {
        try std.testing.expectEqual(@as(?i64, case[1]), exactInt(case[0]));
    }
    inline for (.{ "2.5", "9223372036854775808", "1e19", "1e-1" }) |text| try std.testing.expectEqual(null, exactInt(text));
}

test "valid JSON" {
    for ([_][]const u8{ "1", " [] ", "{\"a\":[1,2,{}]}", "\"\\ud800\"", "-0.5e+7", "[[[[]]]]" }) |text| try std.testing.expect(isValid(text));
    for ([_][]const u8{ "", "[1,]", "{\"a\"}", "01", "\"\x01\"", "\"\xff\"", "nul", "[1}", "1 2", "{\"a\":1,}", "\"\\x\"" }) |text| try std.testing.expect(!isValid(text));
}

test "values are read as types" {
    const T = struct {
        id: i64,
        state: enum { open, @"on hold" } = .open,
        tags: []const []const u8 = &.{},
        counts: ?Map(u8) = null,
        next: ?*const struct { id: i32 } = null,
        raw: ?Json = null,
        ratio: f64 = 0,
    };
    const v = try Json.parse(
        \\ {"id": 2.0, "state": "on hold", "tags": ["a\u00e9", "b"], "counts": {"x": 3}, "next": {"id": -1}, "raw": [1.0], "ratio": 0.5, "more": {}}
    );
    const t = try v.read(T);
    try std.testing.expectEqual(2, t.id);
    try std.testing.expectEqual(.@"on hold", t.state);
    try std.testing.expectEqualStrings("a\u{e9}", t.tags[0]);
    try std.testing.expectEqual(3, t.counts.?.get("x"));
    try std.testing.expectEqual(-1, t.next.?.id);
    try std.testing.expectEqualStrings("[1.0]", t.raw.?.text);
    try std.testing.expectEqual(0.5, t.ratio);
    try std.testing.expectEqualStrings(
        \\{"id":2,"state":"on hold","tags":["aé","b"],"counts":{"x":3},"next":{"id":-1},"raw":[1.0],"ratio":0.5}
    , (try Json.of(t)).text);
    for ([_][]const u8{ "{}", "{\"id\":\"x\"}", "{\"id\":1.5}", "{\"id\":1,\"state\":\"shut\"}", "{\"id\":1,\"counts\":{\"x\":256}}", "[]" }) |bad| {
        try std.testing.expectError(error.InvalidArgument, (try Json.parse(bad)).read(T));
    }
}

test "text is written and read again" {
    const s = "q\" b\\ n\n \x01 \u{e9}\u{1f600}";
    const v = try Json.of(s);
    try std.testing.expect(isValid(v.text));
    try std.testing.expectEqualStrings(s, (try v.string()).?);
    try std.testing.expectEqualStrings("\"\u{fffd}\"", (try Json.of("\xff")).text);
    try std.testing.expectEqualStrings("\u{1f600}\u{fffd}", (try (try Json.parse("\"\\ud83d\\ude00\\ud800\"")).string()).?);
    try std.testing.expect(keyIs("\"n\\u0061me\"", "name"));
}
