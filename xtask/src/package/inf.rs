//! halprof.inf: driver.inx with its tokens filled in, as the WDK's stampinf does.

use anyhow::{Result, ensure};
use der::DateTime;

/// Stamps `inx` with the date, the package's version and the minimum KMDF version that the driver
/// requires; the result has Windows line endings.
pub(super) fn stamped(inx: &str, date: DateTime, version: &str, kmdf: &str) -> Result<String> {
    // DriverVer needs a fourth part of the version.
    let driver_ver = format!(
        "DriverVer   = {:02}/{:02}/{:04},{version}.0",
        date.month(),
        date.day(),
        date.year(),
    );
    let mut dated = false;
    let mut inf = String::new();
    for line in inx.lines() {
        if line.starts_with("DriverVer ") {
            inf.push_str(&driver_ver);
            dated = true;
        } else {
            let line = line.replace("$ARCH$", "amd64");
            inf.push_str(&line.replace("$KMDFVERSION$", kmdf));
        }
        inf.push_str("\r\n");
    }
    ensure!(dated, "driver.inx has no DriverVer to stamp");
    if let Some(line) = inf.lines().find(|line| has_token(line)) {
        anyhow::bail!("driver.inx has a token that is not known here: {line}");
    }
    Ok(inf)
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

    fn of(inx: &str) -> Result<String> {
        stamped(inx, DateTime::INFINITY, "1.2.3", "1.31")
    }

    #[test]
    fn every_token_is_filled_in() {
        let inx = "\"$WINDOWS NT$\"\nDriverVer   =\nNT$ARCH$.10.0\nK = $KMDFVERSION$\n";
        let inf =
            "\"$WINDOWS NT$\"\r\nDriverVer   = 12/31/9999,1.2.3.0\r\nNTamd64.10.0\r\nK = 1.31\r\n";
        assert_eq!(of(inx).unwrap(), inf);
    }

    #[test]
    fn an_unknown_token_is_refused() {
        let refused = of("DriverVer   =\nK = $UMDFVERSION$\n");
        assert!(refused.unwrap_err().to_string().contains("$UMDFVERSION$"));
    }

    #[test]
    fn a_file_without_driver_ver_is_refused() {
        assert!(of("[Version]\n").is_err());
    }
}
