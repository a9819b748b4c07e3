//! `Recipe`: everything that decides a row's ids and labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::oracle;
use super::tokenizer::PyTokenizer;
use crate::encoder::SUPERVISED;
use crate::pipeline::{self, Coder, Overlong, Recipe};
use crate::rows::{Shaped, Shaper, TrainOn, Value, row_of_json};
use crate::template::{Engine, How, calls, decides, reads};

/// Whether a chat template reads a variable of this name.
#[pyfunction]
pub fn template_reads(template: &str, name: &str) -> bool {
    reads(template, name)
}

/// Whether a chat template gives a variable of this name a value itself, before anything reads it.
#[pyfunction]
pub fn template_decides(template: &str, name: &str) -> bool {
    decides(template, name)
}

#[pyclass(name = "Recipe", module = "expert_worker._native", frozen)]
pub struct PyRecipe {
    pub inner: Arc<Recipe>,
}

/// Text, learned byte ranges, ids and whether each is learned.
type Shown = (String, Vec<(usize, usize)>, Vec<u32>, Vec<bool>);

#[pymethods]
impl PyRecipe {
    #[new]
    #[pyo3(signature = (*, template, specials, mapping, parse_dialogue, train_on, eos, stops, prefix, suffix,
                        max_seq_length, overlong, deduplicate, min_length, max_length, interpret))]
    fn new(
        template: &str,
        specials: BTreeMap<String, String>,
        mapping: BTreeMap<String, String>,
        parse_dialogue: bool,
        train_on: &str,
        eos: Vec<u32>,
        stops: Vec<String>,
        prefix: Vec<u32>,
        suffix: Vec<u32>,
        max_seq_length: u32,
        overlong: &str,
        deduplicate: bool,
        min_length: Option<u64>,
        max_length: Option<u64>,
        interpret: bool,
    ) -> PyResult<Self> {
        let engine = Engine::new(template, &specials).map_err(PyValueError::new_err)?;
        let recipe = Recipe {
            shaper: Shaper::new(mapping, parse_dialogue, train_on_of(train_on)?, template),
            engine,
            eos,
            stops,
            frame: (prefix, suffix),
            max_seq_length: max_seq_length as usize,
            overlong: overlong_of(overlong)?,
            deduplicate,
            min_length,
            max_length,
            interpret,
        };
        Ok(Self { inner: Arc::new(recipe) })
    }

    /// The row's messages as role and content, or its bare text under the role "text"; from a row in JSON.
    fn turns(&self, row: &str) -> PyResult<Vec<(String, String)>> {
        let row = parse(row)?;
        let shaped = self.inner.shaper.shape(&row).map_err(|fault| PyValueError::new_err(fault.message))?;
        Ok(match shaped {
            Shaped::Text(text) => vec![("text".into(), text.into_owned())],
            Shaped::Turns(turns) => {
                turns.into_iter().map(|turn| (turn.role.into_owned(), turn.content.into_owned())).collect()
            }
            Shaped::Rich { messages, .. } => messages.iter().map(role_and_content).collect(),
        })
    }

    /// What the chat template makes of messages and tools given in JSON, and the byte ranges that it marks as generated.
    /// `enable_thinking` is the variable by which templates of thinking models turn thoughts off.
    #[pyo3(signature = (messages, add_generation_prompt, enable_thinking=None, tools=None))]
    fn render(
        &self,
        py: Python<'_>,
        messages: &str,
        add_generation_prompt: bool,
        enable_thinking: Option<bool>,
        tools: Option<&str>,
    ) -> PyResult<(String, Vec<(usize, usize)>)> {
        let Value::List(messages) = parse(messages)? else {
            return Err(PyValueError::new_err("messages must be a list"));
        };
        let tools = tools.map(parse).transpose()?;
        let how = How { add_generation_prompt, enable_thinking };
        // Detached, so that the thread that watches memory runs meanwhile.
        let rendered = py
            .detach(|| {
                calls::in_any_form(&messages, |form| self.inner.engine.values(form, tools.as_ref(), how))
            })
            .map_err(|fault| PyValueError::new_err(fault.message))?;
        Ok((rendered.text, rendered.generated.iter().map(|span| (span.start, span.end)).collect()))
    }

    /// The row as it will be learned, by the same steps as a build; from a row in JSON.
    fn show(&self, py: Python<'_>, row: &str, coder: &Bound<'_, PyAny>) -> PyResult<Shown> {
        let value = parse(row)?;
        let shown = with_coder(coder, |coder| py.detach(|| pipeline::preview(&self.inner, coder, &value)))?;
        let shown = shown.map_err(PyValueError::new_err)?;
        let spans = shown.spans.iter().map(|span| (span.start, span.end)).collect();
        let learned = shown.ids.iter().map(|id| id & SUPERVISED != 0).collect();
        Ok((shown.text, spans, shown.ids.iter().map(|id| id & !SUPERVISED).collect(), learned))
    }
}

/// Calls `work` with the coder that a Python argument stands for: a `Tokenizer`, or a callable.
pub fn with_coder<R>(argument: &Bound<'_, PyAny>, work: impl FnOnce(Coder<'_>) -> R) -> PyResult<R> {
    if let Ok(tokenizer) = argument.cast::<PyTokenizer>() {
        let tokenizer = Arc::clone(&tokenizer.get().inner);
        return Ok(work(Coder::Native(&tokenizer)));
    }
    if !argument.is_callable() {
        return Err(PyValueError::new_err("a tokenizer or a callable is needed"));
    }
    let callable = argument.clone().unbind();
    Ok(work(Coder::Oracle(&|texts| oracle::call(&callable, texts))))
}

pub fn parse(row: &str) -> PyResult<Value<'_>> {
    row_of_json(row).map_err(|error| PyValueError::new_err(error.to_string()))
}

pub fn in_json(value: &Value<'_>) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

fn role_and_content(message: &Value<'_>) -> (String, String) {
    let Value::Object(object) = message else { return (String::new(), message.as_words().into_owned()) };
    let field =
        |name: &str| object.present(name).map(|value| value.as_words().into_owned()).unwrap_or_default();
    (field("role"), field("content"))
}

fn train_on_of(word: &str) -> PyResult<TrainOn> {
    match word {
        "completions" => Ok(TrainOn::Completions),
        "assistant" => Ok(TrainOn::Assistant),
        "all" => Ok(TrainOn::All),
        other => Err(PyValueError::new_err(format!("train_on {other:?}"))),
    }
}

fn overlong_of(word: &str) -> PyResult<Overlong> {
    match word {
        "truncate" => Ok(Overlong::Truncate),
        "keep_end" => Ok(Overlong::KeepEnd),
        "split" => Ok(Overlong::Split),
        "drop" => Ok(Overlong::Drop),
        "error" => Ok(Overlong::Error),
        other => Err(PyValueError::new_err(format!("overlong {other:?}"))),
    }
}
