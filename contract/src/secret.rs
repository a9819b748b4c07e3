//! What must not be shown: a secret that stands in a manifest where it does not belong.

/// Whether a key of this name holds a secret. A tokenizer's tokens and numbers of tokens are none.
pub fn is_secret_key(name: &str) -> bool {
    let name = name.to_ascii_lowercase().replace('-', "_");
    let of_a_tokenizer =
        ["pad", "eos", "bos", "unk", "sep", "cls", "mask", "stop", "image", "special", "end", "start"];
    let token =
        name == "token" || name.strip_suffix("_token").is_some_and(|start| !of_a_tokenizer.contains(&start));
    token
        || ["secret", "password", "passwd", "api_key", "apikey", "access_key", "credential"]
            .iter()
            .any(|part| name.contains(part))
}

/// How the tokens of the services that trainers talk to begin.
const TOKENS: [&str; 6] = ["hf_", "sk-", "ghp_", "github_pat_", "gho_", "AKIA"];
const SHORTEST: usize = 16;

/// The text with what is secret in it covered, byte for byte, so that places stay where they are.
pub fn covered(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut key = None;
    let mut rest = text;
    while let Some(open) = rest.find('"') {
        let (between, quoted) = rest.split_at(open + 1);
        // Only a colon stands between a key and its value.
        key = key.filter(|_| between[..open].chars().all(|c| c == ':' || c.is_ascii_whitespace()));
        shown.push_str(between);
        let inside = &quoted[..closing(quoted)];
        let token = inside.len() >= SHORTEST && TOKENS.iter().any(|begin| inside.starts_with(begin));
        if token || key.is_some_and(is_secret_key) {
            shown.push_str(&"*".repeat(inside.len()));
        } else {
            shown.push_str(inside);
        }
        rest = &quoted[inside.len()..];
        if let Some(after) = rest.strip_prefix('"') {
            shown.push('"');
            rest = after;
        }
        key = Some(inside);
    }
    shown + rest
}

/// How much of the text belongs to the quotes that were opened; a line's end closes them too.
fn closing(quoted: &str) -> usize {
    let mut escaped = false;
    let end = quoted.bytes().position(|byte| {
        let ends = byte == b'\n' || (byte == b'"' && !escaped);
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(quoted.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_covered_and_nothing_else_is() {
        assert_eq!(covered(r#"  "hf_token": "abc", "rank": 8,"#), r#"  "hf_token": "***", "rank": 8,"#);
        assert_eq!(covered(r#""api_key" : "a\"b"}"#), r#""api_key" : "****"}"#);
        assert_eq!(covered(r#""x": "hf_abcdefghijklmnop""#), r#""x": "*******************""#);
        assert_eq!(covered(r#""password": "open"#), r#""password": "****"#);
        assert_eq!(covered("\"token\":\n\"é\"\n"), "\"token\":\n\"**\"\n");
        for line in [
            r#""pad_token": "<pad>""#,
            r#""max_tokens": 5, "name": "x""#,
            r#""token", "abc""#,
            r#"{"a": "hf_x"}"#,
            "\\\"\\",
        ] {
            assert_eq!(covered(line), line);
        }
    }
}
