//! Every order in which up to three commits can run, each by the plan of `proto::commit`, with a sync that may fail, and every
//! state that a cut at any moment can leave.

use crate::disk::{Content, DIRECTORIES, Disk};
use std::collections::{BTreeSet, HashSet};
use xdfs_proto::base::Safety;
use xdfs_proto::commit::{Commit, Step};
use xdfs_proto::session::Bugs;

/// What is run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Directory of each file.
    pub directories: Vec<usize>,
    /// Whether its name stood for something before.
    pub old: Vec<bool>,
    /// Syncs that may fail, in all.
    pub failures: u8,
    /// A deliberate mistake.
    pub bugs: Bugs,
}

/// What was looked at, and the first thing that was wrong.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// States of running programs.
    pub running: usize,
    /// States that a cut can leave, over all of them.
    pub cut: usize,
    /// A promise that was broken.
    pub broken: Option<String>,
    /// Kinds of outcome that were seen, so that nothing holds for want of cases.
    pub seen: BTreeSet<&'static str>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct World {
    disk: Disk,
    plans: Vec<Commit>,
    written: Vec<bool>,
    told: Vec<Option<Safety>>,
    failures: u8,
}

/// Runs a setting in every order.
pub fn search(setting: &Setting) -> Report {
    let count = setting.directories.len();
    let start = World {
        disk: Disk::new(&setting.directories, &setting.old),
        plans: vec![Commit::new(true, setting.bugs); count],
        written: vec![false; count],
        told: vec![None; count],
        failures: setting.failures,
    };
    let mut report = Report::default();
    let mut known = HashSet::from([start.clone()]);
    let mut open = vec![start];
    while let Some(world) = open.pop() {
        report.running += 1;
        world.judge(&mut report);
        for next in world.steps() {
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    report
}

impl World {
    /// What can happen next.
    fn steps(&self) -> Vec<World> {
        let mut next = Vec::new();
        for file in 0..self.plans.len() {
            if !self.written[file] {
                let mut world = self.clone();
                world.written[file] = true;
                world.disk.write(file);
                next.push(world);
                continue;
            }
            let Some(step) = self.plans[file].next() else { continue };
            next.push(self.after(file, step, false));
            if self.failures > 0 && step == Step::SyncFile {
                next.push(self.after(file, step, true));
            }
        }
        next
    }

    fn after(&self, file: usize, step: Step, fails: bool) -> World {
        let mut world = self.clone();
        match step {
            Step::Finish => {}
            Step::SyncFile => world.disk.sync(file, fails),
            Step::Name => world.disk.name(file),
            Step::SyncDirectory => world.disk.sync_directory(world.disk.files[file].directory),
        }
        if fails {
            world.failures -= 1;
            world.plans[file].on_failed(step);
        } else {
            world.plans[file].on_done(step).expect("it was next");
        }
        world.told[file] = world.plans[file].safety();
        world
    }

    /// Cuts the power in every way and looks.
    fn judge(&self, report: &mut Report) {
        for names in self.disk.cuts() {
            report.cut += 1;
            for (file, content) in names.iter().enumerate() {
                let durable = self.told[file] == Some(Safety::Durable);
                let wrong = match content {
                    Some(Content::Empty | Content::Torn) => Some("half a file has its final name"),
                    Some(Content::Old) | None if durable => Some("a file that was told durable is gone"),
                    None if self.disk.old[file] => Some("an old file is gone"),
                    _ => None,
                };
                report.seen.insert(match (content, durable) {
                    (Some(Content::Whole), true) => "durable and there",
                    (Some(Content::Whole), false) => "there before it was told",
                    (Some(Content::Old), _) => "the old file",
                    _ => "no file",
                });
                if let (Some(wrong), None) = (wrong, &report.broken) {
                    report.broken = Some(format!("{wrong}: file {file} of {self:?}, left {names:?}"));
                }
            }
        }
    }
}

/// Every setting of up to three files in two directories.
pub fn settings(bugs: Bugs) -> Vec<Setting> {
    let mut all = Vec::new();
    for count in 1..=3usize {
        for placement in 0..DIRECTORIES.pow(count as u32) {
            for old in 0..1usize << count {
                let directories = (0..count).map(|file| placement >> file & 1).collect();
                let old = (0..count).map(|file| old >> file & 1 == 1).collect();
                all.push(Setting { directories, old, failures: 1, bugs });
            }
        }
    }
    all
}
