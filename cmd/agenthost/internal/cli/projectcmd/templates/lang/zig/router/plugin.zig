//! A router: it decides which agent of a network is next. It is asked before the first agent
//! runs, and again after each one. Without a next agent the run ends.

const agenthost = @import("agenthost");

pub const panic = agenthost.panic;

fn route(r: *agenthost.Route) !void {
    if (r.call_count >= r.agents.len) return;
    try r.next(r.agents[@intCast(r.call_count)].name);
    r.because("it has not been asked");
}

comptime {
    agenthost.plugin(.{
        .name = "example",
        .version = "0.1.0",
        .description = "Asks each agent once.",
        .routers = .{agenthost.router("example", .{}, route)},
    });
}
