//! Numbers: what JSON allows, and messages for what it does not.

use crate::diagnostic::{Code, Problem};
use crate::source::Span;

/// Whether `text` follows JSON's grammar for numbers.
fn is_json(text: &str) -> bool {
    let rest = text.strip_prefix('-').unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest.starts_with('0')) {
        return false;
    }
    let mut rest = &rest[whole..];
    if let Some(after) = rest.strip_prefix('.') {
        let fraction = digits(after);
        if fraction == 0 {
            return false;
        }
        rest = &after[fraction..];
    }
    if let Some(after) = rest.strip_prefix(['e', 'E']) {
        let after = after.strip_prefix(['+', '-']).unwrap_or(after);
        return !after.is_empty() && digits(after) == after.len();
    }
    rest.is_empty()
}

/// Of what is meant as a number at the beginning of `text`.
pub fn length(text: &str) -> usize {
    text.bytes().take_while(|b| b.is_ascii_alphanumeric() || b"+-._".contains(b)).count()
}

/// A number with a comma in it: a decimal one, or thousands that are set apart.
pub fn with_comma(text: &str, span: Span) -> Problem {
    let (joined, decimal) = (text.replace(',', ""), text.replacen(',', ".", 1));
    let is_thousands = text.split(',').skip(1).all(|group| group.len() == 3 && digits(group) == 3);
    let hint = if is_thousands && is_json(&joined) {
        format!("write {joined}, or {decimal} with a decimal point")
    } else if is_json(&decimal) {
        format!("write {decimal}: a number has a decimal point")
    } else {
        "write a number without a comma, such as 8, 0.5 or 5e-5".to_owned()
    };
    Problem::new(Code::InvalidNumber, span, format!("`{text}` is not a number in JSON")).hint(hint)
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

pub fn read(text: &str, span: Span) -> Result<f64, Problem> {
    if !is_json(text) {
        let short: String = text.chars().take(40).collect();
        let problem = Problem::new(Code::InvalidNumber, span, format!("`{short}` is not a number in JSON"));
        let hint =
            corrected(text).unwrap_or_else(|| "write a decimal number, such as 8, 0.5 or 5e-5".to_owned());
        return Err(problem.hint(hint));
    }
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(Problem::new(Code::NumberTooLarge, span, "this number is beyond what a 64-bit float holds")
            .hint("write a number below 1.8e308")),
    }
}

fn corrected(text: &str) -> Option<String> {
    let (sign, rest) = text.strip_prefix('-').map_or(("", text), |rest| ("-", rest));
    let rest = rest.strip_prefix('+').unwrap_or(rest);
    let separated = rest.replace('_', "");
    let trimmed = separated.trim_start_matches('0');
    let candidates = [
        format!("{sign}{separated}"),
        format!("{sign}{trimmed}"),
        format!("{sign}0{trimmed}"),
        format!("{sign}{separated}0"),
        format!("{sign}{}", separated.trim_end_matches('.')),
    ];
    candidates.into_iter().find(|candidate| is_json(candidate)).map(|candidate| format!("write {candidate}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_is_decimal_or_sets_thousands_apart() {
        for (text, hint) in [
            ("0,001", "write 0.001: a number has a decimal point"),
            ("1,5e-4", "write 1.5e-4: a number has a decimal point"),
            ("1,000", "write 1000, or 1.000 with a decimal point"),
            ("0,x", "write a number without a comma, such as 8, 0.5 or 5e-5"),
        ] {
            assert_eq!(with_comma(text, Span::default()).hint.as_deref(), Some(hint), "{text}");
        }
    }

    #[test]
    fn the_grammar_is_jsons() {
        for good in ["0", "-0", "5e-5", "1.50", "12E+3", "-0.5"] {
            assert!(read(good, Span::default()).is_ok(), "{good}");
        }
        for (bad, hint) in [
            ("007", "write 7"),
            ("+1", "write 1"),
            (".5", "write 0.5"),
            ("5.", "write 5.0"),
            ("1_000", "write 1000"),
        ] {
            let problem = read(bad, Span::default()).unwrap_err();
            assert_eq!((problem.code, problem.hint.as_deref()), (Code::InvalidNumber, Some(hint)), "{bad}");
        }
        for bad in ["-", "1e", "0x10", "1.2.3", "--1", ""] {
            assert_eq!(read(bad, Span::default()).unwrap_err().code, Code::InvalidNumber, "{bad}");
        }
        assert_eq!(read("1e999", Span::default()).unwrap_err().code, Code::NumberTooLarge);
    }
}
