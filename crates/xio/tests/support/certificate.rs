//! A certificate that both ends of a test's connections show and trust.

use std::sync::OnceLock;

use tempfile::TempDir;
use xdfs_secure::identity::{KeyPair, x509};

/// The driver `tls` with its attributes.
pub fn tls() -> &'static str {
    static CERTIFICATE: OnceLock<(TempDir, String)> = OnceLock::new();
    let (_, tls) = CERTIFICATE.get_or_init(|| {
        let directory = tempfile::tempdir().unwrap();
        let (pem, key_file) = (directory.path().join("pem"), directory.path().join("key"));
        let key = KeyPair::generate().unwrap();
        std::fs::write(&pem, x509::certificate_pem(&key, &["127.0.0.1".to_owned()]).unwrap()).unwrap();
        std::fs::write(&key_file, x509::private_pem(&key).as_bytes()).unwrap();
        let (pem, key_file) = (pem.display(), key_file.display());
        let attributes = format!("certificate={pem};key={key_file};trust={pem}");
        (directory, format!("tls:{attributes}"))
    });
    tls
}
