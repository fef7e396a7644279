//! A processor that takes mail addresses and card numbers out of what models see.

use agenthost::{plugin, Plugin, Processor, Result, View};

fn is_word(b: u8) -> bool {
    b == b'_' || b.is_ascii_alphanumeric()
}

fn is_domain(b: u8) -> bool {
    is_word(b) || b == b'.' || b == b'-'
}

fn is_local(b: u8) -> bool {
    is_domain(b) || b == b'%' || b == b'+'
}

/// The length of the domain that a text begins with: up to its last letter.
fn domain(text: &str) -> usize {
    if !text.bytes().next().map_or(false, is_word) {
        return 0;
    }
    let run = text.bytes().take_while(|b| is_domain(*b)).count();
    text.as_bytes()[..run].iter().rposition(|b| is_word(*b)).map_or(0, |last| last + 1)
}

/// Replaces addresses: a run of letters before an @, and a domain behind it.
fn hide_mail(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find('@') {
        let local = rest.bytes().take(at).rev().take_while(|b| is_local(*b)).count();
        let domain = domain(&rest[at + 1..]);
        if local > 0 && domain > 0 {
            out.push_str(&rest[..at - local]);
            out.push_str("[mail]");
            rest = &rest[at + 1 + domain..];
        } else {
            out.push_str(&rest[..=at]);
            rest = &rest[at + 1..];
        }
    }
    out + rest
}

/// The length of the number that a text begins with, between whose digits may be single spaces
/// or hyphens, and how many digits it has.
fn number(text: &[u8]) -> (usize, usize) {
    let (mut len, mut next, mut digits) = (0, 0, 0);
    while text.get(next).map_or(false, u8::is_ascii_digit) {
        digits += 1;
        len = next + 1;
        next = len + usize::from(matches!(text.get(len), Some(b' ' | b'-')));
    }
    (len, digits)
}

/// Replaces numbers of 13 digits or more.
fn hide_cards(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find(|c: char| c.is_ascii_digit()) {
        let (len, digits) = number(rest[at..].as_bytes());
        out.push_str(&rest[..at]);
        out.push_str(if digits >= 13 { "[card]" } else { &rest[at..at + len] });
        rest = &rest[at + len..];
    }
    out + rest
}

fn redact(view: &mut View) -> Result<()> {
    view.map_text(|text| hide_cards(&hide_mail(text))); // messages that do not change are not sent back
    Ok(())
}

plugin! {
    Plugin::new("redact", "1.0.0")
        .description("Hides mail addresses and card numbers from models.")
        .processor(Processor::new("redact"), redact)
}
