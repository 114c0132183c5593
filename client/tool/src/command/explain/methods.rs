//! The ways to measure: six questions, answered for each one.
//!
//! The numbers are those of docs/performance.md; tests keep them the same.

/// A way to measure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Method {
    /// Its name.
    pub(crate) name: &'static str,
    /// A summary.
    pub(crate) summary: &'static str,
    /// The answers, in the order of [`QUESTIONS`].
    pub(crate) answers: [&'static str; 6],
}

/// The questions.
pub(crate) const QUESTIONS: [&str; 6] = [
    "Extra instructions",
    "Code size",
    "Localisation",
    "Accuracy",
    "Time needed",
    "Hardware needed",
];

/// All methods.
pub(crate) const METHODS: &[Method] = &[
    Method {
        name: "counting",
        summary: "The processors count events between a start and a stop: `halprof stat`.",
        answers: [
            "None in the measured code, and no interrupts. With one counter on Intel version 4 the driver makes 22 + 1 register accesses (MSRs + RDPMC) on each processor to start (52 + 7 with all counters), most of them to prove that the counters count, and 7 + 1 to stop (18 + 7). In between, a snapshot (`-I`) costs one RDPMC per counter and one request for the whole machine.",
            "Unchanged: nothing is added to the program.",
            "None within the run: totals by processor, by user and kernel mode (`:u`, `:k`) and, with `-I`, by time.",
            "Exact for a source that has a counter the whole time: the last read is part of the stop, so no event is missed. Sources that take turns are estimates, each with a 95 % bound. Everything that runs on the processor is counted, including interrupts of other devices: `:u` leaves the kernel out, `-r` shows how much runs differ.",
            "One run; `-r N` gives a mean and its deviation over N runs.",
            "Counters that Windows can reserve. No interrupt.",
        ],
    },
    Method {
        name: "sampling",
        summary: "Every Nth event raises an interrupt, and its location is recorded: `halprof record`, `halprof report`.",
        answers: [
            "None in the measured code, but one interrupt per period: 5 + 1 register accesses on Intel version 2 and later, 4 + 1 on AMD PerfMonV2, fewer than 500 instructions of the driver, and what the processor needs to enter and leave. Interrupts take at most 10 % of a processor's time; beyond that the period is lengthened, and the result says so.",
            "Unchanged: nothing is added to the program.",
            "To within a few instructions: the interrupt comes late (skid), so the event happened at or before the address shown, in the order in which the code ran. The interrupt is maskable: code that runs with interrupts disabled is not sampled where it runs, but where they are enabled again.",
            "Statistical: a count of N samples is accurate to about the square root of N, so 10,000 samples give 1 %. Every sample is accounted for: generated = stored + lost, by cause; none is lost at 10,000 a second per processor.",
            "Until there are enough samples: about ten seconds at 1,000 a second, a rate that disturbs little. Several sources can be sampled at once.",
            "Counters with an overflow interrupt, and a local APIC to deliver it. A Pentium has none, nor do some virtual machines.",
        ],
    },
    Method {
        name: "regions",
        summary: "A program counts named parts of its own code, by thread, using the library `halprof-measure`, or `halprof_c` from C and Python.",
        answers: [
            "Two readings for each pass through a region, one at either end. A thread reads itself (Windows' thread profiling, or RDPMC where that is on); where neither works, two requests to the driver read whole processors, one RDPMC per counter. Only the end of the first reading and the start of the second fall into the region.",
            "Two calls in the source, and the library.",
            "Exactly the region, of one thread. Where whole processors are read, what else runs there is counted too, and the report says so.",
            "Exact counts. The cost of the readings is measured by empty regions, subtracted, and shown. The remaining error is interrupts in between: `:u` leaves them out, the most frequent value of many passes has none, and passes far above the median are culled and counted.",
            "About 100 passes until the most frequent value is certain; one more series for each set of sources that fits on the counters.",
            "Counters that Windows can reserve. No interrupt.",
        ],
    },
];

impl Method {
    /// Finds a method by its name, or by the command that uses it.
    #[must_use]
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        let name = match name.to_ascii_lowercase().as_str() {
            "stat" => "counting".to_owned(),
            "record" => "sampling".to_owned(),
            "region" => "regions".to_owned(),
            other => other.to_owned(),
        };
        METHODS.iter().find(|method| method.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERFORMANCE: &str = include_str!("../../../../../docs/performance.md");

    /// The cells of the first row that begins with this text.
    fn row(first: &str) -> Vec<&'static str> {
        let mut lines = PERFORMANCE.lines();
        let start = format!("| {first}");
        let line = lines.find(|line| line.starts_with(&start)).expect(first);
        line.trim_matches('|').split('|').map(str::trim).collect()
    }

    fn answer(method: &str, question: usize) -> &'static str {
        Method::find(method).expect("a method").answers[question]
    }

    #[test]
    fn the_numbers_are_those_that_were_measured() {
        let skylake = row("Intel version 4 (Skylake)");
        assert_eq!(skylake[2..], ["22 + 1, 52 + 7", "7 + 1, 18 + 7", "0 + 7"]);
        for number in [
            "22 + 1 register accesses",
            "(52 + 7 with",
            "7 + 1 to stop (18 + 7)",
        ] {
            assert!(answer("counting", 0).contains(number), "{number}");
        }
        for (name, number) in [
            ("Intel version 2 and later", "5 + 1"),
            ("AMD PerfMonV2", "4 + 1"),
        ] {
            let overflow: Vec<&str> = PERFORMANCE
                .lines()
                .filter(|line| line.starts_with(&format!("| {name} | ")))
                .filter(|line| line.contains("**"))
                .collect();
            assert!(
                overflow[0].contains(&format!("**{number}**")),
                "{overflow:?}"
            );
            assert!(
                answer("sampling", 0).contains(&format!("{number} ")),
                "{number}"
            );
        }
        assert!(row("samples per second and processor")[1].starts_with("10,000"));
        assert!(row("interrupt time")[1].starts_with("at most 10 %"));
    }

    #[test]
    fn one_sample_costs_fewer_instructions_than_is_said() {
        let (_, shipped) = PERFORMANCE.split_once("## The shipped driver").expect("it");
        let rows = shipped.lines().filter(|line| line.starts_with("| "));
        let own_handler: Vec<u32> = rows
            .filter(|line| line.starts_with("| Intel") || line.starts_with("| AMD"))
            .filter_map(|line| line.split('|').nth(2)?.trim().parse().ok())
            .collect();
        assert!(own_handler.len() >= 3, "{own_handler:?}");
        assert!(
            own_handler.iter().all(|&number| number < 500),
            "{own_handler:?}"
        );
        assert!(answer("sampling", 0).contains("fewer than 500 instructions"));
    }

    #[test]
    fn the_page_of_methods_has_the_numbers_of_the_shipped_driver() {
        const PAGE: &str = include_str!("../../../../../docs/methods.md");
        let (_, shipped) = PERFORMANCE.split_once("## The shipped driver").expect("it");
        let row = |first: &str| {
            let line = shipped.lines().find(|line| line.starts_with(first));
            let cells = line.expect(first).trim_matches('|').split('|');
            cells.map(str::trim).collect::<Vec<_>>()
        };
        let sample = row("| Intel version 4 (Skylake)");
        let snapshot: Vec<&str> = row("| SNAPSHOT")[1].split(", ").collect();
        for said in [
            format!(
                "{} instructions of the driver and {} register",
                sample[1], sample[2]
            ),
            format!("{} instructions, {} register", sample[4], sample[5]),
            format!("{} instructions of the driver on one", snapshot[0]),
            format!("{} on 64", snapshot[3]),
        ] {
            assert!(PAGE.contains(&said), "{said}");
        }
    }

    #[test]
    fn every_question_has_its_answer() {
        for method in METHODS {
            assert!(
                method.answers.iter().all(|text| text.ends_with('.')),
                "{}",
                method.name
            );
            assert_eq!(
                Method::find(&method.name.to_uppercase()).map(|found| found.name),
                Some(method.name)
            );
        }
        assert!(Method::find("guessing").is_none());
    }
}
