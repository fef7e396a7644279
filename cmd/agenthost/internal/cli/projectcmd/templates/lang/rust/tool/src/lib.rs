//! A plugin with a tool, which models call.

use agenthost::{arguments, plugin, Call, Error, Plugin, Result, Tool};

arguments! {
    struct Text {
        /// The text whose words are counted.
        text: String,
    }
}

fn count_words(args: Text, _: &mut Call) -> Result<String> {
    match args.text.split_whitespace().count() {
        0 => Err(Error::invalid("The text is empty. Ask for one.")), // the model reads this
        n => Ok(n.to_string()),
    }
}

plugin! {
    Plugin::new("example", "0.1.0")
        .description("Counts words.")
        .tool(Tool::new("count_words", "Counts the words of a text.").read_only(), count_words)
}
