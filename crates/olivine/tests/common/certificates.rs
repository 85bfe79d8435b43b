//! Certificates of a test: an authority, and the certificates that it signs.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use std::path::{Path, PathBuf};

/// An authority and the certificates that it signed, as PEM files in a separate folder.
pub(crate) struct Authority {
    folder: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// The role of a certificate's owner.
#[derive(Clone, Copy)]
pub(crate) enum Purpose {
    /// The listening side.
    Server,
    /// The connecting side.
    Client,
}

impl Authority {
    /// A new authority.
    pub(crate) fn new(name: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        std::fs::write(folder.path().join("ca.pem"), certificate.pem()).expect("a file");
        Self {
            folder,
            issuer: Issuer::new(params, key),
        }
    }

    /// File of the authority's certificate.
    pub(crate) fn ca(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Signs a certificate; `change` may damage it. Returns `tls_cert=` and `tls_key=` for it.
    pub(crate) fn sign(
        &self,
        name: &str,
        purpose: Purpose,
        change: impl FnOnce(&mut CertificateParams),
    ) -> String {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(names).expect("names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![match purpose {
            Purpose::Server => ExtendedKeyUsagePurpose::ServerAuth,
            Purpose::Client => ExtendedKeyUsagePurpose::ClientAuth,
        }];
        change(&mut params);
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("a certificate");
        let file = |what: &str| self.folder.path().join(format!("{name}.{what}.pem"));
        std::fs::write(file("cert"), certificate.pem()).expect("a file");
        std::fs::write(file("key"), key.serialize_pem()).expect("a file");
        identity(&file("cert"), &file("key"))
    }
}

/// `tls_cert=` and `tls_key=` of these files.
pub(crate) fn identity(certificate: &Path, key: &Path) -> String {
    format!(
        "tls_cert={}&tls_key={}",
        certificate.display(),
        key.display()
    )
}
