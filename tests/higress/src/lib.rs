//! A host of one proxy-wasm module that offers the Redis call of Higress, whose Envoy is not to be had for
//! tests. It plays the streams of one worker, in a time of the test's own, and hands the test every Redis
//! call that the module makes. What it knows of Higress is what that fork's sources say.

mod imports;
mod world;

use std::path::Path;

use wasmtime::{
    Config, Engine, Instance, Linker, Module, OptLevel, Store, TypedFunc, WasmParams, WasmResults,
};

pub use world::{Call, Introduction, Response, Stream};
use world::{REDIS_REPLY, World};

const ROOT: u32 = 1;

/// A compiled module, of which any number of hosts can be started.
pub struct Program {
    engine: Engine,
    module: Module,
}

impl Program {
    /// Compiles the module in this file.
    ///
    /// # Panics
    /// When there is none.
    #[must_use]
    pub fn compile(path: &Path) -> Self {
        let mut config = Config::new();
        config.cranelift_opt_level(OptLevel::None);
        let engine = Engine::new(&config).expect("an engine");
        let module = Module::from_file(&engine, path).expect("a module");
        Self { engine, module }
    }
}

/// One worker with one plugin.
pub struct Host {
    store: Store<World>,
    instance: Instance,
    streams: u32,
}

impl Host {
    /// Starts a plugin with this configuration.
    ///
    /// # Errors
    /// The log, when the module refuses the configuration.
    ///
    /// # Panics
    /// When the module wants what this host does not have, or traps.
    pub fn start(program: &Program, configuration: &str) -> Result<Self, Vec<String>> {
        let mut linker = Linker::new(&program.engine);
        imports::link(&mut linker).expect("the host's functions");
        let mut store = Store::new(&program.engine, World::new(configuration));
        let instance = linker.instantiate(&mut store, &program.module);
        let mut host = Self {
            store,
            instance: instance.expect("an instance"),
            streams: ROOT,
        };
        host.call::<(), ()>("_initialize", ());
        host.call::<_, ()>("proxy_on_context_create", (ROOT, 0_u32));
        host.call::<_, u32>("proxy_on_vm_start", (ROOT, 0_u32));
        let size = u32::try_from(configuration.len()).expect("a short configuration");
        match host.on::<_, u32>(ROOT, "proxy_on_configure", (ROOT, size)) {
            0 => Err(host.store.data().log.clone()),
            _ => Ok(host),
        }
    }

    /// A GET with these header fields; its number. Its headers have arrived, and it is alone.
    pub fn request(&mut self, fields: &[(&str, &str)]) -> u32 {
        self.streams += 1;
        let id = self.streams;
        let count = u32::try_from(fields.len()).expect("some fields");
        self.store.data_mut().begin(id, fields);
        self.call::<_, ()>("proxy_on_context_create", (id, ROOT));
        let action: u32 = self.on(id, "proxy_on_request_headers", (id, count, 1_u32));
        if action == 0 {
            self.store.data_mut().pass(id);
        }
        self.turn();
        id
    }

    /// What is known of a stream.
    #[must_use]
    pub fn stream(&self, id: u32) -> Stream {
        self.store.data().stream(id)
    }

    /// The upstream answers this stream with 200; the header fields that the client gets.
    pub fn respond(&mut self, id: u32) -> Vec<(String, String)> {
        let _: u32 = self.on(id, "proxy_on_response_headers", (id, 1_u32, 1_u32));
        self.store.data().shown(id)
    }

    /// A stream is over: answered, or its client has left.
    pub fn end(&mut self, id: u32) {
        let _: u32 = self.on(id, "proxy_on_done", id);
        self.call::<_, ()>("proxy_on_delete", id);
        self.store.data_mut().forget(id);
        self.turn();
    }

    /// The Redis calls made since the last look.
    pub fn calls(&mut self) -> Vec<Call> {
        std::mem::take(&mut self.store.data_mut().calls)
    }

    /// What the module said about how to reach Redis, each time it did.
    #[must_use]
    pub fn introductions(&self) -> &[Introduction] {
        &self.store.data().introductions
    }

    /// Redis answered a call with these bytes.
    pub fn answer(&mut self, call: &Call, reply: &[u8]) {
        self.store.data_mut().reply = reply.to_vec();
        let size = u32::try_from(reply.len()).expect("a short reply");
        self.ended(call, 0, size);
        self.store.data_mut().reply.clear();
    }

    /// A call ended without an answer.
    pub fn fail(&mut self, call: &Call) {
        self.ended(call, 1, 0);
    }

    /// Whether the host takes introductions from now on.
    pub fn know_the_cluster(&mut self, known: bool) {
        self.store.data_mut().known = known;
    }

    /// Whether calls fail from now on before they have returned.
    pub fn fail_at_once(&mut self, fail: bool) {
        self.store.data_mut().fail_at_once = fail;
    }

    /// Lets so many milliseconds pass, with the ticks that the module asked for.
    pub fn pass_time(&mut self, millis: u64) {
        for _ in 0..millis {
            let world = self.store.data_mut();
            if world.pass_millisecond() {
                self.on::<_, ()>(ROOT, "proxy_on_tick", ROOT);
                self.turn();
            }
        }
    }

    /// Whether the module wants ticks.
    #[must_use]
    pub fn ticks(&self) -> bool {
        self.store.data().ticks()
    }

    /// The lines of the log.
    #[must_use]
    pub fn log(&self) -> &[String] {
        &self.store.data().log
    }

    /// A counter or gauge; zero when the module never moved it.
    #[must_use]
    pub fn metric(&self, name: &str) -> i64 {
        self.store.data().metric(name)
    }

    fn ended(&mut self, call: &Call, status: u32, size: u32) {
        let ended = (ROOT, call.token, status, size);
        self.on::<_, ()>(ROOT, REDIS_REPLY, ended);
        self.turn();
    }

    /// Calls the bell's owner, as the next turn of the event loop does.
    fn turn(&mut self) {
        while self.store.data_mut().heard() {
            self.on::<_, ()>(ROOT, "proxy_on_queue_ready", (ROOT, world::BELL));
        }
    }

    /// Runs a callback of a context.
    fn on<P: WasmParams, R: WasmResults>(&mut self, context: u32, name: &str, with: P) -> R {
        self.store.data_mut().effective = context;
        self.call(name, with)
    }

    fn call<P: WasmParams, R: WasmResults>(&mut self, name: &str, with: P) -> R {
        let export: TypedFunc<P, R> = self
            .instance
            .get_typed_func(&mut self.store, name)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let result = export.call(&mut self.store, with);
        result.unwrap_or_else(|error| panic!("{name}: {error}\n{:?}", self.store.data().log))
    }
}
