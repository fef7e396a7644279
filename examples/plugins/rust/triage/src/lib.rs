//! A router that gives a question to the agent whose words are in it.

use agenthost::{arguments, plugin, Next, Plugin, Result, Route, Router};

arguments! {
    struct Rule {
        agent: String,
        words: Vec<String>,
    }

    struct Config {
        rules: Vec<Rule>,
        otherwise: String,
    }
}

fn route(r: &Route) -> Result<Next> {
    if r.last.is_some() {
        return Ok(Next::end()); // the agent has answered
    }
    let config: Config = r.config()?;
    let question = r.input.as_ref().map_or_else(String::new, |m| m.text().to_ascii_lowercase());
    for rule in config.rules {
        if let Some(word) = rule.words.iter().find(|word| question.contains(&word.to_ascii_lowercase())) {
            return Ok(Next::agent(rule.agent).because(format!("the question has the word \"{word}\"")));
        }
    }
    Ok(Next::agent(config.otherwise).because("the question has no word of a rule"))
}

plugin! {
    Plugin::new("triage", "1.0.0")
        .description("Routes questions by their words.")
        .router(Router::new("triage").config::<Config>(), route)
}
