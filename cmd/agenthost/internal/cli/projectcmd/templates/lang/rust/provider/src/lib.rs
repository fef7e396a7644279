//! A context provider: it adds to an agent's instructions before its model is asked.

use agenthost::{plugin, Plugin, Provide, Provided, Provider, Result};

/// How a message is to be answered.
fn advice(text: &str) -> &'static str {
    if text.trim().ends_with('?') {
        return "Answer the question first, in its language, and explain after that.";
    }
    "Answer in the language of the message."
}

fn provide(p: &Provide) -> Result<Provided> {
    Ok(match p.messages.last() {
        Some(message) => Provided::instructions(advice(&message.text())),
        None => Provided::default(),
    })
}

plugin! {
    Plugin::new("example", "0.1.0")
        .description("Has agents answer in the language of the question.")
        .provider(Provider::new("example"), provide)
}
