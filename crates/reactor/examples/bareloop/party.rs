//! The two ends of the bare loop's wire protocol, as plain state machines.

use std::collections::VecDeque;
use std::time::Duration;

use buf::{Buf, Pool, SharedBuf};
use protocol::{Instant, Placement, Transmit};
use rustix::time::{ClockId, clock_gettime};

use crate::options::Options;

/// Bytes of a request: the first is 1 for a write, bytes 8 to 16 are its number, 16 to 24 its place, 24 to 32 the size of every
/// payload on this stream, so that one server answers clients of any block size.
const REQUEST: usize = 72;
/// Bytes of a response: 8 to 16 are the request's number.
const RESPONSE: usize = 24;
/// Memory for payloads under way.
const POOL: usize = 1 << 30;

/// One end of the stream.
pub(crate) trait Party {
    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize;
    fn take_placement(&mut self) -> Option<Placement>;
    fn handle_placed(&mut self, now: Instant, placement: Placement);
    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit);
    fn is_finished(&self) -> bool;
    fn expects_work(&self) -> bool;
}

/// The time that the calling thread has spent on a processor.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
}

fn number_in(bytes: &[u8], from: usize) -> u64 {
    let field = bytes.get(from..from + 8).and_then(|field| field.try_into().ok());
    u64::from_le_bytes(field.unwrap_or_default())
}

/// Answers requests.
pub(crate) struct Target {
    block: usize,
    pool: Pool,
    /// What reads are answered with, block after block.
    memory: SharedBuf,
    ready: VecDeque<(u64, Option<SharedBuf>)>,
    awaited: Option<u64>,
    placed: bool,
    served: u64,
    since: Option<Duration>,
}

impl Target {
    /// A target that answers reads from `memory`, or from one block if that has less.
    pub(crate) fn new(memory: &SharedBuf) -> Self {
        Self {
            block: 0,
            pool: Pool::new(POOL),
            memory: memory.clone(),
            ready: VecDeque::new(),
            awaited: None,
            placed: false,
            served: 0,
            since: None,
        }
    }

    /// Takes the size of payloads, which the first request tells.
    fn fit(&mut self, block: u64) {
        self.block = wire::index(block).clamp(1, buf::LARGEST);
        if self.memory.len() < self.block {
            self.memory = vec![7; self.block].into();
        }
    }

    fn payload(&self, place: u64) -> SharedBuf {
        let blocks = self.memory.len() / self.block;
        let start = usize::try_from(place).unwrap_or(0) % blocks * self.block;
        self.memory.slice(start..start + self.block)
    }

    /// Microseconds of the serving thread, which is the caller's, per request to any of `targets`.
    pub(crate) fn cpu_per_request(targets: &[Self]) -> f64 {
        let since = targets.iter().filter_map(|target| target.since).min().unwrap_or_default();
        per(thread_time().saturating_sub(since), targets.iter().map(|target| target.served).sum())
    }
}

/// The arithmetic mean; zero of nothing.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn mean(values: &[u32]) -> f64 {
    values.iter().map(|value| u64::from(*value)).sum::<u64>() as f64 / values.len().max(1) as f64
}

/// Microseconds of `span` for each of `count`.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn per(span: Duration, count: u64) -> f64 {
    span.as_secs_f64() * 1e6 / count.max(1) as f64
}

impl Party for Target {
    fn handle_bytes(&mut self, _: Instant, bytes: &[u8]) -> usize {
        let mut used = 0;
        while self.awaited.is_none()
            && let Some(request) = bytes.get(used..used + REQUEST)
        {
            self.since.get_or_insert_with(thread_time);
            used += REQUEST;
            self.fit(number_in(request, 24));
            let number = number_in(request, 8);
            if request.first() == Some(&1) {
                self.awaited = Some(number);
                self.placed = false;
            } else {
                self.ready.push_back((number, Some(self.payload(number_in(request, 16)))));
            }
        }
        used
    }

    fn take_placement(&mut self) -> Option<Placement> {
        if self.awaited.is_none() || self.placed {
            return None;
        }
        self.placed = true;
        let buf = self.pool.take(self.block)?;
        Some(Placement { buf, start: 0, len: self.block, token: 0 })
    }

    fn handle_placed(&mut self, _: Instant, _: Placement) {
        if let Some(number) = self.awaited.take() {
            self.ready.push_back((number, None));
        }
    }

    fn poll_transmit(&mut self, _: Instant, send: &mut Transmit) {
        while !send.is_full() {
            let Some((number, payload)) = self.ready.pop_front() else { return };
            let mut response = [0; RESPONSE];
            response[8..16].copy_from_slice(&number.to_le_bytes());
            send.put(&response);
            if let Some(payload) = payload {
                send.put_shared(payload);
            }
            self.served += 1;
        }
    }

    fn is_finished(&self) -> bool {
        false
    }

    fn expects_work(&self) -> bool {
        self.since.is_some()
    }
}

/// Asks, and keeps time.
pub(crate) struct Initiator {
    block: usize,
    depth: usize,
    writes: bool,
    runtime: Duration,
    pool: Pool,
    payload: SharedBuf,
    /// Where reads under way are to go, in their order, which answers keep: each has memory of its own, as any client's has.
    destinations: VecDeque<Buf>,
    /// When each request under way was sent, by its number modulo the depth.
    sent: Vec<Instant>,
    issued: u64,
    done: u64,
    under_way: usize,
    awaited: Option<u64>,
    placed: bool,
    began: Option<(Instant, Duration)>,
    ended: Option<Instant>,
    latencies: Vec<u32>,
}

/// Room for the latencies of so many requests over all connections; later ones are counted only.
const LATENCIES: usize = 1 << 23;

impl Initiator {
    pub(crate) fn new(options: &Options) -> Self {
        Self {
            block: options.block,
            depth: options.depth,
            writes: options.writes,
            runtime: options.runtime,
            pool: Pool::new(POOL),
            payload: SharedBuf::from(vec![5; options.block]),
            destinations: VecDeque::with_capacity(options.depth),
            sent: vec![Instant::ZERO; options.depth],
            issued: 0,
            done: 0,
            under_way: 0,
            awaited: None,
            placed: false,
            began: None,
            ended: None,
            latencies: Vec::with_capacity(LATENCIES / options.connections),
        }
    }

    fn complete(&mut self, now: Instant, number: u64) {
        let slot = usize::try_from(number % self.depth as u64).unwrap_or(0);
        let waited = self.sent.get(slot).map_or(Duration::ZERO, |sent| now.since(*sent));
        if self.latencies.len() < self.latencies.capacity() {
            self.latencies.push(wire::saturate::<u32>(waited.as_nanos()));
        }
        self.done += 1;
        self.under_way -= 1;
        self.ended = Some(now);
    }

    fn is_over(&self, now: Instant) -> bool {
        self.began.is_some_and(|(began, _)| now.since(began) >= self.runtime)
    }

    /// What was measured on all connections; to be called on the thread that ran them.
    pub(crate) fn report(initiators: &[Self]) -> Report {
        let (began, cpu) = initiators.iter().filter_map(|one| one.began).min().unwrap_or_default();
        let ended = initiators.iter().filter_map(|one| one.ended).max().unwrap_or_default();
        let (span, done) = (ended.since(began), initiators.iter().map(|one| one.done).sum());
        let mut latencies: Vec<u32> =
            initiators.iter().flat_map(|one| one.latencies.iter().copied()).collect();
        latencies.sort_unstable();
        let quantile = |part: usize| {
            let place = (latencies.len() * part / 10_000).min(latencies.len().saturating_sub(1));
            f64::from(latencies.get(place).copied().unwrap_or_default()) / 1000.0
        };
        Report {
            requests: done,
            seconds: span.as_secs_f64(),
            rate: 1e6 / per(span, done),
            mean: mean(&latencies) / 1000.0,
            quantiles: QUANTILES.map(quantile),
            client_cpu: per(thread_time().saturating_sub(cpu), done),
            server_cpu: None,
        }
    }
}

impl Party for Initiator {
    fn handle_bytes(&mut self, now: Instant, bytes: &[u8]) -> usize {
        let mut used = 0;
        while self.awaited.is_none()
            && let Some(response) = bytes.get(used..used + RESPONSE)
        {
            used += RESPONSE;
            let number = number_in(response, 8);
            if self.writes {
                self.complete(now, number);
            } else {
                self.awaited = Some(number);
                self.placed = false;
            }
        }
        used
    }

    fn take_placement(&mut self) -> Option<Placement> {
        if self.awaited.is_none() || self.placed {
            return None;
        }
        self.placed = true;
        let buf = self.destinations.pop_front()?;
        Some(Placement { buf, start: 0, len: self.block, token: 0 })
    }

    fn handle_placed(&mut self, now: Instant, _: Placement) {
        if let Some(number) = self.awaited.take() {
            self.complete(now, number);
        }
    }

    fn poll_transmit(&mut self, now: Instant, send: &mut Transmit) {
        self.began.get_or_insert_with(|| (now, thread_time()));
        while self.under_way < self.depth && !send.is_full() && !self.is_over(now) {
            let slot = usize::try_from(self.issued % self.depth as u64).unwrap_or(0);
            if let Some(sent) = self.sent.get_mut(slot) {
                *sent = now;
            }
            let mut request = [0; REQUEST];
            request[0] = u8::from(self.writes);
            request[8..16].copy_from_slice(&self.issued.to_le_bytes());
            // A multiplicative step visits the blocks out of order.
            request[16..24].copy_from_slice(&(self.issued.wrapping_mul(0x9E37_79B9)).to_le_bytes());
            request[24..32].copy_from_slice(&(self.block as u64).to_le_bytes());
            send.put(&request);
            if self.writes {
                send.put_shared(self.payload.clone());
            } else if let Some(buf) = self.pool.take(self.block) {
                self.destinations.push_back(buf);
            }
            self.issued += 1;
            self.under_way += 1;
        }
    }

    fn is_finished(&self) -> bool {
        self.under_way == 0 && self.ended.is_some_and(|now| self.is_over(now))
    }

    fn expects_work(&self) -> bool {
        self.under_way > 0
    }
}

/// Which latencies are told: least, median and so on to the most, in ten-thousandths of the requests.
const QUANTILES: [usize; 7] = [0, 5_000, 9_500, 9_900, 9_990, 9_999, 10_000];

/// What a run has shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    /// Requests that were answered.
    pub(crate) requests: u64,
    /// Seconds from the first request to the last answer.
    pub(crate) seconds: f64,
    /// Requests per second.
    pub(crate) rate: f64,
    /// Microseconds of a request on average.
    pub(crate) mean: f64,
    /// Microseconds of a request at each of [`QUANTILES`].
    pub(crate) quantiles: [f64; 7],
    /// Microseconds of the client's thread per request.
    pub(crate) client_cpu: f64,
    /// Microseconds of the server's thread per request, where it ran in this process.
    pub(crate) server_cpu: Option<f64>,
}

impl Report {
    #[expect(clippy::cast_precision_loss, reason = "a figure for people")]
    fn bytes_per_second(&self, options: &Options) -> f64 {
        self.rate * options.block as f64
    }

    pub(crate) fn json(&self, options: &Options) -> String {
        let server = self.server_cpu.map_or("null".to_owned(), |cpu| format!("{cpu:.3}"));
        let [min, p50, p95, p99, p999, p9999, max] = self.quantiles;
        format!(
            "{{\"mode\":\"{}\",\"driver\":\"{:?}\",\"rw\":\"{}\",\"bs\":{},\"qd\":{},\"requests\":{},\"seconds\":{:.6},\
             \"iops\":{:.0},\"bytes_per_second\":{:.0},\"mean_us\":{:.3},\"min_us\":{min:.3},\"p50_us\":{p50:.3},\
             \"p95_us\":{p95:.3},\"p99_us\":{p99:.3},\"p999_us\":{p999:.3},\"p9999_us\":{p9999:.3},\"max_us\":{max:.3},\
             \"client_cpu_us\":{:.3},\"server_cpu_us\":{server}}}",
            if options.endpoint { "endpoint" } else { "bare" },
            options.driver,
            if options.writes { "write" } else { "read" },
            options.block,
            options.depth,
            self.requests,
            self.seconds,
            self.rate,
            self.bytes_per_second(options),
            self.mean,
            self.client_cpu,
        )
    }

    pub(crate) fn text(&self, options: &Options) -> String {
        let (rate, [_, p50, _, p99, ..]) = (self.rate, self.quantiles);
        let gigabytes = self.bytes_per_second(options) / 1e9;
        format!("{rate:.0} IOPS, {gigabytes:.2} GB/s, p50 {p50:.1} µs, p99 {p99:.1} µs")
    }
}
