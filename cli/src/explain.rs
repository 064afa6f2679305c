//! `aforo explain`: what the policy says of one request.

use std::process::ExitCode;

use aforo::{
    policy::{Limit, Mode, Policy, when::Named},
    rules::{
        Explanation, Selection, Why,
        apply::{Chosen, Outcome},
        explain as explain_request,
        explain::Said,
        matching::Unmet,
    },
};
use serde_json::{Value, json};

use crate::{REFUSED, UNREADABLE, request::Request, source};

/// The arguments of `aforo explain`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A policy in YAML or JSON, an Istio resource or an Envoy file; `-` is standard input.
    #[arg(value_name = "FILE")]
    file: String,
    #[command(flatten)]
    request: Request,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Explains the request by every policy of the file.
pub fn run(arguments: &Arguments) -> ExitCode {
    let file = &arguments.file;
    let sources = match source::of(file) {
        Ok(sources) => sources,
        Err(error) => {
            eprintln!("{file}: {error}");
            return ExitCode::from(UNREADABLE);
        }
    };
    for source in &sources {
        let policy = match source.policy() {
            Ok((policy, _)) => policy,
            Err(errors) => {
                eprintln!("{file}: the policy is refused:\n{errors}");
                return ExitCode::from(REFUSED);
            }
        };
        let explanation = explain_request(&policy, &arguments.request);
        if arguments.json {
            println!("{:#}", as_json(&policy, &explanation));
        } else {
            if let Some(within) = &source.within {
                println!("{within}:");
            }
            print!("{}", as_text(&policy, &explanation));
        }
    }
    ExitCode::SUCCESS
}

/// How a limit's outcome is told.
struct Told {
    outcome: &'static str,
    reason: Option<String>,
}

fn tell(limit: &Limit, said: &Said<'_>) -> Told {
    let told = |outcome, reason: Option<String>| Told { outcome, reason };
    match said {
        Said::Off => told("off", Some("its mode is off".to_owned())),
        Said::PolicyExempts => told("exempt", Some("the policy exempts this request".to_owned())),
        Said::AfterRefusal => told("not looked at", Some("an earlier limit refuses".to_owned())),
        Said::NotAbout(unmet) => {
            let reasons: Vec<String> = unmet.iter().map(lacking).collect();
            told("does not apply", Some(reasons.join("; or ")))
        }
        Said::About { outcome, .. } => match outcome {
            Outcome::Claim { claim, .. } if claim.enforced => told("asked", None),
            Outcome::Claim { .. } => {
                told("asked, refuses nothing", Some(unenforced(limit).to_owned()))
            }
            Outcome::Unlimited(_) => told("unlimited", None),
            Outcome::Deny {
                why,
                enforced: true,
            } => told("denies", Some(denial(*why).to_owned())),
            Outcome::Deny {
                why,
                enforced: false,
            } => {
                let reason = format!("{}, but {}", denial(*why), unenforced(limit));
                told("would deny", Some(reason))
            }
            Outcome::Exempt => told("does not apply", Some("it exempts this request".to_owned())),
            Outcome::GroupTaken => told(
                "does not apply",
                Some("an earlier limit of its group applies".to_owned()),
            ),
            Outcome::KeyMissing => told(
                "does not apply",
                Some("a part of its key is absent, and missing is skip".to_owned()),
            ),
        },
    }
}

fn unenforced(limit: &Limit) -> &'static str {
    match limit.mode {
        Mode::Shadow => "its mode is shadow",
        _ => "this key is outside its enforce_percent",
    }
}

const fn denial(why: Why) -> &'static str {
    match why {
        Why::KeyMissing => "a part of its key is absent, and missing is deny",
        Why::TermsDeny => "the rate is deny",
    }
}

fn lacking(unmet: &Unmet<'_>) -> String {
    match unmet {
        Unmet::Path => "another path".to_owned(),
        Unmet::Method => "another method".to_owned(),
        Unmet::Host => "another host".to_owned(),
        Unmet::Client => "a client of another network".to_owned(),
        Unmet::Kind => "another kind of request".to_owned(),
        Unmet::Not => "it is what `not` excludes".to_owned(),
        Unmet::Value(Named::Header(name)) => format!("header {name} is not as asked"),
        Unmet::Value(Named::Query(name)) => format!("query parameter {name} is not as asked"),
        Unmet::Value(Named::Cookie(name)) => format!("cookie {name} is not as asked"),
        Unmet::Value(Named::Property(name, _)) => format!("{name} is not as asked"),
    }
}

fn chosen(limit: &Limit, chosen: Chosen<'_>) -> (&'static str, Option<Value>, String) {
    match chosen {
        Chosen::Own => ("own", None, "its own".to_owned()),
        Chosen::Plan(name) => ("plan", Some(json!(name)), format!("plan {name}")),
        Chosen::Override(index) => {
            debug_assert!(index < limit.overrides.terms.len());
            (
                "override",
                Some(json!(index)),
                format!("overrides[{index}]"),
            )
        }
    }
}

fn as_text(policy: &Policy, explanation: &Explanation<'_>) -> String {
    use std::fmt::Write as _;
    let mut out = String::new();
    for (limit, said) in policy.limits.iter().zip(&explanation.limits) {
        let told = tell(limit, said);
        let reason = told
            .reason
            .map_or(String::new(), |reason| format!(": {reason}"));
        let _ = writeln!(out, "{}: {}{reason}", limit.name, told.outcome);
        let Said::About { pattern, outcome } = said else {
            continue;
        };
        if let Outcome::Claim {
            claim,
            tier,
            chosen: terms,
        } = outcome
        {
            let _ = writeln!(out, "    key    {}", claim.key);
            let (_, _, whose) = chosen(limit, *terms);
            let _ = writeln!(out, "    rate   {tier}, {whose}");
            let _ = writeln!(out, "    cost   {}", claim.cost);
        }
        if let Outcome::Unlimited(terms) = outcome {
            let (_, _, whose) = chosen(limit, *terms);
            let _ = writeln!(out, "    rate   unlimited, {whose}");
        }
        if let Some(pattern) = pattern {
            let _ = writeln!(out, "    path   {pattern}");
        }
    }
    let _ = writeln!(out, "=> {}", conclusion(policy, explanation));
    out
}

fn conclusion(policy: &Policy, explanation: &Explanation<'_>) -> String {
    match explanation.selection() {
        Selection::Nothing => "goes on; no limit is asked".to_owned(),
        Selection::Claims(claims) => match claims.len() {
            1 => "1 limit is asked".to_owned(),
            n => format!("{n} limits are asked"),
        },
        Selection::Deny { limit, why } => {
            format!("refused by {}: {}", policy.limit_name(limit), denial(why))
        }
    }
}

fn as_json(policy: &Policy, explanation: &Explanation<'_>) -> Value {
    let limits: Vec<Value> = policy
        .limits
        .iter()
        .zip(&explanation.limits)
        .map(|(limit, said)| {
            let told = tell(limit, said);
            let mut object =
                json!({"name": limit.name, "outcome": told.outcome, "reason": told.reason});
            if let Said::About { pattern, outcome } = said {
                object["path"] = json!(pattern);
                if let Outcome::Claim {
                    claim,
                    tier,
                    chosen: terms,
                } = outcome
                {
                    let (whose, name, _) = chosen(limit, *terms);
                    object["key"] = json!(claim.key);
                    object["rate"] = json!(tier.to_string());
                    object["terms"] = json!({"whose": whose, "name": name});
                    object["cost"] = json!(claim.cost);
                    object["enforced"] = json!(claim.enforced);
                }
            }
            object
        })
        .collect();
    let decision = match explanation.selection() {
        Selection::Nothing => "nothing",
        Selection::Claims(_) => "ask",
        Selection::Deny { .. } => "deny",
    };
    json!({"decision": decision, "limits": limits})
}
