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
    let (mut list, mut after) = (Vec::new(), None);
    loop {
        let (keys, next) = kv::list(PREFIX, after.as_deref())?; // a page
        for key in keys {
            if let Some(item) = kv::get(&key)? {
                list.push(json!({"player": &key[PREFIX.len()..], "score": number(&item.value)?}));
            }
        }
        if next.is_none() {
            return Ok(list);
        }
        after = next;
    }
}

/// The schema of a type has no bounds; the host holds the arguments to this one.
fn score_schema() -> Json {
    json!({
        "type": "object", "additionalProperties": false, "required": ["player", "points"],
        "properties": json!({
            "player": json!({"type": "string", "minLength": 1, "maxLength": 100}),
            "points": json!({"type": "integer", "minimum": -1000, "maximum": 1000})
        })
    })
}

plugin! {
    Plugin::new("scores", "1.0.0")
        .description("Keeps the scores of players.")
        .permissions(json!({"kv": "write"}))
        .tool(Tool::new("score", "Adds points to a player's score.").parameters(score_schema()), score)
        .tool(Tool::new("scores", "Lists the scores of all players.").read_only(), scores)
}
