//! A processor that takes mail addresses and card numbers out of what models see.

const std = @import("std");
const agenthost = @import("agenthost");

pub const panic = agenthost.panic;

const Text = std.ArrayList(u8);

fn isWord(b: u8) bool {
    return b == '_' or std.ascii.isAlphanumeric(b);
}

fn isDomain(b: u8) bool {
    return isWord(b) or b == '.' or b == '-';
}

fn isLocal(b: u8) bool {
    return isDomain(b) or b == '%' or b == '+';
}

/// Where a domain ends that begins at an index: behind its last letter. It is the index itself
/// if no domain begins there.
fn domainEnd(text: []const u8, from: usize) usize {
    var end = from;
    for (text[from..], from..) |b, i| {
        if (isWord(b)) end = i + 1 else if (i == from or !isDomain(b)) break;
    }
    return end;
}

/// Replaces addresses: a run of letters before an @, and a domain behind it.
fn hideMail(text: []const u8) ![]const u8 {
    var out: Text = .empty;
    var rest: usize = 0;
    while (std.mem.indexOfScalarPos(u8, text, rest, '@')) |at| {
        const end = domainEnd(text, at + 1);
        var from = at;
        while (from > rest and isLocal(text[from - 1])) from -= 1;
        const is_address = from < at and end > at + 1;
        try out.appendSlice(agenthost.allocator, text[rest..if (is_address) from else at + 1]);
        if (is_address) try out.appendSlice(agenthost.allocator, "[mail]");
        rest = if (is_address) end else at + 1;
    }
    try out.appendSlice(agenthost.allocator, text[rest..]);
    return out.items;
}

/// Replaces numbers of 13 digits or more, between which may be single spaces or hyphens.
fn hideCards(text: []const u8) ![]const u8 {
    var out: Text = .empty;
    var i: usize = 0;
    while (i < text.len) {
        var end = i;
        var next = i;
        var digits: usize = 0;
        while (next < text.len and std.ascii.isDigit(text[next])) {
            digits += 1;
            end = next + 1;
            next = if (end < text.len and (text[end] == ' ' or text[end] == '-')) end + 1 else end;
        }
        if (digits == 0) end = i + 1;
        try out.appendSlice(agenthost.allocator, if (digits >= 13) "[card]" else text[i..end]);
        i = end;
    }
    return out.items;
}

fn hide(text: []const u8) ![]const u8 {
    return hideCards(try hideMail(text));
}

fn redact(view: *agenthost.View) !void {
    try view.mapText(hide); // messages that do not change are not sent back
}

comptime {
    agenthost.plugin(.{
        .name = "redact",
        .version = "1.0.0",
        .description = "Hides mail addresses and card numbers from models.",
        .processors = .{agenthost.processor("redact", .{}, redact)},
    });
}
