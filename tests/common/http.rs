//! A server of files over HTTP that counts what it is asked for, and misbehaves when it is told to.

use std::{
    collections::{BTreeMap, HashMap},
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// What a server does with one request instead of answering it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    /// Answers with this status.
    Status(u16),
    /// Closes the connection without an answer.
    Reset,
    /// Closes the connection in the middle of the body.
    Cut,
    /// Waits a moment in the middle of the body.
    Slow,
    /// Somebody else writes what is to be written only where there is nothing, just before.
    Taken,
    /// Waits for long before it does anything.
    Late,
    /// Sends all of the file, as if no range had been asked for.
    NoRange,
    /// Sends fewer bytes than the range that it names has.
    Short,
    /// Sends the range behind the one that was asked for.
    Shifted,
}

type Judge = Box<dyn FnMut(usize) -> Option<Fault> + Send>;

/// One request as it came.
#[allow(dead_code, reason = "printed where a test fails")]
#[derive(Clone, Debug)]
pub struct Seen {
    pub method: String,
    pub target: String,
    pub headers: HashMap<String, String>,
    /// Bytes of the body of the answer.
    pub bytes: u64,
}

struct State {
    files: HashMap<String, Arc<Vec<u8>>>,
    /// Parts of uploads that are neither complete nor aborted, by their numbers.
    uploads: HashMap<String, BTreeMap<usize, Vec<u8>>>,
    seen: Vec<Seen>,
    judge: Judge,
}

/// The server; it ends with the process.
#[derive(Clone)]
pub struct Server {
    pub address: String,
    state: Arc<Mutex<State>>,
}

impl Server {
    pub fn start() -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (files, uploads, seen) = (HashMap::new(), HashMap::new(), Vec::new());
        let state = State { files, uploads, seen, judge: Box::new(|_| None) };
        let server = Server { address, state: Arc::new(Mutex::new(state)) };
        let serving = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = serving.clone();
                thread::spawn(move || server.serve(stream));
            }
        });
        server
    }

    pub fn url(&self, name: &str) -> String {
        format!("http://{}/{name}", self.address)
    }

    pub fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state.lock().unwrap();
        state.files.insert(format!("/{name}"), Arc::new(bytes));
    }

    /// What to do with the requests from now on, by their numbers.
    pub fn judge(&self, judge: impl FnMut(usize) -> Option<Fault> + Send + 'static) {
        let mut state = self.state.lock().unwrap();
        state.judge = Box::new(judge);
        state.seen.clear();
    }

    /// The requests since the last call.
    pub fn seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.state.lock().unwrap().seen)
    }

    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state.lock().unwrap();
        state.files.get(&format!("/{name}")).map(|bytes| bytes.to_vec())
    }

    /// Uploads that are neither complete nor aborted.
    pub fn unfinished(&self) -> usize {
        self.state.lock().unwrap().uploads.len()
    }

    /// Answers what a bucket of S3 is asked to write.
    fn write(
        &self,
        method: &str,
        target: &str,
        body: Vec<u8>,
        only_new: bool,
        out: &mut TcpStream,
    ) -> Option<()> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let query: HashMap<&str, &str> =
            query.split('&').map(|q| q.split_once('=').unwrap_or((q, ""))).collect();
        let mut guard = self.state.lock().unwrap();
        let state = &mut *guard;
        let id = query.get("uploadId").map(|id| id.to_string());
        let parts = id.as_ref().map(|id| state.uploads.get_mut(id));
        let taken = only_new && state.files.contains_key(path);
        let mut text = String::new();
        let code = match (method, parts) {
            ("POST", None) => {
                let id = format!("upload{}", state.seen.len());
                state.uploads.insert(id.clone(), BTreeMap::new());
                text = format!(
                    "<InitiateMultipartUploadResult><Bucket>b</Bucket><Key>k</Key>\
                     <UploadId>{id}</UploadId></InitiateMultipartUploadResult>"
                );
                200
            }
            (_, Some(None)) => 404,
            ("PUT", Some(Some(parts))) => {
                parts.insert(query["partNumber"].parse().unwrap(), body);
                200
            }
            ("POST" | "PUT", _) if taken => 412,
            ("POST", Some(Some(parts))) => {
                let whole = std::mem::take(parts).into_values().flatten().collect();
                state.files.insert(path.into(), Arc::new(whole));
                state.uploads.remove(&id.unwrap());
                text = "<CompleteMultipartUploadResult><ETag>\"e\"</ETag>\
                        </CompleteMultipartUploadResult>"
                    .into();
                200
            }
            ("DELETE", Some(Some(_))) => {
                state.uploads.remove(&id.unwrap());
                204
            }
            ("PUT", None) => {
                state.files.insert(path.into(), Arc::new(body));
                200
            }
            _ => 400,
        };
        drop(guard);
        let len = text.len();
        let head =
            format!("HTTP/1.1 {code} Status\r\netag: \"e\"\r\ncontent-length: {len}\r\n\r\n");
        out.write_all((head + &text).as_bytes()).ok()
    }

    fn serve(&self, stream: TcpStream) {
        stream.set_nodelay(true).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut out = stream;
        while self.answer(&mut reader, &mut out).is_some() {}
    }

    /// Answers one request; `None` where the connection is closed.
    fn answer(&self, reader: &mut BufReader<TcpStream>, out: &mut TcpStream) -> Option<()> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|n| *n > 0)?;
        let mut words = line.split_whitespace();
        let (method, target) = (words.next()?.to_owned(), words.next()?.to_owned());
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim().split_once(':') else { break };
            headers.insert(name.to_lowercase(), value.trim().to_owned());
        }
        let len = headers.get("content-length").map_or(0, |n| n.parse().unwrap());
        let mut body = vec![0; len];
        reader.read_exact(&mut body).ok()?;
        let range = headers.get("range").cloned();
        let only_new = headers.contains_key("if-none-match");
        let asked = target.clone();
        let path = target.split('?').next().unwrap().to_owned();
        let (fault, file, n) = {
            let mut state = self.state.lock().unwrap();
            let n = state.seen.len();
            let fault = (state.judge)(n);
            let seen = Seen { method: method.clone(), target, headers, bytes: 0 };
            state.seen.push(seen);
            (fault, state.files.get(&path).cloned(), n)
        };
        let status = |out: &mut TcpStream, status: u16| {
            let text = format!("HTTP/1.1 {status} Status\r\ncontent-length: 0\r\n\r\n");
            out.write_all(text.as_bytes()).ok()
        };
        match fault {
            Some(Fault::Status(code)) => return status(out, code),
            Some(Fault::Reset) => return None,
            Some(Fault::Late) => thread::sleep(Duration::from_secs(2)),
            _ => {}
        }
        if fault == Some(Fault::Taken) && only_new {
            self.put(path.trim_start_matches('/'), vec![1]);
        }
        if method != "GET" && method != "HEAD" {
            return self.write(&method, &asked, body, only_new, out);
        }
        let Some(file) = file else { return status(out, 404) };
        let tag = format!("\"{:x}-{}\"", checksum(&file), file.len());
        let mut head = format!("etag: {tag}\r\n");
        let mut all = 0..file.len();
        let mut code = 200;
        if let Some(range) = range.filter(|_| fault != Some(Fault::NoRange)) {
            let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
            let first: usize = first.parse().ok()?;
            let end = last.parse().map_or(file.len(), |last: usize| (last + 1).min(file.len()));
            if first >= end {
                return status(out, 416);
            }
            all = first..end;
            if fault == Some(Fault::Shifted) {
                all = first + 1..(end + 1).min(file.len());
            }
            code = 206;
            let (last, of) = (all.end - 1, file.len());
            head += &format!("content-range: bytes {}-{last}/{of}\r\n", all.start);
        }
        let mut bytes = &file[all];
        if fault == Some(Fault::Short) {
            bytes = &bytes[..bytes.len() / 2];
        }
        let head =
            format!("HTTP/1.1 {code} Status\r\n{head}content-length: {}\r\n\r\n", bytes.len());
        out.write_all(head.as_bytes()).ok()?;
        if method == "HEAD" {
            return Some(());
        }
        if let Some(seen) = self.state.lock().unwrap().seen.get_mut(n) {
            seen.bytes = bytes.len() as u64;
        }
        let (first, rest) = bytes.split_at(bytes.len() / 2);
        out.write_all(first).ok()?;
        match fault {
            Some(Fault::Cut) => return None,
            Some(Fault::Slow) => thread::sleep(Duration::from_millis(200)),
            _ => {}
        }
        out.write_all(rest).ok()
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(7, |sum, &b| sum.wrapping_mul(31).wrapping_add(u64::from(b)))
}
