use crate::{Error, FromJson, Result};
use std::fmt;
use std::rc::Rc;

/// How deep arrays and objects nest at most.
const MAX_DEPTH: usize = 10_000;

/// A value of JSON as it was written. Copies of it, and of what is in it, share its text.
#[derive(Clone)]
pub struct Json {
    document: Rc<str>,
    from: usize,
    to: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Null,
    Bool,
    Number,
    String,
    Array,
    Object,
}

impl Json {
    /// Reads one value of JSON. What is none is `invalid_argument`.
    pub fn parse(text: impl AsRef<str>) -> Result<Json> {
        let text = text.as_ref();
        if !valid(text.as_bytes()) {
            return Err(Error::invalid("the text is not one value of JSON"));
        }
        Ok(Json::trusted(text.trim_matches(is_space)))
    }

    pub(crate) fn trusted(text: &str) -> Json {
        Json { document: Rc::from(text), from: 0, to: text.len() }
    }

    pub fn null() -> Json {
        Json::trusted("null")
    }

    /// The value's text.
    pub fn text(&self) -> &str {
        &self.document[self.from..self.to]
    }

    pub fn kind(&self) -> Kind {
        match self.document.as_bytes()[self.from] {
            b'{' => Kind::Object,
            b'[' => Kind::Array,
            b'"' => Kind::String,
            b't' | b'f' => Kind::Bool,
            b'n' => Kind::Null,
            _ => Kind::Number,
        }
    }

    pub fn is_null(&self) -> bool {
        self.kind() == Kind::Null
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self.text() {
            "true" => Some(true),
            "false" => Some(false),
            _ => None,
        }
    }

    /// The text of a string. A surrogate without its other half is U+FFFD.
    pub fn as_string(&self) -> Option<String> {
        if self.kind() != Kind::String {
            return None;
        }
        let raw = &self.document[self.from + 1..self.to - 1];
        Some(if raw.contains('\\') { unescape(raw) } else { raw.to_owned() })
    }

    /// A number whose value is an integer of 64 bits: 2, 2.0 and 2e0.
    pub fn as_i64(&self) -> Option<i64> {
        if let Some(n) = plain_digits(self.text()) {
            return i64::try_from(n).ok();
        }
        self.as_i128().and_then(|n| i64::try_from(n).ok())
    }

    pub fn as_f64(&self) -> Option<f64> {
        match self.kind() {
            Kind::Number => self.text().parse().ok().filter(|f: &f64| f.is_finite()),
            _ => None,
        }
    }

    /// as_i128 reads integers of up to 37 digits.
    pub(crate) fn as_i128(&self) -> Option<i128> {
        const MOST: i128 = 10_000_000_000_000_000_000_000_000_000_000_000_000;
        if self.kind() != Kind::Number {
            return None;
        }
        let text = self.text();
        let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let (digits, exponent) = text.split_once(|c| c == 'e' || c == 'E').unwrap_or((text, "0"));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        // An exponent that does not fit moves every digit out of the integer, or far into it.
        let exponent = exponent.parse::<i64>().unwrap_or(if exponent.starts_with('-') { -1 << 40 } else { 1 << 40 });
        let point = whole.len() as i64 + exponent.clamp(-1 << 40, 1 << 40);
        let (mut n, mut at) = (0i128, 0i64);
        for digit in whole.bytes().chain(fraction.bytes()) {
            let d = i128::from(digit - b'0');
            if at >= point {
                if d != 0 {
                    return None;
                }
            } else if n >= MOST {
                return None;
            } else {
                n = n * 10 + d;
            }
            at += 1;
        }
        while n != 0 && at < point {
            if n >= MOST {
                return None;
            }
            n *= 10;
            at += 1;
        }
        Some(sign * n)
    }

    /// The member of an object, the last one of that name.
    pub fn get(&self, name: &str) -> Option<Json> {
        let mut found = None;
        for (key, value) in self.spans() {
            if self.key_is(key, name) {
                found = Some(value);
            }
        }
        found.map(|(from, to)| self.part(from, to))
    }

    /// An item of an array.
    pub fn at(&self, index: usize) -> Option<Json> {
        self.items().nth(index)
    }

    /// The items of an array, or the values of an object. Other values have none.
    pub fn items(&self) -> impl Iterator<Item = Json> + '_ {
        self.spans().map(move |(_, (from, to))| self.part(from, to))
    }

    /// The members of an object.
    pub fn members(&self) -> impl Iterator<Item = (String, Json)> + '_ {
        self.spans().map(move |((a, b), (from, to))| (self.part(a, b).as_string().unwrap_or_default(), self.part(from, to)))
    }

    /// Reads the value as a type that a plugin has.
    pub fn read<T: FromJson>(&self) -> Result<T> {
        T::from_json(self).map_err(Error::invalid)
    }

    /// The same value with every string in it, but for names, as f returns it.
    pub fn map_strings(&self, f: &mut dyn FnMut(&str) -> String) -> Json {
        let (bytes, mut at, mut from) = (self.document.as_bytes(), self.from, self.from);
        let mut out = String::new();
        while at < self.to {
            if bytes[at] != b'"' {
                at += 1;
                continue;
            }
            let end = skip_string(bytes, at);
            if bytes.get(skip_space(bytes, end, self.to)) != Some(&b':') || skip_space(bytes, end, self.to) == self.to {
                let was = self.part(at, end).as_string().unwrap_or_default();
                let is = f(&was);
                if is != was {
                    out.push_str(&self.document[from..at]);
                    write_string(&mut out, &is);
                    from = end;
                }
            }
            at = end;
        }
        if from == self.from {
            return self.clone();
        }
        out.push_str(&self.document[from..self.to]);
        Json::trusted(&out)
    }

    /// pick finds members in one pass, and returns those that are there twice.
    pub(crate) fn pick<const N: usize>(&self, names: [&str; N]) -> ([Option<Json>; N], [bool; N]) {
        let mut found: [Option<(usize, usize)>; N] = [None; N];
        let mut twice = [false; N];
        for (key, value) in self.spans() {
            if let Some(n) = names.iter().position(|name| self.key_is(key, name)) {
                twice[n] = found[n].is_some();
                found[n] = Some(value);
            }
        }
        (found.map(|span| span.map(|(from, to)| self.part(from, to))), twice)
    }

    fn key_is(&self, (from, to): (usize, usize), name: &str) -> bool {
        let raw = &self.document[from + 1..to - 1];
        raw == name || raw.contains('\\') && unescape(raw) == name
    }

    fn part(&self, from: usize, to: usize) -> Json {
        Json { document: self.document.clone(), from, to }
    }

    fn spans(&self) -> Spans {
        let kind = self.kind();
        let done = kind != Kind::Object && kind != Kind::Array;
        Spans { bytes: self.document.as_bytes(), at: self.from + 1, to: self.to, object: kind == Kind::Object, done }
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.text())
    }
}

type Span = (usize, usize);

/// Spans goes through the names and values of an object, or the items of an array.
struct Spans<'a> {
    bytes: &'a [u8],
    at: usize,
    to: usize,
    object: bool,
    done: bool,
}

impl Iterator for Spans<'_> {
    type Item = (Span, Span);

    fn next(&mut self) -> Option<(Span, Span)> {
        if self.done {
            return None;
        }
        let mut at = skip_space(self.bytes, self.at, self.to);
        if self.bytes[at] == b',' {
            at = skip_space(self.bytes, at + 1, self.to);
        }
        if self.bytes[at] == b']' || self.bytes[at] == b'}' {
            self.done = true;
            return None;
        }
        let mut key = (0, 0);
        if self.object {
            key = (at, skip_string(self.bytes, at));
            at = skip_space(self.bytes, key.1, self.to);
            at = skip_space(self.bytes, at + 1, self.to);
        }
        self.at = skip(self.bytes, at, self.to);
        Some((key, (at, self.at)))
    }
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\n' | '\t' | '\r')
}

fn skip_space(b: &[u8], mut at: usize, to: usize) -> usize {
    while at < to && matches!(b[at], b' ' | b'\n' | b'\t' | b'\r') {
        at += 1;
    }
    at
}

/// skip_string returns the end of a valid string that begins at a quote.
fn skip_string(b: &[u8], mut at: usize) -> usize {
    at += 1;
    while b[at] != b'"' {
        at += if b[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// skip returns the end of a valid value.
fn skip(b: &[u8], mut at: usize, to: usize) -> usize {
    match b[at] {
        b'"' => return skip_string(b, at),
        b'{' | b'[' => {}
        _ => {
            while at < to && !matches!(b[at], b',' | b']' | b'}' | b' ' | b'\n' | b'\t' | b'\r') {
                at += 1;
            }
            return at;
        }
    }
    let mut depth = 0;
    loop {
        match b[at] {
            b'0'..=b'9' => {
                at = skip_numbers(b, at);
                continue;
            }
            b'"' => {
                at = skip_string(b, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        at += 1;
        if depth == 0 {
            return at;
        }
    }
}

/// skip_numbers passes over a digit, and eight bytes at a time while they are digits and what stands
/// between numbers: below '@', and no quote.
fn skip_numbers(b: &[u8], mut at: usize) -> usize {
    const ALL: u64 = 0x0101_0101_0101_0101;
    at += 1;
    while let Some(eight) = b.get(at..at + 8) {
        let bytes = u64::from_le_bytes(eight.try_into().unwrap_or_default());
        let quotes = bytes ^ ALL * u64::from(b'"');
        if (bytes & ALL * 0xc0) | (quotes.wrapping_sub(ALL) & !quotes & ALL * 0x80) != 0 {
            break;
        }
        at += 8;
    }
    at
}

/// plain_digits returns a number that is up to 18 digits.
pub(crate) fn plain_digits(text: &str) -> Option<u64> {
    if text.is_empty() || text.len() > 18 {
        return None;
    }
    text.bytes().try_fold(0, |n, d| d.is_ascii_digit().then(|| n * 10 + u64::from(d - b'0')))
}

fn hex(b: &[u8]) -> Option<u32> {
    b.get(..4)?.iter().try_fold(0, |n, &h| Some(n << 4 | (h as char).to_digit(16)?))
}

fn unescape(raw: &str) -> String {
    let (b, mut out, mut at, mut from) = (raw.as_bytes(), String::with_capacity(raw.len()), 0, 0);
    while at < b.len() {
        if b[at] != b'\\' {
            at += 1;
            continue;
        }
        out.push_str(&raw[from..at]);
        let mut c = match b[at + 1] {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            other => other as char,
        };
        at += 2;
        if c == 'u' {
            let high = hex(&b[at..]).unwrap_or(0);
            at += 4;
            c = char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER);
            if (0xd800..0xdc00).contains(&high) && b[at..].starts_with(b"\\u") {
                let low = hex(&b[at + 2..]).unwrap_or(0);
                if (0xdc00..0xe000).contains(&low) {
                    at += 6;
                    c = char::from_u32(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)).unwrap_or(c);
                }
            }
        }
        out.push(c);
        from = at;
    }
    out.push_str(&raw[from..]);
    out
}

pub(crate) fn write_string(out: &mut String, text: &str) {
    out.push('"');
    let mut from = 0;
    for (at, b) in text.bytes().enumerate() {
        if b >= 0x20 && b != b'"' && b != b'\\' {
            continue;
        }
        out.push_str(&text[from..at]);
        match b {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            _ => {
                out.push_str("\\u00");
                out.push(char::from_digit(u32::from(b >> 4), 16).unwrap_or('0'));
                out.push(char::from_digit(u32::from(b & 15), 16).unwrap_or('0'));
            }
        }
        from = at + 1;
    }
    out.push_str(&text[from..]);
    out.push('"');
}

/// valid_string returns the end of a string whose quote stands before at.
fn valid_string(b: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *b.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => match *b.get(at + 1)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => at += 2,
                b'u' => {
                    hex(&b[at + 2..])?;
                    at += 6;
                }
                _ => return None,
            },
            c if c < 0x20 => return None,
            _ => at += 1,
        }
    }
}

fn digits(b: &[u8], mut at: usize) -> Option<usize> {
    let from = at;
    while b.get(at).map_or(false, u8::is_ascii_digit) {
        at += 1;
    }
    Some(at).filter(|&at| at > from)
}

/// digits_of_list passes over numbers of a list that are digits with a comma between them, but for
/// the last.
fn digits_of_list(b: &[u8], mut from: usize) -> usize {
    let mut at = from;
    while matches!(b.get(at), Some(b'1'..=b'9')) {
        at += 1;
        while b.get(at).map_or(false, u8::is_ascii_digit) {
            at += 1;
        }
        if b.get(at) != Some(&b',') || !matches!(b.get(at + 1), Some(b'1'..=b'9')) {
            break;
        }
        at += 1;
        from = at;
    }
    from
}

fn valid_number(b: &[u8], mut at: usize) -> Option<usize> {
    if b.get(at) == Some(&b'-') {
        at += 1;
    }
    at = if b.get(at) == Some(&b'0') { at + 1 } else { digits(b, at)? };
    if b.get(at) == Some(&b'.') {
        at = digits(b, at + 1)?;
    }
    if matches!(b.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(b.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        at = digits(b, at)?;
    }
    Some(at)
}

fn valid_key(b: &[u8], at: usize) -> Option<usize> {
    if b.get(at) != Some(&b'"') {
        return None;
    }
    let at = skip_space(b, valid_string(b, at + 1)?, b.len());
    (b.get(at) == Some(&b':')).then(|| at + 1)
}

fn valid(b: &[u8]) -> bool {
    end_of_document(b) == Some(b.len())
}

/// end_of_document reads one value with the white space around it, and calls itself never, so
/// that no depth ends the plugin.
fn end_of_document(b: &[u8]) -> Option<usize> {
    let mut open: Vec<u8> = Vec::new(); // the brackets that close what is open
    let mut at = 0;
    loop {
        at = skip_space(b, at, b.len());
        let word = |word: &[u8]| b[at..].starts_with(word).then(|| at + word.len());
        match *b.get(at)? {
            bracket @ (b'{' | b'[') => {
                if open.len() == MAX_DEPTH {
                    return None;
                }
                let close = bracket + 2;
                at = skip_space(b, at + 1, b.len());
                if *b.get(at)? == close {
                    at += 1;
                } else {
                    open.push(close);
                    if bracket == b'{' {
                        at = valid_key(b, at)?;
                    }
                    continue;
                }
            }
            b'"' => at = valid_string(b, at + 1)?,
            b't' => at = word(b"true")?,
            b'f' => at = word(b"false")?,
            b'n' => at = word(b"null")?,
            _ if open.last() == Some(&b']') => at = valid_number(b, digits_of_list(b, at))?,
            _ => at = valid_number(b, at)?,
        }
        loop {
            at = skip_space(b, at, b.len());
            let close = match open.last() {
                None => return Some(at),
                Some(&close) => close,
            };
            let next = *b.get(at)?;
            at += 1;
            if next == close {
                open.pop();
            } else if next == b',' {
                if close == b'}' {
                    at = valid_key(b, skip_space(b, at, b.len()))?;
                }
                break;
            } else {
                return None;
            }
        }
    }
}
