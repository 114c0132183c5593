//! `halprof install`: the device node and the driver package.

use crate::cli::args::Install;
use crate::output::Output;
use crate::output::error::Result;
use halprof_setup::installation::{self, Installed};

pub(crate) fn run(options: &Install, output: &Output) -> Result<u32> {
    let inf = options.inf.clone();
    let inf = inf.unwrap_or_else(installation::beside_the_tool);
    let installed = installation::install(&inf)?;
    output.result("install", &installed, text)?;
    Ok(0)
}

fn text(installed: &Installed) -> String {
    let done = if installed.created { "installed" } else { "updated" };
    let next = if installed.restart {
        "Windows asks for a restart before the driver runs."
    } else {
        "The driver runs. `halprof doctor` shows whether it can measure."
    };
    let package = installed.package.as_deref().unwrap_or("its package");
    format!("{done}  {} by {package}\n{next}\n", installed.device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_the_device_and_whether_it_runs() {
        for restart in [false, true] {
            let text = text(&Installed {
                device: r"ROOT\HALPROF\0000".to_owned(),
                package: Some("oem12.inf".to_owned()),
                created: !restart,
                restart,
            });
            assert_eq!(text.contains("restart"), restart, "{text}");
            assert_eq!(text.starts_with("updated"), restart, "{text}");
            assert!(text.contains(r"ROOT\HALPROF\0000 by oem12.inf"), "{text}");
        }
    }
}
