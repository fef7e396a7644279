//! Two tools that keep what they count: the host stores it for each tenant.

use agenthost::{arguments, host::kv, json, plugin, Call, Error, Json, Plugin, Result, Tool};

const PREFIX: &str = "score/";

arguments! {
    struct Score {
        player: String,
        points: i32,
    }

    struct Nothing {}
}

fn number(text: &[u8]) -> Result<i64> {
    std::str::from_utf8(text)?.parse().map_err(|_| Error::from("a score is no number"))
}

fn score(args: Score, _: &mut Call) -> Result<Json> {
    if args.player.is_empty() || args.player.len() > 400 {
        return Err(Error::invalid("A player's name has 1 to 400 bytes."));
    }
    let key = format!("{PREFIX}{}", args.player);
    let (old, revision) = match kv::get(&key)? {
        Some(item) => (number(&item.value)?, item.revision),
        None => (0, 0),
    };
    let score = old + i64::from(args.points);
    kv::write(&key, score.to_string().as_bytes(), Some(revision), None)?; // if another call was faster, this one fails with conflict
    Ok(json!({"player": args.player, "score": score}))
}

fn scores(_: Nothing, _: &mut Call) -> Result<Vec<Json>> {
    let mut list = Vec::new();
    for key in kv::list(PREFIX, None)?.0 {
        if let Some(item) = kv::get(&key)? {
            list.push(json!({"player": &key[PREFIX.len()..], "score": number(&item.value)?}));
        }
    }
    Ok(list)
}

plugin! {
    Plugin::new("scores", "1.0.0")
        .description("Keeps the scores of players.")
        .permissions(json!({"kv": "write"}))
        .tool(Tool::new("score", "Adds points to a player's score."), score)
        .tool(Tool::new("scores", "Lists the scores of all players.").read_only(), scores)
}
