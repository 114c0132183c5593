//! Where the counts of a thread come from, and how that is chosen.

use super::counters::{Counters, Direct, Processors, Profiled};
use crate::count::Sources;
use crate::error::{Error, Result};
use crate::platform::{Platform, refused};
use crate::session::Session;
use crate::session::SessionConnection;
use crate::transport::Transport;
#[cfg(windows)]
use crate::windows::threads::Windows;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared_types::request::threads::ThreadCounter;
use std::fmt::Debug;
#[cfg(windows)]
use std::sync::LazyLock;
use std::sync::{Arc, Mutex};

/// The sources of a thread's counts, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Windows accumulates the counters for the thread at each context switch, and the thread reads
    /// its own totals (ReadThreadProfilingData): exact, wherever the thread runs.
    ThreadProfiling,
    /// The thread reads its processor's counters (RDPMC). This is the fastest method; a passage
    /// during which the thread was switched is discarded and counted. Meanwhile every program on
    /// the machine can read the counters.
    Rdpmc,
    /// The driver reads whole processors: everything that they do in the meantime is in the counts.
    Processors,
    /// Windows' own tracing writes the counters at each context switch, without the driver. The thread
    /// waits before and after each region, which forces a switch. The counts include the kernel's work
    /// and the interrupts while the thread runs.
    Tracing,
}

impl Method {
    /// The method in words, as the rest of a sentence.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::ThreadProfiling => "of the thread alone, by Windows' thread profiling",
            Self::Rdpmc => "of the thread alone, by RDPMC between two context switches",
            Self::Processors => {
                "of whole processors, with all that ran there, not of the thread alone"
            }
            Self::Tracing => "of the thread alone, by the context switches of Windows' own tracing",
        }
    }
}

/// The operating system that this runs on, if it supports this; `None` for a modelled machine, on
/// which no thread runs.
pub(super) fn platform(modelled: bool) -> Option<&'static dyn Platform> {
    #[cfg(windows)]
    {
        static WINDOWS: LazyLock<Windows> = LazyLock::new(Windows::new);
        (!modelled).then(|| &*WINDOWS as &dyn Platform)
    }
    #[cfg(not(windows))]
    {
        let _ = modelled;
        None
    }
}

/// The chosen method, with what it needs.
#[derive(Debug)]
pub(super) enum Offer<'a> {
    Thread {
        platform: &'a dyn Platform,
        rdpmc: bool,
        /// The mask for EnableThreadProfiling; 0 where RDPMC reads the counters.
        mask: u64,
        counters: Arc<[ThreadCounter]>,
    },
    /// The platform is absent on a modelled machine.
    Processors(Option<&'a dyn Platform>),
}

impl<'a> Offer<'a> {
    pub(super) const fn method(&self) -> Method {
        match self {
            Self::Thread { rdpmc: false, .. } => Method::ThreadProfiling,
            Self::Thread { rdpmc: true, .. } => Method::Rdpmc,
            Self::Processors(_) => Method::Processors,
        }
    }

    pub(super) fn clock_in_words(&self) -> String {
        match self {
            Self::Thread { platform, .. } | Self::Processors(Some(platform)) => platform.clock(),
            Self::Processors(None) => "modelled time".to_owned(),
        }
    }

    pub(super) fn counters<T: Transport + Send + 'a>(
        &self,
        session: &Arc<Mutex<Session<'a, T>>>,
        processors: &[u32],
    ) -> Result<Box<dyn Counters + 'a>> {
        match self {
            Self::Thread { platform, rdpmc, mask, counters } => {
                let profile = platform.profile(*mask).map_err(refused)?;
                Ok(if *rdpmc {
                    Box::new(Direct {
                        platform: *platform,
                        profile,
                        counters: Arc::clone(counters),
                    })
                } else {
                    Box::new(Profiled { platform: *platform, profile })
                })
            }
            Self::Processors(platform) => Ok(Box::new(Processors {
                session: Arc::clone(session),
                indexes: processors.to_vec(),
                platform: *platform,
            })),
        }
    }
}

/// Starts the session by the best method that works, or by the requested one; also returns why better
/// methods do not work.
pub(super) fn choose<'a, T: Transport>(
    connection: SessionConnection<'a, T>,
    sources: &Sources,
    requested: Option<Method>,
    platform: Option<&'a dyn Platform>,
) -> Result<(Session<'a, T>, Offer<'a>, Vec<String>)> {
    let mut session = sources.open(connection)?;
    let mut rejected = Vec::new();
    for method in [Method::ThreadProfiling, Method::Rdpmc] {
        if requested.is_some_and(|requested| requested != method) {
            continue;
        }
        let tried = match platform {
            Some(platform) => by_thread(&mut session, sources, method, platform),
            None => Err(no_threads()),
        };
        match tried {
            Ok(offer) => return Ok((session, offer, rejected)),
            Err(error) if requested == Some(method) => return Err(error),
            // On a model nobody expects another method, so the reason is not worth showing.
            Err(_) if platform.is_none() => {}
            Err(error) => rejected.push(format!("not counted {}: {error}", method.in_words())),
        }
    }
    session.configure(&sources.setup(), false).map_err(|error| sources.named_in(error))?;
    session.start()?;
    Ok((session, Offer::Processors(platform), rejected))
}

fn no_threads() -> Error {
    Error::unavailable(
        "counts of one thread come from Windows and its driver, not from a modelled machine",
        "Count whole processors, which on a modelled machine do nothing else.",
    )
}

fn by_thread<'a, T: Transport>(
    session: &mut Session<'_, T>,
    sources: &Sources,
    method: Method,
    platform: &'a dyn Platform,
) -> Result<Offer<'a>> {
    session.configure(&sources.by_thread(), false).map_err(|error| sources.named_in(error))?;
    session.start()?;
    let offered = offer(session, method, platform);
    if offered.is_err() {
        // The next method configures the session again, and CONFIGURE takes a stopped one only.
        session.stop()?;
    }
    offered
}

fn offer<'a, T: Transport>(
    session: &mut Session<'_, T>,
    method: Method,
    platform: &'a dyn Platform,
) -> Result<Offer<'a>> {
    let rdpmc = method == Method::Rdpmc;
    let (mask, counters) = session.thread_counters()?;
    let mask = if rdpmc { 0 } else { mask };
    // This thread tries it once, on behalf of all threads that will count, and stops at once,
    // because Windows profiles a thread once at a time. A refusal comes before RDPMC is allowed, so
    // that nothing is left to give back.
    platform.profile(mask).map_err(refused)?;
    if rdpmc {
        session.allow_rdpmc()?;
    }
    Ok(Offer::Thread { platform, rdpmc, mask, counters: counters.into() })
}
