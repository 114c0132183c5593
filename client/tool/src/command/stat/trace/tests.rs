use super::super::run;
use crate::cli::args::Commands;
use crate::output::error::Result;
use crate::run::tracing::fake::{Asked, command, context};
use halprof_measure::tracing::TraceRequest;
use std::cell::RefCell;
use std::rc::Rc;

fn stat(arguments: &[&str]) -> (Result<u32>, Rc<RefCell<Asked>>) {
    let (mut ctx, asked) = context();
    let (Commands::Stat(options), output) = command(&[&["stat"], arguments].concat()) else {
        panic!("{arguments:?}");
    };
    (run(&options, &mut ctx, &output), asked)
}

#[test]
fn a_session_counts_what_is_named_or_as_much_as_there_are_counters_for() {
    for (list, counted) in [
        (&[][..], &[19, 2][..]),
        (&["-e", "CacheMisses"], &[10]),
        (&["-e", "instructions,cycles", "--by", "thread", "-I", "5"], &[2, 19]),
    ] {
        let (status, asked) = stat(&[&["-d", "0.01"], list].concat());
        assert_eq!(status.expect("counted"), 0, "{list:?}");
        let counted = counted.to_vec();
        let request = TraceRequest { sampled: Vec::new(), counted, stacks: false };
        assert_eq!((&asked.borrow().requests, asked.borrow().running), (&vec![request], false));
    }
}

#[test]
fn what_a_session_cannot_count_is_refused_and_nothing_is_started() {
    for (arguments, named) in [
        (&["--topdown"][..], "--topdown"),
        (&["--passes"], "--passes"),
        (&["--repeat", "2"], "--repeat"),
        (&["--rotate", "5"], "--rotate"),
        (&["-e", "cycles:u"], "cycles:u"),
        (&["-e", "Timer"], "Timer is time"),
        (&["-e", "cycles,instructions,CacheMisses"], "3"),
    ] {
        let (status, asked) = stat(&[&["-d", "0.01"], arguments].concat());
        let error = status.expect_err("refused");
        assert_eq!((error.code(), error.exit_status()), ("unavailable", 4), "{arguments:?}");
        assert!(error.to_string().contains(named), "{error}");
        assert!(asked.borrow().requests.is_empty(), "{arguments:?}");
    }
}

/// A program that cannot be started leaves no session.
#[test]
fn a_session_ends_whatever_ends_the_counting() {
    let (status, asked) = stat(&["--", "/no/such/program"]);
    assert_eq!(status.expect_err("there is none").code(), "file");
    assert_eq!((asked.borrow().requests.len(), asked.borrow().running), (1, false));
}
