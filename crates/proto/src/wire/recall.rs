//! RECALL: the handles whose leases somebody waits for.

use super::codec::{Reader, WireError, Writer};
use crate::limits;
use alloc::vec::Vec;

/// The list on the wire.
pub(super) fn write(writer: &mut Writer, handles: &[u64]) {
    writer.integer(handles.len() as u64);
    for handle in handles {
        writer.integer(*handle);
    }
}

/// At least one.
pub(super) fn read(reader: &mut Reader<'_>) -> Result<Vec<u64>, WireError> {
    let count = reader.integer_up_to(limits::RECALLS_MAX as u64, "handles")?;
    if count == 0 {
        return Err(WireError::Invalid("handles"));
    }
    (0..count).map(|_| reader.integer()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recall_of_none_or_of_too_many_is_malformed() {
        let read_back = |count: usize| {
            let mut writer = Writer::new();
            write(&mut writer, &alloc::vec![1 << 61; count]);
            read(&mut Reader::new(&writer.finish())).map(|handles| handles.len())
        };
        assert_eq!((read_back(1), read_back(limits::RECALLS_MAX)), (Ok(1), Ok(limits::RECALLS_MAX)));
        assert!(read_back(0).is_err() && read_back(limits::RECALLS_MAX + 1).is_err());
    }
}
