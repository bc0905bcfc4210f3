//! Modules of one folder that use each other. Nothing here computes.

/// Modules of one folder that use each other, which is to end.
#[derive(Debug)]
pub(in crate::layers) struct Circle {
    /// The folder that holds them: a crate's `src`, or a module of it.
    pub(in crate::layers) folder: &'static str,
    /// All of them.
    pub(in crate::layers) modules: &'static [&'static str],
    /// Who uses whom and should not: without these arrows there is no circle.
    pub(in crate::layers) arrows: &'static [(&'static str, &'static str)],
    /// Why it is there.
    #[expect(dead_code, reason = "for the reader of this list")]
    pub(in crate::layers) why: &'static str,
}

/// The circles that are left: none, and none is added.
pub(in crate::layers) const CIRCLES: &[Circle] = &[];
