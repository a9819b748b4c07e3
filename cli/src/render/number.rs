//! Numbers as people read them.

use std::time::Duration;

/// 1234567 -> "1,234,567"
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// 21700.0 -> "21.7k"
pub fn short(number: f64) -> String {
    let scales = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
    match scales.into_iter().find(|(scale, _)| number.abs() >= scale * 0.9995) {
        Some((scale, unit)) => format!("{:.*}{unit}", decimals(number / scale), number / scale),
        None => format!("{number:.*}", decimals(number)),
    }
}

/// 3221225472 -> "3.00 GiB"
pub fn bytes(count: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} B") } else { format!("{value:.*} {}", decimals(value), units[unit]) }
}

/// Three digits that matter.
fn decimals(value: f64) -> usize {
    match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    }
}

/// 3725 s -> "1h02m"
pub fn duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, _) if seconds < 10 => format!("{:.1}s", duration.as_secs_f64()),
        (0, 0, 0, s) => format!("{s}s"),
        (0, 0, m, s) => format!("{m}m{s:02}s"),
        (0, h, m, _) => format!("{h}h{m:02}m"),
        (d, h, _, _) => format!("{d}d{h:02}h"),
    }
}

/// Seconds from outside, which may be anything.
pub fn seconds(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(|_| "?".to_owned(), duration)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 999, 1000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
        assert_eq!(
            [0.0, 7.25, 999.4, 999.9, 21_700.0, 3.2e9].map(short),
            ["0.00", "7.25", "999", "1.00k", "21.7k", "3.20G"]
        );
        assert_eq!(
            [0, 1023, 1024, 3_221_225_472, 150 << 30].map(bytes),
            ["0 B", "1.00 KiB", "1.00 KiB", "3.00 GiB", "150 GiB"]
        );
        let of = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!([3, 42, 62, 3725, 90_000].map(of), ["3.0s", "42s", "1m02s", "1h02m", "1d01h"]);
        assert_eq!(seconds(f64::NAN), "?");
        assert_eq!(seconds(-1.0), "?");
    }
}
