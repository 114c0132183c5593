//! The command that counts a hot function exactly.

use halprof_profile::file::Metadata;
use halprof_profile::symbols::Opened;

/// The command that executes a function of a module step by step, if the module's file is at hand and can
/// be run. A model's program is not run by a command, but the file that it is of can be.
pub(crate) fn command(function: &str, module: &Opened, recorded: &Metadata) -> Option<String> {
    let is_kernel = module.module.process.is_none();
    // A name with a quote would end the argument in a shell, and a stranger may have chosen the name.
    let has_name = !function.is_empty() && !function.contains('\'');
    let file = module.image.as_deref().filter(|_| !is_kernel && has_name)?;
    // The built-in program has a name and no file.
    file.parent().filter(|folder| !folder.as_os_str().is_empty())?;
    let program = match (recorded.modelled, recorded.command.is_empty()) {
        (true, _) => file.display().to_string(),
        (false, false) => recorded.command.join(" "),
        (false, true) => "PROGRAM".to_owned(),
    };
    Some(format!("halprof simulate --range '{function}' -- {program}"))
}
