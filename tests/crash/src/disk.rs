//! What ext4 may lose: bytes that were not synced, all of them or some, also when their name is there (the empty file behind a
//! rename); names that were not synced, the later ones first, each directory by itself; and what a sync that failed did not
//! write, although the next one succeeds since the pages are marked clean.

/// Directories of the model.
pub const DIRECTORIES: usize = 2;

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Content {
    /// What was there before.
    Old,
    /// Every new byte.
    Whole,
    /// Nothing at all.
    Empty,
    /// Some of the new bytes.
    Torn,
}

/// One file on its way.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Staged {
    /// Its directory.
    pub directory: usize,
    /// Its bytes are in memory.
    pub written: bool,
    /// They are on the medium.
    pub synced: bool,
    /// A sync failed: the pages count as clean.
    pub dropped: bool,
    /// That was a sync of the file system: the kernel tells whoever has the file open when it is synced next, once.
    pub untold: bool,
}

/// A change of a directory.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Change {
    /// This file gets its name.
    Named(usize),
    /// This directory is made in it.
    Made(usize),
}

/// A disk that loses what ext4 may lose.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Disk {
    /// The files on their way.
    pub files: Vec<Staged>,
    /// Whether each name stood for something before.
    pub old: Vec<bool>,
    /// Changes of each directory, in order; those before `stable` are on the medium.
    pub changes: [Vec<Change>; DIRECTORIES],
    /// See `changes`.
    pub stable: [usize; DIRECTORIES],
}

impl Disk {
    /// Files in these directories, of which nothing is written. The second directory may be one that was just `made` in the first.
    pub fn new(directories: &[usize], old: &[bool], made: bool) -> Self {
        let file = |directory: &usize| Staged { directory: *directory, ..Staged::default() };
        Self {
            files: directories.iter().map(file).collect(),
            old: old.to_vec(),
            changes: [made.then_some(Change::Made(1)).into_iter().collect(), Vec::new()],
            stable: [0; DIRECTORIES],
        }
    }

    /// All bytes are written.
    pub fn write(&mut self, file: usize) {
        self.files[file].written = true;
    }

    /// Syncs a file; a failure marks its pages clean, and the next call has nothing to write.
    pub fn sync(&mut self, file: usize, fails: bool) {
        let staged = &mut self.files[file];
        staged.dropped |= fails;
        staged.synced |= !fails && !staged.dropped;
        staged.untold = false;
    }

    /// Syncs everything that was written; a failure may have been about any of it.
    pub fn sync_system(&mut self, fails: bool) {
        for file in 0..self.files.len() {
            if self.files[file].written {
                self.sync(file, fails);
                self.files[file].untold = fails;
            }
        }
        if !fails {
            (0..DIRECTORIES).for_each(|directory| self.sync_directory(directory));
        }
    }

    /// Gives a file its name.
    pub fn name(&mut self, file: usize) {
        let directory = self.files[file].directory;
        self.changes[directory].push(Change::Named(file));
    }

    /// Syncs a directory.
    pub fn sync_directory(&mut self, directory: usize) {
        self.stable[directory] = self.changes[directory].len();
    }

    /// Every state that a power cut can leave: what each name then holds, none where it is absent.
    pub fn cuts(&self) -> Vec<Vec<Option<Content>>> {
        let mut states = Vec::new();
        let survivors = |directory: usize| self.stable[directory]..=self.changes[directory].len();
        let made =
            |changes: &[Change]| changes.contains(&Change::Made(1)) || !self.changes[0].contains(&Change::Made(1));
        for first in survivors(0) {
            for second in survivors(1) {
                let first = &self.changes[0][..first];
                // What is in a directory is gone with it.
                let second = if made(first) { &self.changes[1][..second] } else { &[] };
                let named = first.iter().chain(second).filter_map(|change| match change {
                    Change::Named(file) => Some(*file),
                    Change::Made(_) => None,
                });
                self.contents(&named.collect::<Vec<_>>(), &mut states);
            }
        }
        states
    }

    /// Every content that files with these names may have.
    fn contents(&self, named: &[usize], states: &mut Vec<Vec<Option<Content>>>) {
        let mut partial = vec![Vec::new()];
        for (file, staged) in self.files.iter().enumerate() {
            let choices: &[Option<Content>] = match (named.contains(&file), staged.synced) {
                (false, _) if self.old[file] => &[Some(Content::Old)],
                (false, _) => &[None],
                (true, true) => &[Some(Content::Whole)],
                (true, false) if staged.dropped => &[Some(Content::Empty), Some(Content::Torn)],
                (true, false) => &[Some(Content::Whole), Some(Content::Empty), Some(Content::Torn)],
            };
            partial = partial
                .iter()
                .flat_map(|before: &Vec<Option<Content>>| {
                    choices.iter().map(move |choice| before.iter().copied().chain([*choice]).collect())
                })
                .collect();
        }
        states.extend(partial);
    }
}
