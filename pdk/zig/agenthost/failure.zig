//! Errors of calls: Zig's errors are their codes, and the text of the last one is kept beside.

const std = @import("std");
const memory = @import("memory.zig");

/// The codes of errors: what a caller can do about one.
pub const Error = error{
    InvalidArgument,
    Unauthenticated,
    PermissionDenied,
    NotFound,
    AlreadyExists,
    Conflict,
    ResourceExhausted,
    FailedPrecondition,
    DeadlineExceeded,
    Canceled,
    Unavailable,
    Unimplemented,
    DataLoss,
    Internal,
};

const codes = [_]struct { Error, []const u8 }{
    .{ error.InvalidArgument, "invalid_argument" },
    .{ error.Unauthenticated, "unauthenticated" },
    .{ error.PermissionDenied, "permission_denied" },
    .{ error.NotFound, "not_found" },
    .{ error.AlreadyExists, "already_exists" },
    .{ error.Conflict, "conflict" },
    .{ error.ResourceExhausted, "resource_exhausted" },
    .{ error.FailedPrecondition, "failed_precondition" },
    .{ error.DeadlineExceeded, "deadline_exceeded" },
    .{ error.Canceled, "canceled" },
    .{ error.Unavailable, "unavailable" },
    .{ error.Unimplemented, "unimplemented" },
    .{ error.DataLoss, "data_loss" },
    .{ error.Internal, "internal" },
};

/// Says more of an error than its code.
pub const Details = struct {
    message: []const u8,
    /// What to do about it.
    hint: ?[]const u8 = null,
    /// The same call may succeed later.
    retryable: bool = false,
};

/// The error that was made last, and what it says.
pub var last: ?struct { err: anyerror, details: Details } = null;

/// Makes an error with a message, which the model reads if a tool ends with it:
///
///     return agenthost.fail(error.NotFound, "There is no order {d}.", .{id});
pub fn fail(err: Error, comptime format: []const u8, args: anytype) Error {
    const message = std.fmt.allocPrint(memory.allocator, format, args) catch return error.ResourceExhausted;
    return failWith(err, .{ .message = message });
}

/// Makes an error with a hint, or one that says that the same call may succeed later.
pub fn failWith(err: Error, details: Details) Error {
    last = .{ .err = err, .details = details };
    return err;
}

/// What the last error said, if it was this one: `catch |err| agenthost.said(err)`.
pub fn said(err: anyerror) ?Details {
    const l = last orelse return null;
    return if (l.err == err) l.details else null;
}

/// The error of a code; error.Internal for an unknown one.
pub fn errorOf(code: []const u8) Error {
    for (codes) |c| {
        if (std.mem.eql(u8, c[1], code)) return c[0];
    }
    return error.Internal;
}

/// The code of an error: "resource_exhausted" where memory is used up, "internal" for errors
/// that are not of the kit.
pub fn codeOf(err: anyerror) []const u8 {
    if (err == error.OutOfMemory) return "resource_exhausted";
    for (codes) |c| {
        if (c[0] == err) return c[1];
    }
    return "internal";
}

/// What an error says to the caller.
pub fn describe(err: anyerror) Details {
    if (said(err)) |details| return details;
    if (err == error.OutOfMemory) return .{ .message = "the plugin has no memory left" };
    return .{ .message = @errorName(err) };
}
