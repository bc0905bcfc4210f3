//! The line that a person sees while nothing is reported: on a terminal, and gone at the end.

use crate::report::{Figures, Units};
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// How often the line is drawn anew.
pub(crate) const EVERY: Duration = Duration::from_millis(200);

/// The line, if there is somebody to see it.
#[derive(Debug)]
pub(crate) struct Line(Option<ProgressBar>);

impl Line {
    pub(crate) fn new(wanted: bool) -> Self {
        let bar = wanted.then(ProgressBar::new_spinner).filter(|bar| !bar.is_hidden());
        Self(bar.map(|bar| bar.with_style(ProgressStyle::default_spinner())))
    }

    pub(crate) fn is_shown(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn show(&self, figures: &Figures, units: Units) {
        if let Some(bar) = &self.0 {
            bar.set_message(figures.line(units));
            bar.tick();
        }
    }

    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}
