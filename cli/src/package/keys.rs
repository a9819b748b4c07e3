//! Ed25519 keys in PEM, as `openssl` reads and writes them, and the signature of a package.

use std::io::Write;
use std::path::{Path, PathBuf};

use ed25519_dalek::pkcs8::EncodePrivateKey;
use ed25519_dalek::pkcs8::spki::der::pem::LineEnding;
use ed25519_dalek::pkcs8::{DecodePrivateKey, DecodePublicKey, EncodePublicKey, KeypairBytes};
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use expert_contract::digest::hex;
use fs_err as fs;
use serde::{Deserialize, Serialize};

use super::contents::Contents;
use crate::failure::Failure;
use crate::sys::durable;
use crate::sys::files::remove;

const ALGORITHM: &str = "ed25519";
/// In front of the signed list, so that a signature of something else is never one of a package.
const PURPOSE: &str = "expert package 1\n";
const LARGEST: u64 = 64 << 10;

/// `signature.sig`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    algorithm: String,
    public_key: String,
    signature: String,
}

/// What is known of a package's signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state", rename_all = "kebab-case")]
pub enum Signed {
    /// By the given key.
    Valid {
        key: String,
    },
    /// It fits the package and the key that stands in it, which nobody has vouched for.
    UnknownKey {
        key: String,
    },
    Unsigned,
    /// It fits neither the package nor its key, or the key is not the given one.
    Wrong {
        reason: String,
    },
}

impl Signed {
    pub fn key(&self) -> Option<&String> {
        match self {
            Self::Valid { key } | Self::UnknownKey { key } => Some(key),
            Self::Unsigned | Self::Wrong { .. } => None,
        }
    }
}

/// The private key's file and the public one's beside it.
pub struct Pair {
    pub private: PathBuf,
    pub public: PathBuf,
    pub key: String,
}

/// Both files are new, and only the user can read the private key.
pub fn generate(private: &Path) -> Result<Pair, Failure> {
    let mut seed = [0_u8; 32];
    getrandom::fill(&mut seed).map_err(|error| {
        Failure::missing("no-randomness", format!("the system gives no random numbers: {error}"))
    })?;
    let key = SigningKey::from_bytes(&seed);
    let public = public_beside(private);
    for path in [private, &public] {
        if path.symlink_metadata().is_ok() {
            let message = format!("{} is there already, and a key is never overwritten", path.display());
            return Err(Failure::bad_input("key-exists", message)
                .hint("use that key, or name another file with --output"));
        }
    }
    let unwritable = |error: &dyn std::fmt::Display| {
        Failure::bad_input("bad-key", format!("cannot encode the key: {error}"))
    };
    let pair = KeypairBytes { secret_key: seed, public_key: None };
    let secret = pair.to_pkcs8_pem(LineEnding::LF).map_err(|error| unwritable(&error))?;
    let open = key.verifying_key().to_public_key_pem(LineEnding::LF).map_err(|error| unwritable(&error))?;
    write_secret(private, secret.as_bytes()).map_err(|error| {
        Failure::writing("write", private, &error).hint("choose another file with --output")
    })?;
    durable::create(&public, open.as_bytes()).map_err(|error| {
        // Alone it would keep its name from the next attempt.
        let _ = remove(private);
        Failure::writing("write", &public, &error).hint("choose another file with --output")
    })?;
    Ok(Pair { private: private.to_owned(), public, key: hex(key.verifying_key().as_bytes()) })
}

/// `key.pem` and `key` -> `key.pub.pem`. Another ending stays: `release-1.2` and `release-1.3` are two keys.
pub fn public_beside(private: &Path) -> PathBuf {
    let is_pem = private.extension().is_some_and(|ending| ending == "pem");
    let mut name = if is_pem { private.with_extension("") } else { private.to_owned() }.into_os_string();
    name.push(".pub.pem");
    name.into()
}

fn write_secret(path: &Path, text: &[u8]) -> std::io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use fs_err::os::unix::fs::OpenOptionsExt;
        options.mode(0o600);
    }
    let mut file = options.open(path)?;
    let written = file.write_all(text).and_then(|()| file.sync_all());
    if written.is_err() {
        let _ = remove(path);
    }
    written
}

pub fn private(path: &Path) -> Result<SigningKey, Failure> {
    let text = read(path)?;
    SigningKey::from_pkcs8_pem(&text).map_err(|_| {
        let hint = if text.contains("BEGIN PUBLIC KEY") {
            "this is the public key: sign with the private one"
        } else {
            "`expert-cli keygen` makes one"
        };
        Failure::bad_input("bad-key", format!("{} holds no Ed25519 private key", path.display())).hint(hint)
    })
}

pub fn public(path: &Path) -> Result<VerifyingKey, Failure> {
    let text = read(path)?;
    VerifyingKey::from_public_key_pem(&text).map_err(|_| {
        let hint = if text.contains("PRIVATE KEY") {
            "this is a private key: give the public one, and never pass the private one on"
        } else {
            "ask whoever signed the package for the public key's file, which `expert-cli keygen` writes"
        };
        Failure::bad_input("bad-key", format!("{} holds no Ed25519 public key", path.display())).hint(hint)
    })
}

fn read(path: &Path) -> Result<String, Failure> {
    let unreadable = |error: &std::io::Error| Failure::reading("read the key", path, error);
    let data = fs::metadata(path).map_err(|error| unreadable(&error))?;
    if !data.is_file() || data.len() > LARGEST {
        return Err(Failure::bad_input("bad-key", format!("{} is not a key's file", path.display())));
    }
    fs::read_to_string(path).map_err(|error| unreadable(&error))
}

/// `signature.sig` for these files, of which the manifest is one.
pub fn sign(contents: &Contents, key: &SigningKey) -> serde_json::Result<Vec<u8>> {
    let signature = key.sign(message(contents).as_bytes());
    let mut text = serde_json::to_vec_pretty(&Document {
        algorithm: ALGORITHM.to_owned(),
        public_key: hex(key.verifying_key().as_bytes()),
        signature: hex(&signature.to_bytes()),
    })?;
    text.push(b'\n');
    Ok(text)
}

fn message(contents: &Contents) -> String {
    format!("{PURPOSE}{}", contents.listing())
}

pub fn check(contents: &Contents, trusted: Option<&VerifyingKey>) -> Signed {
    let Some(text) = &contents.signature else { return Signed::Unsigned };
    let wrong = |reason: &str| Signed::Wrong { reason: reason.to_owned() };
    let Some((key, signature)) = parsed(text) else { return wrong("signature.sig cannot be read") };
    if trusted.is_some_and(|trusted| *trusted != key) {
        return wrong(&format!("it is signed by another key, {}", hex(key.as_bytes())));
    }
    if key.verify_strict(message(contents).as_bytes(), &signature).is_err() {
        return wrong("the signature does not fit the files");
    }
    let key = hex(key.as_bytes());
    if trusted.is_some() { Signed::Valid { key } } else { Signed::UnknownKey { key } }
}

fn parsed(text: &[u8]) -> Option<(VerifyingKey, Signature)> {
    let document: Document = serde_json::from_slice(text).ok()?;
    if document.algorithm != ALGORITHM {
        return None;
    }
    let key = VerifyingKey::from_bytes(&bytes(&document.public_key)?).ok()?;
    Some((key, Signature::from_bytes(&bytes(&document.signature)?)))
}

fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |byte: u8| (byte as char).to_digit(16).map(|digit| digit as u8);
    let pairs =
        text.as_bytes().chunks(2).map(|pair| Some(digit(*pair.first()?)? << 4 | digit(*pair.get(1)?)?));
    pairs.collect::<Option<Vec<u8>>>()?.try_into().ok()
}
