//! Every order in which up to three files can be committed, each for itself or in groups, by the plan of `proto::base::commit`, with a
//! sync that may fail, and every state that a cut at any moment can leave.

use crate::disk::{Content, DIRECTORIES, Disk};
use std::collections::{BTreeSet, HashSet};
use xdfs_proto::base::Safety;
use xdfs_proto::base::commit::{Commit, CommitStep, Member};

/// What is run.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Directory of each file.
    pub directories: Vec<usize>,
    /// Whether its name stood for something before.
    pub old: Vec<bool>,
    /// The second directory was made in the first, and nobody has synced that yet.
    pub made: bool,
    /// The files of each commit.
    pub groups: Vec<Vec<usize>>,
    /// Groups of more than one sync the file system, and not each file.
    pub at_once: bool,
    /// Syncs that may fail, in all.
    pub failures: u8,
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
    /// One for each group.
    plans: Vec<Commit>,
    written: Vec<bool>,
    told: Vec<Option<Safety>>,
    failures: u8,
}

/// Runs a setting in every order.
pub fn search(setting: &Setting) -> Report {
    let count = setting.directories.len();
    let start = World {
        disk: Disk::new(&setting.directories, &setting.old, setting.made),
        plans: setting.groups.iter().map(|group| setting.plan(group)).collect(),
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
        for next in world.steps(setting) {
            if known.insert(next.clone()) {
                open.push(next);
            }
        }
    }
    report
}

impl Setting {
    fn plan(&self, group: &[usize]) -> Commit {
        let member = |file: &usize| match self.directories[*file] {
            1 if self.made => Member { durable: true, directories: vec![1, 0] },
            directory => Member { durable: true, directories: vec![directory] },
        };
        Commit::group(group.iter().map(member).collect(), self.at_once && group.len() > 1)
    }
}

impl World {
    /// What can happen next.
    fn steps(&self, setting: &Setting) -> Vec<World> {
        let mut next = Vec::new();
        for file in (0..self.written.len()).filter(|file| !self.written[*file]) {
            let mut world = self.clone();
            world.written[file] = true;
            world.disk.write(file);
            next.push(world);
        }
        for (number, group) in setting.groups.iter().enumerate() {
            if !group.iter().all(|file| self.written[*file]) {
                continue;
            }
            let Some(step) = self.plans[number].next() else { continue };
            let must_fail = matches!(step, CommitStep::SyncFile(member) if self.disk.files[group[member]].untold);
            let may_fail = self.failures > 0 && !matches!(step, CommitStep::Finish(_) | CommitStep::Name(_));
            next.extend((!must_fail).then(|| self.after(number, group, step, false)));
            next.extend((must_fail || may_fail).then(|| self.after(number, group, step, true)));
        }
        next
    }

    fn after(&self, number: usize, group: &[usize], step: CommitStep, fails: bool) -> World {
        let mut world = self.clone();
        match step {
            CommitStep::Finish(_) => {}
            CommitStep::SyncFile(member) => world.disk.sync(group[member], fails),
            CommitStep::SyncSystem => world.disk.sync_system(fails),
            CommitStep::Name(member) => world.disk.name(group[member]),
            CommitStep::SyncDirectory(directory) if !fails => world.disk.sync_directory(directory),
            CommitStep::SyncDirectory(_) => {}
        }
        if fails {
            world.failures = world.failures.saturating_sub(1);
            world.plans[number].on_failed(step);
        } else {
            world.plans[number].on_done(step).expect("it was next");
        }
        for (member, file) in group.iter().enumerate() {
            world.told[*file] = world.plans[number].safety(member);
        }
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

/// Every way to divide up to three files among commits.
const GROUPS: [&[&[usize]]; 8] = [
    &[&[0]],
    &[&[0], &[1]],
    &[&[0, 1]],
    &[&[0], &[1], &[2]],
    &[&[0, 1], &[2]],
    &[&[0, 2], &[1]],
    &[&[0], &[1, 2]],
    &[&[0, 1, 2]],
];

/// Every setting of up to three files in two directories.
pub fn settings() -> Vec<Setting> {
    let mut all = Vec::new();
    for groups in GROUPS {
        let count: usize = groups.iter().map(|group| group.len()).sum();
        let alone = groups.len() == count;
        let groups: Vec<Vec<usize>> = groups.iter().map(|group| group.to_vec()).collect();
        for number in 0..DIRECTORIES.pow(count as u32) << count << 2 {
            let bit = |index: usize| number >> index & 1 == 1;
            let (at_once, made) = (bit(0), bit(1));
            let directories: Vec<usize> = (0..count).map(|file| usize::from(bit(2 + file))).collect();
            let old: Vec<bool> = (0..count).map(|file| bit(2 + count + file)).collect();
            // Nothing old is in a directory that was just made, and a sync of the file system is shared by a group.
            let impossible = made && (0..count).any(|file| old[file] && directories[file] == 1);
            if !(impossible || at_once && alone) {
                let groups = groups.clone();
                all.push(Setting { directories, old, made, groups, at_once, failures: 1 });
            }
        }
    }
    all
}
