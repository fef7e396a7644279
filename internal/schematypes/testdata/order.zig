const agenthost = @import("agenthost");

/// An order of a shop.
pub const Order = struct {
    /// minimum 1
    id: i64,
    /// Where it is.
    state: ?OrderState = null,
    @"content-type": ?[]const u8 = null,
    lines: []const OrderLinesItem,
    to: ?*const Address = null,
    labels: ?agenthost.Map([]const u8) = null,
    note: ?[]const u8 = null,
    by: ?agenthost.Json = null,
    extra: ?agenthost.Json = null,
};

/// Where it is.
pub const OrderState = enum {
    open,
    paid,
};

pub const OrderLinesItem = struct {
    sku: []const u8,
    /// default 1
    count: ?i64 = null,
};

pub const Address = struct {
    street: ?[]const u8 = null,
    next: ?*const Address = null,
};
