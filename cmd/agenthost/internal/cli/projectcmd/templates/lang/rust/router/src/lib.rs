//! A router: it decides which agent of a network is next. It is asked before the first agent
//! runs, and again after each one. Without a next agent the run ends.

use agenthost::{plugin, Next, Plugin, Result, Route, Router};

fn route(r: &Route) -> Result<Next> {
    match r.agents.get(r.call_count as usize) {
        Some(agent) => Ok(Next::agent(&agent.name).because("it has not been asked")),
        None => Ok(Next::end()),
    }
}

plugin! {
    Plugin::new("example", "0.1.0").description("Asks each agent once.").router(Router::new("example"), route)
}
