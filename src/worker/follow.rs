//! What a worker reads in Redis beside decisions: the control key, and the policy that it names.

use crate::{
    control::{self, Control, MAX_POLICY_BYTES, SLICE},
    policy::Policy,
    redis::resp::{Value, write_command},
    units::{Micros, Moment},
};

/// The control key is read this often while requests come.
const EVERY: Micros = Micros::from_millis(400);

/// Follows the control key.
///
/// To drive it: [`Follow::due`] before each question, and [`Follow::controlled`] with the reply to what it
/// gave, which may give the next command.
pub struct Follow {
    head: String,
    follows: crate::policy::control::Control,
    next: Moment,
    control: Control,
    /// The policy in force, 0 for the one of the configuration.
    number: u64,
    /// A policy that was refused, not to be fetched again.
    refused: Option<u64>,
    fetching: Option<Fetch>,
}

/// A policy that is being fetched, slice after slice.
struct Fetch {
    number: u64,
    text: Vec<u8>,
}

/// What a reply meant.
#[derive(Debug, PartialEq, Eq)]
pub enum News {
    /// Nothing new.
    Nothing,
    /// Every limit is in shadow mode from now on, or no longer.
    Shadow(bool),
    /// This policy is to be taken: [`Follow::took`] or [`Follow::refused`].
    Policy(u64, Vec<u8>),
    /// No policy is followed any more: the configuration's own is to be taken.
    OwnPolicy,
}

impl Follow {
    /// Follows what this policy says.
    pub fn new(policy: &Policy) -> Self {
        Self {
            head: policy.key_head.clone(),
            follows: policy.control,
            next: Moment(0),
            control: Control::default(),
            number: 0,
            refused: None,
            fetching: None,
        }
    }

    /// Whether every limit is in shadow mode.
    pub const fn shadow(&self) -> bool {
        self.control.shadow
    }

    /// The command that reads the control key, when it is time.
    pub fn due(&mut self, now: Moment) -> Option<Vec<u8>> {
        if !self.follows.any() || now < self.next {
            return None;
        }
        self.next = now.plus(EVERY);
        let mut command = Vec::new();
        write_command(&mut command, &["GET", &control::key(&self.head)]);
        Some(command)
    }

    /// What [`Follow::due`] gave could not be asked: it is due again.
    pub fn unasked(&mut self) {
        self.next = Moment(0);
    }

    /// The control key was read. May give a command that fetches a policy.
    pub fn controlled(&mut self, value: &Value) -> (News, Option<Vec<u8>>) {
        let mut read = match value {
            Value::Bulk(text) => Control::read(text),
            Value::Nil => Control::default(),
            // An error says nothing about what stands there: what was said last holds.
            _ => return (News::Nothing, None),
        };
        read.shadow = read.shadow && self.follows.switch;
        read.policy = read.policy.filter(|_| self.follows.policy);
        let turned = read.shadow != self.control.shadow;
        self.control = read;
        let wanted = read.policy.unwrap_or(0);
        if turned {
            // A policy that waits as well is fetched the next time.
            self.next = Moment(0);
            return (News::Shadow(read.shadow), None);
        }
        if wanted == self.number || self.refused == Some(wanted) {
            return (News::Nothing, None);
        }
        if wanted == 0 {
            return (News::OwnPolicy, None);
        }
        if self
            .fetching
            .as_ref()
            .is_some_and(|fetch| fetch.number == wanted)
        {
            return (News::Nothing, None);
        }
        self.fetching = Some(Fetch {
            number: wanted,
            text: Vec::new(),
        });
        (News::Nothing, self.slice())
    }

    /// A slice of a policy came. May give the command for the next.
    pub fn fetched(&mut self, value: Option<&Value>) -> (News, Option<Vec<u8>>) {
        let (Some(fetch), Some(Value::Bulk(slice))) = (&mut self.fetching, value) else {
            // Not readable now: from the start, the next time the control key is read.
            self.fetching = None;
            return (News::Nothing, None);
        };
        fetch.text.extend_from_slice(slice);
        let got = u64::try_from(slice.len()).unwrap_or(u64::MAX);
        let all = u64::try_from(fetch.text.len()).unwrap_or(u64::MAX);
        if got >= SLICE && all <= MAX_POLICY_BYTES {
            return (News::Nothing, self.slice());
        }
        let news = self.fetching.take().map_or(News::Nothing, |fetch| {
            if fetch.text.is_empty() {
                News::Nothing
            } else {
                News::Policy(fetch.number, fetch.text)
            }
        });
        (news, None)
    }

    /// This policy is in force now, 0 for the configuration's own.
    pub fn took(&mut self, number: u64) {
        self.number = number;
        self.refused = None;
    }

    /// This policy cannot be: what was in force stays.
    pub fn refused(&mut self, number: u64) {
        self.refused = Some(number);
    }

    fn slice(&self) -> Option<Vec<u8>> {
        let fetch = self.fetching.as_ref()?;
        let start = fetch.text.len();
        let last = u64::try_from(start)
            .ok()?
            .checked_add(SLICE)?
            .checked_sub(1)?;
        let key = control::policy_key(&self.head, fetch.number);
        let mut command = Vec::new();
        write_command(
            &mut command,
            &["GETRANGE", &key, &start.to_string(), &last.to_string()],
        );
        Some(command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(control: &str) -> Follow {
        let json = format!(
            r#"{{"control": {control}, "limits": [{{"name": "a", "key": [], "algorithm": "gcra",
                "rate": "1/1s"}}]}}"#
        );
        Follow::new(&Policy::from_json(json.as_bytes()).unwrap().0)
    }

    fn bulk(text: &str) -> Value {
        Value::Bulk(text.as_bytes().to_vec())
    }

    fn text(command: Option<Vec<u8>>) -> String {
        String::from_utf8(command.expect("a command")).unwrap()
    }

    #[test]
    fn the_control_key_is_read_now_and_then_and_not_for_each_request() {
        let mut follow = follow("{}");
        assert!(text(follow.due(Moment(1))).contains("aforo:control"));
        assert_eq!(follow.due(Moment(2)), None);
        assert!(follow.due(Moment(2).plus(EVERY)).is_some());
        let mut off = self::follow(r#"{"switch": false}"#);
        assert_eq!(off.due(Moment(1)), None);
    }

    #[test]
    fn the_switch_is_news_once_and_an_error_leaves_it_where_it_was() {
        let mut follow = follow("{}");
        assert_eq!(follow.controlled(&bulk("shadow")).0, News::Shadow(true));
        assert_eq!(follow.controlled(&bulk("shadow")).0, News::Nothing);
        let error = Value::Error(b"NOPERM".to_vec());
        assert_eq!(follow.controlled(&error), (News::Nothing, None));
        assert!(follow.shadow());
        assert_eq!(follow.controlled(&Value::Nil).0, News::Shadow(false));
    }

    #[test]
    fn a_policy_is_fetched_slice_after_slice_once() {
        let mut follow = follow(r#"{"policy": true}"#);
        let (news, first) = follow.controlled(&bulk("policy=3"));
        assert_eq!(news, News::Nothing);
        let first = text(first);
        assert!(
            first.contains("aforo:policy:{aforo:control}:3") && first.contains("49151"),
            "{first}"
        );
        assert_eq!(
            follow.controlled(&bulk("policy=3")),
            (News::Nothing, None),
            "under way"
        );
        let slice = "x".repeat(SLICE as usize);
        let (_, second) = follow.fetched(Some(&bulk(&slice)));
        assert!(text(second).contains("49152"));
        let (news, _) = follow.fetched(Some(&bulk("end")));
        assert_eq!(news, News::Policy(3, format!("{slice}end").into_bytes()));
        follow.took(3);
        assert_eq!(follow.controlled(&bulk("policy=3")), (News::Nothing, None));
        assert_eq!(follow.controlled(&Value::Nil).0, News::OwnPolicy);
    }

    #[test]
    fn a_refused_policy_is_not_fetched_again_and_a_lost_one_is() {
        let mut follow = follow(r#"{"policy": true}"#);
        assert!(follow.controlled(&bulk("policy=3")).1.is_some());
        assert_eq!(follow.fetched(None), (News::Nothing, None));
        assert!(follow.controlled(&bulk("policy=3")).1.is_some());
        follow.fetched(Some(&bulk("{}")));
        follow.refused(3);
        assert_eq!(follow.controlled(&bulk("policy=3")), (News::Nothing, None));
        assert!(follow.controlled(&bulk("policy=4")).1.is_some());
    }

    #[test]
    fn a_policy_without_end_is_cut_and_then_refused_by_whoever_reads_it() {
        let mut follow = follow(r#"{"policy": true}"#);
        let mut next = follow.controlled(&bulk("policy=1")).1;
        let slice = bulk(&"x".repeat(SLICE as usize));
        let mut slices = 0;
        while next.take().is_some() {
            next = follow.fetched(Some(&slice)).1;
            slices += 1;
        }
        assert!(slices as u64 <= MAX_POLICY_BYTES / SLICE + 1);
    }

    #[test]
    fn without_being_told_to_follow_no_policy_is_fetched() {
        let mut follow = follow("{}");
        assert_eq!(follow.controlled(&bulk("policy=3")), (News::Nothing, None));
    }
}
