//! Lists that a server has cut short: pure-ftpd sends as many names as it is set to, and calls that a success. Its words tell
//! it from a whole list, and their language is chosen when it is built.

use super::Error;
use crate::reply::Reply;

/// What stands before the number of names, in every language that it can be built in, as the bytes it sends.
const BEFORE: [&[u8]; 21] = [
    b"Output truncated to ",
    b"V\xfdstup zkr\xe1cen na ",
    b"Data afrundet til ",
    b"Anzeige auf ",
    b"Salida truncada a ",
    b"Sortie tronquee a ",
    b"Je t'en file ",
    b"Kimenet ",
    b"Output troncato a ",
    b"Output afgekort naar ",
    b"Resultat er avkortet til ",
    b"Wyj\xb6cie obci\xeate do ",
    b"Resultado truncado em ",
    b"Rezultat trunchiat la ",
    b"\xf7\xd9\xd7\xcf\xc4 \xcf\xc2\xd2\xc5\xda\xc1\xce \xc4\xcf ",
    b"Vystup skrateny na ",
    b"Rezultati i shkurtuar ne ",
    b"Utdata trunkeras till ",
    b"\xc7\xfdkt\xfd k\xfdsaltmas\xfd ",
    b"\xca\xe4\xb3\xf6\xbd\xd8\xb6\xcc\xb5\xbd ",
    b"\xbf\xe9\xa5X\xbaI\xb5u\xa8\xec ",
];

/// In Korean the number comes first.
const BEHIND: &[u8] = b" \xb0\xb3\xc0\xc7 ";

/// An error where a server says of a list that it has sent that names are missing.
pub(super) fn not_truncated(reply: &Reply) -> Result<(), Error> {
    let last = reply.lines.last().map_or(&[][..], |line| line.trim_ascii_start());
    if says_truncated(last) { Err(Error::ListingTruncated(reply.shown())) } else { Ok(()) }
}

fn says_truncated(line: &[u8]) -> bool {
    let Some(number) = line.iter().position(u8::is_ascii_digit) else { return false };
    let (before, rest) = line.split_at(number);
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    BEFORE.contains(&before) || before.is_empty() && rest[digits..].starts_with(BEHIND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_cut_short_where_the_server_says_so_in_any_language() {
        for line in [
            &b"Output truncated to 5 matches"[..],
            b"Anzeige auf 10000 Eintr\xc3\xa4ge beschr\xc3\xa4nkt.",
            b"Sortie tronquee a 2000 elements",
            b"5 \xb0\xb3\xc0\xc7 \xb0\xe1\xb0\xfa \xc7\xa5\xbd\xc3",
        ] {
            assert!(says_truncated(line), "{}", line.escape_ascii());
        }
        for line in [
            &b"5 matches total"[..],
            b"in totaal 5 overeenstemmingen",
            b"Spolu 5 shod",
            b"5 \xb0\xa1 \xc0\xcf\xc4\xa1\xb5\xca",
            b"Transfer complete",
            b"Successfully transferred \"/logs-truncated/Output truncated to 5 matches\"",
            b"",
        ] {
            assert!(!says_truncated(line), "{}", line.escape_ascii());
        }
    }

    #[test]
    fn the_last_line_of_a_reply_counts() {
        let reply = |lines: &[&[u8]]| Reply { code: 226, lines: lines.iter().map(|line| line.to_vec()).collect() };
        assert!(not_truncated(&reply(&[b"Options: -a -l ", b" Output truncated to 5 matches"])).is_err());
        assert!(not_truncated(&reply(&[b"Options: -a -l ", b"5 matches total"])).is_ok());
    }
}
