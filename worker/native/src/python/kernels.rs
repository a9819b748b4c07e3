//! The kernels on the memory of torch's tensors, which come as NumPy arrays that share it.

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::kernels::attention::{Gradients, Inputs, Output, Shape, bf16, fp32};
use crate::kernels::elementwise::{self, Angles};

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

#[pyfunction]
pub fn swiglu(
    py: Python<'_>,
    gate: PyBuffer<f32>,
    up: PyBuffer<f32>,
    out: PyBuffer<f32>,
    threads: usize,
) -> PyResult<()> {
    let (gate, up, out) = (read(&gate)?, read(&up)?, write(&out)?);
    demand(gate.len() == up.len() && gate.len() == out.len())?;
    py.detach(|| elementwise::swiglu(gate, up, out, threads));
    Ok(())
}

#[pyfunction]
pub fn swiglu_backward(
    py: Python<'_>,
    grad: PyBuffer<f32>,
    gate: PyBuffer<f32>,
    up: PyBuffer<f32>,
    to_gate: PyBuffer<f32>,
    to_up: PyBuffer<f32>,
    threads: usize,
) -> PyResult<()> {
    let (grad, gate, up) = (read(&grad)?, read(&gate)?, read(&up)?);
    let (to_gate, to_up) = (write(&to_gate)?, write(&to_up)?);
    demand([gate.len(), up.len(), to_gate.len(), to_up.len()].iter().all(|length| *length == grad.len()))?;
    py.detach(|| elementwise::swiglu_backward(grad, gate, up, to_gate, to_up, threads));
    Ok(())
}

#[pyfunction]
pub fn rms_norm(
    py: Python<'_>,
    x: PyBuffer<f32>,
    weight: PyBuffer<f32>,
    epsilon: f32,
    out: PyBuffer<f32>,
    scales: PyBuffer<f32>,
    threads: usize,
) -> PyResult<()> {
    let (x, weight, out, scales) = (read(&x)?, read(&weight)?, write(&out)?, write(&scales)?);
    demand(!weight.is_empty() && x.len() == out.len() && x.len() == scales.len() * weight.len())?;
    py.detach(|| elementwise::rms_norm(x, weight, epsilon, out, scales, threads));
    Ok(())
}

#[pyfunction]
pub fn rms_norm_backward(
    py: Python<'_>,
    grad: PyBuffer<f32>,
    x: PyBuffer<f32>,
    weight: PyBuffer<f32>,
    scales: PyBuffer<f32>,
    to_x: PyBuffer<f32>,
    threads: usize,
) -> PyResult<()> {
    let (grad, x, weight, scales) = (read(&grad)?, read(&x)?, read(&weight)?, read(&scales)?);
    let to_x = write(&to_x)?;
    let wanted = scales.len() * weight.len();
    demand(!weight.is_empty() && [grad.len(), x.len(), to_x.len()].iter().all(|length| *length == wanted))?;
    py.detach(|| elementwise::rms_norm_backward(grad, x, weight, scales, to_x, threads));
    Ok(())
}

/// `x` is [tokens, heads, width]; cosines and sines are [tokens, width / 2].
#[pyfunction]
pub fn rotate(
    py: Python<'_>,
    x: PyBuffer<f32>,
    cos: PyBuffer<f32>,
    sin: PyBuffer<f32>,
    direction: f32,
    out: PyBuffer<f32>,
    threads: usize,
) -> PyResult<()> {
    let [tokens, heads, width] = *x.shape() else { return demand(false) };
    let (x, cos, sin, out) = (read(&x)?, read(&cos)?, read(&sin)?, write(&out)?);
    let half = width / 2;
    demand(x.len() == out.len() && width % 2 == 0 && [cos.len(), sin.len()] == [tokens * half; 2])?;
    py.detach(|| elementwise::rotate(x, Angles { cos, sin }, heads, width, direction, out, threads));
    Ok(())
}

/// The sizes of queries [tokens, heads, width] and of keys and values [tokens, groups, width], compared with each other.
fn shape<'a, N: Element>(
    lengths: &'a [usize],
    queries: &PyBuffer<N>,
    others: [&PyBuffer<N>; 2],
    scale: f32,
) -> PyResult<Shape<'a>> {
    let [tokens, heads, width] = *queries.shape() else { return Err(unfit()) };
    let [_, groups, _] = *others[0].shape() else { return Err(unfit()) };
    let shape = Shape { lengths, heads, groups, width, scale };
    let fits = shape.tokens() == tokens && groups > 0 && heads % groups == 0 && width > 0;
    demand(fits && others.iter().all(|it| it.shape() == [tokens, groups, width]))?;
    Ok(shape)
}

/// The functions of attention for numbers of one kind.
macro_rules! attention {
    ($kind:ty, $of:ident, $attend:ident, $attend_backward:ident) => {
        /// Causal attention of each document; `log_sums` is [tokens, heads].
        #[pyfunction]
        pub fn $attend(
            py: Python<'_>,
            q: PyBuffer<$kind>,
            k: PyBuffer<$kind>,
            v: PyBuffer<$kind>,
            lengths: Vec<usize>,
            scale: f32,
            out: PyBuffer<$kind>,
            log_sums: PyBuffer<f32>,
            threads: usize,
        ) -> PyResult<()> {
            let shape = shape(&lengths, &q, [&k, &v], scale)?;
            let inputs = Inputs { queries: read(&q)?, keys: read(&k)?, values: read(&v)? };
            let result = Output { out: write(&out)?, log_sums: write(&log_sums)? };
            demand(result.out.len() == inputs.queries.len())?;
            demand(result.log_sums.len() == shape.tokens() * shape.heads)?;
            py.detach(|| $of::forward(shape, inputs, result, threads));
            Ok(())
        }

        /// The gradients of queries, keys and values.
        #[pyfunction]
        pub fn $attend_backward(
            py: Python<'_>,
            grad: PyBuffer<$kind>,
            q: PyBuffer<$kind>,
            k: PyBuffer<$kind>,
            v: PyBuffer<$kind>,
            out: PyBuffer<$kind>,
            log_sums: PyBuffer<f32>,
            lengths: Vec<usize>,
            scale: f32,
            to_q: PyBuffer<$kind>,
            to_k: PyBuffer<$kind>,
            to_v: PyBuffer<$kind>,
            threads: usize,
        ) -> PyResult<()> {
            let shape = shape(&lengths, &q, [&k, &v], scale)?;
            let inputs = Inputs { queries: read(&q)?, keys: read(&k)?, values: read(&v)? };
            let (grad, result) = (read(&grad)?, Output { out: read(&out)?, log_sums: read(&log_sums)? });
            let gradients = Gradients { queries: write(&to_q)?, keys: write(&to_k)?, values: write(&to_v)? };
            let of_queries = [grad.len(), result.out.len(), gradients.queries.len()];
            let of_keys = [gradients.keys.len(), gradients.values.len()];
            demand(of_queries.iter().all(|length| *length == inputs.queries.len()))?;
            demand(of_keys.iter().all(|length| *length == inputs.keys.len()))?;
            demand(result.log_sums.len() == shape.tokens() * shape.heads)?;
            py.detach(|| $of::backward(shape, inputs, result, grad, gradients, threads));
            Ok(())
        }
    };
}

attention!(f32, fp32, attend, attend_backward);
attention!(u16, bf16, attend_bf16, attend_bf16_backward);
