//! A history processor: it changes the messages that models see. The stored conversation keeps
//! them.

use agenthost::{plugin, Plugin, Processor, Result, View};

fn tidy(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn process(view: &mut View) -> Result<()> {
    view.map_text(tidy); // of every message; those that do not change are not sent back
    Ok(())
}

plugin! {
    Plugin::new("example", "0.1.0")
        .description("Takes doubled spaces out of what models see.")
        .processor(Processor::new("example"), process)
}
