//! `halprof start` and `halprof stop`: load and unload the installed driver.

use crate::output::Output;
use crate::output::error::Result;
use halprof_setup::installation::{self, Switched};

pub(crate) fn start(output: &Output) -> Result<u32> {
    let started = installation::start()?;
    output.result("start", &started, |started| text(started, ["started", "runs already"]))?;
    Ok(0)
}

pub(crate) fn stop(output: &Output) -> Result<u32> {
    let stopped = installation::stop()?;
    output.result("stop", &stopped, |stopped| text(stopped, ["stopped", "stopped already"]))?;
    Ok(0)
}

fn text(switched: &Switched, [done, already]: [&str; 2]) -> String {
    let what = if switched.changed { done } else { already };
    let restart = if switched.restart { "Windows asks for a restart to finish.\n" } else { "" };
    format!("{what}  {}\n{restart}", switched.devices.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_tells_whether_there_was_anything_to_do() {
        for (changed, first) in [(true, "stopped  ROOT"), (false, "stopped already  ROOT")] {
            let text = text(
                &Switched {
                    devices: vec![r"ROOT\HALPROF\0000".to_owned()],
                    changed,
                    restart: changed,
                },
                ["stopped", "stopped already"],
            );
            assert!(text.starts_with(first), "{text}");
            assert_eq!(text.contains("restart"), changed, "{text}");
        }
    }
}
