//! The test certificate, and signing with it.
//!
//! It is self-signed: Windows trusts it only if test signing is on and the certificate was added to
//! the stores. Its key never leaves `target/`.

use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use xshell::{Shell, cmd};

/// The request for `openssl req`: a certificate that can only sign code.
const REQUEST: &str = "
[req]
prompt = no
distinguished_name = name
x509_extensions = extensions
[name]
CN = halprof test certificate
[extensions]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = critical, codeSigning
subjectKeyIdentifier = hash
";

const ONE_WEEK: &str = "604800";

/// For how long a certificate is valid. It is made anew when it is needed, and while it is in *Root*,
/// whoever has its key can sign for that machine.
const DAYS: u32 = 90;

/// The paths of the certificate and its key.
pub(super) struct Certificate {
    key: PathBuf,
    pem: PathBuf,
}

impl Certificate {
    /// The certificate in `folder`; created there if it is missing, about to expire, or one that is
    /// valid for longer than it has to be.
    pub(super) fn in_folder(shell: &Shell, folder: &Path) -> Result<Self> {
        shell.create_dir(folder)?;
        let certificate =
            Self { key: folder.join("halprof-test.key"), pem: folder.join("halprof-test.pem") };
        if !certificate.is_good(shell) {
            certificate.make(shell, DAYS)?;
        }
        Ok(certificate)
    }

    /// Writes the certificate, without its key, in the format that Windows imports.
    pub(super) fn export(&self, shell: &Shell, der: &Path) -> Result<()> {
        let Self { pem, .. } = self;
        cmd!(shell, "openssl x509 -in {pem} -outform DER -out {der}")
            .quiet()
            .run()
            .context("the test certificate cannot be exported")
    }

    /// Signs an image or a catalog into a new file.
    pub(super) fn sign(&self, shell: &Shell, unsigned: &Path, signed: &Path) -> Result<()> {
        let Self { key, pem } = self;
        // osslsigncode does not overwrite files.
        shell.remove_path(signed)?;
        cmd!(
            shell,
            "osslsigncode sign -h sha256 -certs {pem} -key {key} -in {unsigned} -out {signed}"
        )
        .quiet()
        .ignore_stdout()
        .run()
        .with_context(|| format!("{} cannot be signed", unsigned.display()))
    }

    fn is_good(&self, shell: &Shell) -> bool {
        let Self { key, pem } = self;
        let too_long = ((DAYS + 1) * 24 * 60 * 60).to_string();
        let lasts = |seconds: &str| {
            cmd!(shell, "openssl x509 -in {pem} -noout -checkend {seconds}")
                .quiet()
                .ignore_stdout()
                .ignore_stderr()
                .run()
                .is_ok()
        };
        shell.path_exists(key) && lasts(ONE_WEEK) && !lasts(&too_long)
    }

    fn make(&self, shell: &Shell, days: u32) -> Result<()> {
        let Self { key, pem } = self;
        let days = days.to_string();
        cmd!(
            shell,
            "openssl req -x509 -newkey rsa:3072 -sha256 -nodes -days {days} -config /dev/stdin
             -keyout {key} -out {pem}"
        )
        .stdin(REQUEST)
        .quiet()
        .ignore_stderr()
        .run()
        .context("openssl does not make a test certificate")
    }
}
