//! Requests over HTTP, each on the thread that waits for it.

use object_store::{
    ClientConfigKey, ClientOptions,
    client::{
        HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse,
        HttpResponseBody, HttpService,
    },
};
use std::{future::Future, io::Read, time::Duration};
use ureq::http::{
    HeaderValue, Method, Response, StatusCode,
    header::{AUTHORIZATION, CONTENT_LENGTH, IF_NONE_MATCH, RANGE},
};

/// Most bytes of an answer that is no range.
const LARGEST: u64 = 64 << 20;
/// How long a server may take to begin an answer, or to go on with it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for the answer to a request, on this thread.
pub fn wait<T: Send>(future: impl Future<Output = T> + Send) -> T {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.expect("a runtime of one thread opens no files").block_on(future)
    };
    match tokio::runtime::Handle::try_current() {
        Err(_) => run(),
        // A caller's own runtime, on whose threads no other may wait.
        Ok(_) => std::thread::scope(|scope| {
            scope.spawn(run).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }),
    }
}

/// Makes clients.
#[derive(Clone, Default)]
pub struct Connector {
    /// Goes with every request.
    pub authorization: Option<HeaderValue>,
    /// Whether an upload in parts must not replace anything when it is completed.
    pub only_new: bool,
}

impl std::fmt::Debug for Connector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Connector")
    }
}

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let allow_http = options.get_config_value(&ClientConfigKey::AllowHttp);
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .https_only(allow_http.is_none_or(|v| v != "true"))
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .timeout_per_read(Some(PATIENCE))
            .max_idle_connections_per_host(16)
            .user_agent(concat!("lmc-gpu/", env!("CARGO_PKG_VERSION")))
            .build();
        let agent = config.new_agent();
        Ok(HttpClient::new(Client { agent, connector: self.clone() }))
    }
}

struct Client {
    agent: ureq::Agent,
    connector: Connector,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl HttpService for Client {
    fn call<'c, 'f>(
        &'c self,
        request: HttpRequest,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        'c: 'f,
        Self: 'f,
    {
        Box::pin(async move { self.answer(request).await })
    }
}

impl Client {
    async fn answer(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (mut parts, body) = request.into_parts();
        if let Some(authorization) = &self.connector.authorization {
            parts.headers.insert(AUTHORIZATION, authorization.clone());
        }
        let completes = || parts.uri.query().is_some_and(|q| q.contains("uploadId="));
        if self.connector.only_new && parts.method == Method::POST && completes() {
            parts.headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        }
        let asked = parts.headers.get(RANGE).and_then(length_of);
        // Bodies are in memory already: this waits for nothing.
        let body = HttpResponseBody::new(body).bytes().await?;
        let request = ureq::http::Request::from_parts(parts, &body[..]);
        let (mut parts, body) = self.agent.run(request).map_err(failed)?.into_parts();
        let limit = match parts.status {
            StatusCode::PARTIAL_CONTENT => asked.unwrap_or(LARGEST),
            // All of what was asked a range of; nothing reads it.
            _ if asked.is_some() && parts.status.is_success() => 0,
            _ => LARGEST,
        };
        let mut bytes = Vec::with_capacity(asked.unwrap_or(0).min(limit).min(LARGEST) as usize);
        if limit > 0 {
            let read = body.into_reader().take(limit).read_to_end(&mut bytes);
            read.map_err(|e| HttpError::new(HttpErrorKind::Interrupted, e))?;
        }
        if parts.status == StatusCode::PARTIAL_CONTENT
            && asked.is_some_and(|_| {
                declared(&parts).is_some_and(|n| n.min(limit) != bytes.len() as u64)
            })
        {
            let short = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
            return Err(HttpError::new(HttpErrorKind::Interrupted, short));
        }
        if parts.status.is_client_error() || parts.status.is_server_error() {
            // Errors quote requests, with what is secret in them.
            bytes = said(&bytes).into_bytes();
            parts.headers.remove(CONTENT_LENGTH);
        }
        Ok(Response::from_parts(parts, bytes.into()))
    }
}

/// Code and message of an error of a bucket.
fn said(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let of = |name: &str| {
        let after = text.split_once(&format!("<{name}>"))?.1;
        Some(after.split_once('<')?.0.chars().take(300).collect::<String>())
    };
    let parts = [of("Code"), of("Message")];
    parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
}

/// Bytes that an answer says it has.
fn declared(parts: &ureq::http::response::Parts) -> Option<u64> {
    let range = parts.headers.get(ureq::http::header::CONTENT_RANGE)?.to_str().ok()?;
    length_of_text(range.strip_prefix("bytes ")?.split('/').next()?)
}

/// Bytes that a request asks for.
fn length_of(range: &HeaderValue) -> Option<u64> {
    length_of_text(range.to_str().ok()?.strip_prefix("bytes=")?)
}

fn length_of_text(range: &str) -> Option<u64> {
    let (first, last) = range.split_once('-')?;
    let (first, last) = (first.trim().parse::<u64>().ok()?, last.trim().parse::<u64>().ok()?);
    last.checked_sub(first)?.checked_add(1)
}

fn failed(e: ureq::Error) -> HttpError {
    let kind = match &e {
        ureq::Error::Timeout(_) => HttpErrorKind::Timeout,
        ureq::Error::HostNotFound | ureq::Error::ConnectionFailed => HttpErrorKind::Connect,
        ureq::Error::Io(e) if e.kind() == std::io::ErrorKind::ConnectionRefused => {
            HttpErrorKind::Connect
        }
        ureq::Error::Io(_) | ureq::Error::Protocol(_) => HttpErrorKind::Interrupted,
        _ => HttpErrorKind::Unknown,
    };
    HttpError::new(kind, e)
}
