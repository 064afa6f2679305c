//! The configurations in the repository's root are what they say they are.

use aforo::policy::Policy;
use support::config::{Config, Link};
use support::envoy::Envoy;
use support::root;

#[test]
fn envoy_accepts_the_shipped_configurations_as_they_stand() {
    for link in Link::SHIPPED {
        let said = Envoy::validate(&Config::as_it_stands(link)).expect("Envoy accepts it");
        assert!(said.contains("OK"), "{}: {said}", link.file());
        assert!(!said.contains("deprecated"), "{}: {said}", link.file());
    }
}

#[test]
fn each_shipped_port_stands_once() {
    for link in Link::SHIPPED {
        let text = std::fs::read_to_string(root().join(link.file())).expect("the file");
        let redis: &[&str] = match link {
            Link::Cluster => &["7001", "7002", "7003"],
            _ if link.is_gateway() => &["7379"],
            _ => &["6379"],
        };
        for port in [&["10000", "9901", "8080"], redis].concat() {
            let setting = format!("port_value: {port} ");
            assert_eq!(
                text.matches(&setting).count(),
                1,
                "{}: {setting}",
                link.file()
            );
        }
    }
}

#[test]
fn the_shipped_policies_load_without_a_warning() {
    for link in Link::SHIPPED {
        let policy = Config::as_it_stands(link).shipped_policy().to_string();
        let (policy, warnings) = Policy::from_json(policy.as_bytes()).expect("a policy");
        assert_eq!(policy.limits.len(), 1, "{}", link.file());
        assert!(warnings.is_empty(), "{}: {warnings:?}", link.file());
    }
}
