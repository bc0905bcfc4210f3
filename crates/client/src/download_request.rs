//! The request for a download, alone or in the opening of a session.

use crate::endpoints::{RequestedTarget, Target};
use crate::options::{GetOptions, Verify};
use xdfs_io::store::stored_range;
use xdfs_proto::wire::request::{Request, Resume};
use xdfs_secure::naming;

/// The request for a download, which may resume an earlier attempt, and its target.
pub(crate) fn download(
    fresh: Request,
    remote: &[u8],
    target: Target,
    options: &GetOptions,
) -> (Request, RequestedTarget) {
    let (target, look) = target.requested(options.resume, options.owner_follows);
    let mut request = Request {
        name: remote.to_vec(),
        label: options.label.clone(),
        offset: options.offset,
        length: options.length,
        durable: options.durable,
        hash: options.verify >= Verify::Hash,
        reread: options.verify >= Verify::Reread,
        ..fresh
    };
    if let Some(look) = look {
        let range = format!("{} {:?}", options.offset, options.length);
        request.transfer = naming::transfer_id(&[b"down", remote, range.as_bytes()]);
        if let Some(mut kept) = look(request.transfer) {
            // Without a hash nothing is compared.
            kept.noted.retain(|one| one.proved || request.hash);
            request.unverified = request.hash && kept.noted.iter().any(|one| !one.proved || one.value.is_none());
            let kept = Resume { source: kept.source, kept: stored_range::ranges(&kept.noted) };
            request.resume = Some(kept).filter(|resume| !resume.kept.is_empty());
        }
    }
    (request, target)
}
