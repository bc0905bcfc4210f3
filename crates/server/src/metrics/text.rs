//! The figures in the text format of Prometheus (version 0.0.4).

use super::{Figures, Kind, METRICS};
use std::fmt::Write;

/// A value with its labels.
type Sample = (String, u64);

impl Figures {
    /// The figures as text.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for metric in METRICS {
            let kind = match metric.kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
            };
            let name = metric.name;
            // Writing to a String cannot fail.
            let _ = write!(text, "# HELP {name} {}\n# TYPE {name} {kind}\n", metric.help);
            for (labels, value) in self.samples(name) {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        }
        text
    }

    fn samples(&self, name: &str) -> Vec<Sample> {
        let one = |value| vec![(String::new(), value)];
        match name {
            "xdfs_build_info" => vec![(labels(&[("version", env!("CARGO_PKG_VERSION"))]), 1)],
            "xdfs_start_time_seconds" => one(self.totals.started),
            "xdfs_sessions" => one(self.sessions),
            "xdfs_channels" => one(self.channels),
            "xdfs_connections_opening" => one(self.opening),
            "xdfs_operations_running" => one(self.operations),
            "xdfs_pipeline_threads" => one(self.pipeline_threads),
            // What the system does not tell has no sample.
            "xdfs_threads" => xdfs_io::host::threads().map(one).unwrap_or_default(),
            "xdfs_resident_memory_bytes" => xdfs_io::host::resident_bytes().map(one).unwrap_or_default(),
            "xdfs_sessions_total" => one(self.totals.sessions),
            "xdfs_sessions_failed_total" => one(self.totals.sessions_failed),
            "xdfs_logins_failed_total" => one(self.totals.logins_failed),
            "xdfs_connections_refused_total" => one(self.totals.refused),
            "xdfs_limits_hit_total" => {
                self.limits_hit.iter().map(|(limit, count)| (labels(&[("limit", limit)]), *count)).collect()
            }
            _ => self.of_exports(name),
        }
    }

    fn of_exports(&self, name: &str) -> Vec<Sample> {
        let mut samples = Vec::new();
        for export in &self.exports {
            let of = |more: &[(&str, &str)]| labels(&[&[("export", export.name.as_str())], more].concat());
            let moved = &export.moved;
            match name {
                "xdfs_payload_bytes_total" => samples.extend([
                    (of(&[("direction", "received")]), moved.received),
                    (of(&[("direction", "sent")]), moved.sent),
                ]),
                "xdfs_operations_total" => {
                    let kinds = [("upload", moved.uploads), ("download", moved.downloads), ("call", moved.calls)];
                    samples.extend(kinds.into_iter().flat_map(|(kind, count)| {
                        let sample = |outcome, value| (of(&[("kind", kind), ("outcome", outcome)]), value);
                        [sample("ok", count.done), sample("failed", count.failed)]
                    }));
                }
                _ => samples.push((of(&[]), export.bandwidth)),
            }
        }
        samples
    }
}

/// `{name="value"}`; a value that could end early is escaped.
fn labels(labels: &[(&str, &str)]) -> String {
    let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    let each: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    format!("{{{}}}", each.join(","))
}

#[cfg(test)]
mod tests {
    use super::super::{ExportFigures, Totals};
    use super::*;
    use crate::traffic::{Count, Moved};

    #[test]
    fn every_metric_has_its_samples() {
        let moved = Moved { received: 5, sent: 7, uploads: Count { done: 2, failed: 1 }, ..Moved::default() };
        let export = |name: &str| ExportFigures { name: name.to_owned(), moved, bandwidth: 1024 };
        let figures = Figures {
            sessions: 3,
            totals: Totals { sessions: 11, ..Totals::default() },
            limits_hit: vec![("logins", 4)],
            exports: vec![export("data"), export("a\"b\\\n")],
            ..Figures::default()
        };
        let text = figures.to_text();
        for line in [
            "# TYPE xdfs_sessions gauge",
            "xdfs_sessions 3",
            "xdfs_sessions_total 11",
            "xdfs_limits_hit_total{limit=\"logins\"} 4",
            "xdfs_payload_bytes_total{export=\"data\",direction=\"sent\"} 7",
            "xdfs_operations_total{export=\"data\",kind=\"upload\",outcome=\"failed\"} 1",
            "xdfs_bandwidth_limit_bytes{export=\"a\\\"b\\\\\\n\"} 1024",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in {text}");
        }
        for metric in METRICS {
            let name = metric.name;
            assert!(
                text.lines()
                    .any(|line| line.starts_with(&format!("{name} ")) || line.starts_with(&format!("{name}{{")))
            );
            assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
        }
    }

    /// The names of metrics in a text.
    fn named(text: &str) -> std::collections::BTreeSet<&str> {
        let words = text.split(|one: char| !(one.is_ascii_alphanumeric() || one == '_'));
        words.filter(|word| word.starts_with("xdfs_") && word.len() > 5).collect()
    }

    #[test]
    fn the_page_explains_every_metric_and_the_dashboard_shows_no_other() {
        let all: std::collections::BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
        let page = include_str!("../../../../docs/metrics.md");
        let rows: String =
            page.lines().filter(|line| line.starts_with("| `xdfs_")).map(|line| format!("{line}\n")).collect();
        assert_eq!(named(&rows), all);
        for metric in METRICS {
            assert!(rows.contains(metric.help.trim_end_matches('.')), "{}: {}", metric.name, metric.help);
        }
        let dashboard = include_str!("../../../../packaging/grafana/xdfs.json");
        serde_json::from_str::<serde_json::Value>(dashboard).unwrap();
        let shown = named(dashboard);
        assert!(shown.is_subset(&named(page)) && shown.len() > 8, "{shown:?}");
    }
}
