//! The only source of randomness: session ids, grants, transfer ids and both sides' share of a handshake.
//!
//! Nothing else in this crate draws; whoever needs random bytes gets them as an argument.

use aws_lc_rs::rand;

use crate::Error;

/// Fills `bytes` from the library's generator, which the operating system seeds.
pub fn fill(bytes: &mut [u8]) -> Result<(), Error> {
    rand::fill(bytes).map_err(|_| Error::NoRandomness)
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
        // With 64 draws a byte that is never written stays zero in all of them; by chance that is 2^-512 per byte.
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
