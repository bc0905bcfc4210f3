//! A grid of a test's own: an authority with its signing policy, and certificates and proxies that it vouches for.

#![allow(dead_code, reason = "each test program uses a part of it")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the finding")]
#![allow(clippy::disallowed_methods, reason = "makes the files of certificates")]

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::sync::OnceLock;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CustomExtension, DistinguishedName, DnType,
    IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SerialNumber, date_time_ymd,
};
use tempfile::TempDir;

/// What a proxy may do, as its certificate says it.
pub const FULL: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 1];
pub const INDEPENDENT: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 21, 2];
pub const LIMITED: &[u8] = &[0x2b, 6, 1, 4, 1, 0x9b, 0x50, 1, 1, 1, 9];

const POLICY: &str =
    "access_id_CA X509 '/O=Grid/OU=CA'\npos_rights globus CA:sign\ncond_subjects globus '\"/O=Grid/*\"'\n";

/// Somebody with a certificate.
pub struct Entity {
    parameters: CertificateParams,
    key: KeyPair,
    /// Its certificates, the own first, in PEM.
    chain: String,
}

/// A grid.
pub struct Grid {
    directory: TempDir,
    authority: Entity,
}

fn named(unit: &str, hosts: &[&str]) -> CertificateParams {
    let hosts: Vec<_> = hosts.iter().map(|host| (*host).to_owned()).collect();
    let mut parameters = CertificateParams::new(hosts).unwrap();
    parameters.distinguished_name = DistinguishedName::new();
    parameters.distinguished_name.push(DnType::OrganizationName, "Grid");
    parameters.distinguished_name.push(DnType::OrganizationalUnitName, unit);
    parameters
}

impl Grid {
    /// One with `host` (for 127.0.0.1) and `anna`, and her proxy `proxy`, in files of these names.
    pub fn new() -> Self {
        let mut parameters = named("CA", &[]);
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let chain = parameters.self_signed(&key).unwrap().pem();
        let grid = Self { directory: tempfile::tempdir().unwrap(), authority: Entity { parameters, key, chain } };
        grid.authorities("authorities", None);
        grid.write("host", &grid.signed("Host", &["127.0.0.1", "localhost"]));
        let anna = grid.signed("Anna", &[]);
        grid.write("anna", &anna);
        grid.write("proxy", &grid.proxy(&anna, FULL, 4000));
        grid
    }

    /// The one of this process.
    pub fn of_process() -> &'static Self {
        static GRID: OnceLock<Grid> = OnceLock::new();
        GRID.get_or_init(Self::new)
    }

    /// Whatever has this name here.
    pub fn path(&self, name: &str) -> String {
        self.directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// The driver with attributes, in which `@` stands for the directory. It trusts the grid's authority unless they say
    /// otherwise.
    pub fn gsi(&self, attributes: &str) -> String {
        let all = match attributes.contains("authorities=") {
            true => attributes.to_owned(),
            false => format!("{attributes};authorities=@authorities"),
        };
        format!("gsi:{}", all.replace('@', &self.path("")))
    }

    /// Somebody whom the authority vouches for.
    pub fn signed(&self, unit: &str, hosts: &[&str]) -> Entity {
        Self::signed_by(named(unit, hosts), &self.authority, "")
    }

    /// The same for some years alone.
    pub fn signed_for(&self, unit: &str, hosts: &[&str], (from, until): (i32, i32)) -> Entity {
        let mut parameters = named(unit, hosts);
        (parameters.not_before, parameters.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(until, 1, 1));
        Self::signed_by(parameters, &self.authority, "")
    }

    fn signed_by(parameters: CertificateParams, signer: &Entity, above: &str) -> Entity {
        let key = KeyPair::generate().unwrap();
        let issuer = Issuer::from_params(&signer.parameters, &signer.key);
        let chain = parameters.signed_by(&key, &issuer).unwrap().pem() + above;
        Entity { parameters, key, chain }
    }

    /// A proxy with this policy.
    pub fn proxy(&self, of: &Entity, policy: &[u8], until: i32) -> Entity {
        let mut parameters = named("", &[]);
        parameters.distinguished_name = of.parameters.distinguished_name.clone();
        parameters.distinguished_name.push(DnType::CommonName, "1");
        parameters.not_after = date_time_ymd(until, 1, 1);
        let head = |tag: u8, content: &[u8]| [&[tag, content.len() as u8], content].concat();
        let info = head(0x30, &head(0x30, &head(6, policy)));
        let mut extension = CustomExtension::from_oid_content(&[1, 3, 6, 1, 5, 5, 7, 1, 14], info);
        extension.set_criticality(true);
        parameters.custom_extensions.push(extension);
        Self::signed_by(parameters, of, &of.chain)
    }

    /// Writes the certificates and the key, as a proxy's file has them.
    pub fn write(&self, name: &str, entity: &Entity) {
        let path = self.path(name);
        fs::write(&path, format!("{}{}", entity.chain, entity.key.serialize_pem())).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }

    /// Somebody with a certificate of this number, and authorities that have revoked it.
    pub fn revoked(&self, unit: &str, hosts: &[&str], authorities: &str) -> Entity {
        let mut parameters = named(unit, hosts);
        parameters.serial_number = Some(SerialNumber::from(77));
        self.authorities(authorities, Some(77));
        Self::signed_by(parameters, &self.authority, "")
    }

    /// The directory of authorities, with a list of one revoked certificate.
    fn authorities(&self, name: &str, revoked: Option<u64>) {
        let directory = self.directory.path().join(name);
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("01234567.0"), &self.authority.chain).unwrap();
        fs::write(directory.join("01234567.signing_policy"), POLICY).unwrap();
        let Some(number) = revoked else { return };
        let one = RevokedCertParams {
            serial_number: SerialNumber::from(number),
            revocation_time: date_time_ymd(2020, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(2020, 1, 1),
            next_update: date_time_ymd(4000, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: vec![one],
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&Issuer::from_params(&self.authority.parameters, &self.authority.key)).unwrap();
        fs::write(directory.join("01234567.r0"), list.pem().unwrap()).unwrap();
    }
}
