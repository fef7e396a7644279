//! A provider that reminds agents of what the user has asked them to remember in the thread.

use agenthost::{host, plugin, Observe, Plugin, Provide, Provided, Provider, Result};

const SIGN: &str = "Remember: ";
const MOST: usize = 20; // facts; the oldest is forgotten first

fn facts() -> Result<Vec<String>> {
    Ok(host::provider_state()?.read::<Option<_>>()?.unwrap_or_default())
}

fn provide(_: &Provide) -> Result<Provided> {
    let facts = facts()?;
    if facts.is_empty() {
        return Ok(Provided::default());
    }
    Ok(Provided::instructions(format!("The user has asked you to remember:\n- {}", facts.join("\n- "))))
}

fn observe(o: &Observe) -> Result<()> {
    let question = o.request.messages.iter().rev().find(|m| m.role() == "user");
    if let (Ok(_), Some(question)) = (&o.outcome, question) {
        if let Some(fact) = question.text().strip_prefix(SIGN) {
            let mut facts = facts()?;
            facts.push(fact.to_owned());
            host::set_provider_state(&facts[facts.len().saturating_sub(MOST)..])?;
        }
    }
    Ok(())
}

plugin! {
    Plugin::new("remember", "1.0.0")
        .description("Remembers what it is asked to, in the thread.")
        .observing_provider(Provider::new("remember"), provide, observe)
}
