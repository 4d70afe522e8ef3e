//! Expansion of `$name` and `${name}` as Go's `os.Expand` does it, which class parameters rely on.

use std::collections::BTreeSet;

/// One step of a template: what stands at the beginning of the rest of it.
enum Step<'a> {
    /// A token, without dollar and braces.
    Token(&'a str),
    /// A dollar that begins nothing.
    Dollar,
    /// `${}` or an opening without an end: disappears.
    Swallowed,
}

/// Replaces every token of `template` by what `lookup` says.
///
/// `Err` holds all tokens `lookup` did not know, sorted, each once.
pub(super) fn expand<'v>(template: &str, lookup: impl Fn(&str) -> Option<&'v str>) -> Result<String, Vec<String>> {
    let mut expanded = String::with_capacity(template.len());
    let mut unresolved = BTreeSet::new();
    let mut rest = template;
    while let Some((literal, after)) = rest.split_once('$') {
        expanded.push_str(literal);
        let (step, width) = step(after);
        match step {
            Step::Token(token) => match lookup(token) {
                Some(value) => expanded.push_str(value),
                None => {
                    unresolved.insert(token.to_owned());
                }
            },
            Step::Dollar => expanded.push('$'),
            Step::Swallowed => {}
        }
        rest = &after[width..];
    }
    expanded.push_str(rest);
    if unresolved.is_empty() { Ok(expanded) } else { Err(unresolved.into_iter().collect()) }
}

/// What follows a dollar, and how many bytes it takes.
fn step(after: &str) -> (Step<'_>, usize) {
    match after.as_bytes().first() {
        Some(b'{') => braced(&after[1..]),
        Some(&first) if is_special(first) => (Step::Token(&after[..1]), 1),
        _ => {
            let end =
                after.bytes().position(|byte| !(byte == b'_' || byte.is_ascii_alphanumeric())).unwrap_or(after.len());
            match end {
                0 => (Step::Dollar, 0),
                _ => (Step::Token(&after[..end]), end),
            }
        }
    }
}

fn braced(inside: &str) -> (Step<'_>, usize) {
    match inside.find('}') {
        Some(0) => (Step::Swallowed, 2),
        Some(end) => (Step::Token(&inside[..end]), end + 2),
        // Only the brace disappears; what follows it is literal again.
        None => (Step::Swallowed, 1),
    }
}

/// Shell variables of one character.
fn is_special(byte: u8) -> bool {
    matches!(byte, b'*' | b'#' | b'$' | b'@' | b'!' | b'?' | b'-' | b'0'..=b'9')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lookup(token: &str) -> Option<&'static str> {
        match token {
            "a" => Some("A"),
            "pv.name" => Some("vol"),
            "pvc.annotations['k']" => Some("$a"),
            "empty" => Some(""),
            _ => None,
        }
    }

    #[test]
    fn expands_as_go_does() {
        let rows: &[(&str, Result<&str, &[&str]>)] = &[
            ("", Ok("")),
            ("plain", Ok("plain")),
            ("$a", Ok("A")),
            ("${a}", Ok("A")),
            ("x${a}y$a.z", Ok("xAyA.z")),
            ("${pv.name}", Ok("vol")),
            ("$pv.name", Err(&["pv"])),
            ("${empty}", Ok("")),
            ("${pvc.annotations['k']}", Ok("$a")), // a value is not expanded again
            ("$", Ok("$")),
            ("a$", Ok("a$")),
            ("$ a", Ok("$ a")),
            ("$.a", Ok("$.a")),
            ("$é", Ok("$é")),
            ("${}", Ok("")),
            ("x${}y", Ok("xy")),
            ("${", Ok("")),
            ("x${a", Ok("xa")),
            ("${$a", Ok("A")),
            ("$$", Err(&["$"])),
            ("$$a", Err(&["$"])),
            ("${$}", Err(&["$"])),
            ("$*", Err(&["*"])),
            ("$#", Err(&["#"])),
            ("$@", Err(&["@"])),
            ("$!", Err(&["!"])),
            ("$?", Err(&["?"])),
            ("$-", Err(&["-"])),
            ("$0", Err(&["0"])),
            ("$12", Err(&["1"])),
            ("${12}", Err(&["12"])),
            ("$a_b", Err(&["a_b"])),
            ("$z ${y} ${z} ${a}", Err(&["y", "z"])),
            ("${é}", Err(&["é"])),
            ("${a}}", Ok("A}")),
            ("${{a}}", Err(&["{a"])),
        ];
        assert_eq!(rows.len(), 36);
        for (template, expected) in rows {
            let expected =
                (*expected).map(str::to_owned).map_err(|tokens| tokens.iter().map(|&token| token.to_owned()).collect());
            assert_eq!(expand(template, lookup), expected, "{template:?}");
        }
    }
}
