//! `make chaos`: every scenario, behind every link, with one and four workers; the table goes to the
//! standard output, faults to the standard error. With `--update` the table replaces the one in
//! `docs/operations.md`, or the lines of what was run.

use std::process::ExitCode;

use chaos::run::{Form, run};
use chaos::sample::Stream;
use chaos::scenario::SCENARIOS;
use chaos::table;
use support::config::Link;

fn main() -> ExitCode {
    if std::env::args().skip(1).any(|word| word == "--help") {
        println!("{HELP}");
        SCENARIOS
            .iter()
            .for_each(|scenario| println!("  {:10} {}", scenario.name, scenario.title));
        return ExitCode::SUCCESS;
    }
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(why) => {
            eprintln!("chaos: {why}\n{HELP}");
            return ExitCode::FAILURE;
        }
    };
    let mut good = true;
    let mut lines = String::from(table::HEAD);
    print!("{}", table::HEAD);
    for scenario in SCENARIOS.iter().filter(|s| options.wants(s.name)) {
        if let Err(why) = (scenario.possible)() {
            let new = table::skipped(scenario.title, &why);
            print!("{new}");
            lines.push_str(&new);
            continue;
        }
        for link in scenario.links.iter().filter(|l| options.wants_link(**l)) {
            for workers in &options.workers {
                let report = run(scenario, *link, *workers, &Stream::OUTAGES, &options.form);
                let new = table::lines(&report);
                print!("{new}");
                lines.push_str(&new);
                for fault in &report.faults {
                    good = false;
                    eprintln!("{}, {link:?}, {workers}: {fault}", scenario.name);
                }
            }
        }
    }
    match (options.update, options.whole()) {
        (true, true) => table::update(&options.form, &lines),
        (true, false) => table::update_some(&lines),
        (false, _) => {}
    }
    if good {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

const HELP: &str = "\
chaos [--short] [--update] [--only NAME,NAME…] [--workers N,N…] [--link redis_proxy|straight|webdis]

  --short    a few seconds a run, at a fifth of the rate
  --update   put the table into docs/operations.md; with what follows, only the lines of those runs
  --only     these scenarios
  --workers  worker threads of Envoy; 1,4 unless told
  --link     behind this link only

The scenarios:";

/// With so many worker threads each scenario is tried.
const WORKERS: [usize; 2] = [1, 4];

struct Options {
    form: Form,
    only: Vec<String>,
    workers: Vec<usize>,
    link: Option<Link>,
    update: bool,
}

impl Options {
    fn read(mut words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Self {
            form: Form::FULL,
            only: Vec::new(),
            workers: WORKERS.to_vec(),
            link: None,
            update: false,
        };
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or_else(|| format!("{word} wants a value"));
            match word.as_str() {
                "--update" => options.update = true,
                "--short" => options.form = Form::SHORT,
                "--only" => options.only = value()?.split(',').map(str::to_owned).collect(),
                "--workers" => {
                    let numbers = value()?;
                    let numbers = numbers
                        .split(',')
                        .map(|n| n.parse().map_err(|e| format!("{n}: {e}")));
                    options.workers = numbers.collect::<Result<_, _>>()?;
                }
                "--link" => {
                    let name = value()?;
                    let links = [Link::RedisProxy, Link::Straight, Link::Webdis];
                    let found = links
                        .into_iter()
                        .find(|link| table::link_name(*link) == name);
                    options.link = Some(found.ok_or(format!("nothing is tried behind {name}"))?);
                }
                _ => return Err(format!("what is {word}?")),
            }
        }
        if options.update && !options.whole() && options.form != Form::FULL {
            return Err("a table is of one form: --short --update wants all of it".to_owned());
        }
        Ok(options)
    }

    fn whole(&self) -> bool {
        self.only.is_empty() && self.link.is_none() && self.workers == WORKERS
    }

    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    fn wants_link(&self, link: Link) -> bool {
        self.link.is_none_or(|only| only == link)
    }
}
