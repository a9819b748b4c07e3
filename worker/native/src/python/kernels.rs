//! The kernels on the memory of torch's tensors, which come as NumPy arrays that share it.

use std::ffi::CStr;

use pyo3::buffer::{Element, PyBuffer, PyUntypedBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::kernels::attention::{self, Gradients, Inputs, Output, Shape};
use crate::kernels::elementwise::{self, Angles};
use crate::kernels::head_loss;
use crate::kernels::number::Bf16;

// SAFETY: it is one whole number of 16 bits, as in NumPy, which lacks the format.
unsafe impl Element for Bf16 {
    fn is_compatible_format(format: &CStr) -> bool {
        u16::is_compatible_format(format)
    }
}

/// The numbers of a contiguous array, while `py` is detached.
fn read<N: Element>(array: &PyBuffer<N>) -> PyResult<&[N]> {
    if !array.is_c_contiguous() {
        return Err(PyValueError::new_err("an array is not contiguous"));
    }
    // SAFETY: contiguous, of this type and length; the caller's autograd function holds it and changes nothing meanwhile.
    Ok(unsafe { std::slice::from_raw_parts(array.buf_ptr().cast::<N>(), array.item_count()) })
}

/// The memory of a result.
#[allow(clippy::mut_from_ref)]
fn write<N: Element>(array: &PyBuffer<N>) -> PyResult<&mut [N]> {
    if !array.is_c_contiguous() || array.readonly() {
        return Err(PyValueError::new_err("a result is not contiguous or cannot be written"));
    }
    // SAFETY: as in `read`; a result is a new tensor, which nobody else sees yet.
    Ok(unsafe { std::slice::from_raw_parts_mut(array.buf_ptr().cast::<N>(), array.item_count()) })
}

fn unfit() -> PyErr {
    PyValueError::new_err("the sizes of the arrays do not fit each other")
}

fn demand(fits: bool) -> PyResult<()> {
    if fits { Ok(()) } else { Err(unfit()) }
}

/// An array in fp32 or bf16.
pub struct Array(PyUntypedBuffer);

impl FromPyObject<'_, '_> for Array {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        PyUntypedBuffer::get(&object).map(Self)
    }
}

impl Array {
    fn read<N: Element>(&self) -> PyResult<&[N]> {
        read(self.0.as_typed()?)
    }

    fn write<N: Element>(&self) -> PyResult<&mut [N]> {
        write(self.0.as_typed()?)
    }
}

/// Compiles `work` for both formats, as `N`, and takes that of `array`.
macro_rules! in_format_of {
    ($array:ident, $work:block) => {
        if $array.0.item_size() == size_of::<Bf16>() {
            type N = Bf16;
            $work
        } else {
            type N = f32;
            $work
        }
    };
}

#[pyfunction]
pub fn swiglu(py: Python<'_>, gate: Array, up: Array, out: Array, threads: usize) -> PyResult<()> {
    in_format_of!(gate, {
        let (gate, up, out) = (gate.read::<N>()?, up.read::<N>()?, out.write::<N>()?);
        demand(gate.len() == up.len() && gate.len() == out.len())?;
        py.detach(|| elementwise::swiglu(gate, up, out, threads));
    });
    Ok(())
}

#[pyfunction]
pub fn swiglu_backward(
    py: Python<'_>,
    grad: Array,
    gate: Array,
    up: Array,
    to_gate: Array,
    to_up: Array,
    threads: usize,
) -> PyResult<()> {
    in_format_of!(grad, {
        let (grad, gate, up) = (grad.read::<N>()?, gate.read::<N>()?, up.read::<N>()?);
        let (to_gate, to_up) = (to_gate.write::<N>()?, to_up.write::<N>()?);
        let lengths = [gate.len(), up.len(), to_gate.len(), to_up.len()];
        demand(lengths.iter().all(|length| *length == grad.len()))?;
        py.detach(|| elementwise::swiglu_backward(grad, gate, up, to_gate, to_up, threads));
    });
    Ok(())
}

#[pyfunction]
pub fn rms_norm(
    py: Python<'_>,
    x: Array,
    weight: Array,
    epsilon: f32,
    out: Array,
    scales: PyBuffer<f32>,
    threads: usize,
) -> PyResult<()> {
    let scales = write(&scales)?;
    in_format_of!(x, {
        let (x, weight, out) = (x.read::<N>()?, weight.read::<N>()?, out.write::<N>()?);
        demand(!weight.is_empty() && x.len() == out.len() && x.len() == scales.len() * weight.len())?;
        py.detach(|| elementwise::rms_norm(x, weight, epsilon, out, scales, threads));
    });
    Ok(())
}

#[pyfunction]
pub fn rms_norm_backward(
    py: Python<'_>,
    grad: Array,
    x: Array,
    weight: Array,
    scales: PyBuffer<f32>,
    to_x: Array,
    threads: usize,
) -> PyResult<()> {
    let scales = read(&scales)?;
    in_format_of!(grad, {
        let (grad, x, weight) = (grad.read::<N>()?, x.read::<N>()?, weight.read::<N>()?);
        let to_x = to_x.write::<N>()?;
        let wanted = scales.len() * weight.len();
        let lengths = [grad.len(), x.len(), to_x.len()];
        demand(!weight.is_empty() && lengths.iter().all(|length| *length == wanted))?;
        py.detach(|| elementwise::rms_norm_backward(grad, x, weight, scales, to_x, threads));
    });
    Ok(())
}

/// `x` is [tokens, heads, width]; cosines and sines are [tokens, width / 2].
#[pyfunction]
pub fn rotate(
    py: Python<'_>,
    x: Array,
    cos: Array,
    sin: Array,
    direction: f32,
    out: Array,
    threads: usize,
) -> PyResult<()> {
    let [tokens, heads, width] = *x.0.shape() else { return demand(false) };
    let half = width / 2;
    in_format_of!(x, {
        let (x, cos, sin, out) = (x.read::<N>()?, cos.read::<N>()?, sin.read::<N>()?, out.write::<N>()?);
        demand(x.len() == out.len() && width % 2 == 0 && [cos.len(), sin.len()] == [tokens * half; 2])?;
        py.detach(|| elementwise::rotate(x, Angles { cos, sin }, heads, width, direction, out, threads));
    });
    Ok(())
}

/// `logits` is [rows, words], in bf16.
#[pyfunction]
pub fn row_losses(
    py: Python<'_>,
    logits: PyBuffer<Bf16>,
    labels: PyBuffer<i64>,
    ignored: i64,
    want_grad: bool,
    losses: PyBuffer<f32>,
    threads: usize,
) -> PyResult<()> {
    let [rows, words] = *logits.shape() else { return demand(false) };
    let (logits, labels, losses) = (write(&logits)?, read(&labels)?, write(&losses)?);
    demand(words > 0 && [labels.len(), losses.len()] == [rows; 2])?;
    let known = |label: &i64| *label == ignored || usize::try_from(*label).is_ok_and(|label| label < words);
    if !labels.iter().all(known) {
        return Err(PyValueError::new_err("a label is not a word"));
    }
    py.detach(|| head_loss::row_losses(logits, labels, ignored, want_grad, losses, threads));
    Ok(())
}

/// The sizes of queries [tokens, heads, width] and of keys and values [tokens, groups, width], compared with each other.
fn shape<'a>(lengths: &'a [usize], queries: &Array, others: [&Array; 2], scale: f32) -> PyResult<Shape<'a>> {
    let [tokens, heads, width] = *queries.0.shape() else { return Err(unfit()) };
    let [_, groups, _] = *others[0].0.shape() else { return Err(unfit()) };
    let shape = Shape { lengths, heads, groups, width, scale };
    let fits = shape.tokens() == tokens && groups > 0 && heads % groups == 0 && width > 0;
    demand(fits && others.iter().all(|it| it.0.shape() == [tokens, groups, width]))?;
    Ok(shape)
}

/// Causal attention of each document; `log_sums` is [tokens, heads].
#[pyfunction]
pub fn attend(
    py: Python<'_>,
    q: Array,
    k: Array,
    v: Array,
    lengths: Vec<usize>,
    scale: f32,
    out: Array,
    log_sums: PyBuffer<f32>,
    threads: usize,
) -> PyResult<()> {
    let shape = shape(&lengths, &q, [&k, &v], scale)?;
    let log_sums = write(&log_sums)?;
    in_format_of!(q, {
        let inputs = Inputs { queries: q.read::<N>()?, keys: k.read()?, values: v.read()? };
        let result = Output { out: out.write::<N>()?, log_sums };
        demand(result.out.len() == inputs.queries.len())?;
        demand(result.log_sums.len() == shape.tokens() * shape.heads)?;
        py.detach(|| attention::forward(shape, inputs, result, threads));
    });
    Ok(())
}

/// The gradients of queries, keys and values.
#[pyfunction]
pub fn attend_backward(
    py: Python<'_>,
    grad: Array,
    q: Array,
    k: Array,
    v: Array,
    out: Array,
    log_sums: PyBuffer<f32>,
    lengths: Vec<usize>,
    scale: f32,
    to_q: Array,
    to_k: Array,
    to_v: Array,
    threads: usize,
) -> PyResult<()> {
    let shape = shape(&lengths, &q, [&k, &v], scale)?;
    let log_sums = read(&log_sums)?;
    in_format_of!(q, {
        let inputs = Inputs { queries: q.read::<N>()?, keys: k.read()?, values: v.read()? };
        let (grad, result) = (grad.read::<N>()?, Output { out: out.read::<N>()?, log_sums });
        let gradients = Gradients { queries: to_q.write::<N>()?, keys: to_k.write()?, values: to_v.write()? };
        let of_queries = [grad.len(), result.out.len(), gradients.queries.len()];
        let of_keys = [gradients.keys.len(), gradients.values.len()];
        demand(of_queries.iter().all(|length| *length == inputs.queries.len()))?;
        demand(of_keys.iter().all(|length| *length == inputs.keys.len()))?;
        demand(result.log_sums.len() == shape.tokens() * shape.heads)?;
        py.detach(|| attention::backward(shape, inputs, result, grad, gradients, threads));
    });
    Ok(())
}
