//! A target, the part file beside it, and its journal, as a program sees them and as the medium has them.

/// What stands at the target's name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Target {
    /// What was there at first.
    Old,
    /// What somebody else put there meanwhile.
    Other,
    /// The file of the transfer.
    Ours,
}

/// The file of the transfer, under whichever name. A bit per block.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct File {
    /// What a read returns.
    pub cached: u16,
    /// What is on the medium.
    pub durable: u16,
    /// What a sync that failed did not write: it counts as clean, and no later sync writes it.
    pub forgotten: u16,
    /// What its journal tells of, once there is one.
    pub noted: Option<u16>,
    /// What stood at the name when it was made.
    pub expects: Target,
}

/// A target, its part file and its journal, in memory and on the medium.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Disk {
    /// Blocks of the whole file.
    pub whole: u16,
    /// What the name stands for.
    pub target: Target,
    /// What it stands for on the medium.
    pub stable: Target,
    /// The store knows that the transfer got its name once.
    pub committed: bool,
    /// The file, while it is a part file or has the name.
    pub file: Option<File>,
}

impl Disk {
    /// Nothing has begun.
    pub const fn new(whole: u16) -> Self {
        Self { whole, target: Target::Old, stable: Target::Old, committed: false, file: None }
    }

    /// The file is made, where it is not there yet.
    pub fn stage(&mut self) {
        let expects = self.target;
        self.file.get_or_insert(File { cached: 0, durable: 0, forgotten: 0, noted: None, expects });
    }

    /// These blocks are written: from now on they are to be synced, whatever became of an earlier copy.
    pub fn write(&mut self, blocks: u16) {
        if let Some(file) = &mut self.file {
            file.cached |= blocks;
            file.forgotten &= !blocks;
        }
    }

    /// Writes what is in memory of `blocks` to the medium, or fails at it.
    pub fn sync(&mut self, blocks: u16, well: bool) {
        let Some(file) = &mut self.file else { return };
        if well {
            file.durable |= file.cached & blocks & !file.forgotten;
        } else {
            file.forgotten |= file.cached & !file.durable;
        }
    }

    /// The file is given up, unless it has the name.
    pub fn remove(&mut self) {
        if self.target != Target::Ours {
            self.file = None;
        }
    }

    /// What a power cut can leave.
    pub fn cuts(&self) -> Vec<Self> {
        let names: &[Target] = if self.stable == self.target { &[self.target] } else { &[self.target, self.stable] };
        let mut left = Vec::new();
        for name in names {
            let committed = self.committed && *name == self.target;
            let Some(file) = self.file else {
                left.push(Self { target: *name, stable: *name, committed, ..*self });
                continue;
            };
            // Of what was not synced anything may be there.
            let loose = file.cached & !file.durable & !file.forgotten;
            for survived in (0..=loose).filter(|blocks| blocks & !loose == 0) {
                let there = file.durable | survived;
                let file = File { cached: there, durable: there, forgotten: 0, ..file };
                let disk = Self { target: *name, stable: *name, committed, file: Some(file), ..*self };
                left.push(disk);
                if *name != self.target {
                    // The journal's removal may be there although the name's change is not.
                    left.push(Self { file: Some(File { noted: None, ..file }), ..disk });
                }
            }
        }
        left
    }

    /// The journal tells of nothing that is not there.
    pub fn is_honest(&self) -> bool {
        self.file.is_none_or(|file| file.noted.is_none_or(|noted| noted & !file.cached == 0))
    }

    /// The name stands for a whole file.
    pub fn is_whole(&self) -> bool {
        self.target != Target::Ours || self.file.is_some_and(|file| file.cached == self.whole)
    }
}
