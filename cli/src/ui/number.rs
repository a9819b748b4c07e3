//! Formats numbers for people.

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

/// (1, "file") -> "1 file"; (1200, "file") -> "1,200 files"
pub fn counted(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(number as u64))
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

/// Seconds from the worker, which may be any value.
pub fn seconds(seconds: f64) -> String {
    Duration::try_from_secs_f64(seconds).map_or_else(|_| "?".to_owned(), duration)
}

/// 0.283 -> "28.3%"
pub fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

/// Seconds since the epoch -> "2026-11-21 11:22", in UTC.
pub fn minute(since_epoch: f64) -> String {
    if !(0.0..1e11).contains(&since_epoch) {
        return "?".to_owned();
    }
    let minutes = (since_epoch / 60.0) as i64;
    let (year, month, day) = civil(minutes / 1_440);
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", minutes / 60 % 24, minutes % 60)
}

/// Days since the epoch as a date. Years are counted from March, so that the leap day is the last one.
fn civil(days: i64) -> (i64, i64, i64) {
    const FROM_MARCH_OF_YEAR_ZERO: i64 = 719_468;
    const ERA: i64 = 146_097;
    let days = days + FROM_MARCH_OF_YEAR_ZERO;
    let (era, day) = (days / ERA, days % ERA);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let january = i64::from(month >= 10);
    (era * 400 + year + january, month + 3 - 12 * january, day - (153 * month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_well() {
        assert_eq!([0, 1, 1200].map(|it| counted(it, "row")), ["0 rows", "1 row", "1,200 rows"]);
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
        assert_eq!(percent(0.2833), "28.3%");
    }

    type Show = fn(f64) -> String;

    /// The table that the report's numbers are held to as well.
    #[test]
    fn numbers_read_as_in_the_report() {
        let table: serde_json::Value =
            serde_json::from_str(include_str!("../../../tests/examples/numbers.json")).unwrap();
        let kinds: [(&str, Show); 4] = [
            ("bytes", |number| bytes(number as u64)),
            ("seconds", seconds),
            ("counts", |number| grouped(number as u64)),
            ("shares", percent),
        ];
        for (kind, show) in kinds {
            for pair in table[kind].as_array().unwrap() {
                assert_eq!(show(pair[0].as_f64().unwrap()), pair[1].as_str().unwrap(), "{kind}");
            }
        }
    }

    #[test]
    fn dates_are_the_calendars() {
        assert_eq!(
            [0.0, 951_782_400.0, 1_709_251_199.0, 4_107_542_400.0, 1_795_260_127.9].map(minute),
            [
                "1970-01-01 00:00",
                "2000-02-29 00:00",
                "2024-02-29 23:59",
                "2100-03-01 00:00",
                "2026-11-21 11:22"
            ]
        );
        assert_eq!(minute(f64::NAN), "?");
    }
}
