//! What the commands leave in Redis, and what they say.

use std::process::Command;

use serde_json::{Value, json};
use support::{Dir, free_port, redis::Redis, until};

use super::{aforo, command, limit, on, path_text, push, write};

fn control(redis: &Redis) -> String {
    redis
        .call::<Option<String>>(&["GET", "aforo:control"])
        .unwrap_or_default()
}

fn status(redis: &Redis) -> Value {
    serde_json::from_str(&on(redis, &["status", "--json"]).with(0)).expect("JSON")
}

fn numbers(status: &Value) -> Vec<u64> {
    let policies = status["policies"].as_array().expect("a list");
    policies
        .iter()
        .map(|policy| policy["number"].as_u64().expect("a number"))
        .collect()
}

#[test]
fn a_push_is_stored_under_the_next_number_and_the_last_ten_stay() {
    let redis = Redis::start();
    for number in 1..=13 {
        let said = push(&redis, &limit(&format!("{number}/1h"))).with(0);
        assert!(said.contains(&format!("policy {number}: ")), "{said}");
        assert_eq!(control(&redis), format!("policy={number}"));
    }
    let status = status(&redis);
    assert_eq!(status["policy"], 13);
    assert_eq!(numbers(&status), (4..=13).rev().collect::<Vec<_>>());
    assert_eq!(status["policies"][0]["before"], 12);
    assert_eq!(redis.keys().len(), 12, "ten policies, the list, the word");
    let stored: String = redis.call(&["GET", "aforo:policy:{aforo:control}:13"]);
    assert_eq!(stored.len() as u64, status["policies"][0]["bytes"]);
    assert_eq!(
        serde_json::from_str::<Value>(&stored).unwrap(),
        limit("13/1h")
    );
    for key in redis.keys() {
        let key = String::from_utf8(key).unwrap();
        assert_eq!(redis.call::<i64>(&["TTL", &key]), -1, "{key}");
    }
}

#[test]
fn the_policy_in_force_pushed_again_changes_nothing() {
    let redis = Redis::start();
    push(&redis, &limit("1/1h")).with(0);
    let said = push(&redis, &limit("1/1h")).with(0);
    assert!(said.contains("nothing was changed"), "{said}");
    assert_eq!(numbers(&status(&redis)), [1]);
    push(&redis, &limit("2/1h")).with(0);
    push(&redis, &limit("1/1h")).with(0);
    assert_eq!(control(&redis), "policy=3", "it was not in force any more");
}

#[test]
fn a_bad_policy_is_refused_as_by_check_and_redis_is_not_asked() {
    let dir = Dir::temporary("bad");
    let bad = write(&dir, &limit("ten/1h"));
    let checked = aforo(&["check", &bad]).with(1);
    let nowhere = format!("redis://127.0.0.1:{}", free_port());
    let pushed = aforo(&["push", &bad, "--redis", &nowhere]).with(1);
    assert_eq!(pushed, checked);
    assert!(pushed.contains("limits[0].rate"), "{pushed}");

    let warned = write(
        &dir,
        &json!({"limits": [{"name": "a", "algorithm": "gcra", "rate": "5/1s",
        "key": [{"header": "x", "secret": true}]}]}),
    );
    let strict = aforo(&["push", &warned, "--strict", "--redis", &nowhere]).with(1);
    assert!(strict.contains("warning"), "{strict}");
    aforo(&["push", "no such file", "--redis", &nowhere]).with(2);
    aforo(&["push", &warned]).with(2);
    let dry = aforo(&["push", &warned, "--dry-run"]).with(0);
    assert!(dry.contains(r#"{"limits":[{"algorithm":"gcra""#), "{dry}");
    let away = aforo(&["push", &warned, "--redis", &nowhere]).with(3);
    assert!(away.contains("nothing was changed"), "{away}");
}

#[test]
fn back_is_to_what_was_in_force_before_and_not_to_what_was_rolled_back() {
    let redis = Redis::start();
    let none = on(&redis, &["rollback"]).with(1);
    assert!(none.contains("none to go back from"), "{none}");
    for rate in ["1/1h", "2/1h", "3/1h"] {
        push(&redis, &limit(rate)).with(0);
    }
    on(&redis, &["rollback"]).with(0);
    assert_eq!(control(&redis), "policy=2");
    push(&redis, &limit("4/1h")).with(0);
    assert_eq!(control(&redis), "policy=4");
    on(&redis, &["rollback"]).with(0);
    assert_eq!(control(&redis), "policy=2", "3 was found bad");
    on(&redis, &["rollback"]).with(0);
    assert_eq!(control(&redis), "policy=1");
    on(&redis, &["rollback"]).with(0);
    assert_eq!(control(&redis), "", "each proxy's own");
    on(&redis, &["rollback", "--to", "3"]).with(0);
    assert_eq!(control(&redis), "policy=3");
    let gone = on(&redis, &["rollback", "--to", "9"]).with(1);
    assert!(gone.contains("not stored"), "{gone}");
    on(&redis, &["rollback", "--to", "0"]).with(0);
    assert_eq!(control(&redis), "");
    redis.call::<()>(&["SET", "aforo:control", "policy=77"]);
    let unknown = on(&redis, &["rollback"]).with(1);
    assert!(unknown.contains("--to"), "{unknown}");
    let text = on(&redis, &["status"]).with(0);
    assert!(text.contains("it is not stored"), "{text}");
    push(&redis, &limit("5/1h")).with(0);
    assert_eq!(control(&redis), "policy=78", "a number nobody knows");
}

#[test]
fn the_switch_and_the_policy_leave_each_other_and_unknown_words_alone() {
    let redis = Redis::start();
    let turn = |turn: &str| on(&redis, &["switch", turn]).with(0);
    assert!(turn("status").contains("is off"));
    assert!(turn("on").contains("is on"));
    assert_eq!(control(&redis), "shadow");
    push(&redis, &limit("1/1h")).with(0);
    assert_eq!(control(&redis), "policy=1 shadow");
    assert!(turn("on").contains("already"));
    assert!(turn("off").contains("is off"));
    assert_eq!(control(&redis), "policy=1");
    redis.call::<()>(&["SET", "aforo:control", "later=x policy=1"]);
    turn("on");
    assert_eq!(control(&redis), "later=x policy=1 shadow");
    push(&redis, &limit("2/1h")).with(0);
    assert_eq!(control(&redis), "policy=2 later=x shadow");
    on(&redis, &["rollback", "--to", "0"]).with(0);
    turn("off");
    assert_eq!(control(&redis), "later=x");
}

#[test]
fn each_prefix_and_domain_has_keys_of_its_own() {
    let redis = Redis::start();
    let mut policy = limit("1/1h");
    policy["domain"] = json!("shop");
    policy["redis"] = json!({"prefix": "rl", "timeout": "5ms"});
    let said = push(&redis, &policy).with(0);
    assert!(
        said.contains("rollback --prefix rl --domain shop"),
        "{said}"
    );
    assert!(
        said.contains("left out") && said.contains("redis.timeout"),
        "{said}"
    );
    let whose = ["--prefix", "rl", "--domain", "shop"];
    on(&redis, &[&["switch", "on"][..], &whose].concat()).with(0);
    assert_eq!(
        redis.call::<String>(&["GET", "rl:shop:control"]),
        "policy=1 shadow"
    );
    assert_eq!(control(&redis), "");
    on(&redis, &[&["rollback"][..], &whose].concat()).with(0);
    assert_eq!(redis.call::<String>(&["GET", "rl:shop:control"]), "shadow");
}

#[test]
fn pushes_at_once_get_numbers_of_their_own_and_the_last_is_in_force() {
    let redis = Redis::start();
    std::thread::scope(|scope| {
        for number in 0..8 {
            let redis = &redis;
            scope.spawn(move || push(redis, &limit(&format!("{}/1h", number + 1))).with(0));
        }
    });
    let status = status(&redis);
    assert_eq!(numbers(&status), (1..=8).rev().collect::<Vec<_>>());
    assert_eq!(status["policy"], 8);
}

#[test]
fn an_error_of_redis_is_told_and_leaves_everything_as_it_was() {
    let redis = Redis::start();
    redis.call::<()>(&["LPUSH", "aforo:control", "something else"]);
    for words in [&["switch", "on"][..], &["rollback"], &["status"]] {
        let said = on(&redis, words).with(3);
        assert!(
            said.contains("WRONGTYPE") || said.contains("wrong kind"),
            "{said}"
        );
    }
    push(&redis, &limit("1/1h")).with(3);
    assert_eq!(redis.keys(), [b"aforo:control".to_vec()]);
}

#[test]
fn a_password_comes_from_a_file_or_the_environment_and_is_never_shown() {
    let dir = Dir::temporary("password");
    let settings = [
        "--requirepass",
        "hunter2",
        "--user",
        "ops",
        "on",
        ">hunter3",
        "~*",
        "+@all",
    ];
    let redis = Redis::start_in(Dir::temporary("redis"), &settings);
    let url = format!("redis://127.0.0.1:{}", redis.port());
    let file = dir.join("password");
    std::fs::write(&file, "hunter2\n").unwrap();
    let file = path_text(&file);
    let mut said = Vec::new();
    let mut run = |code: i32, words: &[&str], password: Option<&str>| {
        let mut command = command(&[&["switch", "status", "--redis", &url], words].concat());
        if let Some(password) = password {
            command.env("AFORO_REDIS_PASSWORD", password);
        }
        said.push(super::Said::from(command.output().unwrap()).with(code));
    };
    run(3, &[], None);
    run(3, &[], Some("hunter1"));
    run(0, &[], Some("hunter2"));
    run(0, &["--password-file", &file], None);
    run(0, &["--user", "ops"], Some("hunter3"));
    run(3, &["--user", "nobody"], Some("hunter3"));
    run(2, &["--user", "ops"], None);
    run(2, &["--password-file", "no such file"], Some("hunter2"));
    let wrong = format!("redis://:hunter2@127.0.0.1:{}/x", redis.port());
    said.push(aforo(&["status", "--redis", &wrong]).with(2));
    let all = said.concat();
    assert!(!all.contains("hunter"), "{all}");
}

#[test]
fn with_tls_redis_must_be_who_the_certificate_says() {
    let dir = Dir::temporary("tls");
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ])
        .args([
            "-days",
            "2",
            "-subj",
            "/CN=localhost",
            "-addext",
            "subjectAltName=DNS:localhost",
        ])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", "key.pem", "-out", "cert.pem"])
        .current_dir(dir.path())
        .output()
        .expect("openssl is needed for this test");
    assert!(made.status.success(), "{made:?}");
    let (key, cert) = (
        path_text(&dir.join("key.pem")),
        path_text(&dir.join("cert.pem")),
    );
    let port = free_port().to_string();
    let redis = Redis::start_in(
        Dir::temporary("redis"),
        &[
            "--tls-port",
            &port,
            "--tls-cert-file",
            &cert,
            "--tls-key-file",
            &key,
            "--tls-auth-clients",
            "no",
        ],
    );
    let at = |host: &str| format!("rediss://{host}:{port}");
    aforo(&[
        "switch",
        "on",
        "--redis",
        &at("localhost"),
        "--ca-file",
        &cert,
    ])
    .with(0);
    assert_eq!(control(&redis), "shadow");
    for url in [at("127.0.0.1"), at("localhost")] {
        let trust: &[&str] = if url.contains("localhost") {
            &[]
        } else {
            &["--ca-file", &cert]
        };
        let said = aforo(&[&["switch", "off", "--redis", &url], trust].concat()).with(3);
        assert!(said.to_lowercase().contains("cert"), "{said}");
    }
    assert_eq!(control(&redis), "shadow");
    let plain = format!("redis://localhost:{}", redis.port());
    aforo(&["status", "--redis", &plain, "--ca-file", &cert]).with(2);
}

#[test]
fn in_a_redis_cluster_all_of_it_is_in_one_slot() {
    let settings = [
        "--cluster-enabled",
        "yes",
        "--cluster-announce-ip",
        "127.0.0.1",
    ];
    let redis = Redis::start_in(Dir::temporary("redis"), &settings);
    redis.call::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    until("the cluster to be up", || {
        redis
            .call::<String>(&["CLUSTER", "INFO"])
            .contains("cluster_state:ok")
    });
    let dir = Dir::temporary("policy");
    for (round, rate) in ["1/1h", "2/1h"].into_iter().enumerate() {
        let said = on(&redis, &["push", &write(&dir, &limit(rate)), "--cluster"]).with(0);
        assert!(said.contains(&format!("policy {}: ", round + 1)), "{said}");
    }
    on(&redis, &["switch", "on", "--cluster"]).with(0);
    on(&redis, &["rollback", "--cluster"]).with(0);
    assert_eq!(control(&redis), "policy=1 shadow");
    let text = on(&redis, &["status", "--cluster"]).with(0);
    assert!(text.contains("*       1"), "{text}");
}

#[test]
fn the_documented_user_of_proxies_may_count_and_read_and_not_rule() {
    let redis = Redis::start();
    let document = include_str!("../../../docs/rollout.md");
    let line = document
        .lines()
        .find(|line| line.starts_with("ACL SETUSER proxies"));
    let words: Vec<&str> = line.expect("the line").split(' ').collect();
    redis.call::<()>(&words);
    let may = |words: &[&str]| {
        redis.call::<String>(&[&["ACL", "DRYRUN", "proxies"], words].concat()) == "OK"
    };
    let policy = "aforo:policy:{aforo:control}:18";
    assert!(may(&["GET", "aforo:control"]) && may(&["GETRANGE", policy, "0", "9"]));
    assert!(may(&["EVALSHA", "abc", "1", "aforo:{all}:a:gcra"]));
    assert!(!may(&["SET", "aforo:control", "shadow"]) && !may(&["SET", policy, "{}"]));
    assert!(!may(&["EVAL", "return 1", "1", "aforo:control"]) && !may(&["FLUSHALL"]));
}
