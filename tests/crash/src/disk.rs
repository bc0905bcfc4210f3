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
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Staged {
    /// Its directory.
    pub directory: usize,
    /// Its bytes are in memory.
    pub written: bool,
    /// They are on the medium.
    pub synced: bool,
    /// A sync failed: the pages count as clean.
    pub dropped: bool,
}

/// A change of a directory: this file gets its name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Named(pub usize);

/// See the module.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Disk {
    /// The files on their way.
    pub files: Vec<Staged>,
    /// Whether each name stood for something before.
    pub old: Vec<bool>,
    /// Names given, by directory, in order; those before `stable` are on the medium.
    pub names: [Vec<Named>; DIRECTORIES],
    /// See `names`.
    pub stable: [usize; DIRECTORIES],
}

impl Disk {
    /// Files in these directories, of which nothing is written.
    pub fn new(directories: &[usize], old: &[bool]) -> Self {
        let file = |directory: &usize| Staged { directory: *directory, written: false, synced: false, dropped: false };
        Self {
            files: directories.iter().map(file).collect(),
            old: old.to_vec(),
            names: Default::default(),
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
    }

    /// Gives a file its name.
    pub fn name(&mut self, file: usize) {
        let directory = self.files[file].directory;
        self.names[directory].push(Named(file));
    }

    /// Syncs a directory.
    pub fn sync_directory(&mut self, directory: usize) {
        self.stable[directory] = self.names[directory].len();
    }

    /// Every state that a power cut can leave: what each name then holds, none where it is absent.
    pub fn cuts(&self) -> Vec<Vec<Option<Content>>> {
        let mut states = Vec::new();
        let survivors = |directory: usize| self.stable[directory]..=self.names[directory].len();
        for first in survivors(0) {
            for second in survivors(1) {
                let named = self.names[0][..first].iter().chain(&self.names[1][..second]).map(|named| named.0);
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
