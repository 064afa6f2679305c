//! The Redis that a command speaks to.

use std::{fs, path::PathBuf, time::Duration};

use redis::{
    Client, Cmd, ConnectionAddr, ConnectionInfo, ConnectionLike, ErrorKind, FromRedisValue,
    IntoConnectionInfo, RedisError, TlsCertificates, cluster::ClusterClientBuilder,
};

use super::Failure;

/// How to reach Redis.
#[derive(clap::Args)]
pub struct Server {
    /// Where Redis is: `redis://HOST:PORT`, `rediss://HOST:PORT` with TLS, `unix:///PATH`; with a
    /// database as `redis://HOST:PORT/1`.
    #[arg(
        long = "redis",
        value_name = "URL",
        env = "AFORO_REDIS",
        hide_env_values = true
    )]
    url: Option<String>,
    /// That Redis is a node of a Redis Cluster; the others are found by it.
    #[arg(long)]
    cluster: bool,
    /// The user, where Redis has users.
    #[arg(long, value_name = "NAME", env = "AFORO_REDIS_USER")]
    user: Option<String>,
    /// A file whose first line is the password; without it AFORO_REDIS_PASSWORD of the environment
    /// is, if it is set.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The certificates, in PEM, of who vouches for Redis, in the place of the system's.
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
    /// Seconds to wait for a connection, and for an answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: u64,
}

/// A connection to it.
pub struct Connection(Box<dyn ConnectionLike>);

impl Server {
    /// Connects.
    ///
    /// # Errors
    /// When the options are wrong or Redis is not reached.
    pub fn connect(&self) -> Result<Connection, Failure> {
        let info = self.info()?;
        let certificates = match &self.ca_file {
            Some(file) => Some(TlsCertificates {
                client_tls: None,
                root_cert: Some(read(file)?),
            }),
            None => None,
        };
        if matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            // An error means that there is one already, which is as good.
            let _ = rustls::crypto::ring::default_provider().install_default();
        }
        let limit = Duration::from_secs(self.timeout);
        if self.cluster {
            let mut builder = ClusterClientBuilder::new([info])
                .retries(3)
                .connection_timeout(limit)
                .response_timeout(limit);
            if let Some(certificates) = certificates {
                builder = builder.certs(certificates);
            }
            let client = builder.build().map_err(wrong)?;
            let connection = client.get_connection().map_err(unreached)?;
            return Ok(Connection(Box::new(connection)));
        }
        let client = match certificates {
            Some(certificates) => Client::build_with_tls(info, certificates),
            None => Client::open(info),
        };
        let client = client.map_err(wrong)?;
        let connection = client
            .get_connection_with_timeout(limit)
            .map_err(unreached)?;
        for set in [
            connection.set_read_timeout(Some(limit)),
            connection.set_write_timeout(Some(limit)),
        ] {
            set.map_err(unreached)?;
        }
        Ok(Connection(Box::new(connection)))
    }

    fn info(&self) -> Result<ConnectionInfo, Failure> {
        let url = self.url.as_deref().ok_or_else(|| {
            Failure::Usage("say where Redis is: --redis URL, or AFORO_REDIS".to_owned())
        })?;
        let info = url.into_connection_info().map_err(wrong)?;
        if self.ca_file.is_some() && !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
            return Err(Failure::Usage(
                "--ca-file needs rediss://, which is with TLS".to_owned(),
            ));
        }
        let mut settings = info.redis_settings().clone();
        if let Some(user) = &self.user {
            settings = settings.set_username(user);
        }
        if let Some(password) = self.password()? {
            settings = settings.set_password(password);
        }
        if settings.username().is_some() && settings.password().is_none() {
            return Err(Failure::Usage("a user needs a password".to_owned()));
        }
        Ok(info.set_redis_settings(settings))
    }

    fn password(&self) -> Result<Option<String>, Failure> {
        let Some(file) = &self.password_file else {
            return Ok(std::env::var("AFORO_REDIS_PASSWORD")
                .ok()
                .filter(|password| !password.is_empty()));
        };
        let text = String::from_utf8(read(file)?)
            .map_err(|_| Failure::Usage(format!("{}: not UTF-8 text", file.display())))?;
        match text.lines().next() {
            None | Some("") => Err(Failure::Usage(format!(
                "{}: the first line is empty",
                file.display()
            ))),
            Some(line) => Ok(Some(line.to_owned())),
        }
    }
}

impl Connection {
    /// The answer to one command.
    ///
    /// # Errors
    /// When there is none, or it is an error.
    pub fn ask<T: FromRedisValue>(&mut self, command: &Cmd) -> Result<T, Failure> {
        let value = self
            .0
            .req_packed_command(&command.get_packed_command())
            .map_err(|error| failed(&error))?;
        let value = value.extract_error().map_err(|error| failed(&error))?;
        redis::from_redis_value(value)
            .map_err(|error| Failure::Redis(format!("Redis answers something else: {error}")))
    }
}

fn read(file: &PathBuf) -> Result<Vec<u8>, Failure> {
    fs::read(file).map_err(|error| Failure::Usage(format!("{}: {error}", file.display())))
}

/// An option is wrong. Never shows the URL, which may hold a password.
fn wrong(error: RedisError) -> Failure {
    Failure::Usage(format!("no way to Redis: {error}"))
}

fn unreached(error: RedisError) -> Failure {
    let told = match error.kind() {
        ErrorKind::AuthenticationFailed => "Redis does not take the user or the password",
        ErrorKind::InvalidClientConfig => return wrong(error),
        _ => "Redis is not reached",
    };
    Failure::Redis(format!("{told}: {error}; nothing was changed"))
}

fn failed(error: &RedisError) -> Failure {
    if error.is_io_error() || error.is_timeout() || error.is_connection_dropped() {
        return Failure::Redis(format!(
            "Redis did not answer: {error}; `aforo status` shows whether it was done"
        ));
    }
    Failure::Redis(format!("Redis answers: {error}; nothing was changed"))
}
