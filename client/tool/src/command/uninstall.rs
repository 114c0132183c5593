//! `halprof uninstall`: removes everything that `halprof install` adds.

use crate::output::Output;
use crate::output::error::Result;
use crate::output::table::{Column, Width, table};
use halprof_setup::installation::{self, Removed};
use shared_types::device::SERVICE;

pub(crate) fn run(output: &Output) -> Result<u32> {
    let removed = installation::uninstall()?;
    output.result("uninstall", &removed, |removed| text(removed, output.width()))?;
    Ok(0)
}

fn text(removed: &Removed, width: Width) -> String {
    let devices = removed.devices.iter().map(|name| ("device", name.as_str()));
    let packages = removed.packages.iter().map(|name| ("driver package", name.as_str()));
    let service = removed.service.then_some(("service", SERVICE));
    let gone: Vec<_> = devices.chain(packages).chain(service).collect();
    if gone.is_empty() {
        return "Nothing to remove: the driver is not installed.\n".to_owned();
    }
    let columns = [Column::word("removed"), Column::name("name")];
    let rows = gone.iter().map(|(what, name)| [*what, *name].map(str::to_owned));
    let restart = if removed.restart { "Windows asks for a restart to finish.\n" } else { "" };
    table(width, &columns, rows) + restart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_names_all_that_went() {
        let removed = Removed {
            devices: vec![r"ROOT\HALPROF\0000".to_owned()],
            packages: vec!["oem12.inf".to_owned(), "oem7.inf".to_owned()],
            service: true,
            restart: true,
        };
        let text = text(&removed, Width::UNLIMITED);
        for name in [r"ROOT\HALPROF\0000", "oem12.inf", "oem7.inf", "service", "restart"] {
            assert!(text.contains(name), "{text}");
        }
    }

    #[test]
    fn where_nothing_was_it_says_so() {
        assert!(text(&Removed::default(), Width::UNLIMITED).starts_with("Nothing to remove"));
    }
}
