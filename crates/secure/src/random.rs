//! The only source of randomness: session ids, grants, transfer ids and both sides' share of a
//! handshake.
//!
//! Nothing else in this crate draws random bytes; other code gets them as an argument.

use crate::Error;

/// Fills `bytes` from the operating system's generator. The cryptographic library's own one seeds
/// itself from timing jitter first, which was measured to cost every process 40 ms.
pub fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    getrandom::fill(bytes).map_err(|_| Error::NoRandomness)
}

/// `N` random bytes, for ids and other values that are no secrets.
pub fn array<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    fill(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_draws_differ_and_fill_every_byte() -> Result<(), Error> {
        // With 64 draws a byte that is never written stays zero in all of them; by chance that is
        // 2^-512 per byte.
        let mut seen = [0u8; 33];
        for _ in 0..64 {
            let drawn: [u8; 33] = array()?;
            seen.iter_mut().zip(drawn).for_each(|(seen, byte)| *seen |= byte);
        }
        assert!(seen.iter().all(|&byte| byte != 0));
        assert_ne!(array::<16>()?, array::<16>()?);
        Ok(())
    }
}
