//! The Prometheus text format with numbers as Go prints them.
//!
//! A bucket's bound is a label, so `le="1e-08"` and `le="0.00000001"` are different series: dashboards made for the
//! Go sidecars need the former. That is the one reason not to use the prometheus crate's encoder.

use std::fmt::Write as _;

use prometheus::proto::{LabelPair, MetricFamily, MetricType};

/// All samples of `families`, which are sorted as the registry returns them.
pub(super) fn encode(families: &[MetricFamily]) -> String {
    let mut out = String::with_capacity(4096);
    for family in families {
        let name = family.name();
        let kind = family.get_field_type();
        let _ = writeln!(out, "# HELP {name} {}", escaped(family.help(), false));
        let _ = writeln!(out, "# TYPE {name} {}", type_name(kind));
        for metric in family.get_metric() {
            let labels = metric.get_label();
            match kind {
                MetricType::COUNTER => {
                    let value = number(metric.get_counter().get_value());
                    sample(&mut out, name, "", labels, None, &value);
                }
                MetricType::GAUGE => {
                    let value = number(metric.get_gauge().get_value());
                    sample(&mut out, name, "", labels, None, &value);
                }
                MetricType::HISTOGRAM => {
                    let histogram = metric.get_histogram();
                    let buckets = histogram
                        .get_bucket()
                        .iter()
                        .map(|bucket| (bucket.upper_bound(), bucket.cumulative_count()))
                        .filter(|(bound, _)| bound.is_finite())
                        .chain([(f64::INFINITY, histogram.get_sample_count())]);
                    for (bound, count) in buckets {
                        let le = number(bound);
                        sample(&mut out, name, "_bucket", labels, Some(&le), &count.to_string());
                    }
                    let sum = number(histogram.get_sample_sum());
                    sample(&mut out, name, "_sum", labels, None, &sum);
                    let count = histogram.get_sample_count().to_string();
                    sample(&mut out, name, "_count", labels, None, &count);
                }
                // No collector of the workspace makes summaries or untyped metrics.
                MetricType::SUMMARY | MetricType::UNTYPED => {}
            }
        }
    }
    out
}

fn type_name(kind: MetricType) -> &'static str {
    match kind {
        MetricType::COUNTER => "counter",
        MetricType::GAUGE => "gauge",
        MetricType::HISTOGRAM => "histogram",
        MetricType::SUMMARY => "summary",
        MetricType::UNTYPED => "untyped",
    }
}

fn sample(out: &mut String, name: &str, suffix: &str, labels: &[LabelPair], le: Option<&str>, value: &str) {
    out.push_str(name);
    out.push_str(suffix);
    let mut before = '{';
    for (label, text) in labels.iter().map(|pair| (pair.name(), pair.value())).chain(le.map(|bound| ("le", bound))) {
        let _ = write!(out, "{before}{label}=\"{}\"", escaped(text, true));
        before = ',';
    }
    if before == ',' {
        out.push('}');
    }
    let _ = writeln!(out, " {value}");
}

fn escaped(text: &str, quotes: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '"' if quotes => out.push_str("\\\""),
            c => out.push(c),
        }
    }
    out
}

/// A number as Go's `strconv.FormatFloat(v, 'g', -1, 64)` writes it.
fn number(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    // Rust writes the same shortest digits, as `d.ddde-N`.
    let scientific = format!("{value:e}");
    let Some((digits, exponent)) = scientific.split_once('e') else {
        return scientific;
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..6).contains(&exponent) {
        format!("{value}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use prometheus::{CounterVec, Gauge, HistogramOpts, HistogramVec, Opts, Registry};

    use super::*;

    #[test]
    fn numbers_are_printed_as_go_prints_them() {
        // Printed by Go 1.25.
        let table = [
            (0.0, "0"),
            (1.0, "1"),
            (0.005, "0.005"),
            (600.0, "600"),
            (1e-8, "1e-08"),
            (9.999_999_999_999_999e-6, "9.999999999999999e-06"),
            (9.999_999_999_999_999e-5, "9.999999999999999e-05"),
            (0.0001, "0.0001"),
            (0.000_123_45, "0.00012345"),
            (123_456.0, "123456"),
            (1e6, "1e+06"),
            (1_234_567.0, "1.234567e+06"),
            (123_456_789.0, "1.23456789e+08"),
            (1e20, "1e+20"),
            (1.5e21, "1.5e+21"),
            (1_796_063_379.12, "1.79606337912e+09"),
            (12_345_678_901_234_567_890.0, "1.2345678901234567e+19"),
            (-0.5, "-0.5"),
            (-1e-9, "-1e-09"),
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (f64::NAN, "NaN"),
        ];
        for (value, want) in table {
            assert_eq!(number(value), want);
        }
    }

    #[test]
    fn families_are_written_as_a_go_scraper_expects() {
        let registry = Registry::new();
        let gauge = Gauge::new("a_gauge", "Help with \\ and\nline.").unwrap();
        gauge.set(2.0);
        let counters = CounterVec::new(Opts::new("b_total", "B."), &["class", "source"]).unwrap();
        counters.with_label_values(&["fast", "say \"x\""]).inc();
        counters.with_label_values(&["", ""]).inc_by(3.0);
        let histograms =
            HistogramVec::new(HistogramOpts::new("c_seconds", "C.").buckets(vec![1e-8, 0.5, 1.0, 10.0]), &["name"])
                .unwrap();
        histograms.with_label_values(&["q"]).observe(0.75);
        histograms.with_label_values(&["q"]).observe(20.0);
        registry.register(Box::new(gauge)).unwrap();
        registry.register(Box::new(counters)).unwrap();
        registry.register(Box::new(histograms)).unwrap();
        assert_eq!(
            encode(&registry.gather()),
            r#"# HELP a_gauge Help with \\ and\nline.
# TYPE a_gauge gauge
a_gauge 2
# HELP b_total B.
# TYPE b_total counter
b_total{class="",source=""} 3
b_total{class="fast",source="say \"x\""} 1
# HELP c_seconds C.
# TYPE c_seconds histogram
c_seconds_bucket{name="q",le="1e-08"} 0
c_seconds_bucket{name="q",le="0.5"} 0
c_seconds_bucket{name="q",le="1"} 1
c_seconds_bucket{name="q",le="10"} 1
c_seconds_bucket{name="q",le="+Inf"} 2
c_seconds_sum{name="q"} 20.75
c_seconds_count{name="q"} 2
"#
        );
    }
}
