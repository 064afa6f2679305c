//! A request described on the command line.

use aforo::request::Facts;

/// The parts of a request.
#[derive(clap::Args)]
pub struct Request {
    /// The method.
    #[arg(long, default_value = "GET")]
    pub method: String,
    /// The path with its query.
    #[arg(long, default_value = "/")]
    pub path: String,
    /// The host.
    #[arg(long, default_value = "example.com")]
    pub host: String,
    /// A header, as `name: value`; can be given several times.
    #[arg(long = "header", short = 'H', value_name = "NAME: VALUE", value_parser = header)]
    pub headers: Vec<(String, String)>,
    /// The client address as Envoy trusts it.
    #[arg(long, default_value = "203.0.113.7")]
    pub ip: String,
    /// A claim of the verified JWT, as `sub=alice`.
    #[arg(long = "claim", value_name = "NAME=VALUE", value_parser = pair)]
    pub claims: Vec<(String, String)>,
    /// The URI in the client certificate.
    #[arg(long, value_name = "URI")]
    pub peer: Option<String>,
    /// The name of Envoy's route.
    #[arg(long, value_name = "NAME")]
    pub route: Option<String>,
    /// Any other Envoy attribute, as `xds.virtual_host_name=api`.
    #[arg(long = "property", value_name = "NAME=VALUE", value_parser = pair)]
    pub properties: Vec<(String, String)>,
}

impl Facts for Request {
    fn header(&self, name: &str) -> Option<Vec<u8>> {
        match name {
            ":method" => return Some(self.method.clone().into_bytes()),
            ":path" => return Some(self.path.clone().into_bytes()),
            ":authority" => return Some(self.host.clone().into_bytes()),
            _ => {}
        }
        let lines = self
            .headers
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name));
        let lines: Vec<&str> = lines.map(|(_, value)| value.as_str()).collect();
        (!lines.is_empty()).then(|| lines.join(",").into_bytes())
    }

    fn property(&self, path: &[&str]) -> Option<Vec<u8>> {
        let of = |list: &[(String, String)], name: &str| {
            list.iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| value.clone())
        };
        let value = match path {
            ["source", "address"] => Some(self.ip.clone()),
            ["connection", "uri_san_peer_certificate"] => self.peer.clone(),
            ["xds", "route_name"] => self.route.clone(),
            [
                "metadata",
                "filter_metadata",
                "envoy.filters.http.jwt_authn",
                _,
                claim @ ..,
            ] => of(&self.claims, &claim.join(".")),
            _ => None,
        };
        value
            .or_else(|| of(&self.properties, &path.join(".")))
            .map(String::into_bytes)
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once(':').ok_or("write it as 'name: value'")?;
    Ok((name.trim().to_owned(), value.trim().to_owned()))
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("write it as name=value")?;
    Ok((name.to_owned(), value.to_owned()))
}
