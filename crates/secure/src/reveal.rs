//! For tests that look for secrets where none may be: once told to, keeps a copy of every secret of this process that goes.
//!
//! No release has it, since it comes with debug assertions: as a feature it had every library built twice, for the tests and
//! for the programs that they run. It must not be used but by such a test.

use std::sync::{Mutex, PoisonError};

/// What went.
#[derive(Clone, Default, Debug)]
pub struct Kept {
    /// Every secret, grants too.
    pub all: Vec<Vec<u8>>,
    /// Grants: messages carry them, and alone they open nothing.
    pub grants: Vec<Vec<u8>>,
}

/// None until somebody asks.
static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

/// From now on secrets are kept when they go.
pub fn start() {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default();
}

/// Those that went since the last time.
pub fn taken() -> Kept {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(std::mem::take).unwrap_or_default()
}

pub(crate) fn keep(secret: &[u8]) {
    if let Some(kept) = &mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner) {
        kept.all.push(secret.to_vec());
    }
}

pub(crate) fn keep_grant_secret(secret: &[u8]) {
    if let Some(kept) = &mut *KEPT.lock().unwrap_or_else(PoisonError::into_inner) {
        kept.grants.push(secret.to_vec());
    }
}
