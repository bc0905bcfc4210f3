//! `--atomic` for trees: a new tree is made where no other client has access, and gets its name
//! when it is complete.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use xdfs_client::tree::{Ended, Observer, Summary, Total, Upload};
use xdfs_client::wire::FileType;
use xdfs_client::{Error, ErrorKind, Facts};
use xdfs_proto::base::{Retry, Safety};
use xdfs_server::users::StateFolder;

use super::super::failure::Failed;
use super::super::unfinished::{self, UnfinishedMark};
use super::super::{Copy, wire_name};
use super::link::{DirectionRun, TreeServer};
use crate::exit::{Exit, Failure};
use crate::plan::{LoginPlan, WhenDone};
use crate::state;
use crate::url::Url;

/// A tree that is to appear as a whole.
#[derive(Debug)]
pub(super) struct Whole {
    source: PathBuf,
    target: Url,
    /// This client's id of the tree.
    client: [u8; 16],
    /// Its staging directory until it has its name.
    pub(super) place: Url,
}

/// An upload to such a staging directory, which each session has to request.
pub(super) struct IntoPlace<'a> {
    pub(super) upload: &'a mut Upload,
    pub(super) whole: &'a Whole,
}

impl DirectionRun for IntoPlace<'_> {
    fn count_into(&mut self, total: Arc<Total>) {
        self.upload.count_into(total);
    }

    fn run(&mut self, link: &mut TreeServer<'_>, observer: &mut dyn Observer) -> Ended {
        let whole = self.whole;
        let TreeServer::Session(session) = link else {
            return Ended::Refused(Error::new(ErrorKind::Unsupported, "only an xdfs server has a place for it"));
        };
        match session.stage_tree(wire_name(&whole.target), whole.client) {
            Ok(place) if place == whole.place.path => self.upload.run(session, observer),
            Ok(_) => {
                let text = "the server lost what it names unfinished trees with; the same command begins anew";
                Ended::Refused(Error::new(ErrorKind::Superseded, text))
            }
            Err(error) if error.kind.retry() == Retry::Temporary => Ended::Lost(error),
            Err(error) => Ended::Refused(refusal(error)),
        }
    }

    fn summary(&self) -> Summary {
        self.upload.summary()
    }

    fn refused(&self, target: &str, error: Error) -> Failed {
        Failed::of_peer(target, error)
    }
}

impl Copy<'_> {
    /// Requests the staging directory of a tree that does not exist yet, and returns whether it is
    /// empty.
    pub(super) fn begin_whole(&mut self, source: &Path, target: &Url, fresh: bool) -> Result<(Whole, bool), Failed> {
        let failed = |error| Failed::of_peer(&target.to_string(), error);
        if !fresh || target.path.is_root() {
            let error = Error::new(ErrorKind::AlreadyExists, "it is there already\nhelp: --atomic is for what is new");
            return Err(failed(error));
        }
        let client = name_of(&self.login, source, target).map_err(failed)?;
        let place = self.session_of(target)?.stage_tree(wire_name(target), client);
        let path = place.map_err(|error| failed(refusal(error)))?;
        let place = Url { path, directory: false, ..target.clone() };
        let fresh = self.look(&place)?.is_none();
        Ok((Whole { source: source.to_owned(), target: target.clone(), client, place }, fresh))
    }

    /// Gives a complete tree its name.
    pub(super) fn publish(&mut self, whole: &Whole) -> Result<Exit, Failure> {
        let durable = self.options.durability != WhenDone::Written;
        let named = self.look(&whole.place).and_then(|found| {
            // If the command is killed after the call, this identifies the tree as that of the same
            // command.
            let mark = found.and_then(|found| UnfinishedMark::named(&self.login, &whole.source, &whole.target, &found));
            mark.iter().for_each(|mark| drop(mark.set()));
            let session = self.session_of(&whole.target)?;
            let named = session.publish_tree(wire_name(&whole.target), whole.client, durable);
            let unknown = named.as_ref().is_err_and(|error| error.kind.retry() == Retry::Temporary);
            match &named {
                Ok(safety) => {
                    if self.options.durability == WhenDone::DurableAsked && *safety < Safety::Durable {
                        self.monitor
                            .output()
                            .note(&format!("{}: its name may be lost if power fails now", whole.target));
                    }
                    self.whole.extend(mark);
                }
                Err(_) if unknown => {}
                Err(_) => mark.iter().for_each(UnfinishedMark::clear),
            }
            named.map_err(|error| Failed::of_peer(&whole.target.to_string(), error))
        });
        match named {
            Ok(_) => Ok(Exit::Done),
            Err(failed) => self.monitor.tell(Err(failed)),
        }
    }

    /// The existing target was made by this same command, which was killed before it could report
    /// that; `None` if it was not.
    pub(in crate::cmd::cp) fn named_before(
        &self,
        source: &Path,
        target: &Url,
        found: &Facts,
    ) -> Option<UnfinishedMark> {
        let mark =
            UnfinishedMark::named(&self.login, source, target, found).filter(|_| found.kind == FileType::Directory);
        mark.filter(UnfinishedMark::stands)
    }

    /// The same command has verified that such a tree is complete: remove all that is left of it.
    pub(super) fn end_named_before(&mut self, mark: UnfinishedMark, source: &Path, target: &Url) {
        // Syncs the name, and removes an empty staging directory if the server was killed before it
        // removed it. If the server did remove it, it does not exist; if this fails, it expires.
        let durable = self.options.durability != WhenDone::Written;
        if let Ok(client) = name_of(&self.login, source, target)
            && let Ok(session) = self.session_of(target)
        {
            match session.publish_tree(wire_name(target), client, durable) {
                // The same command syncs it again.
                Ok(Safety::Written) if durable => return,
                _ => {}
            }
        }
        self.whole.push(mark);
    }
}

/// This client's id of the tree: the same for the same command, and unknown to others. Without a
/// state folder it differs each time, and nothing is resumed.
fn name_of(login: &LoginPlan, source: &Path, target: &Url) -> Result<[u8; 16], Error> {
    let folder = state::own(login.state.as_deref()).ok();
    let key = folder.and_then(|folder| StateFolder::create(&folder).and_then(|state| state.journal_key()).ok());
    let mut name = [0; 16];
    match key {
        Some(key) => {
            let [source, target] = unfinished::ends(source, target);
            let tag = key.tag(&[b"tree up", &source, &target]);
            // A tag has 32 bytes.
            name.iter_mut().zip(tag).for_each(|(to, from)| *to = from);
        }
        None => xdfs_secure::random::fill(&mut name).map_err(Error::from)?,
    }
    Ok(name)
}

/// Servers that do not know this call answer it, like every unknown one, with Unsupported.
fn refusal(error: Error) -> Error {
    match error.kind {
        ErrorKind::Unsupported => {
            let text = "this server cannot keep a tree that is not whole out of others' reach, as --atomic needs (it is older, or \
                        an export without directories)\nhelp: copy without --atomic, or update the server";
            Error { message: text.into(), ..error }
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_does_not_know_the_call_is_told_with_what_helps() {
        let told = refusal(Error::new(ErrorKind::Unsupported, "no such call")).to_string();
        assert!(told.contains("--atomic") && told.contains("update the server"), "{told}");
        let other = Error::new(ErrorKind::NotFound, "no such directory");
        assert_eq!(refusal(other.clone()), other);
    }
}
