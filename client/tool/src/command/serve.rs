//! `halprof serve`: counts for Prometheus.
//!
//! The counters are read on this side's own clock. A request is answered with what was read last,
//! so that none of them, and no number of them, reaches the driver or changes anything.

mod http;
mod openmetrics;

use crate::On;
use crate::args;
use crate::output::Output;
use crate::runner::interrupted;
use crate::watch::{Watch, start};
use crate::{Error, Result};
use halprof_measure::rates::Rates;
use http::{Page, Server};
use openmetrics::{Exposition, Machine};
use serde::Serialize;
use shared_types::ProfileInterface;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Ctrl-C is looked for this often.
const LOOK_EVERY: Duration = Duration::from_millis(50);

#[derive(Serialize)]
struct Body {
    machine: String,
    address: SocketAddr,
    url: String,
}

pub(crate) fn run(options: &args::Serve, on: &mut On, output: &Output) -> Result<u8> {
    let local = options.listen.ip().is_loopback();
    if !local && !options.allow_remote {
        return Err(Error::usage(
            format!("{} can be reached from other machines", options.listen),
            "Listen on 127.0.0.1 or [::1], or say `--allow-remote`: whoever reaches the port can read the counts, without encryption.",
        ));
    }
    let mut watch = Watch::new(&options.selection, &options.watching, on)?;
    let interface = ProfileInterface::from_wire(on.connection.machine()?.interface);
    let machine = Machine {
        description: on.told.machine.clone(),
        modelled: on.told.modelled,
        interface: format!("{:?}", interface.unwrap_or(ProfileInterface::Default)),
        sources: watch.choice.labels(),
        processors: watch.choice.selected().copied().collect(),
        frequency: watch.frequency,
    };
    let mut rates = Rates::new(watch.frequency);
    let mut session = start(&mut on.connection, &watch.choice)?;
    let mut exposition = Exposition::new(machine);
    let interval = rates.take(session.snapshot()?);
    let first = exposition.text(&rates, &interval)?;
    let server = Server::start(options.listen, Page::new(&on.told, first))?;
    let body = Body {
        machine: on.told.machine.clone(),
        address: server.address(),
        url: format!("http://{}/metrics", server.address()),
    };
    if !local {
        output.note("other machines can read the counts, without encryption");
    }
    output.result("serve", on.told.modelled, &body, |body| {
        format!("{}\n", body.url)
    })?;
    let mut next = Instant::now() + watch.interval;
    while !interrupted() {
        let left = next.saturating_duration_since(Instant::now());
        if !left.is_zero() {
            std::thread::sleep(left.min(LOOK_EVERY));
            continue;
        }
        watch.clock.follow(session.transport())?;
        let interval = rates.take(session.snapshot()?);
        server.publish(exposition.text(&rates, &interval)?);
        exposition.missed += missed(next, watch.interval);
        next = (next + watch.interval).max(Instant::now());
    }
    session.stop()?;
    Ok(0)
}

/// How many readings would have been due since this one was.
fn missed(due: Instant, interval: Duration) -> u64 {
    let late = due.elapsed().as_nanos() / interval.as_nanos().max(1);
    u64::try_from(late).unwrap_or(u64::MAX)
}
