//! Identifies the current boot of this machine: a journal of another one may be older than a power
//! cut.

use rustix::fs::{Mode, OFlags};
use std::sync::OnceLock;

/// The kernel's boot id; zeros if it cannot be read, and then nothing is resumed across processes.
pub fn id() -> [u8; 16] {
    static ID: OnceLock<[u8; 16]> = OnceLock::new();
    *ID.get_or_init(|| read().unwrap_or_default())
}

fn read() -> Option<[u8; 16]> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = rustix::fs::open("/proc/sys/kernel/random/boot_id", flags, Mode::empty()).ok()?;
    let mut text = [0; 64];
    let count = rustix::io::retry_on_intr(|| rustix::io::read(&file, &mut text)).ok()?;
    parse(text.get(..count)?)
}

/// Thirty-two hexadecimal digits with dashes in between.
fn parse(text: &[u8]) -> Option<[u8; 16]> {
    let digits: Vec<u8> =
        text.iter().filter_map(|byte| char::from(*byte).to_digit(16)).map(|digit| digit as u8).collect();
    let mut id = [0; 16];
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.len() != id.len() || !rest.is_empty() {
        return None;
    }
    id.iter_mut().zip(pairs).for_each(|(byte, pair)| *byte = pair[0] << 4 | pair[1]);
    Some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_form_is_read() {
        let id = parse(b"0123abcd-4567-89ef-0011-2233445566ff\n").unwrap();
        assert_eq!(id[..4], [0x01, 0x23, 0xab, 0xcd]);
        assert_eq!(id[15], 0xff);
        assert_eq!(parse(b"0123abcd"), None);
        assert_ne!(super::id(), [0; 16], "this machine has one");
    }
}
