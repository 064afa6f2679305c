//! A network between Envoy and Redis whose weather can be changed: it loses packets, delays them, or lets
//! none through.
//!
//! ```text
//!  Envoy ─► near device ─► lane ─► far device ─► Meddler ─► Redis
//!            this host  ◄─ lane ◄─  namespace of its own
//! ```
//!
//! Two TUN devices with this process as the wire between them. TCP on both sides is the kernel's own: it
//! retransmits, backs off and gives up as it would on a real network. Nothing has a name that outlives
//! this process: the devices and the namespace are gone with the last handle to them.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tun_rs::{AsyncDevice, DeviceBuilder};

use crate::load::runtime;

/// What becomes of packets, in either direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weather {
    /// They arrive.
    Fair,
    /// So many of a hundred are lost.
    Lossy(u8),
    /// They arrive so much later.
    Slow(Duration),
    /// None arrives.
    Cut,
}

/// See the module.
#[derive(Debug)]
pub struct Network {
    weather: Arc<Mutex<Weather>>,
    lanes: Vec<JoinHandle<()>>,
}

/// Largest packet.
const MTU: u16 = 1500;

/// So many packets are under way at most in one direction, as in the queue of a router.
const QUEUE: usize = 4_096;

impl Network {
    /// A network in fair weather, and a listener at its far end.
    ///
    /// # Errors
    /// Where this process may not make devices or namespaces.
    pub fn new() -> io::Result<(Self, TcpListener)> {
        let (near_address, far_address) = addresses();
        let near = device(near_address)?;
        // The namespace is that of one thread, and of what is made in it.
        let far = std::thread::spawn(move || {
            unshare(CloneFlags::CLONE_NEWNET)?;
            let device = device(far_address)?;
            let listener = TcpListener::bind((far_address, 0))?;
            listener.set_nonblocking(true)?;
            io::Result::Ok((device, listener))
        });
        let (far, listener) = far
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the far end panicked")))?;
        let (near, far) = (Arc::new(near), Arc::new(far));
        let weather = Arc::new(Mutex::new(Weather::Fair));
        let mut lanes = Vec::from(lane(&near, &far, &weather, 1));
        lanes.extend(lane(&far, &near, &weather, 2));
        Ok((Self { weather, lanes }, listener))
    }

    /// Changes the weather.
    ///
    /// # Panics
    /// When a lane panicked.
    pub fn turn(&self, weather: Weather) {
        *self.weather.lock().expect("no lane panicked") = weather;
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.lanes.iter().for_each(JoinHandle::abort);
    }
}

/// Whether this machine lets us have such a network; else, why not.
///
/// # Errors
/// The reason.
pub fn possible() -> Result<(), String> {
    static TRIED: LazyLock<Result<(), String>> = LazyLock::new(|| {
        let tried = Network::new().map(drop);
        tried.map_err(|why| format!("no TUN device in a network namespace of our own: {why}"))
    });
    TRIED.clone()
}

fn device(address: Ipv4Addr) -> io::Result<AsyncDevice> {
    let _runtime = runtime().enter();
    DeviceBuilder::new()
        .ipv4(address, 30, None)
        .mtu(MTU)
        .build_async()
}

/// The addresses of both ends, of those that are set aside for tests of networks (RFC 2544, C.2.2), and
/// not those of another run on this machine.
fn addresses() -> (Ipv4Addr, Ipv4Addr) {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let number = COUNT.fetch_add(1, Ordering::Relaxed) * 97 + std::process::id();
    let subnet = Ipv4Addr::new(198, 18, 0, 0).to_bits() + (number % (1 << 15)) * 4;
    (
        Ipv4Addr::from_bits(subnet + 1),
        Ipv4Addr::from_bits(subnet + 2),
    )
}

/// One direction: one task takes packets in, another lets them out when they are due, in order.
fn lane(
    from: &Arc<AsyncDevice>,
    to: &Arc<AsyncDevice>,
    weather: &Arc<Mutex<Weather>>,
    seed: u64,
) -> [JoinHandle<()>; 2] {
    let (from, to, weather) = (Arc::clone(from), Arc::clone(to), Arc::clone(weather));
    let (sink, mut queue) = mpsc::channel::<(Instant, Vec<u8>)>(QUEUE);
    let takes = runtime().spawn(async move {
        let mut dice = fastrand::Rng::with_seed(seed);
        let mut packet = vec![0; usize::from(MTU)];
        while let Ok(length) = from.recv(&mut packet).await {
            let weather = *weather.lock().expect("nobody panicked");
            let late = match weather {
                Weather::Fair => Duration::ZERO,
                Weather::Lossy(percent) if dice.u8(0..100) < percent => continue,
                Weather::Lossy(_) => Duration::ZERO,
                Weather::Slow(late) => late,
                Weather::Cut => continue,
            };
            let due = Instant::now() + late;
            // A full queue drops, as a router does.
            let _ = sink.try_send((due, packet[..length].to_vec()));
        }
    });
    let gives = runtime().spawn(async move {
        while let Some((due, packet)) = queue.recv().await {
            if due > Instant::now() {
                tokio::time::sleep_until(due).await;
            }
            let _ = to.send(&packet).await;
        }
    });
    [takes, gives]
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;

    use super::*;

    /// A network, and a connection through it whose far end writes back what it reads.
    fn echo() -> Option<(Network, TcpStream)> {
        if let Err(why) = possible() {
            support::skipped(&why);
            return None;
        }
        let (network, listener) = Network::new().expect("a network");
        listener
            .set_nonblocking(false)
            .expect("a listener that waits");
        let address = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            let (mut far, _) = listener.accept().expect("a connection");
            let mut piece = [0; 1024];
            while let Ok(length @ 1..) = far.read(&mut piece) {
                if far.write_all(&piece[..length]).is_err() {
                    return;
                }
            }
        });
        let near = TcpStream::connect(address).expect("a connection");
        near.set_nodelay(true).expect("an option");
        Some((network, near))
    }

    fn round_trip(near: &mut TcpStream) -> io::Result<Duration> {
        let start = std::time::Instant::now();
        near.write_all(b"x")?;
        near.read_exact(&mut [0])?;
        Ok(start.elapsed())
    }

    #[test]
    fn a_slow_network_delays_each_direction_and_a_cut_one_delivers_when_it_heals() {
        let Some((network, mut near)) = echo() else {
            return;
        };
        round_trip(&mut near).expect("fair weather");
        let late = Duration::from_millis(60);
        network.turn(Weather::Slow(late));
        assert!(round_trip(&mut near).expect("an answer") >= late * 2);
        network.turn(Weather::Cut);
        let patience = Duration::from_millis(300);
        near.set_read_timeout(Some(patience)).expect("an option");
        assert!(round_trip(&mut near).is_err(), "nothing comes through");
        network.turn(Weather::Fair);
        let patience = Duration::from_secs(20);
        near.set_read_timeout(Some(patience)).expect("an option");
        near.read_exact(&mut [0])
            .expect("what was lost is sent again");
    }

    #[test]
    fn a_lossy_network_loses_about_as_many_as_it_should() {
        let Some((network, mut near)) = echo() else {
            return;
        };
        network.turn(Weather::Lossy(30));
        // Half of the round trips lose a packet and wait for it to be sent again, 200 ms and more.
        let slow = |trip: &Duration| *trip >= Duration::from_millis(150);
        let trips: Vec<_> = (0..20)
            .map(|_| round_trip(&mut near).expect("an answer"))
            .collect();
        let late = trips.iter().filter(|trip| slow(trip)).count();
        assert!((2..=18).contains(&late), "{late} of 20: {trips:?}");
    }
}
