use crate::part::{list, of_kind, text, text_or_none, whole, wrong};
use crate::{Error, Json, Kind, Result};

/// A conversation without its content: one entry a message in every column. The kit has
/// checked it, so that any index in it may be used without a look.
#[derive(Clone, Debug)]
pub struct Outline {
    pub count: usize,
    /// One letter a message: s system, u user, a assistant, t tool.
    pub roles: Vec<u8>,
    pub bytes: Vec<u64>,
    pub chars: Vec<u64>,
    pub tokens: Option<Vec<u64>>,
    pub encoding: Option<String>,
    pub parts: Vec<u64>,
    /// Messages that may be edited but not dropped.
    pub keep: Option<Vec<usize>>,
    /// Where the rounds begin that the agent about to be asked has made itself.
    pub own_from: Option<usize>,
    pub tools: Vec<Row>,
}

/// A tool's call or result.
#[derive(Clone, Debug)]
pub struct Row {
    pub message: usize,
    pub part: usize,
    pub is_result: bool,
    pub id: String,
    pub name: String,
}

impl Outline {
    pub(crate) fn read(v: &Json) -> Result<Outline> {
        if v.kind() != Kind::Object {
            return Err(wrong("outline", "object"));
        }
        let ([count, roles, bytes, chars, tokens, encoding, parts, keep, own_from, tools], _) =
            v.pick(["count", "roles", "bytes", "chars", "tokens", "encoding", "parts", "keep", "own_from", "tools"]);
        let count = usize::try_from(whole(&count, "outline.count", 0)?).map_err(|_| wrong("outline.count", "number of messages"))?;
        let roles = text(&roles, "outline.roles")?.into_bytes();
        if roles.len() != count || !roles.iter().all(|r| b"suat".contains(r)) {
            return Err(Error::invalid("outline.roles has not one letter of s, u, a and t for each message"));
        }
        let mut o = Outline {
            count,
            roles,
            bytes: column(&bytes, "outline.bytes", count)?,
            chars: column(&chars, "outline.chars", count)?,
            tokens: tokens.map(|v| column(&Some(v), "outline.tokens", count)).transpose()?,
            encoding: text_or_none(&encoding, "outline.encoding")?,
            parts: column(&parts, "outline.parts", count)?,
            keep: None,
            own_from: None,
            tools: Vec::new(),
        };
        if keep.is_some() {
            let indices = numbers(&keep, "outline.keep")?;
            o.keep = Some(indices.into_iter().map(|n| within(n as i64, count, "outline.keep")).collect::<Result<_>>()?);
        }
        if own_from.is_some() {
            o.own_from = Some(within(whole(&own_from, "outline.own_from", 0)?, count + 1, "outline.own_from")?);
        }
        of_kind(&tools, Kind::Array, "outline.tools", "array")?;
        for row in list(&tools, "outline.tools")? {
            let row = o.row(&row)?;
            if o.tools.last().map_or(false, |before| (before.message, before.part) >= (row.message, row.part)) {
                return Err(Error::invalid("outline.tools is not in order"));
            }
            o.tools.push(row);
        }
        Ok(o)
    }

    fn row(&self, v: &Json) -> Result<Row> {
        const NAME: &str = "a row of outline.tools";
        if v.kind() != Kind::Array {
            return Err(wrong(NAME, "array"));
        }
        let mut items = v.items();
        let mut next = || items.next();
        let message = within(whole(&next(), NAME, 0)?, self.count, NAME)?;
        let part = within(whole(&next(), NAME, 0)?, usize::try_from(self.parts[message]).unwrap_or(usize::MAX), NAME)?;
        let is_result = match text(&next(), NAME)?.as_str() {
            "call" => false,
            "result" => true,
            _ => return Err(wrong(NAME, "call or result")),
        };
        Ok(Row { message, part, is_result, id: text(&next(), NAME)?, name: text(&next(), NAME)? })
    }
}

fn within(n: i64, end: usize, name: &str) -> Result<usize> {
    usize::try_from(n).ok().filter(|n| *n < end).ok_or_else(|| Error::invalid(format!("{name} names {n} of {end}")))
}

fn column(v: &Option<Json>, name: &str, count: usize) -> Result<Vec<u64>> {
    let column = numbers(v, name)?;
    if column.len() != count {
        return Err(Error::invalid(format!("{name} has not {count} entries")));
    }
    Ok(column)
}

/// numbers reads an array of integers in one pass.
fn numbers(v: &Option<Json>, name: &str) -> Result<Vec<u64>> {
    let v = v.as_ref().filter(|v| v.kind() == Kind::Array).ok_or_else(|| wrong(name, "array"))?;
    match simple(v.text().as_bytes()) {
        Some(list) => Ok(list),
        None => v.items().map(|item| whole(&Some(item), name, 0).map(|n| n as u64)).collect(),
    }
}

/// simple reads a list of numbers of up to 15 digits, with commas alone between them.
fn simple(text: &[u8]) -> Option<Vec<u64>> {
    let (mut list, mut n, mut digits) = (Vec::with_capacity(text.len() / 4), 0, 0);
    for &b in text.get(1..)? {
        match b {
            b'0'..=b'9' if digits < 15 => {
                n = n * 10 + u64::from(b - b'0');
                digits += 1;
            }
            b',' | b']' if digits > 0 => {
                list.push(n);
                n = 0;
                digits = 0;
            }
            _ => return None,
        }
    }
    Some(list)
}
