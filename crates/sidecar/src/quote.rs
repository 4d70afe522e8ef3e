//! Quoting of text the way Go's `%q` does it, so that a log line stays one line whatever a value contains.

use std::fmt::Write as _;

/// Appends `text` in double quotes, with everything that could break a line or a quote escaped.
pub(crate) fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{7}' => out.push_str("\\a"),
            '\u{8}' => out.push_str("\\b"),
            '\u{b}' => out.push_str("\\v"),
            '\u{c}' => out.push_str("\\f"),
            c if c.is_ascii_control() => {
                let _ = write!(out, "\\x{:02x}", u32::from(c));
            }
            // Line and paragraph separators and text-direction marks can hide or fake parts of a line.
            c if c.is_control()
                || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}') =>
            {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// `text` in double quotes, see [`push_quoted`].
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    push_quoted(&mut out, text);
    out
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn quoting_keeps_any_value_on_one_line() {
        let table = [
            ("", r#""""#),
            ("plain", r#""plain""#),
            ("a \"b\" \\c", r#""a \"b\" \\c""#),
            ("two\nlines\tand\r", r#""two\nlines\tand\r""#),
            ("\u{1b}[31m", r#""\x1b[31m""#),
            ("\u{7f}", r#""\x7f""#),
            ("\u{202e}txt", r#""\u202etxt""#),
            ("grüße", "\"grüße\""),
        ];
        for (text, want) in table {
            assert_eq!(quoted(text), want);
        }
    }
}
