//! Numbers as IPerf and globus-xioperf read them: `64K`, `10M`, `2G`, where K is 1024.

/// A number of bytes or bits with an optional K, M or G, in either case.
pub(crate) fn parse(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let shift = match unit {
        "" => 0,
        "k" | "K" => 10,
        "m" | "M" => 20,
        "g" | "G" => 30,
        _ => {
            return Err("it is a whole number, with K, M or G behind it for 2^10, 2^20 or 2^30, such as 64K".to_owned());
        }
    };
    let number: u64 = match number.parse() {
        Ok(number) => number,
        Err(_) if number.is_empty() => return Err("the number is missing".to_owned()),
        Err(_) => return Err("it is too large".to_owned()),
    };
    number
        .checked_mul(1 << shift)
        .filter(|bytes| i64::try_from(*bytes).is_ok())
        .ok_or_else(|| "it is too large".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_k_is_1024_in_either_case() {
        for (text, bytes) in [("0", 0), ("17", 17), ("64K", 65_536), ("64k", 65_536), ("3M", 3 << 20), ("2g", 2 << 30)]
        {
            assert_eq!(parse(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_number_or_too_large_is_refused() {
        for text in ["", "K", "-1", "1.5M", "64KiB", "1T", "9223372036854775808", "99999999999999999999", "9G9"] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("8589934592G").is_err());
    }
}
