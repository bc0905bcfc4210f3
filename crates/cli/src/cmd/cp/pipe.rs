//! `xdfs cp - URL` and `xdfs cp URL -` where the URL is a FIFO: its bytes are not those of a file, so
//! nothing is staged, resumed or verified again.

use std::time::Instant;

use xdfs_client::file::PipeSide;
use xdfs_client::wire::FileType;
use xdfs_client::{Error, ErrorKind, Level};
use xdfs_proto::base::Safety;

use super::failure::Failed;
use super::input;
use super::items::Upload;
use super::monitor::FileOutcome;
use super::{Copy, source_of};
use crate::cmd::pipe::{Connected, Cut};
use crate::output::{CopiedFile, CopyItem};
use crate::plan::{Check, Local};
use crate::url::Url;

impl Copy<'_> {
    /// Copies standard input into a FIFO; none if the target is something else.
    pub(super) fn feed_pipe(
        &mut self,
        pair: &Upload,
        (number, count): (usize, usize),
    ) -> Option<Result<FileOutcome, Failed>> {
        let whole = self.options.offset == 0 && self.options.length.is_none();
        if pair.source != Local::Stdin || !whole {
            return None;
        }
        // An error of this look is one of the copy, which reports it.
        self.look(&pair.target).ok().flatten().filter(|found| found.kind == FileType::Fifo)?;
        let item = CopyItem { source: source_of(&pair.source), target: (&pair.target).into(), number, count };
        let began = Instant::now();
        let connected = Connected::open(&self.sessions, &pair.target, PipeSide::Write);
        let passed = connected.and_then(|pipe| {
            let input = input::as_it_comes().map_err(Cut::Here)?;
            pipe.feed(input, &|| self.monitor.stopped())
        });
        Some(told(&item, item.target.shown(), began, passed))
    }

    /// Copies a FIFO to standard output; none if the source is something else.
    pub(super) fn drain_pipe(&mut self, source: &Url, item: &CopyItem) -> Option<Result<FileOutcome, Failed>> {
        if self.options.offset != 0 || self.options.length.is_some() {
            return None;
        }
        // To try anything else would be refused, or logged by the server, for want of a right to pipes.
        self.look(source).ok().flatten().filter(|found| found.kind == FileType::Fifo)?;
        let began = Instant::now();
        let passed = match Connected::open(&self.sessions, source, PipeSide::Read) {
            Err(Cut::Peer(error)) if error.kind == ErrorKind::NotRegular => return None,
            connected => connected.and_then(|pipe| pipe.drain(&|| self.monitor.stopped())),
        };
        Some(told(item, item.source.shown(), began, passed))
    }
}

fn told(item: &CopyItem, peer: &str, began: Instant, passed: Result<u64, Cut>) -> Result<FileOutcome, Failed> {
    let bytes = match passed {
        Ok(bytes) => bytes,
        Err(Cut::Session(failure, kind)) => return Err(Failed::of_session(peer, (failure, kind))),
        Err(Cut::Peer(error)) => return Err(Failed::of_peer(peer, error)),
        Err(Cut::Here(error)) => return Err(Failed::of_local("-", Error::new(ErrorKind::Storage, error.to_string()))),
        Err(Cut::Stopped) => {
            let error = Error::new(ErrorKind::Cancelled, ErrorKind::Cancelled.text());
            return Err(Failed::of_local("-", error).cancelled());
        }
    };
    let file = CopiedFile {
        bytes,
        elapsed: began.elapsed(),
        channels: 1,
        congestion: String::new(),
        // As calls are.
        level: Level::Private,
        safety: Safety::Written,
        check: Check::Wire,
        hash: None,
        resumed: 0,
        retries: 0,
        channel_bytes: vec![bytes],
    };
    Ok(FileOutcome::Copied(item.clone(), file))
}
