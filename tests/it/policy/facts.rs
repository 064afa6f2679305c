//! A request as the host would give it.

use std::cell::RefCell;

use aforo::request::Facts;

/// Headers and attributes by name, and a record of what was asked.
#[derive(Default)]
pub struct Given {
    headers: Vec<(String, Vec<u8>)>,
    properties: Vec<(String, Vec<u8>)>,
    pub asked: RefCell<Vec<String>>,
}

/// `GET /` at `example.com` from 203.0.113.7.
pub fn get(path: &str) -> Given {
    Given::default()
        .header(":method", "GET")
        .header(":path", path)
        .header(":authority", "example.com")
        .from("203.0.113.7:1000")
}

impl Given {
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.retain(|(known, _)| known != name);
        self.headers
            .push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    pub fn property(mut self, path: &str, value: impl AsRef<[u8]>) -> Self {
        self.properties.retain(|(known, _)| known != path);
        self.properties
            .push((path.to_owned(), value.as_ref().to_vec()));
        self
    }

    pub fn from(self, address: &str) -> Self {
        self.property("source.address", address)
    }
}

impl Facts for Given {
    fn header(&self, name: &str) -> Option<Vec<u8>> {
        self.asked.borrow_mut().push(name.to_owned());
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.clone())
    }

    fn property(&self, path: &[&str]) -> Option<Vec<u8>> {
        let path = path.join(".");
        self.asked.borrow_mut().push(path.clone());
        self.properties
            .iter()
            .find(|(known, _)| *known == path)
            .map(|(_, value)| value.clone())
    }
}
