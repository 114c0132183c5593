//! halprof.inf: driver.inx with its tokens filled in, as the WDK's stampinf does.

use anyhow::{Result, ensure};
use der::DateTime;

/// The values to stamp.
pub(super) struct Stamp<'a> {
    pub(super) date: DateTime,
    /// The package's version; DriverVer needs a fourth part, which is 0.
    pub(super) version: &'a str,
    /// The minimum KMDF version that the driver requires.
    pub(super) kmdf: &'a str,
}

impl Stamp<'_> {
    /// Stamps `inx`; the result has Windows line endings.
    pub(super) fn apply(&self, inx: &str) -> Result<String> {
        let driver_ver = format!(
            "DriverVer   = {:02}/{:02}/{:04},{}.0",
            self.date.month(),
            self.date.day(),
            self.date.year(),
            self.version
        );
        let mut dated = false;
        let mut inf = String::new();
        for line in inx.lines() {
            if line.starts_with("DriverVer ") {
                inf.push_str(&driver_ver);
                dated = true;
            } else {
                let line = line.replace("$ARCH$", "amd64");
                inf.push_str(&line.replace("$KMDFVERSION$", self.kmdf));
            }
            inf.push_str("\r\n");
        }
        ensure!(dated, "driver.inx has no DriverVer to stamp");
        if let Some(line) = inf.lines().find(|line| has_token(line)) {
            anyhow::bail!("driver.inx has a token that is not known here: {line}");
        }
        Ok(inf)
    }
}

/// Whether a `$TOKEN$` is left. The signature "$WINDOWS NT$" has a space, so it is not one.
fn has_token(line: &str) -> bool {
    let parts: Vec<&str> = line.split('$').collect();
    let [_, between @ .., _] = &parts[..] else {
        return false;
    };
    between.iter().any(|part| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp<'_> = Stamp { date: DateTime::INFINITY, version: "1.2.3", kmdf: "1.31" };

    #[test]
    fn every_token_is_filled_in() {
        let inx = "\"$WINDOWS NT$\"\nDriverVer   =\nNT$ARCH$.10.0\nK = $KMDFVERSION$\n";
        let inf =
            "\"$WINDOWS NT$\"\r\nDriverVer   = 12/31/9999,1.2.3.0\r\nNTamd64.10.0\r\nK = 1.31\r\n";
        assert_eq!(STAMP.apply(inx).unwrap(), inf);
    }

    #[test]
    fn an_unknown_token_is_refused() {
        let refused = STAMP.apply("DriverVer   =\nK = $UMDFVERSION$\n");
        assert!(refused.unwrap_err().to_string().contains("$UMDFVERSION$"));
    }

    #[test]
    fn a_file_without_driver_ver_is_refused() {
        assert!(STAMP.apply("[Version]\n").is_err());
    }
}
