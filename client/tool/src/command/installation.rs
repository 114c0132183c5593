//! `halprof install`, `uninstall`, `start` and `stop`: the driver package on this Windows.

use crate::cli::args;
use crate::output::Output;
use crate::output::error::Result;
use crate::output::table::{Column, Width, table};
use halprof_setup::installation::{self, Installed, Removed, Switched};
use halprof_setup::tracing_rights::Changed;
use shared_types::device::SERVICE;

const RESTART: &str = "Windows asks for a restart to finish.\n";

pub(crate) fn install(options: &args::Install, output: &Output) -> Result<u32> {
    if let Some(user) = &options.user {
        let changed = installation::give_tracing(user)?;
        output.result("tracing", &changed, |changed| given_text(changed, output.width()))?;
        return Ok(0);
    }
    let inf = options.inf.clone();
    let inf = inf.unwrap_or_else(installation::beside_the_tool);
    let installed = installation::install(&inf)?;
    output.result("install", &installed, installed_text)?;
    Ok(0)
}

pub(crate) fn uninstall(options: &args::Uninstall, output: &Output) -> Result<u32> {
    if let Some(user) = &options.user {
        let changed = installation::take_tracing(user)?;
        output.result("tracing", &changed, |changed| taken_text(changed, output.width()))?;
        return Ok(0);
    }
    let removed = installation::uninstall()?;
    output.result("uninstall", &removed, |removed| removed_text(removed, output.width()))?;
    Ok(0)
}

pub(crate) fn start(output: &Output) -> Result<u32> {
    let started = installation::start()?;
    let words = ["started", "runs already"];
    output.result("start", &started, |started| switched_text(started, words))?;
    Ok(0)
}

pub(crate) fn stop(output: &Output) -> Result<u32> {
    let stopped = installation::stop()?;
    let words = ["stopped", "stopped already"];
    output.result("stop", &stopped, |stopped| switched_text(stopped, words))?;
    Ok(0)
}

fn installed_text(installed: &Installed) -> String {
    let done = if installed.created { "installed" } else { "updated" };
    let next = if installed.restart {
        "Windows asks for a restart before the driver runs."
    } else {
        "The driver runs. `halprof doctor` shows whether it can measure."
    };
    let package = installed.package.as_deref().unwrap_or("its package");
    format!("{done}  {} by {package}\n{next}\n", installed.device)
}

fn removed_text(removed: &Removed, width: Width) -> String {
    let devices = removed.devices.iter().map(|name| ("device", name.as_str()));
    let packages = removed.packages.iter().map(|name| ("driver package", name.as_str()));
    let service = removed.service.then_some(("service", SERVICE));
    let gone: Vec<_> = devices.chain(packages).chain(service).collect();
    if gone.is_empty() {
        return "Nothing to remove: the driver is not installed.\n".to_owned();
    }
    let columns = [Column::word("removed"), Column::name("name")];
    let rows = gone.iter().map(|(what, name)| [*what, *name].map(str::to_owned));
    table(width, &columns, rows) + if removed.restart { RESTART } else { "" }
}

/// What an account can do with what it was given, and from when.
const GIVEN: &str = "\
    Whoever signs in as it can measure by `--machine etw` without elevation, and sees the addresses \
    and command lines of all programs. The rights take effect at the next sign-in; Windows may \
    withhold them from an administrator's prompt that is not elevated. Files are in \
    %LOCALAPPDATA%\\halprof. `halprof doctor` in a prompt of that account shows whether the rights \
    are in force; `halprof uninstall --tracing` takes them back. None of this has run on a real Windows.";

/// When what was taken back ends.
const TAKEN: &str = "It ends when the account signs out.";

fn given_text(changed: &Changed, width: Width) -> String {
    changed_text(changed, ["given", "had before"], width) + &width.fitted(GIVEN) + "\n"
}

fn taken_text(changed: &Changed, width: Width) -> String {
    changed_text(changed, ["taken back", "was not given"], width) + TAKEN + "\n"
}

fn changed_text(changed: &Changed, [done, already]: [&str; 2], width: Width) -> String {
    let columns = [Column::word("change"), Column::prose("right")];
    let rows = changed.rights.iter().map(|right| {
        let change = if right.changed { done } else { already };
        [change.to_owned(), right.right.clone()]
    });
    format!("{} ({})\n{}", changed.account, changed.sid, table(width, &columns, rows))
}

fn switched_text(switched: &Switched, [done, already]: [&str; 2]) -> String {
    let what = if switched.changed { done } else { already };
    let restart = if switched.restart { RESTART } else { "" };
    format!("{what}  {}\n{restart}", switched.devices.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_account_was_given_is_listed_with_when_it_holds() {
        use halprof_setup::tracing_rights::{ChangedRight, Grant};
        let right = |grant: Grant| ChangedRight { right: grant.name().to_owned(), changed: true };
        let mut changed = Changed {
            account: r"PC\Ann".to_owned(),
            sid: "S-1-5-21-1-2-3-1001".to_owned(),
            rights: Grant::ALL.map(right).to_vec(),
        };
        changed.rights[1].changed = false;
        let given = given_text(&changed, Width::UNLIMITED);
        for part in [r"PC\Ann", "had before", "SeSystemProfilePrivilege", "next sign-in"] {
            assert!(given.contains(part), "{given}");
        }
        let taken = taken_text(&changed, Width::UNLIMITED);
        assert!(taken.contains("taken back") && taken.contains("was not given"), "{taken}");
    }

    #[test]
    fn the_text_names_what_was_changed_and_whether_windows_must_restart() {
        let devices = vec![r"ROOT\HALPROF\0000".to_owned()];
        let packages = vec!["oem12.inf".to_owned(), "oem7.inf".to_owned()];
        for restart in [false, true] {
            let installed = installed_text(&Installed {
                device: devices[0].clone(),
                package: Some(packages[0].clone()),
                created: !restart,
                restart,
            });
            let switched = Switched { devices: devices.clone(), changed: restart, restart };
            let switched = switched_text(&switched, ["stopped", "stopped already"]);
            let (devices, packages) = (devices.clone(), packages.clone());
            let removed = Removed { devices, packages, service: true, restart };
            let removed = removed_text(&removed, Width::UNLIMITED);
            for (text, named) in [
                (&installed, &[r"ROOT\HALPROF\0000 by oem12.inf"][..]),
                (&switched, &[r"ROOT\HALPROF\0000"]),
                (&removed, &[r"ROOT\HALPROF\0000", "oem12.inf", "oem7.inf", "service"]),
            ] {
                assert!(named.iter().all(|name| text.contains(name)), "{text}");
                assert_eq!(text.contains("restart"), restart, "{text}");
            }
            assert_eq!(installed.starts_with("updated"), restart, "{installed}");
            assert_eq!(switched.starts_with("stopped already"), !restart, "{switched}");
        }
        let nothing = removed_text(&Removed::default(), Width::UNLIMITED);
        assert!(nothing.starts_with("Nothing to remove"), "{nothing}");
    }
}
