//! Figures on the terminal, with the goals beside them.
#![expect(clippy::print_stdout, reason = "the terminal is where a benchmark reports")]

use std::time::Duration;

/// Prints a heading above columns of the given names.
pub fn heading(title: &str, columns: &[&str]) {
    println!("\n{title}");
    println!("{:<44}{}   goal", "", in_columns(columns));
}

/// Prints one line of figures.
pub fn line(name: &str, figures: &[String], goal: &str) {
    println!("{name:<44}{}   {goal}", in_columns(figures));
}

fn in_columns(cells: &[impl std::fmt::Display]) -> String {
    let cells: Vec<String> = cells.iter().map(|cell| format!("{cell:>14}")).collect();
    cells.concat()
}

/// Prints a sentence.
pub fn say(sentence: &str) {
    println!("{sentence}");
}

/// Bytes as MiB.
#[expect(clippy::cast_precision_loss, reason = "shown with two digits")]
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20))
}

/// A time in milliseconds.
pub fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// A time in seconds.
pub fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// How many times the first goes into the second, as the goals say it: "1/15".
#[expect(clippy::cast_precision_loss, reason = "shown with one digit")]
pub fn share(ours: u64, theirs: u64) -> String {
    if ours == 0 { "-".to_owned() } else { format!("1/{:.1}", theirs as f64 / ours as f64) }
}

/// The middle one of the values, the upper one of two.
pub fn median<T: Ord + Copy + Default>(values: impl IntoIterator<Item = T>) -> T {
    let mut values: Vec<T> = values.into_iter().collect();
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_as_they_are_meant() {
        assert_eq!(median([3, 1, 2]), 2);
        assert_eq!(median::<u64>([]), 0);
        assert_eq!(mebibytes(6 << 20), "6.00 MiB");
        assert_eq!(milliseconds(Duration::from_micros(9_876)), "9.9 ms");
        assert_eq!(share(10, 150), "1/15.0");
    }
}
