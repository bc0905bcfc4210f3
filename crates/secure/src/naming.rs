//! Names derived from what they identify, so that a later process computes the same one again.

use aws_lc_rs::digest::{Context, SHA256};
use xdfs_proto::base::TransferId;

/// The id of the transfer that `parts` identify: half of a SHA-256 over each with its length.
pub fn transfer_id(parts: &[&[u8]]) -> TransferId {
    let mut context = Context::new(&SHA256);
    context.update(b"xdfs transfer");
    for part in parts {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let mut id = [0; 16];
    // SHA-256 has 32 bytes.
    id.iter_mut().zip(context.finish().as_ref()).for_each(|(to, from)| *to = *from);
    TransferId(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_parts_give_the_same_name_and_a_seam_elsewhere_another() {
        assert_eq!(transfer_id(&[b"up", b"data/x"]), transfer_id(&[b"up", b"data/x"]));
        assert_ne!(transfer_id(&[b"up", b"data/x"]), transfer_id(&[b"upd", b"ata/x"]));
        assert_ne!(transfer_id(&[b"a"]), transfer_id(&[b"a", b""]));
    }
}
