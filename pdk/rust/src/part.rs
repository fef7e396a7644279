//! What messages and their parts may hold.

use crate::{Error, Json, Kind, Result};

pub(crate) fn text_or_none(v: &Option<Json>, name: &str) -> Result<Option<String>> {
    v.as_ref().map(|v| v.as_string().ok_or_else(|| wrong(name, "string"))).transpose()
}

pub(crate) fn text(v: &Option<Json>, name: &str) -> Result<String> {
    text_or_none(v, name)?.ok_or_else(|| Error::invalid(format!("{name} is absent")))
}

pub(crate) fn name(v: &Option<Json>, of: &str) -> Result<String> {
    let text = text(v, of)?;
    if text.is_empty() {
        return Err(wrong(of, "name"));
    }
    Ok(text)
}

pub(crate) fn whole(v: &Option<Json>, name: &str, least: i64) -> Result<i64> {
    let n = v.as_ref().and_then(Json::as_i64).filter(|n| (least..1 << 53).contains(n));
    n.ok_or_else(|| wrong(name, "integer"))
}

pub(crate) fn of_kind(v: &Option<Json>, kind: Kind, name: &str, noun: &str) -> Result<()> {
    match v {
        Some(v) if v.kind() != kind => Err(wrong(name, noun)),
        _ => Ok(()),
    }
}

pub(crate) fn list(v: &Option<Json>, name: &str) -> Result<Vec<Json>> {
    match v {
        Some(v) if v.kind() == Kind::Array => Ok(v.items().collect()),
        _ => Err(wrong(name, "array")),
    }
}

pub(crate) fn wrong(name: &str, noun: &str) -> Error {
    Error::invalid(format!("{name} is no {noun}"))
}

pub(crate) fn messages(v: &Option<Json>, name: &str) -> Result<Vec<crate::Message>> {
    list(v, name)?.into_iter().map(crate::Message::checked).collect()
}

pub(crate) fn check_message(m: &Json) -> Result<()> {
    if m.kind() != Kind::Object {
        return Err(wrong("a message", "object"));
    }
    let ([id, role, agent, parts, created_at, metadata], twice) = m.pick(["id", "role", "agent", "parts", "created_at", "metadata"]);
    if twice.contains(&true) {
        return Err(Error::invalid("a message has a field twice"));
    }
    if !["system", "user", "assistant", "tool"].contains(&text(&role, "the role of a message")?.as_str()) {
        return Err(wrong("the role of a message", "known one"));
    }
    text_or_none(&id, "the id of a message")?;
    text_or_none(&agent, "the agent of a message")?;
    text_or_none(&created_at, "created_at")?;
    of_kind(&metadata.filter(|v| !v.is_null()), Kind::Object, "metadata", "object")?;
    of_kind(&parts, Kind::Array, "the parts of a message", "array")?;
    parts.iter().flat_map(|list| list.items().collect::<Vec<_>>()).try_for_each(|p| check_part(&p))
}

const FIELDS: [&str; 13] =
    ["type", "text", "signature", "id", "name", "arguments", "content", "is_error", "media", "media_type", "url", "data", "value"];

pub(crate) fn check_part(p: &Json) -> Result<()> {
    if p.kind() != Kind::Object {
        return Err(wrong("a part", "object"));
    }
    let ([kind, words, signature, id, of, _, _, is_error, media, media_type, url, data, _], twice) = p.pick(FIELDS);
    let has: &[&str] = match name(&kind, "the type of a part")?.as_str() {
        "text" => {
            text(&words, "text")?;
            &["text"]
        }
        "reasoning" => {
            text(&words, "text")?;
            text_or_none(&signature, "signature")?;
            &["text", "signature"]
        }
        "tool_call" => {
            name(&id, "id").and(name(&of, "name"))?;
            &["id", "name", "arguments"]
        }
        "tool_result" => {
            name(&id, "id").and(name(&of, "name"))?;
            of_kind(&is_error, Kind::Bool, "is_error", "boolean")?;
            if media.is_some() {
                list(&media, "media")?.iter().try_for_each(check_media)?;
            }
            &["id", "name", "content", "is_error", "media"]
        }
        "media" => {
            text(&media_type, "media_type")?;
            text_or_none(&url, "url").and(text_or_none(&data, "data"))?;
            &["media_type", "url", "data"]
        }
        "data" => &["value"],
        _ => &[],
    };
    let doubled = FIELDS.iter().zip(twice).any(|(field, twice)| twice && (*field == "type" || has.contains(field)));
    if doubled {
        return Err(Error::invalid("a part has a field twice"));
    }
    Ok(())
}

fn check_media(p: &Json) -> Result<()> {
    match p.get("type").and_then(|v| v.as_string()) {
        Some(kind) if kind == "media" => check_part(p),
        _ => Err(wrong("media", "list of media")),
    }
}
