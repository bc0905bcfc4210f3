//! Where the metrics are answered: on this machine only.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where the metrics are answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MetricsPlace {
    /// A Unix socket, for the server's user and group.
    Unix(PathBuf),
    /// A port on a loopback address.
    Tcp(SocketAddr),
}

impl fmt::Display for MetricsPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) => write!(f, "unix:{}", path.display().to_string().escape_debug()),
            Self::Tcp(address) => address.fmt(f),
        }
    }
}

/// Reads `unix:PATH` or a loopback address with a port.
pub fn parse_place(text: &str) -> Result<MetricsPlace, String> {
    let shown = text.escape_debug();
    if let Some(path) = text.strip_prefix("unix:") {
        let path = PathBuf::from(path);
        return match path.file_name() {
            Some(_) if !text.contains('\0') => Ok(MetricsPlace::Unix(path)),
            _ => Err(format!("'{shown}' names no socket\nhelp: write it as unix:/run/xdfs/metrics.sock")),
        };
    }
    let address = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    let address: SocketAddr = address.as_deref().unwrap_or(text).parse().map_err(|_| {
        format!(
            "'{shown}' is no place for metrics\nhelp: write unix:PATH, or a loopback address such as 127.0.0.1:9280"
        )
    })?;
    if address.ip().to_canonical().is_loopback() {
        return Ok(MetricsPlace::Tcp(address));
    }
    Err(format!("'{shown}' can be reached from other machines\nhelp: write unix:PATH, or a loopback address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_stay_on_this_machine() {
        assert_eq!(parse_place("unix:/run/x/m"), Ok(MetricsPlace::Unix("/run/x/m".into())));
        for text in ["127.0.0.1:9280", "127.3.4.5:1", "[::1]:9280", "[::ffff:127.0.0.1]:9280", "localhost:9280"] {
            assert!(matches!(parse_place(text), Ok(MetricsPlace::Tcp(_))), "{text}");
        }
        for text in ["0.0.0.0:9280", "[::]:9280", "192.0.2.1:9280", "[fe80::1]:9280"] {
            assert!(parse_place(text).is_err_and(|error| error.contains("other machines")), "{text}");
        }
        for text in ["", "9280", "unix:", "unix:/", "example.org:9280", "127.0.0.1"] {
            assert!(parse_place(text).is_err_and(|error| error.contains("write")), "{text}");
        }
    }
}
