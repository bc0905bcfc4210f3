//! Requests to a session: uploads, downloads and hashes.

use crate::callback::Callback;
use crate::calls::when_permitted;
use crate::download_request::download;
use crate::endpoints::{LocalEnd, Payload, RESUME_BYTES_MIN, Target};
use crate::options::{GetOptions, PutOptions, Verify};
use crate::session::{INITIAL_CREDIT, Session};
use crate::transfer::{Report, Transfer};
use xdfs_engine::bounds;
use xdfs_proto::base::{Digest, Error, ErrorKind, TransferId};
use xdfs_proto::wire::request::{Request, Resume};
use xdfs_secure::{naming, random};

impl Session {
    /// Uploads `payload` to `remote` (`EXPORT/path`, nothing encoded).
    pub fn put(&self, payload: Payload, remote: impl AsRef<[u8]>, options: &PutOptions) -> Result<Transfer, Error> {
        let (outcome, receiver) = Callback::waiting();
        Ok(Transfer { outcome: receiver, ..self.upload(payload, remote.as_ref(), options, outcome)? })
    }

    /// The same; `outcome` is called from a thread of the session.
    pub(crate) fn upload(
        &self,
        payload: Payload,
        remote: &[u8],
        options: &PutOptions,
        outcome: Callback<Report>,
    ) -> Result<Transfer, Error> {
        let attributes = payload.source.attributes();
        let length = if payload.source.is_sequential() { None } else { payload.length };
        let again = options.base.is_some();
        // A repeated upload may be complete already, however short it is.
        let long = length.filter(|length| options.resume && (again || *length >= RESUME_BYTES_MIN));
        let source = &payload.source;
        let identity = source.identity().zip(source.weak_version()).zip(long);
        let identity = identity.map(|((version, like), length)| (version.to_vec(), like.to_vec(), length));
        let mut request = Request {
            name: remote.to_vec(),
            label: options.label.clone(),
            keep_existing: options.keep_existing,
            durable: options.durable,
            hash: options.verify >= Verify::Hash,
            reread: options.verify >= Verify::Reread,
            // The length of a pipe is known when it has been read; its reader enforces it.
            length,
            mode: options.mode.unwrap_or(attributes.mode & 0o777),
            modified: payload.source.modified(),
            base: options.base.clone().filter(|_| payload.source.modified().is_some()),
            holes: options.holes,
            ..self.request()?
        };
        if let Some((source, like, length)) = identity {
            let range = [payload.offset.to_be_bytes(), length.to_be_bytes()].concat();
            // Without the version: another client's copy of the file may resume what this one
            // leaves.
            request.transfer = naming::transfer_id(&[b"up", remote, &like, &range]);
            request.resume = Some(Resume { source, kept: Vec::new() });
        }
        self.start(request, LocalEnd::Source(payload), outcome)
    }

    /// Downloads `remote` (`EXPORT/path`, nothing encoded) to `target`.
    pub fn get(&self, remote: impl AsRef<[u8]>, target: Target, options: &GetOptions) -> Result<Transfer, Error> {
        let (outcome, receiver) = Callback::waiting();
        Ok(Transfer { outcome: receiver, ..self.download(remote.as_ref(), target, options, outcome)? })
    }

    /// The same; `outcome` is called from a thread of the session.
    pub(crate) fn download(
        &self,
        remote: &[u8],
        target: Target,
        options: &GetOptions,
        outcome: Callback<Report>,
    ) -> Result<Transfer, Error> {
        // Never more than an ordered target can hold.
        let credit = INITIAL_CREDIT.min(bounds::ordered_window(self.facts().block));
        let (request, target) = download(Request { credit, ..self.request()? }, remote, target, options);
        self.start(request, LocalEnd::Target(target), outcome)
    }

    /// The hash of `remote`, or of a range of it, as its server reads it.
    pub fn sum(&self, remote: impl AsRef<[u8]>, offset: u64, length: Option<u64>) -> Result<Digest, Error> {
        when_permitted(|| self.sum_now(remote.as_ref(), offset, length))
    }

    fn sum_now(&self, remote: &[u8], offset: u64, length: Option<u64>) -> Result<Digest, Error> {
        let request = Request { name: remote.to_vec(), sum: true, offset, length, ..self.request()? };
        let (outcome, receiver) = Callback::waiting();
        let asked = Transfer { outcome: receiver, ..self.start(request, LocalEnd::Nothing, outcome)? };
        asked.wait()?.hash.ok_or_else(|| Error::new(ErrorKind::Protocol, "the server told no hash"))
    }

    fn request(&self) -> Result<Request, Error> {
        Ok(Request { transfer: TransferId(random::array()?), level: self.level, ..Request::default() })
    }
}
