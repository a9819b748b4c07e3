//! A manifest is shared and committed: it must not contain credentials.

use super::problems::Problems;
use crate::diagnostic::{Code, Problem};
use crate::manifest::Effective;

/// Parts of the names that stores give to secrets in a query.
const SECRETS: &[&str] = &["key", "token", "secret", "password", "signature", "credential"];

pub fn check(effective: &Effective<'_>, problems: &mut Problems) {
    let Some(mirror) = effective.config.checkpoint_mirror.as_ref() else { return };
    if holds_secret(&mirror.target.value) {
        let message = "`checkpoint_mirror` holds credentials, which everybody who reads the manifest can see";
        let hint = "remove them, and change them if anybody has seen them; the store's environment \
                    variables or its configuration file hold them";
        problems.push(Problem::new(Code::Credentials, mirror.target.span, message).hint(hint));
    }
}

/// `scheme://user:password@host/path?token=...`; a user alone is a name, and so is a container.
fn holds_secret(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = place.split('/').next().unwrap_or_default();
    let password = authority.rsplit_once('@').is_some_and(|(user, _)| user.contains(':'));
    password || query.split('&').filter_map(|pair| pair.split_once('=')).any(|(name, _)| is_secret(name))
}

fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    // Azure's shared access signature.
    name == "sig" || SECRETS.iter().any(|part| name.contains(part))
}

#[cfg(test)]
mod tests {
    use super::holds_secret;

    #[test]
    fn urls_without_credentials_are_accepted() {
        for url in [
            "s3://bucket/path",
            "sftp://user@host/path",
            "abfs://container@account.dfs.core.windows.net/path",
            "s3://bucket/path?region=eu-west-1",
            "C:/checkpoints",
            "a:b@c",
            "s3://bucket/a:b@c",
        ] {
            assert!(!holds_secret(url), "{url}");
        }
    }

    #[test]
    fn passwords_and_tokens_are() {
        for url in [
            "s3://id:word@bucket/path",
            "az://container/path?sv=1&sig=abc",
            "https://host/path?X-Amz-Signature=abc",
            "gs://bucket?access_token=abc",
        ] {
            assert!(holds_secret(url), "{url}");
        }
    }
}
