//! Bytes of names as %XX.

use super::UrlError;

/// One component of a path as a URL has it.
pub(crate) fn encode_component(component: &[u8]) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()+,;=:@".contains(&byte);
    let encode = |&byte: &u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    component.iter().map(encode).collect()
}

/// Replaces each %XX by its byte. A decoded slash or NUL would be misinterpreted by later steps.
pub(crate) fn decode(text: &[u8]) -> Result<Vec<u8>, UrlError> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first != b'%' {
            decoded.push(first);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2).ok_or(UrlError::Percent)?;
        let digit = |byte: u8| (byte as char).to_digit(16).ok_or(UrlError::Percent);
        match (digit(digits[0])? * 16 + digit(digits[1])?) as u8 {
            b'/' => return Err(UrlError::EncodedSlash),
            0 => return Err(UrlError::EncodedNul),
            byte => decoded.push(byte),
        }
        rest = tail;
    }
    Ok(decoded)
}
