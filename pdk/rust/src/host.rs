//! What the host does for a plugin: pdk/ABI.md, section 15. All of it waits. Outside of a host,
//! as in a native test, every operation is `unimplemented`.

use crate::part::whole;
use crate::{Code, Error, Json, Kind, Message, Object, Result, ToJson};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Debug,
    Info,
    Warn,
    Error,
}

/// Writes a line to the plugin's log.
pub fn log(level: Level, text: &str) {
    imports::log(level as u32, text);
}

/// Writes a line to the plugin's log with attributes, the members of an object:
/// `log_with(Level::Info, "sent", json!({"order": id}))` writes `sent order=42`.
pub fn log_with(level: Level, text: &str, attributes: impl ToJson) {
    log(level, &with_attributes(text, &attributes.to_json()));
}

fn with_attributes(text: &str, attributes: &Json) -> String {
    let mut line = text.to_owned();
    for (name, value) in attributes.members() {
        line.push(' ');
        line.push_str(plain(&name.to_json()));
        line.push('=');
        line.push_str(plain(&value));
    }
    line
}

/// The text of a string without its quotes where a reader can tell where it ends, and of any
/// other value as it stands.
fn plain(v: &Json) -> &str {
    let text = v.text();
    let unclear = |b: u8| b <= b' ' || b == b'\\' || b == b'=' || b == 0x7f;
    if v.kind() != Kind::String || text.len() == 2 || text.bytes().any(unclear) {
        return text;
    }
    &text[1..text.len() - 1]
}

#[test]
fn attributes_are_quoted_where_a_reader_needs_it() {
    let line = with_attributes("late", &crate::json!({"order": 1042, "who": "Ann", "note": "say \"hi\"", "a b": "", "eq": "a=b"}));
    assert_eq!(line, r#"late order=1042 who=Ann note="say \"hi\"" "a b"="" eq="a=b""#);
}

/// Runs a host operation by its name.
pub fn call(operation: &str, request: impl ToJson) -> Result<Json> {
    let (failed, response) = imports::call(operation, request.to_json().text());
    answer(operation, failed, response)
}

/// Runs a host operation by its name with bytes beside its JSON, without base64: where the
/// request has bytes it has the number of those in `data`. `field` is where the response has a
/// number of bytes, which come with it; "" if nowhere. This and the other functions whose names
/// end in `_bytes` import `host_call_bytes`: a host that lacks it refuses the plugin.
pub fn call_bytes(operation: &str, request: impl ToJson, data: &[u8], field: &str) -> Result<(Json, Vec<u8>)> {
    let (failed, response) = imports::call_bytes(operation, request.to_json().text(), data);
    let offset = response.len();
    let response = answer(operation, failed, String::from_utf8_lossy(&response).into_owned())?;
    let size = if field.is_empty() { 0 } else { whole(&response.get(field), field, 0)? };
    Ok((response, imports::beside(offset as u32, size as u32)))
}

fn answer(operation: &str, failed: bool, response: String) -> Result<Json> {
    let response = Json::parse(response)
        .map_err(|e| Error::new(Code::Internal, format!("the host's response to {operation} is no JSON: {}", e.message)))?;
    if failed {
        return Err(Error::of_host(&response));
    }
    Ok(response)
}

fn member(response: &Json, name: &str) -> Result<Json> {
    response.get(name).ok_or_else(|| Error::new(Code::Internal, format!("the host's response has no {name}")))
}

fn bytes(response: &Json, name: &str) -> Result<Vec<u8>> {
    from_base64(&member(response, name)?.as_string().unwrap_or_default())
}

/// None where the thing is not there.
fn found<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Err(e) if e.code == Code::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Keys and values of the plugin and the calling tenant.
pub mod kv {
    use super::*;

    #[derive(Clone, Debug)]
    pub struct Item {
        pub value: Vec<u8>,
        pub revision: i64,
    }

    pub fn get(key: &str) -> Result<Option<Item>> {
        found(call("kv.get", Object::new().with("key", key)))?
            .map(|r| Ok(Item { value: bytes(&r, "value")?, revision: whole(&r.get("revision"), "revision", 0)? }))
            .transpose()
    }

    /// `get` without base64.
    pub fn get_bytes(key: &str) -> Result<Option<Item>> {
        found(call_bytes("kv.get", Object::new().with("key", key), &[], "value"))?
            .map(|(r, value)| Ok(Item { value, revision: whole(&r.get("revision"), "revision", 0)? }))
            .transpose()
    }

    /// The text of a key.
    pub fn text(key: &str) -> Result<Option<String>> {
        get(key)?.map(|item| String::from_utf8(item.value).map_err(Error::from)).transpose()
    }

    /// Returns the new revision.
    pub fn put(key: &str, value: impl AsRef<[u8]>) -> Result<i64> {
        write(key, value.as_ref(), None, None)
    }

    /// With a revision the key must be at it, 0: absent. With ttl_ms it is gone after that time.
    pub fn write(key: &str, value: &[u8], revision: Option<i64>, ttl_ms: Option<u64>) -> Result<i64> {
        let request = Object::new().with("key", key).with("value", to_base64(value)).maybe("revision", revision).maybe("ttl_ms", ttl_ms);
        whole(&call("kv.put", request)?.get("revision"), "revision", 0)
    }

    /// `write` without base64.
    pub fn write_bytes(key: &str, value: &[u8], revision: Option<i64>, ttl_ms: Option<u64>) -> Result<i64> {
        let request = Object::new().with("key", key).with("value", value.len()).maybe("revision", revision).maybe("ttl_ms", ttl_ms);
        whole(&call_bytes("kv.put", request, value, "")?.0.get("revision"), "revision", 0)
    }

    pub fn delete(key: &str) -> Result<()> {
        call("kv.delete", Object::new().with("key", key)).map(|_| ())
    }

    /// Keys with a prefix that come after `after`, at most 100, and where the next ones begin.
    pub fn list(prefix: &str, after: Option<&str>) -> Result<(Vec<String>, Option<String>)> {
        let r = call("kv.list", Object::new().with("prefix", prefix).maybe("after", after))?;
        let keys = member(&r, "entries")?.items().filter_map(|e| e.get("key")?.as_string()).collect();
        Ok((keys, r.get("next").and_then(|v| v.as_string())))
    }
}

/// The network's custom state at a JSON pointer, "" for all of it, and its revision.
pub fn state(path: &str) -> Result<(Json, i64)> {
    let r = call("state.get", Object::new().with("path", path))?;
    Ok((member(&r, "value")?, whole(&r.get("revision"), "revision", 0)?))
}

/// Changes the state at once, by operations of RFC 6902; returns the new revision.
pub fn patch_state(operations: &[Json]) -> Result<i64> {
    whole(&call("state.patch", Object::new().with("patch", operations))?.get("revision"), "revision", 0)
}

/// What one provider keeps in a thread; null if nothing.
pub fn provider_state() -> Result<Json> {
    member(&call("provider_state.get", Object::new())?, "value")
}

pub fn set_provider_state(value: impl ToJson) -> Result<()> {
    call("provider_state.put", Object::new().with("value", value)).map(|_| ())
}

/// A request to a server, which the operator must have granted.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    url: String,
    headers: Vec<Json>,
    body: Option<Vec<u8>>,
    timeout_ms: Option<u64>,
    redirects: Option<u32>,
}

impl Request {
    pub fn new(method: &str, url: impl Into<String>) -> Request {
        Request { method: method.into(), url: url.into(), headers: Vec::new(), body: None, timeout_ms: None, redirects: None }
    }

    pub fn get(url: impl Into<String>) -> Request {
        Request::new("GET", url)
    }

    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push(Object::new().with("name", name).with("value", value).json());
        self
    }

    /// A header that the host fills with a secret, which the plugin never sees.
    pub fn secret_header(mut self, name: &str, prefix: &str, secret: &str) -> Request {
        self.headers.push(Object::new().with("name", name).with("prefix", prefix).with("secret", secret).json());
        self
    }

    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Request {
        self.body = Some(body.into());
        self
    }

    pub fn timeout_ms(mut self, ms: u64) -> Request {
        self.timeout_ms = Some(ms);
        self
    }

    /// How many redirects are followed; none without it.
    pub fn redirects(mut self, most: u32) -> Request {
        self.redirects = Some(most);
        self
    }

    /// Sends it. Any status is a response.
    pub fn send(self) -> Result<Response> {
        let r = call("http.fetch", self.with_body(self.body.as_deref().map(to_base64)))?;
        let body = bytes(&r, "body")?;
        Response::of(&r, body)
    }

    /// `send` without base64.
    pub fn send_bytes(self) -> Result<Response> {
        let data = self.body.as_deref().unwrap_or_default();
        let (r, body) = call_bytes("http.fetch", self.with_body(Some(data.len())), data, "body")?;
        Response::of(&r, body)
    }

    fn with_body(&self, body: Option<impl ToJson>) -> Object {
        let request = Object::new().with("method", &self.method).with("url", &self.url).list("headers", &self.headers);
        request.maybe("body", body).maybe("timeout_ms", self.timeout_ms).maybe("redirects", self.redirects)
    }
}

#[derive(Clone, Debug)]
pub struct Response {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Response {
    fn of(r: &Json, body: Vec<u8>) -> Result<Response> {
        let header = |h: Json| Some((h.get("name")?.as_string()?, h.get("value")?.as_string()?));
        Ok(Response {
            status: whole(&r.get("status"), "status", 0)? as u16,
            headers: r.get("headers").map_or_else(Vec::new, |list| list.items().filter_map(header).collect()),
            body,
        })
    }

    pub fn is_ok(&self) -> bool {
        (200..300).contains(&self.status)
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str())
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON; code `unavailable` if it is none.
    pub fn json(&self) -> Result<Json> {
        Json::parse(self.text()).map_err(|_| Error::new(Code::Unavailable, "the answer is no JSON"))
    }
}

/// Artifacts of the session.
pub mod artifacts {
    use super::*;

    const PIECE: usize = 192 << 10;
    const BYTES_PIECE: usize = 512 << 10;

    /// Makes one, and returns its digest.
    pub fn write(name: &str, media_type: &str, data: &[u8]) -> Result<String> {
        let mut upload: Option<String> = None;
        let mut rest = data;
        loop {
            let (piece, left) = rest.split_at(rest.len().min(PIECE));
            let request = Object::new().with("name", name).with("media_type", media_type).with("data", to_base64(piece));
            let r = call("artifact.write", request.maybe("upload", upload).with("last", left.is_empty()))?;
            if left.is_empty() {
                return Ok(member(&r, "digest")?.as_string().unwrap_or_default());
            }
            upload = r.get("upload").and_then(|v| v.as_string());
            rest = left;
        }
    }

    /// `write` without base64.
    pub fn write_bytes(name: &str, media_type: &str, data: &[u8]) -> Result<String> {
        let mut upload: Option<String> = None;
        let mut rest = data;
        loop {
            let (piece, left) = rest.split_at(rest.len().min(BYTES_PIECE));
            let request = Object::new().with("name", name).with("media_type", media_type).with("data", piece.len());
            let (r, _) = call_bytes("artifact.write", request.maybe("upload", upload).with("last", left.is_empty()), piece, "")?;
            if left.is_empty() {
                return Ok(member(&r, "digest")?.as_string().unwrap_or_default());
            }
            upload = r.get("upload").and_then(|v| v.as_string());
            rest = left;
        }
    }

    /// `read` without base64.
    pub fn read_bytes(name: &str) -> Result<(Vec<u8>, String)> {
        let (r, mut data) = call_bytes("artifact.read", Object::new().with("name", name).with("length", BYTES_PIECE), &[], "data")?;
        let (size, digest) = (whole(&r.get("size"), "size", 0)? as usize, member(&r, "digest")?);
        while data.len() < size {
            let request = Object::new().with("digest", &digest).with("offset", data.len()).with("length", BYTES_PIECE);
            let (_, piece) = call_bytes("artifact.read", request, &[], "data")?;
            if piece.is_empty() {
                return Err(Error::new(Code::DataLoss, format!("artifact {name:?} ends early")));
            }
            data.extend(piece);
        }
        Ok((data, member(&r, "media_type")?.as_string().unwrap_or_default()))
    }

    /// Reads one by its name; returns its bytes and their media type.
    pub fn read(name: &str) -> Result<(Vec<u8>, String)> {
        let r = call("artifact.read", Object::new().with("name", name))?;
        let (mut data, size, digest) = (bytes(&r, "data")?, whole(&r.get("size"), "size", 0)? as usize, member(&r, "digest")?);
        while data.len() < size {
            let piece = bytes(&call("artifact.read", Object::new().with("digest", &digest).with("offset", data.len()))?, "data")?;
            if piece.is_empty() {
                return Err(Error::new(Code::DataLoss, format!("artifact {name:?} ends early")));
            }
            data.extend(piece);
        }
        Ok((data, member(&r, "media_type")?.as_string().unwrap_or_default()))
    }
}

/// Does part of a tool's work once in a run: f is not called again where it is done.
pub fn step(name: &str, f: impl FnOnce() -> Result<Json>) -> Result<Json> {
    let begun = call("step.begin", Object::new().with("name", name))?;
    if begun.get("done").and_then(|v| v.as_bool()) == Some(true) {
        return member(&begun, "result");
    }
    let left = f()?;
    call("step.end", Object::new().with("name", name).with("result", &left))?;
    Ok(left)
}

/// Sends an event to the run's stream while the call runs.
pub fn emit(kind: &str, data: impl ToJson) -> Result<()> {
    call("emit", Object::new().with("kind", kind).with("data", data)).map(|_| ())
}

pub fn progress(message: &str) -> Result<()> {
    emit("progress", Object::new().with("message", message))
}

/// Messages of the view that an outline describes.
pub fn messages(indices: &[usize]) -> Result<Vec<Message>> {
    member(&call("messages.get", Object::new().with("indices", indices))?, "messages")?.items().map(Message::checked).collect()
}

/// Counts the tokens of texts, for the model of the view; false: the host estimates.
pub fn count_tokens(texts: &[&str]) -> Result<(Vec<u64>, bool)> {
    let r = call("tokens.count", Object::new().with("texts", texts))?;
    Ok((member(&r, "tokens")?.read()?, r.get("exact").and_then(|v| v.as_bool()).unwrap_or(false)))
}

/// Asks a model, and returns the text of its answer.
pub fn generate(instructions: &str, question: &str) -> Result<String> {
    let r = call("model.generate", Object::new().with("instructions", instructions).with("messages", [Message::new("user", question)]))?;
    Ok(Message::checked(member(&r, "message")?)?.text())
}

/// A call of another tool, by the name under which the agent has it.
#[derive(Clone, Debug)]
pub struct ToolCall {
    name: String,
    arguments: Json,
}

impl ToolCall {
    pub fn new(name: impl Into<String>, arguments: impl ToJson) -> ToolCall {
        ToolCall { name: name.into(), arguments: arguments.to_json() }
    }
}

impl ToJson for ToolCall {
    fn write_json(&self, out: &mut String) {
        Object::new().with("name", &self.name).with("arguments", &self.arguments).write_json(out);
    }
}

/// What another tool returned.
#[derive(Clone, Debug)]
pub struct ToolResult {
    pub content: Json,
    /// Parts of type media.
    pub media: Vec<Json>,
}

impl ToolResult {
    /// The error of a call that failed has the sentence that a model would read.
    fn of(answer: &Json) -> Result<ToolResult> {
        let content = member(answer, "content")?;
        let text = |name| answer.get(name).and_then(|v| v.as_string()).unwrap_or_default();
        if text("kind") != "result" {
            return Err(Error::new(Code::named(&text("code")), content.as_string().unwrap_or_else(|| content.to_string())));
        }
        Ok(ToolResult { content, media: answer.get("media").map_or_else(Vec::new, |list| list.items().collect()) })
    }
}

/// Calls other tools of the agent at work, in a tool, at the same time, and returns what came of
/// each in the order of the calls: an error if the tool failed, a person denied the call, or
/// there is no such tool. It needs the permission `tools`.
///
/// If one of them asks a person, the host ends this call and makes it again, from its beginning,
/// when there is an answer: it must make the same calls then. What had completed is answered and
/// does not happen again.
///
/// The outer error, `permission_denied` and the like, says that no tool was called.
pub fn call_tools(calls: &[ToolCall]) -> Result<Vec<Result<ToolResult>>> {
    let results = member(&call("tool.call", Object::new().with("calls", calls))?, "results")?;
    let answers: Vec<_> = results.items().map(|answer| ToolResult::of(&answer)).collect();
    if answers.len() != calls.len() {
        return Err(Error::new(Code::Internal, format!("the host answers {} calls of tools with {} results", calls.len(), answers.len())));
    }
    Ok(answers)
}

/// Calls one tool as [`call_tools`] does, and returns the content of its result.
pub fn call_tool(name: &str, arguments: impl ToJson) -> Result<Json> {
    Ok(call_tools(&[ToolCall::new(name, arguments)])?.remove(0)?.content)
}

/// Leaves work for after the turn: the tool `handler` is called with the payload.
pub fn send(handler: &str, payload: impl ToJson) -> Result<String> {
    let r = call("queue.send", Object::new().with("handler", handler).with("payload", payload))?;
    Ok(member(&r, "id")?.as_string().unwrap_or_default())
}

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

fn to_base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() / 3 * 4 + 4);
    for group in bytes.chunks(3) {
        let n = group.iter().fold(0, |n, b| n << 8 | u32::from(*b)) << (8 * (3 - group.len()));
        for i in 0..4 {
            let letter = LETTERS[(n >> (18 - 6 * i) & 63) as usize];
            out.push(if i <= group.len() { letter as char } else { '=' });
        }
    }
    out
}

fn from_base64(text: &str) -> Result<Vec<u8>> {
    let broken = || Error::invalid("a value is not base64");
    let value = |c: u8| LETTERS.iter().position(|l| *l == c).map(|n| n as u32).ok_or_else(broken);
    let letters = text.trim_end_matches('=').as_bytes();
    if text.len() % 4 != 0 || text.len() - letters.len() > 2 {
        return Err(broken());
    }
    let mut out = Vec::with_capacity(letters.len());
    for group in letters.chunks(4) {
        let n = group.iter().try_fold(0, |n, c| Ok::<u32, Error>(n << 6 | value(*c)?))? << (6 * (4 - group.len()));
        out.extend((1..group.len()).map(|i| (n >> (24 - 8 * i)) as u8));
    }
    Ok(out)
}

/// The functions that a module imports, and what stands for them in native tests.
pub(crate) mod imports {
    #[cfg(target_arch = "wasm32")]
    mod guest {
        #[link(wasm_import_module = "agenthost_v1")]
        extern "C" {
            pub fn input_read(to: *mut u8, offset: u32, len: u32) -> u32;
            pub fn output_write(from: *const u8, len: u32);
            pub fn host_call(operation: *const u8, operation_len: u32, request: *const u8, request_len: u32) -> u64;
            pub fn host_call_bytes(operation: *const u8, operation_len: u32, request: *const u8, request_len: u32, data: *const u8, data_len: u32) -> u64;
            pub fn host_read(to: *mut u8, offset: u32, len: u32) -> u32;
            pub fn log(level: u32, from: *const u8, len: u32);
        }

        #[link(wasm_import_module = "wasi_snapshot_preview1")]
        extern "C" {
            pub fn fd_write(file: u32, buffers: *const [u32; 2], count: u32, written: *mut u32) -> u32;
        }

        /// read reads a whole input, or response, from an offset, piece by piece.
        pub fn read(from: u32, len: u32, some: unsafe extern "C" fn(*mut u8, u32, u32) -> u32) -> Vec<u8> {
            let mut bytes = vec![0; len as usize];
            let mut at = 0;
            while at < len {
                // The range is within bytes, which the host fills and keeps no hold of.
                match unsafe { some(bytes[at as usize..].as_mut_ptr(), from + at, len - at) } {
                    0 => break,
                    n => at += n,
                }
            }
            bytes.truncate(at as usize);
            bytes
        }
    }

    #[cfg(target_arch = "wasm32")]
    pub fn input(len: u32) -> Vec<u8> {
        guest::read(0, len, guest::input_read)
    }

    #[cfg(target_arch = "wasm32")]
    pub fn output(text: &str) {
        unsafe { guest::output_write(text.as_ptr(), text.len() as u32) }
    }

    #[cfg(target_arch = "wasm32")]
    pub fn log(level: u32, text: &str) {
        unsafe { guest::log(level, text.as_ptr(), text.len() as u32) }
    }

    /// last_words writes to standard error, from where the host takes them into the error of
    /// the call that traps.
    #[cfg(target_arch = "wasm32")]
    pub fn last_words(text: &str) {
        let (buffer, mut written) = ([text.as_ptr() as u32, text.len() as u32], 0);
        unsafe { guest::fd_write(2, &buffer, 1, &mut written) };
    }

    #[cfg(target_arch = "wasm32")]
    pub fn call(operation: &str, request: &str) -> (bool, String) {
        let r = unsafe { guest::host_call(operation.as_ptr(), operation.len() as u32, request.as_ptr(), request.len() as u32) };
        (r >> 32 != 0, String::from_utf8_lossy(&guest::read(0, r as u32, guest::host_read)).into_owned())
    }

    #[cfg(target_arch = "wasm32")]
    pub fn call_bytes(operation: &str, request: &str, data: &[u8]) -> (bool, Vec<u8>) {
        let (name, text) = (operation.as_bytes(), request.as_bytes());
        let r = unsafe { guest::host_call_bytes(name.as_ptr(), name.len() as u32, text.as_ptr(), text.len() as u32, data.as_ptr(), data.len() as u32) };
        (r >> 32 != 0, guest::read(0, r as u32, guest::host_read))
    }

    /// beside reads the bytes that stand behind a response.
    #[cfg(target_arch = "wasm32")]
    pub fn beside(offset: u32, len: u32) -> Vec<u8> {
        guest::read(offset, len, guest::host_read)
    }

    #[cfg(not(target_arch = "wasm32"))]
    mod native {
        pub fn input(_: u32) -> Vec<u8> {
            Vec::new()
        }

        pub fn output(text: &str) {
            println!("{text}");
        }

        pub fn log(_: u32, text: &str) {
            eprintln!("{text}");
        }

        pub fn last_words(text: &str) {
            eprint!("{text}");
        }

        pub fn call(operation: &str, _: &str) -> (bool, String) {
            (true, format!("{{\"code\":\"unimplemented\",\"message\":\"there is no host that does {operation}\"}}"))
        }

        pub fn call_bytes(operation: &str, request: &str, _: &[u8]) -> (bool, Vec<u8>) {
            let (failed, response) = call(operation, request);
            (failed, response.into_bytes())
        }

        pub fn beside(_: u32, _: u32) -> Vec<u8> {
            Vec::new()
        }
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub use native::*;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_keeps_bytes() {
        for n in 0..10u8 {
            let bytes: Vec<u8> = (0..n).map(|i| i.wrapping_mul(97) ^ 0x80).collect();
            assert_eq!(from_base64(&to_base64(&bytes)).unwrap(), bytes);
        }
        for bad in ["a", "====", "ab*=", "abcde"] {
            assert!(from_base64(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn without_a_host_operations_are_unimplemented() {
        assert_eq!(call("kv.get", Object::new()).unwrap_err().code, Code::Unimplemented);
        assert_eq!(call_bytes("kv.get", Object::new(), &[], "value").unwrap_err().code, Code::Unimplemented);
    }
}
