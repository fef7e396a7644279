//! A tool that asks a server for a translation, with a key that the plugin never sees.

use agenthost::{arguments, host, json, plugin, Call, Code, Error, Json, Plugin, Result, Tool};

arguments! {
    struct Translate {
        text: String,
        /// A language code, such as de.
        to: String,
    }
}

fn translate(args: Translate, _: &mut Call) -> Result<Json> {
    let question = json!({"text": args.text, "to": args.to});
    let response = host::Request::new("POST", "https://translate.example.com:8443/v1/translate")
        .header("Content-Type", "application/json")
        .secret_header("Authorization", "Bearer ", "translate_key")
        .body(question.text())
        .send()?;
    if !response.is_ok() {
        let mut error = Error::new(Code::Unavailable, format!("the translation server answers with status {}", response.status));
        error.retryable = response.status >= 500;
        return Err(error);
    }
    Ok(json!({"text": response.json()?.get("text")}))
}

plugin! {
    Plugin::new("translate", "1.0.0")
        .description("Translates texts.")
        .permissions(json!({
            "http": json!([json!({"host": "translate.example.com", "port": 8443, "methods": json!(["POST"])})]),
            "secrets": json!([json!({"name": "translate_key", "hosts": json!(["translate.example.com:8443"])})]),
        }))
        .tool(Tool::new("translate", "Translates a text into another language.").read_only(), translate)
}
