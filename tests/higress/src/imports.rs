//! The functions that the module may call: those of proxy-wasm that it uses, Higress's two, and WASI's.

use wasmtime::{Caller, Error, Extern, Linker, Memory, Result, TypedFunc};

use crate::world::{BELL, Call, Introduction, REDIS_REPLY, Response, World};

type Guest<'a> = Caller<'a, World>;

const OK: u32 = 0;
const NOT_FOUND: u32 = 1;
const BAD_ARGUMENT: u32 = 2;
const EMPTY: u32 = 7;

const CONFIGURATION: u32 = 7;
const REDIS_CALL_RESPONSE: u32 = 9;
const RESPONSE_HEADERS: u32 = 2;

/// Offers all of them.
pub fn link(linker: &mut Linker<World>) -> Result<()> {
    system(linker)?;
    streams(linker)?;
    plugin(linker)?;
    redis(linker)?;
    // No HTTP call, and nothing of connections.
    linker.func_wrap("env", "proxy_close_stream", |_: Guest<'_>, _: u32| {
        BAD_ARGUMENT
    })?;
    linker.func_wrap(
        "env",
        "proxy_set_buffer_bytes",
        |_: Guest<'_>, _: u32, _: u32, _: u32, _: u32, _: u32| BAD_ARGUMENT,
    )?;
    #[rustfmt::skip]
    linker.func_wrap(
        "env",
        "proxy_http_call",
        |_: Guest<'_>, _: u32, _: u32, _: u32, _: u32, _: u32, _: u32, _: u32, _: u32, _: u32, _: u32| BAD_ARGUMENT,
    )?;
    Ok(())
}

fn redis(linker: &mut Linker<World>) -> Result<()> {
    linker.func_wrap(
        "env",
        "proxy_redis_init",
        |mut guest: Guest<'_>, c: u32, cl: u32, u: u32, ul: u32, p: u32, pl: u32, timeout: u32| {
            let introduction = Introduction {
                cluster: text(&mut guest, c, cl),
                user: text(&mut guest, u, ul),
                password: text(&mut guest, p, pl),
                timeout,
            };
            let world = guest.data_mut();
            if !world.known {
                return BAD_ARGUMENT;
            }
            world.introductions.push(introduction);
            OK
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_redis_call",
        |mut guest: Guest<'_>, c: u32, cl: u32, q: u32, ql: u32, out: u32| {
            let cluster = text(&mut guest, c, cl);
            let command = bytes(&mut guest, q, ql);
            if guest.data().introductions.is_empty() || !guest.data().known {
                return Ok(BAD_ARGUMENT);
            }
            let token = guest.data_mut().token();
            if guest.data().fail_at_once {
                let Some(Extern::Func(ended)) = guest.get_export(REDIS_REPLY) else {
                    return Ok(BAD_ARGUMENT);
                };
                let ended: TypedFunc<(u32, u32, u32, u32), ()> = ended.typed(&guest)?;
                ended.call(&mut guest, (crate::ROOT, token, 1, 0))?;
            } else {
                guest.data_mut().calls.push(Call {
                    token,
                    cluster,
                    command,
                });
            }
            put(&mut guest, out, token);
            Ok(OK)
        },
    )?;
    Ok(())
}

fn streams(linker: &mut Linker<World>) -> Result<()> {
    linker.func_wrap(
        "env",
        "proxy_get_header_map_value",
        |mut guest: Guest<'_>, map: u32, n: u32, nl: u32, data: u32, len: u32| {
            let name = text(&mut guest, n, nl);
            let field = guest.data().field(map == RESPONSE_HEADERS, &name);
            hand_over_if(&mut guest, field.map(String::into_bytes), data, len)
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_replace_header_map_value",
        |mut guest: Guest<'_>, _map: u32, n: u32, nl: u32, v: u32, vl: u32| {
            let (name, value) = (text(&mut guest, n, nl), text(&mut guest, v, vl));
            guest.data_mut().set_field(name, Some(value));
            OK
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_remove_header_map_value",
        |mut guest: Guest<'_>, _map: u32, n: u32, nl: u32| {
            let name = text(&mut guest, n, nl);
            guest.data_mut().set_field(name, None);
            OK
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_get_property",
        |mut guest: Guest<'_>, p: u32, pl: u32, data: u32, len: u32| {
            let path = text(&mut guest, p, pl);
            let field = path
                .strip_prefix("request\0headers\0")
                .and_then(|name| guest.data().field(false, name));
            hand_over_if(&mut guest, field.map(String::into_bytes), data, len)
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_set_property",
        |_: Guest<'_>, _: u32, _: u32, _: u32, _: u32| OK,
    )?;
    linker.func_wrap(
        "env",
        "proxy_set_effective_context",
        |mut guest: Guest<'_>, id: u32| {
            let world = guest.data_mut();
            if !world.is_context(id) {
                return BAD_ARGUMENT;
            }
            world.effective = id;
            OK
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_continue_stream",
        |mut guest: Guest<'_>, _: u32| {
            let world = guest.data_mut();
            world.pass(world.effective);
            OK
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_send_local_response",
        |mut guest: Guest<'_>,
         status: u32,
         _: u32,
         _: u32,
         _: u32,
         _: u32,
         h: u32,
         hl: u32,
         _: u32| {
            let fields = pairs(&bytes(&mut guest, h, hl));
            let world = guest.data_mut();
            world.refuse(world.effective, Response { status, fields });
            OK
        },
    )?;
    Ok(())
}

fn plugin(linker: &mut Linker<World>) -> Result<()> {
    linker.func_wrap(
        "env",
        "proxy_log",
        |mut guest: Guest<'_>, _: u32, t: u32, tl: u32| {
            let line = text(&mut guest, t, tl);
            guest.data_mut().log.push(line);
            OK
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_get_buffer_bytes",
        |mut guest: Guest<'_>, kind: u32, start: u32, max: u32, data: u32, len: u32| {
            let world = guest.data();
            let all = match kind {
                CONFIGURATION => &world.configuration,
                REDIS_CALL_RESPONSE => &world.reply,
                _ => return NOT_FOUND,
            };
            let rest = all.get(start as usize..).unwrap_or_default();
            let some = rest[..rest.len().min(max as usize)].to_vec();
            hand_over_if(&mut guest, Some(some), data, len)
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_set_tick_period_milliseconds",
        |mut guest: Guest<'_>, period: u32| {
            guest.data_mut().tick_every(period);
            OK
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_register_shared_queue",
        |mut guest: Guest<'_>, _: u32, _: u32, out: u32| {
            put(&mut guest, out, BELL);
            OK
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_enqueue_shared_queue",
        |mut guest: Guest<'_>, _: u32, _: u32, _: u32| {
            guest.data_mut().ring();
            OK
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_dequeue_shared_queue",
        |mut guest: Guest<'_>, _: u32, data: u32, len: u32| {
            if !guest.data_mut().answer_ring() {
                return EMPTY;
            }
            put(&mut guest, data, 0);
            put(&mut guest, len, 0);
            OK
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_define_metric",
        |mut guest: Guest<'_>, _: u32, n: u32, nl: u32, out: u32| {
            let name = text(&mut guest, n, nl);
            let id = guest.data_mut().define(name);
            put(&mut guest, out, id);
            OK
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_increment_metric",
        |mut guest: Guest<'_>, id: u32, by: i64| {
            guest.data_mut().add(id, by);
            OK
        },
    )?;
    linker.func_wrap(
        "env",
        "proxy_record_metric",
        |_: Guest<'_>, _: u32, _: u64| OK,
    )?;
    Ok(())
}

fn system(linker: &mut Linker<World>) -> Result<()> {
    const WASI: &str = "wasi_snapshot_preview1";
    linker.func_wrap(
        WASI,
        "random_get",
        |mut guest: Guest<'_>, at: u32, len: u32| {
            let random: Vec<u8> = (0..len).map(|_| guest.data_mut().random()).collect();
            write(&mut guest, at, &random);
            OK
        },
    )?;
    linker.func_wrap(
        WASI,
        "clock_time_get",
        |mut guest: Guest<'_>, _: u32, _: u64, out: u32| {
            let now = guest.data().nanoseconds();
            write(&mut guest, out, &now.to_le_bytes());
            OK
        },
    )?;
    linker.func_wrap(
        WASI,
        "environ_sizes_get",
        |mut guest: Guest<'_>, count: u32, size: u32| {
            put(&mut guest, count, 0);
            put(&mut guest, size, 0);
            OK
        },
    )?;
    linker.func_wrap(WASI, "environ_get", |_: Guest<'_>, _: u32, _: u32| OK)?;
    linker.func_wrap(
        WASI,
        "fd_write",
        |_: Guest<'_>, _: u32, _: u32, _: u32, _: u32| OK,
    )?;
    linker.func_wrap(WASI, "proc_exit", |_: Guest<'_>, code: u32| -> Result<()> {
        Err(Error::msg(format!("the module ends with {code}")))
    })?;
    Ok(())
}

/// Puts bytes into memory that the module gives, and says where; or that there are none.
fn hand_over_if(guest: &mut Guest<'_>, some: Option<Vec<u8>>, data: u32, len: u32) -> u32 {
    let Some(some) = some else { return NOT_FOUND };
    let size = u32::try_from(some.len()).expect("a size");
    let at = if size == 0 { 0 } else { allocate(guest, size) };
    write(guest, at, &some);
    put(guest, data, at);
    put(guest, len, size);
    OK
}

fn allocate(guest: &mut Guest<'_>, size: u32) -> u32 {
    let export = guest.get_export("proxy_on_memory_allocate");
    let allocate = export.and_then(Extern::into_func).expect("an allocator");
    let allocate: TypedFunc<u32, u32> = allocate.typed(&guest).expect("its type");
    allocate.call(guest, size).expect("memory")
}

fn memory(guest: &mut Guest<'_>) -> Memory {
    let export = guest.get_export("memory").and_then(Extern::into_memory);
    export.expect("a memory")
}

fn bytes(guest: &mut Guest<'_>, at: u32, len: u32) -> Vec<u8> {
    let mut bytes = vec![0; len as usize];
    let memory = memory(guest);
    memory
        .read(guest, at as usize, &mut bytes)
        .expect("within memory");
    bytes
}

fn text(guest: &mut Guest<'_>, at: u32, len: u32) -> String {
    String::from_utf8(bytes(guest, at, len)).expect("text")
}

fn write(guest: &mut Guest<'_>, at: u32, bytes: &[u8]) {
    let memory = memory(guest);
    memory
        .write(guest, at as usize, bytes)
        .expect("within memory");
}

fn put(guest: &mut Guest<'_>, at: u32, number: u32) {
    write(guest, at, &number.to_le_bytes());
}

/// A header list as proxy-wasm writes it: count, the two lengths of each, then texts that end in NUL.
fn pairs(bytes: &[u8]) -> Vec<(String, String)> {
    let number = |index: usize| {
        let four = bytes[4 * index..4 * index + 4]
            .try_into()
            .expect("four bytes");
        u32::from_le_bytes(four) as usize
    };
    let count = number(0);
    let mut at = 4 + 8 * count;
    let mut next = |length: usize| {
        let text = String::from_utf8(bytes[at..at + length].to_vec()).expect("text");
        at += length + 1;
        text
    };
    let pair = |index: usize| (next(number(1 + 2 * index)), next(number(2 + 2 * index)));
    (0..count).map(pair).collect()
}
