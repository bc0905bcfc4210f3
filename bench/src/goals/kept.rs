//! What another build of xdfs did in the same rounds is to be kept.

use super::{Goal, cpu};
use crate::args::PeerName;
use crate::cell::{CellReport, Summary, SystemReport};

/// Rate, and bytes of a second of the processors, over those of the build before.
pub(super) const KEPT_MIN: f64 = 0.97;

/// How the labels of the build before begin.
const BEFORE: &str = "xdfs before";

/// What one system did, and what the build before did in its place.
struct Pair<'a> {
    cell: &'a CellReport,
    label: &'a str,
    own: &'a Summary,
    before: &'a Summary,
}

/// Each system beside the same by the build before, and all of them together.
pub(super) fn check(cells: &[CellReport]) -> Vec<Goal> {
    let pairs: Vec<Pair<'_>> =
        cells.iter().flat_map(|cell| cell.systems.iter().filter_map(move |system| pair(cell, system))).collect();
    let mut goals: Vec<Goal> = pairs.iter().map(alone).collect();
    if pairs.len() > 1 {
        goals.extend(together(&pairs));
    }
    goals
}

fn pair<'a>(cell: &'a CellReport, system: &'a SystemReport) -> Option<Pair<'a>> {
    if system.name != PeerName::Xdfs || system.label.starts_with(BEFORE) {
        return None;
    }
    let before = system.label.replacen("xdfs", BEFORE, 1);
    let before = cell.systems.iter().find(|other| other.label == before)?.summary.as_ref()?;
    Some(Pair { cell, label: &system.label, own: system.summary.as_ref()?, before })
}

impl Pair<'_> {
    /// Of the best rounds.
    fn best(&self) -> f64 {
        self.own.range.1 / self.before.range.1
    }

    /// Of the medians.
    fn median(&self) -> f64 {
        self.own.gigabytes_per_second / self.before.gigabytes_per_second
    }

    /// Bytes that move in a second of the processors.
    fn work(&self) -> f64 {
        cpu(self.before) / cpu(self.own)
    }
}

/// The best rounds decide: medians move by tens of percent where this machine's memory is slow at its first touch.
fn alone(pair: &Pair<'_>) -> Goal {
    let (title, label, median) = (&pair.cell.title, pair.label, pair.median());
    Goal::at_least(format!("{title}: {label} / before, best rounds (medians {median:.2})"), KEPT_MIN, pair.best())
}

/// Geometric means: a round that was quick by chance moves them by its share, and what the processors did for a byte depends
/// little on what else runs.
fn together(pairs: &[Pair<'_>]) -> [Goal; 2] {
    let (best, median) = (mean(pairs.iter().map(Pair::best)), mean(pairs.iter().map(Pair::median)));
    let rates = format!("all {} of these / before, best rounds (medians {median:.2})", pairs.len());
    let work = format!("all {} of these / before, bytes of a second of the processors", pairs.len());
    [Goal::at_least(rates, KEPT_MIN, best), Goal::at_least(work, KEPT_MIN, mean(pairs.iter().map(Pair::work)))]
}

/// The geometric mean.
fn mean(ratios: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = ratios.len() as f64;
    (ratios.map(f64::ln).sum::<f64>() / count).exp()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Shape;
    use crate::bound::Direction;

    fn system(label: &str, (best, median): (f64, f64), cpu: f64) -> SystemReport {
        let summary = Summary {
            gigabytes_per_second: median,
            range: (median, best),
            seconds: 1.0,
            reference_ratio: None,
            cpu_per_gigabyte: (cpu, 0.0),
            peak_rss_kib: (0, 0),
            threads: (1, 1),
            switches_per_gigabyte: (0.0, 0.0),
            socket_kib: 0,
            others: 0.0,
            channels: None,
        };
        let (name, label, runs) = (PeerName::Xdfs, label.to_owned(), Vec::new());
        SystemReport { name, label, runs, failure: None, compared: false, fairness: None, summary: Some(summary) }
    }

    fn cell(systems: Vec<SystemReport>) -> CellReport {
        let (shape, direction, title) = (Shape::Memory, Direction::Up, "cell".to_owned());
        CellReport { shape, title, direction, channels: 1, filesystem: None, bytes: 1, files: None, systems }
    }

    fn goals(cells: &[CellReport]) -> Vec<(String, bool)> {
        check(cells).into_iter().map(|goal| (goal.what, goal.met)).collect()
    }

    #[test]
    fn each_system_is_compared_with_itself_by_the_build_before_and_all_together() {
        let slower = cell(vec![system("xdfs", (0.9, 1.0), 2.0), system("xdfs before", (1.0, 1.0), 1.0)]);
        assert_eq!(
            goals(std::slice::from_ref(&slower)),
            [("cell: xdfs / before, best rounds (medians 1.00)".to_owned(), false)]
        );
        let quicker =
            cell(vec![system("xdfs private", (1.2, 1.21), 1.0), system("xdfs before private", (1.0, 1.0), 1.0)]);
        assert_eq!(
            goals(&[slower, quicker])[2..],
            [
                ("all 2 of these / before, best rounds (medians 1.10)".to_owned(), true),
                ("all 2 of these / before, bytes of a second of the processors".to_owned(), false),
            ]
        );
    }

    #[test]
    fn without_a_build_before_there_is_nothing_to_keep() {
        assert_eq!(goals(&[cell(vec![system("xdfs", (1.0, 1.0), 1.0)])]), []);
    }
}
